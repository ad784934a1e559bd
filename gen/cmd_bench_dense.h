/* cmd_bench_dense.h: `ffngen bench --dense`: the same kernel without the way past zeros, which a row's own kernel is
 * measured against, and what came of it in words */
#ifndef CMD_BENCH_DENSE_H
#define CMD_BENCH_DENSE_H

#include "cmd_bench_row.h"

/* A kernel for the plan of the row's kernel that multiplies zeros like all else. Where the row's own does so too, none
 * is made, and a note says so. */
ffn_status bench_dense_open(const bench_row *row, cmd_kernel *dense, ffn_diag *diag);

/* "dense" of a line of JSON; a line below the row of a table. Nothing where it was not measured. */
struct json_line;
void bench_dense_json(const bench_row *row, struct json_line *line);
void bench_dense_print(const bench_row *row);

#endif
