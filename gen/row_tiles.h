/* row_tiles.h: how a kernel cuts the rows of a block into row tiles while it runs
 *
 * Which heights a plan takes is plan_next_height's; the kernel has its answers as tables, for every number of rows left
 * below two of the tallest tile. */
#ifndef FFNGEN_ROW_TILES_H
#define FFNGEN_ROW_TILES_H

#include "ir.h"
#include "plan.h"

typedef struct row_tiles {
    int32_t tallest;
    LLVMValueRef heights, counts; /* tables, by rows left */
} row_tiles;

/* Adds the tables to the module; `name` begins theirs. */
row_tiles row_tiles_build(ir *g, const ffn_plan *plan, const char *name);

/* The height of the next row tile where `left` rows are left, 1 or more. */
LLVMValueRef row_tiles_height(ir *g, const row_tiles *of, LLVMValueRef left);

/* How many row tiles so many rows are; of many rows, nearly. */
LLVMValueRef row_tiles_count(ir *g, const row_tiles *of, LLVMValueRef rows);

#endif
