/* suite_panels.c: see suite_panels.h */
#include "suite_panels.h"

#include "diag.h"
#include "peer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double suite_number(const cJSON *object, const char *key, double missing) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNumber(item) ? item->valuedouble : missing;
}

const char *suite_text(const cJSON *object, const char *key) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsString(item) ? item->valuestring : "";
}

const cJSON *suite_group(const cJSON *object, const char *key) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsObject(item) ? item : NULL;
}

const char *suite_peer_title(const char *name) {
    bench_peers all;
    for (int i = 0; !bench_peers_parse("all", &all, NULL) && i < all.count; i++) {
        if (!strcmp(all.list[i].name, name))
            return all.list[i].title;
    }
    return name;
}

cJSON *suite_readable(const cJSON *rows) {
    char *printed = cJSON_PrintUnformatted(rows);
    cJSON *read = printed ? cJSON_Parse(printed) : NULL;
    cJSON_free(printed);
    return read;
}

static bool of_threads(const cJSON *row, int threads) {
    return suite_number(row, "threads", 0) == threads && *suite_text(row, "spec") &&
           suite_number(row, "gflops", 0) > 0 && suite_number(row, "ms_min", 0) > 0;
}

/* "ffngen", and every peer that has a time in one of the rows. */
static size_t series_of(const cJSON *rows, int threads, const char *names[PLOT_SERIES_MAX]) {
    size_t count = 0;
    names[count++] = "ffngen";
    const cJSON *row, *time;
    cJSON_ArrayForEach(row, rows) {
        if (!of_threads(row, threads))
            continue;
        cJSON_ArrayForEach(time, suite_group(row, "vs_min")) {
            size_t at = 1;
            while (at < count && strcmp(names[at], time->string))
                at++;
            if (at == count && count < PLOT_SERIES_MAX)
                names[count++] = time->string;
        }
    }
    return count;
}

/* GFLOP/s of a series in a row; 0: none. */
static double rate_of(const cJSON *row, const char *series, bool own) {
    double gflops = suite_number(row, "gflops", 0);
    if (own)
        return gflops;
    double ms = suite_number(suite_group(row, "vs_min"), series, 0);
    return ms > 0 ? gflops * suite_number(row, "ms_min", 0) / ms : 0;
}

static void slope(suite_panels *p, const char *name, double gbs) {
    size_t at = 0;
    while (at < p->roofline.slope_count && strcmp(p->slopes[at].name, name))
        at++;
    if (!(gbs > 0) || at == SUITE_SLOPES_MAX)
        return;
    if (at == p->roofline.slope_count)
        p->slopes[p->roofline.slope_count++] = (plot_slope){name, gbs};
    p->slopes[at].gbs = fmax(p->slopes[at].gbs, gbs);
}

/* Where weights of so many bytes stay from call to call. */
static const char *level_of(double bytes, bool cold, const ffn_machine *machine) {
    if (cold || (bytes > (double)machine->l2_bytes && bytes > (double)machine->l3_bytes))
        return "memory";
    return bytes <= (double)machine->l1_bytes ? "L1" : bytes <= (double)machine->l2_bytes ? "L2" : "L3";
}

static void slopes_of(suite_panels *p, const cJSON *rows, int threads, const cJSON *levels) {
    static const char *const keys[][2] = {
        {"l1_gbs", "L1"}, {"l2_gbs", "L2"}, {"l3_gbs", "L3"}, {"memory_gbs", "memory"}};
    for (size_t i = 0; levels && i < sizeof keys / sizeof keys[0]; i++)
        slope(p, keys[i][1], suite_number(levels, keys[i][0], 0));
    p->roofline.peak_gflops = fmax(0, suite_number(levels, "peak_gflops", 0));
    ffn_machine machine;
    ffn_machine_read(&machine);
    const cJSON *row;
    cJSON_ArrayForEach(row, rows) {
        if (!of_threads(row, threads))
            continue;
        p->roofline.peak_gflops = fmax(p->roofline.peak_gflops, suite_number(row, "peak_gflops", 0));
        double bytes = suite_number(row, "weight_gbs", 0) * suite_number(row, "ms_min", 0) * 1e6;
        bool cold = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(row, "cold"));
        if (!levels)
            slope(p, level_of(bytes, cold, &machine), suite_number(row, "read_gbs", 0));
    }
}

