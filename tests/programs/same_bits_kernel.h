/* same_bits_kernel.h: a kernel of libffn -> as same_bits.h wants it; of one at a time */
#ifndef SAME_BITS_KERNEL_H
#define SAME_BITS_KERNEL_H

#include <stdbool.h>

#include "ffn.h"
#include "same_bits.h"

static ffn_kernel *served;
static const ffn_parallel_for *pool; /* NULL: the calling thread */
static size_t served_scratch;
static ffn_diag diag;

#define SAME_OK(call) same_ok((call), __LINE__)

static inline void same_ok(ffn_status status, int line) {
    if (status != FFN_OK) {
        printf("line %d: %s\n", line, diag.text);
        exit(1);
    }
}

static inline ffn_args args_of(const call *c) {
    return (ffn_args){c->n, c->x, c->ldx, c->y, c->ldy, c->packed, c->scratch, served_scratch};
}

static inline int run(const call *c) {
    const ffn_args args = args_of(c);
    SAME_OK(pool != NULL ? ffn_kernel_run_parallel(served, &args, pool, &diag) : ffn_kernel_run(served, &args, &diag));
    return 0;
}

static inline int run_rows(const call *c, int64_t begin, int64_t end) {
    const ffn_args args = args_of(c);
    return (int)ffn_kernel_run_rows(served, &args, begin, end, &diag);
}

static inline int expand(const call *c, float *hidden, int64_t begin, int64_t end) {
    const ffn_args args = args_of(c);
    return (int)ffn_kernel_expand(served, &args, hidden, begin, end, &diag);
}

static inline int contract(const call *c, const float *hidden, int64_t begin, int64_t end) {
    const ffn_args args = args_of(c);
    return (int)ffn_kernel_contract(served, &args, hidden, begin, end, &diag);
}

static inline int activate(int64_t n, int64_t count, const float *g, const float *u, float *out) {
    return (int)ffn_kernel_activate(served, n, count, g, u, out, &diag);
}

static inline ffn_spec same_spec(int which) {
    ffn_spec spec;
    SAME_OK(ffn_spec_parse(same_layers[which].spec, &spec, &diag));
    return spec;
}

static inline void *same_packed(int which, same_weights *w) {
    const ffn_spec spec = same_spec(which);
    const ffn_weights weights = {.up = {.data = w->up},
                                 .gate = {.data = same_layers[which].gated ? w->gate : NULL},
                                 .down = {.data = w->down},
                                 .bias_up = w->biases[0],
                                 .bias_gate = w->biases[1],
                                 .bias_down = w->biases[2]};
    size_t bytes;
    SAME_OK(ffn_packed_bytes(&spec, &bytes, &diag));
    void *packed = allocate_aligned(bytes);
    SAME_OK(ffn_pack(&spec, &weights, packed, bytes, &diag));
    return packed;
}

/* `of`: served, for up to `pieces` threads. */
static inline kernel same_kernel(int which, ffn_kernel *of, const ffn_parallel_for *threads) {
    served = of;
    pool = threads;
    served_scratch = ffn_kernel_scratch_bytes(of);
    for (int64_t n = 1; threads != NULL && n <= SAME_ROWS; n++) {
        const size_t bytes = ffn_work_scratch_bytes(of, n, threads->threads);
        served_scratch = bytes > served_scratch ? bytes : served_scratch;
    }
    return (kernel){
        &same_layers[which],
        0,
        served_scratch,
        ffn_kernel_hidden_bytes(of),
        NULL,
        run,
        run_rows,
        expand,
        contract,
        activate,
    };
}

#endif
