/* nest.c: see nest.h
 *
 *     fused     for each block of rows, for each block of hidden columns: expand_block, contract_block
 *     expand    the same expand_block over a range of d_ff, h kept whole for the caller
 *     contract  the same contract_block over a range of d_model, all of d_ff
 *     activate  the activation alone over an array
 *
 * Invariant: whatever the blocks, an output is one chain of fused multiply-adds in order of k (or the spec's 2 or 4
 * interleaved chains); a block that ends inside a chain stores it and the next block goes on from there. */
#include "nest.h"

#include <stdio.h>

#include "formula_ir.h"
#include "image.h"
#include "stage.h"

/* An activation of at most this many operations is applied by the tiles, in registers. */
#define CHEAP_NODES 8

const char *const nest_entry_names[IMAGE_ENTRIES] = {"_fused", "_expand", "_contract", "_activate"};

typedef struct nest {
    ir *g;
    const ffn_spec *spec;
    const ffn_plan *plan;
    const packed_layout *layout;
    const formula_graph *graph;
    plan_scratch scratch;
    bool gated;
    int64_t group; /* panels that pass through the row tiles together */
    stage expand, contract;
    LLVMValueRef activate, expand_block, contract_block, start_chains;
} nest;

static void entry_function(nest *n, image_entry entry, const LLVMTypeRef *types, int32_t count) {
    static const char *const classes[FFN_N_CLASSES] = {"n1", "n2", "n5", "n17"}; /* the least n of each */
    char spec[FFN_SPEC_NAME_BYTES] = "", name[2 * FFN_SPEC_NAME_BYTES];
    ffn_spec_name(n->spec, true, spec, sizeof spec, NULL);
    snprintf(name, sizeof name, "ffn_%s_%s_%s%s", spec, ffn_isa_name(n->plan->isa), classes[n->plan->n_class],
             nest_entry_names[entry]);
    ir_function(n->g, name, n->g->void_type, types, count, IR_ENTRY);
}

static LLVMValueRef floats(const nest *n, LLVMValueRef scratch, int64_t offset) {
    return ir_at_const(n->g, scratch, offset);
}

static bool tiles_activate(const nest *n) {
    return !n->gated && n->graph->count <= CHEAP_NODES && n->expand.chains == 1 && n->plan->k_block >= n->spec->d_model;
}

/* activate(h, ldh, g, ldg, rows, columns): h = act(h), or phi(g, h), in place; columns are whole vectors. */
static void build_activate(nest *n) {
    ir *g = n->g;
    LLVMTypeRef types[] = {g->pointer, g->i64, g->pointer, g->i64, g->i64, g->i64};
    n->activate = ir_function(g, "activate", g->void_type, types, 6, IR_INTERNAL);
    LLVMValueRef h = ir_parameter(g, 0, "h"), ldh = ir_parameter(g, 1, "ldh"), gate = ir_parameter(g, 2, "gate");
    LLVMValueRef ldg = ir_parameter(g, 3, "ldg"), rows = ir_parameter(g, 4, "rows"),
                 columns = ir_parameter(g, 5, "columns");
    ir_loop row = ir_loop_begin(g, ir_int(g, 0), rows, ir_int(g, 1), "row");
    LLVMValueRef h_row = ir_at(g, h, ir_mul(g, row.i, ldh)), g_row = ir_at(g, gate, ir_mul(g, row.i, ldg));
    ir_loop column = ir_loop_begin(g, ir_int(g, 0), columns, ir_int(g, g->lanes), "column");
    LLVMValueRef at = ir_at(g, h_row, column.i), up = ir_load(g, g->vector, at, 4);
    LLVMValueRef first = n->gated ? ir_load(g, g->vector, ir_at(g, g_row, column.i), 4) : up;
    ir_store(g, formula_ir(g, n->graph, first, up), at, 4);
    ir_loop_end(g, &column);
    ir_loop_end(g, &row);
    ir_return(g);
}

