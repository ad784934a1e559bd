/* plot_roofline.c: cases and what the machine can do -> log-log axes, a slope for each level, the peak, a mark a case
 */
#include "plot_script.h"

#include "diag.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define WIDTH 640.0
#define HEIGHT 420.0
#define LEGEND_CHARACTERS 24
#define SLOPES_MAX 8
#define NEAR_PIXELS 17.0 /* two slopes that leave no line of text between them */

typedef struct axes {
    double x0, x1, y0, y1;
} axes;

size_t plot_series(const plot_roofline_data *data, const char *names[PLOT_SERIES_MAX]) {
    size_t count = 0;
    for (size_t i = 0; i < data->count; i++) {
        size_t at = 0;
        while (at < count && strcmp(names[at], data->points[i].series))
            at++;
        if (at < count)
            continue;
        if (count == PLOT_SERIES_MAX)
            return PLOT_SERIES_MAX + 1;
        names[count++] = data->points[i].series;
    }
    return count;
}

static bool positive(double value) {
    return isfinite(value) && value > 0;
}

ffn_status plot_roofline_check(const plot_roofline_data *data, ffn_diag *diag) {
    const char *names[PLOT_SERIES_MAX];
    if (data->count == 0)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "nothing was measured: there is no roofline to draw");
    if (plot_series(data, names) > PLOT_SERIES_MAX)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "more than %d series cannot be told apart", PLOT_SERIES_MAX);
    if (data->slope_count > SLOPES_MAX)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "more than %d slopes cannot be told apart", SLOPES_MAX);
    for (size_t i = 0; i < data->count; i++) {
        if (!positive(data->points[i].intensity) || !positive(data->points[i].gflops))
            return diag_fail(diag, FFN_BAD_ARGUMENT, "a point of %s is not above 0: it has no place on these axes",
                             data->points[i].series);
    }
    for (size_t i = 0; i < data->slope_count; i++) {
        if (!positive(data->slopes[i].gbs))
            return diag_fail(diag, FFN_BAD_ARGUMENT, "the rate of %s is not above 0: it has no place on these axes",
                             data->slopes[i].name);
    }
    if (!isfinite(data->peak_gflops) || data->peak_gflops < 0)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "the peak is no number of GFLOP/s: it cannot be drawn");
    return FFN_OK;
}

void plot_roofline_size(const plot_panel *panel, plot_frame *frame, double *legend) {
    const char *names[PLOT_SERIES_MAX];
    size_t count = plot_series(panel->roofline, names);
    frame->width = WIDTH;
    frame->height = HEIGHT;
    *legend = 0;
    for (size_t i = 0; i < count; i++)
        *legend = fmax(*legend, plot_text_width(names[i], 11));
    *legend = 60 + fmin(*legend, LEGEND_CHARACTERS * 0.6 * 11);
}

/* Every point and every ridge, with room left of them for the names of the slopes. */
static axes axes_of(const plot_roofline_data *data) {
    axes a = {INFINITY, 0, INFINITY, data->peak_gflops};
    double slowest = INFINITY;
    for (size_t i = 0; i < data->count; i++) {
        a.x0 = fmin(a.x0, data->points[i].intensity / 2.5);
        a.x1 = fmax(a.x1, data->points[i].intensity * 2);
        a.y0 = fmin(a.y0, data->points[i].gflops / 1.6);
        a.y1 = fmax(a.y1, data->points[i].gflops);
    }
    for (size_t i = 0; i < data->slope_count; i++) {
        double ridge = data->peak_gflops / data->slopes[i].gbs;
        slowest = fmin(slowest, data->slopes[i].gbs);
        if (!(data->peak_gflops > 0))
            continue;
        a.x0 = fmin(a.x0, ridge / 8);
        a.x1 = fmax(a.x1, ridge * 3);
    }
    if (isfinite(slowest))
        a.y0 = fmin(a.y0, fmax(slowest * a.x0, a.y1 / 100));
    a.y1 *= 1.7;
    return a;
}

static double pixels(double ratio, double low, double high, double size) {
    return log(ratio) / log(high / low) * size;
}

enum { DECADE_PLAIN = 6 }; /* beyond, figures have an exponent */

/* 1, 2, 5 of each decade while there is room for that. */
static void tics(text *to, const char *axis, double low, double high, double size) {
    int first = (int)floor(log10(low)), last = (int)ceil(log10(high));
    bool all = size / (log10(high / low) * 3) > 36;
    int step = 1 + (int)(40 * log10(high / low) / size);
    text_print(to, "set logscale %s\nset %stics (", axis, axis);
    const char *comma = "";
    for (int decade = first; decade <= last; decade++) {
        for (int k = 1; k <= 5; k += k == 1 ? 1 : 3) {
            double value = k * pow(10, decade);
            char figure[PLOT_FIGURE_BYTES];
            if (value < low || value > high || (k > 1 && !all) || (decade - first) % step)
                continue;
            if (decade < -DECADE_PLAIN || decade > DECADE_PLAIN)
                snprintf(figure, sizeof figure, "%de%d", k, decade);
            else
                plot_fixed(value, decade < 0 ? -decade : 0, figure);
            text_print(to, "%s'%s' ", comma, figure);
            plot_number(to, value);
            comma = ", ";
        }
    }
    text_put(to, ")\n");
}

static void range(text *to, const char *axis, double low, double high) {
    text_print(to, "set %srange [", axis);
    plot_number(to, low);
    text_put(to, ":");
    plot_number(to, high);
    text_put(to, "]\n");
}

