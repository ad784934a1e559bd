/* cmd_bench_regimes_results.c: a figure of one case -> judged by its limit, kept, printed */
#include "cmd_bench_regimes.h"

#include "json.h"

#include <stdio.h>
#include <stdlib.h>

static void result_json(const regime_result *result) {
    json_line line = json_begin();
    json_text(&line, "regime", result->of->name);
    if (*result->spec)
        json_text(&line, "spec", result->spec);
    if (result->n)
        json_integer(&line, "n", result->n);
    json_text(&line, "figure", regime_figures[result->figure].name);
    json_number(&line, "value", result->value);
    if (result->median > 0)
        json_number(&line, "median", result->median);
    if (result->hand > 0)
        json_number(&line, "hand", result->hand);
    json_number(&line, "wanted", result->wanted);
    json_flag(&line, "met", result->met);
    if (*result->note)
        json_text(&line, "note", result->note);
    json_end(&line);
}

static void number_cell(report_table *table, const regime_figure_row *row, double value) {
    if (value > 0)
        report_cell(table, "%.*f", row->digits, value * row->scale);
    else
        report_cell(table, "-");
}

bool regimes_add(regime_results *all, regime_result *result, report_table *table) {
    const regime_figure_row *row = &regime_figures[result->figure];
    result->met = row->most ? result->value <= result->wanted : result->value >= result->wanted;
    if (all->count == all->room) {
        size_t room = all->room ? 2 * all->room : 64;
        regime_result *list = realloc(all->list, room * sizeof *list);
        if (!list)
            return false;
        all->list = list;
        all->room = room;
    }
    all->list[all->count++] = *result;
    if (!table) {
        result_json(result);
        return true;
    }
    report_cell(table, "%s", result->of->name);
    report_cell(table, "%s", *result->spec ? result->spec : "all");
    if (result->n)
        report_cell(table, "%lld", (long long)result->n);
    else
        report_cell(table, "-");
    number_cell(table, row, result->value);
    number_cell(table, row, result->median);
    number_cell(table, row, result->hand);
    report_cell(table, "%.*f", row->digits, result->wanted * row->scale);
    report_cell(table, "%s", result->met ? "met" : "-");
    report_cell(table, "%s%s%s", row->unit, *result->note ? "; " : "", result->note);
    fflush(stdout);
    return true;
}
