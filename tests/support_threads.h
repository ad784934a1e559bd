/* support_threads.h: a layer to share among threads, and ways to run the pieces of a work
 *
 * What y must be comes from ffn_kernel_run on all rows at once, by the same kernel. */
#ifndef SUPPORT_THREADS_H
#define SUPPORT_THREADS_H

#include "support_data.h"

typedef struct support_layer {
    ffn_spec spec;
    ffn_context *context;
    ffn_kernel *kernel;
    support_weights *weights;
    void *packed;
    int64_t rows, ldx, ldy;
    float *x, *want; /* [rows][ldx], [rows][ldy] */
} support_layer;

/* With generated code for every n class where this CPU has an ISA for it, else and without `generated` portable. */
void support_layer_begin(support_layer *layer, const char *spec, bool generated, int64_t rows);
void support_layer_end(support_layer *layer);

/* A call of n rows that a thread has for itself: y and scratch full of NaN. */
typedef struct support_call {
    ffn_args args;
    float *y, *scratch;
} support_call;
/* scratch for n rows in so many pieces. */
void support_call_begin(support_call *call, const support_layer *layer, int64_t n, int64_t pieces_max);
void support_call_end(support_call *call);
/* True if y holds the first n rows of `want`, and NaN beside them. */
bool support_call_right(const support_call *call, const support_layer *layer);

/* The pieces of each phase one after the other, in an order that the seed chooses. */
void support_work_shuffled(const ffn_work *work, uint64_t seed);

/* Starts that many threads for each phase; each takes pieces until there are none. */
typedef struct support_crowd {
    ffn_parallel_for parallel;
    int calls; /* of run */
} support_crowd;
void support_crowd_make(support_crowd *crowd, int64_t threads);

/* `count` threads with that much stack, 0: as usual, and a guard page; returns when all have ended. */
void support_threads_run(int count, size_t stack_bytes, void *(*body)(void *argument), void *argument);

#endif
