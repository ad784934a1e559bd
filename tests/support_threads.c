/* support_threads.c: see support_threads.h */
#define _GNU_SOURCE
#include "support_threads.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "ffngen.h"

void support_layer_begin(support_layer *layer, const char *spec, bool generated, int64_t rows) {
    const ffn_options options = {.isa = generated ? FFN_ISA_AUTO : FFN_ISA_PORTABLE,
                                 .verify = FFN_VERIFY_NEVER,
                                 .source = ffngen_source(),
                                 .store = ""};
    ffn_diag diag = {.text = ""};
    memset(layer, 0, sizeof *layer);
    layer->spec = support_spec(spec);
    cr_assert_eq(ffn_context_create(&options, &layer->context, &diag), FFN_OK, "%s", diag.text);
    cr_assert_eq(ffn_kernel_create(layer->context, &layer->spec, &layer->kernel, &diag), FFN_OK, "%s", diag.text);
    for (int64_t n = 1; generated && ffn_isa_best() != FFN_ISA_PORTABLE && n <= 17; n += n == 1 ? 1 : n == 2 ? 3 : 12)
        cr_assert_eq(ffn_kernel_prepare(layer->kernel, n, &diag), FFN_OK, "%s", diag.text);
    layer->weights = support_random_weights(&layer->spec, SUPPORT_NORMAL, 11);
    layer->packed = support_packed(&layer->spec, &layer->weights->weights);
    layer->rows = rows;
    layer->ldx = layer->spec.d_model + 3;
    layer->ldy = layer->spec.d_model + 5;
    layer->x = support_aligned((size_t)(rows * layer->ldx) * sizeof(float));
    support_fill_nan(layer->x, rows * layer->ldx);
    support_fill_x(layer->x, rows, layer->spec.d_model, layer->ldx, SUPPORT_NORMAL, 5);

    support_call whole;
    support_call_begin(&whole, layer, rows, 1);
    whole.args.scratch_bytes = ffn_kernel_scratch_bytes(layer->kernel);
    whole.args.scratch = support_aligned(whole.args.scratch_bytes);
    cr_assert_eq(ffn_kernel_run(layer->kernel, &whole.args, &diag), FFN_OK, "%s", diag.text);
    free(whole.args.scratch);
    layer->want = whole.y;
    free(whole.scratch);
}

void support_layer_end(support_layer *layer) {
    ffn_kernel_destroy(layer->kernel);
    ffn_context_destroy(layer->context);
    support_weights_free(layer->weights);
    free(layer->packed);
    free(layer->x);
    free(layer->want);
}

void support_call_begin(support_call *call, const support_layer *layer, int64_t n, int64_t pieces_max) {
    const size_t scratch_bytes = ffn_work_scratch_bytes(layer->kernel, n, pieces_max);
    call->y = support_aligned((size_t)(layer->rows * layer->ldy) * sizeof(float));
    call->scratch = support_aligned(scratch_bytes);
    support_fill_nan(call->y, layer->rows * layer->ldy);
    support_fill_nan(call->scratch, (int64_t)(scratch_bytes / sizeof(float)));
    call->args = (ffn_args){.n = n,
                            .x = layer->x,
                            .ldx = layer->ldx,
                            .y = call->y,
                            .ldy = layer->ldy,
                            .packed = layer->packed,
                            .scratch = call->scratch,
                            .scratch_bytes = scratch_bytes};
}

void support_call_end(support_call *call) {
    free(call->y);
    free(call->scratch);
}

bool support_call_right(const support_call *call, const support_layer *layer) {
    const int64_t width = layer->spec.d_model;
    for (int64_t row = 0; row < layer->rows; row++) {
        const float *y = call->y + row * layer->ldy;
        const bool written = row < call->args.n;
        if (written && memcmp(y, layer->want + row * layer->ldy, (size_t)width * sizeof *y) != 0)
            return false;
        for (int64_t i = written ? width : 0; i < layer->ldy; i++)
            if (!isnan(y[i]))
                return false;
    }
    return true;
}

void support_work_shuffled(const ffn_work *work, uint64_t seed) {
    support_rng rng = {seed};
    for (int phase = 0; phase < work->phases; phase++) {
        const int64_t count = work->pieces[phase];
        int64_t *order = support_aligned((size_t)count * sizeof *order);
        for (int64_t i = 0; i < count; i++) {
            const int64_t at = support_between(&rng, 0, i);
            order[i] = order[at];
            order[at] = i;
        }
        for (int64_t i = 0; i < count; i++)
            cr_assert_eq(ffn_work_run(work, phase, order[i], NULL), FFN_OK);
        free(order);
    }
}

typedef struct queue {
    _Atomic int64_t next;
    int64_t count;
    void (*task)(void *argument, int64_t i);
    void *argument;
} queue;

static void *take_pieces(void *argument) {
    queue *q = argument;
    for (int64_t i; (i = atomic_fetch_add(&q->next, 1)) < q->count;)
        q->task(q->argument, q->count - 1 - i);
    return NULL;
}

static void crowd_run(void *self, int64_t count, void (*task)(void *argument, int64_t i), void *argument) {
    support_crowd *crowd = self;
    queue q = {.count = count, .task = task, .argument = argument};
    crowd->calls++;
    support_threads_run((int)crowd->parallel.threads, 0, take_pieces, &q);
}

void support_crowd_make(support_crowd *crowd, int64_t threads) {
    *crowd = (support_crowd){.parallel = {.run = crowd_run, .self = crowd, .threads = threads}};
}

void support_threads_run(int count, size_t stack_bytes, void *(*body)(void *argument), void *argument) {
    pthread_t *threads = calloc((size_t)count, sizeof *threads);
    cr_assert_not_null(threads);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes); /* its guard page is there by default */
    if (stack_bytes > 0)
        cr_assert_eq(pthread_attr_setstacksize(&attributes, stack_bytes), 0);
    for (int i = 0; i < count; i++)
        cr_assert_eq(pthread_create(&threads[i], &attributes, body, argument), 0);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    pthread_attr_destroy(&attributes);
    free(threads);
}
