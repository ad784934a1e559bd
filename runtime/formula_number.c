/* formula_number.c: decimal text <-> f32, correctly rounded, whatever the locale
 *
 * A decimal number is the exact ratio of two big integers; its 24 leading bits come out of a long division, the rest
 * decides the rounding. No floating-point arithmetic takes part, so the answer depends on nothing but the text. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formula_ast.h"

#define DIGITS_MAX 200 /* significant digits a number may have; f32 itself never needs more than 113 */
#define LIMBS 64       /* of 32 bits: 10^(DIGITS_MAX + 60) with room for shifts */

typedef struct big {
    int32_t used;          /* limbs; those above are zero, and not read */
    uint32_t limbs[LIMBS]; /* little-endian */
} big;

static void big_multiply_add(big *number, uint32_t factor, uint32_t carry) {
    for (int32_t i = 0; i < number->used; i++) {
        const uint64_t product = (uint64_t)number->limbs[i] * factor + carry;
        number->limbs[i] = (uint32_t)product;
        carry = (uint32_t)(product >> 32);
    }
    if (carry != 0)
        number->limbs[number->used++] = carry;
}

static int32_t big_compare(const big *a, const big *b) {
    if (a->used != b->used)
        return a->used < b->used ? -1 : 1;
    for (int32_t i = a->used - 1; i >= 0; i--)
        if (a->limbs[i] != b->limbs[i])
            return a->limbs[i] < b->limbs[i] ? -1 : 1;
    return 0;
}

/* a >= b */
static void big_subtract(big *a, const big *b) {
    uint32_t borrow = 0;
    for (int32_t i = 0; i < a->used; i++) {
        const uint64_t difference = (uint64_t)a->limbs[i] - (i < b->used ? b->limbs[i] : 0) - borrow;
        a->limbs[i] = (uint32_t)difference;
        borrow = (uint32_t)(difference >> 63);
    }
    while (a->used > 0 && a->limbs[a->used - 1] == 0)
        a->used--;
}

/* numerator / denominator, both positive, to f32: nearest, ties to even. Infinity where it is too large. */
static double ratio_round(big numerator, big denominator) {
    int32_t exponent = 0; /* value = ratio * 2^exponent, ratio in [1, 2) */
    while (big_compare(&numerator, &denominator) < 0) {
        big_multiply_add(&numerator, 2, 0);
        exponent--;
    }
    big twice = denominator;
    big_multiply_add(&twice, 2, 0);
    while (big_compare(&numerator, &twice) >= 0) {
        denominator = twice;
        big_multiply_add(&twice, 2, 0);
        exponent++;
    }
    const int32_t bits = exponent < -126 ? 24 + (exponent + 126) : 24; /* fewer where the result is subnormal */
    if (bits < 0)
        return 0;
    uint32_t quotient = 0;
    for (int32_t i = 0; i < bits; i++) {
        const bool one = big_compare(&numerator, &denominator) >= 0;
        if (one)
            big_subtract(&numerator, &denominator);
        quotient = quotient * 2 + one;
        big_multiply_add(&numerator, 2, 0);
    }
    const int32_t rest = big_compare(&numerator, &denominator); /* of half a unit */
    quotient += rest > 0 || (rest == 0 && (quotient & 1));
    const double value = ldexp((double)quotient, exponent - bits + 1);
    return value > 0x1.fffffep127 ? INFINITY : value;
}

static bool is_digit(const char *at, const char *end) {
    return at < end && *at >= '0' && *at <= '9';
}

size_t number_length(const char *begin, const char *end) {
    const char *at = begin;
    const bool leading = is_digit(at, end);
    while (is_digit(at, end))
        at++;
    if (at < end && *at == '.' && (leading || is_digit(at + 1, end)))
        for (at++; is_digit(at, end);)
            at++;
    if (at == begin)
        return 0;
    if (at < end && (*at == 'e' || *at == 'E')) {
        const char *power = at + 1;
        if (power < end && (*power == '+' || *power == '-'))
            power++;
        if (is_digit(power, end)) {
            while (is_digit(power, end))
                power++;
            at = power;
        }
    }
    return (size_t)(at - begin);
}

