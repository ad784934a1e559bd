/* tile.c: see tile.h
 *
 * Register map (AVX2, 6 rows x 1 panel):   acc[6][2] 12   B 2   broadcast of A 1..2   = 16
 *         (AVX-512, 8 rows x 3 panels):    acc[8][3] 24   B 3   (A is a memory operand of the FMA) */
#include "tile.h"

#include <string.h>

#include "formula_ir.h"
#include "plan.h"

#define ROWS_MAX 16
#define VECTORS_MAX 32 /* PLAN_PANELS_MAX panels of four vectors each */
#define CHAINS_MAX 4
#define FULL 23 /* accumulators that leave few registers for anything else */
#define PER_POINTER 3
#define POINTERS_MAX (ROWS_MAX / PER_POINTER + 1)
#define CARRIED_MAX (CHAINS_MAX * ROWS_MAX * VECTORS_MAX + 3 * POINTERS_MAX)

typedef LLVMValueRef accumulators[CHAINS_MAX][ROWS_MAX][VECTORS_MAX];

typedef struct tile {
    ir *g;
    const tile_shape *shape;
    int32_t per_panel; /* vectors in a panel */
    int32_t vectors;   /* vectors in a row of the tile */
    LLVMValueRef p[TILE_PARAMETERS_MAX];
} tile;

/* Sets of accumulators that are in registers at once. */
static int32_t held(const tile_shape *shape) {
    return shape->chains > 1 ? shape->chains : shape->sums;
}

int32_t tile_parameters(const tile_shape *shape) {
    return shape->fetches ? TILE_NEXT + 1 : TILE_FRAME + 1;
}

/* Floats from the start of a tile row of C or init to vector v. */
static int64_t c_offset(const tile *t, int32_t v) {
    return (int64_t)v * t->g->lanes;
}

/* What moves through a loop: pointers into A and B, one for every PER_POINTER rows or panels (the others are one
 * addressing mode away, so that many rows need few registers), and what to prefetch. */
typedef struct cursor {
    LLVMValueRef a[POINTERS_MAX], b[POINTERS_MAX], next[POINTERS_MAX];
    int32_t streams; /* of `next`; 0: nothing is prefetched */
} cursor;

static int32_t pointers(int32_t count) {
    return (count + PER_POINTER - 1) / PER_POINTER;
}

/* Row or panel i of those that the pointers lead to. */
static LLVMValueRef one_of(ir *g, const LLVMValueRef *of, int32_t i, LLVMValueRef stride) {
    return ir_at(g, of[i / PER_POINTER], ir_mul(g, stride, ir_int(g, i % PER_POINTER)));
}

/* Pointers into A: one is enough where its rows are interleaved. */
static int32_t row_pointers(const tile_shape *shape) {
    return shape->interleaved ? 1 : pointers(shape->mr);
}

/* So many terms on in A, in floats. */
static LLVMValueRef terms_on(const tile *t, LLVMValueRef terms) {
    const tile_shape *s = t->shape;
    if (!s->interleaved)
        return terms;
    /* The height of the row tile, which a tile of one row may take row by row. */
    return ir_mul(t->g, terms, s->mr > 1 ? ir_int(t->g, s->mr) : t->p[TILE_LDA]);
}

/* A of row r, `term` terms on from the cursor. */
static LLVMValueRef a_of(tile *t, const cursor *at, int32_t r, int64_t term) {
    ir *g = t->g;
    if (!t->shape->interleaved)
        return ir_at_const(g, one_of(g, at->a, r, t->p[TILE_LDA]), term);
    return ir_at_const(g, ir_at(g, at->a[0], terms_on(t, ir_int(g, term))), r);
}

static LLVMValueRef panel_of(tile *t, const cursor *at, int32_t panel) {
    return one_of(t->g, at->b, panel, t->p[TILE_STRIDE]);
}

