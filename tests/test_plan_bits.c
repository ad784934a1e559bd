/* test_plan_bits.c: every plan of the space gives the bits of the portable kernel: tuning cannot change a result */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan_space.h"
#include "support_kernel.h"
#include "support_oracle.h"

#define ROWS 140 /* more than the largest block of rows of the grid, and no multiple of a tile */

/* Large enough that every block size of the grid is another one, small enough to run each; terms, columns and panels
 * are left over. */
static const char text[] = "d536-f1064-swiglu-bias";
/* Nothing is left over: then there is a tile for nearly every number of rows. */
static const char even_text[] = "d576-f1088-gelu-bias";

typedef struct fixture {
    ffn_spec spec;
    support_weights *weights;
    void *packed;
    float *x, *want, *y;
    bool each_row; /* of the class of 5 to 16 */
} fixture;

static fixture set_up(const char *of) {
    fixture f = {.spec = support_spec(of)};
    const size_t bytes = (size_t)(ROWS * f.spec.d_model) * sizeof(float);
    f.weights = support_random_weights(&f.spec, SUPPORT_CANCELLING, 3);
    f.packed = support_packed(&f.spec, &f.weights->weights);
    f.x = support_aligned(bytes);
    f.want = support_aligned(bytes);
    f.y = support_aligned(bytes);
    support_fill_x(f.x, ROWS, f.spec.d_model, f.spec.d_model, SUPPORT_CANCELLING, 4);
    support_portable_run(&f.spec, f.x, f.spec.d_model, f.want, f.spec.d_model, ROWS, f.packed);
    return f;
}

static void tear_down(fixture *f) {
    support_weights_free(f->weights);
    free(f->packed);
    free(f->x);
    free(f->want);
    free(f->y);
}

static void expect_bits(fixture *f, const ffn_plan *plan) {
    /* Rows of a call: of the class itself, and one of another class. */
    enum { ROWS_MOST = 12 };
    static const int64_t rows[FFN_N_CLASSES][ROWS_MOST] = {{1, 2}, {4, 3, 2}, {16, 11, 5}, {ROWS, 17, 1}},
                         each[ROWS_MOST] = {16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5};
    const int64_t *of = f->each_row ? each : rows[plan->n_class];
    const int64_t d = f->spec.d_model;
    support_kernel k;
    char what[256] = "";
    ffn_plan_format(plan, what, sizeof what, NULL);
    support_kernel_build(&f->spec, plan, &k);
    for (int i = 0; i < ROWS_MOST && of[i] > 0; i++) {
        const int64_t n = of[i];
        support_fill_nan(f->y, n * d);
        support_kernel_run(&k, f->x, d, f->y, d, n, f->packed);
        const int64_t unequal = oracle_first_unequal(&f->spec, f->y, d, f->want, d, n);
        cr_expect_eq(unequal, -1, "%s, n = %lld: first other bits at row %lld column %lld", what, (long long)n,
                     (long long)(unequal / d), (long long)(unequal % d));
    }
    support_kernel_free(&k);
}

static void check_class(const char *of, ffn_n_class c, bool each_row) {
    static ffn_plan plans[PLAN_GRID_MAX + PLAN_NEIGHBOURS_MAX];
    const ffn_isa isa = ffn_isa_best();
    if (isa == FFN_ISA_PORTABLE) {
        printf("skipped: no code is generated for this CPU\n");
        return;
    }
    fixture f = set_up(of);
    f.each_row = each_row;
    size_t count = plan_space_grid(&f.spec, isa, c, plans);
    const ffn_plan untuned = support_kernel_plan(&f.spec, isa, c);
    count += plan_space_neighbours(&f.spec, &untuned, plans + count);
    for (size_t i = 0; i < count; i++)
        expect_bits(&f, &plans[i]);
    printf("%s %s %s: %zu plans\n", of, ffn_isa_name(isa), ffn_n_class_name(c), count);
    tear_down(&f);
}

/* One test a class, so that they run side by side. */
Test(plan_bits, every_plan_for_1_row, .timeout = 600) {
    check_class(text, FFN_N_1, false);
}

Test(plan_bits, every_plan_for_2_to_4_rows, .timeout = 600) {
    check_class(text, FFN_N_2_4, false);
}

Test(plan_bits, every_plan_for_5_to_16_rows, .timeout = 600) {
    check_class(text, FFN_N_5_16, false);
}

Test(plan_bits, every_plan_for_each_of_5_to_16_rows, .timeout = 600) {
    check_class(even_text, FFN_N_5_16, true);
}

Test(plan_bits, every_plan_for_17_rows_and_more, .timeout = 600) {
    check_class(text, FFN_N_17_UP, false);
}

