/* blas.c: OpenBLAS's dgemm -> an ffn_product */
#include "ffn_blas.h"

#include <cblas.h>
#include <pthread.h>
#include <stdio.h>

static char description[256];

/* The configuration names the core type of some builds only. */
static void describe_once(void) {
    snprintf(description, sizeof description, "%.180s, core %.32s", openblas_get_config(), openblas_get_corename());
}

static const char *describe(void *self) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)self;
    pthread_once(&once, describe_once);
    return description;
}

/* Sizes are at most FFN_DIM_MAX, which an int holds. */
static void multiply(void *self, int64_t m, int64_t n, int64_t k, const double *a, const double *b, double *c) {
    (void)self;
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)m, (blasint)n, (blasint)k, 1, a, (blasint)k, b,
                (blasint)n, 0, c, (blasint)n);
}

const ffn_product *ffn_blas_product(bool single_thread) {
    static const ffn_product product = {.multiply = multiply, .describe = describe};
    if (single_thread) {
        openblas_set_num_threads(1);
    }
    return &product;
}
