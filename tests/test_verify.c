/* test_verify.c: verification passes right kernels and fails every wrong one, small and at 4096x14336, within its
 * budget */
#include <criterion/criterion.h>
#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#ifdef __x86_64__
#include <xmmintrin.h>
#endif

#include "fallback.h"
#include "ffn_blas.h"
#include "ffngen.h"
#include "support_data.h"
#include "support_image.h"
#include "support_memory.h"
#include "verify.h"
#include "verify_reference.h"

typedef struct mutant {
    const char *spec;
    fake_defect defect;
    int64_t at;
    const char *other;
} mutant;

/* What ffn_kernel_prepare says of a fake kernel, and its diag. */
static ffn_status prepare(const mutant *m, int64_t n, const ffn_product *product, ffn_diag *diag,
                          ffn_counters *counters, ffn_kernel_info *info) {
    fake_source fake;
    fake_source_init(&fake);
    fake.defect = m->defect;
    fake.at = m->at;
    fake.other = m->other;
    ffn_options options = {.source = &fake.source, .product = product, .store = ""};
    ffn_context *context;
    ffn_kernel *kernel;
    ffn_spec spec = support_spec(m->spec);
    cr_assert_eq(ffn_context_create(&options, &context, diag), FFN_OK, "%s", diag->text);
    cr_assert_eq(ffn_kernel_create(context, &spec, &kernel, diag), FFN_OK, "%s", diag->text);
    ffn_status status = ffn_kernel_prepare(kernel, n, diag);
    ffn_context_counters(context, counters);
    ffn_kernel_inspect(kernel, n, info);
    ffn_kernel_destroy(kernel);
    ffn_context_destroy(context);
    fake_source_free(&fake);
    return status;
}

static void expect_failed(const mutant *mutants, size_t count) {
    for (size_t i = 0; i < count; ++i) {
        ffn_diag diag = {.status = FFN_OK};
        ffn_counters counters;
        ffn_kernel_info info;
        ffn_status status = prepare(&mutants[i], 17, NULL, &diag, &counters, &info);
        cr_expect_eq(status, FFN_VERIFY_FAILED, "%s, %s (%lld): status %d", mutants[i].spec,
                     fake_defect_text(mutants[i].defect), (long long)mutants[i].at, status);
        cr_expect(strstr(diag.text, "verification (") != NULL, "%s: \"%s\"", fake_defect_text(mutants[i].defect),
                  diag.text);
        cr_expect_eq(counters.failed, 1);
        cr_expect_eq(counters.compiled, 0);
        cr_expect_eq(counters.fell_back, 1);
        cr_expect_eq(info.source, FFN_FROM_FALLBACK, "a kernel that failed was published");
    }
}

Test(verify, passes_right_kernels) {
    NEEDS_IMAGES();
    static const char *const specs[] = {
        "d1-f1-relu",           "d1-f2-gelu-bias",      "d16-f16-silu",         "d17-f33-swiglu-bias", "d33-f17-relu",
        "d64-f256-relu-bias",   "d65-f300-geglu_tanh",  "d128-f512-gelu-bias",  "d67-f67-reglu-bias",  "d31-f4096-tanh",
        "d768-f3072-gelu-bias", "d64-f65536-gelu_tanh", "d4095-f333-mish-bias", "d300-f8001-swiglu",
    };
    for (size_t i = 0; i < sizeof specs / sizeof *specs; ++i) {
        for (int64_t n = 1; n <= 17; n += 16) {
            ffn_diag diag = {.status = FFN_OK};
            ffn_counters counters;
            ffn_kernel_info info;
            mutant m = {.spec = specs[i], .defect = FAKE_NONE};
            cr_expect_eq(prepare(&m, n, NULL, &diag, &counters, &info), FFN_OK, "%s: %s", specs[i], diag.text);
            cr_expect(info.verified);
            cr_expect_eq(counters.compiled, 1);
        }
    }
}

static const char small_plain[] = "d64-f256-gelu-bias", small_relu[] = "d64-f256-relu-bias",
                  small_gated[] = "d64-f256-geglu-bias";