static void line(text *to, double xa, double ya, double xb, double yb, const char *options) {
    text_put(to, "set arrow from first ");
    plot_number(to, xa);
    text_put(to, ", first ");
    plot_number(to, ya);
    text_put(to, " to first ");
    plot_number(to, xb);
    text_put(to, ", first ");
    plot_number(to, yb);
    text_print(to, " nohead back %s\n", options);
}

/* The slopes from the fastest on; a name stands along its line, above it, or below where the one above is near. */
static void slopes(plot_canvas *canvas, const plot_frame *frame, const plot_roofline_data *data, const axes *a) {
    text *to = &canvas->script;
    size_t order[SLOPES_MAX];
    for (size_t i = 0; i < data->slope_count; i++) {
        size_t at = i;
        for (; at > 0 && data->slopes[order[at - 1]].gbs < data->slopes[i].gbs; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    const double decade_x = pixels(10, a->x0, a->x1, frame->width), decade_y = pixels(10, a->y0, a->y1, frame->height);
    const double angle = atan2(decade_y, decade_x);
    double before = 0, along = 0;
    for (size_t k = 0; k < data->slope_count; k++) {
        const plot_slope *slope = &data->slopes[order[k]];
        double xa = fmax(a->x0, a->y0 / slope->gbs), ridge = data->peak_gflops / slope->gbs;
        double xb = fmin(a->x1, fmin(a->y1 / slope->gbs, ridge > 0 ? ridge : INFINITY));
        if (xa >= xb)
            continue;
        line(to, xa, xa * slope->gbs, xb, xb * slope->gbs, "lc rgb '#444444' lw 1.5");
        char figure[PLOT_FIGURE_BYTES], name[192];
        plot_figure(slope->gbs, figure);
        snprintf(name, sizeof name, "%.100s %s GB/s", slope->name, figure);
        double apart = before > 0 ? pixels(before / slope->gbs, a->y0, a->y1, frame->height) * cos(angle) : INFINITY;
        bool below = apart < NEAR_PIXELS;
        along = below ? along + 100 : 24;
        before = slope->gbs;
        double x = frame->left + pixels(xa / a->x0, a->x0, a->x1, frame->width) + along * cos(angle);
        double y = frame->top + frame->height - pixels(xa * slope->gbs / a->y0, a->y0, a->y1, frame->height) -
                   along * sin(angle);
        const double off = below ? 11 : -11;
        char options[128];
        snprintf(options, sizeof options, "left rotate by %d font ',10' textcolor rgb '#444444'",
                 (int)lround(angle * 180 / acos(-1)));
        plot_label(canvas, x + off * sin(angle), y + off * cos(angle), name, 48, options);
    }
}

static void peak(text *to, const plot_roofline_data *data, const axes *a) {
    double from = a->x0;
    char figure[PLOT_FIGURE_BYTES];
    if (!(data->peak_gflops > 0))
        return;
    for (size_t i = 0; i < data->slope_count; i++) { /* from the first ridge on */
        double ridge = data->peak_gflops / data->slopes[i].gbs;
        from = i == 0 || ridge < from ? ridge : from;
    }
    line(to, fmax(from, a->x0), data->peak_gflops, a->x1, data->peak_gflops, "lc rgb '#444444' lw 1.5");
    plot_figure(data->peak_gflops, figure);
    text_print(to, "set label 'peak %s GFLOP/s' at graph 0.99, first ", figure);
    plot_number(to, data->peak_gflops);
    text_put(to, " right offset 0, 0.6 front font ',10' textcolor rgb '#444444'\n");
}

void plot_roofline_draw(plot_canvas *canvas, const plot_frame *frame, const plot_panel *panel, const char *labels) {
    text *to = &canvas->script;
    const plot_roofline_data *data = panel->roofline;
    const axes a = axes_of(data);
    const char *names[PLOT_SERIES_MAX];
    size_t count = plot_series(data, names);
    plot_panel_begin(canvas, frame);
    text_put(to, labels);
    plot_label(canvas, frame->left, frame->top - 14, panel->title, plot_characters(frame->width, 12),
               "left font ',12' textcolor rgb '#111111'");
    plot_key(canvas, frame->left + frame->width + 12, frame->top);
    text_put(to, "set key invert\nset xlabel 'flops a byte of weights'\nset ylabel 'GFLOP/s'\n");
    tics(to, "x", a.x0, a.x1, frame->width);
    tics(to, "y", a.y0, a.y1, frame->height);
    range(to, "x", a.x0, a.x1);
    range(to, "y", a.y0, a.y1);
    slopes(canvas, frame, data, &a);
    peak(to, data, &a);
    for (size_t s = 0; s < count; s++) {
        text_print(to, "$points%zu << END\n", s);
        for (size_t i = 0; i < data->count; i++) {
            if (strcmp(data->points[i].series, names[s]))
                continue;
            plot_number(to, data->points[i].intensity);
            text_put(to, " ");
            plot_number(to, data->points[i].gflops);
            text_put(to, "\n");
        }
        text_put(to, "END\n");
    }
    for (size_t s = count; s-- > 0;) { /* the first on top of the others */
        text_print(to, "%s $points%zu using 1:2 with points pt %d ps %s lc rgb '%s' title ",
                   s + 1 < count ? "," : "plot", s, plot_marks[s], s == 0 ? "0.9" : "0.8", plot_colours[s]);
        plot_quoted(to, names[s], LEGEND_CHARACTERS);
    }
    text_put(to, "\n");
}
