/* support_mpfr.c: see support_mpfr.h */
#include "support_mpfr.h"

#include <math.h>
#include <mpfr.h>
#include <stddef.h>
#include <string.h>

#define PRECISION 128

/* y = F(x), x finite. One temporary for each step that needs one. */
typedef void (*exact_function)(mpfr_t y, const mpfr_t x, const double *parameters);

static void exact_identity(mpfr_t y, const mpfr_t x, const double *p) {
    (void)p;
    mpfr_set(y, x, MPFR_RNDN);
}

static void exact_relu(mpfr_t y, const mpfr_t x, const double *p) {
    (void)p;
    if (mpfr_sgn(x) > 0)
        mpfr_set(y, x, MPFR_RNDN);
    else
        mpfr_set_zero(y, 1);
}

static void exact_relu2(mpfr_t y, const mpfr_t x, const double *p) {
    exact_relu(y, x, p);
    mpfr_sqr(y, y, MPFR_RNDN);
}

static void exact_leaky_relu(mpfr_t y, const mpfr_t x, const double *p) {
    if (mpfr_sgn(x) < 0)
        mpfr_mul_d(y, x, p[0], MPFR_RNDN);
    else
        mpfr_set(y, x, MPFR_RNDN);
}

/* 1 / (1 + e^-x) */
static void exact_sigmoid(mpfr_t y, const mpfr_t x, const double *p) {
    (void)p;
    mpfr_neg(y, x, MPFR_RNDN);
    mpfr_exp(y, y, MPFR_RNDN);
    mpfr_add_ui(y, y, 1, MPFR_RNDN);
    mpfr_ui_div(y, 1, y, MPFR_RNDN);
}

static void exact_swish(mpfr_t y, const mpfr_t x, const double *p) {
    mpfr_mul_d(y, x, p[0], MPFR_RNDN);
    exact_sigmoid(y, y, p);
    mpfr_mul(y, y, x, MPFR_RNDN);
}

static void exact_silu(mpfr_t y, const mpfr_t x, const double *p) {
    (void)p;
    exact_swish(y, x, (const double[]){1});
}

static void exact_gelu_quick(mpfr_t y, const mpfr_t x, const double *p) {
    (void)p;
    exact_swish(y, x, (const double[]){(double)1.702f});
}

/* x erfc(-x / sqrt(2)) / 2 */
static void exact_gelu(mpfr_t y, const mpfr_t x, const double *p) {
    (void)p;
    mpfr_sqrt_ui(y, 2, MPFR_RNDN);
    mpfr_div(y, x, y, MPFR_RNDN);
    mpfr_neg(y, y, MPFR_RNDN);
    mpfr_erfc(y, y, MPFR_RNDN);
    mpfr_mul(y, y, x, MPFR_RNDN);
    mpfr_div_2ui(y, y, 1, MPFR_RNDN);
}

/* (1 + tanh(z)) / 2 is 1 / (1 + e^-2z), without the cancellation; z = sqrt(2 / pi) (x + 0.044715 x^3) */
static void exact_gelu_tanh(mpfr_t y, const mpfr_t x, const double *p) {
    mpfr_t z, c;
    mpfr_inits2(PRECISION, z, c, (mpfr_ptr)0);
    mpfr_set_str(c, "0.044715", 10, MPFR_RNDN);
    mpfr_sqr(z, x, MPFR_RNDN);
    mpfr_mul(z, z, c, MPFR_RNDN);
    mpfr_add_ui(z, z, 1, MPFR_RNDN);
    mpfr_mul(z, z, x, MPFR_RNDN);
    mpfr_const_pi(c, MPFR_RNDN);
    mpfr_ui_div(c, 8, c, MPFR_RNDN);
    mpfr_sqrt(c, c, MPFR_RNDN);
    mpfr_mul(z, z, c, MPFR_RNDN);
    exact_sigmoid(z, z, p);
    mpfr_mul(y, z, x, MPFR_RNDN);
    mpfr_clears(z, c, (mpfr_ptr)0);
}

static void exact_tanh(mpfr_t y, const mpfr_t x, const double *p) {
    (void)p;
    mpfr_tanh(y, x, MPFR_RNDN);
}

