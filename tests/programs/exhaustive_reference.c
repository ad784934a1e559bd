/* exhaustive_reference.c: see exhaustive_reference.h
 *
 * A file of its own because it is compiled with -O3 -ffast-math, for AVX2 on x86-64: then gcc turns the loops' calls
 * into those of glibc's libmvec, four at a time, 4 ULP of double at most. Elsewhere they are calls of libm. So nothing
 * here may look at a NaN, and each formula is written so that no step overflows a double. */
#include "exhaustive_reference.h"

#include <math.h>
#include <string.h>

#define LARGEST 0x1p128
#define SMALLEST 0x1p-126

static inline double at_most(double x, double limit) {
    return x < limit ? x : limit;
}

static inline double at_least(double x, double limit) {
    return x > limit ? x : limit;
}

/* 1 / (1 + e^-x) */
static inline double logistic(double x) {
    return 1 / (1 + exp(at_most(-x, 700)));
}

/*  name, F of x and of the parameters p */
#define REFERENCES(X)                                                                                 \
    X(identity, x)                                                                                    \
    X(relu, at_least(x, 0))                                                                           \
    X(relu2, at_least(x, 0) * at_least(x, 0))                                                         \
    X(leaky_relu, x < 0 ? p[0] * x : x)                                                               \
    X(sigmoid, logistic(x))                                                                           \
    X(silu, x *logistic(x))                                                                           \
    X(swish, x *logistic(p[0] * x))                                                                   \
    X(gelu_quick, x *logistic((double)1.702f * x))                                                    \
    X(swiglu_oai, at_most(x, p[1]) * logistic(p[0] * at_most(x, p[1])))                               \
    X(gelu, 0.5 * x * erfc(x * -0.70710678118654752440))                                              \
    X(gelu_tanh, x *logistic(1.5957691216057307117 * x * (1 + 0.044715 * x * x)))                     \
    X(tanh, tanh(x))                                                                                  \
    X(elu, x < 0 ? p[0] * expm1(at_most(x, 0)) : x)                                                   \
    X(selu, 1.0507009873554804934193 * (x < 0 ? 1.6732632423543772848170 * expm1(at_most(x, 0)) : x)) \
    X(softplus, at_least(x, 0) + log1p(exp(-fabs(x))))                                                \
    X(mish, x > 40 ? x                                                                                \
                   : x * (exp(at_most(x, 40)) * (exp(at_most(x, 40)) + 2)) /                          \
                         (exp(at_most(x, 40)) * (exp(at_most(x, 40)) + 2) + 2))                       \
    X(hardsigmoid, at_most(at_least(x + 3, 0), 6) / 6)                                                \
    X(hardswish, x *(at_most(at_least(x + 3, 0), 6) / 6))                                             \
    X(exp, exp(at_least(at_most(x, 700), -700)))                                                      \
    X(expm1, expm1(at_most(x, 700)))                                                                  \
    X(log, log(x))                                                                                    \
    X(log1p, log1p(x))                                                                                \
    X(erf, erf(x))                                                                                    \
    X(erfc, erfc(x))

#define REFERENCE_FUNCTION(NAME, VALUE)                                                                   \
    static void of_##NAME(const double *p, int32_t count, const float *restrict in, double *restrict y) { \
        (void)p;                                                                                          \
        for (int32_t i = 0; i < count; i++) {                                                             \
            const double x = (double)in[i];                                                               \
            y[i] = VALUE;                                                                                 \
        }                                                                                                 \
    }
REFERENCES(REFERENCE_FUNCTION)

reference_function reference_of(const char *name) {
#define REFERENCE_ROW(NAME, VALUE) {#NAME, of_##NAME},
    static const struct {
        const char *name;
        reference_function of;
    } rows[] = {REFERENCES(REFERENCE_ROW){"glu", of_sigmoid},
                {"reglu", of_relu},
                {"geglu", of_gelu},
                {"geglu_tanh", of_gelu_tanh},
                {"swiglu", of_silu},
                {"bilinear", of_identity}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].name, name) == 0)
            return rows[i].of;
    return NULL;
}

static inline double clipped(double x) {
    return at_most(at_least(x, -LARGEST), LARGEST);
}

/* 1 / ulp(y), from y's exponent e: 2^(23 - e) has the exponent field 2 * 1023 + 23 - (e + 1023). */
static inline double per_unit(double magnitude) {
    const double normal = at_least(magnitude, SMALLEST);
    int64_t bits;
    double result;
    memcpy(&bits, &normal, sizeof bits);
    bits = (INT64_C(2069) << 52) - (bits & (INT64_C(0x7ff) << 52));
    memcpy(&result, &bits, sizeof result);
    return result;
}

reference_errors reference_measure(int32_t count, const float *restrict out, const double *restrict y, double above,
                                   double margin, double *restrict error) {
    double largest = 0, subnormal = 0, above_1 = 0, above_2 = 0, doubtful = 0;
    for (int32_t i = 0; i < count; i++) {
        const double value = clipped(y[i]), magnitude = fabs(value);
        const double e = fabs(clipped((double)out[i]) - value) * per_unit(magnitude);
        const double normal = magnitude < SMALLEST ? 0 : e, small = magnitude < SMALLEST ? e : 0;
        error[i] = e;
        largest = at_least(normal, largest);
        subnormal = at_least(small, subnormal);
        above_1 += normal > 1 + above ? 1 : 0;
        above_2 += normal > 2 + above ? 1 : 0;
        doubtful += fabs(normal - above - 1) < margin ? 1 : 0;
        doubtful += fabs(normal - above - 2) < margin ? 1 : 0;
    }
    return (reference_errors){largest, subnormal, (int32_t)above_1, (int32_t)above_2, (int32_t)doubtful};
}

double reference_distance(int32_t count, const float *restrict x, const float *restrict out, const double *restrict y) {
    double largest = 0;
    for (int32_t i = 0; i < count; i++)
        largest =
            at_least(fabs(clipped((double)out[i]) - clipped(y[i])) / at_least(clipped(fabs((double)x[i])), 1), largest);
    return largest;
}

int32_t reference_turns(int32_t count, const float *out, int rising) {
    int32_t turns = 0;
    if (rising)
        for (int32_t i = 0; i < count - 1; i++)
            turns += out[i + 1] < out[i];
    else
        for (int32_t i = 0; i < count - 1; i++)
            turns += out[i + 1] > out[i];
    return turns;
}
