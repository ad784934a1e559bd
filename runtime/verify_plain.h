/* verify_plain.h: matrix products in plain C doubles, and whether the product that check (c) was handed gives the same
 */
#ifndef FFN_VERIFY_PLAIN_H
#define FFN_VERIFY_PLAIN_H

#include "ffn.h"

/* The first element of a product that is not what plain sums give. */
typedef struct verify_plain {
    const ffn_product *product;
    const char *sums; /* what the caller is summing, and the first of its columns */
    int64_t column;
    bool wrong;
    const char *wrong_sums;
    int64_t wrong_row, wrong_column, terms;
    double given, right, possible; /* possible: how far apart two ways of summing in double may be */
} verify_plain;

#define VERIFY_PLAIN_ELEMENTS 64 /* most of m n */

/* c[m][n] = a[m][k] b[k][n] by plain sums. The product computes the same, and its first wrong element is kept. */
void verify_plain_multiply(verify_plain *p, int64_t m, int64_t n, int64_t k, const double *a, const double *b,
                           double *c);

#endif
