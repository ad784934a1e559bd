/* test_wrong_blas.c: `ffngen verify` with an OpenBLAS preloaded whose dgemm is wrong names it, by version and core
 * type; with a wrong kernel as well the kernel is named too */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffn_blas.h"
#include "support_command.h"
#include "support_data.h"
#include "support_image.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SKIP_UNDER_SANITIZERS()                                                             \
    do {                                                                                    \
        printf("skipped: a sanitizer's run time must be the first library of a process\n"); \
        return;                                                                             \
    } while (0)
#else
#define SKIP_UNDER_SANITIZERS()
#endif

static const char *const faults[] = {"column", "alpha", "single", "beta", "transposed", "nan", "late"};
enum { FAULTS = sizeof faults / sizeof *faults };

static void verify_with(const char *fault, const char *spec) {
    setenv("LD_PRELOAD", WRONG_BLAS_LIBRARY, 1);
    setenv("WRONG_BLAS", fault, 1);
    RUN("verify", spec, "-n", "5", "--json");
    unsetenv("LD_PRELOAD");
    unsetenv("WRONG_BLAS");
}

Test(wrong_blas, is_named_as_the_side_that_is_wrong, .timeout = 120) {
    SKIP_UNDER_SANITIZERS();
    const ffn_product *right = ffn_blas_product(true);
    char name[160];
    snprintf(name, sizeof name, "the product is wrong, %.100s", right->describe(right->self));
    cr_assert(strstr(name, "OpenBLAS") != NULL);
    for (size_t i = 0; i < FAULTS; ++i) {
        verify_with(faults[i], "d48-f160-swiglu-bias");
        support_expect_status(1);
        cr_expect(strstr(support_result.out, name) != NULL, "%s: %s", faults[i], support_result.out);
        cr_expect(strstr(support_result.out, "core ") != NULL, "%s: %s", faults[i], support_result.out);
        cr_expect(strstr(support_result.out, "the kernels agree with those") != NULL, "%s: %s", faults[i],
                  support_result.out);
        const bool once = i == FAULTS - 1; /* in the first of two kernels */
        cr_expect_eq(strstr(support_result.out, "\"passed\":true") != NULL, once, "%s", support_result.out);
    }
}

Test(wrong_blas, is_named_at_4096x14336, .timeout = 120) {
    SKIP_UNDER_SANITIZERS();
    verify_with("single", "d4096-f14336-swiglu");
    support_expect_status(1);
    cr_expect(strstr(support_result.out, "the product is wrong") != NULL, "%s", support_result.out);
}

Test(wrong_blas, without_its_fault_passes) {
    SKIP_UNDER_SANITIZERS();
    verify_with("none", "d48-f160-swiglu-bias");
    support_expect_status(0);
}

/* Below, a product in this process that is wrong in the same ways. */

static int64_t calls;

static void off_by_one_column(void *self, int64_t m, int64_t n, int64_t k, const double *a, const double *b,
                              double *c) {
    (void)self;
    const ffn_product *right = ffn_blas_product(true);
    right->multiply(right->self, m, n, k, a, b, c);
    c[n - 1] = c[n - 2];
    ++calls;
}

static const char *its_name(void *self) {
    (void)self;
    return "a product with a fault";
}

static const ffn_product wrong = {.multiply = off_by_one_column, .describe = its_name};

static ffn_status prepare(fake_defect defect, const ffn_product *product, ffn_diag *diag) {
    fake_source fake;
    fake_source_init(&fake);
    fake.defect = defect;
    ffn_options options = {.source = &fake.source, .product = product, .store = ""};
    ffn_context *context;
    ffn_kernel *kernel;
    ffn_spec spec = support_spec("d64-f256-geglu-bias");
    cr_assert_eq(ffn_context_create(&options, &context, diag), FFN_OK, "%s", diag->text);
    cr_assert_eq(ffn_kernel_create(context, &spec, &kernel, diag), FFN_OK, "%s", diag->text);
    ffn_status status = ffn_kernel_prepare(kernel, 17, diag);
    ffn_kernel_destroy(kernel);
    ffn_context_destroy(context);
    fake_source_free(&fake);
    return status;
}

Test(wrong_blas, a_wrong_kernel_and_a_wrong_product_are_both_named) {
    NEEDS_IMAGES();
    static const fake_defect defects[] = {FAKE_COLUMN, FAKE_GATE_UP_SWAPPED, FAKE_UNIT_DROPPED, FAKE_COLUMN_ULP};
    for (size_t i = 0; i < sizeof defects / sizeof *defects; ++i) {
        ffn_diag diag = {.status = FFN_OK};
        cr_expect_eq(prepare(defects[i], &wrong, &diag), FFN_VERIFY_FAILED);
        cr_expect(strstr(diag.text, "the code is wrong") != NULL, "%s", diag.text);
        cr_expect(strstr(diag.text, "so is the product, a product with a fault") != NULL, "%s", diag.text);
    }
    cr_expect_gt(calls, 0);
}

Test(wrong_blas, a_wrong_kernel_is_named_by_a_right_product) {
    NEEDS_IMAGES();
    ffn_diag diag = {.status = FFN_OK};
    cr_expect_eq(prepare(FAKE_GATE_UP_SWAPPED, ffn_blas_product(true), &diag), FFN_VERIFY_FAILED);
    cr_expect(strstr(diag.text, "the code is wrong") != NULL && strstr(diag.text, "OpenBLAS") != NULL, "%s", diag.text);
    cr_expect(strstr(diag.text, "so is the product") == NULL, "%s", diag.text);
}
