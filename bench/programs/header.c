/* header.c: the kernels of an emitted header against those that libffn compiles, with the same plans, in one process
 *
 *     bench_header [ROUNDS]
 *
 * Both sides are planned for the ISA's fixed machine. They take turns, and each round gives a ratio of its own, so that
 * what else the machine does falls on both; the same kernel against itself shows what such a ratio is worth. */
#define _GNU_SOURCE
#include <ffn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench_layer.h"

enum { D = BENCH_LAYER_D_MODEL, F = BENCH_LAYER_D_FF, ROWS_MAX = 128, ROUNDS_MAX = 1001 };

static ffn_diag diag;

static void check(int status, const char *what) {
    if (status != 0) {
        fprintf(stderr, "bench_header: %s: status %d: %s\n", what, status, diag.text);
        exit(1);
    }
}

static void *aligned(size_t bytes) {
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (memory == NULL) {
        fputs("bench_header: out of memory\n", stderr);
        exit(1);
    }
    memset(memory, 0, (bytes + 63) / 64 * 64);
    return memory;
}

static float *random_floats(size_t count) {
    static uint32_t state = 1;
    float *values = aligned(count * sizeof *values);
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525U + 1013904223U;
        values[i] = (float)((int32_t)(state >> 16) - 32768) * 0x1p-18F;
    }
    return values;
}

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* ---- The two sides ---- */

static const ffn_kernel *jit;
static ffn_args args;

static void run_jit(void) {
    check((int)ffn_kernel_run(jit, &args, NULL), "ffn_kernel_run");
}

static void run_header(void) {
    const bench_layer_args same = {args.n,   args.x,      args.ldx,     args.y,
                                   args.ldy, args.packed, args.scratch, args.scratch_bytes};
    check(bench_layer_run(&same), "bench_layer_run");
}

static double us_of(void (*run)(void), int calls) {
    double began = now_us();
    for (int i = 0; i < calls; i++)
        run();
    return (now_us() - began) / calls;
}

/* Rounds of both, taking turns at being first -> the sorted times and ratios. */
typedef struct rounds {
    double first[ROUNDS_MAX], second[ROUNDS_MAX], ratio[ROUNDS_MAX];
} rounds;

static void measure(void (*first)(void), void (*second)(void), int calls, int count, rounds *to) {
    us_of(first, calls);
    us_of(second, calls);
    for (int r = 0; r < count; r++) {
        if (r % 2)
            to->first[r] = us_of(first, calls);
        to->second[r] = us_of(second, calls);
        if (r % 2 == 0)
            to->first[r] = us_of(first, calls);
        to->ratio[r] = to->first[r] / to->second[r];
    }
    qsort(to->first, (size_t)count, sizeof(double), by_value);
    qsort(to->second, (size_t)count, sizeof(double), by_value);
    qsort(to->ratio, (size_t)count, sizeof(double), by_value);
}

int main(int argc, char **argv) {
    static const int64_t sizes[] = {1, 4, 16, 128};
    static rounds pair, self;
    int count = argc > 1 ? atoi(argv[1]) : 101;
    if (argc > 2 || count < 1 || count > ROUNDS_MAX) {
        fputs("usage: bench_header [ROUNDS]\n", stderr);
        return 2;
    }
    ffn_spec spec;
    ffn_machine machine;
    ffn_context *context;
    ffn_kernel *kernel;
    check((int)ffn_spec_parse(BENCH_LAYER_SPEC, &spec, &diag), "ffn_spec_parse");
    check((int)ffn_machine_generic(ffn_isa_best(), &machine, &diag), "ffn_machine_generic");
    check((int)ffn_context_create(&(ffn_options){.store = "", .machine = &machine}, &context, &diag), "create");
    check((int)ffn_kernel_create(context, &spec, &kernel, &diag), "ffn_kernel_create");
    jit = kernel;

    const ffn_weights weights = {.up = {.data = random_floats((size_t)D * F)},
                                 .down = {.data = random_floats((size_t)D * F)},
                                 .bias_up = random_floats(F),
                                 .bias_down = random_floats(D)};
    void *packed = aligned(BENCH_LAYER_PACKED_BYTES);
    check((int)ffn_pack(&spec, &weights, packed, BENCH_LAYER_PACKED_BYTES, &diag), "ffn_pack");
    float *y = aligned(ROWS_MAX * D * sizeof *y);
    args = (ffn_args){0, random_floats((size_t)ROWS_MAX * D), D, y, D, packed, NULL, 0};

    printf("%s, %s, microseconds of %d rounds\n", BENCH_LAYER_SPEC, bench_layer_isa(), count);
    printf("%4s %10s %10s %10s %10s   %-24s %s\n", "n", "header", "median", "libffn", "median", "ratio min median max",
           "libffn over itself");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        check((int)ffn_kernel_prepare(kernel, sizes[i], &diag), "ffn_kernel_prepare");
        args.n = sizes[i];
        args.scratch_bytes = ffn_kernel_scratch_bytes(kernel);
        if (args.scratch_bytes < BENCH_LAYER_SCRATCH_BYTES)
            args.scratch_bytes = BENCH_LAYER_SCRATCH_BYTES;
        args.scratch = aligned(args.scratch_bytes);
        run_jit();
        uint64_t bits = ffn_digest(y, args.n, D, D);
        memset(y, 0, ROWS_MAX * D * sizeof *y);
        run_header();
        if (ffn_digest(y, args.n, D, D) != bits) {
            fprintf(stderr, "bench_header: n=%d: not the same bits\n", (int)args.n);
            return 1;
        }
        int calls = sizes[i] < 16 ? 4 : 1;
        measure(run_header, run_jit, calls, count, &pair);
        measure(run_jit, run_jit, calls, count, &self);
        int middle = count / 2;
        printf("%4d %10.1f %10.1f %10.1f %10.1f   %.3f %.3f %-12.3f %.3f %.3f %.3f\n", (int)args.n, pair.first[0],
               pair.first[middle], pair.second[0], pair.second[middle], pair.ratio[0], pair.ratio[middle],
               pair.ratio[count - 1], self.ratio[0], self.ratio[middle], self.ratio[count - 1]);
        free(args.scratch);
    }
    ffn_kernel_destroy(kernel);
    ffn_context_destroy(context);
    return 0;
}
