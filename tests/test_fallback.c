/* test_fallback.c: the portable kernel, with the FMA unit and with softfma, against the oracle, the contract's replica,
 * and itself over rows, ranges and stages; every buffer ends at an unmapped page and starts full of NaN */
#include "fallback_tile.h"
#include "image.h"
#include "support_oracle.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The two builds. On a CPU without an FMA unit they are the same one. */
enum { BUILDS = 2 };
static const char *const build_names[BUILDS] = {"best", "soft"};
static fallback_tile build_tile(int build) {
    return build == 0 ? fallback_tile_best() : fallback_tile_soft;
}

/* A spec with everything a run needs, and x. Strides are d_model + gap. */
typedef struct fixture {
    ffn_spec spec;
    packed_layout layout;
    formula_graph *graph;
    support_weights *weights;
    size_t packed_bytes, x_bytes, y_bytes, scratch_bytes, hidden_bytes;
    void *packed, *scratch;
    float *x, *y, *hidden;
    int64_t n, ld;
    bool at_end;
} fixture;

/* `rows` of x and y in a buffer that holds nothing after the last row's last element. */
static size_t rows_bytes(int64_t n, int64_t ld, int64_t width) {
    return n == 0 ? 0 : (size_t)((n - 1) * ld + width) * sizeof(float);
}

static fixture set_up(const char *text, int64_t n, int64_t gap, support_kind kind, bool at_end, uint64_t seed) {
    fixture f = {.spec = support_spec(text), .n = n, .at_end = at_end};
    f.ld = f.spec.d_model + gap;
    f.graph = support_aligned(sizeof *f.graph);
    cr_assert_eq(packed_layout_of(&f.spec, &f.layout, NULL), FFN_OK);
    cr_assert_eq(formula_build(f.spec.activation, f.spec.accuracy, f.graph, NULL), FFN_OK);
    f.weights = support_random_weights(&f.spec, kind, seed);
    f.packed_bytes = (size_t)f.layout.total_bytes;
    f.packed = support_guarded(f.packed_bytes, at_end);
    cr_assert_eq(ffn_pack(&f.spec, &f.weights->weights, f.packed, f.packed_bytes, NULL), FFN_OK);
    f.x_bytes = f.y_bytes = rows_bytes(n, f.ld, f.spec.d_model);
    f.x = support_guarded(f.x_bytes, at_end);
    f.y = support_guarded(f.y_bytes, at_end);
    support_fill_x(f.x, n, f.spec.d_model, f.ld, kind, seed + 1);
    f.scratch_bytes = fallback_scratch_bytes(&f.spec);
    f.scratch = support_guarded(f.scratch_bytes, at_end);
    f.hidden_bytes = (size_t)(n * image_hidden_stride(&f.spec)) * sizeof(float);
    f.hidden = support_guarded(f.hidden_bytes, at_end);
    return f;
}

static void tear_down(fixture *f) {
    support_guarded_free(f->packed, f->packed_bytes);
    support_guarded_free(f->x, f->x_bytes);
    support_guarded_free(f->y, f->y_bytes);
    support_guarded_free(f->scratch, f->scratch_bytes);
    support_guarded_free(f->hidden, f->hidden_bytes);
    support_weights_free(f->weights);
    free(f->graph);
}

static void run(const fixture *f, int build, const float *x, float *y, int64_t begin, int64_t end) {
    memset(f->scratch, 0xff, f->scratch_bytes);
    fallback_run_by(build_tile(build), &f->spec, &f->layout, f->graph, x, f->ld, y, f->ld, f->packed, f->scratch, begin,
                    end);
}

/* The gaps between rows of y still hold what they held. */
static void expect_gaps(const fixture *f) {
    for (int64_t r = 0; r + 1 < f->n; r++)
        for (int64_t j = f->spec.d_model; j < f->ld; j++) {
            uint32_t bits;
            memcpy(&bits, f->y + r * f->ld + j, sizeof bits);
            cr_assert_eq(bits, UINT32_MAX, "row %lld, element %lld behind d_model was written", (long long)r,
                         (long long)j);
        }
}

