/* plot.h: measurements -> pictures, through gnuplot
 *
 * A path that ends in .svg or .png decides the kind. The picture is there whole or not at all. UNSUPPORTED where
 * gnuplot is not installed: the text says so, and how to get it; SYSTEM where it failed, with its first line of
 * complaint. */
#ifndef PLOT_H
#define PLOT_H

#include "ffn.h"

#define PLOT_SERIES_MAX 8

/* Where and when it was measured: a caption below every picture. */
typedef struct plot_caption {
    const char *title;
    const char *machine; /* ffn_machine_name */
    const char *date;    /* "2026-11-30" */
    const char *notes;   /* threads, ISA, versions; may be NULL */
} plot_caption;

/* A square of the heat map: the best that any plan with this tile reached. */
typedef struct plot_cell {
    int32_t mr, nv; /* rows, vectors side by side */
    double gflops;
    const char *plan; /* text of that plan */
} plot_cell;

/* What can be known of a path before anything is measured: its ending (BAD_ARGUMENT), and whether a file can
 * be written there. */
ffn_status plot_path_check(const char *path, ffn_diag *diag);

/* mr x nv by GFLOP/s, best marked. */
ffn_status plot_heat(const plot_cell *cells, size_t count, const plot_caption *caption, const char *path,
                     ffn_diag *diag);

/* One measured case of a roofline: x = flops a byte of weights, y = GFLOP/s. Points of one series have its name. */
typedef struct plot_point {
    const char *series; /* "ffngen", "OpenBLAS", ... */
    double intensity, gflops;
} plot_point;

/* A slope of a roofline: reading from a level. */
typedef struct plot_slope {
    const char *name; /* "L2", "memory" */
    double gbs;
} plot_slope;

typedef struct plot_roofline_data {
    const plot_point *points;
    size_t count;
    const plot_slope *slopes;
    size_t slope_count;
    double peak_gflops; /* 0: none */
} plot_roofline_data;

/* Bars per n against peers: values[group * series_count + series] in GFLOP/s, 0 where there is none. */
typedef struct plot_bars_data {
    const char *const *groups; /* "n = 1", ... */
    size_t group_count;
    const char *const *series;
    size_t series_count;
    const double *values;
    double peak_gflops; /* a line across; 0: none */
} plot_bars_data;

/* One of the two, below a line that says what it shows. */
typedef struct plot_panel {
    const char *title;
    const plot_roofline_data *roofline;
    const plot_bars_data *bars;
} plot_panel;

/* The panels one below the other. */
ffn_status plot_board(const plot_panel *panels, size_t count, const plot_caption *caption, const char *path,
                      ffn_diag *diag);
/* The same as an <svg> element for a page; its ids begin with `name`, a letter and then letters or digits. free() what
 * svg->data points to. */
ffn_status plot_board_svg(const plot_panel *panels, size_t count, const plot_caption *caption, const char *name,
                          ffn_bytes *svg, ffn_diag *diag);

#endif