static const char large_plain[] = "d4096-f14336-gelu_tanh-bias", large_gated[] = "d4096-f14336-swiglu",
                  large_relu[] = "d4096-f14336-reglu";

Test(verify, fails_wrong_columns_and_units_at_64x256) {
    NEEDS_IMAGES();
    const mutant mutants[] = {
        {small_plain, FAKE_COLUMN, 0, NULL},         {small_plain, FAKE_COLUMN, 37, NULL},
        {small_plain, FAKE_COLUMN, 63, NULL},        {small_gated, FAKE_COLUMN_ULP, 15, NULL},
        {small_relu, FAKE_UNIT_DROPPED, 255, NULL},  {small_relu, FAKE_UNIT_DROPPED, 0, NULL},
        {small_gated, FAKE_UNIT_DROPPED, 255, NULL}, {small_relu, FAKE_UNIT_NEIGHBOUR, 128, NULL},
        {small_plain, FAKE_TERM_DROPPED, 63, NULL},  {small_plain, FAKE_TERM_DROPPED, 0, NULL},
        {small_plain, FAKE_SUM_BACKWARDS, 0, NULL},
    };
    expect_failed(mutants, sizeof mutants / sizeof *mutants);
}

Test(verify, fails_swaps_activations_and_biases_at_64x256) {
    NEEDS_IMAGES();
    const mutant mutants[] = {
        {small_gated, FAKE_GATE_UP_SWAPPED, 0, NULL},
        {"d64-f256-gelu_tanh", FAKE_OTHER_ACTIVATION, 0, "gelu"},
        {"d64-f256-gelu", FAKE_OTHER_ACTIVATION, 0, "gelu_tanh"},
        {"d64-f256-geglu", FAKE_OTHER_ACTIVATION, 0, "geglu_tanh"},
        {small_relu, FAKE_OTHER_ACTIVATION, 0, "leaky_relu(0.001)"},
        {small_plain, FAKE_NO_BIAS_UP, 0, NULL},
        {small_gated, FAKE_NO_BIAS_GATE, 0, NULL},
        {small_plain, FAKE_NO_BIAS_DOWN, 0, NULL},
    };
    expect_failed(mutants, sizeof mutants / sizeof *mutants);
}

Test(verify, fails_rows_memory_and_stages) {
    NEEDS_IMAGES();
    static const fake_defect defects[] = {FAKE_LAST_ROW,      FAKE_FIRST_ROW_ALWAYS, FAKE_PADDING,
                                          FAKE_ROW_PAST,      FAKE_SCRATCH_PAST,     FAKE_SCRATCH_READ,
                                          FAKE_Y_READ,        FAKE_EXPAND_ONLY,      FAKE_CONTRACT_ONLY,
                                          FAKE_ACTIVATE_TAIL, FAKE_NAN_SWALLOWED};
    for (size_t i = 0; i < sizeof defects / sizeof *defects; ++i) {
        const mutant mutants[] = {{small_plain, defects[i], 0, NULL}, {large_gated, defects[i], 0, NULL}};
        expect_failed(mutants, 2);
    }
}

Test(verify, fails_wrong_columns_and_units_at_4096x14336, .timeout = 600) {
    NEEDS_IMAGES();
    const mutant mutants[] = {
        {large_gated, FAKE_COLUMN, 0, NULL},           {large_gated, FAKE_COLUMN, 2745, NULL},
        {large_gated, FAKE_COLUMN, 4095, NULL},        {large_gated, FAKE_COLUMN_ULP, 1, NULL},
        {large_gated, FAKE_UNIT_DROPPED, 14335, NULL}, {large_relu, FAKE_UNIT_DROPPED, 14335, NULL},
        {large_gated, FAKE_UNIT_DROPPED, 0, NULL},     {large_gated, FAKE_UNIT_NEIGHBOUR, 7168, NULL},
        {large_gated, FAKE_TERM_DROPPED, 4095, NULL},  {large_gated, FAKE_SUM_BACKWARDS, 0, NULL},
    };
    expect_failed(mutants, sizeof mutants / sizeof *mutants);
}

