/* libxsmm.c: libxsmm as a peer: BRGEMM on blocked layouts, the blocking searched for each case
 *
 * The search goes from a usual blocking outward, one size after the other, as long as its time lasts; the best few then
 * meet in rounds. Every width of panels is a copy of the weights in another order, so large layers get fewer of them.
 */
#include "libxsmm_blocks.h"

#include "rounds.h"

#include <libxsmm.h>
#include <stdio.h>
#include <stdlib.h>

#define SEARCH_SHARE 2  /* of the seconds */
#define FINAL_SHARE 0.4 /* the same */
#define LONG_SHARE 20   /* a call that takes so much of the search's time is long: it is tried once, and decides */
#define FINALISTS 4
#define CANDIDATES_MAX 48
#define ROWS_DEFAULT 32
#define SUM_DEFAULT 256
#define CHUNK_DEFAULT 512
#define LARGE_BYTES                                                                                   \
    ((int64_t)256 << 20) /* of weights: from there on few widths are tried, and the losers' copies go \
                          */

static const int64_t widths[] = {64, 32, 48, 96, 16, 128};
static const int64_t row_wishes[] = {64, 24, 16, 96, 12, 6};
static const int64_t sum_wishes[] = {64, 128, 1024};
static const int64_t chunk_wishes[] = {256, 1024, 128};

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

/* How many of the widths are tried for so many bytes of weights. */
static const struct {
    int64_t weight_bytes;
    int widths;
} limits[] = {{(int64_t)256 << 20, COUNT(widths)}, {(int64_t)1 << 30, 2}, {INT64_MAX, 1}};

typedef struct xsmm_weights {
    bench_layer *layer;
    bench_team *team;
    int width_count; /* that are tried */
    xsmm_panels panels[COUNT(widths)];
} xsmm_weights;

typedef struct candidate {
    xsmm_blocking blocking;
    int width; /* its place in widths */
    double ms;
} candidate;

typedef struct xsmm_case {
    xsmm_weights *weights;
    int64_t n;
    const float *x;
    peer_lender lender;
    bench_clock clock;
    double seconds, search_ms;
    double begin_ms, calls_ms; /* of the search; of its longest call */
    candidate tried[CANDIDATES_MAX];
    int tried_count;
    candidate best;
    xsmm_plan *plan;
    float *y;
} xsmm_case;

static void weights_destroy(void *self) {
    xsmm_weights *weights = self;
    for (int i = 0; i < COUNT(widths); i++)
        xsmm_panels_free(&weights->panels[i]);
    bench_team_destroy(weights->team);
    free(weights);
}

static void *weights_create(bench_layer *layer, int threads, char *text) {
    libxsmm_init();
    xsmm_weights *weights = calloc(1, sizeof *weights);
    bench_team *team = weights ? bench_team_create(threads) : NULL;
    if (!team) {
        free(weights);
        snprintf(text, PEER_TEXT_BYTES, "no memory or no threads");
        return NULL;
    }
    *weights = (xsmm_weights){.layer = layer, .team = team};
    int limit = 0;
    while (layer->weight_bytes > limits[limit].weight_bytes)
        limit++;
    weights->width_count = limits[limit].widths;
    bench_team_rest(team);
    return weights;
}

static xsmm_plan *make(xsmm_case *c, const candidate *of) {
    xsmm_panels *panels = &c->weights->panels[of->width];
    if (!panels->width) {
        double begin = bench_now_ms(BENCH_CLOCK_WALL);
        if (!xsmm_panels_make(c->weights->layer, widths[of->width], panels)) {
            xsmm_panels_free(panels);
            return NULL;
        }
        c->begin_ms += bench_now_ms(BENCH_CLOCK_WALL) - begin; /* done once: not of the search's time */
    }
    return xsmm_plan_make(c->weights->layer, panels, &of->blocking, c->n, c->x, c->lender, c->weights->team);
}

static bool time_left(const xsmm_case *c) {
    return bench_now_ms(BENCH_CLOCK_WALL) - c->begin_ms + 2 * c->calls_ms < c->search_ms;
}

static bool same(const xsmm_blocking *a, const xsmm_blocking *b) {
    return a->bn == b->bn && a->bk == b->bk && a->width == b->width && a->order == b->order && a->chunk == b->chunk;
}

/* The faster of two calls, one where a call is long. The best so far is kept. */
static void try(xsmm_case *c, candidate next) {
    next.blocking.width = widths[next.width];
    next.blocking.bn = next.blocking.bn < c->n ? next.blocking.bn : c->n;
    if ((c->n + next.blocking.bn - 1) / next.blocking.bn < bench_team_size(c->weights->team))
        next.blocking.order = XSMM_WEIGHTS_OUTER; /* which the others then are too */
    if (next.blocking.order != XSMM_FUSED)
        next.blocking.chunk = 0;
    else if (!next.blocking.chunk)
        next.blocking.chunk = CHUNK_DEFAULT;
    for (int i = 0; i < c->tried_count; i++) {
        if (same(&c->tried[i].blocking, &next.blocking))
            return;
    }
    bool first = c->tried_count == 0;
    if (c->tried_count == CANDIDATES_MAX || (!first && !time_left(c)))
        return;
    xsmm_plan *plan = make(c, &next);
    if (!plan)
        return;
    next.ms = INFINITY;
    for (int i = 0; i < 3 && (i == 0 || c->calls_ms < c->search_ms / LONG_SHARE); i++) {
        double begin = bench_now_ms(c->clock);
        xsmm_plan_run(plan);
        double ms = bench_now_ms(c->clock) - begin;
        next.ms = ms < next.ms ? ms : next.ms;
        c->calls_ms = ms > c->calls_ms ? ms : c->calls_ms;
    }
    xsmm_plan_free(plan);
    c->tried[c->tried_count++] = next;
    if (first || next.ms < c->best.ms)
        c->best = next;
}

