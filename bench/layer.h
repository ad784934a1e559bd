/* layer.h: the weights of one FFN, as every contender wants them
 *
 * One set of values in three forms: packed for the kernels, and plain dense matrices in both orientations, from
 * which a BLAS may choose. Copies of each form keep the weights cold where that is asked for. */
#ifndef BENCH_LAYER_H
#define BENCH_LAYER_H

#include "buffers.h"
#include "ffn.h"

typedef enum bench_product { BENCH_UP, BENCH_GATE, BENCH_DOWN, BENCH_PRODUCTS } bench_product;

typedef struct bench_layer {
    ffn_spec spec;
    bool gated;
    size_t packed_bytes;
    int64_t weight_bytes;              /* of the true sizes, biases included: to be read at least once */
    bench_copies packed;               /* blocks for ffn_args */
    bench_copies plain;                /* blocks of floats: the parts below, as offsets in elements */
    int64_t matrix[BENCH_PRODUCTS][2]; /* by ffn_layout, dense */
    int64_t bias[BENCH_PRODUCTS];      /* zeros where the spec has none */
} bench_layer;

/* `weights` NULL: seeded values, scaled so that the hidden values are of the order of one. `cold`: as many copies
 * as it takes to be out of the caches of `machine` before a copy's turn comes again. */
ffn_status bench_layer_create(const ffn_spec *spec, const ffn_weights *weights, bool cold, const ffn_machine *machine,
                              bench_layer *layer, ffn_diag *diag);
void bench_layer_destroy(bench_layer *layer);

/* The first copy, for callers that pack or check by themselves; points into the layer. */
ffn_weights bench_layer_weights(const bench_layer *layer);

#endif
