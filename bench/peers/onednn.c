/* onednn.c: oneDNN as a peer: matmuls with bias, activation and the gate's product fused into them
 *
 * For each stage every form that oneDNN could be used in takes part in a trial: the matrix in oneDNN's own choice of
 * layout and in both plain ones; for a gated activation the gate first, which then is a factor of up, or up first. */
#include "onednn_matmul.h"

#include "rounds.h"
#include "team.h"

#include <stdio.h>
#include <stdlib.h>

#define CHOICE_SHARE 0.04 /* of the seconds, for each trial */
#define WAYS_MAX 6

/* In the OpenMP run time that oneDNN itself is linked with, if that is its run time. */
extern void omp_set_num_threads(int threads) __attribute__((weak));

typedef struct onednn_weights {
    bench_layer *layer;
    int threads;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    bench_team *team; /* for an activation that cannot be fused */
} onednn_weights;

/* One or two products, one after the other. */
typedef struct stage {
    onednn_matmul products[2];
    int count;
    const char *way;
} stage;

typedef struct onednn_case {
    onednn_weights *weights;
    int64_t n;
    peer_lender lender;
    double choice_seconds;
    onednn_activation activation;
    float *hidden, *other, *y; /* other: the factor, or the gate values for the lender */
    stage expand, contract;
    bool failed;
} onednn_case;

static void weights_destroy(void *self) {
    onednn_weights *weights = self;
    if (weights->stream)
        dnnl_stream_destroy(weights->stream);
    if (weights->engine)
        dnnl_engine_destroy(weights->engine);
    bench_team_destroy(weights->team);
    free(weights);
}

static void *weights_create(bench_layer *layer, int threads, char *text) {
    if (omp_set_num_threads)
        omp_set_num_threads(threads);
    else if (threads > 1) {
        snprintf(text, PEER_TEXT_BYTES, "this oneDNN does not run on OpenMP: its threads cannot be counted");
        return NULL;
    }
    onednn_weights *weights = calloc(1, sizeof *weights);
    if (!weights) {
        snprintf(text, PEER_TEXT_BYTES, "no memory");
        return NULL;
    }
    *weights = (onednn_weights){.layer = layer, .threads = threads, .team = bench_team_create(threads)};
    if (!weights->team || dnnl_engine_create(&weights->engine, dnnl_cpu, 0) ||
        dnnl_stream_create(&weights->stream, weights->engine, dnnl_stream_default_flags)) {
        weights_destroy(weights);
        snprintf(text, PEER_TEXT_BYTES, "oneDNN gives no CPU engine");
        return NULL;
    }
    bench_team_rest(weights->team);
    return weights;
}

static void run_stage(onednn_case *c, stage *s, int64_t copy) {
    for (int i = 0; i < s->count; i++)
        c->failed = onednn_matmul_run(&s->products[i], c->weights->stream, copy) || c->failed;
    c->failed = dnnl_stream_wait(c->weights->stream) || c->failed;
}

static int64_t next_copy(bench_layer *layer) {
    const char *block = bench_copies_turn(&layer->plain);
    return (int64_t)((size_t)(block - layer->plain.base) / layer->plain.stride);
}

typedef struct trial {
    onednn_case *of;
    stage stage;
} trial;

static void trial_call(void *self) {
    trial *t = self;
    run_stage(t->of, &t->stage, next_copy(t->of->weights->layer));
}

static void free_stage(stage *s) {
    for (int i = 0; i < s->count; i++)
        onednn_matmul_free(&s->products[i]);
    s->count = 0;
}

