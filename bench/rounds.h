/* rounds.h: several contenders timed in turn, so that a change of the machine's pace meets all of them
 *
 * A sample is a run of calls long enough for the clock; a round takes one sample of each contender. Reported are the
 * fastest sample (what the code can do) and the median (what it does). */
#ifndef BENCH_ROUNDS_H
#define BENCH_ROUNDS_H

#include <stdint.h>

#define BENCH_ROUNDS_MAX 201

typedef struct bench_contender {
    void (*call)(void *self);
    void *self;
    void (*rest)(void *self); /* after its samples: sends its threads to sleep; NULL: it has none */
    double settle_ms;         /* then waits as long as this, with BENCH_CLOCK_WALL: threads it cannot send spin on */
    int64_t calls;            /* in one sample */
    int rounds;
    double ms_min, ms_median;         /* of one call */
    double samples[BENCH_ROUNDS_MAX]; /* of one call, by round */
} bench_contender;

/* What is counted. THREAD leaves out the time when the system gave the core to someone else; it is right only where
 * the calling thread does all the work. */
typedef enum bench_clock { BENCH_CLOCK_THREAD, BENCH_CLOCK_WALL } bench_clock;

double bench_now_ms(bench_clock clock);

/* At least `rounds_min` rounds (1 or more), then as many as `seconds` of wall time allow. Returns the share of the wall
 * time that went to others: 0 on a quiet machine, and always with BENCH_CLOCK_WALL, which can't tell. */
double bench_rounds(bench_contender *contenders, int count, bench_clock clock, int rounds_min, double seconds);

/* The median over the rounds of a's time over b's: what a machine does to both in one round cancels out. */
double bench_ratio(const bench_contender *a, const bench_contender *b);

#endif
