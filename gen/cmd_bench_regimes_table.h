/* cmd_bench_regimes_table.h: the regimes a kernel is meant for, and what is wanted in each, as data */
#ifndef CMD_BENCH_REGIMES_TABLE_H
#define CMD_BENCH_REGIMES_TABLE_H

#include "ffn.h"

#include <stdbool.h>

typedef enum regime_figure {
    FIGURE_ROOF, /* shares of what the machine can do, of the fastest samples */
    FIGURE_PEAK,
    FIGURE_READ,
    FIGURE_STEP,    /* in time per row between n and n + 1 */
    FIGURE_SPEEDUP, /* of several threads over one, over that of the peak */
    FIGURE_PEER,    /* the best peer's time over the kernel's */
    FIGURE_MEAN,    /* geometric, of those of a regime */
    FIGURE_COMPILE_ONE,
    FIGURE_COMPILE_ALL,
    FIGURE_CODE,
    FIGURE_PACKED,
    FIGURE_SCRATCH,
    FIGURES
} regime_figure;

typedef struct regime_figure_row {
    const char *name, *unit; /* of JSON; of people */
    double scale;            /* from the value to its unit */
    int digits;
    bool most; /* the limit is the most that is allowed, not the least */
} regime_figure_row;

extern const regime_figure_row regime_figures[FIGURES];

typedef enum regime_kind {
    REGIME_ROWS,    /* each spec and n by itself */
    REGIME_RANGE,   /* every n from the first to the last: the worst */
    REGIME_NARROW,  /* rows of AVX2 kernels, on machines with wider vectors */
    REGIME_PEERS,   /* rows against the best peer */
    REGIME_COMPILE, /* generated code: time and bytes */
    REGIME_MEMORY,
} regime_kind;

typedef struct regime_limit {
    regime_figure figure;
    double wanted, untuned; /* untuned 0: the same */
} regime_limit;

enum { REGIME_SPECS = 6, REGIME_NS = 20, REGIME_LIMITS = 4 };

typedef struct regime {
    const char *name;
    const char *title;
    regime_kind kind;
    const char *specs[REGIME_SPECS]; /* none: every preset */
    int64_t n[REGIME_NS];            /* as many as are not 0 */
    int threads;                     /* 0: one */
    const char *peers;               /* as --vs takes them */
    const char *tuned;               /* NULL: as asked for */
    bool fast;                       /* REGIME_PEERS: ours beside those that have an activation of their own */
    double close;                    /* REGIME_PEERS: wanted where both are near the roof */
    regime_limit limits[REGIME_LIMITS];
    int limit_count;
} regime;

/* NULL past the last. */
const regime *regime_at(size_t i);

#endif
