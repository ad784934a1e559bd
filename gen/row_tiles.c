/* row_tiles.c: see row_tiles.h */
#include "row_tiles.h"

#include <stdio.h>

static LLVMValueRef table_of(ir *g, const char *name, const char *what, const int32_t *numbers, int32_t count) {
    LLVMValueRef entries[2 * PLAN_MR_MAX];
    for (int32_t r = 0; r < count; r++)
        entries[r] = LLVMConstInt(g->i8, (unsigned long long)numbers[r], 0);
    char full[64];
    snprintf(full, sizeof full, "%s%s", name, what);
    LLVMValueRef table = LLVMAddGlobal(g->module, LLVMArrayType(g->i8, (unsigned)count), full);
    LLVMSetInitializer(table, LLVMConstArray(g->i8, entries, (unsigned)count));
    LLVMSetGlobalConstant(table, 1);
    LLVMSetLinkage(table, LLVMInternalLinkage);
    return table;
}

row_tiles row_tiles_build(ir *g, const ffn_plan *plan, const char *name) {
    row_tiles of = {.tallest = plan->tiles[0].mr};
    int32_t heights[2 * PLAN_MR_MAX] = {1}, counts[2 * PLAN_MR_MAX] = {1}, count = 2 * of.tallest;
    for (int32_t r = 1; r < count; r++) {
        heights[r] = plan_next_height(plan, r);
        counts[r] = 1 + (r > heights[r] ? counts[r - heights[r]] : 0);
    }
    of.heights = table_of(g, name, "heights", heights, count);
    of.counts = table_of(g, name, "counts", counts, count);
    return of;
}

static LLVMValueRef entry_of(ir *g, LLVMValueRef table, LLVMValueRef rows, LLVMValueRef there, LLVMValueRef beyond) {
    LLVMValueRef index = ir_select(g, there, rows, ir_int(g, 0));
    LLVMValueRef entry = LLVMBuildInBoundsGEP2(g->builder, g->i8, table, &index, 1, "");
    LLVMValueRef number = LLVMBuildZExt(g->builder, ir_load(g, g->i8, entry, 1), g->i64, "");
    return ir_select(g, there, number, beyond);
}

static LLVMValueRef is_few(ir *g, const row_tiles *of, LLVMValueRef rows) {
    return ir_less(g, rows, ir_int(g, 2 * (int64_t)of->tallest));
}

LLVMValueRef row_tiles_height(ir *g, const row_tiles *of, LLVMValueRef left) {
    LLVMValueRef tallest = ir_int(g, of->tallest);
    return entry_of(g, of->heights, left, is_few(g, of, left), tallest);
}

LLVMValueRef row_tiles_count(ir *g, const row_tiles *of, LLVMValueRef rows) {
    LLVMValueRef few = is_few(g, of, rows);
    return entry_of(g, of->counts, rows, few, ir_ceil_div(g, rows, of->tallest));
}
