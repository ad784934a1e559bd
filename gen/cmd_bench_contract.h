/* cmd_bench_contract.h: `ffngen bench --contract`: the kernels in free order that a row's own kernel is measured
 * against, and what came of it in words */
#ifndef CMD_BENCH_CONTRACT_H
#define CMD_BENCH_CONTRACT_H

#include "cmd_bench_row.h"

typedef struct bench_contract {
    cmd_kernel opened[BENCH_FREE_MAX];
    bench_free_kernels kernels;
} bench_contract;

/* Kernels for the plan of the row's kernel, every variant. */
ffn_status bench_contract_open(const bench_row *row, bench_contract *contract, ffn_diag *diag);
void bench_contract_close(bench_contract *contract);

/* "free_order" of a line of JSON; a line below the row of a table. Nothing where it was not measured. */
struct json_line;
void bench_contract_json(const bench_row *row, struct json_line *line);
void bench_contract_print(const bench_row *row);

#endif
