/* chains.c: see chains.h */
#include "chains.h"

void chains_build_start(nest *n) {
    ir *g = n->g;
    LLVMTypeRef types[] = {g->pointer, g->pointer, g->i64, g->i64};
    n->start_chains = ir_function(g, "start_chains", g->void_type, types, 4, IR_INTERNAL);
    LLVMValueRef start = ir_parameter(g, 0, "start"), bias = ir_parameter(g, 1, "bias");
    LLVMValueRef chains = ir_parameter(g, 2, "chains"), columns = ir_parameter(g, 3, "columns");
    LLVMValueRef step = ir_int(g, g->lanes);
    ir_loop copy = ir_loop_begin(g, ir_int(g, 0), columns, step, "bias");
    LLVMValueRef to = ir_at(g, start, copy.i);
    ir_store(g, ir_load(g, g->vector, ir_at(g, bias, copy.i), 4), to, 4);
    ir_loop_end_over_arrays(g, &copy);
    ir_loop zero = ir_loop_begin(g, columns, ir_mul(g, chains, columns), step, "zero");
    ir_store(g, LLVMConstNull(g->vector), ir_at(g, start, zero.i), 4);
    ir_loop_end_over_arrays(g, &zero);
    ir_return(g);
}

/* (c0 + c1) + (c2 + c3), or c0 + c1, of the vector at `at`. */
static LLVMValueRef chain_sum(ir *g, const stage *s, LLVMValueRef at) {
    LLVMValueRef c[4];
    for (int32_t i = 0; i < s->chains; i++)
        c[i] = ir_load(g, g->vector, ir_at_const(g, at, i * s->columns), 4);
    for (int32_t half = s->chains / 2; half > 0; half /= 2)
        for (int32_t i = 0; i < half; i++)
            c[i] = LLVMBuildFAdd(g->builder, c[2 * i], c[2 * i + 1], "");
    return c[0];
}

void chains_sum(nest *n, const stage *s, LLVMValueRef chains, LLVMValueRef out, LLVMValueRef ldo, LLVMValueRef rows,
                LLVMValueRef first, LLVMValueRef panels, int64_t last) {
    ir *g = n->g;
    ir_loop row = ir_loop_begin(g, ir_int(g, 0), rows, ir_int(g, 1), "row");
    LLVMValueRef from = ir_at(g, chains, ir_mul(g, row.i, ir_int(g, s->chains * s->columns)));
    LLVMValueRef to = ir_at(g, out, ir_mul(g, row.i, ldo));
    ir_loop panel = ir_loop_begin(g, ir_int(g, 0), panels, ir_int(g, 1), "panel");
    LLVMValueRef index = ir_add(g, first, panel.i);
    LLVMValueRef source = ir_at(g, from, ir_mul(g, index, ir_int(g, FFN_PANEL)));
    LLVMValueRef target = ir_at(g, to, ir_mul(g, panel.i, ir_int(g, FFN_PANEL)));
    /* Chain 0 is not needed once summed: the sum takes its place, then as much of it as is real goes out. */
    for (int64_t v = 0; v < FFN_PANEL; v += g->lanes) {
        LLVMValueRef sum = chain_sum(g, s, ir_at_const(g, source, v));
        if (s == &n->contract)
            sum = LLVMBuildFAdd(g->builder, sum, LLVMConstNull(g->vector), "");
        ir_store(g, sum, ir_at_const(g, source, v), 4);
    }
    LLVMValueRef is_last = ir_equal(g, index, ir_int(g, s->columns / FFN_PANEL - 1));
    ir_if whole = ir_if_begin(g, LLVMBuildNot(g->builder, is_last, ""), "whole");
    ir_copy_floats(g, target, source, FFN_PANEL);
    ir_if_end(g, &whole);
    ir_if part = ir_if_begin(g, is_last, "part");
    ir_copy_floats(g, target, source, last);
    ir_if_end(g, &part);
    ir_loop_end(g, &panel);
    ir_loop_end(g, &row);
}
