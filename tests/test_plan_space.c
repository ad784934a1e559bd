/* test_plan_space.c: the plans that tuning chooses from: valid, each once, few enough; and the model's choice among
 * them */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "isa.h"
#include "plan.h"
#include "plan_cost.h"
#include "plan_space.h"

#define KIB INT64_C(1024)

static const char *const specs[] = {"d64-f256-relu-bias", "d768-f3072-gelu-bias", "d4096-f14336-swiglu",
                                    "d100-f300-geglu",    "d1-f1-relu",           "d7168-f2048-swiglu",
                                    "d32-f48-gelu-bias",  "d16777216-f16-relu",   "d16-f16777216-relu"};
#define SPECS (sizeof specs / sizeof *specs)

static const ffn_machine machines[] = {
    {.l1_bytes = 32 * KIB, .l2_bytes = 512 * KIB, .l3_bytes = 8192 * KIB},
    {.l1_bytes = 4 * KIB, .l2_bytes = 32 * KIB},
    {.l1_bytes = 64 * KIB,
     .l2_bytes = 2048 * KIB,
     .l3_bytes = 1024 * 1024 * KIB,
     .fma_mflops = 117500,
     .l2_mbs = 200000,
     .l3_mbs = 95000,
     .memory_mbs = 40000},
};
#define MACHINES (sizeof machines / sizeof *machines)

static ffn_spec spec_of(const char *text) {
    ffn_spec spec;
    ffn_diag diag = {.text = ""};
    cr_assert_eq(ffn_spec_parse(text, &spec, &diag), FFN_OK, "%s", diag.text);
    return spec;
}

static void text_of(const ffn_plan *plan, char text[256]) {
    cr_assert_eq(ffn_plan_format(plan, text, 256, NULL), FFN_OK);
}

static bool holds(const ffn_plan *plans, size_t count, const ffn_plan *plan) {
    char wanted[256], text[256];
    text_of(plan, wanted);
    for (size_t i = 0; i < count; i++) {
        text_of(&plans[i], text);
        if (strcmp(text, wanted) == 0)
            return true;
    }
    return false;
}

typedef void (*check)(const ffn_spec *spec, ffn_isa isa, ffn_n_class n_class);

static void everywhere(check each) {
    for (size_t s = 0; s < SPECS; s++) {
        const ffn_spec spec = spec_of(specs[s]);
        for (ffn_isa isa = FFN_ISA_PORTABLE + 1; isa < FFN_ISA_COUNT; isa++)
            for (ffn_n_class c = 0; c < FFN_N_CLASSES; c++)
                each(&spec, isa, c);
    }
}

static void check_grid(const ffn_spec *spec, ffn_isa isa, ffn_n_class n_class) {
    static ffn_plan plans[PLAN_GRID_MAX];
    const size_t count = plan_space_grid(spec, isa, n_class, plans);
    cr_expect(count >= 4 && count <= PLAN_GRID_MAX, "%zu plans", count);
    for (size_t i = 0; i < count; i++) {
        ffn_diag diag = {.text = ""};
        cr_expect_eq(ffn_plan_check(spec, &plans[i], &diag), FFN_OK, "%s", diag.text);
        cr_expect(plans[i].isa == isa && plans[i].n_class == n_class);
        cr_expect_not(holds(plans, i, &plans[i]), "plan %zu is there twice", i);
    }
}

Test(plan_space, every_plan_of_the_grid_is_valid_and_there_once) {
    everywhere(check_grid);
}

Test(plan_space, the_grid_is_not_cut_off) {
    /* A shape that no axis value is too large for: every combination is a plan of its own. */
    const ffn_spec spec = spec_of("d8192-f32768-gelu");
    static ffn_plan plans[PLAN_GRID_MAX];
    for (ffn_isa isa = FFN_ISA_PORTABLE + 1; isa < FFN_ISA_COUNT; isa++)
        for (ffn_n_class c = 0; c < FFN_N_CLASSES; c++) {
            const size_t count = plan_space_grid(&spec, isa, c, plans);
            /* A full grid is a product: its last plan has the last value of every axis, and 1x1 at the end. */
            cr_expect_lt(count, (size_t)PLAN_GRID_MAX, "%s %s: the room ended at %zu plans", ffn_isa_name(isa),
                         ffn_n_class_name(c), count);
        }
}

