/* tune_heat.c: records -> cells of plot.h */
#include "tune_heat.h"

#include "diag.h"
#include "isa.h"
#include "plot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tune_heat_add(tune_heat *heat, const tune_record *record) {
    ffn_plan plan;
    if (record->state != TUNE_OK || ffn_plan_parse(record->plan, &plan, NULL) || plan.tile_count == 0)
        return;
    int bits = plan.vector_bits ? plan.vector_bits : isa_row_of(plan.isa)->lanes * 32;
    int32_t mr = plan.tiles[0].mr, nv = plan.tiles[0].panels * FFN_PANEL * 32 / bits;
    size_t at = 0;
    while (at < heat->count && (heat->cells[at].mr != mr || heat->cells[at].nv != nv))
        at++;
    if (at == heat->count) {
        plot_cell *cells = realloc(heat->cells, (at + 1) * sizeof *cells);
        heat->cells = cells ? cells : heat->cells;
        char(*plans)[TUNE_PLAN_BYTES] = realloc(heat->plans, (at + 1) * sizeof *plans);
        heat->plans = plans ? plans : heat->plans;
        if (!cells || !plans) {
            heat->failed = true;
            return;
        }
        cells[at] = (plot_cell){.mr = mr, .nv = nv};
        heat->count++;
    }
    if (record->gflops > heat->cells[at].gflops) {
        heat->cells[at].gflops = record->gflops;
        memcpy(heat->plans[at], record->plan, TUNE_PLAN_BYTES);
    }
}

ffn_status tune_heat_plot(tune_heat *heat, const tune_record *best, const char *path, ffn_diag *diag) {
    if (heat->failed)
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for the picture");
    for (size_t i = 0; i < heat->count; i++)
        heat->cells[i].plan = heat->plans[i];
    char name[FFN_SPEC_NAME_BYTES] = "", title[FFN_SPEC_NAME_BYTES + 64], notes[2 * TUNE_NAME_BYTES], date[11];
    ffn_spec_name(&best->spec, false, name, sizeof name, NULL);
    snprintf(title, sizeof title, "%s, n = %lld: best of each tile", name, (long long)best->n);
    snprintf(notes, sizeof notes, "%s, %lld thread%s, weights %s, LLVM %s", ffn_isa_name(best->isa),
             (long long)best->threads, best->threads == 1 ? "" : "s", best->cold ? "cold" : "warm", best->llvm);
    snprintf(date, sizeof date, "%.10s", best->date);
    const plot_caption caption = {title, best->machine, date, notes};
    return plot_heat(heat->cells, heat->count, &caption, path, diag);
}

void tune_heat_clear(tune_heat *heat) {
    free(heat->cells);
    free(heat->plans);
    *heat = (tune_heat){0};
}
