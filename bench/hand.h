/* hand.h: a layer's arithmetic, reading and writing by loops written by hand, with much in their favour
 *
 * What a kernel could reach at most if it were nothing but its products: tiles in assembly, x and h laid out for them
 * beforehand, no biases, no checks, no order of sums to keep. The activation is the kernel's own, over values that stay
 * in L1. They read every weight of the packed block in the kernel's own way, panel by panel, expand and contract stage
 * in turn over blocks of hidden columns, and write as much as it does: the sums of the expand stage once, y once a
 * block. What comes out is no y. On one thread, with AVX2 or AVX-512. */
#ifndef BENCH_HAND_H
#define BENCH_HAND_H

#include "hand_sweep.h"
#include "layer.h"
#include "packed.h"
#include "rounds.h"

#include <stdbool.h>

/* One way to go. */
typedef struct bench_hand_way {
    int64_t rows, hidden, terms; /* of a block: rows of x, hidden columns, terms of the expand stage */
    int64_t chunk;               /* of terms: see hand_sweep.h */
    hand_tiles tiles;
    hand_ahead ahead;
} bench_hand_way;

typedef struct bench_hand {
    bench_layer *layer;
    const ffn_kernel *kernel; /* of the activation; NULL: takes no part */
    ffn_isa isa;              /* of the loops */
    packed_layout layout;
    bench_hand_way way;
    int64_t n;
    float *x, *h, *up, *y; /* x and h hold values that are not zero; what the expand stage writes goes to `up` */
    int64_t ldy;           /* floats from row to row */
    float *values;         /* 3 x `values_count`: of the activation */
    int64_t values_count;
} bench_hand;

/* Buffers, and the fastest of the ways that there are, by a few samples of each. `values` are of bench_fill, for the
 * activation: two inputs and an output of `values_count` each. `isa`: of the kernel's code. UNSUPPORTED, with the
 * reason, where this ISA or shape has no such loops. */
ffn_status bench_hand_open(bench_layer *layer, const ffn_kernel *kernel, ffn_isa isa, int64_t n, float *values,
                           int64_t values_count, bench_hand *hand, ffn_diag *diag);
void bench_hand_clear(bench_hand *hand);
/* One run; self is the bench_hand. */
void bench_hand_call(void *self);

#endif
