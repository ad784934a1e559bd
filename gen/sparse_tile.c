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

/* The line of B, from which the panels' lines are constants away, that entry i of `list` names. */
static LLVMValueRef line_of(const tile *t, LLVMValueRef list, LLVMValueRef i, LLVMValueRef b, LLVMValueRef *k) {
    ir *g = t->g;
    *k = LLVMBuildZExt(g->builder, ir_load(g, g->i32, ir_at(g, list, i), 4), g->i64, "");
    return ir_at(g, b, ir_mul(g, *k, ir_int(g, FFN_PANEL)));
}

static void step(const tile *t, accumulators acc, LLVMValueRef i) {
    ir *g = t->g;
    LLVMValueRef k, line = line_of(t, t->p[SPARSE_TILE_LIST], i, t->p[SPARSE_TILE_B], &k), a[SPARSE_ROWS_MAX];
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

/* What a phi takes from the block before the loop, and from the loop itself. */
static void merge(LLVMValueRef phi, LLVMValueRef first, LLVMBasicBlockRef from, LLVMValueRef again,
                  LLVMBasicBlockRef latch) {
    LLVMAddIncoming(phi, (LLVMValueRef[]){first, again}, (LLVMBasicBlockRef[]){from, latch}, 2);
}

/* for (two parts: while what is fetched is in the list; to its end)
 *     for (i < end of the part) fetch, step
 * so that the hot loop knows one list to fetch by and one B to fetch from. The second part begins anew with the list,
 * at the next B. */
static void loop(const tile *t, accumulators acc) {
    ir *g = t->g;
    const int32_t entries = (LINES_AHEAD * t->per_panel + t->vectors - 1) / t->vectors;
    LLVMValueRef count = t->p[SPARSE_TILE_COUNT], list = t->p[SPARSE_TILE_LIST], zero = ir_int(g, 0);
    LLVMValueRef ahead = ir_min(g, ir_int(g, entries), count), turning = ir_sub(g, count, ahead);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(g->builder), part = ir_block(g, "part"), hot = ir_block(g, "hot");
    LLVMBasicBlockRef done = ir_block(g, "done"), exit = ir_block(g, "exit");
    LLVMBuildBr(g->builder, part);

    LLVMPositionBuilderAtEnd(g->builder, part);
    LLVMValueRef begin = LLVMBuildPhi(g->builder, g->i64, ""), end = LLVMBuildPhi(g->builder, g->i64, "");
    accumulators start, in, out;
    for (int32_t r = 0; r < t->rows; r++)
        for (int32_t v = 0; v < t->vectors; v++) {
            start[r][v] = acc[r][v];
            in[r][v] = LLVMBuildPhi(g->builder, g->vector, "");
        }
    LLVMValueRef last = ir_equal(g, end, count), back = ir_sub(g, zero, begin), on = ir_sub(g, count, end);
    LLVMValueRef from_list = ir_at(g, list, ir_select(g, last, back, on));
    LLVMValueRef from = ir_select(g, last, t->p[SPARSE_TILE_NEXT], t->p[SPARSE_TILE_B]);
    LLVMBuildCondBr(g->builder, ir_less(g, begin, end), hot, done);

    LLVMPositionBuilderAtEnd(g->builder, hot);
    LLVMValueRef i = LLVMBuildPhi(g->builder, g->i64, "i"), later;
    accumulators turn;
    for (int32_t r = 0; r < t->rows; r++)
        for (int32_t v = 0; v < t->vectors; v++)
            acc[r][v] = turn[r][v] = LLVMBuildPhi(g->builder, g->vector, "");
    LLVMValueRef line = line_of(t, from_list, i, from, &later);
    for (int32_t panel = 0; panel < t->vectors / t->per_panel; panel++)
        ir_prefetch(g, ir_at_const(g, line, panel * t->panel_stride), IR_CACHE_1);
    step(t, acc, i);
    LLVMValueRef after = ir_add(g, i, ir_int(g, 1));
    LLVMBuildCondBr(g->builder, ir_less(g, after, end), hot, done);
    merge(i, begin, part, after, hot);

    LLVMPositionBuilderAtEnd(g->builder, done);
    for (int32_t r = 0; r < t->rows; r++)
        for (int32_t v = 0; v < t->vectors; v++) {
            merge(turn[r][v], in[r][v], part, acc[r][v], hot);
            out[r][v] = LLVMBuildPhi(g->builder, g->vector, "");
            merge(out[r][v], in[r][v], part, acc[r][v], hot);
            acc[r][v] = out[r][v];
        }
    for (int32_t r = 0; r < t->rows; r++)
        for (int32_t v = 0; v < t->vectors; v++)
            merge(in[r][v], start[r][v], before, out[r][v], done);
    merge(begin, zero, before, end, done);
    merge(end, turning, before, count, done);
    LLVMBuildCondBr(g->builder, ir_less(g, end, count), part, exit);
    LLVMPositionBuilderAtEnd(g->builder, exit);
}

LLVMValueRef sparse_tile(ir *g, int32_t rows, int32_t panels, int64_t panel_stride) {
    static const char *const names[] = {"a", "lda", "b", "next", "list", "count", "c", "ldc", "init", "ldi"};
    LLVMTypeRef types[SPARSE_TILE_PARAMETERS] = {g->pointer, g->i64,     g->pointer, g->pointer, g->pointer,
                                                 g->i64,     g->pointer, g->i64,     g->pointer, g->i64};
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
