/* blis.c: BLIS as a peer: products of its typed interface around a vectorised loop
 *
 * Not through its cblas, whose names OpenBLAS has too. */
#define _GNU_SOURCE /* blis.h names POSIX barriers */
#include "gemm_ffn.h"

#include <blis.h>
#include <stdio.h>

static float one = 1; /* BLIS takes operands that it only reads as pointers to what may change */

static void gemm(int64_t n, int64_t in, int64_t out, const float *from, const float *matrix, bool transposed,
                 float *to) {
    bli_sgemm(BLIS_NO_TRANSPOSE, transposed ? BLIS_TRANSPOSE : BLIS_NO_TRANSPOSE, n, out, in, &one, (float *)from, in,
              1, (float *)matrix, transposed ? in : out, 1, &one, to, out, 1);
}

static void gemv(int64_t in, int64_t out, const float *from, const float *matrix, bool transposed, float *to) {
    int64_t rows = transposed ? out : in, columns = transposed ? in : out;
    bli_sgemv(transposed ? BLIS_NO_TRANSPOSE : BLIS_TRANSPOSE, BLIS_NO_CONJUGATE, rows, columns, &one, (float *)matrix,
              columns, 1, (float *)from, 1, &one, to, 1);
}

static void set_threads(int threads) {
    bli_thread_set_num_threads(threads);
}

static void *weights_create(bench_layer *layer, int threads, char *text) {
    static const gemm_library library = {set_threads, gemm, gemv};
    return gemm_weights_create(&library, layer, threads, text);
}

static void describe(char *text) {
    snprintf(text, PEER_TEXT_BYTES, "BLIS %s %s", bli_info_get_version_str(), bli_arch_string(bli_arch_query_id()));
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
                                 .settle_ms = 10}; /* OpenMP's usual spin */
