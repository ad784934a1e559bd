/* test_bits.c: one spec, one row of x, one answer: the bits do not depend on n, position, plan, ISA or stage ranges */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formula.h"
#include "support_kernel.h"
#include "support_oracle.h"

#define ROWS 41

/* Chains 1, 2 and 4 in either stage, ragged and whole panels, gated and not, activations in and out of the tile. */
static const char *const specs[] = {"d96-f160-relu-bias",  "d100-f300-gelu-bias", "d64-f256-silu",
                                    "d30-f70-swiglu-bias", "d17-f33-gelu_tanh",   "d200-f24-geglu",
                                    "d50-f64-tanh-bias"};
#define SPECS (sizeof specs / sizeof *specs)

typedef struct fixture {
    ffn_spec spec;
    support_weights *weights;
    void *packed;
    float *x, *want; /* dense; want: the portable kernel's rows */
} fixture;

static fixture set_up(const char *text, support_kind kind) {
    fixture f = {.spec = support_spec(text)};
    f.weights = support_random_weights(&f.spec, kind, 7);
    f.packed = support_packed(&f.spec, &f.weights->weights);
    size_t bytes = (size_t)(ROWS * f.spec.d_model) * sizeof(float);
    f.x = support_aligned(bytes);
    f.want = support_aligned(bytes);
    support_fill_x(f.x, ROWS, f.spec.d_model, f.spec.d_model, kind, 8);
    support_portable_run(&f.spec, f.x, f.spec.d_model, f.want, f.spec.d_model, ROWS, f.packed);
    return f;
}

static void tear_down(fixture *f) {
    support_weights_free(f->weights);
    free(f->packed);
    free(f->x);
    free(f->want);
}

/* Runs rows first .. first + n - 1 as a call of its own and compares them with the portable kernel's. */
static void expect_rows(const fixture *f, const support_kernel *k, int64_t first, int64_t n, const char *what) {
    int64_t d = f->spec.d_model;
    float *y = support_aligned((size_t)(n * d) * sizeof(float));
    support_fill_nan(y, n * d);
    support_kernel_run(k, f->x + first * d, d, y, d, n, f->packed);
    int64_t unequal = oracle_first_unequal(&f->spec, y, d, f->want + first * d, d, n);
    cr_expect_eq(unequal, -1, "d%lld-f%lld-%s %s %s, rows %lld+%lld: first other bits at row %lld column %lld",
                 (long long)d, (long long)f->spec.d_ff, f->spec.activation, ffn_isa_name(k->plan.isa), what,
                 (long long)first, (long long)n, (long long)(unequal / d), (long long)(unequal % d));
    free(y);
}

static void check_plan(const fixture *f, const ffn_plan *plan) {
    support_kernel k;
    char what[256];
    ffn_diag diag = {.text = ""};
    cr_assert_eq(ffn_plan_check(&f->spec, plan, &diag), FFN_OK, "%s", diag.text);
    cr_assert_eq(ffn_plan_format(plan, what, sizeof what, NULL), FFN_OK);
    support_kernel_build(&f->spec, plan, &k);
    expect_rows(f, &k, 0, ROWS, what);
    expect_rows(f, &k, 3, 1, what);
    expect_rows(f, &k, 5, 6, what);
    expect_rows(f, &k, 1, 17, what);
    support_kernel_free(&k);
}

Test(bits, every_class_of_every_isa_equals_the_portable_kernel, .timeout = 300) {
    for (size_t i = 0; i < SPECS; i++) {
        fixture f = set_up(specs[i], SUPPORT_NORMAL);
        for (ffn_isa isa = FFN_ISA_PORTABLE + 1; isa < FFN_ISA_COUNT; isa++)
            for (ffn_n_class c = 0; c < FFN_N_CLASSES && support_isa_runs(isa); c++) {
                ffn_plan plan = support_kernel_plan(&f.spec, isa, c);
                check_plan(&f, &plan);
            }
        tear_down(&f);
    }
}

