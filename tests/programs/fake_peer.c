/* fake_peer.c: a peer in plain loops; wrong in one element of the last row, or with an activation of its own, where
 * FAKE_PEER says so */
#include "peer_module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct fake {
    bench_layer *layer;
    int64_t n;
    const float *x;
    peer_lender lender;
    float *hidden, *gate, *y;
} fake;

static void describe(char *text) {
    snprintf(text, PEER_TEXT_BYTES, "fake 1.0");
}

static void *weights_create(bench_layer *layer, int threads, char *text) {
    (void)threads, (void)text;
    return layer;
}

static void weights_destroy(void *weights) {
    (void)weights;
}

static void *case_create(void *weights, int64_t n, const float *x, peer_lender lender, double seconds, char *text) {
    (void)seconds, (void)text;
    fake *f = malloc(sizeof *f);
    *f = (fake){.layer = weights, .n = n, .x = x, .lender = lender};
    f->hidden = malloc((size_t)(n * f->layer->spec.d_ff) * sizeof(float));
    f->gate = malloc((size_t)(n * f->layer->spec.d_ff) * sizeof(float));
    f->y = malloc((size_t)(n * f->layer->spec.d_model) * sizeof(float));
    return f;
}

static void case_destroy(void *self) {
    fake *f = self;
    free(f->hidden);
    free(f->gate);
    free(f->y);
    free(f);
}

static void multiply(const fake *f, bench_product product, int64_t in, int64_t out, const float *from, float *to) {
    const float *block = (const float *)(const void *)f->layer->plain.base;
    for (int64_t row = 0; row < f->n; row++) {
        for (int64_t j = 0; j < out; j++) {
            float sum = block[f->layer->bias[product] + j];
            for (int64_t k = 0; k < in; k++)
                sum += from[row * in + k] * block[f->layer->matrix[product][FFN_IN_OUT] + k * out + j];
            to[row * out + j] = sum;
        }
    }
}

static void call(void *self) {
    fake *f = self;
    int64_t d_model = f->layer->spec.d_model, d_ff = f->layer->spec.d_ff;
    const char *how = getenv("FAKE_PEER");
    multiply(f, BENCH_UP, d_model, d_ff, f->x, f->hidden);
    if (f->layer->gated)
        multiply(f, BENCH_GATE, d_model, d_ff, f->x, f->gate);
    f->lender.activate(f->lender.self, f->n * d_ff, f->layer->gated ? f->gate : f->hidden, f->hidden, f->hidden);
    multiply(f, BENCH_DOWN, d_ff, d_model, f->hidden, f->y);
    if (how && !strcmp(how, "wrong"))
        f->y[f->n * d_model - 1] += 0.1f;
    if (how && !strcmp(how, "nan"))
        f->y[f->n * d_model - 1] = 0.0f / (f->y[0] - f->y[0]);
}

static const float *output(void *self) {
    return ((const fake *)self)->y;
}

static void chosen(const void *self, char *text) {
    (void)self;
    snprintf(text, PEER_TEXT_BYTES, "plain loops");
}

static bool own_activation(const void *self) {
    const char *how = getenv("FAKE_PEER");
    (void)self;
    return how && !strcmp(how, "own");
}

#ifndef FAKE_INTERFACE
#define FAKE_INTERFACE PEER_INTERFACE
#endif

const peer_module ffngen_peer = {.interface = FAKE_INTERFACE,
                                 .describe = describe,
                                 .weights_create = weights_create,
                                 .weights_destroy = weights_destroy,
                                 .case_create = case_create,
                                 .case_destroy = case_destroy,
                                 .call = call,
                                 .output = output,
                                 .chosen = chosen,
                                 .own_activation = own_activation};
