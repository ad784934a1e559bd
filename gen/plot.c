/* plot.c: panels -> one picture: a title, the panels one below the other, each with its legend, a caption */
#include "plot.h"

#include "diag.h"
#include "plot_script.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LEFT 80.0
#define TITLE 34.0 /* above a frame: the panel's own line */
#define AXIS 56.0  /* below it: figures and what they are */
#define BAR_AXIS 40.0

static ffn_status check(const plot_panel *panels, size_t count, ffn_diag *diag) {
    if (count == 0)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "nothing was measured: there is nothing to draw");
    for (size_t i = 0; i < count; i++) {
        ffn_status status =
            panels[i].roofline ? plot_roofline_check(panels[i].roofline, diag) : plot_bars_check(panels[i].bars, diag);
        if (status)
            return status;
    }
    return FFN_OK;
}

static void size_of(const plot_panel *panel, plot_frame *frame, double *legend) {
    if (panel->roofline)
        plot_roofline_size(panel, frame, legend);
    else
        plot_bars_size(panel, frame, legend);
}

static ffn_status compose(const plot_panel *panels, size_t count, const plot_caption *caption, plot_canvas *canvas,
                          ffn_diag *diag) {
    ffn_status status = check(panels, count, diag);
    if (status)
        return status;
    double width = 0, legend_most = 0;
    *canvas = (plot_canvas){.height = PLOT_TITLE_HEIGHT};
    for (size_t i = 0; i < count; i++) {
        plot_frame frame;
        double legend;
        size_of(&panels[i], &frame, &legend);
        width = fmax(width, frame.width);
        legend_most = fmax(legend_most, legend);
        canvas->height += TITLE + frame.height + (panels[i].roofline ? AXIS : BAR_AXIS);
    }
    canvas->width = LEFT + width + 12 + legend_most + 10;
    canvas->height += plot_caption_draw(NULL, canvas, caption, NULL);
    text labels = {0};
    plot_caption_draw(&labels, canvas, caption, NULL);
    text_add(&labels, "", 1);
    double top = PLOT_TITLE_HEIGHT;
    for (size_t i = 0; i < count && !labels.failed; i++) {
        plot_frame frame;
        double legend;
        size_of(&panels[i], &frame, &legend);
        frame.left = LEFT;
        frame.top = top + TITLE;
        frame.width = width; /* all as wide as the widest: their right ends and legends stand in line */
        if (panels[i].roofline)
            plot_roofline_draw(canvas, &frame, &panels[i], i ? "" : labels.data);
        else
            plot_bars_draw(canvas, &frame, &panels[i], i ? "" : labels.data);
        top = frame.top + frame.height + (panels[i].roofline ? AXIS : BAR_AXIS);
    }
    canvas->script.failed = canvas->script.failed || labels.failed;
    text_free(&labels);
    return FFN_OK;
}

ffn_status plot_board(const plot_panel *panels, size_t count, const plot_caption *caption, const char *path,
                      ffn_diag *diag) {
    plot_kind kind;
    plot_canvas canvas;
    ffn_status status = plot_kind_of(path, &kind, diag);
    if (!status)
        status = compose(panels, count, caption, &canvas, diag);
    return status ? status : plot_file(&canvas, path, diag);
}

/* ---- A picture inside a page ---- */

/* gnuplot calls its marks gpPt0, gpPt1, ... in every picture; in one page that would be one id many times. */
static const char *const shared_ids[] = {"gpPt", "gpDot", "gpHatch", "gpPat", "textbox", "greybox", "gnuplot_canvas"};

static void with_own_ids(const char *from, const char *end, const char *name, text *to) {
    while (from < end) {
        size_t id = 0;
        const char *stop = from;
        for (; stop < end; stop++) {
            for (id = 0; id < sizeof shared_ids / sizeof *shared_ids; id++) {
                size_t length = strlen(shared_ids[id]);
                bool names = stop[-1] == '#' || (stop[-1] == '\'' || stop[-1] == '"'); /* an <svg stands before */
                if (names && (size_t)(end - stop) > length && !strncmp(stop, shared_ids[id], length))
                    break;
            }
            if (id < sizeof shared_ids / sizeof *shared_ids)
                break;
        }
        text_add(to, from, (size_t)(stop - from));
        if (stop < end) {
            text_put(to, name);
            text_put(to, shared_ids[id]);
            stop += strlen(shared_ids[id]);
        }
        from = stop;
    }
}

ffn_status plot_board_svg(const plot_panel *panels, size_t count, const plot_caption *caption, const char *name,
                          ffn_bytes *svg, ffn_diag *diag) {
    plot_canvas canvas;
    ffn_bytes whole;
    ffn_status status = compose(panels, count, caption, &canvas, diag);
    if (!status)
        status = plot_picture(&canvas, PLOT_SVG, name, &whole, diag);
    if (status)
        return status;
    text file = {.data = whole.data, .bytes = whole.bytes}, own = {0};
    text_add(&file, "", 1); /* an end for strstr */
    const char *begin = file.failed ? NULL : strstr(file.data, "<svg"), *end = begin ? strstr(begin, "</svg>") : NULL;
    if (!end) {
        text_free(&file);
        return diag_fail(diag, FFN_SYSTEM, "gnuplot gave something else than an SVG");
    }
    text_put(&own, "<svg");
    with_own_ids(begin + strlen("<svg"), end + strlen("</svg>"), name, &own);
    text_free(&file);
    return text_take(&own, svg, diag);
}
