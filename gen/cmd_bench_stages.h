/* cmd_bench_stages.h: `ffngen bench --stages`: the kernel that counts where its time goes, and what came of it in words
 */
#ifndef CMD_BENCH_STAGES_H
#define CMD_BENCH_STAGES_H

#include "cmd_bench_row.h"

typedef struct bench_stages_source {
    cmd_kernel opened;
    bench_stages_kernel of;
} bench_stages_source;

/* A kernel for the plan of the row's. */
ffn_status bench_stages_source_open(const bench_row *row, bench_stages_source *stages, ffn_diag *diag);
void bench_stages_source_close(bench_stages_source *stages);

/* "stages" of a line of JSON; a line below the row of a table. Nothing where it was not measured. */
struct json_line;
void bench_stages_json(const bench_row *row, struct json_line *line);
void bench_stages_print(const bench_row *row);

#endif
