/* cmd_bench_spec.h: a spec and several n -> rows, measured with one set of weights, peers and oracle */
#ifndef CMD_BENCH_SPEC_H
#define CMD_BENCH_SPEC_H

#include "cmd_bench_row.h"

typedef struct bench_sweep {
    bench_row row;      /* what every row has: command, team, isa, seconds, plan_changes, tuned, tools, store, cold */
    bench_peers *peers; /* opened; they take the layer of the spec */
    const ffn_weights *weights; /* NULL: seeded values */
    const float *x;             /* [largest of n][d_model], dense; NULL: seeded values */
    const int64_t *n;
    int n_count;
    /* Gets each row that was measured; it is cleared afterwards. Not CMD_OK: no more rows. */
    int (*take)(void *self, const bench_row *row);
    void *self;
    /* NULL, or the seconds for the rounds of the row that comes next, in place of row.seconds; 0: it is left out. */
    double (*seconds_for)(void *self, const ffn_spec *spec, int64_t n);
} bench_sweep;

/* CMD_OK if every row was measured and right; else what went wrong was said. */
int bench_sweep_run(const bench_sweep *sweep, const ffn_spec *spec);

/* Adds every different spec of the presets to *specs (realloc, for free()). CMD_FAILED without memory. */
int bench_preset_specs(ffn_spec **specs, int *count);

/* "openblas,blis", "all" or "none", opened; what is missing is a note. A name that is no peer is a usage error. */
int bench_peers_of(const cmd *command, const char *names, bench_peers *peers);

#endif
