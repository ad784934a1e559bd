/* gemm_ffn.c: products in the orientation and through the call that a trial finds fastest, and a loop between them */
#include "gemm_ffn.h"

#include "rounds.h"
#include "team.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GEMV_ROWS_MAX 8   /* beyond, row by row reads the weights too often to be the fastest */
#define CHOICE_SHARE 0.04 /* of the seconds, for each trial */

typedef struct gemm_weights {
    const gemm_library *library;
    bench_layer *layer;
    int threads;
    bench_team *team; /* for the activation; NULL with one thread */
} gemm_weights;

typedef struct product {
    int64_t in, out, n;
    int64_t matrix[2]; /* offsets in a plain block, by layout */
    int64_t bias;
    ffn_layout layout;
    bool row_by_row;
} product;

typedef struct gemm_case {
    const gemm_weights *weights;
    const float *x;
    int64_t n;
    peer_lender lender;
    double choice_seconds;
    product products[BENCH_PRODUCTS];
    float *hidden[2]; /* up and gate */
    float *y;
    bool split; /* the activation, over the threads */
} gemm_case;

void *gemm_weights_create(const gemm_library *library, bench_layer *layer, int threads, char *text) {
    gemm_weights *weights = malloc(sizeof *weights);
    bench_team *team = weights && threads > 1 ? bench_team_create(threads) : NULL;
    if (!weights || (threads > 1 && !team)) {
        free(weights);
        snprintf(text, PEER_TEXT_BYTES, "no memory or no threads");
        return NULL;
    }
    *weights = (gemm_weights){library, layer, threads, team};
    library->set_threads(threads);
    if (team)
        bench_team_rest(team);
    return weights;
}

void gemm_weights_destroy(void *self) {
    gemm_weights *weights = self;
    bench_team_destroy(weights->team);
    free(weights);
}

static void multiply(const gemm_library *library, const product *p, const float *block, const float *from, float *to) {
    const float *matrix = block + p->matrix[p->layout];
    bool transposed = p->layout == FFN_OUT_IN;
    for (int64_t row = 0; row < p->n; row++)
        memcpy(to + row * p->out, block + p->bias, (size_t)p->out * sizeof(float));
    if (!p->row_by_row)
        library->gemm(p->n, p->in, p->out, from, matrix, transposed, to);
    for (int64_t row = 0; p->row_by_row && row < p->n; row++)
        library->gemv(p->in, p->out, from + row * p->in, matrix, transposed, to + row * p->out);
}

static void activate_part(void *self, int member, int size) {
    const gemm_case *c = self;
    int64_t count = c->n * c->weights->layer->spec.d_ff, lines = (count + 15) / 16;
    int64_t begin = lines * member / size * 16, end = lines * (member + 1) / size * 16;
    float *up = c->hidden[BENCH_UP], *gate = c->hidden[BENCH_GATE];
    end = end < count ? end : count;
    if (begin < end)
        c->lender.activate(c->lender.self, end - begin, (gate ? gate : up) + begin, up + begin, up + begin);
}

static void activate(gemm_case *c) {
    if (c->split) {
        bench_team_run(c->weights->team, activate_part, c);
        bench_team_rest(c->weights->team); /* the library's own threads want the cores next */
    } else
        activate_part(c, 0, 1);
}

typedef struct candidate {
    gemm_case *of;
    product product; /* one way of a product, or of the activation where n is 0 */
    const float *from;
    float *to;
    bool split;
} candidate;

static void candidate_call(void *self) {
    candidate *c = self;
    c->of->split = c->split;
    if (c->product.n)
        multiply(c->of->weights->library, &c->product, bench_copies_turn(&c->of->weights->layer->plain), c->from,
                 c->to);
    else
        activate(c->of);
}

static const candidate *fastest(candidate *candidates, int count) {
    static bench_contender contenders[4];
    for (int i = 0; i < count; i++)
        contenders[i] = (bench_contender){.call = candidate_call, .self = &candidates[i]};
    bench_clock clock = candidates->of->weights->threads == 1 ? BENCH_CLOCK_THREAD : BENCH_CLOCK_WALL;
    bench_rounds(contenders, count, clock, 1, candidates->of->choice_seconds);
    int best = 0;
    for (int i = 1; i < count; i++) {
        if (contenders[i].ms_min < contenders[best].ms_min)
            best = i;
    }
    return &candidates[best];
}

