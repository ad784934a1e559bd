/* test_sparse.c: rows of h that are mostly zero: the contract stage passes over the zeros and gives the same bits
 *
 * What y must be is the chain of docs/numerics.md written out. Whether a kernel read a row of W_down is seen by a NaN
 * put there after packing, behind the header's back: it comes out where the row was multiplied. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "packed.h"
#include "sparse.h"
#include "support_kernel.h"
#include "support_oracle.h"

#define ROWS 5 /* one more than passes over zeros */
#define LDY_MORE 3

typedef struct layer {
    ffn_spec spec;
    packed_layout at;
    support_weights *weights;
    char *packed;
    float *hidden, *y, *want; /* hidden as the contract entry has it */
    int64_t stride, ldy;
} layer;

static layer make(const char *text) {
    layer l = {.spec = support_spec(text)};
    cr_assert_eq(packed_layout_of(&l.spec, &l.at, NULL), FFN_OK);
    l.weights = support_random_weights(&l.spec, SUPPORT_NORMAL, 11);
    l.packed = support_packed(&l.spec, &l.weights->weights);
    l.stride = image_hidden_stride(&l.spec);
    l.ldy = l.spec.d_model + LDY_MORE;
    l.hidden = support_aligned((size_t)(ROWS * l.stride) * sizeof(float));
    l.y = support_aligned((size_t)(ROWS * l.ldy) * sizeof(float));
    l.want = support_aligned((size_t)(ROWS * l.spec.d_model) * sizeof(float));
    return l;
}

static void drop(layer *l) {
    support_weights_free(l->weights);
    free(l->packed);
    free(l->hidden);
    free(l->y);
    free(l->want);
}

/* Zeros of both signs, and what the padding behind a row may hold. */
static void clear_hidden(layer *l, int64_t n) {
    support_fill_nan(l->hidden, ROWS * l->stride);
    for (int64_t r = 0; r < n; r++)
        for (int64_t f = 0; f < l->spec.d_ff; f++)
            l->hidden[r * l->stride + f] = (f + r) % 3 == 0 ? -0.0f : 0.0f;
}

/* Sets `count` different columns of `rows` rows (each only in some of them), the first being `first`. */
static void set_columns(layer *l, int64_t rows, int64_t first, int64_t count) {
    support_rng rng = {(uint64_t)(first + 100 * count)};
    bool *taken = calloc((size_t)l->spec.d_ff, sizeof *taken);
    cr_assert_not_null(taken);
    for (int64_t i = 0, f = first; i < count; i++) {
        while (taken[f])
            f = support_between(&rng, 0, l->spec.d_ff - 1);
        taken[f] = true;
        for (int64_t r = 0; r < rows; r++)
            if (r == i % rows || support_between(&rng, 0, 1))
                l->hidden[r * l->stride + f] = support_normal(&rng) + 4;
    }
    free(taken);
}

/* y[j] = b[j], then fma for every f in order, then + (+0), on the weights as they stand in the block. */
static void chain(layer *l, int64_t n) {
    const int64_t d = l->spec.d_model, d_ff = l->spec.d_ff;
    for (int64_t r = 0; r < n; r++)
        for (int64_t j = 0; j < d; j++) {
            const char *panel = l->packed + l->at.contract + j / FFN_PANEL * l->at.contract_panel_bytes;
            const float *column = (const float *)(const void *)panel + j % FFN_PANEL;
            float sum = ((const float *)(const void *)(l->packed + l->at.bias_down))[j];
            for (int64_t f = 0; f < d_ff; f++)
                sum = fmaf(l->hidden[r * l->stride + f], column[f * FFN_PANEL], sum);
            l->want[r * d + j] = sum + 0.0f;
        }
}

static void contract(layer *l, const support_kernel *k, int64_t n, int64_t begin, int64_t end) {
    void *scratch = support_aligned((size_t)k->scratch_bytes);
    memset(scratch, 0xff, (size_t)k->scratch_bytes);
    k->code.contract(l->hidden, l->packed, l->y, l->ldy, scratch, n, begin, end);
    free(scratch);
}

static void expect_chain(layer *l, const support_kernel *k, int64_t n, const char *what) {
    const int64_t d = l->spec.d_model, middle = d / FFN_PANEL / 2 * FFN_PANEL;
    chain(l, n);
    for (int parts = 1; parts <= 2; parts++) {
        support_fill_nan(l->y, ROWS * l->ldy);
        contract(l, k, n, 0, parts == 1 ? d : middle);
        if (parts == 2)
            contract(l, k, n, middle, d);
        const int64_t unequal = oracle_first_unequal(&l->spec, l->y, l->ldy, l->want, d, n);
        cr_expect_eq(unequal, -1, "%s, d_ff %lld, n = %lld, %d parts: row %lld column %lld", what,
                     (long long)l->spec.d_ff, (long long)n, parts, (long long)(unequal / d), (long long)(unequal % d));
        for (int64_t r = 0; r < ROWS; r++)
            for (int64_t j = r < n ? d : 0; j < l->ldy; j++)
                cr_assert(isnan(l->y[r * l->ldy + j]), "%s: row %lld column %lld is written", what, (long long)r,
                          (long long)j);
    }
}

