/* plan.c: what a plan means: which are valid, the order of row tiles, the scratch it needs
 *
 * Which plan is chosen is plan_space.h's. A plan changes the speed only; the order of every sum is fixed by the spec.
 */
#include "plan.h"

#include <limits.h>
#include <string.h>

#include "diag.h"
#include "isa.h"
#include "plan_space.h"

#define F32_BITS 32
#define CACHE_BYTES_MAX (INT64_C(1) << 40)

static int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

ffn_n_class ffn_n_class_of(int64_t n) {
    return n <= 1 ? FFN_N_1 : n <= 4 ? FFN_N_2_4 : n <= 16 ? FFN_N_5_16 : FFN_N_17_UP;
}

const char *ffn_n_class_name(ffn_n_class n_class) {
    static const char *const names[FFN_N_CLASSES] = {"1", "2-4", "5-16", "17+"};
    return (unsigned)n_class < FFN_N_CLASSES ? names[n_class] : NULL;
}

int32_t plan_lanes(const ffn_plan *plan) {
    return plan->vector_bits ? plan->vector_bits / F32_BITS : isa_row_of(plan->isa)->lanes;
}

int32_t plan_chains_at_once(int32_t lanes, ffn_tile tile, int32_t chains) {
    enum { SUMS_TO_HIDE_LATENCY = 8 }; /* 4 cycles on each of two FMA pipes */
    int32_t sums = tile.mr * tile.panels * (FFN_PANEL / lanes), at_once = 1;
    while (at_once < chains && sums * at_once < SUMS_TO_HIDE_LATENCY)
        at_once *= 2;
    return at_once;
}

int32_t plan_tile_registers(int32_t lanes, ffn_tile tile, int32_t chains_at_once) {
    int32_t vectors = tile.panels * (FFN_PANEL / lanes);
    int32_t accumulators = tile.mr * vectors * chains_at_once;
    if (tile.mr == 1)
        return accumulators + 1; /* each weight vector is used once, straight from memory */
    return accumulators + (tile.mr < vectors ? tile.mr : vectors) + 1;
}

int32_t plan_group(const ffn_plan *plan) {
    int32_t group = plan->group > 1 ? plan->group : 1;
    for (int32_t i = 0; i < plan->tile_count; i++)
        if (plan->tiles[i].panels > group)
            group = plan->tiles[i].panels;
    return group;
}

bool plan_has_tile(const ffn_plan *plan, int32_t mr, int32_t panels) {
    for (int32_t i = 0; i < plan->tile_count; i++)
        if (plan->tiles[i].mr == mr && plan->tiles[i].panels == panels)
            return true;
    return false;
}

int32_t plan_unit(const ffn_plan *plan) {
    int32_t unit = 1;
    for (int32_t i = 0; i < plan->tile_count; i++)
        if (plan->tiles[i].panels > unit && !plan_has_tile(plan, plan->tiles[i].mr, 1))
            unit = plan->tiles[i].panels;
    return unit;
}

int64_t plan_chunk(const ffn_plan *plan, int32_t chains, int64_t terms) {
    return chains == 1 && plan->chunk < terms ? plan->chunk : 0;
}

/* Twelfths of a cycle that a tile takes for one k and one panel: bound by FMA latency, by the two FMA pipes or by the
 * two load ports, and a little for starting and storing it. */
static int32_t tile_cost(int32_t lanes, ffn_tile tile) {
    enum { LATENCY = 4, PORTS = 2, UNIT = 12, START = 3 };
    int32_t vectors = tile.panels * (FFN_PANEL / lanes);
    int32_t fma = UNIT * tile.mr * vectors / PORTS, load = UNIT * (tile.mr + vectors) / PORTS, cycles = UNIT * LATENCY;
    cycles = fma > cycles ? fma : cycles;
    cycles = load > cycles ? load : cycles;
    return cycles / tile.panels + START;
}

