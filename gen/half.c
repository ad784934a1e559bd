/* half.c: bits of f16 (1 sign, 5 exponent, 10 mantissa) and bf16 (1, 8, 7) -> the same value in f32 (1, 8, 23) */
#include "half.h"

#include <string.h>

static float from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

float half_f16_widen(uint16_t bits) {
    uint32_t sign = (bits & UINT32_C(0x8000)) << 16, exponent = bits >> 10 & 31u, mantissa = bits & 0x3ffu;
    if (exponent == 31)
        return from_bits(sign | UINT32_C(0x7f800000) | mantissa << 13 | (mantissa ? UINT32_C(0x400000) : 0));
    if (exponent == 0) {
        float value = (float)mantissa * 0x1p-24f;
        return sign ? -value : value;
    }
    return from_bits(sign | (exponent + 127 - 15) << 23 | mantissa << 13);
}

float half_bf16_widen(uint16_t bits) {
    uint32_t is_nan = (bits & 0x7fffu) > 0x7f80u;
    return from_bits((uint32_t)bits << 16 | (is_nan ? UINT32_C(0x400000) : 0));
}