Test(verify, fails_swaps_activations_and_biases_at_4096x14336, .timeout = 600) {
    NEEDS_IMAGES();
    const mutant mutants[] = {
        {large_gated, FAKE_GATE_UP_SWAPPED, 0, NULL},
        {large_plain, FAKE_OTHER_ACTIVATION, 0, "gelu"},
        {"d4096-f14336-geglu", FAKE_OTHER_ACTIVATION, 0, "geglu_tanh"},
        {large_plain, FAKE_NO_BIAS_UP, 0, NULL},
        {large_plain, FAKE_NO_BIAS_DOWN, 0, NULL},
        {"d4096-f14336-swiglu-bias_gate", FAKE_NO_BIAS_GATE, 0, NULL},
    };
    expect_failed(mutants, sizeof mutants / sizeof *mutants);
}

/* The portable kernel as the code under test: shapes and data that make bounds too tight or too loose. */
static ffn_status verify_portable(const char *text, int64_t n, const ffn_product *product, ffn_verify_report *report,
                                  ffn_diag *diag) {
    ffn_context *context;
    ffn_kernel *kernel;
    ffn_spec spec = support_spec(text);
    cr_assert_eq(ffn_context_create(NULL, &context, NULL), FFN_OK);
    cr_assert_eq(ffn_kernel_create(context, &spec, &kernel, NULL), FFN_OK);
    ffn_status status = ffn_kernel_verify(kernel, n, product, report, diag);
    ffn_kernel_destroy(kernel);
    ffn_context_destroy(context);
    return status;
}

Test(verify, every_activation_agrees_with_libm_and_the_product) {
    const ffn_activation *activation;
    for (size_t i = 0; (activation = ffn_activation_at(i)) != NULL; ++i) {
        char text[FFN_SPEC_TEXT_BYTES];
        snprintf(text, sizeof text, "d48-f160-%s-bias", activation->name);
        ffn_diag diag = {.status = FFN_OK};
        ffn_verify_report report;
        cr_expect_eq(verify_portable(text, 3, ffn_blas_product(true), &report, &diag), FFN_OK, "%s: %s", text,
                     diag.text);
        cr_expect_lt(report.max_error, report.error_bound, "%s", text);
        cr_expect_gt(report.compared, 0);
    }
}

Test(verify, users_formulas_pass) {
    static const char *const formulas[] = {"act(x*sigmoid(1.702*x))", "act(exp(x))", "act(select(x<0,0,x*x))",
                                           "gated(min(g,7)*sigmoid(1.702*min(g,7))*(clamp(u,-7,7)+1))", "act(0)"};
    for (size_t i = 0; i < sizeof formulas / sizeof *formulas; ++i) {
        char text[FFN_SPEC_TEXT_BYTES];
        snprintf(text, sizeof text, "d96-f320-%s", formulas[i]);
        ffn_diag diag = {.status = FFN_OK};
        cr_expect_eq(verify_portable(text, 2, ffn_blas_product(true), NULL, &diag), FFN_OK, "%s: %s", text, diag.text);
    }
}

static const char *const nonfinite[] = {"act(log(x))",      "act(1/0)",    "act(exp(x*x))",
                                        "act(x*1e38*1e38)", "act(x*1e38)", "act(x/(x-x))"};

/* Infinite and NaN hidden units make columns NaN through weights that are zero: in the second, sparse block of a small
 * shape and in a block too large to fill. */
Test(verify, formulas_that_give_infinities_pass) {
    static const char *const shapes[] = {"d128-f128", "d1024-f3000"};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes * sizeof nonfinite / sizeof *nonfinite; ++i) {
        char text[FFN_SPEC_TEXT_BYTES];
        snprintf(text, sizeof text, "%s-%s", shapes[i % 2], nonfinite[i / 2]);
        ffn_diag diag = {.status = FFN_OK};
        cr_expect_eq(verify_portable(text, 17, ffn_blas_product(true), NULL, &diag), FFN_OK, "%s: %s", text, diag.text);
        ffn_counters counters;
        ffn_kernel_info info;
        mutant right = {.spec = text, .defect = FAKE_NONE};
        if (support_image_possible()) {
            cr_expect_eq(prepare(&right, 17, NULL, &diag, &counters, &info), FFN_OK, "%s: %s", text, diag.text);
        }
    }
}

