/* beside.c: see beside.h */
#include "beside.h"

#include "diag.h"

ffn_status bench_beside_open(const ffn_kernel *kernel, const ffn_args *args, int size, bench_beside *beside,
                             ffn_diag *diag) {
    size_t bytes = ffn_work_scratch_bytes(kernel, args->n, size);
    *beside = (bench_beside){.kernel = kernel, .args = *args};
    beside->args.y = bench_alloc((size_t)(args->n * args->ldy) * sizeof(float));
    beside->args.scratch = bench_alloc(bytes);
    beside->args.scratch_bytes = bytes;
    if (!beside->args.y || !beside->args.scratch)
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for %lld rows of y", (long long)args->n);
    return FFN_OK;
}

void bench_beside_clear(bench_beside *beside) {
    bench_free(beside->args.y);
    bench_free(beside->args.scratch);
    *beside = (bench_beside){.kernel = NULL};
}
