/* support_data.h: seeds -> values, weights and packed blocks for tests; buffers that end (or begin) at an unmapped page
 *
 * The same seed gives the same bits on every machine: integer arithmetic and exact float operations only. What cannot
 * be had (memory, a spec that does not parse) ends the test with a message: these are mistakes of the test, not
 * results. */
#ifndef SUPPORT_DATA_H
#define SUPPORT_DATA_H

#include "ffn.h"

/* splitmix64 */
typedef struct support_rng {
    uint64_t state;
} support_rng;
uint64_t support_next(support_rng *rng);
/* Uniform in low .. high, both included. */
int64_t support_between(support_rng *rng, int64_t low, int64_t high);
/* Mean 0, variance 1, the sum of four uniforms: |value| < 3.5. */
float support_normal(support_rng *rng);

void support_fill_normal(float *values, int64_t count, float scale, uint64_t seed);
void support_fill_nan(float *values, int64_t count);

/* How values are made.
 *   NORMAL      independent; weights scaled so that hidden values and outputs are of order 1
 *   CANCELLING  of weights and x of this kind: the terms of each sum are about 1000 times its result. Neighbours of x
 *               are opposite where the rows of W_up and W_gate are equal but for a thousandth; columns 2i and 2i + 1 of
 *               those are equal, and so are their hidden values, where the rows of W_down are opposite but for a
 *               thousandth. */
typedef enum support_kind { SUPPORT_NORMAL, SUPPORT_CANCELLING } support_kind;

/* [n][d_model] at stride ldx; what lies between d_model and ldx is left alone. */
void support_fill_x(float *x, int64_t n, int64_t d_model, int64_t ldx, support_kind kind, uint64_t seed);

/* Dense [in, out] matrices, gate and up separate, the biases the spec names. */
typedef struct support_weights {
    ffn_weights weights; /* what the library takes; points at the arrays below */
    float *up, *gate, *down, *bias_up, *bias_gate, *bias_down;
} support_weights;
support_weights *support_random_weights(const ffn_spec *spec, support_kind kind, uint64_t seed);
void support_weights_free(support_weights *weights);

ffn_spec support_spec(const char *text);
/* A packed block, aligned; free() it. */
void *support_packed(const ffn_spec *spec, const ffn_weights *weights);
/* `bytes` at a 64-byte aligned address; free() it. */
void *support_aligned(size_t bytes);

/* `bytes` readable and writable bytes with an unmapped page right behind the last (at_end) or right before the first.
 * Aligned to 64 if not at_end or if bytes is a multiple of 64. Filled with 0xff: floats are NaN. */
void *support_guarded(size_t bytes, bool at_end);
void support_guarded_free(void *buffer, size_t bytes);

#endif
