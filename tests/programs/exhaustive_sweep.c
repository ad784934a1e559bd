/* exhaustive_sweep.c: see exhaustive_sweep.h
 *
 * Arguments are numbered from -infinity to +infinity, so that neighbours are neighbours; NaN by NaN comes after.
 * Threads take chunks of the numbers. A block goes through the graph, the compiled code and the reference in double;
 * only where that leaves open which side of 1 or 2 ULP a result lies on, or whether a maximum is a new one, MPFR
 * decides. */
#include "exhaustive_sweep.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "expect.h"
#include "support_formula.h"

#define HALF UINT32_C(0x7f800001) /* numbers of one sign, infinity included */
#define NANS UINT32_C(0x7fffff)   /* of one sign */
#define MARGIN 4e-6               /* ULP: 1e-13 of the value, twice what the reference is allowed */
#define ABOVE 1e-5                /* 1.00001 is above 1: errors of 1 and a hair are many, where x is tiny */
#define OFF_MAX 1e-13

enum { BLOCK = 4096, CHUNK_BLOCKS = 256, THREADS_MAX = 64 };

static const int64_t chunk = (int64_t)BLOCK * CHUNK_BLOCKS;

typedef struct worker {
    const sweep_job *job;
    atomic_llong *next; /* chunk of the numbers, then of the checks */
    int64_t checks;
    sweep_result result;
    float x[BLOCK + 1], out[BLOCK + 1], code[BLOCK + 1], up[BLOCK + 1];
    double y[BLOCK + 1], error[BLOCK + 1];
} worker;

static int64_t number_of(float x) {
    const int64_t magnitude = (int64_t)(bits_of(x) & 0x7fffffff);
    return signbit(x) ? (int64_t)HALF - 1 - magnitude : (int64_t)HALF + magnitude;
}

/* The n-th argument of the job. */
static float number_at(const sweep_job *job, int64_t n) {
    const int64_t number = number_of(job->from) + n * job->stride;
    return float_of(number < (int64_t)HALF ? UINT32_C(0x80000000) | (uint32_t)((int64_t)HALF - 1 - number)
                                           : (uint32_t)(number - (int64_t)HALF));
}

static int64_t numbers_of(const sweep_job *job) {
    return (number_of(job->to) - number_of(job->from)) / job->stride + 1;
}

static double ulp_of(double value) {
    const double magnitude = fmax(fabs(value), 0x1p-126);
    return ldexp(1, ilogb(magnitude) - 23);
}

static bool is_outside(const worker *w, float x) {
    return (strcmp(w->job->name, "log") == 0 && x < 0) || (strcmp(w->job->name, "log1p") == 0 && x < -1);
}

/* The limits, by value. */
static void see_infinity(worker *w, float x, float out) {
    const exact_error error = exact_compare(w->job->name, w->job->parameters, x, w->job->up, out);
    const bool undefined = isnan(error.value); /* log(-infinity) */
    if (undefined ? !isnan(out) : isnan(out) || (double)out != (double)(float)error.value) {
        w->result.wrong++;
        w->result.wrong_at = x;
    }
}

/* error[i] by MPFR where the double leaves a doubt. */
static double settle(worker *w, int32_t i) {
    const float out = w->out[i];
    w->result.exact_calls++;
    return isinf(out) || fabs(w->y[i]) >= 0x1.ffffffp127
               ? w->error[i]
               : exact_compare(w->job->name, w->job->parameters, w->x[i], w->job->up, out).ulps;
}

static void see_errors(worker *w, int32_t count) {
    sweep_result *const r = &w->result;
    reference_errors found = reference_measure(count, w->out, w->y, ABOVE, MARGIN, w->error);
    if (found.doubtful > 0 || found.largest > r->largest + MARGIN ||
        found.largest_subnormal > r->largest_subnormal + MARGIN)
        for (int32_t i = 0; i < count; i++) {
            const double e = w->error[i];
            const bool subnormal = fabs(w->y[i]) < 0x1p-126;
            double *const most = subnormal ? &r->largest_subnormal : &r->largest;
            const bool doubtful = !subnormal && (fabs(e - ABOVE - 1) < MARGIN || fabs(e - ABOVE - 2) < MARGIN);
            if (!doubtful && e <= *most + MARGIN)
                continue;
            const double exact = doubtful || e > 0.99 ? settle(w, i) : e;
            if (!subnormal) {
                found.above_1 += (exact > 1 + ABOVE) - (e > 1 + ABOVE);
                found.above_2 += (exact > 2 + ABOVE) - (e > 2 + ABOVE);
            }
            if (exact > *most) {
                *most = exact;
                *(subnormal ? &r->subnormal_at : &r->at) = w->x[i];
            }
        }
    r->above_1 += found.above_1;
    r->above_2 += found.above_2;
}

