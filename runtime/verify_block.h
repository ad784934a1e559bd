/* verify_block.h: the synthetic weights and inputs that verification runs code on
 *
 * A kernel reads its whole packed block, which may be larger than memory. So a block up to VERIFY_DENSE_BYTES is
 * filled in full, and a larger one reads as zero, at no cost of memory, wherever nothing is written: every panel then
 * holds weights in a few runs of rows only, some panels none, some all. The same struct says for every panel which
 * rows those are. The panels that hold none differ from pass to pass: in all passes together none is left out. */
#ifndef FFN_VERIFY_BLOCK_H
#define FFN_VERIFY_BLOCK_H

#include "kernel_code.h"
#include "verify_memory.h"

#define VERIFY_DENSE_BYTES (INT64_C(12) << 20)
#define VERIFY_PROBE_ROWS 64

typedef struct verify_block {
    const kernel_shape *shape;
    char *packed;
    bool sampled; /* larger than VERIFY_DENSE_BYTES */
    bool probes;  /* a small block rewritten by verify_block_probe */
    int64_t pass;
    verify_memory memory;
} verify_block;

/* Rows of one panel that hold weights: `count` runs of `rows` rows, `step` apart, cut off at the panel's end. */
typedef struct verify_rows {
    int64_t first, rows, step, count;
    bool full; /* every weight of the panel is there; else each column has few */
} verify_rows;

/* Full if that fits, else sampled. `pass` is 0 .. verify_block_passes - 1. OUT_OF_MEMORY. */
ffn_status verify_block_make(const kernel_shape *shape, int64_t pass, verify_block *block, ffn_diag *diag);
/* How many sampled blocks it takes for every panel to hold weights in one of them; 1 of a full block. */
int64_t verify_block_passes(const kernel_shape *shape);
/* Rewrites a full block: one weight a column of the expand stage; one or more a row and a column of the contract stage.
 */
void verify_block_probe(verify_block *block);
/* -0 for all biases of these columns of y, or what they were before. */
void verify_block_bias_down(verify_block *block, int64_t begin, int64_t end, bool minus_zero);
void verify_block_free(verify_block *block);

verify_rows verify_block_up(const verify_block *block, int64_t panel);
verify_rows verify_block_down(const verify_block *block, int64_t panel);

/* Panels of the expand stage (its gate or up half) and of the contract stage. */
const float *verify_block_up_panel(const verify_block *block, int64_t panel, bool gate);
const float *verify_block_down_panel(const verify_block *block, int64_t panel);

/* Distinct input rows: ordinary, the same negated, of widely different magnitudes, and large ones. */
#define VERIFY_INPUTS 4
/* How many of them are used: all, but the first alone where the two sizes add up to more than VERIFY_VAST_DIM. */
#define VERIFY_VAST_DIM (INT64_C(1) << 18)
int verify_inputs(const kernel_shape *shape);
void verify_input(const kernel_shape *shape, int row, float *x);

/* Which of the inputs stands in row i of a run. Not periodic, so that no wrong row looks like a right one. */
int verify_input_of(int64_t i);

/* A number in -1 .. 1 that depends on `index` alone. */
float verify_noise(uint64_t index);

#endif