number_answer number_parse(const char *text, size_t length, double *value) {
    big digits;
    digits.used = 0;
    int32_t significant = 0;
    int64_t scale = 0; /* value = digits * 10^scale */
    bool fraction = false;
    size_t i = 0;
    for (; i < length && text[i] != 'e' && text[i] != 'E'; i++) {
        if (text[i] == '.') {
            fraction = true;
            continue;
        }
        if (significant > 0 || text[i] != '0')
            significant++;
        if (significant > DIGITS_MAX)
            return NUMBER_TOO_LONG;
        big_multiply_add(&digits, 10, (uint32_t)(text[i] - '0'));
        scale -= fraction;
    }
    if (significant == 0) {
        *value = 0;
        return NUMBER_OK;
    }
    if (i < length) {
        const bool negative = text[i + 1] == '-';
        int64_t power = 0;
        const bool has_sign = negative || text[i + 1] == '+';
        for (i += has_sign ? 2 : 1; i < length; i++)
            if (power < 1000000000)
                power = power * 10 + (text[i] - '0');
        scale += negative ? -power : power;
    }
    const int64_t magnitude = scale + significant; /* value < 10^magnitude */
    if (magnitude > 39)
        return NUMBER_TOO_LARGE;
    if (magnitude < -45) {
        *value = 0;
        return NUMBER_OK;
    }
    big one;
    one.used = 0;
    big_multiply_add(&one, 0, 1);
    big *const scaled = scale < 0 ? &one : &digits;
    for (int64_t k = 0; k < llabs(scale); k++)
        big_multiply_add(scaled, 10, 0);
    const double rounded = ratio_round(digits, one);
    if (isinf(rounded))
        return NUMBER_TOO_LARGE;
    *value = rounded;
    return NUMBER_OK;
}

void number_format(float value, char text[NUMBER_TEXT_BYTES]) {
    char digits[16];
    int32_t count = 0;
    long power = 0; /* |value| = d.ddd * 10^power */
    for (int32_t precision = 0; precision < 9; precision++) {
        char printed[40];
        snprintf(printed, sizeof printed, "%.*e", (int)precision, fabs((double)value));
        const char *const mark = strchr(printed, 'e');
        count = 0;
        for (const char *at = printed; at < mark; at++) /* skips the point, whatever the locale calls it */
            if (isdigit((unsigned char)*at))
                digits[count++] = *at;
        power = strtol(mark + 1, NULL, 10);
        char again[40];
        const int length = snprintf(again, sizeof again, "%c.%.*se%ld", digits[0], (int)(count - 1), digits + 1, power);
        double back = 0;
        if (number_parse(again, (size_t)length, &back) == NUMBER_OK && back == fabs((double)value))
            break;
    }
    while (count > 1 && digits[count - 1] == '0')
        count--;
    const char *const sign = signbit(value) ? "-" : "";
    if (power < -5 || power > 9)
        snprintf(text, NUMBER_TEXT_BYTES, "%s%c%s%.*se%ld", sign, digits[0], count > 1 ? "." : "", (int)(count - 1),
                 digits + 1, power);
    else if (power < 0)
        snprintf(text, NUMBER_TEXT_BYTES, "%s0.%.*s%.*s", sign, (int)(-power - 1), "00000", (int)count, digits);
    else if (count <= power + 1)
        snprintf(text, NUMBER_TEXT_BYTES, "%s%.*s%.*s", sign, (int)count, digits, (int)(power + 1 - count),
                 "000000000");
    else
        snprintf(text, NUMBER_TEXT_BYTES, "%s%.*s.%.*s", sign, (int)(power + 1), digits, (int)(count - power - 1),
                 digits + power + 1);
}
