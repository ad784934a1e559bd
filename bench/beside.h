/* beside.h: another kernel of the same layer, timed in the same rounds: the spec's cheaper activation
 *
 * It has outputs and scratch of its own; packed weights serve both. */
#ifndef BENCH_BESIDE_H
#define BENCH_BESIDE_H

#include "layer.h"

typedef struct bench_beside {
    const ffn_kernel *kernel; /* prepared for n; NULL: takes no part */
    ffn_args args;            /* packed changes with each call */
} bench_beside;

/* Buffers like those of `args`, for a team of `size`. */
ffn_status bench_beside_open(const ffn_kernel *kernel, const ffn_args *args, int size, bench_beside *beside,
                             ffn_diag *diag);
void bench_beside_clear(bench_beside *beside);

#endif
