/* The digest of results: equal bits give equal digests whatever the memory around them; published values of XXH3. */
#include "ffn.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static float from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

Test(digest, of_nothing_is_the_published_xxh3_of_nothing) {
    cr_expect_eq(ffn_digest(NULL, 0, 768, 768), UINT64_C(0x2d06800538d394c2));
}

Test(digest, is_xxh3_of_the_values_row_by_row) {
    enum { ROWS = 7, COLS = 1531 }; /* rows longer than any block the hash works in */
    static float values[ROWS * COLS];
    for (size_t i = 0; i < ROWS * COLS; i++)
        values[i] = (float)i * 0.37f - 100.0f;
    for (int64_t n = 1; n <= ROWS; n++)
        for (int64_t d = 1; d <= COLS; d += 255)
            cr_expect_eq(ffn_digest(values, n, d, d), XXH3_64bits(values, (size_t)(n * d) * sizeof *values));
}

Test(digest, does_not_see_the_padding_between_rows) {
    enum { ROWS = 5, COLS = 13, LD = 16 };
    float dense[ROWS * COLS], padded[ROWS * LD];
    for (size_t i = 0; i < ROWS * LD; i++)
        padded[i] = NAN;
    for (size_t r = 0; r < ROWS; r++)
        for (size_t c = 0; c < COLS; c++)
            padded[r * LD + c] = dense[r * COLS + c] = (float)(r * 100 + c);
    cr_expect_eq(ffn_digest(padded, ROWS, COLS, LD), ffn_digest(dense, ROWS, COLS, COLS));
}

Test(digest, every_nan_counts_as_the_same) {
    const uint32_t nans[] = {0x7fc00000, 0xffc00000, 0x7f800001, 0xff800001, 0x7fffffff, 0xffffffff, 0x7fc12345};
    float values[3] = {1.0f, from_bits(nans[0]), 2.0f};
    const uint64_t expected = XXH3_64bits(values, sizeof values);
    for (size_t i = 0; i < sizeof nans / sizeof *nans; i++) {
        memcpy(&values[1], &nans[i], sizeof nans[i]);
        cr_expect_eq(ffn_digest(values, 1, 3, 3), expected, "NaN 0x%08x", nans[i]);
    }
}

Test(digest, tells_apart_what_has_other_bits) {
    const uint32_t others[] = {0x00000000, 0x80000000, 0x00000001, 0x7f800000, 0xff800000, 0x7fc00000, 0x3f800000};
    uint64_t seen[sizeof others / sizeof *others];
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        float value = from_bits(others[i]);
        seen[i] = ffn_digest(&value, 1, 1, 1);
        for (size_t j = 0; j < i; j++)
            cr_expect_neq(seen[i], seen[j], "0x%08x and 0x%08x", others[i], others[j]);
    }
}
