/* stage.c: see stage.h */
#include "stage.h"

#include <stdio.h>
#include <string.h>

/* One or two rows leave a core waiting for the weights, and its own prefetchers follow this many streams side by side
 * best alone. */
enum { FEW_ROWS = 2, OWN_STREAMS = 3 };

/* A turn that leaves a rest needs a second loop, and registers for it: not with more terms than this. */
#define REST_UNROLL 4

typedef struct sweep {
    ir *g;
    const stage *stage;
    const ffn_plan *plan;
    int64_t chunk;  /* terms that all row tiles take before the next ones; 0: all */
    int32_t unroll; /* terms in a turn of the hot loop */
    LLVMValueRef tiles[FFN_TILES_MAX];
    int32_t chains_at_once[FFN_TILES_MAX];
    LLVMTypeRef tile_type; /* of every tile's function */
    int32_t tile_parameters;
    bool several_widths;
    bool row_by_row; /* panels may be left over that 1x1 takes */
    row_tiles tiling;
    LLVMValueRef p[SWEEP_PARAMETERS];
    LLVMValueRef next;  /* where the current row tile prefetches in the next first panel */
    LLVMValueRef part;  /* floats of each next panel that one panel of a row tile fetches */
    LLVMValueRef soon;  /* first C of the next row tile, or of the first one of the next group */
    LLVMValueRef frame; /* what tiles are given in memory */
    bool interleaved;   /* rows of A as interleave.h has them */
    LLVMValueRef term;  /* the first one of the chunk */
} sweep;

/* The tile that runs, as it is known while the kernel runs: one place to call from serves all of them, where a place
 * for each would be half of the kernel's control. */
typedef struct chosen_tile {
    LLVMValueRef function, rows, panels, chains_at_once;
} chosen_tile;

/* The widest tile of `mr` rows and at most `left` panels; 1x1 where there is none. */
static chosen_tile choose_tile(const sweep *w, LLVMValueRef mr, LLVMValueRef left) {
    ir *g = w->g;
    chosen_tile best = {.function = NULL};
    for (int32_t i = w->plan->tile_count - 1; i >= 0; i--) { /* narrow ones first: a later one is the better */
        ffn_tile tile = w->plan->tiles[i];
        if (!w->tiles[i])
            continue;
        LLVMValueRef rows = ir_int(g, tile.mr), panels = ir_int(g, tile.panels),
                     at_once = ir_int(g, w->chains_at_once[i]);
        if (!best.function) {
            best = (chosen_tile){w->tiles[i], rows, panels, at_once};
            continue;
        }
        LLVMValueRef fits = ir_equal(g, mr, rows);
        if (tile.panels > 1)
            fits = LLVMBuildAnd(g->builder, fits, ir_less(g, ir_int(g, tile.panels - 1), left), "");
        best.function = ir_select(g, fits, w->tiles[i], best.function);
        best.rows = ir_select(g, fits, rows, best.rows);
        best.panels = ir_select(g, fits, panels, best.panels);
        best.chains_at_once = ir_select(g, fits, at_once, best.chains_at_once);
    }
    return best;
}

static void set_word(const sweep *w, tile_parameter which, LLVMValueRef value) {
    ir_store(w->g, value, ir_at_bytes(w->g, w->frame, tile_word(which)), 8);
}

/* One tile over all chains of the stage. `row` offsets are already in a, c and init. */
static void tile_calls(const sweep *w, const chosen_tile *tile, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c,
                       LLVMValueRef init, LLVMValueRef soon, LLVMValueRef next) {
    ir *g = w->g;
    const stage *s = w->stage;
    LLVMValueRef arguments[TILE_PASSED] = {
        [TILE_A] = a,      [TILE_B] = b, [TILE_C] = c, [TILE_INIT] = init, [TILE_SOON] = soon, [TILE_FRAME] = w->frame,
        [TILE_NEXT] = next};
    if (s->chains == 1) {
        ir_call_pointer(g, w->tile_type, tile->function, arguments, w->tile_parameters);
        return;
    }
    LLVMValueRef zero = ir_int(g, 0), one = ir_int(g, 1), chains = ir_int(g, s->chains);
    LLVMValueRef terms = ir_div(g, w->p[SWEEP_K], chains), more = ir_rem(g, w->p[SWEEP_K], chains);
    LLVMValueRef alone = ir_equal(g, tile->chains_at_once, one);
    ir_loop chain = ir_loop_begin(g, zero, chains, tile->chains_at_once, "chain");
    LLVMValueRef plane = ir_mul(g, chain.i, ir_int(g, s->columns)), tail = ir_sub(g, more, chain.i);
    LLVMValueRef longer = LLVMBuildAnd(g->builder, alone, ir_less(g, zero, tail), "");
    arguments[TILE_A] = ir_at(g, a, chain.i);
    arguments[TILE_B] = ir_at(g, b, ir_mul(g, chain.i, ir_int(g, FFN_PANEL)));
    arguments[TILE_C] = ir_at(g, c, plane);
    arguments[TILE_INIT] = ir_at(g, init, plane);
    set_word(w, TILE_K, ir_add(g, terms, LLVMBuildZExt(g->builder, longer, g->i64, "")));
    set_word(w, TILE_TAIL, tail);
    ir_call_pointer(g, w->tile_type, tile->function, arguments, w->tile_parameters);
    ir_loop_end(g, &chain);
}

