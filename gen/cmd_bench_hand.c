/* cmd_bench_hand.c: see cmd_bench_hand.h */
#include "cmd_bench_hand.h"

#include "json.h"

#include <stdio.h>

void bench_hand_json(const bench_row *row, struct json_line *line) {
    const bench_hand_report *r = &row->report.hand;
    if (!r->timed)
        return;
    const struct {
        const char *key;
        double value;
    } numbers[] = {{"ms_min", r->ms_min},
                   {"ms_median", r->ms_median},
                   {"fraction_of_peak", r->fraction_of_peak},
                   {"fraction_of_roof", r->fraction_of_roof},
                   {"ratio_min", r->ratio_min},
                   {"ratio_median", r->ratio_median},
                   {"rows", (double)r->way.rows},
                   {"hidden", (double)r->way.hidden},
                   {"terms", (double)r->way.terms},
                   {"tile_rows", r->way.tiles.rows},
                   {"tile_panels", r->way.tiles.panels},
                   {"chunk", (double)r->way.chunk},
                   {"streams", r->way.tiles.group}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        json_number_in(line, "hand", numbers[i].key, numbers[i].value);
}

void bench_hand_print(const bench_row *row) {
    const bench_hand_report *r = &row->report.hand;
    if (!r->timed)
        return;
    cmd_print(
        "  n = %lld: by hand %.4f ms, median %.4f, %.1f %% peak, %.1f %% roof (blocks of %lld rows, %lld hidden "
        "columns, %lld terms; tiles of up to %d rows by %d panels; chunks of %lld, %d side by side%s); the kernel "
        "takes %.3fx, median %.3fx",
        (long long)row->n, r->ms_min, r->ms_median, r->fraction_of_peak * 100, r->fraction_of_roof * 100,
        (long long)r->way.rows, (long long)r->way.hidden, (long long)r->way.terms, r->way.tiles.rows,
        r->way.tiles.panels, (long long)r->way.chunk, r->way.tiles.group, r->way.ahead ? ", fetched ahead" : "",
        r->ratio_min, r->ratio_median);
}

void bench_hand_note(const bench_row *row) {
    if (row->hand && !row->report.hand.timed)
        cmd_note(row->command, "--hand: no loops by hand beside n = %lld: %s", (long long)row->n,
                 *row->report.hand.missing ? row->report.hand.missing : "it has no such loops");
}
