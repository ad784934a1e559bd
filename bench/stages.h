/* stages.h: a kernel that counts the time of its stages -> the shares of the time of the one that does not
 *
 * It is one of the contenders of a case, with outputs and scratch of its own, on one thread. */
#ifndef BENCH_STAGES_H
#define BENCH_STAGES_H

#include "layer.h"

#include <stdbool.h>

typedef enum bench_part { BENCH_EXPAND, BENCH_ACTIVATE, BENCH_CONTRACT, BENCH_REST, BENCH_PARTS } bench_part;

/* Of each of the first three parts, int64_t in scratch: ticks of the CPU's counter of time, no more than BENCH_MOST of
 * a reading; all of them; how many readings. The kernel adds to those and reads BENCH_MOST. */
typedef enum bench_word { BENCH_SPENT, BENCH_WHOLE, BENCH_READINGS, BENCH_MOST, BENCH_WORDS } bench_word;

typedef struct bench_stages_kernel {
    const ffn_kernel *kernel; /* prepared for n */
    size_t words;             /* bytes from the start of scratch; the kernel asks for less */
} bench_stages_kernel;

typedef struct bench_stages {
    bench_layer *layer;
    bench_stages_kernel of; /* kernel NULL: takes no part */
    ffn_args args;
    int64_t most[BENCH_REST];  /* of a reading; what is longer was interrupted */
    int64_t open[BENCH_PARTS]; /* ticks of the calls of a sample that is not complete */
    int64_t open_total, open_calls, samples;
    double ticks[BENCH_PARTS]; /* of one call, the least of the samples for each part */
} bench_stages;

/* Buffers for a kernel like that of `args`, and the first call: its y, [n][d_model] at args->ldy, must have the bits of
 * args->y. */
ffn_status bench_stages_open(const bench_stages_kernel *of, bench_layer *layer, const ffn_args *args,
                             bench_stages *stages, ffn_diag *diag);
void bench_stages_clear(bench_stages *stages);
/* One run; self is the stages. */
void bench_stages_call(void *self);
/* Of the time of a call, the sum is 1. */
void bench_stages_shares(bench_stages *stages, double shares[BENCH_PARTS]);

#endif
