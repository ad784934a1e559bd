/* tile.h: the register-blocked micro-tile, the one piece of code where the time goes
 *
 * C[mr][columns] = init + A[mr][k] B[k][columns], every element one chain of fused multiply-adds in order of k. The
 * code exists once; everything that differs between ISAs, heights, widths and stages is a field of tile_shape. */
#ifndef FFNGEN_TILE_H
#define FFNGEN_TILE_H

#include "formula.h"
#include "ir.h"

typedef struct tile_shape {
    int32_t mr;                      /* rows */
    int32_t panels;                  /* panels of 16 columns side by side */
    int32_t k_step;                  /* chains of the stage: consecutive terms of one chain are this far apart */
    int32_t chains;                  /* chains held in registers at once; divides k_step */
    int32_t sums;                    /* free order: partial sums of the one chain, which terms go to in turn; else 1 */
    int64_t plane_stride;            /* floats between the chains' parts of init and c, where chains > 1 */
    int32_t unroll;                  /* terms of each chain in one turn of the loop */
    bool whole_turns;                /* the terms are always a multiple of unroll: no loop for the rest */
    bool fetches;                    /* it is told where to prefetch, whether it does or not */
    int32_t prefetch;                /* lines of each next panel fetched in one turn; 0: none */
    int32_t streams;                 /* next panels that are fetched side by side: memory likes several streams */
    ir_cache prefetch_to;            /* L1 where what is fetched is used soon and fits there */
    int32_t ahead;                   /* lines ahead of its own place in B that a tile prefetches; 0: it does not */
    bool fetch_soon;                 /* C comes from beyond the second-level cache: use TILE_SOON */
    const formula_graph *activation; /* applied in registers before the store; NULL: not */
    bool add_zero;                   /* the last addition of +0 before y is stored */
    bool interleaved;                /* rows of A as interleave.h has them */
    bool told;                       /* both stages run this tile: TILE_LAST says whose sums these are */
} tile_shape;

/* What a tile function is given: parameters, as many as there are registers for, then words of the frame, which change
 * less often. */
typedef enum tile_parameter {
    TILE_A,     /* row 0, first term */
    TILE_B,     /* first panel, first term */
    TILE_C,     /* where the result goes; row 0 */
    TILE_INIT,  /* where the chains start: the bias, or C itself */
    TILE_SOON,  /* the C of the tile that runs next: fetched while this one runs, since its sums start from there */
    TILE_FRAME, /* the words */
    TILE_NEXT,  /* where to prefetch in the next first panel; only where it fetches (then k_step is 1) */
    TILE_PASSED,
    TILE_LDA = TILE_PASSED, /* floats between rows of A; interleaved: rows of the row tile */
    TILE_LDC,               /* floats between rows of C */
    TILE_LDI,               /* floats between rows of init; 0 gives every row the bias */
    TILE_K,                 /* terms of every chain */
    TILE_STRIDE,            /* floats between panels of B */
    TILE_LAST,              /* where the shape is told: not 0 adds +0, 0 applies the activation */
    TILE_TAIL,              /* chains (the first ones) that have one term more; only where chains > 1 */
    TILE_NEXT_STEP,         /* floats to go on in the next panel after each turn, for each panel of the tile */
    TILE_PARAMETERS_MAX
} tile_parameter;

/* Bytes from the frame to a word, an i64. */
static inline int64_t tile_word(tile_parameter word) {
    return ((int64_t)word - TILE_PASSED) * 8;
}

int32_t tile_parameters(const tile_shape *shape);
LLVMValueRef tile_function(ir *g, const char *name, const tile_shape *shape);

#endif