int32_t plan_next_height(const ffn_plan *plan, int64_t rows) {
    int32_t tallest = plan->tiles[0].mr;
    if (rows >= 2 * (int64_t)tallest)
        return tallest;
    if (plan->row_split == FFN_ROWS_TALLEST) {
        int32_t i = 0;
        while (plan->tiles[i].mr > rows) /* the last one is 1x1 */
            i++;
        return plan->tiles[i].mr;
    }
    /* Cheapest way to cover `r` rows, for every r up to `rows`: a handful of steps. Of two as cheap the more even one:
     * the lower tile of 10 + 4 waits for its own sums where 7 + 7 never do. */
    const int32_t lanes = plan_lanes(plan);
    int32_t cost[2 * PLAN_MR_MAX] = {0}, first[2 * PLAN_MR_MAX] = {0}, tall[2 * PLAN_MR_MAX] = {0};
    for (int32_t r = 1; r <= rows; r++) {
        cost[r] = INT_MAX;
        for (int32_t i = 0; i < plan->tile_count; i++) {
            const int32_t mr = plan->tiles[i].mr;
            if (mr > r)
                continue;
            const int32_t with = cost[r - mr] + tile_cost(lanes, plan->tiles[i]);
            const int32_t tallest_of = mr > tall[r - mr] ? mr : tall[r - mr];
            if (with < cost[r] || (with == cost[r] && tallest_of < tall[r])) {
                cost[r] = with;
                first[r] = mr;
                tall[r] = tallest_of;
            }
        }
    }
    return first[rows];
}

bool plan_lists_columns(const ffn_spec *spec, const ffn_plan *plan) {
    return plan->n_class <= FFN_N_2_4 && plan_chains(spec->d_model) == 1;
}

bool plan_holds_y(const ffn_spec *spec, const ffn_plan *plan) {
    return plan->hold_y && plan_chains(spec->d_model) == 1 && plan->f_block < spec->d_ff &&
           !plan_lists_columns(spec, plan);
}

void plan_scratch_of(const ffn_spec *spec, const ffn_plan *plan, plan_scratch *scratch) {
    int32_t up = plan_chains(spec->d_ff), down = plan_chains(spec->d_model);
    int64_t up_columns = ceil_div(spec->d_ff, FFN_PANEL) * FFN_PANEL;
    int64_t down_columns = ceil_div(spec->d_model, FFN_PANEL) * FFN_PANEL;
    int64_t rows = plan->m_block, at = 0;
    int64_t k_block = up == 1 && plan->k_block < spec->d_model ? plan->k_block : spec->d_model;
    memset(scratch, 0, sizeof *scratch);
    int64_t block = plan->f_block < up_columns ? plan->f_block : up_columns;
    scratch->hidden_stride = block + FFN_PANEL;
    scratch->gate_group = up == 1 && k_block >= spec->d_model;
    scratch->gate_stride = (scratch->gate_group ? plan_group(plan) * FFN_PANEL : block) + FFN_PANEL;
    scratch->sums_stride = ceil_div(plan->tiles[0].mr - 1, plan_group(plan)) * plan_group(plan) * FFN_PANEL;
    const int64_t longest = plan_interleaves(plan) && block > k_block ? block : k_block;
    scratch->x_stride = ceil_div(longest, FFN_PANEL) * FFN_PANEL + FFN_PANEL;
    const struct {
        int64_t *offset, floats;
    } parts[] = {
        {&scratch->list, plan_lists_columns(spec, plan) ? block : 0},
        {&scratch->x, plan->copy_x ? rows * scratch->x_stride : 0},
        {&scratch->sums, plan_holds_y(spec, plan) ? rows * scratch->sums_stride : 0},
        {&scratch->hidden, rows * scratch->hidden_stride},
        {&scratch->gate, ffn_spec_gated(spec) ? rows * scratch->gate_stride : 0},
        {&scratch->expand_chains, up > 1 ? rows * up * up_columns : 0},
        {&scratch->expand_start, up > 1 ? (ffn_spec_gated(spec) ? 2 : 1) * up * up_columns : 0},
        {&scratch->contract_chains, down > 1 ? rows * down * down_columns : 0},
        {&scratch->contract_start, down > 1 ? down * down_columns : 0},
        {&scratch->ragged, spec->d_model % FFN_PANEL ? rows * FFN_PANEL : 0},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        *parts[i].offset = at;
        at += ceil_div(parts[i].floats, FFN_PANEL) * FFN_PANEL;
    }
    scratch->bytes = at * (int64_t)sizeof(float);
}