static void expect_contract(const char *text, int64_t n, int64_t gap, support_kind kind, uint64_t seed) {
    for (int build = 0; build < BUILDS; build++) {
        fixture f = set_up(text, n, gap, kind, (seed + (uint64_t)build) % 4 != 0, seed);
        float *want = support_aligned((size_t)(n * f.spec.d_model) * sizeof *want);
        oracle_contract(&f.spec, &f.weights->weights, f.x, f.ld, n, want);
        run(&f, build, f.x, f.y, 0, n);
        const int64_t bad = oracle_first_unequal(&f.spec, f.y, f.ld, want, f.spec.d_model, n);
        cr_assert_eq(bad, -1, "%s n=%lld %s: row %lld column %lld is %a, not %a", text, (long long)n,
                     build_names[build], (long long)(bad / f.spec.d_model), (long long)(bad % f.spec.d_model),
                     (double)f.y[bad / f.spec.d_model * f.ld + bad % f.spec.d_model], (double)want[bad]);
        expect_gaps(&f);
        free(want);
        tear_down(&f);
    }
}

static const char *const fields[] = {"relu-bias", "gelu", "swiglu-bias", "silu-bias_up", "geglu_tanh-bias_down",
                                     "tanh-bias"};
enum { FIELDS = sizeof fields / sizeof *fields };

static const char *text_of(char *text, size_t bytes, int64_t d_model, int64_t d_ff, const char *rest) {
    snprintf(text, bytes, "d%lld-f%lld-%s", (long long)d_model, (long long)d_ff, rest);
    return text;
}

/* ---- Bit for bit ---- */

Test(fallback, keeps_the_contract_to_the_bit_on_small_shapes) {
    support_rng rng = {11};
    char text[64];
    for (int i = 0; i < 250; i++) {
        const int64_t d_model = support_between(&rng, 1, 40), d_ff = support_between(&rng, 1, 40);
        expect_contract(text_of(text, sizeof text, d_model, d_ff, fields[i % FIELDS]), support_between(&rng, 1, 14),
                        i % 3, i % 5 == 0 ? SUPPORT_CANCELLING : SUPPORT_NORMAL, support_next(&rng));
    }
}

/* Around every panel edge and every change of the number of chains. */
Test(fallback, keeps_the_contract_to_the_bit_around_panel_edges) {
    const int64_t edges[] = {1, 2, 3, 15, 16, 17, 31, 32, 33, 63, 64, 65, 79, 81};
    enum { EDGES = sizeof edges / sizeof *edges };
    char text[64];
    for (int i = 0; i < EDGES; i++)
        for (int j = 0; j < EDGES; j++)
            expect_contract(text_of(text, sizeof text, edges[i], edges[j], fields[(i + j) % FIELDS]), 1 + (i + j) % 7,
                            1, SUPPORT_NORMAL, (uint64_t)(i * EDGES + j));
}

/* Partial sums of one, two and four chains wait between blocks of hidden columns; rows come in several blocks. */
Test(fallback, keeps_the_contract_to_the_bit_over_blocks) {
    const struct {
        const char *spec;
        int64_t n;
    } cases[] = {{"d7-f1031-relu-bias", 98},      {"d33-f1537-silu-bias", 5}, {"d65-f1025-relu", 3},
                 {"d20-f523-swiglu-bias", 97},    {"d50-f769-geglu-bias", 3}, {"d70-f257-reglu-bias", 193},
                 {"d517-f31-gelu-bias", 7},       {"d300-f64-relu-bias", 12}, {"d128-f512-gelu-bias", 13},
                 {"d257-f513-relu-bias_down", 4}, {"d1-f513-identity", 100}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_contract(cases[i].spec, cases[i].n, (int64_t)i % 2 * 3, SUPPORT_NORMAL, 50 + i);
}

Test(fallback, each_number_of_rows_keeps_the_contract) {
    for (int64_t n = 1; n <= 40; n++)
        expect_contract("d18-f35-relu-bias", n, n % 2, SUPPORT_NORMAL, (uint64_t)n);
}

/* ---- Against the oracle ---- */

static void expect_oracle(const char *text, int64_t n, support_kind kind, uint64_t seed) {
    fixture f = set_up(text, n, 0, kind, true, seed);
    const size_t outputs = (size_t)(n * f.spec.d_model);
    double *want = support_aligned(outputs * sizeof *want), *bound = support_aligned(outputs * sizeof *bound);
    oracle_ffn(&f.spec, &f.weights->weights, f.x, f.ld, n, want, bound);
    run(&f, 0, f.x, f.y, 0, n);
    const int64_t bad = oracle_first_outside(&f.spec, f.y, f.ld, n, want, bound);
    cr_assert_eq(bad, -1, "%s: output %lld is %a, want %a +- %g", text, (long long)bad, (double)f.y[bad], want[bad],
                 bound[bad]);
    free(want);
    free(bound);
    tear_down(&f);
}

Test(fallback, stays_within_the_oracles_bound) {
    const char *const specs[] = {"d1-f1-relu-bias",      "d17-f33-gelu-bias",     "d64-f256-relu-bias",
                                 "d40-f130-swiglu-bias", "d100-f37-silu-bias_up", "d257-f129-tanh",
                                 "d48-f96-geglu_tanh",   "d80-f50-softplus-bias", "d33-f70-relu2-bias",
                                 "d90-f90-sigmoid-bias", "d24-f48-bilinear-bias", "d31-f61-mish-bias",
                                 "d512-f700-relu-bias",  "d96-f200-gelu_quick",   "d20-f4000-relu"};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        expect_oracle(specs[i], 4, SUPPORT_NORMAL, 7 + i);
        expect_oracle(specs[i], 3, SUPPORT_CANCELLING, 70 + i);
    }
}