/* Panels from `begin` on, while the tile fits; where it does not any more. The tile has `mr` rows, or less where panels
 * are left over: then it takes them row by row. */
static LLVMValueRef panel_loop(const sweep *w, const chosen_tile *tile, LLVMValueRef mr, LLVMValueRef begin,
                               LLVMValueRef a, LLVMValueRef c, LLVMValueRef init) {
    ir *g = w->g;
    LLVMValueRef last = ir_sub(g, tile->panels, ir_int(g, 1));
    ir_loop panel = ir_loop_begin(g, begin, ir_sub(g, w->p[SWEEP_PANELS], last), tile->panels, "panel");
    LLVMValueRef column = ir_mul(g, panel.i, ir_int(g, FFN_PANEL));
    LLVMValueRef b = ir_at(g, w->p[SWEEP_B], ir_mul(g, panel.i, w->p[SWEEP_STRIDE]));
    LLVMValueRef out = ir_at(g, c, column), start = ir_at(g, init, column), soon = ir_at(g, w->soon, column);
    LLVMValueRef next = ir_at(g, w->next, ir_mul(g, panel.i, w->part));
    if (w->row_by_row) {
        ir_loop row = ir_loop_begin(g, ir_int(g, 0), mr, tile->rows, "part");
        LLVMValueRef ldc = ir_add(g, w->p[SWEEP_LDC], w->p[SWEEP_SLANT_C]);
        LLVMValueRef ldi = ir_add(g, w->p[SWEEP_LDI], w->p[SWEEP_SLANT_INIT]);
        LLVMValueRef part = w->interleaved ? row.i : ir_mul(g, row.i, w->p[SWEEP_LDA]);
        tile_calls(w, tile, ir_at(g, a, part), b, ir_at(g, out, ir_mul(g, row.i, ldc)),
                   ir_at(g, start, ir_mul(g, row.i, ldi)), soon, next);
        ir_loop_end(g, &row);
    } else {
        tile_calls(w, tile, a, b, out, start, soon, next);
    }
    ir_loop_end(g, &panel);
    return panel.i;
}

/* All panels of the group for the row tile of `mr` rows, whose first is that of a, c and init: the widest tile of this
 * height while it fits, then narrower ones. */
static void row_tile(const sweep *w, LLVMValueRef mr, LLVMValueRef a, LLVMValueRef c, LLVMValueRef init) {
    ir *g = w->g;
    LLVMValueRef begin = ir_int(g, 0), panels = w->p[SWEEP_PANELS];
    if (!w->several_widths) {
        chosen_tile tile = choose_tile(w, mr, panels);
        panel_loop(w, &tile, mr, begin, a, c, init);
        return;
    }
    ir_loop width = ir_loop_begin(g, begin, panels, begin, "width");
    chosen_tile tile = choose_tile(w, mr, ir_sub(g, panels, width.i));
    width.step = ir_sub(g, panel_loop(w, &tile, mr, width.i, a, c, init), width.i);
    ir_loop_end(g, &width);
}