int64_t plan_scratch_bytes(const ffn_spec *spec, const ffn_plan *plan) {
    plan_scratch scratch;
    plan_scratch_of(spec, plan, &scratch);
    return scratch.bytes;
}

ffn_status plan_machine_check(const ffn_machine *machine, ffn_diag *diag) {
    if (machine && machine->l1_bytes > 0 && machine->l2_bytes > 0 && machine->l2_bytes <= CACHE_BYTES_MAX)
        return FFN_OK;
    return diag_fail(diag, FFN_BAD_ARGUMENT, "machine: L1 and L2 must be 1 to %lld bytes", (long long)CACHE_BYTES_MAX);
}

ffn_status ffn_plan_make(const ffn_spec *spec, ffn_isa isa, ffn_n_class n_class, const ffn_machine *machine,
                         ffn_plan *plan, ffn_diag *diag) {
    ffn_status status = ffn_spec_check(spec, diag);
    if (status)
        return status;
    if (!plan)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "plan is NULL: it is where the plan goes");
    if (!isa_row_of(isa))
        return diag_fail(diag, FFN_UNSUPPORTED, "isa %s has no plan: the portable kernel serves it",
                         ffn_isa_name(isa) ? ffn_isa_name(isa) : "(unknown)");
    if ((unsigned)n_class >= FFN_N_CLASSES)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "n class %d: it must be 0 .. %d", (int)n_class, FFN_N_CLASSES - 1);
    status = plan_machine_check(machine, diag);
    if (status)
        return status;
    ffn_plan made;
    if (!plan_space_best(spec, isa, n_class, machine, &made))
        return diag_fail(diag, FFN_UNSUPPORTED, "no plan for this spec on %s: the portable kernel serves it",
                         ffn_isa_name(isa));
    *plan = made;
    return FFN_OK;
}

ffn_status ffn_plan_check(const ffn_spec *spec, const ffn_plan *plan, ffn_diag *diag) {
    if (!plan)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "plan is NULL: it must be one of ffn_plan_make");
    ffn_status status = ffn_spec_check(spec, diag);
    return status ? status : plan_check_fields(spec, plan, diag);
}

