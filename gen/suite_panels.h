/* suite_panels.h: rows of `ffngen bench --json` -> what plot.h draws: a roofline of all, and bars for each spec
 *
 * The points of a peer are its least time's, as the kernel's are. A row that lacks a figure has no point. */
#ifndef SUITE_PANELS_H
#define SUITE_PANELS_H

#include "plot.h"

#include <cjson/cJSON.h>

#define SUITE_SLOPES_MAX 4

typedef struct suite_bars {
    plot_bars_data data;
    char title[FFN_SPEC_TEXT_BYTES];
    char (*names)[32];
    const char **groups;
    double *values;
} suite_bars;

typedef struct suite_panels {
    plot_panel *panels;
    size_t count;
    plot_roofline_data roofline;
    plot_slope slopes[SUITE_SLOPES_MAX];
    plot_point *points;
    const char *series[PLOT_SERIES_MAX];
    suite_bars *bars;
    size_t bars_count;
    char title[96];
} suite_panels;

/* A number of an object, or `missing`. */
double suite_number(const cJSON *object, const char *key, double missing);
/* A text of an object, or "". */
const char *suite_text(const cJSON *object, const char *key);
/* An object inside an object, or NULL: its items have names. */
const cJSON *suite_group(const cJSON *object, const char *key);
/* "oneDNN" of "onednn"; other names as they are. */
const char *suite_peer_title(const char *name);
/* Rows as they are printed, with numbers that can be read: a row that was just made has raw text in their place. For
 * cJSON_Delete; NULL without memory. */
cJSON *suite_readable(const cJSON *rows);

/* Of the rows with so many threads. `levels`: what was measured of the machine with so many (bench/levels.h as an
 * object), or NULL: the slopes are then the rates of reading in the rows themselves. suite_panels_free in any case. */
ffn_status suite_panels_make(const cJSON *rows, int threads, const cJSON *levels, suite_panels *panels, ffn_diag *diag);
void suite_panels_free(suite_panels *panels);

#endif
