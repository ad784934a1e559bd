/* plan_space.c: see plan_space.h
 *
 * The space is two tables: lists of tiles for each ISA and n class, and the values that each number of a plan may have.
 * A list is one that tests/test_codegen.c has read in the generated code: none spills. */
#include "plan_space.h"

#include <math.h>
#include <string.h>

#include "isa.h"
#include "plan.h"
#include "plan_cost.h"

enum { ALL = FFN_DIM_MAX, VALUES_MAX = 12, LISTS_MAX = 8 };

/* ---- Tiles --------------------------------------------------------------------------------------------------- */

enum {
    N_1 = 1 << FFN_N_1,
    N_2_4 = 1 << FFN_N_2_4,
    N_5_16 = 1 << FFN_N_5_16,
    N_17_UP = 1 << FFN_N_17_UP,
    N_5_UP = N_5_16 | N_17_UP
};

/* Tallest first. Each height that a class meets often has a tile of its own; every list ends with 1x1, so that any
 * number of rows can be served. Beside a tile of several panels goes one of a single panel where a shape leaves some
 * over (with_narrow_tiles). The first list of a class is the one to try first. */
typedef struct tile_list {
    ffn_isa isa;
    unsigned classes;
    int32_t vector_bits;
    int32_t group, chunk; /* 0: as wide as the widest tile; none */
    ffn_tile tiles[FFN_TILES_MAX];
} tile_list;

/* clang-format off */
#define TILES_8X2 {{8, 2}, {7, 2}, {6, 2}, {5, 2}, {4, 2}, {1, 1}}
#define TILES_6X4 {{8, 2}, {7, 2}, {6, 4}, {5, 4}, {4, 4}, {1, 1}}
#define TILES_13X2 {{13, 2}, {12, 2}, {11, 2}, {10, 2}, {9, 2}, {8, 2}, {7, 2}, {6, 2}, {5, 2}, {4, 2}, {1, 1}}
/* clang-format on */

