/* cmd_bench_hand.h: `ffngen bench --hand`: loops by hand that a row's kernel is measured against, in words */
#ifndef CMD_BENCH_HAND_H
#define CMD_BENCH_HAND_H

#include "cmd_bench_row.h"

/* "hand" of a line of JSON; a line below the row of a table. Nothing where they were not measured. */
struct json_line;
void bench_hand_json(const bench_row *row, struct json_line *line);
void bench_hand_print(const bench_row *row);
/* A note where they were asked for and took no part: why. */
void bench_hand_note(const bench_row *row);

#endif
