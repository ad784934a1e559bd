/* plan_cost.c: see plan_cost.h
 *
 * Two stages, each a product. Its time is that of the tiles (ports and latency), or of what travels from L2 to L1 for
 * them, or of the weights on their way from the level that holds them, whichever is longest; what a plan does not let
 * overlap is added. The constants are fitted to a sweep on one machine (docs/plan.md); the rates are the machine's. */
#include "plan_cost.h"

#include <math.h>

#include "isa.h"
#include "plan.h"

#define F32 ((double)sizeof(float))

/* Of the cores these plans are for: two FMA pipes of four cycles, two loads a cycle. */
enum { FMA_PORTS = 2, LOAD_PORTS = 2, FMA_LATENCY = 4 };

static const double turn_cycles = 0.6;      /* of a turn of the hot loop, beside its multiply-adds */
static const double prefetch_cycles = 0.15; /* of a line that is prefetched */
static const double tile_cycles = 10;       /* to enter and leave a tile */
static const double l2_bytes_a_cycle = 48;  /* from L2 to L1 */
static const double overlap = 0.25;         /* of the shorter of two things that overlap is seen all the same */
static const double start_cycles = 200;     /* a stream that nobody prefetched begins */
/* How much of the shorter one is seen, of the arithmetic and of reading weights that nothing prefetched before their
 * turn. A core's own prefetchers follow one row best; with a few rows L3 is near enough, memory is not. Cores with
 * AVX-512 have better ones: of few rows they hide nearly all. */
typedef struct exposure {
    double one_row_l3, one_row, few_l3, few, rows_l3, rows;
    double ahead_l3, ahead; /* a tile fetches ahead of itself */
} exposure;
static const exposure of_avx2 = {0.02, 0.02, 0.25, 1.5, 1.5, 1.5, 0.2, 0.9};
static const exposure of_avx512 = {0.02, 0.15, 0.05, 0.3, 0.2, 0.8, 0.1, 0.05};
static const double overlap_few = 0.6; /* prefetched before its turn, but few rows to hide it behind */
static const double l3_share = 0.4;    /* of L3, which others share */
static const double l2_share = 0.9;    /* of L2 that blocks can count on */
#define GATED_HIDDEN 1.5               /* the gate is done with before the contraction */
static const double overflow = 0.15, overflow_few = 0.03; /* slower by at most this where blocks outgrow it */
static const double activation_cycles = 10;               /* of a vector of hidden values: 20 operations on two ports */
/* Of the bandwidth of memory that so many streams reach, which are prefetched side by side; a core's own prefetchers
 * are as good as four. Half as much is lost where L3 holds the weights. */
static const double streams_reach[] = {0, 0.80, 0.93, 0.94, 0.95, 0.975, 1};
enum { STREAMS = sizeof streams_reach / sizeof *streams_reach - 1, OWN_STREAMS = 4 };

/* Slower by this: a product whose rows of x or of y share sets of L2; an expand stage whose rows of x share sets of L1.
 */
static const double sharing = 0.05, sharing_l1 = 0.015;
/* Slower by this: a product whose rows of x or h do not fit in L1 and are as many streams, beside those of the weights.
 */
static const double scattered = 0.03;
/* Of a line of y that a few rows come back to for the next block of hidden columns: the weights in between have driven
 * it out of L2, and what is fetched ahead is weights. */
static const double cold_y_cycles = 40, cold_y_cycles_l3 = 15;
static const double copied_bytes_a_cycle = 2.5; /* x into scratch, from wherever it is */
static const double interleaved_bytes_a_cycle = 8;
enum { L2_LINE = 64, FEW_ROWS = 4, BATCH_ROWS = 16, LAYERS = 6 };
enum { SETS_MOST_L1 = 8, SETS_MOST_L2 = 3 }; /* rows in one set that do no harm */
/* Bytes of a way: of L1 a page, for it is looked up before the address is translated, whatever its size. */
enum { L1_WAY = 4096, L2_WAYS = 8 };