/* No tile of a single panel beside those of two, and an odd number of panels in both stages. */
Test(plan_bits, panels_left_over_go_row_by_row, .timeout = 120) {
    static const ffn_tile tiles[] = {{4, 2}, {2, 2}, {1, 1}};
    const ffn_isa isa = ffn_isa_best();
    if (isa == FFN_ISA_PORTABLE) {
        printf("skipped: no code is generated for this CPU\n");
        return;
    }
    fixture f = set_up(text);
    for (ffn_n_class c = FFN_N_2_4; c < FFN_N_CLASSES; c++)
        for (int v = 0; v < 4; v++) {
            ffn_plan plan = support_kernel_plan(&f.spec, isa, c);
            const int32_t first = isa == FFN_ISA_AVX2; /* 16 registers have no room for 4x2 */
            plan.tile_count = 3 - first;
            for (int32_t i = 0; i < plan.tile_count; i++)
                plan.tiles[i] = tiles[first + i];
            plan.f_block = 23 * FFN_PANEL;
            plan.group = v % 2 ? 4 : 0;
            plan.chunk = v % 2 ? 64 : 0;
            plan.hold_y = v / 2;
            plan.copy_x = c < FFN_N_5_16 ? 0 : v;
            if (plan.copy_x > PLAN_COPY_X_INTERLEAVED)
                plan.copy_x = PLAN_COPY_X_INTERLEAVED;
            expect_bits(&f, &plan);
        }
    tear_down(&f);
}

Test(plan_bits, rows_are_interleaved_where_there_are_5_and_no_chains) {
    static const struct {
        const char *spec;
        ffn_n_class n_class;
        ffn_status status;
    } table[] = {{"d768-f3072-relu", FFN_N_5_16, FFN_OK},
                 {"d768-f3072-relu", FFN_N_17_UP, FFN_OK},
                 {"d768-f3072-relu", FFN_N_2_4, FFN_BAD_ARGUMENT},
                 {"d64-f3072-relu", FFN_N_5_16, FFN_BAD_ARGUMENT},
                 {"d768-f64-relu", FFN_N_5_16, FFN_BAD_ARGUMENT}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        ffn_spec spec = support_spec(table[i].spec);
        ffn_machine machine;
        ffn_plan plan;
        ffn_diag diag = {0};
        cr_assert_eq(ffn_machine_generic(FFN_ISA_AVX2, &machine, NULL), FFN_OK);
        cr_assert_eq(ffn_plan_make(&spec, FFN_ISA_AVX2, table[i].n_class, &machine, &plan, NULL), FFN_OK);
        plan.copy_x = PLAN_COPY_X_INTERLEAVED;
        cr_expect_eq(ffn_plan_check(&spec, &plan, &diag), table[i].status, "row %zu: %s", i, diag.text);
        cr_expect(table[i].status == FFN_OK || strstr(diag.text, "copy_x"), "%s", diag.text);
    }
}

/* Every list of tiles of the other ISAs, by its first plan. */
Test(plan_bits, every_list_of_tiles_of_other_isas, .timeout = 600) {
    static ffn_plan plans[PLAN_GRID_MAX];
    fixture f = set_up(text);
    for (ffn_isa isa = FFN_ISA_PORTABLE + 1; isa < FFN_ISA_COUNT; isa++) {
        if (isa == ffn_isa_best() || !support_isa_runs(isa)) {
            printf("%s: %s\n", ffn_isa_name(isa), isa == ffn_isa_best() ? "see the other tests" : "skipped: no code");
            continue;
        }
        for (ffn_n_class c = 0; c < FFN_N_CLASSES; c++) {
            const size_t count = plan_space_grid(&f.spec, isa, c, plans);
            for (size_t i = 0; i < count; i++) {
                const ffn_plan *before = &plans[i ? i - 1 : 0], *plan = &plans[i];
                bool same = i > 0 && plan->vector_bits == before->vector_bits && plan->tile_count == before->tile_count;
                for (int32_t t = 0; t < plan->tile_count && same; t++)
                    same = plan->tiles[t].mr == before->tiles[t].mr && plan->tiles[t].panels == before->tiles[t].panels;
                if (!same)
                    expect_bits(&f, plan);
                if (same || c < FFN_N_5_16)
                    continue;
                ffn_plan interleaved = *plan;
                interleaved.copy_x = PLAN_COPY_X_INTERLEAVED;
                expect_bits(&f, &interleaved);
            }
        }
        printf("%s%s\n", ffn_isa_name(isa), support_isa_note(isa));
    }
    tear_down(&f);
}
