/* peer.c: OpenBLAS plus loop */
#define _GNU_SOURCE
#include "peer.h"

#include "rounds.h"

#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GEMV_ROWS_MAX 8 /* beyond, row by row reads the weights too often to be the fastest */
#define CHOICE_SECONDS 0.02

typedef struct peer_product {
    int64_t in, out, n;
    int64_t matrix[2]; /* offsets in a plain block, by layout */
    int64_t bias;
    ffn_layout layout;
    bool row_by_row;
} peer_product;

struct bench_peer {
    bench_layer *layer;
    const ffn_kernel *kernel;
    const float *x;
    int64_t n;
    peer_product products[BENCH_PRODUCTS];
    float *hidden[2]; /* up and gate */
    float *y;
};

static void multiply(const peer_product *product, const float *block, const float *from, float *to) {
    blasint in = (blasint)product->in, out = (blasint)product->out, n = (blasint)product->n;
    const float *matrix = block + product->matrix[product->layout];
    for (int64_t row = 0; row < product->n; row++)
        memcpy(to + row * out, block + product->bias, (size_t)product->out * sizeof(float));
    bool transposed = product->layout == FFN_OUT_IN;
    if (!product->row_by_row) {
        cblas_sgemm(CblasRowMajor, CblasNoTrans, transposed ? CblasTrans : CblasNoTrans, n, out, in, 1, from, in,
                    matrix, transposed ? in : out, 1, to, out);
        return;
    }
    for (int64_t row = 0; row < product->n; row++) {
        if (transposed)
            cblas_sgemv(CblasRowMajor, CblasNoTrans, out, in, 1, matrix, in, from + row * in, 1, 1, to + row * out, 1);
        else
            cblas_sgemv(CblasRowMajor, CblasTrans, in, out, 1, matrix, out, from + row * in, 1, 1, to + row * out, 1);
    }
}

typedef struct candidate {
    peer_product product;
    bench_layer *layer;
    const float *from;
    float *to;
} candidate;

static void candidate_call(void *self) {
    candidate *c = self;
    multiply(&c->product, bench_copies_turn(&c->layer->plain), c->from, c->to);
}

static void choose(bench_peer *peer, peer_product *product, bench_clock clock, const float *from, float *to) {
    candidate candidates[4];
    static bench_contender contenders[4];
    int count = 0;
    for (int way = 0; way < (product->n <= GEMV_ROWS_MAX ? 4 : 2); way++, count++) {
        candidates[count] = (candidate){*product, peer->layer, from, to};
        candidates[count].product.layout = way % 2 ? FFN_OUT_IN : FFN_IN_OUT;
        candidates[count].product.row_by_row = way >= 2;
        contenders[count] = (bench_contender){.call = candidate_call, .self = &candidates[count]};
    }
    bench_rounds(contenders, count, clock, 1, CHOICE_SECONDS);
    int best = 0;
    for (int i = 1; i < count; i++) {
        if (contenders[i].ms_min < contenders[best].ms_min)
            best = i;
    }
    *product = candidates[best].product;
}

bench_peer *bench_peer_create(bench_layer *layer, int64_t n, const float *x, const ffn_kernel *kernel, int threads) {
    openblas_set_num_threads(threads);
    bench_clock clock = threads == 1 ? BENCH_CLOCK_THREAD : BENCH_CLOCK_WALL;
    bench_peer *peer = calloc(1, sizeof *peer);
    if (!peer)
        return NULL;
    *peer = (bench_peer){.layer = layer, .kernel = kernel, .x = x, .n = n};
    const ffn_spec *spec = &layer->spec;
    for (bench_product p = BENCH_UP; p < BENCH_PRODUCTS; p++) {
        bool down = p == BENCH_DOWN;
        peer->products[p] = (peer_product){.in = down ? spec->d_ff : spec->d_model,
                                           .out = down ? spec->d_model : spec->d_ff,
                                           .n = n,
                                           .matrix = {layer->matrix[p][FFN_IN_OUT], layer->matrix[p][FFN_OUT_IN]},
                                           .bias = layer->bias[p]};
    }
    size_t hidden_bytes = (size_t)(n * spec->d_ff) * sizeof(float);
    peer->hidden[BENCH_UP] = bench_alloc(hidden_bytes);
    peer->hidden[BENCH_GATE] = layer->gated ? bench_alloc(hidden_bytes) : NULL;
    peer->y = bench_alloc((size_t)(n * spec->d_model) * sizeof(float));
    if (!peer->hidden[BENCH_UP] || (layer->gated && !peer->hidden[BENCH_GATE]) || !peer->y) {
        bench_peer_destroy(peer);
        return NULL;
    }
    choose(peer, &peer->products[BENCH_UP], clock, x, peer->hidden[BENCH_UP]);
    peer->products[BENCH_GATE].layout = peer->products[BENCH_UP].layout;
    peer->products[BENCH_GATE].row_by_row = peer->products[BENCH_UP].row_by_row;
    choose(peer, &peer->products[BENCH_DOWN], clock, peer->hidden[BENCH_UP], peer->y);
    return peer;
}

void bench_peer_destroy(bench_peer *peer) {
    if (!peer)
        return;
    bench_free(peer->hidden[BENCH_UP]);
    bench_free(peer->hidden[BENCH_GATE]);
    bench_free(peer->y);
    free(peer);
}

void bench_peer_call(void *self) {
    bench_peer *peer = self;
    const float *block = bench_copies_turn(&peer->layer->plain);
    float *up = peer->hidden[BENCH_UP], *gate = peer->hidden[BENCH_GATE];
    multiply(&peer->products[BENCH_UP], block, peer->x, up);
    if (gate)
        multiply(&peer->products[BENCH_GATE], block, peer->x, gate);
    ffn_kernel_activate(peer->kernel, peer->n, peer->n * peer->layer->spec.d_ff, gate ? gate : up, up, up, NULL);
    multiply(&peer->products[BENCH_DOWN], block, up, peer->y);
}

const float *bench_peer_output(const bench_peer *peer) {
    return peer->y;
}

const char *bench_peer_name(void) {
    static char name[96];
    char version[64] = "";
    sscanf(openblas_get_config(), "%63[^ ] %63s", name, version);
    snprintf(name, sizeof name, "OpenBLAS %s %s", version, openblas_get_corename());
    return name;
}

int bench_peer_clean_start(char **argv) {
    static const char *const variables[] = {"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"};
    bool found = false;
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        found = found || getenv(variables[i]);
        unsetenv(variables[i]);
    }
    if (found)
        execv("/proc/self/exe", argv);
    return found ? -1 : 0;
}