static const tile_list tile_lists[] = {
    {FFN_ISA_AVX2, N_1, 0, 0, 0, {{1, 6}, {1, 1}}},
    {FFN_ISA_AVX2, N_1, 0, 0, 0, {{1, 4}, {1, 1}}},
    {FFN_ISA_AVX2, N_1, 0, 0, 0, {{1, 7}, {1, 1}}},
    {FFN_ISA_AVX2, N_1, 0, 0, 0, {{1, 2}, {1, 1}}},
    {FFN_ISA_AVX2, N_2_4, 0, 3, 128, {{4, 1}, {3, 1}, {2, 3}, {1, 1}}},
    {FFN_ISA_AVX2, N_2_4, 0, 4, 128, {{4, 1}, {3, 2}, {2, 2}, {1, 4}, {1, 1}}},
    {FFN_ISA_AVX2, N_2_4, 0, 0, 0, {{4, 1}, {3, 1}, {2, 3}, {1, 1}}},
    {FFN_ISA_AVX2, N_2_4, 0, 6, 128, {{4, 1}, {3, 2}, {2, 3}, {1, 6}, {1, 1}}},
    {FFN_ISA_AVX2, N_2_4, 0, 3, 256, {{2, 3}, {1, 6}, {1, 1}}},
    {FFN_ISA_AVX2, N_5_16, 0, 2, 256, {{6, 1}, {5, 1}, {4, 1}, {3, 1}, {1, 1}}},
    {FFN_ISA_AVX2, N_5_16, 0, 2, 0, {{6, 1}, {5, 1}, {4, 1}, {1, 1}}},
    {FFN_ISA_AVX2, N_5_16, 0, 0, 0, {{6, 1}, {5, 1}, {4, 1}, {1, 1}}},
    {FFN_ISA_AVX2, N_5_16, 0, 4, 0, {{3, 2}, {2, 2}, {1, 4}, {1, 1}}},
    {FFN_ISA_AVX2, N_17_UP, 0, 0, 0, {{6, 1}, {5, 1}, {4, 1}, {1, 1}}},
    {FFN_ISA_AVX2, N_17_UP, 0, 0, 0, {{4, 1}, {1, 1}}},

    {FFN_ISA_AVX512, N_1, 0, 0, 0, {{1, 6}, {1, 1}}},
    {FFN_ISA_AVX512, N_1, 0, 0, 0, {{1, 8}, {1, 1}}},
    {FFN_ISA_AVX512, N_1, 0, 0, 0, {{1, 4}, {1, 1}}},
    {FFN_ISA_AVX512, N_1, 256, 0, 0, {{1, 8}, {1, 1}}},
    {FFN_ISA_AVX512, N_2_4, 0, 0, 0, {{4, 4}, {3, 4}, {2, 4}, {1, 4}, {1, 1}}},
    {FFN_ISA_AVX512, N_2_4, 0, 0, 0, {{4, 4}, {3, 4}, {2, 8}, {1, 8}, {1, 1}}},
    {FFN_ISA_AVX512, N_2_4, 0, 0, 0, {{4, 6}, {3, 6}, {2, 6}, {1, 6}, {1, 1}}},
    {FFN_ISA_AVX512, N_2_4, 0, 4, 32, {{4, 2}, {3, 2}, {2, 4}, {1, 4}, {1, 1}}},
    {FFN_ISA_AVX512, N_2_4, 256, 0, 0, {{4, 3}, {3, 4}, {2, 6}, {1, 8}, {1, 1}}},
    {FFN_ISA_AVX512, N_5_16, 0, 2, 96, TILES_13X2},
    {FFN_ISA_AVX512, N_5_16, 0, 4, 64, TILES_6X4},
    {FFN_ISA_AVX512, N_5_16, 0, 0, 0, TILES_6X4},
    {FFN_ISA_AVX512, N_5_16, 0, 4, 64, TILES_8X2},
    {FFN_ISA_AVX512, N_5_16, 256, 2, 64, {{6, 2}, {5, 2}, {4, 2}, {3, 2}, {1, 1}}},
    {FFN_ISA_AVX512, N_17_UP, 0, 0, 0, TILES_8X2},
    {FFN_ISA_AVX512, N_17_UP, 0, 0, 0, TILES_6X4},
    {FFN_ISA_AVX512, N_17_UP, 256, 0, 0, {{6, 2}, {5, 2}, {4, 2}, {3, 2}, {1, 1}}},

    {FFN_ISA_NEON, N_1, 0, 0, 0, {{1, 4}, {1, 1}}},
    {FFN_ISA_NEON, N_1, 0, 0, 0, {{1, 6}, {1, 1}}},
    {FFN_ISA_NEON, N_1, 0, 0, 0, {{1, 2}, {1, 1}}},
    {FFN_ISA_NEON, N_2_4, 0, 0, 0, {{4, 1}, {3, 1}, {2, 2}, {1, 1}}},
    {FFN_ISA_NEON, N_2_4, 0, 0, 0, {{4, 1}, {3, 1}, {2, 2}, {1, 4}, {1, 1}}},
    {FFN_ISA_NEON, N_5_UP, 0, 0, 0, {{6, 1}, {5, 1}, {4, 1}, {3, 1}, {1, 1}}},
    {FFN_ISA_NEON, N_5_UP, 0, 0, 0, {{6, 1}, {5, 1}, {4, 1}, {3, 1}, {1, 4}, {1, 1}}},
    {FFN_ISA_NEON, N_5_UP, 0, 0, 0, {{4, 1}, {3, 1}, {2, 2}, {1, 1}}},
};
enum { TILE_LISTS = sizeof tile_lists / sizeof *tile_lists };

