/* nest_blocks.c: see nest_blocks.h
 *
 * Invariant: whatever the blocks, an output is one chain of fused multiply-adds in order of k (or the spec's 2 or 4
 * interleaved chains); a block that ends inside a chain stores it and the next block goes on from there. */
#include "nest_blocks.h"

#include <string.h>

#include "activation.h"
#include "chains.h"
#include "interleave.h"
#include "stages.h"

/* An activation of at most this many operations is applied by the tiles, in registers. */
#define CHEAP_NODES 8

bool nest_tiles_activate(const nest *n) {
    return !n->gated && n->graph->count <= CHEAP_NODES && n->expand.chains == 1 &&
           n->plan->k_block >= n->spec->d_model && !plan_chunk(n->plan, n->expand.chains, n->spec->d_model);
}

/* A call whose time is that of one part of the kernel, where it is counted (stages.h). */
static LLVMValueRef counted_call(nest *n, stages_part part, LLVMValueRef scratch, LLVMValueRef function,
                                 const LLVMValueRef *arguments, int32_t count) {
    ir *g = n->g;
    LLVMValueRef begin = g->count_stages ? ir_ticks(g) : NULL, result = ir_call(g, function, arguments, count);
    if (!begin)
        return result;
    LLVMValueRef whole = LLVMBuildSub(g->builder, ir_ticks(g), begin, ""), words[STAGES_WORDS];
    for (int64_t word = 0; word < STAGES_WORDS; word++)
        words[word] = ir_at_bytes(g, scratch, n->scratch.bytes + 8 * (STAGES_WORDS * (int64_t)part + word));
    LLVMValueRef spent = ir_min(g, whole, ir_load(g, g->i64, words[STAGES_MOST], 8));
    const LLVMValueRef added[] = {[STAGES_SPENT] = spent, [STAGES_WHOLE] = whole, [STAGES_READINGS] = ir_int(g, 1)};
    for (int word = 0; word < STAGES_MOST; word++) {
        LLVMValueRef before = ir_load(g, g->i64, words[word], 8);
        ir_store(g, LLVMBuildAdd(g->builder, before, added[word], ""), words[word], 8);
    }
    return result;
}

/* One matrix of the expand stage over one group of panels and one k block; x starts at term k. */
typedef struct expand_call {
    LLVMValueRef x, ldx, packed, scratch, rows, panel, panels, k, k_count;
} expand_call;

/* The weights of one panel of a matrix of the expand stage, from term k on. */
LLVMValueRef nest_expand_weights(nest *n, LLVMValueRef packed, bool gate, LLVMValueRef panel, LLVMValueRef k) {
    ir *g = n->g;
    LLVMValueRef matrix = ir_at_bytes(g, packed, gate ? n->layout->expand : n->layout->expand_up);
    LLVMValueRef first = ir_at(g, matrix, ir_mul(g, panel, ir_int(g, n->expand.panel_stride)));
    return ir_at(g, first, ir_mul(g, k, ir_int(g, FFN_PANEL)));
}

/* The weights of one panel of the contract stage, from hidden column f on. */
LLVMValueRef nest_contract_weights(nest *n, LLVMValueRef packed, LLVMValueRef panel, LLVMValueRef f) {
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
        target = ir_at(g, nest_scratch(n, c->scratch, n->scratch.expand_chains), column);
        ld = ir_int(g, s->chains * s->columns);
        start = ir_at(g, nest_scratch(n, c->scratch, n->scratch.expand_start + (gate ? s->chains * s->columns : 0)),
                      column);
    }
    LLVMValueRef arguments[SWEEP_PARAMETERS] = {
        [SWEEP_A] = c->x,
        [SWEEP_LDA] = c->ldx,
        [SWEEP_B] = nest_expand_weights(n, c->packed, gate, c->panel, c->k),
        [SWEEP_C] = target,
        [SWEEP_LDC] = ld,
        [SWEEP_INIT] = ir_select(g, first_k, start, target),
        [SWEEP_LDI] = ir_select(g, first_k, ir_int(g, 0), ld),
        [SWEEP_ROWS] = c->rows,
        [SWEEP_PANELS] = c->panels,
        [SWEEP_K] = c->k_count,
        [SWEEP_NEXT] = next,
        [SWEEP_STRIDE] = ir_int(g, s->panel_stride),
        [SWEEP_LAST] = ir_int(g, 0),
        [SWEEP_SLANT_C] = ir_int(g, 0),
        [SWEEP_SLANT_INIT] = ir_int(g, 0),
    };
    counted_call(n, STAGES_EXPAND, c->scratch, s->sweep, arguments, SWEEP_PARAMETERS);
    if (s->chains > 1) /* such a stage has no k blocks: the sums are complete */
        chains_sum(n, s, nest_scratch(n, c->scratch, n->scratch.expand_chains), out, ldo, c->rows, c->panel, c->panels,
                   FFN_PANEL);
}