Test(verify, formulas_that_give_infinities_still_fail_wrong_kernels) {
    NEEDS_IMAGES();
    const mutant mutants[] = {
        {"d128-f128-act(exp(x*x))", FAKE_COLUMN, 127, NULL},
        {"d1024-f3000-act(exp(x*x))", FAKE_UNIT_DROPPED, 2999, NULL},
        {"d1024-f3000-act(exp(x*x))", FAKE_COLUMN, 500, NULL},
        {"d128-f128-act(log(x))", FAKE_ACTIVATE_TAIL, 0, NULL},
        {"d128-f128-act(log(x))", FAKE_EXPAND_ONLY, 0, NULL},
        {"d128-f128-act(log(x))", FAKE_OTHER_ACTIVATION, 0, "act(exp(x))"},
        {"d128-f128-act(1/0)", FAKE_NAN_SWALLOWED, 0, NULL},
    };
    expect_failed(mutants, sizeof mutants / sizeof *mutants);
}

/* Rounding modes, and on x86 flushing to zero: the caller's own, as they were, and no reason to refuse a kernel. */
Test(verify, runs_in_the_default_environment_and_restores_the_callers) {
    static const char *const specs[] = {"d64-f256-gelu-bias", "d48-f100-swiglu", "d64-f128-leaky_relu(0.1)"};
    static const int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    for (size_t i = 0; i < sizeof specs / sizeof *specs * 4; ++i) {
        ffn_diag diag = {.status = FFN_OK};
        fesetround(modes[i % 4]);
        ffn_status status = verify_portable(specs[i / 4], 17, NULL, NULL, &diag);
        int after = fegetround();
        fesetround(FE_TONEAREST);
        cr_expect_eq(status, FFN_OK, "%s: %s", specs[i / 4], diag.text);
        cr_expect_eq(after, modes[i % 4]);
    }
#ifdef __x86_64__
    const unsigned flush = _mm_getcsr() | 0x8040; /* FTZ, DAZ */
    for (size_t i = 0; i < sizeof specs / sizeof *specs && support_image_possible(); ++i) {
        ffn_diag diag = {.status = FFN_OK};
        ffn_counters counters;
        ffn_kernel_info info;
        mutant right = {.spec = specs[i], .defect = FAKE_NONE};
        _mm_setcsr(flush);
        ffn_status status = prepare(&right, 17, NULL, &diag, &counters, &info);
        unsigned after = _mm_getcsr();
        _mm_setcsr(flush & ~0x8040U);
        cr_expect_eq(status, FFN_OK, "%s: %s", specs[i], diag.text);
        cr_expect_eq(after & 0xffc0, flush & 0xffc0);
    }
#endif
}

Test(verify, sums_of_65536_terms_pass) {
    ffn_diag diag = {.status = FFN_OK};
    ffn_verify_report report;
    cr_expect_eq(verify_portable("d80-f65536-gelu_tanh-bias", 2, ffn_blas_product(true), &report, &diag), FFN_OK, "%s",
                 diag.text);
    cr_expect_lt(report.max_error, report.error_bound);
    cr_expect_eq(verify_portable("d65536-f80-relu", 2, ffn_blas_product(true), &report, &diag), FFN_OK, "%s",
                 diag.text);
}

/* A product that is wrong in one element must not pass for a wrong kernel (test_wrong_blas.c has more of them). */
static void wrong_multiply(void *self, int64_t m, int64_t n, int64_t k, const double *a, const double *b, double *c) {
    (void)self;
    const ffn_product *right = ffn_blas_product(true);
    right->multiply(right->self, m, n, k, a, b, c);
    c[0] += 1;
}

static const char *wrong_name(void *self) {
    (void)self;
    return "a product with a fault";
}

Test(verify, a_wrong_product_is_named) {
    const ffn_product wrong = {.multiply = wrong_multiply, .describe = wrong_name};
    ffn_diag diag = {.status = FFN_OK};
    ffn_verify_report report;
    cr_expect_eq(verify_portable("d64-f256-gelu-bias", 2, &wrong, &report, &diag), FFN_VERIFY_FAILED);
    cr_expect(strstr(diag.text, "a product with a fault") != NULL, "%s", diag.text);
    cr_expect(strstr(diag.text, "the product is wrong") != NULL, "%s", diag.text);
    cr_expect(strstr(diag.text, "the kernels agree with those") != NULL, "%s", diag.text);
    cr_expect_lt(report.max_error, report.error_bound); /* of sums that are right */
}