/* Every way in which h can be mostly zero. */
static void check_patterns(layer *l, const support_kernel *k, int64_t n) {
    const int64_t d_ff = l->spec.d_ff, quarter = d_ff / 4;
    static const float odd[] = {NAN, INFINITY, -INFINITY, 0x1p-149f, -0x1p-149f, 0x1.fffffep127f};
    clear_hidden(l, n);
    expect_chain(l, k, n, "all zero");
    set_columns(l, n, d_ff - 1, 1);
    expect_chain(l, k, n, "the last column");
    set_columns(l, n, 0, 2);
    expect_chain(l, k, n, "the first and the last column");
    for (int64_t count = quarter - 1; count <= quarter + 1; count++) {
        clear_hidden(l, n);
        set_columns(l, n, d_ff / 2, count);
        expect_chain(l, k, n, "about a quarter");
    }
    clear_hidden(l, n);
    set_columns(l, n > 1 ? n - 1 : n, 7, d_ff / 8);
    expect_chain(l, k, n, "one row all zero");
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        l->hidden[(int64_t)i % n * l->stride + 5 + 9 * (int64_t)i] = odd[i];
    expect_chain(l, k, n, "NaN, infinities, subnormals");
}

static void check_isa(ffn_isa isa) {
    static const char *const specs[] = {"d128-f256-relu-bias", "d99-f303-relu", "d241-f130-relu2-bias",
                                        "d80-f192-reglu-bias"};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        layer l = make(specs[i]);
        for (ffn_n_class c = FFN_N_1; c <= FFN_N_2_4; c++) {
            ffn_plan plan = support_kernel_plan(&l.spec, isa, c);
            for (int blocks = 0; blocks < 2; blocks++) { /* all terms at once, then in parts of which some are empty */
                support_kernel k;
                plan.f_block = blocks ? 64 : plan.f_block;
                support_kernel_build(&l.spec, &plan, &k);
                for (int64_t n = 1; n <= ROWS; n++)
                    check_patterns(&l, &k, n);
                support_kernel_free(&k);
            }
        }
        drop(&l);
    }
    printf("%s%s\n", ffn_isa_name(isa), support_isa_note(isa));
}

Test(sparse, same_bits_however_few_columns_are_not_zero, .timeout = 300) {
    for (ffn_isa isa = FFN_ISA_PORTABLE + 1; isa < FFN_ISA_COUNT; isa++) {
        if (support_isa_runs(isa))
            check_isa(isa);
        else
            printf("%s: skipped, no code for it runs here\n", ffn_isa_name(isa));
    }
}

static float *down_row(const layer *l, int64_t panel, int64_t f) {
    return (float *)(void *)(l->packed + l->at.contract + panel * l->at.contract_panel_bytes) + f * FFN_PANEL;
}

/* Whether the first column of y misses the NaN of hidden column 3, whose h is zero. */
static bool passes_over(layer *l, const support_kernel *k, int64_t n, int64_t columns) {
    clear_hidden(l, n);
    set_columns(l, n, 0, 1);
    for (int64_t f = 4; f < 3 + columns; f++)
        l->hidden[f % n * l->stride + f] = 1;
    contract(l, k, n, 0, l->spec.d_model);
    return !isnan(l->y[0]);
}

Test(sparse, zeros_are_passed_over_up_to_a_quarter_of_the_columns) {
    const ffn_isa isa = ffn_isa_best();
    if (isa == FFN_ISA_PORTABLE) {
        printf("skipped: no code is generated for this CPU\n");
        return;
    }
    layer l = make("d96-f256-relu-bias");
    *down_row(&l, 0, 3) = NAN;
    for (ffn_n_class c = FFN_N_1; c <= FFN_N_2_4; c++) {
        support_kernel k;
        ffn_plan plan = support_kernel_plan(&l.spec, isa, c);
        plan.f_block = 256;
        support_kernel_build(&l.spec, &plan, &k);
        for (int64_t n = c == FFN_N_1 ? 1 : 2; n <= (c == FFN_N_1 ? 1 : 4); n++) {
            cr_expect(passes_over(&l, &k, n, 1), "n = %lld: one column", (long long)n);
            cr_expect(passes_over(&l, &k, n, 64), "n = %lld: a quarter", (long long)n);
            cr_expect_not(passes_over(&l, &k, n, 65), "n = %lld: more than a quarter", (long long)n);
        }
        support_kernel_free(&k);
    }
    drop(&l);
}

