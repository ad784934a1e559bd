/* stages.c: see stages.h
 *
 * The counters run on while the system has given the core to someone else, so calls that took longer than the fastest
 * are left out. */
#include "stages.h"

#include "diag.h"

#include <string.h>

/* What the kernel's own counters count. */
static uint64_t ticks_now(void) {
#if defined(__x86_64__)
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high) : : "memory");
    return (uint64_t)high << 32 | low;
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks) : : "memory");
    return ticks;
#else
    return 0; /* no code is generated for such a CPU */
#endif
}

void bench_stages_call(void *self) {
    bench_stages *s = self;
    uint64_t *counters = (uint64_t *)((char *)s->args.scratch + s->of.counters);
    memset(counters, 0, BENCH_REST * sizeof *counters);
    s->args.packed = bench_copies_turn(&s->layer->packed);
    uint64_t begin = ticks_now();
    ffn_kernel_run(s->of.kernel, &s->args, NULL);
    uint64_t total = ticks_now() - begin, counted = 0;
    if (!s->reference || total < s->reference - s->reference / 10) {
        s->reference = total;
        memset(s->ticks, 0, sizeof s->ticks);
    }
    if (total > s->reference + s->reference / 10)
        return;
    for (int part = 0; part < BENCH_REST; part++) {
        s->ticks[part] += counters[part];
        counted += counters[part];
    }
    s->ticks[BENCH_REST] += counted < total ? total - counted : 0;
}

ffn_status bench_stages_open(const bench_stages_kernel *of, bench_layer *layer, const ffn_args *args,
                             bench_stages *stages, ffn_diag *diag) {
    size_t row_bytes = (size_t)(args->n * args->ldy) * sizeof(float), scratch_bytes = args->scratch_bytes;
    size_t bytes = ffn_kernel_scratch_bytes(of->kernel), end = of->counters + BENCH_REST * sizeof(uint64_t);
    scratch_bytes = bytes > scratch_bytes ? bytes : scratch_bytes;
    scratch_bytes = end > scratch_bytes ? end : scratch_bytes;
    *stages = (bench_stages){.layer = layer, .of = *of, .args = *args};
    stages->args.y = bench_alloc(row_bytes);
    stages->args.scratch = bench_alloc(scratch_bytes);
    stages->args.scratch_bytes = scratch_bytes;
    if (!stages->args.y || !stages->args.scratch)
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for %lld rows of y", (long long)args->n);
    bench_stages_call(stages);
    if (memcmp(stages->args.y, args->y, row_bytes) != 0)
        return diag_fail(diag, FFN_VERIFY_FAILED, "n = %lld: the kernel that counts its stages gives other bits",
                         (long long)args->n);
    return FFN_OK;
}

void bench_stages_clear(bench_stages *stages) {
    bench_free(stages->args.y);
    bench_free(stages->args.scratch);
    *stages = (bench_stages){.layer = NULL};
}

void bench_stages_shares(const bench_stages *stages, double shares[BENCH_PARTS]) {
    double sum = 0;
    for (int part = 0; part < BENCH_PARTS; part++)
        sum += (double)stages->ticks[part];
    for (int part = 0; part < BENCH_PARTS; part++)
        shares[part] = sum > 0 ? (double)stages->ticks[part] / sum : 0;
}
