/* verify_plain.c: see verify_plain.h
 *
 * Two sums of the same k products in double, whatever their order and fusing, differ by at most 2 gamma_k times the sum
 * of absolute products, gamma_k = k u / (1 - k u), u = 2^-53. That is 2^-28 of what f32 would leave, so single
 * precision inside a product shows as well as a wrong index does. */
#include "verify_plain.h"

#include <math.h>

void verify_plain_multiply(verify_plain *p, int64_t m, int64_t n, int64_t k, const double *a, const double *b,
                           double *c) {
    double size[VERIFY_PLAIN_ELEMENTS], given[VERIFY_PLAIN_ELEMENTS];
    for (int64_t i = 0; i < m * n; ++i) {
        c[i] = size[i] = 0;
        given[i] = NAN; /* a product that adds to what was there, or leaves an element out, shows */
    }
    for (int64_t l = 0; l < k; ++l) {
        for (int64_t i = 0; i < m; ++i) {
            for (int64_t j = 0; j < n; ++j) {
                const double term = a[i * k + l] * b[l * n + j];
                c[i * n + j] += term;
                size[i * n + j] += fabs(term);
            }
        }
    }
    p->product->multiply(p->product->self, m, n, k, a, b, given);
    const double share = 2 * (double)(k + 1) * 0x1p-53;
    for (int64_t i = 0; i < m * n && !p->wrong; ++i) {
        const double possible = share * size[i] + 0x1p-1000;
        if (isfinite(size[i]) && !(fabs(given[i] - c[i]) <= possible)) {
            p->wrong = true;
            p->wrong_sums = p->sums;
            p->wrong_row = i / n;
            p->wrong_column = p->column + i % n;
            p->terms = k;
            p->given = given[i];
            p->right = c[i];
            p->possible = possible;
        }
    }
}
