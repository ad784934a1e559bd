/* cmd_bench_dense.c: see cmd_bench_dense.h
 *
 * As the kernels of cmd_bench_contract.c: built by a source without an identity, kept nowhere, not verified. Its bits
 * are compared with those of the kernel before either is timed. */
#include "cmd_bench_dense.h"

#include "diag.h"
#include "free_order.h"
#include "json.h"
#include "sparse.h"

#include <stdlib.h>

static ffn_status build(void *self, const ffn_spec *spec, const ffn_plan *plan, ffn_bytes *image, ffn_diag *diag) {
    (void)self;
    const free_order dense = {.dense = true};
    return free_order_image(spec, plan, &dense, image, diag);
}

static ffn_status looks_for_zeros(const bench_row *row, bool *looks, ffn_diag *diag) {
    const ffn_spec *spec = &row->layer->spec;
    formula_graph *graph = malloc(sizeof *graph);
    if (!graph)
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for the activation's graph");
    ffn_status status = formula_build(spec->activation, spec->accuracy, graph, diag);
    *looks = !status && sparse_passes(spec, &row->info.plan, graph);
    free(graph);
    return status;
}

ffn_status bench_dense_open(const bench_row *row, cmd_kernel *dense, ffn_diag *diag) {
    bool looks;
    ffn_status status = looks_for_zeros(row, &looks, diag);
    if (status)
        return status;
    if (!looks) {
        cmd_note(row->command, "--dense: the kernel for n = %lld multiplies zeros in h like all else: none to compare",
                 (long long)row->n);
        return FFN_OK;
    }
    const ffn_source source = {.build = build}; /* is asked here alone */
    return bench_row_variant(row, &source, dense, diag);
}

void bench_dense_json(const bench_row *row, struct json_line *line) {
    const bench_dense_report *r = &row->report.dense;
    if (!r->timed)
        return;
    json_number_in(line, "dense", "zeros", r->zeros);
    json_number_in(line, "dense", "zero_columns", r->zero_columns);
    json_number_in(line, "dense", "ms_min", r->ms_min);
    json_number_in(line, "dense", "ms_median", r->ms_median);
    json_number_in(line, "dense", "ratio_min", r->ratio_min);
    json_number_in(line, "dense", "ratio_median", r->ratio_median);
}

void bench_dense_print(const bench_row *row) {
    const bench_dense_report *r = &row->report.dense;
    if (r->timed)
        cmd_print("  n = %lld: %.1f %% of h is zero, %.1f %% of its columns in all rows; %.4f ms, dense %.4f ms: ratio "
                  "%.3f, median %.3f",
                  (long long)row->n, r->zeros * 100, r->zero_columns * 100, row->report.ms_min, r->ms_min, r->ratio_min,
                  r->ratio_median);
}
