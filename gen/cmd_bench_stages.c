/* cmd_bench_stages.c: see cmd_bench_stages.h
 *
 * A source of its own builds the kernel. It has no identity, so that none is kept in a store, and it is not verified:
 * its output is compared with that of the kernel it stands for. */
#include "cmd_bench_stages.h"

#include "json.h"
#include "plan.h"
#include "stages.h"

#include <stdio.h>

_Static_assert((int)BENCH_EXPAND == (int)STAGES_EXPAND && (int)BENCH_ACTIVATE == (int)STAGES_ACTIVATE &&
                   (int)BENCH_CONTRACT == (int)STAGES_CONTRACT && (int)BENCH_REST == (int)STAGES_PARTS &&
                   (int)BENCH_SPENT == (int)STAGES_SPENT && (int)BENCH_WHOLE == (int)STAGES_WHOLE &&
                   (int)BENCH_READINGS == (int)STAGES_READINGS && (int)BENCH_MOST == (int)STAGES_MOST &&
                   (int)BENCH_WORDS == (int)STAGES_WORDS,
               "bench reads the counters that the code has");

static ffn_status build(void *self, const ffn_spec *spec, const ffn_plan *plan, ffn_bytes *image, ffn_diag *diag) {
    (void)self;
    return stages_image(spec, plan, image, diag);
}

ffn_status bench_stages_source_open(const bench_row *row, bench_stages_source *stages, ffn_diag *diag) {
    static const ffn_source source = {.build = build};
    const ffn_status status = bench_row_variant(row, &source, &stages->opened, diag);
    if (!status)
        stages->of = (bench_stages_kernel){.kernel = stages->opened.kernel,
                                           .words = (size_t)plan_scratch_bytes(&row->layer->spec, &row->info.plan)};
    return status;
}

void bench_stages_source_close(bench_stages_source *stages) {
    cmd_kernel_close(&stages->opened);
}

void bench_stages_json(const bench_row *row, struct json_line *line) {
    const bench_stages_report *r = &row->report.stages;
    if (!r->timed)
        return;
    const struct {
        const char *key;
        double value;
    } numbers[] = {{"expand_ms", r->ms[BENCH_EXPAND]},
                   {"activate_ms", r->ms[BENCH_ACTIVATE]},
                   {"contract_ms", r->ms[BENCH_CONTRACT]},
                   {"rest_ms", r->ms[BENCH_REST]},
                   {"expand_peak", r->peak[BENCH_EXPAND]},
                   {"contract_peak", r->peak[BENCH_CONTRACT]},
                   {"expand_read", r->read[BENCH_EXPAND]},
                   {"contract_read", r->read[BENCH_CONTRACT]},
                   {"ratio_min", r->ratio_min},
                   {"ratio_median", r->ratio_median}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        json_number_in(line, "stages", numbers[i].key, numbers[i].value);
}

static double percent(const bench_report *of, bench_part part) {
    return of->stages.ms[part] / of->ms_min * 100;
}

static void product_text(char *out, size_t bytes, const bench_report *of, bench_part part) {
    const bench_stages_report *r = &of->stages;
    snprintf(out, bytes, "%.1f %% (%.3g ms, %.1f %% peak, %.1f %% read)", percent(of, part), r->ms[part],
             r->peak[part] * 100, r->read[part] * 100);
}

void bench_stages_print(const bench_row *row) {
    const bench_report *of = &row->report;
    const bench_stages_report *r = &of->stages;
    if (!r->timed)
        return;
    char expand[96], contract[96], activate[48] = "in expand";
    product_text(expand, sizeof expand, of, BENCH_EXPAND);
    product_text(contract, sizeof contract, of, BENCH_CONTRACT);
    if (r->ms[BENCH_ACTIVATE] > 0)
        snprintf(activate, sizeof activate, "%.1f %% (%.3g ms)", percent(of, BENCH_ACTIVATE), r->ms[BENCH_ACTIVATE]);
    cmd_print("  n = %lld: expand %s, activate %s, contract %s, rest %.1f %% (%.3g ms); counting: %.3fx",
              (long long)row->n, expand, activate, contract, percent(of, BENCH_REST), r->ms[BENCH_REST], r->ratio_min);
}
