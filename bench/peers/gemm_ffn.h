/* gemm_ffn.h: an FFN out of a BLAS's products: product, vectorised activation loop, product
 *
 * What OpenBLAS and BLIS share. A library brings its sgemm and its sgemv, both adding to the output; the rest, with
 * everything that is done to the library's advantage (bench/README.md), is the same for both. */
#ifndef BENCH_GEMM_FFN_H
#define BENCH_GEMM_FFN_H

#include "peer_module.h"

/* Row-major and dense: to[n][out] += from[n][in] times the matrix, [in][out] or, transposed, [out][in]. */
typedef struct gemm_library {
    void (*set_threads)(int threads);
    void (*gemm)(int64_t n, int64_t in, int64_t out, const float *from, const float *matrix, bool transposed,
                 float *to);
    /* One row. */
    void (*gemv)(int64_t in, int64_t out, const float *from, const float *matrix, bool transposed, float *to);
} gemm_library;

void *gemm_weights_create(const gemm_library *library, bench_layer *layer, int threads, char *text);
void gemm_weights_destroy(void *weights);
void *gemm_case_create(void *weights, int64_t n, const float *x, peer_lender lender, double seconds, char *text);
void gemm_case_destroy(void *self);
void gemm_call(void *self);
const float *gemm_output(void *self);
void gemm_chosen(const void *self, char *text);

#endif
