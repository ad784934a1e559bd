/* context.h: what the kernels of a program share: options, plans, the cache, the store, the compiler, counters */
#ifndef FFN_CONTEXT_H
#define FFN_CONTEXT_H

#include <pthread.h>
#include <stdatomic.h>

#include "cache.h"
#include "compiler.h"
#include "plan_choice.h"
#include "store.h"

typedef enum context_count {
    CONTEXT_COMPILED,
    CONTEXT_LOADED,
    CONTEXT_EVICTED,
    CONTEXT_FELL_BACK,
    CONTEXT_FAILED,
    CONTEXT_COUNTS
} context_count;

/* What was not said yet of files that could not be used: two tables, a machine's rates, the store, the compiler's name.
 */
#define CONTEXT_REMARKS_MAX 5

/* Tables and rates are read once, by the first who needs a plan. */
typedef enum context_planning { CONTEXT_UNPLANNED, CONTEXT_READING, CONTEXT_PLANS } context_planning;

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
    ffn_plan plan;    /* where has_plan */
    char *tuned;      /* as ffn_options.tuned, absolute */
    bool has_machine; /* planner.machine was given */
    planner planner;  /* constant from CONTEXT_PLANS on */
    cache *kernels;
    store *store;       /* NULL: none */
    compiler *compiler; /* NULL: none */
    _Atomic uint64_t counts[CONTEXT_COUNTS];
    pthread_mutex_t builds;                /* guards the state of builds, never held while something is built */
    pthread_cond_t built;                  /* a build, or the reading of tables, has ended */
    _Atomic context_planning planning;     /* changes under `builds` */
    ffn_diag remarks[CONTEXT_REMARKS_MAX]; /* not said yet, the oldest first; guarded by `builds` */
    _Atomic int remark_count;
    ffn_context *next; /* of all contexts, for fork */
};

static inline void context_count_one(ffn_context *context, context_count which) {
    atomic_fetch_add_explicit(&context->counts[which], 1, memory_order_relaxed);
}

static inline void context_count_hit(ffn_context *context) {
    atomic_fetch_add_explicit(&context->stripes[cache_stripe()].hits, 1, memory_order_relaxed);
}

/* The plan of a class under this context, and where it is from. The first call reads the tuned tables and what is known
 * of the machine; others wait for it. */
ffn_status context_plan(ffn_context *context, const ffn_spec *spec, ffn_isa isa, ffn_n_class n_class,
                        plan_choice *choice, ffn_diag *diag);

/* Keeps a remark, if it has a text, for the first who succeeds and listens. */
void context_leave_remark(ffn_context *context, const ffn_diag *remark);
/* As many as fit into one diag; those that do not wait for the next. */
void context_take_remarks(ffn_context *context, ffn_diag *diag);

/* Contexts that must survive a fork. OUT_OF_MEMORY if the system cannot register what it runs around one. */
ffn_status context_fork_watch(ffn_context *context, ffn_diag *diag);
void context_fork_forget(ffn_context *context);

#endif