/* Those of an ISA and class, in order; their number. */
static int32_t lists_of(ffn_isa isa, ffn_n_class n_class, const tile_list *lists[LISTS_MAX]) {
    int32_t count = 0;
    for (int32_t i = 0; i < TILE_LISTS && count < LISTS_MAX; i++)
        if (tile_lists[i].isa == isa && tile_lists[i].classes & 1u << n_class)
            lists[count++] = &tile_lists[i];
    return count;
}

static int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

/* Whether sweeps over panels of this shape and plan leave some over that a tile of `wide` panels cannot take. */
static bool leaves_panels(const ffn_spec *spec, const ffn_plan *plan, int32_t wide) {
    const int64_t expand = ceil_div(spec->d_ff, FFN_PANEL), contract = ceil_div(spec->d_model, FFN_PANEL);
    return expand % wide || contract % wide || spec->d_model % FFN_PANEL || plan->f_block / FFN_PANEL % wide ||
           plan_group(plan) % wide;
}

/* No tiles where there are too many. */
static void with_narrow_tiles(const ffn_spec *spec, ffn_plan *plan) {
    const ffn_plan wide = *plan;
    plan->tile_count = 0;
    for (int32_t i = 0; i < wide.tile_count; i++) {
        const ffn_tile tile = wide.tiles[i], narrow = {tile.mr, 1};
        const bool has = tile.panels == 1 || plan_has_tile(&wide, tile.mr, 1);
        const int32_t more = !has && leaves_panels(spec, &wide, tile.panels) ? 2 : 1;
        if (plan->tile_count + more > FFN_TILES_MAX) {
            plan->tile_count = 0;
            return;
        }
        plan->tiles[plan->tile_count++] = tile;
        if (more > 1)
            plan->tiles[plan->tile_count++] = narrow;
    }
}

static void take_list(ffn_plan *plan, const tile_list *list) {
    plan->vector_bits = list->vector_bits;
    plan->group = list->group;
    plan->chunk = list->chunk;
    plan->tile_count = 0;
    while (plan->tile_count < FFN_TILES_MAX && list->tiles[plan->tile_count].mr) {
        plan->tiles[plan->tile_count] = list->tiles[plan->tile_count];
        plan->tile_count++;
    }
}

/* ---- Numbers ------------------------------------------------------------------------------------------------- */

/* A list of tiles brings group and chunk with it: the grid has no axes for them. */
typedef enum axis {
    M_BLOCK,
    F_BLOCK,
    K_BLOCK,
    UNROLL,
    PREFETCH,
    AHEAD,
    ROW_SPLIT,
    HOLD_Y,
    COPY_X,
    GRID_AXES,
    GROUP = GRID_AXES,
    CHUNK,
    AXES
} axis;

typedef struct values {
    int64_t of[VALUES_MAX]; /* as many as `count` */
    int32_t count;
} values;

#define VALUES(...) \
    { {__VA_ARGS__}, sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t) }

/* The grid: every combination, times the lists of tiles, is at most PLAN_GRID_MAX. Blocks are upper limits: they are
 * cut evenly. Unrolling is a multiple of the ISA's own (turn_terms below). The first value is the one to try first. */
static const values grid[FFN_N_CLASSES][GRID_AXES] = {
    [FFN_N_1] = {VALUES(1), VALUES(ALL, 512, 1024, 256), VALUES(ALL, 1024), VALUES(1), VALUES(0), VALUES(0, 16, 32),
                 VALUES(0), VALUES(0), VALUES(0)},
    [FFN_N_2_4] = {VALUES(4), VALUES(8192, 2048, 512), VALUES(ALL, 512), VALUES(1), VALUES(2, 0), VALUES(0, 16),
                   VALUES(0), VALUES(0), VALUES(0)},
    [FFN_N_5_16] = {VALUES(16), VALUES(4096, 2048, 512), VALUES(ALL, 512), VALUES(1), VALUES(2, 1, 0), VALUES(0),
                    VALUES(0), VALUES(0), VALUES(0, 1)},
    [FFN_N_17_UP] = {VALUES(66, 132), VALUES(512, 704), VALUES(512, ALL), VALUES(1), VALUES(2), VALUES(0), VALUES(0),
                     VALUES(0, 1), VALUES(0, 1)},
};