LLVMValueRef stage_sweep_function(ir *g, const char *name, LLVMValueRef *parameters) {
    static const char *const names[] = {"a",      "lda", "b",    "c",      "ldc",  "init",    "ldi",       "rows",
                                        "panels", "k",   "next", "stride", "last", "slant_c", "slant_init"};
    LLVMTypeRef types[SWEEP_PARAMETERS] = {g->pointer, g->i64, g->pointer, g->pointer, g->i64,
                                           g->pointer, g->i64, g->i64,     g->i64,     g->i64,
                                           g->pointer, g->i64, g->i64,     g->i64,     g->i64};
    LLVMValueRef function = ir_function(g, name, g->void_type, types, SWEEP_PARAMETERS, IR_INTERNAL);
    for (int32_t i = 0; i < SWEEP_PARAMETERS; i++)
        parameters[i] = ir_parameter(g, i, names[i]);
    return function;
}

/* One of so many parts. In 32 bits, which CPUs divide several times faster: nothing but prefetching hangs on it. */
static LLVMValueRef share(ir *g, LLVMValueRef whole, LLVMValueRef parts) {
    LLVMValueRef low = LLVMBuildTrunc(g->builder, whole, g->i32, ""),
                 of = LLVMBuildTrunc(g->builder, parts, g->i32, "");
    return LLVMBuildZExt(g->builder, ir_div(g, low, of), g->i64, "");
}

/* The row tiles of the block over the terms that w->p says. `after` is the C of what runs when they are done. */
static void sweep_rows(sweep *w, LLVMValueRef after) {
    ir *g = w->g;
    const ffn_plan *plan = w->plan;
    /* Each panel of each of the row tiles fetches an equal part of all the next panels. */
    LLVMValueRef parts = ir_mul(g, row_tiles_count(g, &w->tiling, w->p[SWEEP_ROWS]), ir_int(g, plan_group(plan)));
    w->part = share(g, ir_mul(g, w->p[SWEEP_K], ir_int(g, FFN_PANEL)), parts);
    set_word(w, TILE_NEXT_STEP, share(g, ir_int(g, (int64_t)w->unroll * FFN_PANEL), parts));
    set_word(w, TILE_LDI, ir_add(g, w->p[SWEEP_LDI], w->p[SWEEP_SLANT_INIT]));
    set_word(w, TILE_K, w->p[SWEEP_K]);

    /* while (row < rows) { mr = next height; tiles of that height over the panels; row += mr } */
    LLVMBasicBlockRef entry = LLVMGetInsertBlock(g->builder);
    LLVMBasicBlockRef head = ir_block(g, "row"), body = ir_block(g, "body"), done = ir_block(g, "done");
    LLVMBuildBr(g->builder, head);
    LLVMPositionBuilderAtEnd(g->builder, head);
    LLVMValueRef row = LLVMBuildPhi(g->builder, g->i64, "row"), index = LLVMBuildPhi(g->builder, g->i64, "index");
    LLVMBuildCondBr(g->builder, ir_less(g, row, w->p[SWEEP_ROWS]), body, done);
    LLVMPositionBuilderAtEnd(g->builder, body);
    LLVMValueRef fetched = ir_mul(g, ir_mul(g, index, ir_int(g, plan_group(plan))), w->part);
    w->next = ir_at(g, w->p[SWEEP_NEXT], fetched);
    LLVMValueRef mr = row_tiles_height(g, &w->tiling, ir_sub(g, w->p[SWEEP_ROWS], row));
    LLVMValueRef below = ir_add(g, row, mr), more = ir_less(g, below, w->p[SWEEP_ROWS]);
    w->soon = ir_select(g, more, ir_at(g, w->p[SWEEP_C], ir_mul(g, below, w->p[SWEEP_LDC])), after);
    LLVMValueRef a = ir_at(g, w->p[SWEEP_A], ir_mul(g, row, w->p[SWEEP_LDA]));
    if (w->term)
        a = ir_at(g, a, w->interleaved ? ir_mul(g, w->term, mr) : w->term);
    set_word(w, TILE_LDA, w->interleaved ? mr : w->p[SWEEP_LDA]);
    LLVMValueRef c = ir_at(g, w->p[SWEEP_C], ir_mul(g, row, w->p[SWEEP_LDC]));
    LLVMValueRef init = ir_at(g, w->p[SWEEP_INIT], ir_mul(g, row, w->p[SWEEP_LDI]));
    row_tile(w, mr, a, c, init);
    LLVMValueRef zero = ir_int(g, 0), next_index = ir_add(g, index, ir_int(g, 1));
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(g->builder);
    LLVMBuildBr(g->builder, head);
    LLVMAddIncoming(row, (LLVMValueRef[]){zero, below}, (LLVMBasicBlockRef[]){entry, latch}, 2);
    LLVMAddIncoming(index, (LLVMValueRef[]){zero, next_index}, (LLVMBasicBlockRef[]){entry, latch}, 2);
    LLVMPositionBuilderAtEnd(g->builder, done);
}

