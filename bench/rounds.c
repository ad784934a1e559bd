/* rounds.c: calibration, rounds, minimum and median */
#define _POSIX_C_SOURCE 200809L
#include "rounds.h"

#include <stdlib.h>
#include <time.h>

#define SAMPLE_MS 0.5 /* thousands of times the clock's own step */
#define WARM_CALL_MS                                                         \
    50 /* longer calls bring their own data in; a call to warm up would only \
          cost time */

double bench_now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static double sample_ms(const bench_contender *contender) {
    double begin = bench_now_ms();
    for (int64_t i = 0; i < contender->calls; i++)
        contender->call(contender->self);
    return bench_now_ms() - begin;
}

static void calibrate(bench_contender *contender) {
    contender->call(contender->self);
    contender->calls = 1;
    while (sample_ms(contender) < SAMPLE_MS && contender->calls < (INT64_C(1) << 40))
        contender->calls *= 2;
}

static int ascending(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

void bench_rounds(bench_contender *contenders, int count, int rounds_min, double seconds) {
    for (int c = 0; c < count; c++)
        calibrate(&contenders[c]);
    double begin = bench_now_ms();
    int rounds = 0;
    while (rounds < rounds_min || (rounds < BENCH_ROUNDS_MAX && bench_now_ms() - begin < seconds * 1e3)) {
        for (int c = 0; c < count; c++) {
            bench_contender *contender = &contenders[c];
            if (contender->samples[rounds ? rounds - 1 : 0] < WARM_CALL_MS)
                contender->call(contender->self);
            contender->samples[rounds] = sample_ms(contender) / (double)contender->calls;
        }
        rounds++;
    }
    for (int c = 0; c < count; c++) {
        qsort(contenders[c].samples, (size_t)rounds, sizeof(double), ascending);
        contenders[c].ms_min = contenders[c].samples[0];
        contenders[c].ms_median = contenders[c].samples[rounds / 2];
    }
}
