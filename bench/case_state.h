/* case_state.h: one measurement under way; of case.c and case_figures.c alone */
#ifndef BENCH_CASE_STATE_H
#define BENCH_CASE_STATE_H

#include "case.h"
#include "probes.h"
#include "rounds.h"

#define PEAK_TURNS 2000
#define ACTIVATE_COUNT 1024 /* values: input, second input and output stay in L1 together */

enum {
    KERNEL,
    PEAK,
    READ,
    ACTIVATE,
    KERNEL_ALONE,
    FREE,
    STAGES,
    FAST,
    DENSE,
    HAND,
    PEAK_ALONE,
    READ_ALONE,
    PEERS,
    CONTENDERS = PEERS + BENCH_PEERS_MAX
};

/* How so many threads together read the weights fastest. */
typedef struct reading {
    bench_read read; /* NULL: too few bytes, or no probes */
    double ms;       /* the best so far */
    int64_t bytes;   /* of a member */
} reading;

typedef struct case_state {
    const bench_request *request;
    ffn_args args; /* packed changes with each call */
    ffn_work work; /* of the call that runs */
    bench_clock clock;
    float *values;
    const bench_probes *probes;
    reading together, alone;
    const char *read_from;
    bench_free_order free; /* kernel NULL: takes no part */
    bench_stages stages;   /* likewise */
    bench_beside fast;     /* likewise */
    bench_hand hand;       /* likewise */
    ffn_status status;     /* of the last call */
    ffn_diag diag;
    void *peers[BENCH_PEERS_MAX]; /* cases of their modules; NULL: not there, or wrong */
    bench_contender contenders[CONTENDERS];
} case_state;

/* The report of contenders that have their times; its errors and digest are others' work. */
void case_figures(case_state *s, bench_report *report);

#endif
