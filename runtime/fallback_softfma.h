/* fallback_softfma.h: a * b + c rounded once to f32, to nearest even, without an FMA unit and without libm
 *
 * The product of two f32 is exact in double (48 bits of 53, exponents far inside the range). The sum rounded to odd
 * carries 53 bits, more than 24 + 2, so the last rounding, to f32, is the only one that counts: normal, subnormal, zero
 * or overflowing results alike (Boldo and Melquiond, "When double rounding is odd", 2005). Rounding to odd: TwoSum
 * gives the sum's error exactly; where there is one, the sum's last bit becomes 1, after a step toward zero if the sum
 * was rounded away from it. With an infinity or a NaN the error is a NaN, which compares as no error.
 *
 * Fusing `product` into a later addition would change nothing, since it is exact; fast-math would. */
#ifndef FFN_FALLBACK_SOFTFMA_H
#define FFN_FALLBACK_SOFTFMA_H

#include <float.h>
#include <stdint.h>
#include <string.h>

#if defined(__FAST_MATH__)
#error "softfma needs IEEE arithmetic: compile without -ffast-math"
#endif
#if FLT_EVAL_METHOD != 0
#error "softfma needs float and double evaluated in their own precision (on x86: -msse2 -mfpmath=sse)"
#endif

static inline float fallback_softfma(float a, float b, float c) {
    const double product = (double)a * (double)b;
    const double addend = (double)c;
    const double sum = product + addend;
    const double added = sum - product;
    const double error = (product - (sum - added)) + (addend - added);
    uint64_t sum_bits, error_bits;
    memcpy(&sum_bits, &sum, sizeof sum_bits);
    memcpy(&error_bits, &error, sizeof error_bits);
    const uint64_t inexact = (uint64_t)((error < 0.0) | (error > 0.0));
    const uint64_t away_from_zero = (sum_bits ^ error_bits) >> 63 & inexact;
    sum_bits = (sum_bits - away_from_zero) | inexact;
    double odd;
    memcpy(&odd, &sum_bits, sizeof odd);
    return (float)odd;
}

#endif
