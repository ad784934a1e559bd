/* onednn_matmul.h: one product of an FFN -> a oneDNN matmul with what is fused into it, ready to run */
#ifndef BENCH_ONEDNN_MATMUL_H
#define BENCH_ONEDNN_MATMUL_H

#include "onednn_version.h"
#include "peer_module.h"

#define ONEDNN_ELTWISE_MAX 2

/* An activation as post-ops; a gated one is that of the gate value, times the up value. */
typedef struct onednn_activation {
    bool fused; /* false: oneDNN has it not, the lender's loop takes its place */
    int count;
    struct {
        dnnl_alg_kind_t kind;
        float alpha, beta;
    } eltwise[ONEDNN_ELTWISE_MAX];
} onednn_activation;

onednn_activation onednn_activation_of(const char *activation);

typedef struct onednn_matmul {
    bench_layer *layer;
    bench_product product;
    dnnl_primitive_t primitive;
    dnnl_memory_t from, weights, bias, to, factor, scratchpad;
    int factor_at;          /* its place among the post-ops */
    int64_t plain;          /* offset of the matrix in a plain block; -1: it is reordered */
    bench_copies reordered; /* as many as there are plain blocks */
    void *scratch;
    const char *implementation;
} onednn_matmul;

/* to = post-ops(from x matrix + bias), of n rows; `tag` any lets oneDNN choose the form of the matrix, which is then
 * reordered once. `activation` and `factor`, which is multiplied in last, may be NULL. False, with everything freed, if
 * oneDNN refuses. */
bool onednn_matmul_make(onednn_matmul *matmul, dnnl_engine_t engine, dnnl_stream_t stream, bench_layer *layer,
                        bench_product product, dnnl_format_tag_t tag, int64_t n, const float *from, float *to,
                        const onednn_activation *activation, float *factor);
void onednn_matmul_free(onednn_matmul *matmul);
/* With the weights of copy number `copy`. */
dnnl_status_t onednn_matmul_run(onednn_matmul *matmul, dnnl_stream_t stream, int64_t copy);

#endif