Test(sparse, a_block_that_holds_infinities_or_nan_is_multiplied_whole) {
    const ffn_isa isa = ffn_isa_best();
    if (isa == FFN_ISA_PORTABLE) {
        printf("skipped: no code is generated for this CPU\n");
        return;
    }
    layer l = make("d96-f256-relu-bias");
    l.weights->down[17 * l.spec.d_model + 40] = INFINITY;
    l.weights->down[200 * l.spec.d_model + 95] = NAN;
    free(l.packed);
    l.packed = support_packed(&l.spec, &l.weights->weights);
    for (ffn_n_class c = FFN_N_1; c <= FFN_N_2_4; c++) {
        support_kernel k;
        const ffn_plan plan = support_kernel_plan(&l.spec, isa, c);
        support_kernel_build(&l.spec, &plan, &k);
        for (int64_t n = 1; n <= 4; n++) {
            clear_hidden(&l, n);
            set_columns(&l, n, 9, 3);
            expect_chain(&l, &k, n, "weights that are not finite");
            cr_expect(isnan(l.y[40]) && isnan(l.y[95]), "n = %lld: 0 times infinity, 0 times NaN", (long long)n);
        }
        support_kernel_free(&k);
    }
    drop(&l);
}

/* h as the kernel itself makes it, through the fused nest, in blocks of rows and of columns. */
Test(sparse, the_fused_kernel_gives_the_bits_of_the_portable_one) {
    enum { N = 9 };
    for (ffn_isa isa = FFN_ISA_PORTABLE + 1; isa < FFN_ISA_COUNT; isa++) {
        if (!support_isa_runs(isa))
            continue;
        layer l = make("d83-f400-relu-bias");
        const int64_t d = l.spec.d_model;
        for (int64_t f = 0; f < l.spec.d_ff; f++)
            l.weights->bias_up[f] -= f % 8 ? 20 : 0; /* seven of eight units are off */
        free(l.packed);
        l.packed = support_packed(&l.spec, &l.weights->weights);
        float *x = support_aligned((size_t)(N * d) * sizeof *x), *y = support_aligned((size_t)(N * d) * sizeof *y);
        float *want = support_aligned((size_t)(N * d) * sizeof *want);
        support_fill_x(x, N, d, d, SUPPORT_NORMAL, 5);
        support_portable_run(&l.spec, x, d, want, d, N, l.packed);
        for (ffn_n_class c = FFN_N_1; c <= FFN_N_2_4; c++) {
            support_kernel k;
            ffn_plan plan = support_kernel_plan(&l.spec, isa, c);
            plan.f_block = 160;
            support_kernel_build(&l.spec, &plan, &k);
            for (int64_t n = 1; n <= N; n++) {
                support_fill_nan(y, N * d);
                support_kernel_run(&k, x, d, y, d, n, l.packed);
                cr_expect_eq(oracle_first_unequal(&l.spec, y, d, want, d, n), -1, "%s, n = %lld", ffn_isa_name(isa),
                             (long long)n);
            }
            support_kernel_free(&k);
        }
        free(x);
        free(y);
        free(want);
        drop(&l);
    }
}

static bool zero_below(const char *activation) {
    char text[128];
    snprintf(text, sizeof text, "d96-f256-%s", activation);
    const ffn_spec spec = support_spec(text);
    formula_graph *graph = malloc(sizeof *graph);
    cr_assert_not_null(graph);
    cr_assert_eq(formula_build(spec.activation, spec.accuracy, graph, NULL), FFN_OK);
    const bool zero = sparse_activation(graph);
    free(graph);
    return zero;
}

Test(sparse, activations_that_are_zero_below_are_told_from_those_that_fade) {
    static const char *const zero[] = {
        "relu", "relu2", "reglu", "hardswish", "hardsigmoid", "act(max(x,0)*3)", "gated(max(g,0)*u*u)"};
    static const char *const fading[] = {"gelu",     "gelu_tanh", "gelu_quick", "silu",      "swiglu",
                                         "geglu",    "elu",       "identity",   "sigmoid",   "tanh",
                                         "softplus", "bilinear",  "mish",       "leaky_relu"};
    for (size_t i = 0; i < sizeof zero / sizeof *zero; i++)
        cr_expect(zero_below(zero[i]), "%s", zero[i]);
    for (size_t i = 0; i < sizeof fading / sizeof *fading; i++)
        cr_expect_not(zero_below(fading[i]), "%s", fading[i]);
}