static void see_distance(worker *w, int32_t count) {
    if (reference_distance(count, w->x, w->out, w->y) <= w->result.distance)
        return;
    for (int32_t i = 0; i < count; i++) {
        const double distance = reference_distance(1, &w->x[i], &w->out[i], &w->y[i]);
        if (distance > w->result.distance) {
            w->result.distance = distance;
            w->result.distance_at = w->x[i];
        }
    }
}

/* out[0 .. count] are neighbours. */
static void see_order(worker *w, int32_t count) {
    const bool rises = (double)w->x[0] >= w->job->turn;
    const bool rising = rises != w->job->falls, straddles = rises != ((double)w->x[count] >= w->job->turn);
    const int32_t turns = straddles ? 1 : reference_turns(count + 1, w->out, rising);
    if (turns == 0)
        return;
    for (int32_t i = 0; i < count; i++) {
        const bool up = ((double)w->x[i] >= w->job->turn) != w->job->falls;
        if (((double)w->x[i] >= w->job->turn) != ((double)w->x[i + 1] >= w->job->turn))
            continue;
        if (up ? w->out[i + 1] < w->out[i] : w->out[i + 1] > w->out[i]) {
            const double step = fabs((double)w->out[i] - (double)w->out[i + 1]) / ulp_of((double)w->out[i]);
            w->result.turns++;
            if (step > w->result.step) {
                w->result.step = step;
                w->result.step_at = w->x[i];
            }
        }
    }
}

static void see_code(worker *w, int32_t count) {
    if (!w->job->activate)
        return;
    w->job->activate(count, w->x, w->up, w->code);
    for (int32_t i = 0; i < count; i++)
        if (!same_bits(w->out[i], w->code[i])) {
            w->result.unequal++;
            w->result.unequal_at = w->x[i];
        }
}

/* True if an answer is no number where one belongs, or one where none does. */
static bool see_nans(worker *w, int32_t count, bool wanted) {
    int32_t nans = 0;
    for (int32_t i = 0; i < count; i++)
        nans += (bits_of(w->out[i]) & 0x7fffffff) > 0x7f800000;
    if (nans == (wanted ? count : 0))
        return false;
    for (int32_t i = 0; i < count; i++)
        if (isnan(w->out[i]) != wanted) {
            w->result.wrong++;
            w->result.wrong_at = w->x[i];
        }
    return true;
}

/* Numbers begin .. begin + count - 1, and the one after for the order; none is outside and none infinite but the ends.
 */
static void see_block(worker *w, int64_t begin, int32_t count) {
    const bool next = begin + count < numbers_of(w->job);
    for (int32_t i = 0; i < count + next; i++)
        w->x[i] = number_at(w->job, begin + i);
    formula_eval(w->job->graph, count + next, w->x, w->up, w->out);
    see_code(w, count);
    if (is_outside(w, w->x[count - 1 + next])) {
        see_nans(w, count, true);
        return;
    }
    if (isinf(w->x[0]) || isinf(w->x[count - 1]) || is_outside(w, w->x[0])) { /* a block where kinds meet */
        for (int32_t i = 0; count > 1 && i < count; i++)
            see_block(w, begin + i, 1);
        if (count > 1)
            return;
        if (isinf(w->x[0]))
            see_infinity(w, w->x[0], w->out[0]);
        else
            see_nans(w, 1, is_outside(w, w->x[0]));
        return;
    }
    if (see_nans(w, count, false))
        return;
    w->job->reference(w->job->parameters, count, w->x, w->y);
    if (w->job->fast)
        see_distance(w, count);
    else
        see_errors(w, count);
    see_order(w, count - !next);
}

static void see_nan_block(worker *w, int64_t begin, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        const int64_t n = begin + i;
        w->x[i] = float_of(n < (int64_t)NANS ? UINT32_C(0x7f800001) + (uint32_t)n
                                             : UINT32_C(0xff800001) + (uint32_t)(n - (int64_t)NANS));
    }
    formula_eval(w->job->graph, count, w->x, w->up, w->out);
    see_code(w, count);
    see_nans(w, count, true);
}