/* Rows interleaved too: one stream beside those of the weights. */
static const values grid_avx512_5_16[GRID_AXES] = {VALUES(16),
                                                   VALUES(4096, 3584, 2048),
                                                   VALUES(ALL, 512),
                                                   VALUES(1),
                                                   VALUES(2, 1, 0),
                                                   VALUES(0),
                                                   VALUES(0),
                                                   VALUES(0),
                                                   VALUES(0, 1, PLAN_COPY_X_INTERLEAVED)};

/* Tiles of eight rows, and L2 of 1 MiB and more: twice the rows, in blocks of hidden columns that leave room for them
 * in scratch where there is a gate. */
static const values grid_avx512_17_up[GRID_AXES] = {VALUES(132), VALUES(320, 512), VALUES(256, 512, ALL),
                                                    VALUES(1),   VALUES(2),        VALUES(0),
                                                    VALUES(0),   VALUES(0, 1),     VALUES(0, 1)};

static const values *grid_of(ffn_isa isa, ffn_n_class n_class) {
    if (isa == FFN_ISA_AVX512 && n_class >= FFN_N_5_16)
        return n_class == FFN_N_5_16 ? grid_avx512_5_16 : grid_avx512_17_up;
    return grid[n_class];
}

/* The whole space, in ascending order: what a search may step through. */
static const values space[AXES] = {
    [M_BLOCK] = VALUES(1, 2, 4, 8, 16, 24, 36, 48, 66, 96, 132, 198),
    [F_BLOCK] = VALUES(64, 128, 256, 384, 512, 768, 1024, 2048, 4096, ALL),
    [K_BLOCK] = VALUES(128, 256, 384, 512, 768, 1024, 2048, 4096, ALL),
    [UNROLL] = VALUES(1, 2, 4, 8),
    [PREFETCH] = VALUES(0, 1, 2, 4, 8),
    [AHEAD] = VALUES(0, 8, 16, 32, 64),
    [ROW_SPLIT] = VALUES(FFN_ROWS_LEAST_WORK, FFN_ROWS_TALLEST),
    [CHUNK] = VALUES(0, 32, 64, 96, 128, 256, 512),
    [COPY_X] = VALUES(0, 1, PLAN_COPY_X_INTERLEAVED),
    [HOLD_Y] = VALUES(0, 1),
    [GROUP] = VALUES(0, 1, 2, 3, 4, 6, 8),
};

/* Terms in a turn of the hot loop: as many as hide the counting, few enough for the registers of addresses. */
static int32_t turn_terms(const ffn_plan *plan) {
    static const int32_t of_avx2[] = {4, 4, 4, 8}, of_avx512[] = {2, 2, 2, 4};
    switch (plan->isa) {
    case FFN_ISA_AVX2:
        return of_avx2[plan->n_class];
    case FFN_ISA_AVX512:
        return plan->vector_bits ? 2 : of_avx512[plan->n_class];
    default:
        return 1;
    }
}

/* Cuts `total` into equal blocks of at most `most`, each a multiple of `unit`: no short last block. */
static int64_t even_block(int64_t total, int64_t most, int64_t unit) {
    int64_t units = ceil_div(total, unit), limit = most / unit > 0 ? most / unit : 1;
    return ceil_div(units, ceil_div(units, limit)) * unit;
}

/* Columns of a block of hidden ones that the tallest tile takes without a rest. */
static int64_t f_unit(const ffn_spec *spec, const ffn_plan *plan) {
    const int64_t wide = (int64_t)plan->tiles[0].panels * FFN_PANEL;
    return plan->tiles[0].mr > 1 && spec->d_ff % wide == 0 ? wide : FFN_PANEL;
}

