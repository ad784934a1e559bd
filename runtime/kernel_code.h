/* kernel_code.h: generated code as the cache shares it, and the context that owns the cache
 *
 * A kernel_code is written once, by the thread that built it, and never changes after it has been published. */
#ifndef FFN_KERNEL_CODE_H
#define FFN_KERNEL_CODE_H

#include <stdatomic.h>

#include "formula.h"
#include "image.h"
#include "packed.h"

/* All that follows from a spec, worked out once a handle. */
typedef struct kernel_shape {
    ffn_spec spec;
    uint64_t spec_hash;
    packed_layout layout;
    formula_graph graph;
} kernel_shape;

typedef struct kernel_code {
    image code;
    bool verified;
    double compile_ms, verify_ms, load_ms;
    size_t image_bytes;
} kernel_code;

/* Bytes -> mapped, checked against the spec, verified as the context says. On failure nothing stays mapped. */
ffn_status kernel_code_load(const ffn_context *context, const kernel_shape *shape, const void *bytes, size_t size,
                            kernel_code *code, ffn_diag *diag);
/* The source's image for a plan, through kernel_code_load. */
ffn_status kernel_code_build(const ffn_context *context, const kernel_shape *shape, const ffn_plan *plan,
                             kernel_code *code, ffn_diag *diag);

typedef enum context_count {
    CONTEXT_COMPILED,  /* images the source built and that were published */
    CONTEXT_LOADED,    /* images published by ffn_kernel_load */
    CONTEXT_HIT,       /* prepares served from memory, waiting for another thread's
                          build included */
    CONTEXT_FELL_BACK, /* prepares that left the handle without the class's own
                          code */
    CONTEXT_FAILED,    /* builds and loads that failed for a reason other than
                          UNSUPPORTED */
    CONTEXT_COUNTS
} context_count;

struct cache;

struct ffn_context {
    ffn_isa isa;  /* resolved: never AUTO */
    bool any_isa; /* AUTO was asked for: images of every ISA of this CPU may be
                     loaded */
    bool has_plan;
    ffn_verify_mode verify;
    const ffn_source *source;
    const ffn_product *product;
    ffn_machine machine;
    ffn_plan plan;
    struct cache *cache;
    _Atomic uint64_t counts[CONTEXT_COUNTS];
};

static inline void context_count_one(ffn_context *context, context_count which) {
    atomic_fetch_add_explicit(&context->counts[which], 1, memory_order_relaxed);
}

/* The plan of a class under this context. */
ffn_status context_plan(const ffn_context *context, const ffn_spec *spec, ffn_n_class n_class, ffn_plan *plan,
                        ffn_diag *diag);

#endif