Test(verify, the_product_names_wrong_code) {
    NEEDS_IMAGES();
    const mutant m = {small_gated, FAKE_GATE_UP_SWAPPED, 0, NULL};
    ffn_diag diag = {.status = FFN_OK};
    ffn_counters counters;
    ffn_kernel_info info;
    cr_expect_eq(prepare(&m, 17, ffn_blas_product(true), &diag, &counters, &info), FFN_VERIFY_FAILED);
    cr_expect(strstr(diag.text, "OpenBLAS") != NULL && strstr(diag.text, "the code is wrong") != NULL, "%s", diag.text);
}

Test(verify, digests_do_not_depend_on_n) {
    ffn_verify_report one, many;
    cr_expect_eq(verify_portable("d64-f256-gelu-bias", 1, NULL, &one, NULL), FFN_OK);
    cr_expect_eq(verify_portable("d64-f256-gelu-bias", 40, NULL, &many, NULL), FFN_OK);
    cr_expect_eq(one.bits, many.bits);
}

/* The most memory that verifying the largest preset adds, looked at while it runs. Criterion forks, so that nothing
 * else runs in this process. A sanitizer keeps freed memory back, so what one pass gives back the next does not get. */
Test(verify, the_largest_preset_needs_at_most_64_mib) {
#if defined(__SANITIZE_ADDRESS__)
    printf("memory: not measured under a sanitizer\n");
    return;
#endif
    cr_assert_eq(verify_portable("d64-f256-relu", 1, NULL, NULL, NULL), FFN_OK);
    const long before = support_memory_kib();
    if (before == 0) {
        printf("memory: not measured, this kernel does not tell\n");
        return;
    }
    support_memory_watch_begin();
    cr_assert_eq(verify_portable("d4096-f14336-swiglu", 1, NULL, NULL, NULL), FFN_OK);
    const long most = support_memory_watch_end();
    cr_expect_leq(most - before, 64 * 1024, "%ld KiB", most - before);
    cr_expect_gt(most, before, "it was not seen while it ran");
}

/* One row is all that the largest shapes can afford: it must see every column, and the last unit, by itself. */
Test(verify, one_input_sees_every_column_and_the_last_unit) {
    static const char *const specs[] = {"d4096-f14336-swiglu", "d4096-f14336-reglu", "d2560-f10240-relu",
                                        "d2048-f16384-reglu",  "d300-f20001-relu",   "d5000-f1200-relu",
                                        "d64-f65536-relu",     "d64-f256-relu",      "d7168-f2048-swiglu"};
    kernel_shape *shape = calloc(1, sizeof *shape);
    cr_assert_not_null(shape);
    for (size_t i = 0, pass = 0; i < sizeof specs / sizeof *specs;) {
        shape->spec = support_spec(specs[i]);
        cr_assert_eq(packed_layout_of(&shape->spec, &shape->layout, NULL), FFN_OK);
        cr_assert_eq(formula_build(shape->spec.activation, shape->spec.accuracy, &shape->graph, NULL), FFN_OK);
        verify_block block;
        verify_reference reference;
        cr_assert_eq(verify_block_make(shape, (int64_t)pass, &block, NULL), FFN_OK);
        cr_assert_eq(verify_reference_make(shape, &reference, NULL), FFN_OK);
        verify_reference_run(&reference, &block);
        for (int64_t j = 0; j < shape->spec.d_model; ++j) {
            cr_expect(reference.y[j] != 0 && (j == 0 || reference.y[j] != reference.y[j - 1]), "%s: column %lld",
                      specs[i], (long long)j);
        }
        int64_t last = shape->spec.d_ff - 1;
        cr_expect_neq(reference.hidden[last], 0, "%s: the last unit is %g", specs[i], (double)reference.hidden[last]);
        const float *panel = verify_block_down_panel(&block, 0);
        cr_expect_neq(panel[last * FFN_PANEL], 0);
        verify_reference_free(&reference);
        verify_block_free(&block);
        const bool last_pass = (int64_t)++pass == verify_block_passes(shape);
        i += last_pass;
        pass = last_pass ? 0 : pass;
    }
    free(shape);
}