static bool fill_bars(suite_bars *b, const cJSON *rows, int threads, const char *spec, const suite_panels *p,
                      size_t series) {
    size_t groups = 0, at = 0;
    const cJSON *row;
    cJSON_ArrayForEach(row, rows) groups += of_threads(row, threads) && !strcmp(suite_text(row, "spec"), spec);
    b->names = calloc(groups, sizeof *b->names);
    b->groups = calloc(groups, sizeof *b->groups);
    b->values = calloc(groups * series, sizeof *b->values);
    if (!b->names || !b->groups || !b->values)
        return false;
    snprintf(b->title, sizeof b->title, "%s", spec);
    cJSON_ArrayForEach(row, rows) {
        if (!of_threads(row, threads) || strcmp(suite_text(row, "spec"), spec))
            continue;
        snprintf(b->names[at], sizeof b->names[at], "n = %.0f", suite_number(row, "n", 0));
        b->groups[at] = b->names[at];
        for (size_t s = 0; s < series; s++)
            b->values[at * series + s] = rate_of(row, p->series[s], s == 0);
        at++;
    }
    b->data = (plot_bars_data){b->groups, groups, NULL, series, b->values, p->roofline.peak_gflops};
    return true;
}

static bool fill(suite_panels *p, const cJSON *rows, int threads) {
    const size_t series = series_of(rows, threads, p->series);
    const size_t most = (size_t)cJSON_GetArraySize(rows);
    p->points = calloc(most * series + 1, sizeof *p->points);
    p->bars = calloc(most + 1, sizeof *p->bars);
    p->panels = calloc(most + 1, sizeof *p->panels);
    if (!p->points || !p->bars || !p->panels)
        return false;
    const cJSON *row;
    for (size_t s = 0; s < series; s++) {
        const char *title = s ? suite_peer_title(p->series[s]) : p->series[s];
        cJSON_ArrayForEach(row, rows) {
            double weight_gbs = suite_number(row, "weight_gbs", 0);
            if (!of_threads(row, threads) || !(weight_gbs > 0))
                continue;
            double rate = rate_of(row, p->series[s], s == 0);
            if (rate > 0)
                p->points[p->roofline.count++] = (plot_point){title, suite_number(row, "gflops", 0) / weight_gbs, rate};
        }
    }
    cJSON_ArrayForEach(row, rows) {
        const char *spec = suite_text(row, "spec");
        size_t at = 0;
        while (at < p->bars_count && strcmp(p->bars[at].title, spec))
            at++;
        if (!of_threads(row, threads) || at < p->bars_count)
            continue;
        if (!fill_bars(&p->bars[p->bars_count++], rows, threads, spec, p, series))
            return false;
    }
    for (size_t s = 1; s < series; s++)
        p->series[s] = suite_peer_title(p->series[s]);
    return true;
}

ffn_status suite_panels_make(const cJSON *rows, int threads, const cJSON *levels, suite_panels *p, ffn_diag *diag) {
    *p = (suite_panels){0};
    slopes_of(p, rows, threads, levels);
    if (!fill(p, rows, threads))
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for the picture");
    p->roofline.points = p->points;
    p->roofline.slopes = p->slopes;
    snprintf(p->title, sizeof p->title, "roofline: every case, %d thread%s", threads, threads == 1 ? "" : "s");
    if (p->roofline.count)
        p->panels[p->count++] = (plot_panel){p->title, &p->roofline, NULL};
    for (size_t i = 0; i < p->bars_count; i++) {
        p->bars[i].data.series = p->series;
        p->panels[p->count++] = (plot_panel){p->bars[i].title, NULL, &p->bars[i].data};
    }
    return FFN_OK;
}

void suite_panels_free(suite_panels *p) {
    for (size_t i = 0; i < p->bars_count; i++) {
        free(p->bars[i].names);
        free(p->bars[i].groups);
        free(p->bars[i].values);
    }
    free(p->bars);
    free(p->points);
    free(p->panels);
    *p = (suite_panels){0};
}