/* start_chains(start, bias, chains, columns): chain 0 starts at the bias, the others at +0. */
static void build_start_chains(nest *n) {
    ir *g = n->g;
    LLVMTypeRef types[] = {g->pointer, g->pointer, g->i64, g->i64};
    n->start_chains = ir_function(g, "start_chains", g->void_type, types, 4, IR_INTERNAL);
    LLVMValueRef start = ir_parameter(g, 0, "start"), bias = ir_parameter(g, 1, "bias");
    LLVMValueRef chains = ir_parameter(g, 2, "chains"), columns = ir_parameter(g, 3, "columns");
    LLVMValueRef step = ir_int(g, g->lanes);
    ir_loop copy = ir_loop_begin(g, ir_int(g, 0), columns, step, "bias");
    ir_store(g, ir_load(g, g->vector, ir_at(g, bias, copy.i), 4), ir_at(g, start, copy.i), 4);
    ir_loop_end(g, &copy);
    ir_loop zero = ir_loop_begin(g, columns, ir_mul(g, chains, columns), step, "zero");
    ir_store(g, LLVMConstNull(g->vector), ir_at(g, start, zero.i), 4);
    ir_loop_end(g, &zero);
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

/* Sums the chains of panels first .. first + panels - 1 into out, whose column 0 is that of panel `first`. Only `last`
 * columns of the stage's last panel are written (16 where its padding may be). */
static void sum_chains(nest *n, const stage *s, LLVMValueRef chains, LLVMValueRef out, LLVMValueRef ldo,
                       LLVMValueRef rows, LLVMValueRef first, LLVMValueRef panels, int64_t last) {
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

/* One matrix of the expand stage over one group of panels and one k block. */
typedef struct expand_call {
    LLVMValueRef x, ldx, packed, scratch, rows, panel, panels, k, k_count;
} expand_call;

/* The weights of one panel of a matrix of the expand stage, from term k on. */
static LLVMValueRef expand_weights(nest *n, LLVMValueRef packed, bool gate, LLVMValueRef panel, LLVMValueRef k) {
    ir *g = n->g;
    LLVMValueRef matrix = ir_at_bytes(g, packed, gate ? n->layout->expand : n->layout->expand_up);
    LLVMValueRef first = ir_at(g, matrix, ir_mul(g, panel, ir_int(g, n->expand.panel_stride)));
    return ir_at(g, first, ir_mul(g, k, ir_int(g, FFN_PANEL)));
}

/* The weights of one panel of the contract stage, from hidden column f on. */
static LLVMValueRef contract_weights(nest *n, LLVMValueRef packed, LLVMValueRef panel, LLVMValueRef f) {
    ir *g = n->g;
    LLVMValueRef matrix = ir_at_bytes(g, packed, n->layout->contract);
    LLVMValueRef first = ir_at(g, matrix, ir_mul(g, panel, ir_int(g, n->contract.panel_stride)));
    return ir_at(g, first, ir_mul(g, f, ir_int(g, FFN_PANEL)));
}

static void expand_matrix(nest *n, const expand_call *c, bool gate, LLVMValueRef out, LLVMValueRef ldo,
                          LLVMValueRef next) {
    ir *g = n->g;
    const stage *s = &n->expand;
    LLVMValueRef bias = ir_at_bytes(g, c->packed, gate ? n->layout->bias_gate : n->layout->bias_up);
    LLVMValueRef column = ir_mul(g, c->panel, ir_int(g, FFN_PANEL)), first_k = ir_equal(g, c->k, ir_int(g, 0));
    LLVMValueRef target = out, ld = ldo, start = ir_at(g, bias, column);
    if (s->chains > 1) {
        target = ir_at(g, floats(n, c->scratch, n->scratch.expand_chains), column);
        ld = ir_int(g, s->chains * s->columns);
        start = ir_at(g, floats(n, c->scratch, n->scratch.expand_start + (gate ? s->chains * s->columns : 0)), column);
    }
    LLVMValueRef arguments[SWEEP_PARAMETERS] = {
        [SWEEP_A] = ir_at(g, c->x, c->k),
        [SWEEP_LDA] = c->ldx,
        [SWEEP_B] = expand_weights(n, c->packed, gate, c->panel, c->k),
        [SWEEP_C] = target,
        [SWEEP_LDC] = ld,
        [SWEEP_INIT] = ir_select(g, first_k, start, target),
        [SWEEP_LDI] = ir_select(g, first_k, ir_int(g, 0), ld),
        [SWEEP_ROWS] = c->rows,
        [SWEEP_PANELS] = c->panels,
        [SWEEP_K] = c->k_count,
        [SWEEP_NEXT] = next,
    };
    ir_call(g, s->sweep, arguments, SWEEP_PARAMETERS);
    if (s->chains > 1) /* such a stage has no k blocks: the sums are complete */
        sum_chains(n, s, floats(n, c->scratch, n->scratch.expand_chains), out, ldo, c->rows, c->panel, c->panels,
                   FFN_PANEL);
}

/* expand_block(x, ldx, packed, h, ldh, scratch, rows, first panel, panels, after): h of these rows and panels; column 0
 * of h is that of the first panel. `after` is where the weights that are read next begin. */
static void build_expand_block(nest *n) {
    ir *g = n->g;
    LLVMTypeRef types[] = {g->pointer, g->i64, g->pointer, g->pointer, g->i64,
                           g->pointer, g->i64, g->i64,     g->i64,     g->pointer};
    n->expand_block = ir_function(g, "expand_block", g->void_type, types, 10, IR_INTERNAL);
    LLVMValueRef x = ir_parameter(g, 0, "x"), ldx = ir_parameter(g, 1, "ldx"), packed = ir_parameter(g, 2, "packed");
    LLVMValueRef h = ir_parameter(g, 3, "h"), ldh = ir_parameter(g, 4, "ldh"), scratch = ir_parameter(g, 5, "scratch");
    LLVMValueRef rows = ir_parameter(g, 6, "rows"), first = ir_parameter(g, 7, "first");
    LLVMValueRef panels = ir_parameter(g, 8, "panels"), after = ir_parameter(g, 9, "after");
    LLVMValueRef gate = floats(n, scratch, n->scratch.gate), ldg = ir_int(g, n->scratch.hidden_stride);

    int64_t d_model = n->spec->d_model, k_block = n->expand.chains > 1 ? d_model : n->plan->k_block;
    ir_loop k = ir_loop_begin(g, ir_int(g, 0), ir_int(g, d_model), ir_int(g, k_block), "k_block");
    LLVMValueRef k_left = ir_sub(g, ir_int(g, d_model), k.i);
    LLVMValueRef last_k = ir_less(g, k_left, ir_int(g, k_block + 1));
    LLVMValueRef next_k = expand_weights(n, packed, n->gated, first, ir_add(g, k.i, ir_int(g, k_block)));
    LLVMValueRef after_groups = ir_select(g, last_k, after, next_k);
    ir_loop group = ir_loop_begin(g, ir_int(g, 0), panels, ir_int(g, n->group), "group");
    LLVMValueRef column = ir_mul(g, group.i, ir_int(g, FFN_PANEL)), panel = ir_add(g, first, group.i);
    LLVMValueRef left = ir_sub(g, panels, group.i), last_group = ir_less(g, left, ir_int(g, n->group + 1));
    expand_call call = {.x = x,
                        .ldx = ldx,
                        .packed = packed,
                        .scratch = scratch,
                        .rows = rows,
                        .panel = panel,
                        .panels = ir_min(g, ir_int(g, n->group), left),
                        .k = k.i,
                        .k_count = ir_min(g, ir_int(g, k_block), k_left)};
    LLVMValueRef next_group = expand_weights(n, packed, n->gated, ir_add(g, panel, ir_int(g, n->group)), k.i);
    LLVMValueRef next = ir_select(g, last_group, after_groups, next_group);
    if (n->gated)
        expand_matrix(n, &call, true, ir_at(g, gate, column), ldg, expand_weights(n, packed, false, panel, k.i));
    expand_matrix(n, &call, false, ir_at(g, h, column), ldh, next);
    if (!tiles_activate(n)) {
        ir_if complete = ir_if_begin(g, last_k, "complete");
        LLVMValueRef arguments[] = {ir_at(g, h, column),
                                    ldh,
                                    n->gated ? ir_at(g, gate, column) : h,
                                    ldg,
                                    rows,
                                    ir_mul(g, call.panels, ir_int(g, FFN_PANEL))};
        ir_call(g, n->activate, arguments, 6);
        ir_if_end(g, &complete);
    }
    ir_loop_end(g, &group);
    ir_loop_end(g, &k);
    ir_return(g);
}

/* The last panel of y where d_model is no multiple of 16: summed in scratch, its real columns copied in and out. */
static void copy_ragged(nest *n, LLVMValueRef to, LLVMValueRef ld_to, LLVMValueRef from, LLVMValueRef ld_from,
                        LLVMValueRef rows) {
    ir *g = n->g;
    ir_loop row = ir_loop_begin(g, ir_int(g, 0), rows, ir_int(g, 1), "ragged");
    ir_copy_floats(g, ir_at(g, to, ir_mul(g, row.i, ld_to)), ir_at(g, from, ir_mul(g, row.i, ld_from)),
                   n->spec->d_model % FFN_PANEL);
    ir_loop_end(g, &row);
}

/* contract_block(h, ldh, packed, f, k, y, ldy, scratch, rows, first panel, panels, after): y of these rows and panels
 * += h W_down over hidden columns f .. f + k - 1 of d_ff; h starts at column f, y at column 0. f = 0 starts the sums,
 * the block that reaches d_ff ends them. */
static void build_contract_block(nest *n) {
    ir *g = n->g;
    const packed_layout *l = n->layout;
    const stage *s = &n->contract;
    LLVMTypeRef types[] = {g->pointer, g->i64,     g->pointer, g->i64, g->i64, g->pointer,
                           g->i64,     g->pointer, g->i64,     g->i64, g->i64, g->pointer};
    n->contract_block = ir_function(g, "contract_block", g->void_type, types, 12, IR_INTERNAL);
    LLVMValueRef h = ir_parameter(g, 0, "h"), ldh = ir_parameter(g, 1, "ldh"), packed = ir_parameter(g, 2, "packed");
    LLVMValueRef f = ir_parameter(g, 3, "f"), k = ir_parameter(g, 4, "k"), y = ir_parameter(g, 5, "y");
    LLVMValueRef ldy = ir_parameter(g, 6, "ldy"), scratch = ir_parameter(g, 7, "scratch"),
                 rows = ir_parameter(g, 8, "rows");
    LLVMValueRef first = ir_parameter(g, 9, "first"), panels = ir_parameter(g, 10, "panels");
    LLVMValueRef after = ir_parameter(g, 11, "after");

    LLVMValueRef starts = ir_equal(g, f, ir_int(g, 0));
    LLVMValueRef end = ir_add(g, first, panels);
    LLVMValueRef arguments[SWEEP_PARAMETERS] = {[SWEEP_A] = h, [SWEEP_LDA] = ldh, [SWEEP_ROWS] = rows, [SWEEP_K] = k};
    bool chained = s->chains > 1;
    int64_t ragged = chained ? 0 : n->spec->d_model % FFN_PANEL;
    int64_t full_panels = chained ? l->down_panels : n->spec->d_model / FFN_PANEL;

    LLVMValueRef out = chained ? floats(n, scratch, n->scratch.contract_chains) : y;
    LLVMValueRef ldo = chained ? ir_int(g, s->chains * s->columns) : ldy;
    LLVMValueRef start = chained ? floats(n, scratch, n->scratch.contract_start) : ir_at_bytes(g, packed, l->bias_down);
    LLVMValueRef full_end = ir_min(g, end, ir_int(g, full_panels));
    ir_loop group = ir_loop_begin(g, first, full_end, ir_int(g, n->group), "group");
    LLVMValueRef column = ir_mul(g, group.i, ir_int(g, FFN_PANEL));
    LLVMValueRef next_panel = ir_add(g, group.i, ir_int(g, n->group));
    arguments[SWEEP_B] = contract_weights(n, packed, group.i, f);
    arguments[SWEEP_NEXT] =
        ir_select(g, ir_less(g, next_panel, end), contract_weights(n, packed, next_panel, f), after);
    arguments[SWEEP_C] = ir_at(g, out, column);
    arguments[SWEEP_LDC] = ldo;
    arguments[SWEEP_INIT] = ir_select(g, starts, ir_at(g, start, column), arguments[SWEEP_C]);
    arguments[SWEEP_LDI] = ir_select(g, starts, ir_int(g, 0), ldo);
    arguments[SWEEP_PANELS] = ir_min(g, ir_int(g, n->group), ir_sub(g, full_end, group.i));
    ir_call(g, s->sweep, arguments, SWEEP_PARAMETERS);
    ir_loop_end(g, &group);

    if (ragged) {
        ir_if reaches = ir_if_begin(g, ir_less(g, ir_int(g, full_panels), end), "ragged");
        LLVMValueRef staged = floats(n, scratch, n->scratch.ragged), ld = ir_int(g, FFN_PANEL);
        LLVMValueRef target = ir_at_const(g, y, full_panels * FFN_PANEL);
        ir_if goes_on = ir_if_begin(g, LLVMBuildNot(g->builder, starts, ""), "goes_on");
        copy_ragged(n, staged, ld, target, ldy, rows);
        ir_if_end(g, &goes_on);
        arguments[SWEEP_B] = contract_weights(n, packed, ir_int(g, full_panels), f);
        arguments[SWEEP_NEXT] = after;
        arguments[SWEEP_C] = staged;
        arguments[SWEEP_LDC] = ld;
        arguments[SWEEP_INIT] = ir_select(g, starts, ir_at_const(g, start, full_panels * FFN_PANEL), staged);
        arguments[SWEEP_LDI] = ir_select(g, starts, ir_int(g, 0), ld);
        arguments[SWEEP_PANELS] = ir_int(g, 1);
        ir_call(g, s->sweep, arguments, SWEEP_PARAMETERS);
        copy_ragged(n, target, ldy, staged, ld, rows);
        ir_if_end(g, &reaches);
    }
    if (chained) {
        ir_if ends = ir_if_begin(g, ir_equal(g, ir_add(g, f, k), ir_int(g, n->spec->d_ff)), "ends");
        int64_t last = n->spec->d_model % FFN_PANEL ? n->spec->d_model % FFN_PANEL : FFN_PANEL;
        sum_chains(n, s, out, ir_at(g, y, ir_mul(g, first, ir_int(g, FFN_PANEL))), ldy, rows, first, panels, last);
        ir_if_end(g, &ends);
    }
    ir_return(g);
}

/* Where the chains of a call start does not change during it. */
static void start_expand(nest *n, LLVMValueRef packed, LLVMValueRef scratch) {
    ir *g = n->g;
    const stage *s = &n->expand;
    LLVMValueRef chains = ir_int(g, s->chains), columns = ir_int(g, s->columns);
    for (int32_t gate = 0; s->chains > 1 && gate <= (n->gated ? 1 : 0); gate++) {
        LLVMValueRef start = floats(n, scratch, n->scratch.expand_start + gate * s->chains * s->columns);
        LLVMValueRef bias = ir_at_bytes(g, packed, gate ? n->layout->bias_gate : n->layout->bias_up);
        ir_call(g, n->start_chains, (LLVMValueRef[]){start, bias, chains, columns}, 4);
    }
}

static void start_contract(nest *n, LLVMValueRef packed, LLVMValueRef scratch) {
    ir *g = n->g;
    const stage *s = &n->contract;
    if (s->chains == 1)
        return;
    LLVMValueRef start = floats(n, scratch, n->scratch.contract_start);
    LLVMValueRef bias = ir_at_bytes(g, packed, n->layout->bias_down);
    ir_call(g, n->start_chains, (LLVMValueRef[]){start, bias, ir_int(g, s->chains), ir_int(g, s->columns)}, 4);
}

/* Cuts `total` rows into equal blocks of at most m_block: block i starts at i * base + min(i, extra). */
typedef struct row_blocks {
    LLVMValueRef count, base, extra;
} row_blocks;

static row_blocks cut_rows(nest *n, LLVMValueRef total) {
    ir *g = n->g;
    LLVMValueRef some = ir_select(g, ir_less(g, total, ir_int(g, 1)), ir_int(g, 1), total);
    row_blocks cut = {.count = ir_ceil_div(g, some, n->plan->m_block)};
    cut.base = ir_div(g, total, cut.count);
    cut.extra = ir_rem(g, total, cut.count);
    return cut;
}

static void block_rows(ir *g, const row_blocks *cut, LLVMValueRef i, LLVMValueRef *first, LLVMValueRef *rows) {
    LLVMValueRef longer = LLVMBuildZExt(g->builder, ir_less(g, i, cut->extra), g->i64, "");
    *first = ir_add(g, ir_mul(g, i, cut->base), ir_min(g, i, cut->extra));
    *rows = ir_add(g, cut->base, longer);
}

static void build_fused(nest *n) {
    ir *g = n->g;
    LLVMTypeRef types[] = {g->pointer, g->i64, g->pointer, g->i64, g->pointer, g->pointer, g->i64, g->i64};
    entry_function(n, IMAGE_FUSED, types, 8);
    LLVMValueRef x = ir_parameter(g, 0, "x"), ldx = ir_parameter(g, 1, "ldx"), y = ir_parameter(g, 2, "y");
    LLVMValueRef ldy = ir_parameter(g, 3, "ldy"), packed = ir_parameter(g, 4, "packed");
    LLVMValueRef scratch = ir_parameter(g, 5, "scratch"), begin = ir_parameter(g, 6, "begin"),
                 end = ir_parameter(g, 7, "end");
    start_expand(n, packed, scratch);
    start_contract(n, packed, scratch);
    LLVMValueRef h = floats(n, scratch, n->scratch.hidden), ldh = ir_int(g, n->scratch.hidden_stride);
    LLVMValueRef d_ff = ir_int(g, n->spec->d_ff), down_panels = ir_int(g, n->layout->down_panels);

    row_blocks cut = cut_rows(n, ir_sub(g, end, begin));
    ir_loop block = ir_loop_begin(g, ir_int(g, 0), cut.count, ir_int(g, 1), "m_block");
    LLVMValueRef first, rows;
    block_rows(g, &cut, block.i, &first, &rows);
    first = ir_add(g, first, begin);
    LLVMValueRef x_block = ir_at(g, x, ir_mul(g, first, ldx)), y_block = ir_at(g, y, ir_mul(g, first, ldy));
    ir_loop f = ir_loop_begin(g, ir_int(g, 0), d_ff, ir_int(g, n->plan->f_block), "f_block");
    LLVMValueRef columns = ir_min(g, ir_int(g, n->plan->f_block), ir_sub(g, d_ff, f.i));
    LLVMValueRef panel = ir_div(g, f.i, ir_int(g, FFN_PANEL)), panels = ir_ceil_div(g, columns, FFN_PANEL);
    LLVMValueRef zero = ir_int(g, 0), contract = contract_weights(n, packed, zero, f.i);
    LLVMValueRef expand = expand_weights(n, packed, n->gated, ir_add(g, panel, panels), zero);
    ir_call(g, n->expand_block, (LLVMValueRef[]){x_block, ldx, packed, h, ldh, scratch, rows, panel, panels, contract},
            10);
    ir_call(g, n->contract_block,
            (LLVMValueRef[]){h, ldh, packed, f.i, columns, y_block, ldy, scratch, rows, zero, down_panels, expand}, 12);
    ir_loop_end(g, &f);
    ir_loop_end(g, &block);
    ir_return(g);
}

static void build_expand(nest *n) {
    ir *g = n->g;
    LLVMTypeRef types[] = {g->pointer, g->i64, g->pointer, g->pointer, g->pointer, g->i64, g->i64, g->i64};
    entry_function(n, IMAGE_EXPAND, types, 8);
    LLVMValueRef x = ir_parameter(g, 0, "x"), ldx = ir_parameter(g, 1, "ldx"), packed = ir_parameter(g, 2, "packed");
    LLVMValueRef hidden = ir_parameter(g, 3, "hidden"), scratch = ir_parameter(g, 4, "scratch");
    LLVMValueRef total = ir_parameter(g, 5, "rows"), begin = ir_parameter(g, 6, "begin"),
                 end = ir_parameter(g, 7, "end");
    start_expand(n, packed, scratch);
    LLVMValueRef ldh = ir_int(g, image_hidden_stride(n->spec));
    LLVMValueRef last = ir_ceil_div(g, end, FFN_PANEL), step = ir_int(g, n->plan->f_block / FFN_PANEL);

    row_blocks cut = cut_rows(n, total);
    ir_loop block = ir_loop_begin(g, ir_int(g, 0), cut.count, ir_int(g, 1), "m_block");
    LLVMValueRef first, rows;
    block_rows(g, &cut, block.i, &first, &rows);
    ir_loop panel = ir_loop_begin(g, ir_div(g, begin, ir_int(g, FFN_PANEL)), last, step, "f_block");
    LLVMValueRef h = ir_at(g, ir_at(g, hidden, ir_mul(g, first, ldh)), ir_mul(g, panel.i, ir_int(g, FFN_PANEL)));
    LLVMValueRef panels = ir_min(g, step, ir_sub(g, last, panel.i));
    LLVMValueRef x_block = ir_at(g, x, ir_mul(g, first, ldx));
    LLVMValueRef after = expand_weights(n, packed, n->gated, ir_add(g, panel.i, panels), ir_int(g, 0));
    ir_call(g, n->expand_block, (LLVMValueRef[]){x_block, ldx, packed, h, ldh, scratch, rows, panel.i, panels, after},
            10);
    ir_loop_end(g, &panel);
    ir_loop_end(g, &block);
    ir_return(g);
}

static void build_contract(nest *n) {
    ir *g = n->g;
    LLVMTypeRef types[] = {g->pointer, g->pointer, g->pointer, g->i64, g->pointer, g->i64, g->i64, g->i64};
    entry_function(n, IMAGE_CONTRACT, types, 8);
    LLVMValueRef hidden = ir_parameter(g, 0, "hidden"), packed = ir_parameter(g, 1, "packed"),
                 y = ir_parameter(g, 2, "y");
    LLVMValueRef ldy = ir_parameter(g, 3, "ldy"), scratch = ir_parameter(g, 4, "scratch"),
                 total = ir_parameter(g, 5, "rows");
    LLVMValueRef begin = ir_parameter(g, 6, "begin"), end = ir_parameter(g, 7, "end");
    start_contract(n, packed, scratch);
    LLVMValueRef ldh = ir_int(g, image_hidden_stride(n->spec)), d_ff = ir_int(g, n->spec->d_ff);
    LLVMValueRef panel = ir_div(g, begin, ir_int(g, FFN_PANEL));
    LLVMValueRef panels = ir_sub(g, ir_ceil_div(g, end, FFN_PANEL), panel);

    row_blocks cut = cut_rows(n, total);
    ir_loop block = ir_loop_begin(g, ir_int(g, 0), cut.count, ir_int(g, 1), "m_block");
    LLVMValueRef first, rows;
    block_rows(g, &cut, block.i, &first, &rows);
    LLVMValueRef y_block = ir_at(g, y, ir_mul(g, first, ldy)), h_block = ir_at(g, hidden, ir_mul(g, first, ldh));
    ir_loop f = ir_loop_begin(g, ir_int(g, 0), d_ff, ir_int(g, n->plan->f_block), "f_block");
    LLVMValueRef columns = ir_min(g, ir_int(g, n->plan->f_block), ir_sub(g, d_ff, f.i));
    LLVMValueRef after = contract_weights(n, packed, panel, ir_add(g, f.i, columns));
    ir_call(g, n->contract_block,
            (LLVMValueRef[]){ir_at(g, h_block, f.i), ldh, packed, f.i, columns, y_block, ldy, scratch, rows, panel,
                             panels, after},
            12);
    ir_loop_end(g, &f);
    ir_loop_end(g, &block);
    ir_return(g);
}

static void build_activate_entry(nest *n) {
    ir *g = n->g;
    LLVMTypeRef types[] = {g->i64, g->pointer, g->pointer, g->pointer};
    entry_function(n, IMAGE_ACTIVATE, types, 4);
    LLVMValueRef count = ir_parameter(g, 0, "count"), gate = ir_parameter(g, 1, "g"), up = ir_parameter(g, 2, "u");
    LLVMValueRef out = ir_parameter(g, 3, "out");
    LLVMValueRef lanes = ir_int(g, g->lanes), zero = ir_int(g, 0), one = ir_int(g, 1);
    LLVMValueRef whole = ir_sub(g, count, ir_rem(g, count, lanes));
    ir_loop loop = ir_loop_begin(g, zero, whole, lanes, "vector");
    LLVMValueRef first = ir_load(g, g->vector, ir_at(g, gate, loop.i), 4);
    LLVMValueRef second = n->gated ? ir_load(g, g->vector, ir_at(g, up, loop.i), 4) : NULL;
    ir_store(g, formula_ir(g, n->graph, first, second), ir_at(g, out, loop.i), 4);
    ir_loop_end(g, &loop);
    /* The rest, one at a time: every lane computes it, one is kept. */
    ir_loop tail = ir_loop_begin(g, whole, count, one, "tail");
    first = ir_broadcast(g, ir_at(g, gate, tail.i));
    second = n->gated ? ir_broadcast(g, ir_at(g, up, tail.i)) : NULL;
    LLVMValueRef value = formula_ir(g, n->graph, first, second);
    ir_store(g, LLVMBuildExtractElement(g->builder, value, LLVMConstInt(g->i32, 0, 0), ""), ir_at(g, out, tail.i), 4);
    ir_loop_end(g, &tail);
    ir_return(g);
}

void nest_build(ir *g, const ffn_spec *spec, const ffn_plan *plan, const packed_layout *layout,
                const formula_graph *graph) {
    nest n = {.g = g, .spec = spec, .plan = plan, .layout = layout, .graph = graph, .gated = ffn_spec_gated(spec)};
    plan_scratch_of(spec, plan, &n.scratch);
    n.group = plan_group(plan);
    n.expand = (stage){.name = "expand",
                       .columns = layout->up_panels * FFN_PANEL,
                       .terms = spec->d_model,
                       .panel_stride = layout->expand_panel_stride / (int64_t)sizeof(float),
                       .chains = plan_chains(spec->d_ff)};
    n.contract = (stage){.name = "contract",
                         .columns = layout->down_panels * FFN_PANEL,
                         .terms = spec->d_ff,
                         .panel_stride = layout->contract_panel_bytes / (int64_t)sizeof(float),
                         .chains = plan_chains(spec->d_model)};
    n.contract.add_zero = n.contract.chains == 1;
    n.contract.fetch_soon = n.contract.chains == 1;
    n.expand.fetch_soon = n.expand.chains == 1 && plan->k_block < spec->d_model; /* partial sums wait in the h block */
    n.expand.activation = tiles_activate(&n) ? graph : NULL;
    stage_build(g, &n.expand, plan);
    stage_build(g, &n.contract, plan);
    if (!tiles_activate(&n))
        build_activate(&n);
    if (n.expand.chains > 1 || n.contract.chains > 1)
        build_start_chains(&n);
    build_expand_block(&n);
    build_contract_block(&n);
    build_fused(&n);
    build_expand(&n);
    build_contract(&n);
    build_activate_entry(&n);
}