/* The oracle judges everything else, so it must see a fault of one column, one hidden unit, one element. */
static void expect_seen(const char *text, const char *fault, void (*spoil)(const ffn_spec *, support_weights *)) {
    fixture f = set_up(text, 2, 0, SUPPORT_NORMAL, true, 5);
    const size_t outputs = (size_t)(2 * f.spec.d_model);
    double *want = support_aligned(outputs * sizeof *want), *bound = support_aligned(outputs * sizeof *bound);
    oracle_ffn(&f.spec, &f.weights->weights, f.x, f.ld, 2, want, bound);
    run(&f, 0, f.x, f.y, 0, 2);
    cr_assert_eq(oracle_first_outside(&f.spec, f.y, f.ld, 2, want, bound), -1);
    spoil(&f.spec, f.weights);
    cr_assert_eq(ffn_pack(&f.spec, &f.weights->weights, f.packed, f.packed_bytes, NULL), FFN_OK);
    run(&f, 0, f.x, f.y, 0, 2);
    cr_assert_neq(oracle_first_outside(&f.spec, f.y, f.ld, 2, want, bound), -1, "%s: %s is not seen", text, fault);
    free(want);
    free(bound);
    tear_down(&f);
}

static void swap_two_columns(const ffn_spec *spec, support_weights *w) {
    for (int64_t f = 0; f < spec->d_ff; f++) {
        float *row = w->down + f * spec->d_model;
        const float last = row[spec->d_model - 1];
        row[spec->d_model - 1] = row[spec->d_model - 2];
        row[spec->d_model - 2] = last;
    }
}

static void drop_the_last_unit(const ffn_spec *spec, support_weights *w) {
    memset(w->down + (spec->d_ff - 1) * spec->d_model, 0, (size_t)spec->d_model * sizeof *w->down);
}

static void drop_one_input_of_one_unit(const ffn_spec *spec, support_weights *w) {
    w->up[(spec->d_model - 1) * spec->d_ff] = 0.0f;
}

static void drop_one_element_of_down(const ffn_spec *spec, support_weights *w) {
    w->down[spec->d_ff / 2 * spec->d_model] = 0.0f;
}

Test(oracle, sees_small_faults) {
    const char *const specs[] = {"d64-f256-silu", "d100-f300-swiglu", "d512-f2048-silu-bias"};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        expect_seen(specs[i], "two swapped columns", swap_two_columns);
        expect_seen(specs[i], "a dropped hidden unit", drop_the_last_unit);
        if (i == 2)
            continue; /* a single weight is too small to be seen there */
        expect_seen(specs[i], "a dropped input of one hidden unit", drop_one_input_of_one_unit);
        expect_seen(specs[i], "a dropped element of W_down", drop_one_element_of_down);
    }
}

/* ---- Rows ---- */