/* Behind a short chunk there is not the time to fetch a whole one. Panels are not divided. */
static void check_chunks(const ffn_spec *spec, ffn_isa isa, ffn_n_class n_class) {
    static ffn_plan plans[PLAN_GRID_MAX];
    const size_t count = plan_space_grid(spec, isa, n_class, plans);
    for (size_t i = 0; i < count; i++) {
        const int64_t d_model = spec->d_model, chunk = plans[i].chunk,
                      pieces = chunk ? (d_model + chunk - 1) / chunk : 1;
        if (pieces == 1)
            continue;
        cr_expect_gt(d_model - (pieces - 1) * chunk, chunk - FFN_PANEL * pieces, "%lld terms in chunks of %lld",
                     (long long)d_model, (long long)chunk);
        cr_expect_geq(plans[i].k_block, d_model, "blocks of %lld terms on top of chunks", (long long)plans[i].k_block);
    }
}

Test(plan_space, chunks_cut_a_sum_evenly_and_alone) {
    static const char *const shapes[] = {"d896-f4864-swiglu", "d1600-f6400-gelu", "d2048-f5632-swiglu",
                                         "d272-f512-relu"};
    everywhere(check_chunks);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const ffn_spec spec = spec_of(shapes[i]);
        for (ffn_n_class c = 0; c < FFN_N_CLASSES; c++) {
            check_chunks(&spec, FFN_ISA_AVX2, c);
            check_chunks(&spec, FFN_ISA_AVX512, c);
        }
    }
}

/* Measured: docs/plan.md, AVX-512. Into L1, chunk by chunk, or not at all. */
static void check_own_prefetchers(const ffn_spec *spec, ffn_isa isa, ffn_n_class n_class) {
    static ffn_plan plans[PLAN_GRID_MAX];
    const size_t count = plan_space_grid(spec, isa, n_class, plans);
    for (size_t i = 0; i < count && isa == FFN_ISA_AVX512 && n_class != FFN_N_17_UP; i++)
        cr_expect(plans[i].chunk || !plans[i].prefetch, "class %d: %d lines into L2", (int)n_class, plans[i].prefetch);
}

Test(plan_space, of_avx512_prefetches_nothing_into_l2_for_a_few_rows) {
    everywhere(check_own_prefetchers);
}

/* A tile of one panel beside a wider one is code that nothing calls, unless panels are left over. */
static void check_narrow(const ffn_spec *spec, ffn_isa isa, ffn_n_class n_class) {
    static ffn_plan plans[PLAN_GRID_MAX];
    const size_t count = plan_space_grid(spec, isa, n_class, plans);
    for (size_t p = 0; p < count; p++) {
        const ffn_plan *plan = &plans[p];
        const int64_t panels[] = {(spec->d_ff + FFN_PANEL - 1) / FFN_PANEL, (spec->d_model + FFN_PANEL - 1) / FFN_PANEL,
                                  plan->f_block / FFN_PANEL, plan_group(plan), spec->d_model % FFN_PANEL ? 1 : 0};
        for (int32_t i = 0; i + 1 < plan->tile_count; i++) {
            const ffn_tile tile = plan->tiles[i];
            bool left = false;
            for (size_t k = 0; k < sizeof panels / sizeof *panels; k++)
                left = left || panels[k] % tile.panels;
            if (tile.mr > 1 && tile.panels > 1)
                cr_expect_eq(plan_has_tile(plan, tile.mr, 1), left, "%s class %d: %dx%d, blocks of %lld columns",
                             ffn_isa_name(isa), (int)n_class, tile.mr, tile.panels, (long long)plan->f_block);
        }
    }
}

Test(plan_space, tiles_of_one_panel_are_there_where_panels_are_left_over) {
    everywhere(check_narrow);
}

/* The lower tile of an uneven pair waits for its own sums. */
Test(plan_space, rows_that_cost_the_same_are_cut_evenly) {
    static const int32_t rows[][2] = {{14, 7}, {15, 8}, {16, 8}};
    ffn_plan plan = {.isa = FFN_ISA_AVX512, .n_class = FFN_N_5_16};
    for (int32_t mr = 13; mr >= 4; mr--)
        plan.tiles[plan.tile_count++] = (ffn_tile){mr, 2};
    plan.tiles[plan.tile_count++] = (ffn_tile){1, 1};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int32_t first = plan_next_height(&plan, rows[i][0]), second = rows[i][0] - first;
        cr_expect_eq(first > second ? first : second, rows[i][1], "%d rows are %d and the rest", rows[i][0], first);
    }
}

