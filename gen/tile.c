/* tile.c: see tile.h
 *
 * Register map (AVX2, 6 rows x 1 panel):   acc[6][2] 12   B 2   broadcast of A 1..2   = 16
 *         (AVX-512, 8 rows x 3 panels):    acc[8][3] 24   B 3   (A is a memory operand of the FMA) */
#include "tile.h"

#include "formula_ir.h"

#define ROWS_MAX 16
#define VECTORS_MAX 16
#define CHAINS_MAX 4

typedef LLVMValueRef accumulators[CHAINS_MAX][ROWS_MAX][VECTORS_MAX];

typedef struct tile {
    ir *g;
    const tile_shape *shape;
    int32_t per_panel; /* vectors in a panel */
    int32_t vectors;   /* vectors in a row of the tile */
    LLVMValueRef p[TILE_PARAMETERS_MAX];
    LLVMValueRef row[ROWS_MAX]; /* rows of A */
} tile;

int32_t tile_parameters(const tile_shape *shape) {
    return shape->chains > 1 ? TILE_TAIL + 1 : shape->prefetch ? TILE_NEXT_STEP + 1 : TILE_K + 1;
}

/* Floats from the start of a tile row of B, C or init to vector v. */
static int64_t b_offset(const tile *t, int32_t v) {
    return v / t->per_panel * t->shape->panel_stride + v % t->per_panel * t->g->lanes;
}

static int64_t c_offset(const tile *t, int32_t v) {
    return (int64_t)v * t->g->lanes;
}

/* acc[chain] += A[.][term] B[term][.], with `term` floats into the rows of A and `b` at the term's row of the panel. */
static void step(tile *t, accumulators acc, int32_t chain, LLVMValueRef k, int64_t k_offset, LLVMValueRef b) {
    ir *g = t->g;
    const tile_shape *s = t->shape;
    /* The operand with fewer vectors stays in registers, the other streams past it. */
    LLVMValueRef a[ROWS_MAX], bv[VECTORS_MAX];
    bool wide = s->mr < t->vectors;
    for (int32_t r = 0; r < s->mr; r++)
        a[r] = wide ? ir_broadcast(g, ir_at_const(g, ir_at(g, t->row[r], k), k_offset)) : NULL;
    for (int32_t v = 0; v < t->vectors; v++) {
        if (wide && s->mr > 1)
            ir_pin_loads(g);
        bv[v] = ir_load(g, g->vector, ir_at_const(g, b, k_offset * FFN_PANEL + b_offset(t, v)), 4 * (uint32_t)g->lanes);
        for (int32_t r = 0; wide && r < s->mr; r++)
            acc[chain][r][v] = ir_fma(g, a[r], bv[v], acc[chain][r][v]);
    }
    for (int32_t r = 0; !wide && r < s->mr; r++) {
        a[r] = ir_broadcast(g, ir_at_const(g, ir_at(g, t->row[r], k), k_offset));
        for (int32_t v = 0; v < t->vectors; v++)
            acc[chain][r][v] = ir_fma(g, a[r], bv[v], acc[chain][r][v]);
    }
}

/* The hot loop: k groups of one term per chain, `turns` of them unrolled `unroll` times. */
static void loop(tile *t, accumulators acc, LLVMValueRef *k, LLVMValueRef *b, LLVMValueRef *next, LLVMValueRef end,
                 int32_t unroll, const char *name) {
    ir *g = t->g;
    const tile_shape *s = t->shape;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(g->builder), head = ir_block(g, name), exit = ir_block(g, "done");
    /* Tested at the top once, then at the bottom: the accumulators never move. */
    LLVMBuildCondBr(g->builder, ir_less(g, *k, end), head, exit);
    LLVMPositionBuilderAtEnd(g->builder, head);

    accumulators in;
    LLVMValueRef k_in = LLVMBuildPhi(g->builder, g->i64, "k"), b_in = LLVMBuildPhi(g->builder, g->pointer, "b");
    LLVMValueRef next_in = *next ? LLVMBuildPhi(g->builder, g->pointer, "next") : NULL;
    accumulators out;
    for (int32_t c = 0; c < s->chains; c++)
        for (int32_t r = 0; r < s->mr; r++)
            for (int32_t v = 0; v < t->vectors; v++)
                out[c][r][v] = in[c][r][v] = LLVMBuildPhi(g->builder, g->vector, "acc");

    for (int32_t u = 0; u < unroll; u++) {
        if (next_in)
            ir_prefetch(g, ir_at_const(g, next_in, (int64_t)u * FFN_PANEL));
        for (int32_t c = 0; c < s->chains; c++)
            step(t, out, c, k_in, (int64_t)u * s->k_step + c, b_in);
    }

    LLVMValueRef k_out = ir_add(g, k_in, ir_int(g, (int64_t)unroll * s->k_step));
    LLVMValueRef b_out = ir_at_const(g, b_in, (int64_t)unroll * s->k_step * FFN_PANEL);
    LLVMValueRef next_out = next_in ? ir_at(g, next_in, t->p[TILE_NEXT_STEP]) : NULL;
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(g->builder);
    LLVMBuildCondBr(g->builder, ir_less(g, k_out, end), head, exit);

    LLVMAddIncoming(k_in, (LLVMValueRef[]){*k, k_out}, (LLVMBasicBlockRef[]){before, latch}, 2);
    LLVMAddIncoming(b_in, (LLVMValueRef[]){*b, b_out}, (LLVMBasicBlockRef[]){before, latch}, 2);
    if (next_in)
        LLVMAddIncoming(next_in, (LLVMValueRef[]){*next, next_out}, (LLVMBasicBlockRef[]){before, latch}, 2);
    for (int32_t c = 0; c < s->chains; c++)
        for (int32_t r = 0; r < s->mr; r++)
            for (int32_t v = 0; v < t->vectors; v++)
                LLVMAddIncoming(in[c][r][v], (LLVMValueRef[]){acc[c][r][v], out[c][r][v]},
                                (LLVMBasicBlockRef[]){before, latch}, 2);

    LLVMPositionBuilderAtEnd(g->builder, exit);
    LLVMBasicBlockRef sources[] = {before, latch};
#define MERGE(type, skipped, ran)                \
    merged = LLVMBuildPhi(g->builder, type, ""); \
    LLVMAddIncoming(merged, (LLVMValueRef[]){skipped, ran}, sources, 2)
    LLVMValueRef merged;
    MERGE(g->i64, *k, k_out);
    *k = merged;
    MERGE(g->pointer, *b, b_out);
    *b = merged;
    if (next_in) {
        MERGE(g->pointer, *next, next_out);
        *next = merged;
    }
    for (int32_t c = 0; c < s->chains; c++)
        for (int32_t r = 0; r < s->mr; r++)
            for (int32_t v = 0; v < t->vectors; v++) {
                MERGE(g->vector, acc[c][r][v], out[c][r][v]);
                acc[c][r][v] = merged;
            }
#undef MERGE
}