/* `terms` terms of rows, interleaved, in scratch. */
static LLVMValueRef interleaved(nest *n, LLVMValueRef from, LLVMValueRef ld, LLVMValueRef rows, LLVMValueRef terms,
                                LLVMValueRef scratch) {
    LLVMValueRef to = nest_scratch(n, scratch, n->scratch.x);
    LLVMValueRef arguments[INTERLEAVE_PARAMETERS] = {
        [INTERLEAVE_FROM] = from, [INTERLEAVE_LD_FROM] = ld,
        [INTERLEAVE_TO] = to,     [INTERLEAVE_LD_TO] = ir_int(n->g, n->scratch.x_stride),
        [INTERLEAVE_ROWS] = rows, [INTERLEAVE_TERMS] = terms};
    ir_call(n->g, n->interleave, arguments, INTERLEAVE_PARAMETERS);
    return to;
}

/* Terms k .. k + k_count - 1 of the rows of x into scratch. */
static void copy_x(nest *n, LLVMValueRef x, LLVMValueRef ldx, LLVMValueRef k, LLVMValueRef k_count, LLVMValueRef rows,
                   LLVMValueRef scratch) {
    ir *g = n->g;
    LLVMValueRef to = nest_scratch(n, scratch, n->scratch.x), lanes = ir_int(g, g->lanes);
    LLVMValueRef vectors = ir_sub(g, k_count, ir_rem(g, k_count, lanes));
    ir_loop row = ir_loop_begin(g, ir_int(g, 0), rows, ir_int(g, 1), "copy_x");
    LLVMValueRef source = ir_at(g, ir_at(g, x, ir_mul(g, row.i, ldx)), k);
    LLVMValueRef target = ir_at(g, to, ir_mul(g, row.i, ir_int(g, n->scratch.x_stride)));
    ir_loop vector = ir_loop_begin(g, ir_int(g, 0), vectors, lanes, "vector");
    LLVMValueRef terms = ir_load(g, g->vector, ir_at(g, source, vector.i), 4);
    ir_store(g, terms, ir_at(g, target, vector.i), 4);
    ir_loop_end(g, &vector);
    ir_loop rest = ir_loop_begin(g, vectors, k_count, ir_int(g, 1), "rest");
    LLVMValueRef term = ir_load(g, g->f32, ir_at(g, source, rest.i), 4);
    ir_store(g, term, ir_at(g, target, rest.i), 4);
    ir_loop_end(g, &rest);
    ir_loop_end(g, &row);
}

/* expand_block(x, ldx, packed, h, ldh, scratch, rows, first panel, panels, after): h of these rows and panels; column 0
 * of h is that of the first panel. `after` is where the weights that are read next begin. */