/* acc[chain] += A[.][term] B[term][.], the term `term` floats on from the cursor. */
static void step(tile *t, accumulators acc, int32_t chain, const cursor *at, int64_t term) {
    ir *g = t->g;
    const tile_shape *s = t->shape;
    /* The operand with fewer vectors stays in registers, the other streams past it. */
    LLVMValueRef a[ROWS_MAX], bv[VECTORS_MAX];
    bool wide = s->mr < t->vectors;
    if (held(s) * s->mr * t->vectors > FULL)
        ir_pin_loads(g); /* or those of the next term come in while there is no register for them */
    for (int32_t r = 0; r < s->mr; r++)
        a[r] = wide ? ir_broadcast(g, a_of(t, at, r, term)) : NULL;
    for (int32_t v = 0; v < t->vectors; v++) {
        if (wide && s->mr > 1)
            ir_pin_loads(g);
        LLVMValueRef b = panel_of(t, at, v / t->per_panel);
        int64_t offset = term * FFN_PANEL + v % t->per_panel * g->lanes;
        bv[v] = ir_load(g, g->vector, ir_at_const(g, b, offset), 4 * (uint32_t)g->lanes);
        for (int32_t r = 0; wide && r < s->mr; r++)
            acc[chain][r][v] = ir_fma(g, a[r], bv[v], acc[chain][r][v]);
    }
    for (int32_t r = 0; !wide && r < s->mr; r++) {
        a[r] = ir_broadcast(g, a_of(t, at, r, term));
        for (int32_t v = 0; v < t->vectors; v++)
            acc[chain][r][v] = ir_fma(g, a[r], bv[v], acc[chain][r][v]);
    }
}

/* The hot loop: on to `end` in row 0 of A, `unroll` terms of each chain in a turn. `sure`: there is a turn at least. */
static void loop(tile *t, accumulators acc, cursor *at, LLVMValueRef end, int32_t unroll, bool sure, const char *name) {
    ir *g = t->g;
    const tile_shape *s = t->shape;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(g->builder), head = ir_block(g, name), exit = ir_block(g, "done");
    /* Tested at the top once, then at the bottom: the accumulators never move. */
    if (sure)
        LLVMBuildBr(g->builder, head);
    else
        LLVMBuildCondBr(g->builder, ir_below(g, at->a[0], end), head, exit);
    LLVMPositionBuilderAtEnd(g->builder, head);

    /* Values carried by the loop, each a phi: the cursor's, then the accumulators. */
    LLVMValueRef *from[CARRIED_MAX], in[CARRIED_MAX], skipped[CARRIED_MAX];
    int32_t count = 0;
    for (int32_t i = 0; i < pointers(s->panels); i++)
        from[count++] = &at->b[i];
    for (int32_t i = 0; i < row_pointers(s); i++)
        from[count++] = &at->a[i];
    for (int32_t i = 0; i < pointers(at->streams); i++)
        from[count++] = &at->next[i];
    const int32_t moved = count;
    for (int32_t c = 0; c < held(s); c++)
        for (int32_t r = 0; r < s->mr; r++)
            for (int32_t v = 0; v < t->vectors; v++)
                from[count++] = &acc[c][r][v];
    for (int32_t i = 0; i < count; i++) {
        skipped[i] = *from[i];
        *from[i] = in[i] = LLVMBuildPhi(g->builder, LLVMTypeOf(skipped[i]), "");
    }

    for (int32_t line = 0; line < s->prefetch; line++)
        for (int32_t p = 0; p < at->streams; p++) {
            LLVMValueRef stream = one_of(g, at->next, p, t->p[TILE_STRIDE]);
            ir_prefetch(g, ir_at_const(g, stream, (int64_t)line * FFN_PANEL), s->prefetch_to);
        }
    for (int32_t line = 0; s->ahead && line < unroll * s->k_step; line++)
        for (int32_t p = 0; p < s->panels; p++)
            ir_prefetch(g, ir_at_const(g, panel_of(t, at, p), (int64_t)(s->ahead + line) * FFN_PANEL), IR_CACHE_1);
    for (int32_t u = 0; u < unroll; u++)
        for (int32_t c = 0; c < s->chains; c++)
            step(t, acc, s->sums > 1 ? u % s->sums : c, at, (int64_t)u * s->k_step + c);
    int64_t terms = (int64_t)unroll * s->k_step;
    for (int32_t i = 0; i < pointers(s->panels); i++)
        at->b[i] = ir_at_const(g, at->b[i], terms * FFN_PANEL);
    for (int32_t i = 0; i < row_pointers(s); i++)
        at->a[i] = ir_at(g, at->a[i], terms_on(t, ir_int(g, terms)));
    for (int32_t i = 0; i < pointers(at->streams); i++)
        at->next[i] = ir_at(g, at->next[i], t->p[TILE_NEXT_STEP]);
    ir_hide(g, from, moved);

    LLVMBasicBlockRef latch = LLVMGetInsertBlock(g->builder), sources[] = {before, latch};
    LLVMBuildCondBr(g->builder, ir_below(g, at->a[0], end), head, exit);
    LLVMPositionBuilderAtEnd(g->builder, exit);
    for (int32_t i = 0; i < count; i++) {
        LLVMValueRef values[] = {skipped[i], *from[i]};
        LLVMAddIncoming(in[i], values, sources, 2);
        if (sure)
            continue;
        *from[i] = LLVMBuildPhi(g->builder, LLVMTypeOf(skipped[i]), "");
        LLVMAddIncoming(*from[i], values, sources, 2);
    }
}