/* The field of a plan that cannot be used, and what would be right. */
ffn_status plan_check_fields(const ffn_spec *spec, const ffn_plan *plan, ffn_diag *diag) {
    const isa_row *isa = isa_row_of(plan->isa);
    if (!isa)
        return diag_fail(diag, FFN_UNSUPPORTED, "plan: isa %d is not one that code is generated for", (int)plan->isa);
    if ((unsigned)plan->n_class >= FFN_N_CLASSES)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "plan: n_class %d: it must be 0 .. %d", (int)plan->n_class,
                         FFN_N_CLASSES - 1);
    const struct {
        const char *name;
        int64_t value, low, high, unit;
    } fields[] = {
        {"m_block", plan->m_block, 1, PLAN_M_BLOCK_MAX, 1},
        {"f_block", plan->f_block, FFN_PANEL, FFN_DIM_MAX, FFN_PANEL},
        {"k_block", plan->k_block, plan->k_block >= spec->d_model ? 1 : FFN_PANEL, FFN_DIM_MAX,
         plan->k_block >= spec->d_model ? 1 : FFN_PANEL},
        {"unroll", plan->unroll, 1, PLAN_UNROLL_MAX, 1},
        {"prefetch", plan->prefetch, 0, plan->unroll, 1},
        {"ahead", plan->ahead, 0, PLAN_AHEAD_MAX, 1},
        {"row_split", (int64_t)plan->row_split, 0, FFN_ROW_SPLITS - 1, 1},
        {"chunk", plan->chunk, 0, PLAN_CHUNK_MAX, FFN_PANEL},
        {"group", plan->group, 0, PLAN_GROUP_MAX, 1},
        {"copy_x", plan->copy_x, 0, PLAN_COPY_X_INTERLEAVED, 1},
        {"hold_y", plan->hold_y, 0, 1, 1},
        {"tile_count", plan->tile_count, 1, FFN_TILES_MAX, 1},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].value < fields[i].low || fields[i].value > fields[i].high || fields[i].value % fields[i].unit)
            return diag_fail(diag, FFN_BAD_ARGUMENT, "plan: %s %lld: it must be %lld .. %lld, a multiple of %lld",
                             fields[i].name, (long long)fields[i].value, (long long)fields[i].low,
                             (long long)fields[i].high, (long long)fields[i].unit);
    if (plan->vector_bits && (plan->vector_bits != 256 || isa->lanes * F32_BITS <= 256))
        return diag_fail(
            diag, FFN_BAD_ARGUMENT,
            "plan: vector_bits %d: it must be 0, or 256 on an ISA whose vectors are wider; those of %s have %d",
            plan->vector_bits, isa->name, isa->lanes * F32_BITS);
    if (plan_interleaves(plan) &&
        (plan->n_class < FFN_N_5_16 || plan_chains(spec->d_model) > 1 || plan_chains(spec->d_ff) > 1))
        return diag_fail(
            diag, FFN_BAD_ARGUMENT,
            "plan: copy_x %d: it must be 0 or 1 for less than 5 rows, and where d_model or d_ff is below 65",
            plan->copy_x);
    int64_t rows = plan->m_block * (plan->f_block + FFN_PANEL);
    if (rows > PLAN_HIDDEN_MAX)
        return diag_fail(diag, FFN_BAD_ARGUMENT,
                         "plan: m_block %lld x f_block %lld: the hidden block may have %lld floats",
                         (long long)plan->m_block, (long long)plan->f_block, (long long)PLAN_HIDDEN_MAX);
    const int32_t lanes = plan_lanes(plan);
    for (int32_t i = 0; i < plan->tile_count; i++) {
        ffn_tile tile = plan->tiles[i], before = i ? plan->tiles[i - 1] : (ffn_tile){PLAN_MR_MAX + 1, 1};
        bool sorted = tile.mr < before.mr || (tile.mr == before.mr && tile.panels < before.panels);
        if (tile.mr < 1 || tile.mr > PLAN_MR_MAX || tile.panels < 1 || tile.panels > PLAN_PANELS_MAX || !sorted)
            return diag_fail(diag, FFN_BAD_ARGUMENT,
                             "plan: tile %dx%d: rows 1 .. %d and panels 1 .. %d, tallest first, then widest first",
                             tile.mr, tile.panels, PLAN_MR_MAX, PLAN_PANELS_MAX);
        int32_t chains =
            plan_chains(spec->d_model) > plan_chains(spec->d_ff) ? plan_chains(spec->d_model) : plan_chains(spec->d_ff);
        int32_t registers = plan_tile_registers(lanes, tile, plan_chains_at_once(lanes, tile, chains));
        if (registers > isa->registers)
            return diag_fail(diag, FFN_BAD_ARGUMENT, "plan: tile %dx%d needs %d vector registers, %s has %d", tile.mr,
                             tile.panels, registers, isa->name, isa->registers);
    }
    ffn_tile last = plan->tiles[plan->tile_count - 1];
    if (last.mr != 1 || last.panels != 1)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "plan: the last tile is %dx%d: it must be 1x1", last.mr, last.panels);
    return FFN_OK;
}
