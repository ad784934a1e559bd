/* cmd_bench_row.h: one measurement of `ffngen bench` or `demo`, and its line in a table or in JSON */
#ifndef CMD_BENCH_ROW_H
#define CMD_BENCH_ROW_H

#include "case.h"
#include "cmd.h"
#include "report.h"

struct cJSON;

typedef struct bench_row {
    const cmd *command;
    bench_layer *layer;
    bench_team *team;
    const bench_peers *peers;   /* that have taken the layer */
    const bench_oracle *oracle; /* of the layer and of x */
    ffn_isa isa;                /* asked for; AUTO takes what serves */
    int64_t n;
    const float *x;           /* [n][d_model], dense */
    double seconds;           /* for the rounds */
    const char *plan_changes; /* of cmd_plan_change, or NULL */
    const char *tuned;        /* of ffn_options */
    uint32_t tools;           /* FFN_TOOL_* */
    const char *store;        /* of ffn_options */
    bool cold;
    bool contract; /* also against kernels in free order */
    bool stages;   /* also where the time goes */
    bool dense;    /* also against the same kernel without the way past zeros */
    bool hand;     /* also against loops by hand */

    cmd_kernel kernel; /* from here on: what was measured */
    ffn_kernel_info info;
    bench_report report;
} bench_row;

/* The kernel of the row's plan as another source builds it, prepared for n: to be timed beside it, so it is neither
 * verified nor stored. `source` must live as long as this call alone. */
ffn_status bench_row_variant(const bench_row *row, const ffn_source *source, cmd_kernel *variant, ffn_diag *diag);

/* CMD_OK: measured. Else the failure was said; a kernel asked for but not to be had, and an output that is not the
 * oracle's, are CMD_FAILED: with `measured` set, all that is right has its times. Clear in any case. */
int bench_row_measure(bench_row *row, bool *measured);
void bench_row_clear(bench_row *row);

/* What a line of --json holds (docs/command.md); the caller's, for cJSON_Delete. NULL without memory. */
struct cJSON *bench_row_object(const bench_row *row);
/* False if the line is not out. */
bool bench_row_json(const bench_row *row);
/* A table for `count` specs, with a column for each peer; rows are printed as they come. */
report_table bench_row_table(const ffn_spec *specs, int count, const bench_peers *peers);
void bench_row_line(const bench_row *row, report_table *table);
/* A line below it where peers have activations of their own and the kernel with the cheaper one was timed too. */
void bench_row_fast_print(const bench_row *row);
/* A peer's time over ours, of the medians or of the fastest samples; `fast`: over that of the kernel with the cheaper
 * activation, where the peer has one of its own. 0: the peer has no time. */
double bench_row_peer_ratio(const bench_row *row, int peer, bool fast, bool fastest);

#endif