/* Keeps the fastest stage that oneDNN makes; false if it makes none. */
static bool keep_fastest(onednn_case *c, trial *trials, int count, stage *kept) {
    static bench_contender contenders[WAYS_MAX];
    int best = 0;
    for (int i = 0; i < count; i++)
        contenders[i] = (bench_contender){.call = trial_call, .self = &trials[i]};
    if (count > 1)
        bench_rounds(contenders, count, c->weights->threads == 1 ? BENCH_CLOCK_THREAD : BENCH_CLOCK_WALL, 1,
                     c->choice_seconds);
    for (int i = 1; i < count; i++) {
        if (contenders[i].ms_min < contenders[best].ms_min)
            best = i;
    }
    for (int i = 0; i < count; i++) {
        if (i == best)
            *kept = trials[i].stage;
        else
            free_stage(&trials[i].stage);
    }
    return count > 0;
}

static bool add_product(onednn_case *c, stage *s, bench_product product, dnnl_format_tag_t tag, const float *from,
                        float *to, const onednn_activation *activation, float *factor) {
    const onednn_weights *w = c->weights;
    if (!onednn_matmul_make(&s->products[s->count], w->engine, w->stream, w->layer, product, tag, c->n, from, to,
                            activation, factor)) {
        free_stage(s);
        return false;
    }
    s->count++;
    return true;
}

/* The products before the hidden values, in one order. */
static bool make_expand(onednn_case *c, stage *s, dnnl_format_tag_t tag, bool up_first, const float *x) {
    const onednn_activation *activation = c->activation.fused ? &c->activation : NULL;
    if (!c->weights->layer->gated)
        return add_product(c, s, BENCH_UP, tag, x, c->hidden, activation, NULL);
    if (!activation)
        return add_product(c, s, BENCH_UP, tag, x, c->hidden, NULL, NULL) &&
               add_product(c, s, BENCH_GATE, tag, x, c->other, NULL, NULL);
    if (up_first)
        return add_product(c, s, BENCH_UP, tag, x, c->other, NULL, NULL) &&
               add_product(c, s, BENCH_GATE, tag, x, c->hidden, activation, c->other);
    return add_product(c, s, BENCH_GATE, tag, x, c->other, activation, NULL) &&
           add_product(c, s, BENCH_UP, tag, x, c->hidden, NULL, c->other);
}

static bool choose(onednn_case *c, const float *x, bool contract) {
    static const struct {
        dnnl_format_tag_t tag;
        bool up_first;
        const char *way;
    } ways[WAYS_MAX] = {
        {dnnl_format_tag_any, false, "own layout"},
        {dnnl_ab, false, "[in][out]"},
        {dnnl_ba, false, "[out][in]"},
        {dnnl_format_tag_any, true, "own layout, up first"},
        {dnnl_ab, true, "[in][out], up first"},
        {dnnl_ba, true, "[out][in], up first"},
    };
    bool orders = !contract && c->weights->layer->gated && c->activation.fused;
    static trial trials[WAYS_MAX];
    int count = 0;
    for (int i = 0; i < (orders ? WAYS_MAX : WAYS_MAX / 2); i++) {
        trials[count] = (trial){.of = c, .stage = {.way = ways[i].way}};
        stage *s = &trials[count].stage;
        count += contract ? add_product(c, s, BENCH_DOWN, ways[i].tag, c->hidden, c->y, NULL, NULL)
                          : make_expand(c, s, ways[i].tag, ways[i].up_first, x);
    }
    return keep_fastest(c, trials, count, contract ? &c->contract : &c->expand);
}

static void case_destroy(void *self) {
    onednn_case *c = self;
    free_stage(&c->expand);
    free_stage(&c->contract);
    bench_free(c->hidden);
    bench_free(c->other);
    bench_free(c->y);
    free(c);
}

