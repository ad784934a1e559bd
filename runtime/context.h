/* context.h: what the kernels of a program share: options, plans, the cache, the store, the compiler, counters */
#ifndef FFN_CONTEXT_H
#define FFN_CONTEXT_H

#include <pthread.h>
#include <stdatomic.h>

#include "cache.h"
#include "compiler.h"
#include "store.h"

typedef enum context_count {
    CONTEXT_COMPILED,
    CONTEXT_LOADED,
    CONTEXT_EVICTED,
    CONTEXT_FELL_BACK,
    CONTEXT_FAILED,
    CONTEXT_COUNTS
} context_count;

typedef struct context_stripe {
    _Alignas(64) _Atomic uint64_t hits;
} context_stripe;

struct ffn_context {
    context_stripe stripes[CACHE_STRIPES]; /* hits are counted where no other thread counts */
    ffn_isa isa;                           /* resolved: never AUTO */
    bool any_isa;                          /* AUTO was asked for: images of every ISA of this CPU may be loaded */
    bool has_plan;
    ffn_verify_mode verify;
    uint32_t tools;
    const ffn_source *source; /* NULL: the compiler's, if there is one */
    const ffn_product *product;
    ffn_machine machine;
    ffn_plan plan;
    cache *kernels;
    store *store;       /* NULL: none */
    compiler *compiler; /* NULL: none */
    _Atomic uint64_t counts[CONTEXT_COUNTS];
    pthread_mutex_t builds; /* guards the state of builds, never held while something is built */
    pthread_cond_t built;   /* a build has ended */
    ffn_diag remark;        /* of the store, not said yet; guarded by `builds` */
    atomic_bool has_remark;
    ffn_context *next; /* of all contexts, for fork */
};

static inline void context_count_one(ffn_context *context, context_count which) {
    atomic_fetch_add_explicit(&context->counts[which], 1, memory_order_relaxed);
}

static inline void context_count_hit(ffn_context *context) {
    atomic_fetch_add_explicit(&context->stripes[cache_stripe()].hits, 1, memory_order_relaxed);
}

/* The plan of a class under this context. */
ffn_status context_plan(const ffn_context *context, const ffn_spec *spec, ffn_n_class n_class, ffn_plan *plan,
                        ffn_diag *diag);

/* Contexts that must survive a fork. OUT_OF_MEMORY if the system cannot register what it runs around one. */
ffn_status context_fork_watch(ffn_context *context, ffn_diag *diag);
void context_fork_forget(ffn_context *context);

#endif
