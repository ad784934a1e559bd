/* sparse.c: see sparse.h
 *
 * Invariant: the list holds every column whose h is not zero (NaN and infinities are not) in some row, ascending, so
 * that a chain takes the same terms in the same order as in the dense sweep, less some that change nothing. */
#include "sparse.h"

#include <stddef.h>

#include "sparse_tile.h"
#include "stage.h"

/* Below this width finding zeros costs a share of the call that can be measured. */
#define D_FF_MIN 128
/* The list is taken where at most one column in so many is not zero: docs/sparse.md has the measurement. */
#define NONZERO_ONE_IN 4

bool sparse_activation(const formula_graph *graph) {
    enum { ARGUMENTS = 4 };
    static const float below[ARGUMENTS] = {-4, -8, -12, -30}, one[ARGUMENTS] = {1, 1, 1, 1};
    float value[ARGUMENTS];
    formula_eval(graph, ARGUMENTS, below, graph->gated ? one : NULL, value);
    bool zero = true;
    for (int i = 0; i < ARGUMENTS; i++)
        zero = zero && value[i] == 0;
    return zero;
}

bool sparse_passes(const ffn_spec *spec, const ffn_plan *plan, const formula_graph *graph) {
    return plan_lists_columns(spec, plan) && spec->d_ff >= D_FF_MIN && sparse_activation(graph);
}

/* Rows of h that a plan's class has: in that of one row, the others' tiles would be code for nothing. */
static int32_t rows_least(const ffn_plan *plan) {
    return plan->n_class == FFN_N_1 ? 1 : 2;
}

static int32_t rows_most(const ffn_plan *plan) {
    return plan->n_class == FFN_N_1 ? 1 : SPARSE_ROWS_MAX;
}

/* The values of a column in all rows together: 0 where each of them is +0 or -0. `type` is i32 or a vector of it. */
static LLVMValueRef any_row(ir *g, const LLVMValueRef *h, int32_t rows, LLVMTypeRef type, LLVMValueRef column) {
    LLVMValueRef any = ir_load(g, type, ir_at(g, h[0], column), 4);
    for (int32_t r = 1; r < rows; r++)
        any = LLVMBuildOr(g->builder, any, ir_load(g, type, ir_at(g, h[r], column), 4), "");
    return LLVMBuildAdd(g->builder, any, any, ""); /* the sign leaves */
}

/* Zero columns among the first `end`, a multiple of `lanes`. */
static LLVMValueRef count_zeros(ir *g, const LLVMValueRef *h, int32_t rows, LLVMValueRef end) {
    LLVMValueRef none = LLVMConstNull(g->word_vector), zero = ir_int(g, 0);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(g->builder);
    ir_loop loop = ir_loop_begin(g, zero, end, ir_int(g, g->lanes), "count");
    LLVMBasicBlockRef body = LLVMGetInsertBlock(g->builder);
    LLVMPositionBuilder(g->builder, loop.head, LLVMGetFirstInstruction(loop.head));
    LLVMValueRef zeros = LLVMBuildPhi(g->builder, g->word_vector, "zeros");
    LLVMPositionBuilderAtEnd(g->builder, body);
    LLVMValueRef any = any_row(g, h, rows, g->word_vector, loop.i);
    LLVMValueRef are = LLVMBuildICmp(g->builder, LLVMIntEQ, any, none, "");
    LLVMValueRef more = LLVMBuildSub(g->builder, zeros, LLVMBuildSExt(g->builder, are, g->word_vector, ""), "");
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(g->builder);
    ir_loop_end(g, &loop);
    LLVMAddIncoming(zeros, (LLVMValueRef[]){none, more}, (LLVMBasicBlockRef[]){before, latch}, 2);
    return LLVMBuildZExt(g->builder, ir_sum_words(g, zeros), g->i64, "");
}

/* Writes every column whose h is not zero; returns how many there are. Without a branch, which would be guessed wrong
 * as often as there is a column to write. */