/* Whether the reference is right: half of the arguments are any floats, half lie where activations bend. */
static void check_reference(worker *w, uint64_t seed, int32_t count) {
    uint64_t state = seed * 2 + 1;
    for (int32_t i = 0; i < 8; i++)
        next_random(&state);
    for (int32_t i = 0; i < count; i++)
        do {
            const float any = float_of(random_word(&state));
            w->x[i] = i % 2 || !isfinite(any) ? (float)random_between(&state, -115, 115) : any;
        } while (is_outside(w, w->x[i]));
    w->job->reference(w->job->parameters, count, w->x, w->y);
    for (int32_t i = 0; i < count; i++) {
        const double exact = exact_compare(w->job->name, w->job->parameters, w->x[i], w->job->up, 0).value;
        const double off = isinf(exact) ? (fabs(w->y[i]) < 0x1.ffffffp127) : fabs(w->y[i] - exact) / fabs(exact);
        if (fabs(w->y[i] - exact) < 0x1p-170 || off <= w->result.off) /* what is far below f32 may be off */
            continue;
        w->result.off = off;
        w->result.off_at = w->x[i];
    }
}

static void *work(void *self) {
    worker *const w = self;
    const int64_t numbers = numbers_of(w->job), chunks = (numbers + chunk - 1) / chunk,
                  nan_chunks = (2 * (int64_t)NANS + chunk - 1) / chunk;
    const int64_t checks = (w->checks + BLOCK - 1) / BLOCK;
    for (int32_t i = 0; i <= BLOCK; i++)
        w->up[i] = w->job->up;
    for (;;) {
        const int64_t taken = atomic_fetch_add(w->next, 1);
        if (taken >= chunks + nan_chunks + checks)
            break;
        if (taken >= chunks + nan_chunks) {
            check_reference(w, (uint64_t)(taken - chunks - nan_chunks), BLOCK);
            continue;
        }
        const bool nan = taken >= chunks;
        const int64_t first = (nan ? taken - chunks : taken) * chunk, all = nan ? 2 * (int64_t)NANS : numbers;
        for (int64_t begin = first; begin < first + chunk && begin < all; begin += BLOCK) {
            const int32_t count = all - begin < BLOCK ? (int32_t)(all - begin) : BLOCK;
            (nan ? see_nan_block : see_block)(w, begin, count);
        }
    }
    exact_cleanup();
    return NULL;
}

#define MERGE_LARGEST(VALUE, AT)   \
    if (from->VALUE > to->VALUE) { \
        to->VALUE = from->VALUE;   \
        to->AT = from->AT;         \
    }
#define MERGE_COUNT(VALUE, AT) \
    if (from->VALUE > 0)       \
        to->AT = from->AT;     \
    to->VALUE += from->VALUE

static void merge(sweep_result *to, const sweep_result *from) {
    MERGE_LARGEST(largest, at)
    MERGE_LARGEST(largest_subnormal, subnormal_at)
    MERGE_LARGEST(distance, distance_at)
    MERGE_LARGEST(step, step_at)
    MERGE_LARGEST(off, off_at)
    MERGE_COUNT(wrong, wrong_at);
    MERGE_COUNT(unequal, unequal_at);
    to->above_1 += from->above_1;
    to->above_2 += from->above_2;
    to->turns += from->turns;
    to->exact_calls += from->exact_calls;
}

sweep_result sweep_run(const sweep_job *job, int32_t threads, int64_t checks) {
    atomic_llong next = 0;
    pthread_t ids[THREADS_MAX];
    worker *workers[THREADS_MAX];
    sweep_result result = {0};
    threads = threads < THREADS_MAX ? threads : THREADS_MAX;
    for (int32_t t = 0; t < threads; t++) {
        workers[t] = calloc(1, sizeof *workers[t]);
        EXPECT(workers[t], "out of memory");
        workers[t]->job = job;
        workers[t]->next = &next;
        workers[t]->checks = checks;
        EXPECT(pthread_create(&ids[t], NULL, work, workers[t]) == 0, "no thread");
    }
    for (int32_t t = 0; t < threads; t++) {
        pthread_join(ids[t], NULL);
        merge(&result, &workers[t]->result);
        free(workers[t]);
    }
    return result;
}
