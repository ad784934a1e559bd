/* nest.c: see nest.h
 *
 *     fused     for each block of rows, for each block of hidden columns: expand_block, contract_block
 *     expand    the same expand_block over a range of d_ff, h kept whole for the caller
 *     contract  the same contract_block over a range of d_model, all of d_ff
 *     activate  the activation alone over an array
 */
#include "nest.h"

#include "activation.h"
#include "image.h"
#include "nest_blocks.h"
#include "symbol.h"

static void entry_function(nest *n, image_entry entry, const LLVMTypeRef *types, int32_t count) {
    char name[SYMBOL_BYTES];
    symbol_name(n->spec, n->plan, (int)entry, name);
    ir_function(n->g, name, n->g->void_type, types, count, IR_ENTRY);
    /* The two-phase entries serve several threads, which small shapes with chains seldom have. */
    if (entry != IMAGE_ACTIVATE && (n->cold || entry != IMAGE_FUSED))
        ir_cold(n->g);
}

/* Where the chains of a call start does not change during it. */
static void start_expand(nest *n, LLVMValueRef packed, LLVMValueRef scratch) {
    ir *g = n->g;
    const stage *s = &n->expand;
    LLVMValueRef chains = ir_int(g, s->chains), columns = ir_int(g, s->columns);
    for (int32_t gate = 0; s->chains > 1 && gate <= (n->gated ? 1 : 0); gate++) {
        LLVMValueRef start = nest_scratch(n, scratch, n->scratch.expand_start + gate * s->chains * s->columns);
        LLVMValueRef bias = ir_at_bytes(g, packed, gate ? n->layout->bias_gate : n->layout->bias_up);
        ir_call(g, n->start_chains, (LLVMValueRef[]){start, bias, chains, columns}, 4);
    }
}

static void start_contract(nest *n, LLVMValueRef packed, LLVMValueRef scratch) {
    ir *g = n->g;
    const stage *s = &n->contract;
    if (s->chains == 1)
        return;
    LLVMValueRef start = nest_scratch(n, scratch, n->scratch.contract_start);
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
    LLVMValueRef count = ir_ceil_div(g, some, n->plan->m_block);
    row_blocks cut = {.base = ir_div(g, total, count), .extra = ir_rem(g, total, count)};
    cut.count = ir_select(g, ir_less(g, total, ir_int(g, 1)), ir_int(g, 0), count); /* no rows: no block */
    return cut;
}

static void block_rows(ir *g, const row_blocks *cut, LLVMValueRef i, LLVMValueRef *first, LLVMValueRef *rows) {
    LLVMValueRef longer = LLVMBuildZExt(g->builder, ir_less(g, i, cut->extra), g->i64, "");
    LLVMValueRef more = ir_min(g, i, cut->extra);
    *first = ir_add(g, ir_mul(g, i, cut->base), more);
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
    LLVMValueRef h = nest_scratch(n, scratch, n->scratch.hidden), ldh = ir_int(g, n->scratch.hidden_stride);
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
    LLVMValueRef zero = ir_int(g, 0), contract = nest_contract_weights(n, packed, zero, f.i);
    LLVMValueRef expand = nest_expand_weights(n, packed, n->gated, ir_add(g, panel, panels), zero);
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
    LLVMValueRef column = ir_mul(g, panel.i, ir_int(g, FFN_PANEL));
    LLVMValueRef h = ir_at(g, ir_at(g, hidden, ir_mul(g, first, ldh)), column);
    LLVMValueRef panels = ir_min(g, step, ir_sub(g, last, panel.i));
    LLVMValueRef x_block = ir_at(g, x, ir_mul(g, first, ldx));
    LLVMValueRef after = nest_expand_weights(n, packed, n->gated, ir_add(g, panel.i, panels), ir_int(g, 0));
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
    LLVMValueRef after = nest_contract_weights(n, packed, panel, ir_add(g, f.i, columns));
    ir_call(g, n->contract_block,
            (LLVMValueRef[]){ir_at(g, h_block, f.i), ldh, packed, f.i, columns, y_block, ldy, scratch, rows, panel,
                             panels, after},
            12);
    ir_loop_end(g, &f);
    ir_loop_end(g, &block);
    ir_return(g);
}