/* Rates that were not measured: those of a server's core of these years. */
static const double usual_ghz = 3, usual_l3_gbs = 60, usual_memory_gbs = 20;

/* What does not depend on the plan, and what its blocks come to. */
typedef struct costs {
    const ffn_spec *spec;
    const ffn_plan *plan;
    int32_t lanes, group, row_tiles;
    int64_t rows, f_block, k_block;
    int64_t chunk;                    /* of terms; 0: none */
    int32_t heights[PLAN_MR_MAX + 1]; /* row tiles of each height */
    double l1_bytes;
    double source_bytes_a_cycle; /* from where the weights are; 0: from L2 */
    bool from_l3;
    double covered;  /* share of the weights that is prefetched before its turn */
    double slowdown; /* of blocks that outgrow L2 */
} costs;

static int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

/* Two things at once. */
static double both(double a, double b, double seen) {
    return fmax(a, b) + seen * fmin(a, b);
}

/* Cycles of one k step of a tile. */
static double step_cycles(const costs *c, ffn_tile tile) {
    const ffn_plan *plan = c->plan;
    int32_t vectors = tile.panels * (FFN_PANEL / c->lanes);
    double fma = (double)(tile.mr * vectors) / FMA_PORTS, load = (double)(tile.mr + vectors) / LOAD_PORTS;
    double cycles = fmax(fmax(fma, load), FMA_LATENCY) + turn_cycles / plan->unroll;
    int32_t own_lines = (plan->unroll * tile.panels + c->group - 1) / c->group, lines = plan->prefetch * tile.panels;
    cycles += prefetch_cycles * (lines < own_lines ? lines : own_lines) * c->group / plan->unroll;
    return plan->ahead ? cycles + prefetch_cycles * tile.panels : cycles;
}

/* Cycles of a group of panels over all row tiles for `terms` of the sum, and the bytes that L2 gives for them. */
static double group_cycles(const costs *c, double terms, int64_t panels, double *l2_bytes) {
    const ffn_plan *plan = c->plan;
    double cycles = 0;
    for (int32_t i = 0; i < plan->tile_count;) {
        const int32_t mr = plan->tiles[i].mr, count = c->heights[mr];
        int64_t left = panels;
        for (; i < plan->tile_count && plan->tiles[i].mr == mr; i++) {
            const ffn_tile tile = plan->tiles[i];
            const int64_t calls = count * (left / tile.panels);
            left %= tile.panels;
            if (!calls)
                continue;
            const double a_bytes = mr * terms * F32, b_bytes = terms * tile.panels * FFN_PANEL * F32;
            /* Part of what all row tiles read again may still be in L1. */
            const double again = a_bytes + terms * (double)(panels * FFN_PANEL) * F32;
            const double kept = fmin(1, c->l1_bytes / again);
            cycles += (double)calls *
                      (terms * step_cycles(c, tile) + tile_cycles + mr * tile.panels * (double)(FFN_PANEL / c->lanes));
            *l2_bytes += (double)calls * (a_bytes + b_bytes * (1 - 1.0 / c->row_tiles) * (1 - kept));
        }
    }
    return cycles;
}

/* How often one row goes over its weights: a stage of several chains, which not all fit the registers of its tile. With
 * more rows the arithmetic hides it. */
static int32_t chain_passes(const costs *c, int64_t panels) {
    const int32_t chains = plan_chains(panels * FFN_PANEL);
    for (int32_t i = 0; c->rows == 1 && chains > 1 && i < c->plan->tile_count; i++)
        if (c->plan->tiles[i].mr == 1 && c->plan->tiles[i].panels <= panels)
            return chains / plan_chains_at_once(c->lanes, c->plan->tiles[i], chains);
    return 1;
}