static void search(xsmm_case *c) {
    c->begin_ms = bench_now_ms(BENCH_CLOCK_WALL);
    for (int order = 0; order < XSMM_ORDERS; order++)
        try(c, (candidate){.blocking = {ROWS_DEFAULT, SUM_DEFAULT, 0, 0, (xsmm_order)order}});
    for (int turn = 0; turn < 2; turn++) { /* a size found early is looked at again beside the others */
        for (int i = 0; i < c->weights->width_count; i++) {
            candidate next = c->best;
            next.width = i;
            try(c, next);
        }
        for (int i = 0; i < COUNT(row_wishes); i++) {
            candidate next = c->best;
            next.blocking.bn = row_wishes[i];
            try(c, next);
        }
        for (int i = 0; i < COUNT(sum_wishes); i++) {
            candidate next = c->best;
            next.blocking.bk = sum_wishes[i];
            try(c, next);
        }
        for (int order = 0; order < XSMM_ORDERS; order++) {
            candidate next = c->best;
            next.blocking.order = (xsmm_order)order;
            try(c, next);
        }
        for (int i = 0; i < COUNT(chunk_wishes) && c->best.blocking.order == XSMM_FUSED; i++) {
            candidate next = c->best;
            next.blocking.chunk = chunk_wishes[i];
            try(c, next);
        }
    }
}

static int by_time(const void *a, const void *b) {
    double left = ((const candidate *)a)->ms, right = ((const candidate *)b)->ms;
    return (left > right) - (left < right);
}

/* The best few, in rounds. */
static void decide(xsmm_case *c) {
    static bench_contender contenders[FINALISTS];
    xsmm_plan *plans[FINALISTS];
    int count = 0, best = 0;
    qsort(c->tried, (size_t)c->tried_count, sizeof *c->tried, by_time);
    int finalists = c->calls_ms < c->search_ms / LONG_SHARE ? FINALISTS : 1;
    for (; count < finalists && count < c->tried_count; count++) {
        plans[count] = make(c, &c->tried[count]);
        if (!plans[count])
            break;
        contenders[count] = (bench_contender){.call = xsmm_plan_run, .self = plans[count]};
    }
    if (count > 1)
        bench_rounds(contenders, count, c->clock, 3, FINAL_SHARE * c->seconds);
    for (int i = 1; i < count; i++) {
        if (contenders[i].ms_min < contenders[best].ms_min)
            best = i;
    }
    for (int i = 0; i < count; i++) {
        if (i != best)
            xsmm_plan_free(plans[i]);
    }
    c->plan = count ? plans[best] : NULL;
    c->best = c->tried[best];
}

static void case_destroy(void *self) {
    xsmm_case *c = self;
    xsmm_plan_free(c->plan);
    bench_free(c->y);
    free(c);
}

static void *case_create(void *self, int64_t n, const float *x, peer_lender lender, double seconds, char *text) {
    xsmm_weights *weights = self;
    xsmm_case *c = calloc(1, sizeof *c);
    if (c) {
        *c = (xsmm_case){.weights = weights,
                         .n = n,
                         .x = x,
                         .lender = lender,
                         .seconds = seconds,
                         .search_ms = SEARCH_SHARE * 1e3 * seconds,
                         .clock = bench_team_size(weights->team) == 1 ? BENCH_CLOCK_THREAD : BENCH_CLOCK_WALL,
                         .y = bench_alloc((size_t)(n * weights->layer->spec.d_model) * sizeof(float))};
        search(c);
        if (c->tried_count)
            decide(c);
        if (c->plan && c->y)
            return c;
        case_destroy(c);
    }
    snprintf(text, PEER_TEXT_BYTES, "no memory, or libxsmm makes no kernel for this CPU");
    return NULL;
}

static void call(void *self) {
    xsmm_plan_run(((const xsmm_case *)self)->plan);
}

static const float *output(void *self) {
    const xsmm_case *c = self;
    xsmm_plan_output(c->plan, c->y);
    return c->y;
}

static void rest(void *self) {
    bench_team_rest(((const xsmm_case *)self)->weights->team);
}

static void chosen(const void *self, char *text) {
    static const char *const orders[XSMM_ORDERS] = {"weights outermost", "rows outermost", "fused"};
    const xsmm_case *c = self;
    const xsmm_blocking *b = &c->best.blocking;
    int length = snprintf(text, PEER_TEXT_BYTES, "blocks of %lld rows, %lld terms, %lld columns, %s", (long long)b->bn,
                          (long long)b->bk, (long long)b->width, orders[b->order]);
    if (b->order == XSMM_FUSED)
        length += snprintf(text + length, PEER_TEXT_BYTES - (size_t)length, " by %lld", (long long)b->chunk);
    snprintf(text + length, PEER_TEXT_BYTES - (size_t)length, "; of %d tried", c->tried_count);
}

static void describe(char *text) {
    libxsmm_init();
    snprintf(text, PEER_TEXT_BYTES, "libxsmm %s %s", LIBXSMM_VERSION, libxsmm_get_target_arch());
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
                                 .rest = rest};