static void set(const ffn_spec *spec, ffn_plan *plan, axis which, int64_t value) {
    switch (which) {
    case M_BLOCK:
        plan->m_block = value;
        break;
    case F_BLOCK:
        plan->f_block = even_block(spec->d_ff, value, f_unit(spec, plan));
        break;
    case K_BLOCK:
        plan->k_block = even_block(spec->d_model, value, FFN_PANEL);
        plan->k_block = plan->k_block < spec->d_model ? plan->k_block : spec->d_model;
        break;
    case UNROLL:
        plan->unroll = (int32_t)value;
        plan->prefetch = plan->prefetch < plan->unroll ? plan->prefetch : plan->unroll;
        break;
    case PREFETCH:
        plan->prefetch = (int32_t)value < plan->unroll ? (int32_t)value : plan->unroll;
        break;
    case AHEAD:
        plan->ahead = (int32_t)value;
        break;
    case CHUNK: /* only where it cuts a sum of either stage */
        plan->chunk = value < spec->d_model || value < plan->f_block ? (int32_t)value : 0;
        break;
    case COPY_X:
        plan->copy_x = (int32_t)value;
        break;
    case HOLD_Y:
        plan->hold_y = (int32_t)value;
        break;
    case GROUP: /* the widest tile is the least */
        plan->group = (int32_t)value;
        plan->group = plan_group(plan) == (int32_t)value ? (int32_t)value : 0;
        break;
    case ROW_SPLIT:
    case AXES:
        plan->row_split = (ffn_row_split)value;
        break;
    }
}

static int64_t get(const ffn_plan *plan, axis which) {
    const int64_t numbers[AXES] = {[M_BLOCK] = plan->m_block,
                                   [F_BLOCK] = plan->f_block,
                                   [K_BLOCK] = plan->k_block,
                                   [UNROLL] = plan->unroll,
                                   [PREFETCH] = plan->prefetch,
                                   [AHEAD] = plan->ahead,
                                   [ROW_SPLIT] = (int64_t)plan->row_split,
                                   [COPY_X] = plan->copy_x,
                                   [HOLD_Y] = plan->hold_y,
                                   [GROUP] = plan_group(plan),
                                   [CHUNK] = plan->chunk};
    return numbers[which];
}

static void set_grid(const ffn_spec *spec, ffn_plan *plan, axis which, int64_t value) {
    set(spec, plan, which, which == UNROLL ? value * turn_terms(plan) : value);
}

/* The prefetchers of cores with AVX-512 follow the panels of a few rows better than a prefetch into L2 leads them: at
 * 768x3072 with 3 to 6 rows kernels without one take 0.61 to 0.67 of the time (docs/plan.md). */
static bool follows_well(const ffn_plan *plan) {
    return plan->isa == FFN_ISA_AVX512 && plan->n_class != FFN_N_17_UP;
}

/* A tile of the grid that fetches ahead of itself leaves the next panels alone; and where nothing is prefetched for
 * them, there is nothing for chunks and groups of them to do. Where there are chunks, blocks of terms would only store
 * sums more often; chunks are cut as evenly as blocks, or a short one would be all the time there is to fetch a whole
 * one. No tiles where this is no plan. */
static ffn_plan settled(const ffn_spec *spec, const ffn_plan *from) {
    ffn_plan plan = *from;
    if (plan.ahead || (follows_well(&plan) && !plan.chunk))
        plan.prefetch = 0;
    if (plan.prefetch == 0) {
        if (follows_well(&plan) && plan.chunk)
            plan.tile_count = 0; /* lists without chunks stand beside those with them, of other tiles */
        plan.chunk = plan.group = 0;
    }
    if (plan.chunk)
        set(spec, &plan, K_BLOCK, ALL);
    if (plan.chunk && plan.chunk < spec->d_model)
        plan.chunk = (int32_t)even_block(spec->d_model, plan.chunk, FFN_PANEL);
    with_narrow_tiles(spec, &plan);
    return plan;
}