static void check_model(const ffn_spec *spec, ffn_isa isa, ffn_n_class n_class) {
    static ffn_plan plans[PLAN_GRID_MAX];
    const size_t count = plan_space_grid(spec, isa, n_class, plans);
    for (size_t m = 0; m < MACHINES; m++) {
        ffn_plan plan;
        cr_assert_eq(ffn_plan_make(spec, isa, n_class, &machines[m], &plan, NULL), FFN_OK);
        cr_expect(holds(plans, count, &plan), "the untuned plan is one of the grid");
    }
}

Test(plan_space, the_untuned_plan_is_one_of_the_grid) {
    everywhere(check_model);
}

static int64_t changed_fields(const ffn_plan *a, const ffn_plan *b) {
    bool tiles = a->tile_count != b->tile_count || a->vector_bits != b->vector_bits ||
                 memcmp(a->tiles, b->tiles, (size_t)a->tile_count * sizeof *a->tiles) != 0;
    return tiles + (a->m_block != b->m_block) + (a->f_block != b->f_block) + (a->k_block != b->k_block) +
           (a->unroll != b->unroll) + (a->prefetch != b->prefetch) + (a->ahead != b->ahead) +
           (a->row_split != b->row_split) + (a->copy_x != b->copy_x) + (a->hold_y != b->hold_y) +
           (!tiles && (a->chunk != b->chunk || plan_group(a) != plan_group(b))); /* a list brings its own */
}

static void check_neighbours(const ffn_spec *spec, ffn_isa isa, ffn_n_class n_class) {
    ffn_plan plan, next[PLAN_NEIGHBOURS_MAX];
    cr_assert_eq(ffn_plan_make(spec, isa, n_class, &machines[0], &plan, NULL), FFN_OK);
    const size_t count = plan_space_neighbours(spec, &plan, next);
    cr_expect_gt(count, 0);
    cr_expect_not(holds(next, count, &plan), "a plan is no neighbour of its own");
    for (size_t i = 0; i < count; i++) {
        cr_expect_eq(ffn_plan_check(spec, &next[i], NULL), FFN_OK);
        const int64_t changed = changed_fields(&plan, &next[i]);
        /* Fewer terms in a turn may leave room for fewer prefetches. */
        cr_expect(changed == 1 || (changed == 2 && plan.unroll != next[i].unroll), "%lld fields", (long long)changed);
        cr_expect_not(holds(next, i, &next[i]));
    }
}

Test(plan_space, neighbours_are_one_step_away) {
    everywhere(check_neighbours);
}

Test(plan_space, portable_code_has_no_plans) {
    const ffn_spec spec = spec_of("d64-f256-relu");
    ffn_plan plans[PLAN_GRID_MAX];
    cr_expect_eq(plan_space_grid(&spec, FFN_ISA_PORTABLE, FFN_N_1, plans), 0);
    cr_expect_not(plan_space_best(&spec, FFN_ISA_PORTABLE, FFN_N_1, &machines[0], plans));
}

/* Of two different plans exactly one is simpler: a tie always has an answer, and it does not depend on the order. */
Test(plan_space, simpler_is_an_order) {
    static ffn_plan plans[PLAN_GRID_MAX];
    const ffn_spec spec = spec_of("d768-f3072-gelu-bias");
    const size_t count = plan_space_grid(&spec, FFN_ISA_AVX2, FFN_N_5_16, plans);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++)
            cr_expect_eq(plan_space_simpler(&plans[i], &plans[j]) + plan_space_simpler(&plans[j], &plans[i]), i != j);
}

