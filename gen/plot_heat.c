/* plot_heat.c: the best of each tile -> squares, mr x nv, coloured by GFLOP/s, the best one framed */
#include "plot_script.h"

#include "diag.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIDE_MAX = 64, EXTRA_BYTES = 1024 };

typedef struct heat {
    const plot_cell *cells;
    size_t count, best;
    int32_t mr[SIDE_MAX], nv[SIDE_MAX]; /* that there are, ascending */
    int rows, columns;
    double least, most;
} heat;

static int place_of(const int32_t *values, int count, int32_t value) {
    int at = 0;
    while (at < count && values[at] < value)
        at++;
    return at;
}

static bool insert(int32_t *values, int *count, int32_t value) {
    int at = place_of(values, *count, value);
    if (at < *count && values[at] == value)
        return true;
    if (*count == SIDE_MAX)
        return false;
    for (int i = (*count)++; i > at; i--)
        values[i] = values[i - 1];
    values[at] = value;
    return true;
}

static ffn_status survey(heat *h, ffn_diag *diag) {
    if (h->count == 0)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "no tile was measured: there is nothing to draw");
    h->least = INFINITY;
    for (size_t i = 0; i < h->count; i++) {
        const plot_cell *cell = &h->cells[i];
        if (!isfinite(cell->gflops) || cell->gflops < 0 || cell->mr < 1 || cell->nv < 1)
            return diag_fail(diag, FFN_BAD_ARGUMENT,
                             "the tile %dx%d cannot be drawn: its figure or size makes no sense", (int)cell->mr,
                             (int)cell->nv);
        if (!insert(h->mr, &h->rows, cell->mr) || !insert(h->nv, &h->columns, cell->nv))
            return diag_fail(diag, FFN_BAD_ARGUMENT, "more than %d heights or widths of tiles cannot be drawn",
                             SIDE_MAX);
        if (cell->gflops > h->cells[h->best].gflops)
            h->best = i;
        h->least = fmin(h->least, cell->gflops);
    }
    h->most = h->cells[h->best].gflops;
    return FFN_OK;
}

static void tics(text *to, const char *axis, const int32_t *values, int count) {
    text_print(to, "set %stics scale 0 (", axis);
    for (int i = 0; i < count; i++)
        text_print(to, "%s'%d' %d", i ? ", " : "", (int)values[i], i);
    text_put(to, ")\n");
}

/* Figures on the squares: white where those are dark. */
static void figures(const heat *h, text *to, double size) {
    for (size_t i = 0; i < h->count; i++) {
        const plot_cell *cell = &h->cells[i];
        double share = h->most > h->least ? (cell->gflops - h->least) / (h->most - h->least) : 1;
        char figure[PLOT_FIGURE_BYTES];
        plot_figure(cell->gflops, figure);
        text_print(to, "set label '%s' at first %d, first %d center front font ',%d' textcolor rgb '%s'\n", figure,
                   place_of(h->nv, h->columns, cell->nv), place_of(h->mr, h->rows, cell->mr), (int)size,
                   share > 0.55 ? "#ffffff" : "#111111");
    }
}

static void draw(const heat *h, plot_canvas *canvas, double size) {
    text *to = &canvas->script;
    const plot_cell *best = &h->cells[h->best];
    double column = place_of(h->nv, h->columns, best->nv), row = place_of(h->mr, h->rows, best->mr);
    bool flat = h->most <= h->least;
    text_put(to, "unset grid\nset xlabel 'vectors side by side (nv)'\nset ylabel 'rows (mr)'\nunset key\n"
                 "set object 1 rectangle from graph 0,0 to graph 1,1 behind fillcolor rgb '#eeeeee' fillstyle solid "
                 "noborder\n"
                 "set palette defined (0 '#eff3ff', 0.25 '#bdd7e7', 0.5 '#6baed6', 0.75 '#3182bd', 1 '#08519c')\n");
    tics(to, "x", h->nv, h->columns);
    tics(to, "y", h->mr, h->rows);
    text_print(to, "set xrange [-0.5:%d.5]\nset yrange [-0.5:%d.5]\n", h->columns - 1, h->rows - 1);
    text_put(to, flat ? "unset colorbox\nset cbrange [" : "set cblabel 'GFLOP/s'\nset cbtics scale 0\nset cbrange [");
    plot_number(to, flat ? h->most - 1 : h->least);
    text_put(to, ":");
    plot_number(to, flat ? h->most + 1e-9 : h->most);
    text_put(to, "]\n");
    figures(h, to, size);
    text_put(to, "set object 2 rectangle from first ");
    plot_number(to, column - 0.5);
    text_put(to, ", first ");
    plot_number(to, row - 0.5);
    text_put(to, " to first ");
    plot_number(to, column + 0.5);
    text_put(to, ", first ");
    plot_number(to, row + 0.5);
    text_put(to, " front fillstyle empty border lc rgb '#D55E00' lw 4\n$squares << END\n");
    for (size_t i = 0; i < h->count; i++) {
        text_print(to, "%d %d 0.5 0.5 ", place_of(h->nv, h->columns, h->cells[i].nv),
                   place_of(h->mr, h->rows, h->cells[i].mr));
        plot_number(to, h->cells[i].gflops);
        text_put(to, "\n");
    }
    text_put(to, "END\nplot $squares using 1:2:3:4:5 with boxxyerror fillstyle solid border lc rgb '#ffffff' "
                 "fillcolor palette\n");
}

static double between(double value, double least, double most) {
    return fmax(least, fmin(most, value));
}

ffn_status plot_heat(const plot_cell *cells, size_t count, const plot_caption *caption, const char *path,
                     ffn_diag *diag) {
    plot_kind kind;
    heat h = {.cells = cells, .count = count};
    ffn_status status = plot_kind_of(path, &kind, diag);
    if (!status)
        status = survey(&h, diag);
    if (status)
        return status;
    const double side = between(600.0 / h.columns, 48, 160), high = between(420.0 / h.rows, 24, 90);
    plot_frame frame = {80, PLOT_TITLE_HEIGHT + 10, side * h.columns, high * h.rows};
    plot_canvas canvas = {.width = fmax(640, frame.left + frame.width + 110)};
    frame.left += (canvas.width - 110 - frame.left - frame.width) / 2; /* a narrow one in the middle */
    const plot_cell *best = &cells[h.best];
    char figure[PLOT_FIGURE_BYTES], extra[EXTRA_BYTES];
    plot_figure(best->gflops, figure);
    snprintf(extra, sizeof extra, "best: mr = %d, nv = %d, %s GFLOP/s%s%s%s", (int)best->mr, (int)best->nv, figure,
             best->plan && *best->plan ? "; " : "", best->plan ? best->plan : "",
             (size_t)h.rows * (size_t)h.columns > count ? "; grey: not measured" : "");
    canvas.height = frame.top + frame.height + 60 + plot_caption_draw(NULL, &canvas, caption, extra);
    plot_panel_begin(&canvas, &frame);
    plot_caption_draw(&canvas.script, &canvas, caption, extra);
    draw(&h, &canvas, side < 52 || high < 28 ? 10 : 12);
    return plot_file(&canvas, path, diag);
}
