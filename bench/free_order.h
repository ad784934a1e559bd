/* free_order.h: kernels of one layer that need not keep the order of sums -> the fastest of those that are right
 *
 * It is then one of the contenders of a case, with outputs and scratch of its own, on one thread. */
#ifndef BENCH_FREE_ORDER_H
#define BENCH_FREE_ORDER_H

#include "layer.h"
#include "oracle.h"
#include "rounds.h"

#define BENCH_FREE_MAX 16

typedef struct bench_free_kernels {
    const ffn_kernel *list[BENCH_FREE_MAX]; /* prepared for n */
    int count;
} bench_free_kernels;

typedef struct bench_free_order {
    bench_layer *layer;
    const ffn_kernel *kernel; /* the chosen one; NULL: none was right */
    ffn_args args;
    int chosen;       /* its place in the list */
    double max_error; /* of its output, as bench_oracle_error */
    double bound;     /* errors beyond it are wrong */
} bench_free_order;

/* Compares each with the oracle, and times for a moment those within `bound`. */
ffn_status bench_free_order_choose(const bench_free_kernels *kernels, const bench_oracle *oracle, const ffn_args *args,
                                   bench_clock clock, bench_free_order *order, ffn_diag *diag);
void bench_free_order_clear(bench_free_order *order);
/* One run of the chosen kernel; self is the order. */
void bench_free_order_call(void *self);

#endif
