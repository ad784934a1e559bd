/* test_softfma.c: softfma against fmaf and against MPFR, bit for bit, where rounding is hardest */
#include "fallback.h"
#include "support_data.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <mpfr.h>
#include <string.h>

typedef struct triple {
    float a, b, c;
} triple;

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static bool same(float a, float b) {
    return bits_of(a) == bits_of(b) || (isnan(a) && isnan(b));
}

/* Random sign and mantissa, exponent low .. high of 2. Mantissas are dense, or all zero or ones but for a few bits. */
static float random_float(support_rng *rng, int low, int high) {
    uint32_t mantissa = (uint32_t)support_next(rng) & 0x7fffff;
    switch (support_between(rng, 0, 3)) {
    case 0:
        mantissa &= (uint32_t)support_next(rng) & (uint32_t)support_next(rng) & (uint32_t)support_next(rng);
        break;
    case 1:
        mantissa |= ~((uint32_t)support_next(rng) & (uint32_t)support_next(rng) & (uint32_t)support_next(rng));
        mantissa &= 0x7fffff;
        break;
    default:
        break;
    }
    const float value = ldexpf((float)(mantissa | 0x800000), (int)support_between(rng, low, high) - 23);
    return support_next(rng) & 1 ? -value : value;
}

static float nudged(support_rng *rng, float value) {
    return float_of(bits_of(value) + (uint32_t)support_between(rng, -3, 3));
}

/* ---- Kinds of hostile operands ---- */

static triple any_bits(support_rng *rng) {
    return (triple){float_of((uint32_t)support_next(rng)), float_of((uint32_t)support_next(rng)),
                    float_of((uint32_t)support_next(rng))};
}

static triple like_exponents(support_rng *rng) {
    const float a = random_float(rng, -20, 20), b = random_float(rng, -20, 20);
    return (triple){a, b, random_float(rng, -60, 60)};
}

static triple cancelling(support_rng *rng) {
    const float a = random_float(rng, -60, 60), b = random_float(rng, -60, 60);
    return (triple){a, b, nudged(rng, -(a * b))};
}

/* The product is half a unit in the last place of the addend, or as near to it as products come. */
static triple near_tie(support_rng *rng) {
    const int exponent = (int)support_between(rng, -100, 127), split = (int)support_between(rng, -20, 20);
    const float c = random_float(rng, exponent, exponent);
    const float a = ldexpf(1.0f, split), b = ldexpf(1.0f, exponent - 24 - split);
    const float sign = support_next(rng) & 1 ? 1.0f : -1.0f;
    return (triple){sign * nudged(rng, a), support_next(rng) & 1 ? nudged(rng, b) : b, c};
}

/* The sum of two halves of a tie, far below: the first rounding hides what decides the second. */
static triple hidden_tie(support_rng *rng) {
    const float a = random_float(rng, 0, 0), b = random_float(rng, 0, 0);
    const float product = a * b;
    const float rest = fmaf(a, b, -product);
    return (triple){a, b, ldexpf(rest == 0.0f ? 1.0f : -rest, (int)support_between(rng, -30, 3))};
}

static triple subnormal_result(support_rng *rng) {
    const int split = (int)support_between(rng, -60, 60), exponent = (int)support_between(rng, -152, -124);
    const float a = random_float(rng, split, split), b = random_float(rng, exponent - split, exponent - split);
    const float c = random_float(rng, -150, -124);
    return (triple){a, b, support_between(rng, 0, 3) == 0 ? copysignf(0.0f, c) : c};
}

static triple near_overflow(support_rng *rng) {
    const int split = (int)support_between(rng, 0, 100);
    const float c = nudged(rng, FLT_MAX);
    const float a = random_float(rng, split, split), b = random_float(rng, 103 - split, 104 - split);
    return (triple){a, b, support_next(rng) & 1 ? c : -c};
}

typedef triple (*kind)(support_rng *rng);
static const kind kinds[] = {any_bits,   like_exponents,   cancelling,   near_tie,
                             hidden_tie, subnormal_result, near_overflow};
enum { KINDS = sizeof kinds / sizeof *kinds };