static void exact_elu(mpfr_t y, const mpfr_t x, const double *p) {
    if (mpfr_sgn(x) < 0) {
        mpfr_expm1(y, x, MPFR_RNDN);
        mpfr_mul_d(y, y, p[0], MPFR_RNDN);
    } else {
        mpfr_set(y, x, MPFR_RNDN);
    }
}

/* Klambauer et al. 2017 */
static void exact_selu(mpfr_t y, const mpfr_t x, const double *p) {
    (void)p;
    mpfr_t c;
    mpfr_init2(c, PRECISION);
    exact_elu(y, x, (const double[]){1});
    if (mpfr_sgn(x) < 0) {
        mpfr_set_str(c, "1.6732632423543772848170429916717", 10, MPFR_RNDN);
        mpfr_mul(y, y, c, MPFR_RNDN);
    }
    mpfr_set_str(c, "1.0507009873554804934193349852946", 10, MPFR_RNDN);
    mpfr_mul(y, y, c, MPFR_RNDN);
    mpfr_clear(c);
}

/* log(1 + e^x) = max(x, 0) + log(1 + e^-|x|), which does not overflow */
static void exact_softplus(mpfr_t y, const mpfr_t x, const double *p) {
    (void)p;
    mpfr_abs(y, x, MPFR_RNDN);
    mpfr_neg(y, y, MPFR_RNDN);
    mpfr_exp(y, y, MPFR_RNDN);
    mpfr_log1p(y, y, MPFR_RNDN);
    if (mpfr_sgn(x) > 0)
        mpfr_add(y, y, x, MPFR_RNDN);
}

static void exact_mish(mpfr_t y, const mpfr_t x, const double *p) {
    exact_softplus(y, x, p);
    mpfr_tanh(y, y, MPFR_RNDN);
    mpfr_mul(y, y, x, MPFR_RNDN);
}

/* min(max(x + 3, 0), 6) / 6 */
static void exact_hardsigmoid(mpfr_t y, const mpfr_t x, const double *p) {
    (void)p;
    mpfr_add_ui(y, x, 3, MPFR_RNDN);
    if (mpfr_sgn(y) < 0)
        mpfr_set_zero(y, 1);
    if (mpfr_cmp_ui(y, 6) > 0)
        mpfr_set_ui(y, 6, MPFR_RNDN);
    mpfr_div_ui(y, y, 6, MPFR_RNDN);
}

static void exact_hardswish(mpfr_t y, const mpfr_t x, const double *p) {
    exact_hardsigmoid(y, x, p);
    mpfr_mul(y, y, x, MPFR_RNDN);
}

#define ONE_CALL(NAME)                                                    \
    static void exact_##NAME(mpfr_t y, const mpfr_t x, const double *p) { \
        (void)p;                                                          \
        mpfr_##NAME(y, x, MPFR_RNDN);                                     \
    }
ONE_CALL(exp)
ONE_CALL(expm1)
ONE_CALL(log)
ONE_CALL(log1p)
ONE_CALL(erf)
ONE_CALL(erfc)

typedef struct exact_row {
    const char *name;
    exact_function of;
    bool gated;      /* times u */
    float low, high; /* limits at -infinity and +infinity; NaN: none is defined */
} exact_row;