Test(verify, all_passes_together_leave_no_panel_empty) {
    static const char *const specs[] = {"d4096-f14336-swiglu", "d2048-f16384-reglu", "d300-f20001-relu",
                                        "d5000-f1200-relu",    "d64-f256-relu",      "d4095-f14335-gelu-bias"};
    kernel_shape *shape = calloc(1, sizeof *shape);
    cr_assert_not_null(shape);
    for (size_t i = 0; i < sizeof specs / sizeof *specs; ++i) {
        shape->spec = support_spec(specs[i]);
        cr_assert_eq(packed_layout_of(&shape->spec, &shape->layout, NULL), FFN_OK);
        bool *up = calloc((size_t)shape->layout.up_panels, sizeof *up);
        bool *down = calloc((size_t)shape->spec.d_ff, sizeof *down);
        cr_assert(up != NULL && down != NULL);
        for (int64_t pass = 0; pass < verify_block_passes(shape); ++pass) {
            const verify_block block = {.shape = shape, .sampled = verify_block_passes(shape) > 1, .pass = pass};
            for (int64_t p = 0; p < shape->layout.up_panels; ++p) {
                up[p] = up[p] || verify_block_up(&block, p).count > 0;
            }
            for (int64_t p = 1; p < shape->layout.down_panels - 1; ++p) { /* the others are full */
                const verify_rows where = verify_block_down(&block, p);
                for (int64_t c = 0; c < where.count; ++c) {
                    for (int64_t f = 0; f < where.rows && where.first + c * where.step + f < shape->spec.d_ff; ++f) {
                        down[where.first + c * where.step + f] = true;
                    }
                }
            }
        }
        for (int64_t p = 0; p < shape->layout.up_panels; ++p) {
            cr_expect(up[p], "%s: panel %lld", specs[i], (long long)p);
        }
        for (int64_t f = 0; f < shape->spec.d_ff && shape->layout.down_panels > 2; ++f) {
            cr_expect(down[f], "%s: unit %lld", specs[i], (long long)f);
        }
        free(up);
        free(down);
    }
    free(shape);
}

/* A unit that the block of a first use leaves empty. */
Test(verify, a_unit_anywhere_at_4096x14336_is_found_when_rows_are_given, .timeout = 120) {
    NEEDS_IMAGES();
    static const int64_t units[] = {511, 8001};
    for (size_t i = 0; i < sizeof units / sizeof *units; ++i) {
        fake_source fake;
        fake_source_init(&fake);
        fake.defect = FAKE_UNIT_DROPPED;
        fake.at = units[i];
        ffn_options options = {.source = &fake.source, .verify = FFN_VERIFY_NEVER, .store = ""};
        ffn_context *context;
        ffn_kernel *kernel;
        ffn_spec spec = support_spec(large_gated);
        ffn_diag diag = {.status = FFN_OK};
        cr_assert_eq(ffn_context_create(&options, &context, &diag), FFN_OK, "%s", diag.text);
        cr_assert_eq(ffn_kernel_create(context, &spec, &kernel, &diag), FFN_OK, "%s", diag.text);
        cr_assert_eq(ffn_kernel_prepare(kernel, 1, &diag), FFN_OK, "%s", diag.text);
        cr_expect_eq(ffn_kernel_verify(kernel, 1, NULL, NULL, &diag), FFN_VERIFY_FAILED, "unit %lld",
                     (long long)units[i]);
        ffn_kernel_destroy(kernel);
        ffn_context_destroy(context);
        fake_source_free(&fake);
    }
}

