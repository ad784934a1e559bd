/* stages.c: see stages.h
 *
 * The counter of time runs on while the system has given the core to someone else, for milliseconds, which falls on any
 * part. A part is read in pieces of microseconds, so what is far longer than its mean was interrupted and counts no
 * more than a long one; and of each part the least of many samples is taken, as of the times of bench. */
#include "stages.h"

#include "diag.h"

#include <string.h>

#define SAMPLE_TICKS 1000000 /* a fraction of a millisecond where the counter is that of the cycles */
#define MOST 8               /* times the mean of the readings of a part */

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

static void close_sample(bench_stages *s) {
    for (int part = 0; part < BENCH_PARTS; part++) {
        double ticks = (double)s->open[part] / (double)s->open_calls;
        s->ticks[part] = s->samples && s->ticks[part] < ticks ? s->ticks[part] : ticks;
        s->open[part] = 0;
    }
    s->open_total = 0;
    s->open_calls = 0;
    s->samples++;
}

void bench_stages_call(void *self) {
    bench_stages *s = self;
    int64_t(*words)[BENCH_WORDS] = (int64_t(*)[BENCH_WORDS])((char *)s->args.scratch + s->of.words);
    for (int part = 0; part < BENCH_REST; part++) {
        memset(words[part], 0, sizeof words[part]);
        words[part][BENCH_MOST] = s->most[part];
    }
    s->args.packed = bench_copies_turn(&s->layer->packed);
    uint64_t begin = ticks_now();
    ffn_kernel_run(s->of.kernel, &s->args, NULL);
    int64_t rest = (int64_t)(ticks_now() - begin);
    s->open_total += rest;
    for (int part = 0; part < BENCH_REST; part++) {
        const int64_t *word = words[part];
        int64_t most = word[BENCH_READINGS] ? MOST * word[BENCH_SPENT] / word[BENCH_READINGS] : 0;
        s->most[part] = most > 0 && most < s->most[part] ? most : s->most[part];
        s->open[part] += word[BENCH_SPENT];
        rest -= word[BENCH_WHOLE];
    }
    s->open[BENCH_REST] += rest > 0 ? rest : 0;
    s->open_calls++;
    if (s->open_total >= SAMPLE_TICKS)
        close_sample(s);
}

ffn_status bench_stages_open(const bench_stages_kernel *of, bench_layer *layer, const ffn_args *args,
                             bench_stages *stages, ffn_diag *diag) {
    size_t row_bytes = (size_t)(args->n * args->ldy) * sizeof(float), scratch_bytes = args->scratch_bytes;
    size_t bytes = ffn_kernel_scratch_bytes(of->kernel), end = of->words + BENCH_REST * BENCH_WORDS * sizeof(int64_t);
    scratch_bytes = bytes > scratch_bytes ? bytes : scratch_bytes;
    scratch_bytes = end > scratch_bytes ? end : scratch_bytes;
    *stages = (bench_stages){.layer = layer, .of = *of, .args = *args, .most = {INT64_MAX, INT64_MAX, INT64_MAX}};
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

void bench_stages_shares(bench_stages *stages, double shares[BENCH_PARTS]) {
    double sum = 0;
    if (!stages->samples && stages->open_calls)
        close_sample(stages);
    for (int part = 0; part < BENCH_PARTS; part++)
        sum += stages->ticks[part];
    for (int part = 0; part < BENCH_PARTS; part++)
        shares[part] = sum > 0 ? stages->ticks[part] / sum : 0;
}
