/* suite_schedule.h: cases of known size and a time for all of them -> the seconds of each, or that it is left out
 *
 * Nothing is fixed beforehand: each case is dealt its time when its turn comes, from what is left and from how long
 * those before it really took. So the total holds whatever the machine's pace. */
#ifndef SUITE_SCHEDULE_H
#define SUITE_SCHEDULE_H

#include "ffn.h"

#define SUITE_SECONDS_LEAST 0.05 /* for the rounds of a case */
#define SUITE_SECONDS_FULL 1.0   /* more would change no figure */

typedef enum suite_state { SUITE_WAITING, SUITE_RUNNING, SUITE_TAKEN, SUITE_FAILED, SUITE_LEFT_OUT } suite_state;

typedef struct suite_case {
    ffn_spec spec;
    int64_t n;
    int threads;
    double work;  /* flops of a call x contenders: time is dealt in proportion to it */
    double least; /* seconds that it takes at any rate, as estimated: checks, trials, three rounds */
    suite_state state;
    double seconds; /* dealt for its rounds */
} suite_case;

typedef struct suite_schedule {
    suite_case *cases;
    int count, running;     /* -1: none runs */
    double budget;          /* seconds for all */
    double trials;          /* seconds that go by for each second of rounds: the rounds, and the peers' trials */
    double begun;           /* when the running one began, on the caller's clock, which starts at 0 */
    double real, estimated; /* sums over those that are done */
} suite_schedule;

/* Every spec once, small ones first; of each the thread counts, of each of those the n. free() cases. `gflops`: of one
 * thread; `contenders`: the kernel and the peers. */
ffn_status suite_schedule_make(const ffn_spec *specs, int spec_count, const int64_t *n, int n_count, const int *threads,
                               int threads_count, int contenders, double gflops, double budget,
                               suite_schedule *schedule, ffn_diag *diag);
/* Case `index` begins at `now`: its seconds, or 0 if it is left out. The one before ends thereby. */
double suite_schedule_deal(suite_schedule *schedule, int index, double now);
/* Nothing runs any more. */
void suite_schedule_end(suite_schedule *schedule, double now);
/* Seconds that the rest will take, as it looks now. */
double suite_schedule_left(const suite_schedule *schedule, double now);

/* The distinct shapes of the presets; free(). */
ffn_status suite_presets(ffn_spec **specs, int *count, ffn_diag *diag);

#endif
