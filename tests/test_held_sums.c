/* test_held_sums.c: sums of y that wait aside between blocks of hidden columns: same bits, and nothing else is touched
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support_kernel.h"

#define ROWS 41 /* blocks of 14 and 13 rows: tiles of several heights */
#define MORE 5  /* floats between the rows of y that are not the kernel's */

typedef struct layer {
    ffn_spec spec;
    support_weights *weights;
    void *packed;
    float *x, *want, *y, *hidden;
    int64_t ldy;
} layer;

static layer make(const char *text) {
    layer l = {.spec = support_spec(text)};
    const int64_t d = l.spec.d_model;
    l.weights = support_random_weights(&l.spec, SUPPORT_CANCELLING, 5);
    l.packed = support_packed(&l.spec, &l.weights->weights);
    l.ldy = d + MORE;
    l.x = support_aligned((size_t)(ROWS * d) * sizeof(float));
    l.want = support_aligned((size_t)(ROWS * d) * sizeof(float));
    l.y = support_aligned((size_t)(ROWS * l.ldy) * sizeof(float));
    l.hidden = support_aligned((size_t)(ROWS * image_hidden_stride(&l.spec)) * sizeof(float));
    support_fill_x(l.x, ROWS, d, d, SUPPORT_CANCELLING, 6);
    support_portable_run(&l.spec, l.x, d, l.want, d, ROWS, l.packed);
    return l;
}

static void drop(layer *l) {
    support_weights_free(l->weights);
    free(l->packed);
    free(l->x);
    free(l->want);
    free(l->y);
    free(l->hidden);
}

/* Columns begin .. end - 1 of the first n rows are right, all else is NaN as before. */
static void expect_columns(const layer *l, int64_t n, int64_t begin, int64_t end, const char *what) {
    const int64_t d = l->spec.d_model;
    for (int64_t r = 0; r < ROWS; r++) {
        const float *got = l->y + r * l->ldy, *want = l->want + r * d;
        for (int64_t j = 0; j < l->ldy; j++) {
            const bool mine = r < n && j >= begin && j < end;
            cr_assert(mine ? memcmp(&got[j], &want[j], sizeof *got) == 0 : isnan(got[j]),
                      "%s, d_model %lld, n = %lld, columns %lld .. %lld: row %lld column %lld %s", what, (long long)d,
                      (long long)n, (long long)begin, (long long)end, (long long)r, (long long)j,
                      mine ? "has other bits" : "is written");
        }
    }
}

/* All at once, and by the two phases: h, then y in ranges of columns, narrow ones too. */
static void check_plan(layer *l, const ffn_plan *plan) {
    const int64_t d = l->spec.d_model, ends[] = {2 * FFN_PANEL, 5 * FFN_PANEL, d};
    const int64_t n = plan->n_class == FFN_N_17_UP ? ROWS : FFN_STAGE_ROWS_MAX;
    char what[256] = "";
    ffn_plan_format(plan, what, sizeof what, NULL);
    support_kernel k;
    support_kernel_build(&l->spec, plan, &k);
    cr_assert(plan_holds_y(&l->spec, plan), "%s: holds nothing", what);
    support_fill_nan(l->y, ROWS * l->ldy);
    support_kernel_run(&k, l->x, d, l->y, l->ldy, n, l->packed);
    expect_columns(l, n, 0, d, what);
    void *scratch = support_guarded((size_t)k.scratch_bytes, true);
    k.code.expand(l->x, d, l->packed, l->hidden, scratch, n, 0, l->spec.d_ff);
    int64_t begin = 0;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; begin = ends[i++]) {
        support_fill_nan(l->y, ROWS * l->ldy);
        k.code.contract(l->hidden, l->packed, l->y, l->ldy, scratch, n, begin, ends[i]);
        expect_columns(l, n, begin, ends[i], what);
    }
    support_guarded_free(scratch, (size_t)k.scratch_bytes);
    support_kernel_free(&k);
}

static void check_isa(ffn_isa isa) {
    /* Panels of y: more than a tile has rows, as many, and a last one that is not whole. */
    static const char *const specs[] = {"d192-f200-swiglu", "d96-f200-relu-bias", "d203-f150-gelu-bias"};
    static const struct { int32_t group, chunk, wide; } ways[] = {{0, 0, 0}, {3, 0, 0}, {2, 32, 0}, {0, 0, 1}};
    const size_t count = isa == ffn_isa_best() ? sizeof specs / sizeof *specs : 1;
    for (size_t s = 0; s < count; s++) {
        layer l = make(specs[s]);
        for (ffn_n_class c = FFN_N_5_16; c <= FFN_N_17_UP; c++)
            for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
                ffn_plan plan = support_kernel_plan(&l.spec, isa, c);
                static const ffn_tile wide[] = {{3, 2}, {3, 1}, {1, 1}};
                plan.m_block = 14;
                plan.f_block = 64;
                plan.group = ways[i].group;
                plan.chunk = ways[i].chunk;
                plan.hold_y = 1;
                if (ways[i].wide) {
                    plan.tile_count = sizeof wide / sizeof *wide;
                    memcpy(plan.tiles, wide, sizeof wide);
                }
                check_plan(&l, &plan);
            }
        drop(&l);
    }
    printf("%s%s\n", ffn_isa_name(isa), support_isa_note(isa));
}

Test(held_sums, same_bits_and_nothing_else_is_written, .timeout = 300) {
    for (ffn_isa isa = FFN_ISA_PORTABLE + 1; isa < FFN_ISA_COUNT; isa++) {
        if (support_isa_runs(isa))
            check_isa(isa);
        else
            printf("%s: skipped, no code for it runs here\n", ffn_isa_name(isa));
    }
}