static void choose(gemm_case *c, product *p, const float *from, float *to) {
    candidate candidates[4];
    int count = 0;
    for (int way = 0; way < (p->n <= GEMV_ROWS_MAX ? 4 : 2); way++, count++) {
        candidates[count] = (candidate){.of = c, .product = *p, .from = from, .to = to};
        candidates[count].product.layout = way % 2 ? FFN_OUT_IN : FFN_IN_OUT;
        candidates[count].product.row_by_row = way >= 2;
    }
    *p = fastest(candidates, count)->product;
}

void *gemm_case_create(void *self, int64_t n, const float *x, peer_lender lender, double seconds, char *text) {
    const gemm_weights *weights = self;
    bench_layer *layer = weights->layer;
    const ffn_spec *spec = &layer->spec;
    size_t hidden_bytes = (size_t)(n * spec->d_ff) * sizeof(float);
    gemm_case *c = calloc(1, sizeof *c);
    if (c)
        *c = (gemm_case){.weights = weights,
                         .x = x,
                         .n = n,
                         .lender = lender,
                         .choice_seconds = CHOICE_SHARE * seconds,
                         .hidden = {bench_alloc(hidden_bytes), layer->gated ? bench_alloc(hidden_bytes) : NULL},
                         .y = bench_alloc((size_t)(n * spec->d_model) * sizeof(float))};
    if (!c || !c->hidden[BENCH_UP] || (layer->gated && !c->hidden[BENCH_GATE]) || !c->y) {
        gemm_case_destroy(c);
        snprintf(text, PEER_TEXT_BYTES, "no memory for %lld rows", (long long)n);
        return NULL;
    }
    for (bench_product p = BENCH_UP; p < BENCH_PRODUCTS; p++) {
        bool down = p == BENCH_DOWN;
        c->products[p] = (product){.in = down ? spec->d_ff : spec->d_model,
                                   .out = down ? spec->d_model : spec->d_ff,
                                   .n = n,
                                   .matrix = {layer->matrix[p][FFN_IN_OUT], layer->matrix[p][FFN_OUT_IN]},
                                   .bias = layer->bias[p]};
    }
    choose(c, &c->products[BENCH_UP], x, c->hidden[BENCH_UP]);
    c->products[BENCH_GATE].layout = c->products[BENCH_UP].layout;
    c->products[BENCH_GATE].row_by_row = c->products[BENCH_UP].row_by_row;
    choose(c, &c->products[BENCH_DOWN], c->hidden[BENCH_UP], c->y);
    if (weights->team) { /* on zeros, which an activation applied again and again leaves ordinary numbers */
        memset(c->hidden[BENCH_UP], 0, hidden_bytes);
        c->split = fastest((candidate[2]){{.of = c}, {.of = c, .split = true}}, 2)->split;
    }
    return c;
}

void gemm_case_destroy(void *self) {
    gemm_case *c = self;
    if (!c)
        return;
    bench_free(c->hidden[BENCH_UP]);
    bench_free(c->hidden[BENCH_GATE]);
    bench_free(c->y);
    free(c);
}

void gemm_call(void *self) {
    gemm_case *c = self;
    const gemm_library *library = c->weights->library;
    const float *block = bench_copies_turn(&c->weights->layer->plain);
    multiply(library, &c->products[BENCH_UP], block, c->x, c->hidden[BENCH_UP]);
    if (c->hidden[BENCH_GATE])
        multiply(library, &c->products[BENCH_GATE], block, c->x, c->hidden[BENCH_GATE]);
    activate(c);
    multiply(library, &c->products[BENCH_DOWN], block, c->hidden[BENCH_UP], c->y);
}

const float *gemm_output(void *self) {
    return ((const gemm_case *)self)->y;
}

void gemm_chosen(const void *self, char *text) {
    const gemm_case *c = self;
    const product *up = &c->products[BENCH_UP], *down = &c->products[BENCH_DOWN];
    static const char *const layouts[] = {"[in][out]", "[out][in]"};
    snprintf(text, PEER_TEXT_BYTES, "up %s %s, down %s %s, activation on %s", up->row_by_row ? "sgemv" : "sgemm",
             layouts[up->layout], down->row_by_row ? "sgemv" : "sgemm", layouts[down->layout],
             c->split ? "all threads" : "one thread");
}