/* Free order: what the partial sums start from, and what becomes of them. */
static void begin_sums(tile *t, accumulators acc) {
    for (int32_t i = 1; i < t->shape->sums; i++)
        for (int32_t r = 0; r < t->shape->mr; r++)
            for (int32_t v = 0; v < t->vectors; v++)
                acc[i][r][v] = LLVMConstNull(t->g->vector);
}

static void end_sums(tile *t, accumulators acc) {
    for (int32_t i = 1; i < t->shape->sums; i++)
        for (int32_t r = 0; r < t->shape->mr; r++)
            for (int32_t v = 0; v < t->vectors; v++)
                acc[0][r][v] = LLVMBuildFAdd(t->g->builder, acc[0][r][v], acc[i][r][v], "");
}

/* Ends a branch that began at the end of `before` and made `out` of the chain's sums: acc is what is left, either way.
 */
static void end_branch(tile *t, accumulators acc, int32_t chain, accumulators out, const ir_if *branch,
                       LLVMBasicBlockRef before) {
    ir *g = t->g;
    LLVMBasicBlockRef from[] = {before, LLVMGetInsertBlock(g->builder)};
    ir_if_end(g, branch);
    for (int32_t r = 0; r < t->shape->mr; r++)
        for (int32_t v = 0; v < t->vectors; v++) {
            LLVMValueRef merged = LLVMBuildPhi(g->builder, g->vector, "");
            LLVMAddIncoming(merged, (LLVMValueRef[]){acc[chain][r][v], out[chain][r][v]}, from, 2);
            acc[chain][r][v] = merged;
        }
}

/* Chain c has one term more than the others if c < tail. */
static void tails(tile *t, accumulators acc, const cursor *at) {
    ir *g = t->g;
    const tile_shape *s = t->shape;
    for (int32_t c = 0; c < s->chains; c++) {
        LLVMBasicBlockRef before = LLVMGetInsertBlock(g->builder);
        accumulators out;
        for (int32_t r = 0; r < s->mr; r++)
            for (int32_t v = 0; v < t->vectors; v++)
                out[c][r][v] = acc[c][r][v];
        ir_if more = ir_if_begin(g, ir_less(g, ir_int(g, c), t->p[TILE_TAIL]), "tail");
        step(t, out, c, at, c);
        end_branch(t, acc, c, out, &more, before);
    }
}

typedef LLVMValueRef sum_function(const tile *t, LLVMValueRef sum);

static LLVMValueRef activated(const tile *t, LLVMValueRef sum) {
    return formula_ir(t->g, t->shape->activation, sum, NULL);
}

static LLVMValueRef with_zero(const tile *t, LLVMValueRef sum) {
    return LLVMBuildFAdd(t->g->builder, sum, LLVMConstNull(t->g->vector), "");
}

/* The sums of one chain pass through a function; of a tile that both stages run, where it is told so by `when`. */
static void finish(tile *t, accumulators acc, int32_t chain, sum_function *function, LLVMIntPredicate when) {
    ir *g = t->g;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(g->builder);
    ir_if branch = {.exit = NULL};
    if (t->shape->told) {
        LLVMValueRef told = LLVMBuildICmp(g->builder, when, t->p[TILE_LAST], ir_int(g, 0), "");
        branch = ir_if_begin(g, told, "finish");
    }
    accumulators out;
    for (int32_t r = 0; r < t->shape->mr; r++)
        for (int32_t v = 0; v < t->vectors; v++)
            out[chain][r][v] = function(t, acc[chain][r][v]);
    if (t->shape->told)
        end_branch(t, acc, chain, out, &branch, before);
    else
        memcpy(acc[chain], out[chain], sizeof out[chain]);
}

static LLVMValueRef word(const tile *t, tile_parameter which) {
    return ir_load(t->g, t->g->i64, ir_at_bytes(t->g, t->p[TILE_FRAME], tile_word(which)), 8);
}