Test(plan_space, row_tiles_of_every_split_cover_the_rows) {
    static ffn_plan plans[PLAN_GRID_MAX];
    const ffn_spec spec = spec_of("d768-f3072-gelu-bias");
    for (ffn_isa isa = FFN_ISA_PORTABLE + 1; isa < FFN_ISA_COUNT; isa++)
        for (ffn_n_class c = 0; c < FFN_N_CLASSES; c++) {
            const size_t count = plan_space_grid(&spec, isa, c, plans);
            for (size_t i = 0; i < count; i++)
                for (int split = 0; split < FFN_ROW_SPLITS; split++)
                    for (int64_t left = 1; left <= 150; left++) {
                        plans[i].row_split = (ffn_row_split)split;
                        const int32_t mr = plan_next_height(&plans[i], left);
                        bool there = false;
                        for (int32_t t = 0; t < plans[i].tile_count; t++)
                            there |= plans[i].tiles[t].mr == mr;
                        cr_assert(there && mr <= left, "%d of %lld rows", mr, (long long)left);
                        if (split == FFN_ROWS_TALLEST)
                            for (int32_t t = 0; t < plans[i].tile_count; t++)
                                cr_assert(plans[i].tiles[t].mr <= mr || plans[i].tiles[t].mr > left);
                    }
        }
}

/* ---- The cost model ---- */

static double cost(const char *text, ffn_n_class c, int64_t n, bool cold, const ffn_machine *machine) {
    const ffn_spec spec = spec_of(text);
    ffn_plan plan;
    cr_assert_eq(ffn_plan_make(&spec, FFN_ISA_AVX2, c, machine, &plan, NULL), FFN_OK);
    return plan_cost_ms(&spec, &plan, machine, n, cold);
}

Test(plan_space, costs_are_finite_and_grow_with_the_rows) {
    for (size_t s = 0; s < SPECS; s++)
        for (size_t m = 0; m < MACHINES; m++) {
            double before = 0;
            for (int64_t n = 66; n <= 66 * 64; n *= 4) { /* whole blocks of rows, of one class */
                const double ms = cost(specs[s], FFN_N_17_UP, n, true, &machines[m]);
                cr_expect(isfinite(ms) && ms > 0, "%s n = %lld: %g", specs[s], (long long)n, ms);
                cr_expect_gt(ms, before, "%s n = %lld: %g after %g", specs[s], (long long)n, ms, before);
                before = ms;
            }
        }
}

/* No faster than what the rates given allow: multiply-adds at the peak, weights at the bandwidth of memory. */
Test(plan_space, costs_keep_to_the_rates_of_the_machine) {
    const ffn_machine *machine = &machines[2];
    const double flops = 2.0 * 128 * 768 * 3072 * 2, bytes = 2.0 * 2048 * 5632 * 1.5 * 4;
    cr_expect_geq(cost("d768-f3072-gelu-bias", FFN_N_17_UP, 128, false, machine), flops / 117.5e9 * 1e3);
    cr_expect_geq(cost("d2048-f5632-swiglu", FFN_N_1, 1, true, machine), bytes / 40e9 * 1e3);
    ffn_machine slow = *machine;
    slow.memory_mbs /= 2;
    cr_expect_gt(cost("d2048-f5632-swiglu", FFN_N_1, 1, true, &slow),
                 1.8 * cost("d2048-f5632-swiglu", FFN_N_1, 1, true, machine));
    slow = *machine;
    slow.fma_mflops /= 2;
    cr_expect_gt(cost("d768-f3072-gelu-bias", FFN_N_17_UP, 128, false, &slow),
                 1.5 * cost("d768-f3072-gelu-bias", FFN_N_17_UP, 128, false, machine));
}

/* AVX2 code on a machine whose peak was measured with 512 bits: the same clock, so half of that peak. */
Test(plan_space, a_peak_of_wider_registers_is_no_faster_clock) {
    ffn_machine wide = machines[2];
    wide.fma_mflops *= 2;
    cr_expect_eq(cost("d768-f3072-gelu-bias", FFN_N_17_UP, 128, false, &wide),
                 cost("d768-f3072-gelu-bias", FFN_N_17_UP, 128, false, &machines[2]));
}

Test(plan_space, warm_weights_never_cost_more_than_cold_ones) {
    for (size_t s = 0; s < SPECS; s++)
        for (int64_t n = 1; n <= 256; n *= 4)
            cr_expect_leq(cost(specs[s], ffn_n_class_of(n), n, false, &machines[2]),
                          cost(specs[s], ffn_n_class_of(n), n, true, &machines[2]), "%s", specs[s]);
}