/* Blocks, unrolling, prefetch and tiles that the planner would not choose here. */
Test(bits, no_plan_changes_a_bit, .timeout = 300) {
    static const struct {
        int64_t m_block, f_block, k_block;
        int32_t unroll, prefetch;
    } blocks[] = {
        {1, 16, 16, 1, 0}, {7, 32, 48, 2, 1}, {6, 48, 1 << 20, 3, 3}, {40, 64, 32, 8, 2}, {96, 1024, 64, 4, 4}};
    for (size_t i = 0; i < SPECS; i++) {
        fixture f = set_up(specs[i], SUPPORT_CANCELLING);
        for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++) {
            ffn_isa isa = ffn_isa_best() == FFN_ISA_PORTABLE ? FFN_ISA_AVX2 : ffn_isa_best();
            if (!support_isa_runs(isa))
                continue;
            ffn_plan plan = support_kernel_plan(&f.spec, isa, (ffn_n_class)(b % FFN_N_CLASSES));
            plan.m_block = blocks[b].m_block;
            plan.f_block = blocks[b].f_block;
            plan.k_block = blocks[b].k_block < f.spec.d_model ? blocks[b].k_block : f.spec.d_model;
            plan.unroll = blocks[b].unroll;
            plan.prefetch = blocks[b].prefetch;
            if (b == 1) { /* the smallest list of tiles there is */
                plan.tile_count = 1;
                plan.tiles[0] = (ffn_tile){1, 1};
            }
            check_plan(&f, &plan);
        }
        tear_down(&f);
    }
}

Test(bits, stages_over_any_column_ranges_equal_the_fused_nest, .timeout = 300) {
    for (size_t i = 0; i < SPECS; i++) {
        fixture f = set_up(specs[i], SUPPORT_NORMAL);
        const int64_t d = f.spec.d_model, n = FFN_STAGE_ROWS_MAX, stride = image_hidden_stride(&f.spec);
        float *hidden = support_aligned((size_t)(n * stride) * sizeof(float));
        float *y = support_aligned((size_t)(n * d) * sizeof(float));
        for (ffn_n_class c = 0; c < FFN_N_CLASSES && support_isa_runs(ffn_isa_best()); c++) {
            ffn_plan plan = support_kernel_plan(&f.spec, ffn_isa_best(), c);
            support_kernel k;
            support_kernel_build(&f.spec, &plan, &k);
            void *scratch = support_aligned((size_t)k.scratch_bytes);
            for (int64_t step = FFN_PANEL; step <= 5 * FFN_PANEL; step += 2 * FFN_PANEL) {
                support_fill_nan(hidden, n * stride);
                support_fill_nan(y, n * d);
                memset(scratch, 0xff, (size_t)k.scratch_bytes);
                for (int64_t col = 0; col < f.spec.d_ff; col += step)
                    k.code.expand(f.x, d, f.packed, hidden, scratch, n, col,
                                  col + step < f.spec.d_ff ? col + step : f.spec.d_ff);
                for (int64_t col = 0; col < d; col += step)
                    k.code.contract(hidden, f.packed, y, d, scratch, n, col, col + step < d ? col + step : d);
                int64_t unequal = oracle_first_unequal(&f.spec, y, d, f.want, d, n);
                cr_expect_eq(unequal, -1, "%s class %s ranges of %lld: first other bits at %lld", specs[i],
                             ffn_n_class_name(c), (long long)step, (long long)unequal);
            }
            free(scratch);
            support_kernel_free(&k);
        }
        free(hidden);
        free(y);
        tear_down(&f);
    }
}

/* x, y, weights and scratch end, then begin, at an unmapped page; strides are wider than rows, and what lies between is
 * neither read (it is NaN) nor written. */