static bool same(const ffn_plan *a, const ffn_plan *b) {
    for (axis i = 0; i < AXES; i++)
        if (get(a, i) != get(b, i))
            return false;
    return a->vector_bits == b->vector_bits && a->tile_count == b->tile_count &&
           memcmp(a->tiles, b->tiles, (size_t)a->tile_count * sizeof *a->tiles) == 0;
}

static size_t add(const ffn_spec *spec, const ffn_plan *plan, ffn_plan *plans, size_t count, size_t room) {
    for (size_t i = 0; i < count; i++)
        if (same(plan, &plans[i]))
            return count;
    if (count < room && plan_check_fields(spec, plan, NULL) == FFN_OK)
        plans[count++] = *plan;
    return count;
}

/* ---- Grid, model, neighbours ---------------------------------------------------------------------------------- */

static ffn_plan first_plan(const ffn_spec *spec, ffn_isa isa, ffn_n_class n_class, const tile_list *list) {
    ffn_plan plan = {.isa = isa, .n_class = n_class};
    take_list(&plan, list);
    for (axis i = 0; i < GRID_AXES; i++)
        set_grid(spec, &plan, i, grid_of(isa, n_class)[i].of[0]);
    return plan;
}

size_t plan_space_grid(const ffn_spec *spec, ffn_isa isa, ffn_n_class n_class, ffn_plan plans[PLAN_GRID_MAX]) {
    const tile_list *lists[LISTS_MAX];
    const int32_t list_count = lists_of(isa, n_class, lists);
    size_t count = 0;
    for (int32_t list = 0; list < list_count; list++) {
        ffn_plan plan = first_plan(spec, isa, n_class, lists[list]);
        /* An odometer over the axes: the last one turns fastest. */
        int32_t at[GRID_AXES] = {0};
        for (int32_t turned = GRID_AXES; turned >= 0;) {
            for (axis i = 0; i < GRID_AXES; i++)
                set_grid(spec, &plan, i, grid_of(isa, n_class)[i].of[at[i]]);
            const ffn_plan point = settled(spec, &plan);
            count = add(spec, &point, plans, count, PLAN_GRID_MAX);
            for (turned = GRID_AXES - 1; turned >= 0 && ++at[turned] == grid_of(isa, n_class)[turned].count; turned--)
                at[turned] = 0;
        }
    }
    return count;
}

/* A class has one plan for all of its rows: these stand for them. Weights of a model of many layers come from beyond
 * the caches, those of a lone small layer stay: the plan must be good for both. */
static double class_cost(const ffn_spec *spec, const ffn_plan *plan, const ffn_machine *machine) {
    enum { ROWS = 2 };
    static const int64_t rows[FFN_N_CLASSES][ROWS] = {{1, 1}, {2, 4}, {6, 16}, {24, 128}};
    double ms = 0;
    for (int32_t i = 0; i < ROWS; i++) {
        const int64_t n = rows[plan->n_class][i];
        ms += plan_cost_ms(spec, plan, machine, n, true) + plan_cost_ms(spec, plan, machine, n, false);
    }
    /* Scratch must leave room for the weights in a second-level cache of a common size. */
    return plan_scratch_bytes(spec, plan) > PLAN_SCRATCH_MOST ? 2 * ms : ms;
}

/* One axis at a time, twice around: the axes hardly depend on each other, and a plan must cost microseconds. Copies
 * come before the blocks that they share scratch with: a larger block is worth less. */
static void descend(const ffn_spec *spec, const ffn_machine *machine, ffn_plan *plan, double *least) {
    static const axis order[GRID_AXES] = {M_BLOCK, COPY_X,   HOLD_Y, F_BLOCK,  K_BLOCK,
                                          UNROLL,  PREFETCH, AHEAD,  ROW_SPLIT};
    for (int around = 0; around < 2; around++) {
        for (int at = 0; at < GRID_AXES; at++) {
            const axis i = order[at];
            const values *axis_values = &grid_of(plan->isa, plan->n_class)[i];
            for (int32_t v = 0; axis_values->count > 1 && v < axis_values->count; v++) {
                ffn_plan next = *plan;
                set_grid(spec, &next, i, axis_values->of[v]);
                const ffn_plan point = settled(spec, &next);
                if (same(&next, plan) || plan_check_fields(spec, &point, NULL) != FFN_OK)
                    continue;
                const double cost = class_cost(spec, &point, machine);
                if (cost < *least) {
                    *least = cost;
                    *plan = next;
                }
            }
        }
    }
}