Test(softfma, equals_the_c_library_on_hostile_operands) {
    support_rng rng = {1};
    for (int k = 0; k < KINDS; k++)
        for (int i = 0; i < 4000000; i++) {
            const triple t = kinds[k](&rng);
            const float want = fmaf(t.a, t.b, t.c), got = softfma(t.a, t.b, t.c);
            if (!same(want, got))
                cr_assert(false, "kind %d: softfma(%a, %a, %a) is %a, fmaf %a", k, (double)t.a, (double)t.b,
                          (double)t.c, (double)got, (double)want);
        }
}

/* MPFR rounds as f32 does: 24 bits, exponents of f32, subnormals. */
static float mpfr_answer(triple t, mpfr_t *v) {
    mpfr_set_flt(v[0], t.a, MPFR_RNDN);
    mpfr_set_flt(v[1], t.b, MPFR_RNDN);
    mpfr_set_flt(v[2], t.c, MPFR_RNDN);
    const int ternary = mpfr_fma(v[3], v[0], v[1], v[2], MPFR_RNDN);
    mpfr_subnormalize(v[3], ternary, MPFR_RNDN);
    return mpfr_get_flt(v[3], MPFR_RNDN);
}

Test(softfma, equals_mpfr_on_hostile_operands) {
    mpfr_set_emin(-148);
    mpfr_set_emax(128);
    mpfr_t v[4];
    for (int i = 0; i < 4; i++)
        mpfr_init2(v[i], 24);
    support_rng rng = {2};
    for (int k = 0; k < KINDS; k++)
        for (int i = 0; i < 200000; i++) {
            const triple t = kinds[k](&rng);
            const float want = mpfr_answer(t, v), got = softfma(t.a, t.b, t.c);
            if (!same(want, got))
                cr_assert(false, "kind %d: softfma(%a, %a, %a) is %a, MPFR says %a", k, (double)t.a, (double)t.b,
                          (double)t.c, (double)got, (double)want);
        }
    for (int i = 0; i < 4; i++)
        mpfr_clear(v[i]);
    mpfr_free_cache();
}

Test(softfma, special_values_in_every_combination) {
    const float values[] = {0.0f,    1.0f,           1.5f,    0x1p-149f, 0x1p-126f, 0x1.fffffcp-127f, 0x1.000002p0f,
                            FLT_MAX, 0x1.fffffep-1f, 0x1p64f, 0x1p-75f,  0x1p-24f,  INFINITY,         NAN};
    enum { COUNT = sizeof values / sizeof *values };
    for (int i = 0; i < 8 * COUNT * COUNT * COUNT; i++) {
        const float a = values[i / 8 % COUNT], b = values[i / 8 / COUNT % COUNT], c = values[i / 8 / COUNT / COUNT];
        const triple t = {i & 1 ? -a : a, i & 2 ? -b : b, i & 4 ? -c : c};
        const float want = fmaf(t.a, t.b, t.c), got = softfma(t.a, t.b, t.c);
        cr_assert(same(want, got), "softfma(%a, %a, %a) is %a, fmaf %a", (double)t.a, (double)t.b, (double)t.c,
                  (double)got, (double)want);
    }
}

/* Known answers, from arithmetic by hand. */
Test(softfma, known_answers) {
    cr_assert_eq(softfma(0x1.000002p0f, 0x1.000002p0f, -0x1.000004p0f), 0x1p-46f);
    cr_assert_eq(softfma(0x1p-75f, 0x1p-75f, 0.0f), 0.0f, "a tie between 0 and the least subnormal goes to even");
    cr_assert_eq(softfma(0x1.000002p-75f, 0x1p-75f, 0.0f), 0x1p-149f);
    cr_assert_eq(softfma(0x1p52f, 0x1p51f, FLT_MAX), INFINITY, "a tie at the top goes to even, past the range");
    cr_assert_eq(softfma(0x1.fffffep51f, 0x1p51f, FLT_MAX), FLT_MAX);
    cr_assert_eq(softfma(FLT_MAX, FLT_MAX, -INFINITY), -INFINITY, "the product does not overflow by itself");
    cr_assert(signbit(softfma(-0.0f, 1.0f, -0.0f)) != 0);
    cr_assert(signbit(softfma(1.0f, 1.0f, -1.0f)) == 0);
}