/* Alone, in another place, among NaN, in a range: the same bits. */
Test(fallback, a_row_does_not_depend_on_its_company) {
    const char *const specs[] = {"d19-f37-gelu-bias", "d40-f600-swiglu", "d70-f100-relu-bias"};
    enum { N = 100 };
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        for (int build = 0; build < BUILDS; build++) {
            fixture f = set_up(specs[i], N, 2, SUPPORT_NORMAL, true, 90 + i);
            fixture one = set_up(specs[i], N, 2, SUPPORT_NORMAL, false, 90 + i);
            run(&f, build, f.x, f.y, 0, N);
            support_rng rng = {i};
            for (int64_t r = 0; r < N; r += support_between(&rng, 1, 5)) {
                const int64_t place = support_between(&rng, 0, N - 1), end = support_between(&rng, place + 1, N);
                support_fill_nan(one.x, (N - 1) * one.ld + one.spec.d_model);
                memset(one.y, 0xff, one.y_bytes);
                memcpy(one.x + place * one.ld, f.x + r * f.ld, (size_t)f.spec.d_model * sizeof(float));
                run(&one, build, one.x, one.y, place, end);
                cr_assert_eq(oracle_first_unequal(&f.spec, f.y + r * f.ld, f.ld, one.y + place * one.ld, one.ld, 1),
                             -1);
                for (int64_t other = 0; other < N; other++)
                    if (other < place || other >= end) {
                        uint32_t bits;
                        memcpy(&bits, one.y + other * one.ld, sizeof bits);
                        cr_assert_eq(bits, UINT32_MAX, "row %lld is outside the range", (long long)other);
                    }
            }
            tear_down(&one);
            tear_down(&f);
        }
}

Test(fallback, no_rows_touch_nothing) {
    fixture f = set_up("d5-f7-relu", 1, 0, SUPPORT_NORMAL, true, 1);
    run(&f, 0, NULL, NULL, 0, 0);
    run(&f, 0, f.x, f.y, 1, 1);
    cr_assert(isnan(f.y[0]));
    tear_down(&f);
}

/* ---- Stages ---- */

static int64_t cut_at(support_rng *rng, int64_t begin, int64_t width) {
    const int64_t end = begin + FFN_PANEL * support_between(rng, 1, 3);
    return end < width ? end : width;
}

Test(fallback, the_two_stages_over_any_ranges_equal_the_whole) {
    const struct {
        const char *spec;
        int64_t n;
    } cases[] = {{"d19-f37-gelu-bias", 3}, {"d40-f600-swiglu-bias", 16}, {"d70-f100-relu-bias", 1},
                 {"d1-f1-relu", 2},        {"d130-f1100-relu", 5},       {"d64-f64-geglu", 100}};
    support_rng rng = {21};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int build = 0; build < BUILDS; build++) {
            fixture f = set_up(cases[i].spec, cases[i].n, 1, SUPPORT_NORMAL, build == 0, 30 + i);
            float *whole = support_aligned(f.y_bytes);
            run(&f, build, f.x, whole, 0, f.n);
            memset(f.scratch, 0xff, f.scratch_bytes);
            for (int64_t begin = 0, end; begin < f.spec.d_ff; begin = end) {
                end = cut_at(&rng, begin, f.spec.d_ff);
                fallback_expand_by(build_tile(build), &f.spec, &f.layout, f.graph, f.x, f.ld, f.packed, f.hidden,
                                   f.scratch, f.n, begin, end);
            }
            for (int64_t begin = 0, end; begin < f.spec.d_model; begin = end) {
                end = cut_at(&rng, begin, f.spec.d_model);
                fallback_contract_by(build_tile(build), &f.spec, &f.layout, f.hidden, f.packed, f.y, f.ld, f.n, begin,
                                     end);
            }
            cr_assert_eq(oracle_first_unequal(&f.spec, f.y, f.ld, whole, f.ld, f.n), -1, "%s", cases[i].spec);
            expect_gaps(&f);
            free(whole);
            tear_down(&f);
        }
}