static void check_guarded(const char *text, ffn_n_class n_class, bool at_end) {
    fixture f = set_up(text, SUPPORT_NORMAL);
    const int64_t d = f.spec.d_model, ld = d + 3;
    ffn_isa isa = ffn_isa_best();
    ffn_plan plan = support_kernel_plan(&f.spec, isa, n_class);
    support_kernel k;
    support_kernel_build(&f.spec, &plan, &k);
    size_t packed_bytes;
    cr_assert_eq(ffn_packed_bytes(&f.spec, &packed_bytes, NULL), FFN_OK);
    void *packed = support_guarded(packed_bytes, at_end);
    void *scratch = support_guarded((size_t)k.scratch_bytes, at_end);
    memcpy(packed, f.packed, packed_bytes);
    for (int64_t n = 1; n <= 20; n++) {
        size_t bytes = (size_t)((n - 1) * ld + d) * sizeof(float); /* the last row has no padding */
        float *x = support_guarded(bytes, at_end), *y = support_guarded(bytes, at_end);
        for (int64_t r = 0; r < n; r++)
            memcpy(x + r * ld, f.x + r * d, (size_t)d * sizeof(float));
        k.code.fused(x, ld, y, ld, packed, scratch, 0, n);
        cr_expect_eq(oracle_first_unequal(&f.spec, y, ld, f.want, d, n), -1, "%s n = %lld", text, (long long)n);
        for (int64_t r = 0; r + 1 < n; r++)
            for (int64_t c = d; c < ld; c++) {
                uint32_t bits;
                memcpy(&bits, &y[r * ld + c], sizeof bits);
                cr_expect_eq(bits, UINT32_MAX, "%s n = %lld: padding of row %lld was written", text, (long long)n,
                             (long long)r);
            }
        support_guarded_free(x, bytes);
        support_guarded_free(y, bytes);
    }
    support_guarded_free(packed, packed_bytes);
    support_guarded_free(scratch, (size_t)k.scratch_bytes);
    support_kernel_free(&k);
    tear_down(&f);
}

Test(bits, no_byte_outside_the_buffers_is_touched, .timeout = 300) {
    if (ffn_isa_best() == FFN_ISA_PORTABLE)
        cr_skip("no generated code runs on this CPU");
    for (size_t i = 0; i < SPECS; i++)
        for (ffn_n_class c = 0; c < FFN_N_CLASSES; c++)
            check_guarded(specs[i], c, (i + c) % 2);
    for (ffn_n_class c = 0; c < FFN_N_CLASSES; c++) {
        check_guarded("d1-f1-relu", c, true);
        check_guarded("d15-f17-swiglu-bias", c, true);
    }
}