static void *case_create(void *self, int64_t n, const float *x, peer_lender lender, double seconds, char *text) {
    onednn_weights *weights = self;
    const ffn_spec *spec = &weights->layer->spec;
    size_t hidden_bytes = (size_t)(n * spec->d_ff) * sizeof(float);
    onednn_case *c = calloc(1, sizeof *c);
    if (!c) {
        snprintf(text, PEER_TEXT_BYTES, "no memory");
        return NULL;
    }
    *c = (onednn_case){.weights = weights,
                       .n = n,
                       .lender = lender,
                       .choice_seconds = CHOICE_SHARE * seconds,
                       .activation = onednn_activation_of(spec->activation),
                       .hidden = bench_alloc(hidden_bytes),
                       .other = weights->layer->gated ? bench_alloc(hidden_bytes) : NULL,
                       .y = bench_alloc((size_t)(n * spec->d_model) * sizeof(float))};
    if (!c->hidden || !c->y || (weights->layer->gated && !c->other)) {
        case_destroy(c);
        snprintf(text, PEER_TEXT_BYTES, "no memory for %lld rows", (long long)n);
        return NULL;
    }
    bool made = choose(c, x, false);
    if (!made && c->activation.fused) { /* this build has not that post-op */
        c->activation.fused = false;
        made = choose(c, x, false);
    }
    if (!made || !choose(c, x, true) || c->failed) {
        case_destroy(c);
        snprintf(text, PEER_TEXT_BYTES, "oneDNN makes no matmul of this shape");
        return NULL;
    }
    return c;
}

static void activate_part(void *self, int member, int size) {
    const onednn_case *c = self;
    int64_t count = c->n * c->weights->layer->spec.d_ff, lines = (count + 15) / 16;
    int64_t begin = lines * member / size * 16, end = lines * (member + 1) / size * 16;
    end = end < count ? end : count;
    if (begin < end)
        c->lender.activate(c->lender.self, end - begin, (c->other ? c->other : c->hidden) + begin, c->hidden + begin,
                           c->hidden + begin);
}

static void call(void *self) {
    onednn_case *c = self;
    int64_t copy = next_copy(c->weights->layer);
    run_stage(c, &c->expand, copy);
    if (!c->activation.fused) {
        bench_team_run(c->weights->team, activate_part, c);
        bench_team_rest(c->weights->team);
    }
    run_stage(c, &c->contract, copy);
}

static const float *output(void *self) {
    const onednn_case *c = self;
    return c->failed ? NULL : c->y;
}

static void chosen(const void *self, char *text) {
    const onednn_case *c = self;
    snprintf(text, PEER_TEXT_BYTES, "up %s (%.30s), down %s (%.30s), activation %s", c->expand.way,
             c->expand.products[0].implementation, c->contract.way, c->contract.products[0].implementation,
             c->activation.fused ? "fused" : "in a loop");
}

static bool own_activation(const void *self) {
    return ((const onednn_case *)self)->activation.fused;
}

static void describe(char *text) {
    static const struct {
        dnnl_cpu_isa_t isa;
        const char *name;
    } isas[] = {{dnnl_cpu_isa_sse41, "sse41"},
                {dnnl_cpu_isa_avx, "avx"},
                {dnnl_cpu_isa_avx2, "avx2"},
                {dnnl_cpu_isa_avx2_vnni, "avx2_vnni"}};
    const dnnl_version_t *version = dnnl_version();
    const char *name = dnnl_get_effective_cpu_isa() == dnnl_cpu_isa_all ? "" : "avx512";
    for (size_t i = 0; i < sizeof isas / sizeof isas[0]; i++) {
        if (dnnl_get_effective_cpu_isa() == isas[i].isa)
            name = isas[i].name;
    }
    snprintf(text, PEER_TEXT_BYTES, "oneDNN %d.%d.%d %s", version->major, version->minor, version->patch, name);
}

const peer_module ffngen_peer = {.interface = PEER_INTERFACE,
                                 .describe = describe,
                                 .weights_create = weights_create,
                                 .weights_destroy = weights_destroy,
                                 .case_create = case_create,
                                 .case_destroy = case_destroy,
                                 .call = call,
                                 .output = output,
                                 .chosen = chosen,
                                 .own_activation = own_activation,
                                 .settle_ms = 10}; /* OpenMP's usual spin */