Test(fallback, the_public_entries_are_the_best_build) {
    fixture f = set_up("d40-f600-swiglu-bias", 7, 1, SUPPORT_NORMAL, true, 8);
    float *whole = support_aligned(f.y_bytes);
    run(&f, 1, f.x, whole, 0, f.n);
    fallback_run(&f.spec, &f.layout, f.graph, f.x, f.ld, f.y, f.ld, f.packed, f.scratch, 0, f.n);
    cr_assert_eq(oracle_first_unequal(&f.spec, f.y, f.ld, whole, f.ld, f.n), -1);
    memset(f.y, 0xff, f.y_bytes);
    fallback_expand(&f.spec, &f.layout, f.graph, f.x, f.ld, f.packed, f.hidden, f.scratch, f.n, 0, f.spec.d_ff);
    fallback_contract(&f.spec, &f.layout, f.hidden, f.packed, f.y, f.ld, f.scratch, f.n, 0, f.spec.d_model);
    cr_assert_eq(oracle_first_unequal(&f.spec, f.y, f.ld, whole, f.ld, f.n), -1);
    free(whole);
    tear_down(&f);
}

/* ---- Values ---- */

Test(fallback, minus_zero_never_leaves) {
    const char *const specs[] = {"d3-f5-identity", "d40-f5-identity", "d70-f5-identity"};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        for (int build = 0; build < BUILDS; build++) {
            fixture f = set_up(specs[i], 1, 0, SUPPORT_NORMAL, true, 3);
            const int64_t d_model = f.spec.d_model;
            for (int64_t k = 0; k < d_model; k++)
                f.x[k] = -0x1p-149f;
            for (int64_t k = 0; k < d_model * f.spec.d_ff; k++) {
                f.weights->up[k] = 0.25f;
                f.weights->down[k] = 0.0f;
            }
            f.spec.bias = FFN_BIAS_DOWN;
            float *minus_zero = support_aligned((size_t)d_model * sizeof *minus_zero);
            for (int64_t j = 0; j < d_model; j++)
                minus_zero[j] = -0.0f;
            f.weights->weights.bias_down = minus_zero;
            cr_assert_eq(ffn_pack(&f.spec, &f.weights->weights, f.packed, f.packed_bytes, NULL), FFN_OK);
            run(&f, build, f.x, f.y, 0, 1);
            for (int64_t j = 0; j < d_model; j++)
                cr_assert(f.y[j] == 0.0f && !signbit(f.y[j]), "%s", specs[i]);
            free(minus_zero);
            tear_down(&f);
        }
}

/* Products follow IEEE; infinities, NaN, overflow and subnormals keep the contract as every value does. */
Test(fallback, keeps_the_contract_with_extreme_values) {
    const float extremes[] = {INFINITY, -INFINITY, NAN, 3.4e38f, -3.4e38f, 0x1p-149f, -0x1p-130f, 0.0f, -0.0f, 1e30f};
    enum { EXTREMES = sizeof extremes / sizeof *extremes };
    for (size_t s = 0; s < FIELDS; s++)
        for (int build = 0; build < BUILDS; build++) {
            char text[64];
            fixture f = set_up(text_of(text, sizeof text, 21, 35, fields[s]), EXTREMES, 0, SUPPORT_NORMAL, true, s);
            for (int64_t r = 0; r < EXTREMES; r++)
                f.x[r * f.ld + 2 * r] = extremes[r];
            float *want = support_aligned(f.y_bytes);
            oracle_contract(&f.spec, &f.weights->weights, f.x, f.ld, f.n, want);
            run(&f, build, f.x, f.y, 0, f.n);
            cr_assert_eq(oracle_first_unequal(&f.spec, f.y, f.ld, want, f.spec.d_model, f.n), -1, "%s", text);
            free(want);
            tear_down(&f);
        }
}

/* ---- Scratch ---- */

Test(fallback, scratch_is_modest_and_a_multiple_of_its_alignment) {
    const char *const specs[] = {"d1-f1-relu", "d32-f65536-swiglu", "d64-f256-relu", "d16384-f65536-swiglu",
                                 "d768-f3072-gelu-bias"};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        const ffn_spec spec = support_spec(specs[i]);
        const size_t bytes = fallback_scratch_bytes(&spec);
        cr_assert_leq(bytes, UINT64_C(256) << 10, "%s: %zu", specs[i], bytes);
        cr_assert_eq(bytes % FFN_SCRATCH_ALIGN, 0);
    }
}
