/* suite_schedule.c: time dealt out case by case */
#include "suite_schedule.h"

#include "cmd_bench_spec.h"

#include "diag.h"

#include <math.h>
#include <stdlib.h>

#define CALLS 12.0        /* of each contender: checks, trials, three rounds */
#define OVERHEAD 0.35     /* seconds: a kernel made and verified, peers' kernels */
#define LAYER_SECONDS 1.2 /* weights and oracle of a spec, */
#define LAYER_RATE 8e7    /* and so many weights a second packed, reordered and copied */
#define TRIALS_ALONE 1.05 /* the kernel alone has none */
#define TRIALS_PEERS 4.0  /* the search of a peer takes twice the seconds of the rounds, others a few per cent */
#define PACE_LEAST 0.25   /* what is believed of how far the estimates are off */
#define PACE_MOST 20.0
#define PACE_WEIGHT 3.0 /* seconds as estimated, that count for the estimate until so much is done */

static double weights_of(const ffn_spec *spec) {
    return (double)spec->d_model * (double)spec->d_ff * (ffn_spec_gated(spec) ? 3 : 2);
}

static int smaller_first(const void *a, const void *b) {
    double left = weights_of(a), right = weights_of(b);
    return (left > right) - (left < right);
}

ffn_status suite_schedule_make(const ffn_spec *specs, int spec_count, const int64_t *n, int n_count, const int *threads,
                               int threads_count, int contenders, double gflops, double budget,
                               suite_schedule *schedule, ffn_diag *diag) {
    *schedule =
        (suite_schedule){.running = -1, .budget = budget, .trials = contenders > 1 ? TRIALS_PEERS : TRIALS_ALONE};
    ffn_spec *sorted = malloc((size_t)spec_count * sizeof *sorted);
    schedule->cases = malloc((size_t)(spec_count * n_count * threads_count) * sizeof *schedule->cases);
    if (!sorted || !schedule->cases) {
        free(sorted);
        free(schedule->cases);
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for %d specs", spec_count);
    }
    for (int s = 0; s < spec_count; s++)
        sorted[s] = specs[s];
    qsort(sorted, (size_t)spec_count, sizeof *sorted, smaller_first);
    for (int s = 0; s < spec_count; s++) {
        for (int t = 0; t < threads_count; t++) {
            for (int i = 0; i < n_count; i++) {
                double flops = 2 * weights_of(&sorted[s]) * (double)n[i], work = flops * contenders;
                double layer = (LAYER_SECONDS + weights_of(&sorted[s]) / LAYER_RATE) / n_count;
                schedule->cases[schedule->count++] =
                    (suite_case){.spec = sorted[s],
                                 .n = n[i],
                                 .threads = threads[t],
                                 .work = work,
                                 .least = OVERHEAD + layer + CALLS * work / (gflops * 1e9 * threads[t])};
            }
        }
    }
    free(sorted);
    return FFN_OK;
}

/* How much longer cases take than estimated. */
static double pace(const suite_schedule *s) {
    return fmax(PACE_LEAST, fmin(PACE_MOST, (s->real + PACE_WEIGHT) / (s->estimated + PACE_WEIGHT)));
}

static double cost(const suite_schedule *s, const suite_case *c) {
    return c->least * pace(s) + s->trials * SUITE_SECONDS_LEAST;
}

/* Below which cost cases fit into `left` together, the cheap ones first; infinity if all do. */
static double limit_of(const suite_schedule *s, int from, double left) {
    double above = INFINITY;
    for (;;) {
        double sum = 0, dearest = 0;
        for (int i = from; i < s->count; i++) {
            double own = cost(s, &s->cases[i]);
            if (own >= above)
                continue;
            sum += own;
            dearest = fmax(dearest, own);
        }
        if (sum <= left || dearest == 0)
            return above;
        above = dearest;
    }
}

/* Seconds of rounds for a case of so much work: all get the same for a flop, but no more than is of use. */
static double share(const suite_schedule *s, int from, double limit, double left, double work) {
    double rate = 0;
    for (int turn = 0; turn < 12; turn++) { /* each turn, what those that are full do not take goes to the others */
        double spare = left, open = 0;
        for (int i = from; i < s->count; i++) {
            const suite_case *c = &s->cases[i];
            double own = cost(s, c);
            if (own >= limit)
                continue;
            spare -= own;
            if (rate > 0 && c->work * rate >= SUITE_SECONDS_FULL - SUITE_SECONDS_LEAST)
                spare -= (SUITE_SECONDS_FULL - SUITE_SECONDS_LEAST) * s->trials;
            else
                open += c->work;
        }
        if (!(open > 0) || !(spare > 0))
            break;
        rate = fmax(rate, spare / s->trials / open);
    }
    return fmin(SUITE_SECONDS_FULL, SUITE_SECONDS_LEAST + rate * work);
}

void suite_schedule_end(suite_schedule *s, double now) {
    if (s->running < 0)
        return;
    const suite_case *c = &s->cases[s->running];
    s->real += fmax(0, now - s->begun - s->trials * c->seconds);
    s->estimated += c->least;
    s->running = -1;
}

double suite_schedule_deal(suite_schedule *s, int index, double now) {
    suite_schedule_end(s, now);
    suite_case *c = &s->cases[index];
    double left = s->budget - now, limit = limit_of(s, index, left);
    if (cost(s, c) >= limit) {
        c->state = SUITE_LEFT_OUT;
        return 0;
    }
    c->seconds = share(s, index, limit, left, c->work);
    c->state = SUITE_RUNNING;
    s->running = index;
    s->begun = now;
    return c->seconds;
}

double suite_schedule_left(const suite_schedule *s, double now) {
    double left = s->budget - now, sum = 0;
    int from = s->running < 0 ? 0 : s->running;
    double limit = limit_of(s, from, left);
    for (int i = from; i < s->count; i++) {
        const suite_case *c = &s->cases[i];
        if (c->state <= SUITE_RUNNING && cost(s, c) < limit)
            sum += c->least * pace(s) + s->trials * share(s, from, limit, left, c->work);
    }
    return fmax(0, fmin(sum, left));
}

ffn_status suite_presets(ffn_spec **specs, int *count, ffn_diag *diag) {
    *specs = NULL;
    *count = 0;
    return bench_preset_specs(specs, count) ? diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for the presets") : FFN_OK;
}
