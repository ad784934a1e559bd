/* dense.c: see dense.h */
#include "dense.h"

#include "diag.h"

static void count_zeros(const float *hidden, int64_t stride, int64_t rows, int64_t columns,
                        bench_dense_report *report) {
    int64_t values = 0, whole = 0;
    for (int64_t f = 0; f < columns; f++) {
        int64_t zeros = 0;
        for (int64_t r = 0; r < rows; r++)
            zeros += hidden[r * stride + f] == 0;
        values += zeros;
        whole += zeros == rows;
    }
    report->zeros = (double)values / (double)(rows * columns);
    report->zero_columns = (double)whole / (double)columns;
}

static ffn_status digest(const ffn_kernel *kernel, const ffn_args *args, int64_t d_model, uint64_t *bits,
                         ffn_diag *diag) {
    ffn_status status = ffn_kernel_run(kernel, args, diag);
    *bits = ffn_digest(args->y, args->n, d_model, args->ldy);
    return status;
}

ffn_status bench_dense_compare(const bench_layer *layer, const ffn_kernel *kernel, const ffn_kernel *dense,
                               const ffn_args *args, bench_dense_report *report, ffn_diag *diag) {
    const int64_t d_model = layer->spec.d_model, d_ff = layer->spec.d_ff;
    const size_t hidden_bytes = ffn_kernel_hidden_bytes(kernel);
    ffn_args first = *args;
    uint64_t bits = 0, dense_bits = 0;
    first.packed = layer->packed.base;
    first.n = args->n < FFN_STAGE_ROWS_MAX ? args->n : FFN_STAGE_ROWS_MAX;
    float *hidden = bench_alloc(hidden_bytes);
    if (!hidden)
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for %zu bytes of hidden values", hidden_bytes);
    ffn_status status = ffn_kernel_expand(kernel, &first, hidden, 0, d_ff, diag);
    if (!status)
        count_zeros(hidden, (int64_t)(hidden_bytes / sizeof(float)) / FFN_STAGE_ROWS_MAX, first.n, d_ff, report);
    bench_free(hidden);
    first.n = args->n;
    status = status ? status : digest(kernel, &first, d_model, &bits, diag);
    status = status ? status : digest(dense, &first, d_model, &dense_bits, diag);
    if (!status && bits != dense_bits)
        status = diag_fail(diag, FFN_VERIFY_FAILED, "n = %lld: other bits where zeros in h are multiplied too",
                           (long long)args->n);
    return status;
}