LLVMValueRef tile_function(ir *g, const char *name, const tile_shape *shape) {
    static const char *const names[] = {"a", "b", "c", "init", "soon", "frame", "next"};
    LLVMTypeRef types[TILE_PASSED];
    for (int32_t i = 0; i < TILE_PASSED; i++)
        types[i] = g->pointer;
    int32_t count = tile_parameters(shape);
    LLVMValueRef function = ir_function(g, name, g->void_type, types, count, IR_INTERNAL);

    tile t = {.g = g, .shape = shape, .per_panel = FFN_PANEL / g->lanes};
    t.vectors = shape->panels * t.per_panel;
    for (int32_t i = 0; i < count; i++)
        t.p[i] = ir_parameter(g, i, names[i]);
    for (tile_parameter i = TILE_PASSED; i < TILE_PARAMETERS_MAX; i++)
        t.p[i] = word(&t, i);
    t.p[TILE_NEXT_STEP] = ir_mul(g, t.p[TILE_NEXT_STEP], ir_int(g, shape->panels));

    for (int32_t r = 0; shape->fetch_soon && r < shape->mr; r++) {
        LLVMValueRef soon = ir_at(g, t.p[TILE_SOON], ir_mul(g, ir_int(g, r), t.p[TILE_LDC]));
        for (int32_t p = 0; p < shape->panels; p++)
            ir_prefetch(g, ir_at_const(g, soon, (int64_t)p * FFN_PANEL), IR_CACHE_1);
    }
    accumulators acc;
    for (int32_t c = 0; c < shape->chains; c++)
        for (int32_t r = 0; r < shape->mr; r++) {
            LLVMValueRef init = ir_at(g, t.p[TILE_INIT], ir_mul(g, ir_int(g, r), t.p[TILE_LDI]));
            for (int32_t v = 0; v < t.vectors; v++)
                acc[c][r][v] =
                    ir_load(g, g->vector, ir_at_const(g, init, c * shape->plane_stride + c_offset(&t, v)), 4);
        }

    begin_sums(&t, acc);
    cursor at = {.streams = shape->prefetch ? shape->streams : 0};
    for (int32_t panel = 0; panel < shape->panels; panel += PER_POINTER)
        at.b[panel / PER_POINTER] = ir_at(g, t.p[TILE_B], ir_mul(g, ir_int(g, panel), t.p[TILE_STRIDE]));
    for (int32_t r = 0; r / PER_POINTER < row_pointers(shape); r += PER_POINTER)
        at.a[r / PER_POINTER] = ir_at(g, t.p[TILE_A], ir_mul(g, ir_int(g, r), t.p[TILE_LDA]));
    for (int32_t p = 0; p < at.streams; p += PER_POINTER)
        at.next[p / PER_POINTER] = ir_at(g, t.p[TILE_NEXT], ir_mul(g, ir_int(g, p), t.p[TILE_STRIDE]));
    LLVMValueRef end = ir_mul(g, t.p[TILE_K], ir_int(g, shape->k_step));
    LLVMValueRef turns =
        ir_mul(g, ir_div(g, t.p[TILE_K], ir_int(g, shape->unroll)), ir_int(g, (int64_t)shape->unroll * shape->k_step));
    LLVMValueRef last_turn = ir_at(g, t.p[TILE_A], terms_on(&t, turns)),
                 last = ir_at(g, t.p[TILE_A], terms_on(&t, end));
    loop(&t, acc, &at, last_turn, shape->unroll, shape->whole_turns, "hot");
    at.streams = 0;
    if (!shape->whole_turns)
        loop(&t, acc, &at, last, 1, false, "rest");
    if (shape->chains > 1)
        tails(&t, acc, &at);
    end_sums(&t, acc);
    for (int32_t c = 0; c < shape->chains; c++) {
        if (shape->activation)
            finish(&t, acc, c, activated, LLVMIntEQ);
        if (shape->add_zero)
            finish(&t, acc, c, with_zero, LLVMIntNE);
    }

    LLVMValueRef ldc = word(&t, TILE_LDC); /* once more: no register holds it through the loop */
    for (int32_t c = 0; c < shape->chains; c++)
        for (int32_t r = 0; r < shape->mr; r++) {
            LLVMValueRef out = ir_at(g, t.p[TILE_C], ir_mul(g, ir_int(g, r), ldc));
            for (int32_t v = 0; v < t.vectors; v++)
                ir_store(g, acc[c][r][v], ir_at_const(g, out, c * shape->plane_stride + c_offset(&t, v)), 4);
        }
    ir_return(g);
    return function;
}