/* One matrix over the panels of one block. */
static double product_cycles(const costs *c, int64_t terms, int64_t block, int64_t panels, double more_l2_bytes) {
    const int64_t blocks = ceil_div(terms, block), group = c->group < panels ? c->group : panels;
    const int64_t groups = ceil_div(panels, group);
    const int64_t chunks = c->chunk > 0 ? ceil_div(ceil_div(terms, blocks), c->chunk) : 1;
    double l2_bytes = 0, cycles = group_cycles(c, (double)terms / (double)(blocks * chunks), group, &l2_bytes);
    cycles *= (double)chunks;
    l2_bytes *= (double)chunks;
    const double times = (double)(groups * blocks), bytes = (double)(terms * panels * FFN_PANEL) * F32;
    l2_bytes = l2_bytes * times + more_l2_bytes;
    cycles = both(cycles * times, l2_bytes / l2_bytes_a_cycle, overlap) * c->slowdown;
    if (c->source_bytes_a_cycle <= 0)
        return both(cycles, bytes / l2_bytes_a_cycle, overlap);
    const double bare = 1 - c->covered;
    const double reading = (bytes / c->source_bytes_a_cycle + bare * start_cycles * times) * chain_passes(c, panels);
    const bool few = c->rows <= FEW_ROWS;
    const exposure *of = c->plan->isa == FFN_ISA_AVX512 ? &of_avx512 : &of_avx2;
    const double exposed = c->plan->ahead ? (c->from_l3 ? of->ahead_l3 : of->ahead)
                           : c->rows == 1 ? (c->from_l3 ? of->one_row_l3 : of->one_row)
                           : few          ? (c->from_l3 ? of->few_l3 : of->few)
                                          : (c->from_l3 ? of->rows_l3 : of->rows);
    return both(cycles, reading, c->covered * (few ? overlap_few : overlap) + bare * exposed);
}

/* Time to bring rows into another place, in cycles. */
static double copied_cycles(const costs *c) {
    if (plan_interleaves(c->plan))
        return (double)(c->rows * (c->spec->d_model + c->f_block)) * F32 / interleaved_bytes_a_cycle;
    return c->plan->copy_x ? (double)(c->rows * c->spec->d_model) * F32 / copied_bytes_a_cycle : 0;
}

/* What rows of so many terms cost as streams of their own, of the product. Of the plans that may interleave them: for
 * others it would only be a reason for shorter blocks, which was never measured. */
static double scattered_share(const costs *c, int64_t terms) {
    const bool may = c->plan->isa == FFN_ISA_AVX512 && c->plan->n_class == FFN_N_5_16;
    const bool fit = (double)(c->rows * terms) * F32 <= c->l1_bytes;
    return !may || fit || plan_interleaves(c->plan) ? 0 : scattered;
}

/* Rows that lie a multiple of a few KiB apart meet in few sets of a cache: whether more than `most` of these meet in
 * one. */
static bool meet(const costs *c, int64_t way, int64_t most) {
    int64_t step = c->spec->d_model * (int64_t)sizeof(float), rest = way;
    if (step % L2_LINE)
        return false;
    while (rest) { /* the greatest common divisor: the rows begin at its multiples */
        const int64_t next = step % rest;
        step = rest;
        rest = next;
    }
    return ceil_div(c->rows, way / step) > most;
}

static double or_usual(int64_t millions, double usual) {
    return millions > 0 ? (double)millions * 1e-3 : usual;
}

/* The clock behind a machine's peak, which was measured with its widest registers: with those of a narrower ISA it
 * would be a clock that no core has. The host is not asked: a machine file gives the same plans everywhere. */
static double clock_ghz(const ffn_machine *machine, ffn_isa isa) {
    enum { GHZ_MAX = 6, FLOPS = 2 };
    double ghz = (double)machine->fma_mflops * 1e-3 / (FLOPS * FMA_PORTS * isa_row_of(isa)->lanes);
    while (ghz > GHZ_MAX)
        ghz /= 2;
    return ghz > 0 ? ghz : usual_ghz;
}