static LLVMValueRef list_columns(ir *g, const LLVMValueRef *h, int32_t rows, LLVMValueRef end, LLVMValueRef list) {
    LLVMValueRef zero = ir_int(g, 0);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(g->builder);
    ir_loop loop = ir_loop_begin(g, zero, end, ir_int(g, 1), "list");
    LLVMBasicBlockRef body = LLVMGetInsertBlock(g->builder);
    LLVMPositionBuilder(g->builder, loop.head, LLVMGetFirstInstruction(loop.head));
    LLVMValueRef count = LLVMBuildPhi(g->builder, g->i64, "listed");
    LLVMPositionBuilderAtEnd(g->builder, body);
    LLVMValueRef number = LLVMBuildTrunc(g->builder, loop.i, g->i32, "");
    ir_store(g, number, ir_at(g, list, count), 4);
    LLVMValueRef any = any_row(g, h, rows, g->i32, loop.i);
    LLVMValueRef is = LLVMBuildICmp(g->builder, LLVMIntNE, any, LLVMConstInt(g->i32, 0, 0), "");
    LLVMValueRef more = ir_add(g, count, LLVMBuildZExt(g->builder, is, g->i64, ""));
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(g->builder);
    ir_loop_end(g, &loop);
    LLVMAddIncoming(count, (LLVMValueRef[]){zero, more}, (LLVMBasicBlockRef[]){before, latch}, 2);
    return count;
}

static void build_find(ir *g, sparse *s, const ffn_plan *plan) {
    LLVMTypeRef types[] = {g->pointer, g->i64, g->i64, g->i64, g->pointer, g->pointer};
    s->find = ir_function(g, "nonzero_columns", g->i64, types, 6, IR_INTERNAL);
    LLVMValueRef first = ir_parameter(g, 0, "h"), ldh = ir_parameter(g, 1, "ldh"), rows = ir_parameter(g, 2, "rows");
    LLVMValueRef k = ir_parameter(g, 3, "k"), packed = ir_parameter(g, 4, "packed"), list = ir_parameter(g, 5, "list");
    LLVMBasicBlockRef dense = ir_block(g, "dense"), look = ir_block(g, "look"), few = ir_block(g, "few");
    LLVMValueRef finite = ir_load(g, g->i32, ir_at_bytes(g, packed, offsetof(packed_header, finite)), 4);
    LLVMValueRef usable = LLVMBuildICmp(g->builder, LLVMIntEQ, finite, LLVMConstInt(g->i32, 1, 0), "");
    usable = LLVMBuildAnd(g->builder, usable, ir_less(g, rows, ir_int(g, rows_most(plan) + 1)), "");
    usable = LLVMBuildAnd(g->builder, usable, ir_less(g, ir_int(g, rows_least(plan) - 1), rows), "");
    LLVMBuildCondBr(g->builder, usable, look, dense);

    /* A row that is not there is the first one once more. */
    LLVMPositionBuilderAtEnd(g->builder, look);
    LLVMValueRef h[SPARSE_ROWS_MAX] = {first};
    for (int32_t r = 1; r < rows_most(plan); r++) {
        LLVMValueRef there = ir_less(g, ir_int(g, r), rows), row = ir_mul(g, ir_int(g, r), ldh);
        h[r] = ir_at(g, first, ir_select(g, there, row, ir_int(g, 0)));
    }
    /* Columns beyond the last whole vector count as not zero. */
    LLVMValueRef whole = ir_sub(g, k, ir_rem(g, k, ir_int(g, g->lanes)));
    LLVMValueRef nonzero = ir_sub(g, k, count_zeros(g, h, rows_most(plan), whole));
    LLVMBuildCondBr(g->builder, ir_less(g, k, ir_mul(g, nonzero, ir_int(g, NONZERO_ONE_IN))), dense, few);

    LLVMPositionBuilderAtEnd(g->builder, few);
    LLVMBuildRet(g->builder, list_columns(g, h, rows_most(plan), k, list));
    LLVMPositionBuilderAtEnd(g->builder, dense);
    LLVMBuildRet(g->builder, ir_int(g, -1));
}