/* Chain c has one term more than the others if c < tail. */
static void tails(tile *t, accumulators acc, LLVMValueRef k, LLVMValueRef b) {
    ir *g = t->g;
    const tile_shape *s = t->shape;
    for (int32_t c = 0; c < s->chains; c++) {
        LLVMBasicBlockRef before = LLVMGetInsertBlock(g->builder);
        accumulators out;
        for (int32_t r = 0; r < s->mr; r++)
            for (int32_t v = 0; v < t->vectors; v++)
                out[c][r][v] = acc[c][r][v];
        ir_if more = ir_if_begin(g, ir_less(g, ir_int(g, c), t->p[TILE_TAIL]), "tail");
        step(t, out, c, k, c, b);
        LLVMBasicBlockRef after = LLVMGetInsertBlock(g->builder);
        ir_if_end(g, &more);
        for (int32_t r = 0; r < s->mr; r++)
            for (int32_t v = 0; v < t->vectors; v++) {
                LLVMValueRef merged = LLVMBuildPhi(g->builder, g->vector, "");
                LLVMAddIncoming(merged, (LLVMValueRef[]){acc[c][r][v], out[c][r][v]},
                                (LLVMBasicBlockRef[]){before, after}, 2);
                acc[c][r][v] = merged;
            }
    }
}

LLVMValueRef tile_function(ir *g, const char *name, const tile_shape *shape) {
    static const char *const names[] = {"a", "lda", "b", "c", "ldc", "init", "ldi", "k", "next", "next_step"};
    LLVMTypeRef types[TILE_PARAMETERS_MAX] = {g->pointer, g->i64, g->pointer, g->pointer, g->i64,
                                              g->pointer, g->i64, g->i64,     g->pointer, g->i64};
    if (shape->chains > 1)
        types[TILE_TAIL] = g->i64;
    int32_t count = tile_parameters(shape);
    LLVMValueRef function = ir_function(g, name, g->void_type, types, count, IR_INTERNAL);

    tile t = {.g = g, .shape = shape, .per_panel = FFN_PANEL / g->lanes};
    t.vectors = shape->panels * t.per_panel;
    for (int32_t i = 0; i < count; i++)
        t.p[i] = ir_parameter(g, i, names[i]);
    for (int32_t r = 0; r < shape->mr; r++)
        t.row[r] = ir_at(g, t.p[TILE_A], ir_mul(g, ir_int(g, r), t.p[TILE_LDA]));

    accumulators acc;
    for (int32_t c = 0; c < shape->chains; c++)
        for (int32_t r = 0; r < shape->mr; r++) {
            LLVMValueRef init = ir_at(g, t.p[TILE_INIT], ir_mul(g, ir_int(g, r), t.p[TILE_LDI]));
            for (int32_t v = 0; v < t.vectors; v++)
                acc[c][r][v] =
                    ir_load(g, g->vector, ir_at_const(g, init, c * shape->plane_stride + c_offset(&t, v)), 4);
        }

    LLVMValueRef k = ir_int(g, 0), b = t.p[TILE_B], next = shape->prefetch ? t.p[TILE_NEXT] : NULL;
    LLVMValueRef end = ir_mul(g, t.p[TILE_K], ir_int(g, shape->k_step));
    LLVMValueRef turns =
        ir_mul(g, ir_div(g, t.p[TILE_K], ir_int(g, shape->unroll)), ir_int(g, (int64_t)shape->unroll * shape->k_step));
    loop(&t, acc, &k, &b, &next, turns, shape->unroll, "hot");
    if (shape->unroll > 1) {
        next = NULL;
        loop(&t, acc, &k, &b, &next, end, 1, "rest");
    }
    if (shape->chains > 1)
        tails(&t, acc, k, b);

    for (int32_t c = 0; c < shape->chains; c++)
        for (int32_t r = 0; r < shape->mr; r++) {
            LLVMValueRef out = ir_at(g, t.p[TILE_C], ir_mul(g, ir_int(g, r), t.p[TILE_LDC]));
            for (int32_t v = 0; v < t.vectors; v++) {
                LLVMValueRef value = acc[c][r][v];
                if (shape->activation)
                    value = formula_ir(g, shape->activation, value, NULL);
                if (shape->add_zero)
                    value = LLVMBuildFAdd(g->builder, value, LLVMConstNull(g->vector), "");
                ir_store(g, value, ir_at_const(g, out, c * shape->plane_stride + c_offset(&t, v)), 4);
            }
        }
    ir_return(g);
    return function;
}
