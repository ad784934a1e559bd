/* sparse_tile.h: the micro-tile of tile.h over a list of terms
 *
 * C[rows][columns] = init + the sum over k in the list of A[rows][k] B[k][columns], every element one chain of fused
 * multiply-adds in the order of the list, and the last addition of +0 (which changes nothing where the sum goes on). */
#ifndef FFNGEN_SPARSE_TILE_H
#define FFNGEN_SPARSE_TILE_H

#include "ir.h"

/* Parameters of a tile function, in this order: what the hot loop uses comes in registers. */
typedef enum sparse_tile_parameter {
    SPARSE_TILE_A,
    SPARSE_TILE_LDA,
    SPARSE_TILE_B,
    SPARSE_TILE_NEXT,  /* B of the tile that runs next, over the same list: its first terms are fetched by this one */
    SPARSE_TILE_LIST,  /* i32 */
    SPARSE_TILE_COUNT, /* terms in the list; may be 0 */
    SPARSE_TILE_C,     /* from here on as those of tile.h */
    SPARSE_TILE_LDC,
    SPARSE_TILE_INIT,
    SPARSE_TILE_LDI,
    SPARSE_TILE_PARAMETERS
} sparse_tile_parameter;

LLVMValueRef sparse_tile(ir *g, int32_t rows, int32_t panels, int64_t panel_stride);

#endif