/* The widest tile of this height that the registers hold. */
static int32_t widest(const ir *g, int32_t rows, int64_t panels) {
    int32_t width = 1;
    while (width < PLAN_PANELS_MAX && width < panels &&
           plan_tile_registers(g->lanes, (ffn_tile){rows, width + 1}, 1) <= g->isa->registers)
        width++;
    return width;
}

/* The tiles of one number of rows: the widest, and that of one panel. */
typedef struct tiles {
    int32_t width;
    LLVMValueRef widest, single;
} tiles;

/* All panels for one number of rows: the widest tile while it fits, then panel by panel. */
static void panel_loops(ir *g, const LLVMValueRef *p, const tiles *t, int64_t panel_stride) {
    LLVMValueRef begin = ir_int(g, 0);
    for (int32_t width = t->width; width > 0; width = width > 1 ? 1 : 0) {
        LLVMValueRef end = ir_sub(g, p[SWEEP_PANELS], ir_int(g, width - 1));
        ir_loop loop = ir_loop_begin(g, begin, end, ir_int(g, width), "panel");
        LLVMValueRef column = ir_mul(g, loop.i, ir_int(g, FFN_PANEL)), after = ir_add(g, loop.i, ir_int(g, width));
        LLVMValueRef next = ir_select(g, ir_less(g, after, p[SWEEP_PANELS]), after, loop.i);
        LLVMValueRef arguments[SPARSE_TILE_PARAMETERS] = {
            [SPARSE_TILE_A] = p[SWEEP_A],     [SPARSE_TILE_LDA] = p[SWEEP_LDA],   [SPARSE_TILE_LDC] = p[SWEEP_LDC],
            [SPARSE_TILE_LDI] = p[SWEEP_LDI], [SPARSE_TILE_LIST] = p[SWEEP_NEXT], [SPARSE_TILE_COUNT] = p[SWEEP_K],
        };
        arguments[SPARSE_TILE_B] = ir_at(g, p[SWEEP_B], ir_mul(g, loop.i, ir_int(g, panel_stride)));
        arguments[SPARSE_TILE_NEXT] = ir_at(g, p[SWEEP_B], ir_mul(g, next, ir_int(g, panel_stride)));
        arguments[SPARSE_TILE_C] = ir_at(g, p[SWEEP_C], column);
        arguments[SPARSE_TILE_INIT] = ir_at(g, p[SWEEP_INIT], column);
        ir_call(g, width > 1 ? t->widest : t->single, arguments, SPARSE_TILE_PARAMETERS);
        ir_loop_end(g, &loop);
        begin = loop.i;
    }
}

static void build_sweep(ir *g, sparse *s, const ffn_plan *plan, int64_t panels, int64_t panel_stride) {
    tiles of[SPARSE_ROWS_MAX + 1];
    for (int32_t rows = rows_least(plan); rows <= rows_most(plan); rows++) {
        of[rows] = (tiles){.width = widest(g, rows, panels), .single = sparse_tile(g, rows, 1, panel_stride)};
        of[rows].widest = of[rows].width > 1 ? sparse_tile(g, rows, of[rows].width, panel_stride) : NULL;
    }
    LLVMValueRef p[SWEEP_PARAMETERS];
    s->sweep = stage_sweep_function(g, "sparse_sweep", p);
    const int32_t least = rows_least(plan), most = rows_most(plan);
    if (least == most) /* no other number has a list */
        panel_loops(g, p, &of[most], panel_stride);
    for (int32_t rows = least; rows <= most && least < most; rows++) {
        ir_if these = ir_if_begin(g, ir_equal(g, p[SWEEP_ROWS], ir_int(g, rows)), "rows");
        panel_loops(g, p, &of[rows], panel_stride);
        ir_if_end(g, &these);
    }
    ir_return(g);
}

void sparse_build(ir *g, sparse *s, const ffn_spec *spec, const ffn_plan *plan, const formula_graph *graph,
                  int64_t panel_stride) {
    s->wanted = !g->free.sums && !g->free.dense && sparse_passes(spec, plan, graph);
    if (!s->wanted)
        return;
    build_find(g, s, plan);
    build_sweep(g, s, plan, spec->d_model / FFN_PANEL, panel_stride);
}