/* Whether one tile takes all rows of the block and all panels of a group. */
static LLVMValueRef is_one_tile(const sweep *w) {
    ir *g = w->g;
    LLVMValueRef is = LLVMConstInt(LLVMInt1TypeInContext(g->context), 0, 0);
    for (int32_t i = 0; i < w->plan->tile_count; i++)
        if (w->tiles[i] && w->plan->tiles[i].panels == plan_group(w->plan))
            is = LLVMBuildOr(g->builder, is, ir_equal(g, w->p[SWEEP_ROWS], ir_int(g, w->plan->tiles[i].mr)), "");
    return is;
}

/* One chunk of terms after the other: the panels of a chunk stay in L1 from one row tile to the next, and what is
 * prefetched goes on where the panels do. One tile alone has nothing to keep: it takes all terms at once, a chunk
 * ahead of itself, up to the last chunk, which has the next group to fetch. */
static void sweep_chunks(sweep *w, LLVMValueRef after) {
    ir *g = w->g;
    LLVMValueRef whole[SWEEP_PARAMETERS], chunk = ir_int(g, w->chunk), line = ir_int(g, FFN_PANEL);
    memcpy(whole, w->p, sizeof whole);
    LLVMValueRef one_tile = is_one_tile(w);
    ir_loop k = ir_loop_begin(g, ir_int(g, 0), whole[SWEEP_K], chunk, "chunk");
    LLVMValueRef left = ir_sub(g, whole[SWEEP_K], k.i), first = ir_equal(g, k.i, ir_int(g, 0));
    LLVMValueRef last = ir_less(g, left, ir_int(g, w->chunk + 1));
    LLVMValueRef terms = ir_select(g, last, left, ir_select(g, one_tile, ir_sub(g, left, chunk), chunk));
    w->term = k.i;
    w->p[SWEEP_B] = ir_at(g, whole[SWEEP_B], ir_mul(g, k.i, line));
    w->p[SWEEP_INIT] = ir_select(g, first, whole[SWEEP_INIT], whole[SWEEP_C]);
    w->p[SWEEP_LDI] = ir_select(g, first, whole[SWEEP_LDI], whole[SWEEP_LDC]);
    w->p[SWEEP_SLANT_INIT] = ir_select(g, first, whole[SWEEP_SLANT_INIT], whole[SWEEP_SLANT_C]);
    w->p[SWEEP_K] = terms;
    w->p[SWEEP_NEXT] = ir_select(g, last, whole[SWEEP_NEXT], ir_at_const(g, w->p[SWEEP_B], w->chunk * FFN_PANEL));
    sweep_rows(w, ir_select(g, last, after, whole[SWEEP_C]));
    k.step = terms;
    ir_loop_end(g, &k);
}

static LLVMValueRef build_sweep(sweep *w, const stage *s) {
    ir *g = w->g;
    w->tiling = row_tiles_build(g, w->plan, s->name);
    char name[64];
    snprintf(name, sizeof name, "%ssweep", s->name);
    LLVMValueRef function = stage_sweep_function(g, name, w->p);
    LLVMTypeRef words = LLVMArrayType(g->i64, TILE_PARAMETERS_MAX - TILE_PASSED);
    w->frame = LLVMBuildAlloca(g->builder, words, "frame");
    set_word(w, TILE_LDC, ir_add(g, w->p[SWEEP_LDC], w->p[SWEEP_SLANT_C]));
    set_word(w, TILE_STRIDE, w->p[SWEEP_STRIDE]);
    set_word(w, TILE_LAST, w->p[SWEEP_LAST]);
    LLVMValueRef next_group = ir_at(g, w->p[SWEEP_C], ir_mul(g, w->p[SWEEP_PANELS], ir_int(g, FFN_PANEL)));
    if (w->chunk)
        sweep_chunks(w, next_group);
    else
        sweep_rows(w, next_group);
    ir_return(g);
    return function;
}

/* Free order: as many as asked for, while the registers last. */
static int32_t sums_of(const ir *g, const stage *s, ffn_tile tile) {
    int32_t sums = 1;
    while (s->chains == 1 && 2 * sums <= g->free.sums &&
           plan_tile_registers(g->lanes, tile, 2 * sums) <= g->isa->registers)
        sums *= 2;
    return sums;
}

