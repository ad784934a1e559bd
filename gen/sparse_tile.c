/* sparse_tile.c: see sparse_tile.h
 *
 * Every row of B that a list names is a line of memory for each panel, in no order that hardware foresees. So a tile is
 * as wide as the registers allow, and fetches the lines of the terms that come a little later: of its own panels, and
 * near the end of the list of the next tile's. */
#include "sparse_tile.h"

#include <stdio.h>

#include "ffn.h"
#include "sparse.h"

#define VECTORS_MAX 32
/* Lines on their way at once: what a core of today keeps track of, and a few more that wait in line. */
#define LINES_AHEAD 32

typedef struct tile {
    ir *g;
    int32_t rows, vectors, per_panel;
    int64_t panel_stride;
    LLVMValueRef p[SPARSE_TILE_PARAMETERS];
} tile;

typedef LLVMValueRef accumulators[SPARSE_ROWS_MAX][VECTORS_MAX];

static LLVMValueRef listed(const tile *t, LLVMValueRef i) {
    LLVMValueRef k = ir_load(t->g, t->g->i32, ir_at(t->g, t->p[SPARSE_TILE_LIST], i), 4);
    return LLVMBuildZExt(t->g->builder, k, t->g->i64, "");
}

static LLVMValueRef row_of_b(const tile *t, LLVMValueRef b, LLVMValueRef k) {
    return ir_at(t->g, b, ir_mul(t->g, k, ir_int(t->g, FFN_PANEL)));
}

/* The lines of the term `ahead` entries on; past the end of the list, of the next tile's. */
static void fetch(const tile *t, LLVMValueRef i, LLVMValueRef ahead) {
    ir *g = t->g;
    LLVMValueRef later = ir_add(g, i, ahead), inside = ir_less(g, later, t->p[SPARSE_TILE_COUNT]);
    LLVMValueRef wrapped = ir_sub(g, later, t->p[SPARSE_TILE_COUNT]);
    LLVMValueRef k = listed(t, ir_select(g, inside, later, wrapped));
    LLVMValueRef line = row_of_b(t, ir_select(g, inside, t->p[SPARSE_TILE_B], t->p[SPARSE_TILE_NEXT]), k);
    for (int32_t panel = 0; panel < t->vectors / t->per_panel; panel++)
        ir_prefetch(g, ir_at_const(g, line, panel * t->panel_stride), IR_CACHE_1);
}

static void step(const tile *t, accumulators acc, LLVMValueRef i) {
    ir *g = t->g;
    LLVMValueRef k = listed(t, i), line = row_of_b(t, t->p[SPARSE_TILE_B], k), a[SPARSE_ROWS_MAX];
    for (int32_t r = 0; r < t->rows; r++) {
        LLVMValueRef row = ir_at(g, t->p[SPARSE_TILE_A], ir_mul(g, ir_int(g, r), t->p[SPARSE_TILE_LDA]));
        a[r] = ir_broadcast(g, ir_at(g, row, k));
    }
    for (int32_t v = 0; v < t->vectors; v++) {
        if (t->rows > 1)
            ir_pin_loads(g);
        int64_t offset = v / t->per_panel * t->panel_stride + v % t->per_panel * g->lanes;
        LLVMValueRef b = ir_load(g, g->vector, ir_at_const(g, line, offset), 4 * (uint32_t)g->lanes);
        for (int32_t r = 0; r < t->rows; r++)
            acc[r][v] = ir_fma(g, a[r], b, acc[r][v]);
    }
}

static void loop(const tile *t, accumulators acc) {
    ir *g = t->g;
    const int32_t entries = (LINES_AHEAD * t->per_panel + t->vectors - 1) / t->vectors;
    LLVMValueRef count = t->p[SPARSE_TILE_COUNT], ahead = ir_min(g, ir_int(g, entries), count), zero = ir_int(g, 0);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(g->builder), head = ir_block(g, "hot"), exit = ir_block(g, "done");
    LLVMBuildCondBr(g->builder, ir_less(g, zero, count), head, exit);
    LLVMPositionBuilderAtEnd(g->builder, head);
    LLVMValueRef i = LLVMBuildPhi(g->builder, g->i64, "i");
    accumulators start, in;
    for (int32_t r = 0; r < t->rows; r++)
        for (int32_t v = 0; v < t->vectors; v++) {
            start[r][v] = acc[r][v];
            acc[r][v] = in[r][v] = LLVMBuildPhi(g->builder, g->vector, "");
        }
    fetch(t, i, ahead);
    step(t, acc, i);
    LLVMValueRef on = ir_add(g, i, ir_int(g, 1));
    LLVMBuildCondBr(g->builder, ir_less(g, on, count), head, exit);
    LLVMBasicBlockRef sources[] = {before, head};
    LLVMAddIncoming(i, (LLVMValueRef[]){zero, on}, sources, 2);
    LLVMPositionBuilderAtEnd(g->builder, exit);
    for (int32_t r = 0; r < t->rows; r++)
        for (int32_t v = 0; v < t->vectors; v++) {
            LLVMValueRef values[] = {start[r][v], acc[r][v]};
            LLVMAddIncoming(in[r][v], values, sources, 2);
            acc[r][v] = LLVMBuildPhi(g->builder, g->vector, "");
            LLVMAddIncoming(acc[r][v], values, sources, 2);
        }
}

LLVMValueRef sparse_tile(ir *g, int32_t rows, int32_t panels, int64_t panel_stride) {
    static const char *const names[] = {"a", "lda", "b", "c", "ldc", "init", "ldi", "next", "list", "count"};
    LLVMTypeRef types[SPARSE_TILE_PARAMETERS] = {g->pointer, g->i64, g->pointer, g->pointer, g->i64,
                                                 g->pointer, g->i64, g->pointer, g->pointer, g->i64};
    char name[64];
    snprintf(name, sizeof name, "sparse_tile_%dx%d", rows, panels);
    LLVMValueRef function = ir_function(g, name, g->void_type, types, SPARSE_TILE_PARAMETERS, IR_INTERNAL);
    tile t = {.g = g, .rows = rows, .per_panel = FFN_PANEL / g->lanes, .panel_stride = panel_stride};
    t.vectors = panels * t.per_panel;
    for (int32_t i = 0; i < SPARSE_TILE_PARAMETERS; i++)
        t.p[i] = ir_parameter(g, i, names[i]);
    accumulators acc;
    for (int32_t r = 0; r < rows; r++) {
        LLVMValueRef init = ir_at(g, t.p[SPARSE_TILE_INIT], ir_mul(g, ir_int(g, r), t.p[SPARSE_TILE_LDI]));
        for (int32_t v = 0; v < t.vectors; v++)
            acc[r][v] = ir_load(g, g->vector, ir_at_const(g, init, (int64_t)v * g->lanes), 4);
    }
    loop(&t, acc);
    LLVMValueRef ldc = ir_opaque(g, t.p[SPARSE_TILE_LDC]);
    for (int32_t r = 0; r < rows; r++) {
        LLVMValueRef out = ir_at(g, t.p[SPARSE_TILE_C], ir_mul(g, ir_int(g, r), ldc));
        for (int32_t v = 0; v < t.vectors; v++) {
            LLVMValueRef value = LLVMBuildFAdd(g->builder, acc[r][v], LLVMConstNull(g->vector), "");
            ir_store(g, value, ir_at_const(g, out, (int64_t)v * g->lanes), 4);
        }
    }
    ir_return(g);
    return function;
}