static void build_expand_block(nest *n) {
    ir *g = n->g;
    LLVMTypeRef types[] = {g->pointer, g->i64, g->pointer, g->pointer, g->i64,
                           g->pointer, g->i64, g->i64,     g->i64,     g->pointer};
    n->expand_block = ir_function(g, "expand_block", g->void_type, types, 10, IR_INTERNAL);
    if (n->cold && (!n->plan->copy_x || plan_interleaves(n->plan)))
        ir_cold(g);
    LLVMValueRef x = ir_parameter(g, 0, "x"), ldx = ir_parameter(g, 1, "ldx"), packed = ir_parameter(g, 2, "packed");
    LLVMValueRef h = ir_parameter(g, 3, "h"), ldh = ir_parameter(g, 4, "ldh"), scratch = ir_parameter(g, 5, "scratch");
    LLVMValueRef rows = ir_parameter(g, 6, "rows"), first = ir_parameter(g, 7, "first");
    LLVMValueRef panels = ir_parameter(g, 8, "panels"), after = ir_parameter(g, 9, "after");
    LLVMValueRef gate = nest_scratch(n, scratch, n->scratch.gate), ldg = ir_int(g, n->scratch.gate_stride);

    int64_t d_model = n->spec->d_model, k_block = n->expand.chains > 1 ? d_model : n->plan->k_block;
    ir_loop k = ir_loop_begin(g, ir_int(g, 0), ir_int(g, d_model), ir_int(g, k_block), "k_block");
    LLVMValueRef k_left = ir_sub(g, ir_int(g, d_model), k.i);
    LLVMValueRef last_k = ir_less(g, k_left, ir_int(g, k_block + 1));
    LLVMValueRef next_k = nest_expand_weights(n, packed, n->gated, first, ir_add(g, k.i, ir_int(g, k_block)));
    LLVMValueRef after_groups = ir_select(g, last_k, after, next_k);
    LLVMValueRef k_count = ir_min(g, ir_int(g, k_block), k_left), x_block = ir_at(g, x, k.i);
    if (plan_interleaves(n->plan)) {
        x_block = interleaved(n, x_block, ldx, rows, k_count, scratch);
    } else if (n->plan->copy_x) {
        copy_x(n, x, ldx, k.i, k_count, rows, scratch);
        x_block = nest_scratch(n, scratch, n->scratch.x);
    }
    if (n->plan->copy_x)
        ldx = ir_int(g, n->scratch.x_stride);
    ir_loop group = ir_loop_begin(g, ir_int(g, 0), panels, ir_int(g, n->group), "group");
    LLVMValueRef column = ir_mul(g, group.i, ir_int(g, FFN_PANEL)), panel = ir_add(g, first, group.i);
    LLVMValueRef left = ir_sub(g, panels, group.i), last_group = ir_less(g, left, ir_int(g, n->group + 1));
    expand_call call = {.x = x_block,
                        .ldx = ldx,
                        .packed = packed,
                        .scratch = scratch,
                        .rows = rows,
                        .panel = panel,
                        .panels = ir_min(g, ir_int(g, n->group), left),
                        .k = k.i,
                        .k_count = k_count};
    LLVMValueRef next_group = nest_expand_weights(n, packed, n->gated, ir_add(g, panel, ir_int(g, n->group)), k.i);
    LLVMValueRef next = ir_select(g, last_group, after_groups, next_group);
    if (!n->scratch.gate_group)
        gate = ir_at(g, gate, column);
    if (n->gated) {
        LLVMValueRef up = nest_expand_weights(n, packed, false, panel, k.i);
        expand_matrix(n, &call, true, gate, ldg, up);
    }
    expand_matrix(n, &call, false, ir_at(g, h, column), ldh, next);
    if (!nest_tiles_activate(n)) {
        ir_if complete = ir_if_begin(g, last_k, "complete");
        LLVMValueRef up = ir_at(g, h, column);
        LLVMValueRef arguments[ACTIVATION_PARAMETERS] = {
            [ACTIVATION_G] = n->gated ? gate : up,
            [ACTIVATION_LDG] = ldg,
            [ACTIVATION_U] = up,
            [ACTIVATION_LDU] = ldh,
            [ACTIVATION_OUT] = up,
            [ACTIVATION_LDO] = ldh,
            [ACTIVATION_ROWS] = rows,
            [ACTIVATION_COLUMNS] = ir_mul(g, call.panels, ir_int(g, FFN_PANEL)),
        };
        counted_call(n, STAGES_ACTIVATE, scratch, n->activate, arguments, ACTIVATION_PARAMETERS);
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
    LLVMValueRef source = ir_at(g, from, ir_mul(g, row.i, ld_from));
    ir_copy_floats(g, ir_at(g, to, ir_mul(g, row.i, ld_to)), source, n->spec->d_model % FFN_PANEL);
    ir_loop_end(g, &row);
}

/* The sweep of the contract stage over the panels that `sweep` names: by the list of columns (`found` of them; -1: none
 * was made), or group by group over all terms. Only the caller of the dense one knows what runs next. */
typedef struct contract_call {
    LLVMValueRef scratch, found, list;
    LLVMValueRef arguments[SWEEP_PARAMETERS];
} contract_call;

static void find_columns(nest *n, contract_call *c, LLVMValueRef packed) {
    const LLVMValueRef *of = c->arguments;
    LLVMValueRef arguments[] = {of[SWEEP_A], of[SWEEP_LDA], of[SWEEP_ROWS], of[SWEEP_K], packed, c->list};
    c->found = n->sparse.wanted ? counted_call(n, STAGES_CONTRACT, c->scratch, n->sparse.find, arguments, 6) : NULL;
}

static ir_if dense_begin(nest *n, const contract_call *c) {
    return n->sparse.wanted ? ir_if_begin(n->g, ir_less(n->g, c->found, ir_int(n->g, 0)), "dense")
                            : (ir_if){.exit = NULL};
}

static void dense_end(nest *n, const ir_if *dense) {
    if (n->sparse.wanted)
        ir_if_end(n->g, dense);
}

static void sweep_list(nest *n, const contract_call *c) {
    ir *g = n->g;
    LLVMValueRef arguments[SWEEP_PARAMETERS];
    if (!n->sparse.wanted)
        return;
    memcpy(arguments, c->arguments, sizeof arguments);
    arguments[SWEEP_K] = c->found;
    arguments[SWEEP_NEXT] = c->list;
    ir_if listed = ir_if_begin(g, ir_less(g, ir_int(g, -1), c->found), "listed");
    counted_call(n, STAGES_CONTRACT, c->scratch, n->sparse.sweep, arguments, SWEEP_PARAMETERS);
    ir_if_end(g, &listed);
}

/* Panels begin .. end - 1, group after group; c and init are those of the first one. `next`: the weights that are read
 * after them. */
static void sweep_groups(nest *n, contract_call *c, LLVMValueRef packed, LLVMValueRef f, LLVMValueRef begin,
                         LLVMValueRef end, LLVMValueRef next) {
    ir *g = n->g;
    LLVMValueRef *arguments = c->arguments, out = arguments[SWEEP_C], init = arguments[SWEEP_INIT];
    ir_loop group = ir_loop_begin(g, begin, end, ir_int(g, n->group), "group");
    LLVMValueRef column = ir_mul(g, ir_sub(g, group.i, begin), ir_int(g, FFN_PANEL));
    LLVMValueRef next_panel = ir_add(g, group.i, ir_int(g, n->group));
    arguments[SWEEP_B] = nest_contract_weights(n, packed, group.i, f);
    LLVMValueRef next_group = nest_contract_weights(n, packed, next_panel, f);
    arguments[SWEEP_NEXT] = ir_select(g, ir_less(g, next_panel, end), next_group, next);
    arguments[SWEEP_C] = ir_at(g, out, column);
    arguments[SWEEP_INIT] = ir_at(g, init, column);
    arguments[SWEEP_PANELS] = ir_min(g, ir_int(g, n->group), ir_sub(g, end, group.i));
    counted_call(n, STAGES_CONTRACT, c->scratch, n->contract.sweep, arguments, SWEEP_PARAMETERS);
    ir_loop_end(g, &group);
    arguments[SWEEP_C] = out;
    arguments[SWEEP_INIT] = init;
}

/* The same where sums are held: they wait in y, in each row of a tile a panel further right than in the row above.
 * Those of the last panels, which would leave the range, wait in scratch. Panels go from left to right: the last block
 * of hidden columns, which writes y itself, finds there the sums of panels that it is done with. */
static void sweep_held(nest *n, contract_call *c, LLVMValueRef packed, LLVMValueRef f, LLVMValueRef begin,
                       LLVMValueRef end, LLVMValueRef next, LLVMValueRef starts, LLVMValueRef ends) {
    ir *g = n->g;
    LLVMValueRef *arguments = c->arguments, zero = ir_int(g, 0), slant = ir_int(g, FFN_PANEL);
    LLVMValueRef out = arguments[SWEEP_C], ldo = arguments[SWEEP_LDC], init = arguments[SWEEP_INIT];
    LLVMValueRef tail = ir_sub(g, end, ir_int(g, n->scratch.sums_stride / FFN_PANEL));
    tail = ir_select(g, ir_less(g, tail, begin), begin, tail);
    arguments[SWEEP_SLANT_C] = ir_select(g, ends, zero, slant);
    arguments[SWEEP_SLANT_INIT] = ir_select(g, starts, zero, slant);
    sweep_groups(n, c, packed, f, begin, tail, nest_contract_weights(n, packed, tail, f));
    LLVMValueRef sums = nest_scratch(n, c->scratch, n->scratch.sums), stride = ir_int(g, n->scratch.sums_stride);
    LLVMValueRef column = ir_mul(g, ir_sub(g, tail, begin), ir_int(g, FFN_PANEL));
    arguments[SWEEP_C] = ir_select(g, ends, ir_at(g, out, column), sums);
    arguments[SWEEP_LDC] = ir_select(g, ends, ldo, stride);
    arguments[SWEEP_INIT] = ir_select(g, starts, ir_at(g, init, column), sums);
    arguments[SWEEP_LDI] = ir_select(g, starts, zero, stride);
    arguments[SWEEP_SLANT_C] = arguments[SWEEP_SLANT_INIT] = zero;
    sweep_groups(n, c, packed, f, tail, end, next);
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
    if (n->cold && n->spec->d_model % FFN_PANEL == 0) /* else it copies the last panel of y as well */
        ir_cold(g);
    LLVMValueRef h = ir_parameter(g, 0, "h"), ldh = ir_parameter(g, 1, "ldh"), packed = ir_parameter(g, 2, "packed");
    LLVMValueRef f = ir_parameter(g, 3, "f"), k = ir_parameter(g, 4, "k"), y = ir_parameter(g, 5, "y");
    LLVMValueRef ldy = ir_parameter(g, 6, "ldy"), scratch = ir_parameter(g, 7, "scratch"),
                 rows = ir_parameter(g, 8, "rows");
    LLVMValueRef first = ir_parameter(g, 9, "first"), panels = ir_parameter(g, 10, "panels");
    LLVMValueRef after = ir_parameter(g, 11, "after");

    LLVMValueRef starts = ir_equal(g, f, ir_int(g, 0)), ends = ir_equal(g, ir_add(g, f, k), ir_int(g, n->spec->d_ff));
    LLVMValueRef end = ir_add(g, first, panels);
    if (plan_interleaves(n->plan)) {
        h = interleaved(n, h, ldh, rows, k, scratch);
        ldh = ir_int(g, n->scratch.x_stride);
    }
    contract_call call = {.scratch = scratch,
                          .list = nest_scratch(n, scratch, n->scratch.list),
                          .arguments = {[SWEEP_A] = h, [SWEEP_LDA] = ldh, [SWEEP_ROWS] = rows, [SWEEP_K] = k}};
    LLVMValueRef *arguments = call.arguments;
    bool chained = s->chains > 1;
    int64_t ragged = chained ? 0 : n->spec->d_model % FFN_PANEL;
    int64_t full_panels = chained ? l->down_panels : n->spec->d_model / FFN_PANEL;

    LLVMValueRef out = chained ? nest_scratch(n, scratch, n->scratch.contract_chains) : y;
    LLVMValueRef ldo = chained ? ir_int(g, s->chains * s->columns) : ldy;
    LLVMValueRef start =
        chained ? nest_scratch(n, scratch, n->scratch.contract_start) : ir_at_bytes(g, packed, l->bias_down);
    LLVMValueRef full_end = ir_min(g, end, ir_int(g, full_panels));
    LLVMValueRef column = ir_mul(g, first, ir_int(g, FFN_PANEL));
    arguments[SWEEP_STRIDE] = ir_int(g, s->panel_stride);
    arguments[SWEEP_LAST] = ir_int(g, 1);
    arguments[SWEEP_SLANT_C] = arguments[SWEEP_SLANT_INIT] = ir_int(g, 0);
    arguments[SWEEP_C] = ir_at(g, out, column);
    arguments[SWEEP_LDC] = ldo;
    arguments[SWEEP_INIT] = ir_at(g, ir_select(g, starts, start, out), column);
    arguments[SWEEP_LDI] = ir_select(g, starts, ir_int(g, 0), ldo);
    find_columns(n, &call, packed);
    ir_if all_terms = dense_begin(n, &call);
    LLVMValueRef next = after;
    if (ragged) {
        LLVMValueRef last_panel = nest_contract_weights(n, packed, full_end, f);
        next = ir_select(g, ir_less(g, full_end, end), last_panel, after);
    }
    if (plan_holds_y(n->spec, n->plan))
        sweep_held(n, &call, packed, f, first, full_end, next, starts, ends);
    else
        sweep_groups(n, &call, packed, f, first, full_end, next);
    dense_end(n, &all_terms);
    if (n->sparse.wanted) {
        arguments[SWEEP_B] = nest_contract_weights(n, packed, first, f);
        arguments[SWEEP_PANELS] = ir_sub(g, full_end, first);
        sweep_list(n, &call);
    }

    if (ragged) {
        ir_if reaches = ir_if_begin(g, ir_less(g, ir_int(g, full_panels), end), "ragged");
        LLVMValueRef staged = nest_scratch(n, scratch, n->scratch.ragged), ld = ir_int(g, FFN_PANEL);
        LLVMValueRef target = ir_at_const(g, y, full_panels * FFN_PANEL);
        ir_if goes_on = ir_if_begin(g, LLVMBuildNot(g->builder, starts, ""), "goes_on");
        copy_ragged(n, staged, ld, target, ldy, rows);
        ir_if_end(g, &goes_on);
        arguments[SWEEP_B] = nest_contract_weights(n, packed, ir_int(g, full_panels), f);
        arguments[SWEEP_NEXT] = after;
        arguments[SWEEP_C] = staged;
        arguments[SWEEP_LDC] = ld;
        arguments[SWEEP_INIT] = ir_select(g, starts, ir_at_const(g, start, full_panels * FFN_PANEL), staged);
        arguments[SWEEP_LDI] = ir_select(g, starts, ir_int(g, 0), ld);
        arguments[SWEEP_PANELS] = ir_int(g, 1);
        ir_if last_terms = dense_begin(n, &call);
        counted_call(n, STAGES_CONTRACT, scratch, s->sweep, arguments, SWEEP_PARAMETERS);
        dense_end(n, &last_terms);
        sweep_list(n, &call);
        copy_ragged(n, target, ldy, staged, ld, rows);
        ir_if_end(g, &reaches);
    }
    if (chained) {
        ir_if whole = ir_if_begin(g, ends, "whole");
        int64_t last = n->spec->d_model % FFN_PANEL ? n->spec->d_model % FFN_PANEL : FFN_PANEL;
        chains_sum(n, s, out, ir_at(g, y, ir_mul(g, first, ir_int(g, FFN_PANEL))), ldy, rows, first, panels, last);
        ir_if_end(g, &whole);
    }
    ir_return(g);
}

void nest_blocks_build(nest *n) {
    n->activate = activation_function(n->g, n->graph);
    if (plan_interleaves(n->plan)) {
        const row_tiles tiles = row_tiles_build(n->g, n->plan, "interleave_");
        n->interleave = interleave_function(n->g, &tiles);
    }
    if (n->expand.chains > 1 || n->contract.chains > 1)
        chains_build_start(n);
    build_expand_block(n);
    build_contract_block(n);
}