static const exact_row exact_rows[] = {
    {"identity", exact_identity, false, -INFINITY, INFINITY},
    {"relu", exact_relu, false, 0, INFINITY},
    {"relu2", exact_relu2, false, 0, INFINITY},
    {"leaky_relu", exact_leaky_relu, false, -INFINITY, INFINITY},
    {"gelu", exact_gelu, false, 0, INFINITY},
    {"gelu_tanh", exact_gelu_tanh, false, 0, INFINITY},
    {"gelu_quick", exact_gelu_quick, false, 0, INFINITY},
    {"silu", exact_silu, false, 0, INFINITY},
    {"swish", exact_swish, false, 0, INFINITY},
    {"sigmoid", exact_sigmoid, false, 0, 1},
    {"tanh", exact_tanh, false, -1, 1},
    {"elu", exact_elu, false, NAN, INFINITY},
    {"selu", exact_selu, false, -1.7580993408473766f, INFINITY},
    {"softplus", exact_softplus, false, 0, INFINITY},
    {"mish", exact_mish, false, 0, INFINITY},
    {"hardsigmoid", exact_hardsigmoid, false, 0, 1},
    {"hardswish", exact_hardswish, false, 0, INFINITY},
    {"glu", exact_sigmoid, true, 0, 1},
    {"reglu", exact_relu, true, 0, INFINITY},
    {"geglu", exact_gelu, true, 0, INFINITY},
    {"geglu_tanh", exact_gelu_tanh, true, 0, INFINITY},
    {"swiglu", exact_silu, true, 0, INFINITY},
    {"bilinear", exact_identity, true, -INFINITY, INFINITY},
    {"swiglu_oai", exact_swish, true, 0, NAN},
    {"exp", exact_exp, false, 0, INFINITY},
    {"expm1", exact_expm1, false, -1, INFINITY},
    {"log", exact_log, false, NAN, INFINITY},
    {"log1p", exact_log1p, false, NAN, INFINITY},
    {"erf", exact_erf, false, -1, 1},
    {"erfc", exact_erfc, false, 2, 0},
};

static const exact_row *row_of(const char *name) {
    for (size_t i = 0; i < sizeof exact_rows / sizeof exact_rows[0]; i++)
        if (strcmp(exact_rows[i].name, name) == 0)
            return &exact_rows[i];
    return NULL;
}

bool exact_knows(const char *name) {
    return row_of(name) != NULL;
}

static double clamp(double x, double low, double high) {
    return x < low ? low : x > high ? high : x;
}

/* y = the activation; infinite arguments through the limits. */
static void evaluate(mpfr_t y, const exact_row *row, const double *parameters, double g, double u) {
    const bool clamped = strcmp(row->name, "swiglu_oai") == 0;
    if (clamped) {
        g = g > parameters[1] ? parameters[1] : g;
        u = clamp(u, -parameters[1], parameters[1]);
    }
    mpfr_t x;
    mpfr_init2(x, PRECISION);
    mpfr_set_d(x, g, MPFR_RNDN);
    if (strcmp(row->name, "elu") == 0 && g < 0 && isinf(g))
        mpfr_set_d(y, -parameters[0], MPFR_RNDN);
    else if (isinf(g))
        mpfr_set_d(y, (double)(g < 0 ? row->low : row->high), MPFR_RNDN);
    else
        row->of(y, x, parameters);
    mpfr_set_d(x, u, MPFR_RNDN);
    if (clamped)
        mpfr_add_ui(x, x, 1, MPFR_RNDN);
    if (row->gated)
        mpfr_mul(y, y, x, MPFR_RNDN);
    mpfr_clear(x);
}

exact_error exact_compare(const char *name, const double *parameters, float g, float u, float got) {
    const exact_row *const row = row_of(name);
    exact_error error = {false, 0, 0, NAN};
    if (isnan(g) || (row->gated && isnan(u))) {
        error.wrong = !isnan(got);
        return error;
    }
    mpfr_t y, difference;
    mpfr_inits2(PRECISION, y, difference, (mpfr_ptr)0);
    evaluate(y, row, parameters, (double)g, (double)u);
    error.value = mpfr_get_d(y, MPFR_RNDN);
    if (fabs(error.value) >= 0x1.ffffffp127)
        error.value = copysign(INFINITY, error.value);
    if (isnan(error.value) || isinf(error.value) || isnan(got) || isinf(got)) {
        error.wrong = isnan(error.value) ? !isnan(got) : (double)got != error.value;
    } else {
        mpfr_d_sub(difference, (double)got, y, MPFR_RNDN);
        mpfr_abs(difference, difference, MPFR_RNDN);
        const long exponent = mpfr_zero_p(y) || mpfr_get_exp(y) - 1 < -126 ? -126 : mpfr_get_exp(y) - 1;
        error.units = ldexp(mpfr_get_d(difference, MPFR_RNDN), 149);
        error.ulps = ldexp(mpfr_get_d(difference, MPFR_RNDN), (int)(23 - exponent));
    }
    mpfr_clears(y, difference, (mpfr_ptr)0);
    return error;
}

void exact_cleanup(void) {
    mpfr_free_cache();
}