/* Every lane and every tail of the activation entry against the evaluator, special values included. */
Test(bits, the_activation_is_the_same_in_every_lane_and_tail, .timeout = 300) {
    static const char *const names[] = {"relu", "gelu", "gelu_tanh", "silu", "mish", "tanh", "swiglu", "geglu_tanh"};
    const float special[] = {0.0f,          -0.0f,    1.0f,    -1.0f,  INFINITY, -INFINITY, NAN,
                             3.4028235e38f, -3.4e38f, 1e30f,   -1e30f, 1e-40f,   -1e-40f,   1e-45f,
                             -13.1f,        -88.5f,   -103.9f, 9.5f,   -9.5f,    0.0625f};
    enum { SPECIAL = sizeof special / sizeof *special, MOST = 3 * SPECIAL };
    formula_graph *graph = malloc(sizeof *graph);
    cr_assert_not_null(graph);
    for (size_t a = 0; a < sizeof names / sizeof *names; a++) {
        char text[64];
        snprintf(text, sizeof text, "d16-f16-%s", names[a]);
        ffn_spec spec = support_spec(text);
        cr_assert_eq(formula_build(spec.activation, spec.accuracy, graph, NULL), FFN_OK);
        for (ffn_isa isa = FFN_ISA_PORTABLE + 1; isa < FFN_ISA_COUNT; isa++) {
            if (!support_isa_runs(isa))
                continue;
            ffn_plan plan = support_kernel_plan(&spec, isa, FFN_N_1);
            support_kernel k;
            support_kernel_build(&spec, &plan, &k);
            for (int64_t count = 0; count < 40; count++)
                for (int64_t shift = 0; shift < SPECIAL; shift++) {
                    float g[MOST], u[MOST], want[MOST], got[MOST];
                    for (int64_t i = 0; i < MOST; i++) {
                        g[i] = special[(i + shift) % SPECIAL];
                        u[i] = special[(3 * i + shift / 2) % SPECIAL];
                    }
                    support_fill_nan(got, MOST);
                    formula_eval(graph, count, g, u, want);
                    k.code.activate(count, g, u, got);
                    for (int64_t i = 0; i < count; i++) {
                        bool same = isnan(want[i]) ? isnan(got[i]) : !memcmp(&want[i], &got[i], sizeof(float));
                        cr_assert(same, "%s %s: element %lld of %lld: g = %a, u = %a: %a, not %a", names[a],
                                  ffn_isa_name(isa), (long long)i, (long long)count, (double)g[i], (double)u[i],
                                  (double)got[i], (double)want[i]);
                    }
                    cr_assert(isnan(got[count]), "%s: element %lld was written", names[a], (long long)count);
                }
            support_kernel_free(&k);
        }
    }
    free(graph);
}

Test(bits, infinities_and_nan_in_x_stay_in_their_row, .timeout = 300) {
    if (ffn_isa_best() == FFN_ISA_PORTABLE)
        cr_skip("no generated code runs on this CPU");
    fixture f = set_up("d64-f96-gelu-bias", SUPPORT_NORMAL);
    const int64_t d = f.spec.d_model;
    f.x[2 * d + 5] = NAN;
    f.x[4 * d + 63] = INFINITY;
    f.x[9 * d] = -3.4e38f;
    support_portable_run(&f.spec, f.x, d, f.want, d, ROWS, f.packed);
    ffn_plan plan = support_kernel_plan(&f.spec, ffn_isa_best(), FFN_N_17_UP);
    check_plan(&f, &plan);
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t c = 0; c < d && r != 2 && r != 4 && r != 9; c++)
            cr_expect(isfinite(f.want[r * d + c]), "row %lld", (long long)r);
    cr_expect(isnan(f.want[2 * d]));
    tear_down(&f);
}

/* Every product underflows to -0 and the bias is -0: without the last addition of +0, y would be -0, in one chain or
 * many. */
Test(bits, minus_zero_never_leaves_the_sublayer, .timeout = 300) {
    static const char *const texts[] = {"d16-f16-identity-bias", "d48-f16-identity-bias", "d96-f16-identity-bias"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts && support_isa_runs(ffn_isa_best()); i++) {
        fixture f = set_up(texts[i], SUPPORT_NORMAL);
        const int64_t d = f.spec.d_model, d_ff = f.spec.d_ff;
        for (int64_t j = 0; j < d * d_ff; j++) {
            f.weights->up[j] = j < d_ff ? 1e-30f : 0.0f;
            f.weights->down[j] = -1e-30f;
        }
        memset(f.weights->bias_up, 0, (size_t)d_ff * sizeof(float));
        for (int64_t j = 0; j < d; j++)
            f.weights->bias_down[j] = -0.0f;
        for (int64_t j = 0; j < ROWS * d; j++)
            f.x[j] = j % d == 0 ? 1.0f : 0.0f;
        free(f.packed);
        f.packed = support_packed(&f.spec, &f.weights->weights);
        memset(f.want, 0, (size_t)(ROWS * d) * sizeof(float));
        ffn_plan plan = support_kernel_plan(&f.spec, ffn_isa_best(), FFN_N_17_UP);
        check_plan(&f, &plan);
        tear_down(&f);
    }
}