double plan_cost_ms(const ffn_spec *spec, const ffn_plan *plan, const ffn_machine *machine, int64_t n, bool cold) {
    const bool gated = ffn_spec_gated(spec);
    const int64_t passes = ceil_div(n, plan->m_block);
    costs c = {.spec = spec,
               .plan = plan,
               .lanes = plan_lanes(plan),
               .group = plan_group(plan),
               .rows = ceil_div(n, passes),
               .f_block = plan->f_block < spec->d_ff ? plan->f_block : spec->d_ff,
               .k_block = plan->k_block < spec->d_model ? plan->k_block : spec->d_model,
               .chunk = plan->chunk,
               .l1_bytes = (double)machine->l1_bytes};
    for (int64_t left = c.rows; left > 0; c.row_tiles++) {
        const int32_t mr = plan_next_height(plan, left);
        c.heights[mr]++;
        left -= mr;
    }
    const double ghz = clock_ghz(machine, plan->isa);
    const double weights = (double)(spec->d_model * spec->d_ff * (gated ? 3 : 2)) * F32;
    const int32_t streams = plan->prefetch ? STREAMS : OWN_STREAMS;
    /* From chunk to chunk the streams go on, and a core's own prefetchers with them. */
    const double reach = plan->chunk ? 1 : streams_reach[c.group < streams ? c.group : streams];
    const double kept = cold ? LAYERS * weights : weights;
    if (kept > l3_share * (double)(machine->l3_bytes ? machine->l3_bytes : machine->l2_bytes))
        c.source_bytes_a_cycle = or_usual(machine->memory_mbs, usual_memory_gbs) * reach / ghz;
    else if (kept > 0.5 * (double)machine->l2_bytes) {
        c.from_l3 = true;
        c.source_bytes_a_cycle = or_usual(machine->l3_mbs, usual_l3_gbs) * (1 + reach) / 2 / ghz;
    }
    c.covered = fmin(1, (double)(plan->prefetch * c.group * c.row_tiles) / plan->unroll);
    /* The panels of a group, and those that are prefetched meanwhile. */
    const int64_t longest = c.chunk > 0 ? c.chunk : c.k_block > c.f_block ? c.k_block : c.f_block;
    const double hidden = (double)(c.rows * (c.f_block + FFN_PANEL)) * (gated ? GATED_HIDDEN : 1);
    const double floats = (double)(c.rows * c.k_block + 2 * c.group * longest * FFN_PANEL) + hidden;
    const double over = floats * F32 / (l2_share * (double)machine->l2_bytes) - 1;
    c.slowdown = 1 + (c.rows <= BATCH_ROWS ? overflow_few : overflow) * fmin(fmax(over, 0), 1);
    const int64_t l2_way = machine->l2_bytes >= L2_WAYS ? machine->l2_bytes / L2_WAYS : 1;
    const double shared = meet(&c, l2_way, SETS_MOST_L2) ? sharing : 0;
    const double shared_x = shared > 0 ? shared : meet(&c, L1_WAY, SETS_MOST_L1) ? sharing_l1 : 0;

    const int64_t f_blocks = ceil_div(spec->d_ff, c.f_block), h_panels = ceil_div(c.f_block, FFN_PANEL);
    double expand = product_cycles(&c, spec->d_model, c.k_block, h_panels, 0) * (gated ? 2 : 1);
    const double y_bytes = 2 * F32 * (double)(c.rows * spec->d_model);
    double contract = product_cycles(&c, c.f_block, c.f_block, ceil_div(spec->d_model, FFN_PANEL), y_bytes);
    expand *= 1 + (plan->copy_x ? 0 : shared_x) + scattered_share(&c, c.k_block);
    contract *= 1 + (plan->hold_y ? 0 : shared) + scattered_share(&c, c.f_block);
    const double y_lines = (double)(c.rows * ceil_div(spec->d_model * (int64_t)sizeof(float), L2_LINE));
    const double again = c.rows <= BATCH_ROWS && c.source_bytes_a_cycle > 0
                             ? (double)(f_blocks - 1) * y_lines * (c.from_l3 ? cold_y_cycles_l3 : cold_y_cycles)
                             : 0;
    const double vectors = (double)(n * ceil_div(spec->d_ff, c.lanes));
    const double blocks = (double)(passes * f_blocks) * (expand + contract + copied_cycles(&c));
    return (blocks + (double)passes * again + vectors * activation_cycles) / ghz * 1e-6;
}
