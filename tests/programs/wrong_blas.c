/* wrong_blas.c: preloaded, an OpenBLAS whose cblas_dgemm has the fault that WRONG_BLAS names; all else is the real
 * one's
 *
 * Row-major operands that are not transposed, as verification calls it. */
#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double element(const double *a, blasint lda, const double *b, blasint ldb, blasint i, blasint j, blasint k) {
    double sum = 0;
    for (blasint l = 0; l < k; ++l) {
        sum += a[i * lda + l] * b[l * ldb + j];
    }
    return sum;
}

static double element_in_single(const double *a, blasint lda, const double *b, blasint ldb, blasint i, blasint j,
                                blasint k) {
    float sum = 0;
    for (blasint l = 0; l < k; ++l) {
        sum += (float)(a[i * lda + l] * b[l * ldb + j]);
    }
    return (double)sum;
}

static int fault_is(const char *name) {
    const char *fault = getenv("WRONG_BLAS");
    return fault != NULL && strcmp(fault, name) == 0;
}

void cblas_dgemm(OPENBLAS_CONST enum CBLAS_ORDER order, OPENBLAS_CONST enum CBLAS_TRANSPOSE trans_a,
                 OPENBLAS_CONST enum CBLAS_TRANSPOSE trans_b, OPENBLAS_CONST blasint m, OPENBLAS_CONST blasint n,
                 OPENBLAS_CONST blasint k, OPENBLAS_CONST double alpha, OPENBLAS_CONST double *a,
                 OPENBLAS_CONST blasint lda, OPENBLAS_CONST double *b, OPENBLAS_CONST blasint ldb,
                 OPENBLAS_CONST double beta, double *c, OPENBLAS_CONST blasint ldc) {
    static int calls;
    const double factor = fault_is("alpha") ? alpha * 1.0000001 : alpha;
    (void)order, (void)trans_a, (void)trans_b;
    for (blasint i = 0; i < m; ++i) {
        for (blasint j = 0; j < n; ++j) {
            const blasint column = fault_is("column") && j == n - 1 ? j - 1 : j;
            double sum = fault_is("single") ? element_in_single(a, lda, b, ldb, i, column, k)
                                            : element(a, lda, b, ldb, i, column, k);
            const double before = fault_is("beta") ? c[i * ldc + j] : beta == 0 ? 0 : beta * c[i * ldc + j];
            c[i * ldc + j] = factor * sum + before;
        }
    }
    if (fault_is("transposed")) {
        for (blasint i = 0; i < m && i < n; ++i) {
            for (blasint j = 0; j < i; ++j) {
                const double other = c[i * ldc + j];
                c[i * ldc + j] = c[j * ldc + i];
                c[j * ldc + i] = other;
            }
        }
    }
    if (fault_is("nan")) {
        c[(m - 1) * ldc] = NAN;
    }
    if (fault_is("late") && ++calls == 100) { /* one element of one call among many */
        c[0] += 1e-3;
    }
}