bool plan_space_best(const ffn_spec *spec, ffn_isa isa, ffn_n_class n_class, const ffn_machine *machine,
                     ffn_plan *best) {
    const tile_list *lists[LISTS_MAX];
    const int32_t list_count = lists_of(isa, n_class, lists);
    static const double clearly = 0.01; /* the lists of a class are in order of preference */
    /* The model asks again and again whether it is gated: a user's formula would be parsed each time. */
    ffn_spec shape = *spec;
    strcpy(shape.activation, ffn_spec_gated(spec) ? "swiglu" : "relu");
    double least = INFINITY;
    for (int32_t list = 0; list < list_count; list++) {
        ffn_plan plan = first_plan(&shape, isa, n_class, lists[list]);
        const ffn_plan first = settled(&shape, &plan);
        if (plan_check_fields(&shape, &first, NULL) != FFN_OK)
            continue;
        double cost = class_cost(&shape, &first, machine);
        descend(&shape, machine, &plan, &cost);
        if (cost < least * (1 - clearly)) {
            least = cost;
            *best = settled(spec, &plan);
        }
    }
    return isfinite(least);
}

size_t plan_space_neighbours(const ffn_spec *spec, const ffn_plan *plan, ffn_plan plans[PLAN_NEIGHBOURS_MAX]) {
    const tile_list *lists[LISTS_MAX];
    const int32_t list_count = lists_of(plan->isa, plan->n_class, lists);
    ffn_plan all[PLAN_NEIGHBOURS_MAX + 1] = {*plan}; /* itself, so that it is not added */
    size_t count = 1;
    for (int32_t i = 0; i < list_count; i++) {
        ffn_plan next = *plan;
        take_list(&next, lists[i]);
        with_narrow_tiles(spec, &next);
        count = add(spec, &next, all, count, PLAN_NEIGHBOURS_MAX + 1);
    }
    for (axis i = 0; i < AXES; i++) {
        const int64_t now = get(plan, i);
        /* The nearest different plan below and above. */
        for (int direction = -1; direction <= 1; direction += 2) {
            for (int32_t at = direction < 0 ? space[i].count - 1 : 0; at >= 0 && at < space[i].count; at += direction) {
                ffn_plan next = *plan;
                set(spec, &next, i, space[i].of[at]);
                const int64_t value = get(&next, i);
                if (direction < 0 ? value >= now : value <= now)
                    continue;
                count = add(spec, &next, all, count, PLAN_NEIGHBOURS_MAX + 1);
                break;
            }
        }
    }
    memcpy(plans, all + 1, (count - 1) * sizeof *plans);
    return count - 1;
}

bool plan_space_simpler(const ffn_plan *a, const ffn_plan *b) {
    const int64_t order[][2] = {
        {a->tile_count, b->tile_count}, {a->unroll, b->unroll},     {a->prefetch, b->prefetch},
        {a->ahead, b->ahead},           {a->chunk, b->chunk},       {a->copy_x, b->copy_x},
        {-a->f_block, -b->f_block},     {-a->k_block, -b->k_block}, {-a->m_block, -b->m_block},
    };
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        if (order[i][0] != order[i][1])
            return order[i][0] < order[i][1];
    char texts[2][256] = {"", ""};
    ffn_plan_format(a, texts[0], sizeof texts[0], NULL);
    ffn_plan_format(b, texts[1], sizeof texts[1], NULL);
    return strcmp(texts[0], texts[1]) < 0;
}