/* Terms of one chain lie `chains` apart: as far in one turn as without chains, or addresses outgrow the registers. */
static int32_t unroll_of(const ir *g, const stage *s, const ffn_plan *plan) {
    int32_t unroll = plan->unroll / s->chains > 0 ? plan->unroll / s->chains : 1;
    while (unroll > REST_UNROLL && s->terms % ((int64_t)unroll * s->chains))
        unroll /= 2;
    return unroll < g->free.sums ? g->free.sums : unroll;
}

/* Blocks of a sum start at multiples of a panel, so only the last can be no multiple of a turn. */
static bool whole_turns(const stage *s, int32_t unroll) {
    int64_t turn = (int64_t)unroll * s->chains;
    return s->terms % turn == 0 && FFN_PANEL % turn == 0;
}

/* The code of a stage, or of two that differ in nothing but what is told at run time: then `s` is what they need
 * together, and `unroll` and `whole` suit both. */
static LLVMValueRef stage_build(ir *g, const stage *s, const ffn_plan *plan, int32_t unroll, bool whole, bool told) {
    sweep w = {.g = g,
               .stage = s,
               .plan = plan,
               .unroll = unroll,
               .chunk = plan_chunk(plan, s->chains, s->terms),
               .interleaved = plan_interleaves(plan)};
    const int32_t prefetch = s->chains > 1 ? 0 : plan->prefetch, group = plan_group(plan);
    for (int32_t i = 0; i < plan->tile_count; i++) {
        ffn_tile tile = plan->tiles[i];
        if (tile.panels * FFN_PANEL > s->columns)
            continue; /* wider than the whole stage: never called */
        w.chains_at_once[i] = plan_chains_at_once(plan_lanes(plan), tile, s->chains);
        /* With one row tile a turn fetches as many lines as it reads, shared by the streams. */
        int32_t most_lines = (unroll * tile.panels + group - 1) / group, lines = prefetch * tile.panels;
        tile_shape shape = {
            .mr = tile.mr,
            .panels = tile.panels,
            .k_step = s->chains,
            .chains = w.chains_at_once[i],
            .sums = sums_of(g, s, tile),
            .plane_stride = s->columns,
            .unroll = unroll,
            .whole_turns = whole,
            .prefetch = tile.mr <= FEW_ROWS && tile.panels >= OWN_STREAMS ? 0
                        : lines < most_lines                              ? lines
                                                                          : most_lines,
            .fetches = prefetch > 0,
            .streams = group,
            .prefetch_to = w.chunk ? IR_CACHE_1 : IR_CACHE_2,
            .ahead = plan->ahead,
            .fetch_soon = s->fetch_soon,
            .activation = s->activation,
            .add_zero = s->add_zero,
            .told = told,
            .interleaved = w.interleaved,
        };
        w.several_widths = w.several_widths || tile.panels > 1;
        w.row_by_row = w.row_by_row || (tile.panels > 1 && !plan_has_tile(plan, tile.mr, 1));
        char name[64];
        snprintf(name, sizeof name, "%stile_%dx%d", s->name, tile.mr, tile.panels);
        w.tiles[i] = tile_function(g, name, &shape);
        w.tile_type = LLVMGlobalGetValueType(w.tiles[i]);
        w.tile_parameters = tile_parameters(&shape);
    }
    return build_sweep(&w, s);
}

void stages_build(ir *g, stage *expand, stage *contract, const ffn_plan *plan) {
    int32_t up = unroll_of(g, expand, plan), down = unroll_of(g, contract, plan), unroll = up < down ? up : down;
    if (expand->chains > 1 || contract->chains > 1) {
        expand->sweep = stage_build(g, expand, plan, up, whole_turns(expand, up), false);
        contract->sweep = stage_build(g, contract, plan, down, whole_turns(contract, down), false);
        return;
    }
    stage both = *expand;
    both.name = "stage_";
    both.columns = expand->columns > contract->columns ? expand->columns : contract->columns;
    both.terms = expand->terms > contract->terms ? expand->terms : contract->terms;
    both.add_zero = contract->add_zero;
    both.fetch_soon = expand->fetch_soon || contract->fetch_soon;
    bool whole = whole_turns(expand, unroll) && whole_turns(contract, unroll);
    expand->sweep = contract->sweep = stage_build(g, &both, plan, unroll, whole, both.add_zero || both.activation);
}
