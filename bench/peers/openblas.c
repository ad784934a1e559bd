/* openblas.c: OpenBLAS as a peer: cblas products around a vectorised loop */
#include "gemm_ffn.h"

#include <cblas.h>
#include <stdio.h>

static void gemm(int64_t n, int64_t in, int64_t out, const float *from, const float *matrix, bool transposed,
                 float *to) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, transposed ? CblasTrans : CblasNoTrans, (blasint)n, (blasint)out,
                (blasint)in, 1, from, (blasint)in, matrix, (blasint)(transposed ? in : out), 1, to, (blasint)out);
}

static void gemv(int64_t in, int64_t out, const float *from, const float *matrix, bool transposed, float *to) {
    int64_t rows = transposed ? out : in, columns = transposed ? in : out;
    cblas_sgemv(CblasRowMajor, transposed ? CblasNoTrans : CblasTrans, (blasint)rows, (blasint)columns, 1, matrix,
                (blasint)columns, from, 1, 1, to, 1);
}

static void set_threads(int threads) {
    openblas_set_num_threads(threads);
}

static void *weights_create(bench_layer *layer, int threads, char *text) {
    static const gemm_library library = {set_threads, gemm, gemv};
    return gemm_weights_create(&library, layer, threads, text);
}

static void describe(char *text) {
    char version[64] = "";
    sscanf(openblas_get_config(), "%*s %63s", version);
    snprintf(text, PEER_TEXT_BYTES, "OpenBLAS %s %s", version, openblas_get_corename());
}

const peer_module ffngen_peer = {.interface = PEER_INTERFACE,
                                 .describe = describe,
                                 .weights_create = weights_create,
                                 .weights_destroy = gemm_weights_destroy,
                                 .case_create = gemm_case_create,
                                 .case_destroy = gemm_case_destroy,
                                 .call = gemm_call,
                                 .output = gemm_output,
                                 .chosen = gemm_chosen,
                                 .settle_ms = 30}; /* 2^26 cycles */
