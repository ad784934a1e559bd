/* plot_bars.c: GFLOP/s by group and series -> bars side by side, each with its figure, and the peak as a line */
#include "plot_script.h"

#include "diag.h"

#include <math.h>
#include <string.h>

#define BAR 15.0 /* pixels: a figure fits when it is turned */
#define HEIGHT 260.0
#define WIDTH_LEAST 560.0
#define WIDTH_MOST 4000.0
#define LEGEND_CHARACTERS 24

ffn_status plot_bars_check(const plot_bars_data *data, ffn_diag *diag) {
    if (data->group_count == 0 || data->series_count == 0)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "nothing was measured: there are no bars to draw");
    if (data->series_count > PLOT_SERIES_MAX)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "more than %d series cannot be told apart", PLOT_SERIES_MAX);
    for (size_t i = 0; i < data->group_count * data->series_count; i++) {
        if (!isfinite(data->values[i]) || data->values[i] < 0)
            return diag_fail(diag, FFN_BAD_ARGUMENT, "%s, %s: what is no number of GFLOP/s cannot be drawn",
                             data->series[i % data->series_count], data->groups[i / data->series_count]);
    }
    if (!isfinite(data->peak_gflops) || data->peak_gflops < 0)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "the peak is no number of GFLOP/s: it cannot be drawn");
    return FFN_OK;
}

void plot_bars_size(const plot_panel *panel, plot_frame *frame, double *legend) {
    const plot_bars_data *data = panel->bars;
    frame->width = fmax(WIDTH_LEAST, fmin(WIDTH_MOST, BAR * (double)(data->group_count * (data->series_count + 1))));
    frame->height = HEIGHT;
    *legend = 0;
    for (size_t i = 0; i < data->series_count; i++)
        *legend = fmax(*legend, plot_text_width(data->series[i], 11));
    *legend = 60 + fmin(*legend, LEGEND_CHARACTERS * 0.6 * 11);
}

static double highest(const plot_bars_data *data) {
    double most = data->peak_gflops;
    for (size_t i = 0; i < data->group_count * data->series_count; i++)
        most = fmax(most, data->values[i]);
    return most > 0 ? most : 1;
}

static void point(text *to, double x, double y) {
    plot_number(to, x);
    text_put(to, " ");
    plot_number(to, y);
    text_put(to, "\n");
}

/* Bars of group g stand at g + offsets around 0, a bar's width left free between groups. */
static double place(const plot_bars_data *data, size_t group, size_t series) {
    double step = 1.0 / (double)(data->series_count + 1);
    return (double)group + step * ((double)series - (double)(data->series_count - 1) / 2);
}

static void bar_figures(plot_canvas *canvas, const plot_frame *frame, const plot_bars_data *data, double most) {
    text *to = &canvas->script;
    double bar = frame->width / (double)(data->group_count * (data->series_count + 1));
    for (size_t i = 0; i < data->group_count * data->series_count && bar > 9; i++) {
        if (!(data->values[i] > 0))
            continue;
        char figure[PLOT_FIGURE_BYTES];
        plot_figure(data->values[i], figure);
        text_print(to, "set label '%s' at first ", figure);
        plot_number(to, place(data, i / data->series_count, i % data->series_count));
        text_put(to, ", first ");
        plot_number(to, data->values[i] + most * 0.015);
        text_put(to, bar < 30 ? " left rotate by 90 front font ',9' textcolor rgb '#222222'\n"
                              : " center offset 0, 0.5 front font ',9' textcolor rgb '#222222'\n");
    }
}

/* A line across all groups, named in the legend, where no bar and no figure is in its way; the last of the plot. */
static void peak(text *to, const plot_bars_data *data) {
    char figure[PLOT_FIGURE_BYTES];
    if (!(data->peak_gflops > 0)) {
        text_put(to, "\n");
        return;
    }
    plot_figure(data->peak_gflops, figure);
    text_put(to, ", ");
    plot_number(to, data->peak_gflops);
    text_print(to, " with lines lc rgb '#444444' lw 1.2 dt 2 title 'peak %s'\n", figure);
}

void plot_bars_draw(plot_canvas *canvas, const plot_frame *frame, const plot_panel *panel, const char *labels) {
    text *to = &canvas->script;
    const plot_bars_data *data = panel->bars;
    double most = highest(data);
    plot_panel_begin(canvas, frame);
    text_put(to, labels);
    plot_label(canvas, frame->left, frame->top - 14, panel->title, plot_characters(frame->width, 12),
               "left font ',12' textcolor rgb '#111111'");
    plot_key(canvas, frame->left + frame->width + 12, frame->top);
    text_put(to, "unset grid\nset grid ytics lc rgb '#dddddd' lt 1 lw 0.5 back\nset ylabel 'GFLOP/s'\nset style fill "
                 "solid noborder\n"
                 "set xtics scale 0 (");
    for (size_t g = 0; g < data->group_count; g++) {
        text_put(to, g ? ", " : "");
        plot_quoted(to, data->groups[g], 1 + plot_characters(frame->width / (double)data->group_count, 12));
        text_print(to, " %zu", g);
    }
    text_print(to, ")\nset xrange [-0.5:%zu.5]\nset yrange [0:", data->group_count - 1);
    plot_number(to, most * 1.18); /* room for the figures above */
    text_put(to, "]\nset boxwidth ");
    plot_number(to, 0.92 / (double)(data->series_count + 1));
    text_put(to, "\n");
    bar_figures(canvas, frame, data, most);
    for (size_t s = 0; s < data->series_count; s++) {
        text_print(to, "$bars%zu << END\n", s);
        bool any = false;
        for (size_t g = 0; g < data->group_count; g++) {
            double value = data->values[g * data->series_count + s];
            if (value > 0)
                point(to, place(data, g, s), value);
            any = any || value > 0;
        }
        if (!any)
            point(to, -10, 0); /* outside, so that the legend has it */
        text_put(to, "END\n");
    }
    for (size_t s = 0; s < data->series_count; s++) {
        text_print(to, "%s $bars%zu using 1:2 with boxes lc rgb '%s' title ", s ? "," : "plot", s, plot_colours[s]);
        plot_quoted(to, data->series[s], LEGEND_CHARACTERS);
    }
    peak(to, data);
}
