/* cmd_bench_regimes.h: `ffngen bench --regimes`: every regime that a kernel is meant for -> measured, wanted, met
 *
 * The regimes are data (cmd_bench_regimes_table.h). */
#ifndef CMD_BENCH_REGIMES_H
#define CMD_BENCH_REGIMES_H

#include "cmd_bench_regimes_table.h"
#include "cmd_bench_spec.h"

typedef struct regimes_options {
    const char *names;  /* "prefill,odd-n" or "all" */
    const char *output; /* FILE.md; NULL: none */
    double seconds;     /* for each row */
    bool hand;          /* loops by hand beside the kernel, where a regime has one thread and no peers */
    const char *store, *tuned;
    bool json;
} regimes_options;

enum { REGIME_TEXT = 128 };

/* One figure of one case; of a range, or of several peers, the worst, and `note` says where. */
typedef struct regime_result {
    const regime *of;
    char spec[FFN_SPEC_NAME_BYTES];
    int64_t n; /* 0: not of one number of rows */
    regime_figure figure;
    double value, median; /* of the fastest samples; of the medians, 0 where there is none */
    double wanted;
    double hand; /* what loops by hand reached in the same rounds; 0: they took no part */
    bool met;
    char note[REGIME_TEXT];
} regime_result;

typedef struct regime_results {
    regime_result *list;
    size_t count, room;
} regime_results;

/* Judges `result`, keeps it and prints it: a line of JSON where there is no table. False without memory. */
bool regimes_add(regime_results *all, regime_result *result, report_table *table);

/* Exit status: that of the measuring, whatever is met. */
int regimes_run(const cmd *command, const regimes_options *options);

/* The Markdown that docs/performance.md takes over: a line for each regime, then one for each case. */
typedef struct regimes_caption {
    const char *machine, *isa, *date, *plans;
    const char *peers;    /* their versions, or empty */
    const char *left_out; /* regimes that this machine has not, or empty */
    double busiest;       /* share of a row's time that others took */
} regimes_caption;
ffn_status regimes_page(const regime_results *results, const regimes_caption *caption, const char *path,
                        ffn_diag *diag);

#endif
