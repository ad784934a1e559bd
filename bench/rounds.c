/* rounds.c: calibration, rounds, minimum, median and paired ratios */
#define _POSIX_C_SOURCE 200809L
#include "rounds.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SAMPLE_MS 0.5    /* thousands of times the clock's own step */
#define TEAM_SAMPLE_MS 4 /* of several threads: one that loses its core for a moment must not be all of the sample */
#define WARM_CALL_MS 50  /* longer calls bring their own data in; the one that calibrates is then a sample too */

double bench_now_ms(bench_clock clock) {
    struct timespec now;
    clock_gettime(clock == BENCH_CLOCK_THREAD ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static double sample_ms(const bench_contender *contender, bench_clock clock) {
    double begin = bench_now_ms(clock);
    for (int64_t i = 0; i < contender->calls; i++)
        contender->call(contender->self);
    return bench_now_ms(clock) - begin;
}

static double enough_ms(bench_clock clock) {
    return clock == BENCH_CLOCK_WALL ? TEAM_SAMPLE_MS : SAMPLE_MS;
}

/* The fastest of a few: one that was interrupted would make the samples too short. */
static double fastest_ms(const bench_contender *contender, bench_clock clock) {
    double fastest = sample_ms(contender, clock);
    for (int i = 1; i < 3 && fastest >= enough_ms(clock) && fastest < WARM_CALL_MS; i++) {
        double again = sample_ms(contender, clock);
        fastest = again < fastest ? again : fastest;
    }
    return fastest;
}

static void calibrate(bench_contender *contender, bench_clock clock) {
    contender->calls = 1;
    contender->samples[0] = sample_ms(contender, clock);
    if (contender->samples[0] > WARM_CALL_MS)
        return;
    while (fastest_ms(contender, clock) < enough_ms(clock) && contender->calls < (INT64_C(1) << 40))
        contender->calls *= 2;
}

/* Nothing of a contender takes time from the next one. */
static void leave(const bench_contender *contender, bench_clock clock) {
    if (contender->rest)
        contender->rest(contender->self);
    if (clock == BENCH_CLOCK_WALL && contender->settle_ms > 0) {
        long nanoseconds = (long)(contender->settle_ms * 1e6);
        nanosleep(&(struct timespec){nanoseconds / 1000000000, nanoseconds % 1000000000}, NULL);
    }
}

static int ascending(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

double bench_rounds(bench_contender *contenders, int count, bench_clock clock, int rounds_min, double seconds) {
    for (int c = 0; c < count; c++) {
        calibrate(&contenders[c], clock);
        leave(&contenders[c], clock);
    }
    double begin = bench_now_ms(BENCH_CLOCK_WALL), own_begin = bench_now_ms(clock);
    int rounds = 0;
    while (rounds < rounds_min ||
           (rounds < BENCH_ROUNDS_MAX && bench_now_ms(BENCH_CLOCK_WALL) - begin < seconds * 1e3)) {
        for (int c = 0; c < count; c++) {
            bench_contender *contender = &contenders[c];
            if (rounds == 0 && contender->samples[0] > WARM_CALL_MS)
                continue; /* taken already */
            if (contender->samples[rounds ? rounds - 1 : 0] <= WARM_CALL_MS)
                contender->call(contender->self);
            contender->samples[rounds] = sample_ms(contender, clock) / (double)contender->calls;
            leave(contender, clock);
        }
        rounds++;
    }
    double own = bench_now_ms(clock) - own_begin, wall = bench_now_ms(BENCH_CLOCK_WALL) - begin;
    for (int c = 0; c < count; c++) {
        double sorted[BENCH_ROUNDS_MAX];
        memcpy(sorted, contenders[c].samples, (size_t)rounds * sizeof *sorted);
        qsort(sorted, (size_t)rounds, sizeof *sorted, ascending);
        contenders[c].rounds = rounds;
        contenders[c].ms_min = sorted[0];
        contenders[c].ms_median = sorted[rounds / 2];
    }
    return wall > own ? 1 - own / wall : 0;
}

double bench_ratio(const bench_contender *a, const bench_contender *b) {
    double ratios[BENCH_ROUNDS_MAX];
    for (int r = 0; r < a->rounds; r++)
        ratios[r] = a->samples[r] / b->samples[r];
    qsort(ratios, (size_t)a->rounds, sizeof *ratios, ascending);
    return ratios[a->rounds / 2];
}