static long pages_touched(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

/* What first use costs, on generated code. The budget is 50 ms (docs/verification.md); what a test can hold it to is
 * the pages it touches, compilation's among them: a block read through small pages of its own, 704 MiB, would be
 * 180,000. */
Test(verify, generated_code_passes_within_the_budget) {
    static const char *const presets[] = {"small-64x256", "transformer-base", "bert-base", "llama3-8b"};
    static const int64_t rows[FFN_N_CLASSES] = {1, 4, 16, 17};
    ffn_options options = {.source = ffngen_source(), .store = ""};
    ffn_context *context;
    cr_assert_eq(ffn_context_create(&options, &context, NULL), FFN_OK);
    for (size_t p = 0; p < sizeof presets / sizeof *presets; ++p) {
        ffn_spec spec = support_spec(presets[p]);
        ffn_kernel *kernel;
        cr_assert_eq(ffn_kernel_create(context, &spec, &kernel, NULL), FFN_OK);
        for (int c = 0; c < FFN_N_CLASSES; ++c) {
            ffn_diag diag = {.status = FFN_OK};
            const long before = pages_touched();
            ffn_status status = ffn_kernel_prepare(kernel, rows[c], &diag);
            const long pages = pages_touched() - before;
            ffn_kernel_info info;
            ffn_kernel_inspect(kernel, rows[c], &info);
            if (status == FFN_UNSUPPORTED) {
                continue; /* no generated ISA here */
            }
            cr_expect_eq(status, FFN_OK, "%s: %s", presets[p], diag.text);
            cr_expect(info.verified && info.verify_ms > 0);
#if !defined(__SANITIZE_ADDRESS__) /* whose shadow is memory too */
            cr_expect_leq(pages, 20000, "%s, %s rows: %ld pages", presets[p], ffn_n_class_name((ffn_n_class)c), pages);
#endif
        }
        ffn_kernel_destroy(kernel);
    }
    ffn_context_destroy(context);
}

/* Processor time of compiling and verifying, which a busy machine changes little. */
Test(verify, the_largest_shapes_end_soon) {
    NEEDS_IMAGES();
    static const char *const specs[] = {"d1-f16777216-relu", "d16777216-f1-gelu-bias", "d65536-f65536-swiglu",
                                        "d16777216-f65536-relu"};
    ffn_options options = {.source = ffngen_source(), .store = ""};
    ffn_context *context;
    cr_assert_eq(ffn_context_create(&options, &context, NULL), FFN_OK);
    for (size_t i = 0; i < sizeof specs / sizeof *specs; ++i) {
        ffn_spec spec = support_spec(specs[i]);
        ffn_kernel *kernel;
        ffn_diag diag = {.status = FFN_OK};
        cr_assert_eq(ffn_kernel_create(context, &spec, &kernel, &diag), FFN_OK, "%s", diag.text);
        clock_t start = clock();
        cr_expect_eq(ffn_kernel_prepare(kernel, 17, &diag), FFN_OK, "%s: %s", specs[i], diag.text);
        cr_expect_lt((double)(clock() - start) / CLOCKS_PER_SEC, 1.5, "%s", specs[i]);
        ffn_kernel_destroy(kernel);
    }
    ffn_context_destroy(context);
}

/* The portable kernel and its reference agree by construction; only check (b) can see that both are wrong. */
Test(verify, a_wrong_portable_kernel_is_found) {
    static const char *const specs[] = {"d64-f256-gelu_tanh-bias", "d4096-f14336-geglu_tanh"};
    static const char *const others[] = {"gelu", "geglu"};
    kernel_shape *shape = calloc(1, sizeof *shape);
    cr_assert_not_null(shape);
    for (size_t i = 0; i < sizeof specs / sizeof *specs; ++i) {
        shape->spec = support_spec(specs[i]);
        cr_assert_eq(packed_layout_of(&shape->spec, &shape->layout, NULL), FFN_OK);
        cr_assert_eq(formula_build(others[i], FFN_ACCURATE, &shape->graph, NULL), FFN_OK);
        verify_subject subject = {.shape = shape, .scratch_bytes = fallback_scratch_bytes(&shape->spec)};
        ffn_diag diag = {.status = FFN_OK};
        cr_expect_eq(verify_run(&subject, 0, NULL, NULL, &diag), FFN_VERIFY_FAILED, "%s", specs[i]);
        cr_expect(strstr(diag.text, "verification (b): hidden unit") != NULL, "%s", diag.text);
    }
    free(shape);
}