static void copy_elements(ir *g, LLVMValueRef target, LLVMValueRef source, LLVMValueRef count) {
    ir_loop each = ir_loop_begin(g, ir_int(g, 0), count, ir_int(g, 1), "element");
    LLVMValueRef element = ir_load(g, g->f32, ir_at(g, source, each.i), 4);
    ir_store(g, element, ir_at(g, target, each.i), 4);
    ir_loop_end(g, &each);
}

/* Whole vectors where they are, the rest in a vector on the stack, whose other lanes are zero. */
static void build_activate_entry(nest *n) {
    ir *g = n->g;
    LLVMTypeRef types[] = {g->i64, g->pointer, g->pointer, g->pointer};
    entry_function(n, IMAGE_ACTIVATE, types, 4);
    LLVMValueRef count = ir_parameter(g, 0, "count"), gate = ir_parameter(g, 1, "g"), up = ir_parameter(g, 2, "u");
    LLVMValueRef out = ir_parameter(g, 3, "out"), lanes = ir_int(g, g->lanes), zero = ir_int(g, 0), one = ir_int(g, 1);
    LLVMValueRef first = LLVMBuildAlloca(g->builder, g->vector, "g"),
                 second = LLVMBuildAlloca(g->builder, g->vector, "u");
    LLVMValueRef rest = ir_rem(g, count, lanes), whole = ir_sub(g, count, rest);
    if (!n->gated) /* one argument, wherever the formula looks for it */
        up = gate;
    LLVMValueRef vectors[ACTIVATION_PARAMETERS] = {gate, zero, up, zero, out, zero, one, whole};
    ir_call(g, n->activate, vectors, ACTIVATION_PARAMETERS);
    ir_if some = ir_if_begin(g, ir_less(g, zero, rest), "rest");
    ir_store(g, LLVMConstNull(g->vector), first, 4);
    ir_store(g, LLVMConstNull(g->vector), second, 4);
    copy_elements(g, second, ir_at(g, up, whole), rest);
    if (n->gated)
        copy_elements(g, first, ir_at(g, gate, whole), rest);
    LLVMValueRef last[ACTIVATION_PARAMETERS] = {first, zero, second, zero, second, zero, one, lanes};
    ir_call(g, n->activate, last, ACTIVATION_PARAMETERS);
    copy_elements(g, ir_at(g, out, whole), second, rest);
    ir_if_end(g, &some);
    ir_return(g);
}

void nest_build(ir *g, const ffn_spec *spec, const ffn_plan *plan, const packed_layout *layout,
                const formula_graph *graph) {
    nest n = {.g = g, .spec = spec, .plan = plan, .layout = layout, .graph = graph, .gated = ffn_spec_gated(spec)};
    plan_scratch_of(spec, plan, &n.scratch);
    n.group = plan_group(plan);
    n.expand = (stage){.name = "expand_",
                       .columns = layout->up_panels * FFN_PANEL,
                       .terms = spec->d_model,
                       .panel_stride = layout->expand_panel_stride / (int64_t)sizeof(float),
                       .chains = plan_chains(spec->d_ff)};
    n.contract = (stage){.name = "contract_",
                         .columns = layout->down_panels * FFN_PANEL,
                         .terms = spec->d_ff,
                         .panel_stride = layout->contract_panel_bytes / (int64_t)sizeof(float),
                         .chains = plan_chains(spec->d_model)};
    if (g->free.sums) /* no chains that are planes in memory, and -0 may leave */
        n.expand.chains = n.contract.chains = 1;
    n.cold = n.expand.chains == 1 && n.contract.chains == 1;
    n.contract.add_zero = n.contract.chains == 1 && !g->free.sums;
    n.contract.fetch_soon = n.contract.chains == 1;
    n.expand.fetch_soon = n.expand.chains == 1 && plan->k_block < spec->d_model; /* partial sums wait in the h block */
    n.expand.activation = nest_tiles_activate(&n) ? graph : NULL;
    stages_build(g, &n.expand, &n.contract, plan);
    sparse_build(g, &n.sparse, spec, plan, graph, n.contract.panel_stride);
    nest_blocks_build(&n);
    build_fused(&n);
    build_expand(&n);
    build_contract(&n);
    build_activate_entry(&n);
}
