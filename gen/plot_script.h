/* plot_script.h: figures and names -> the words of a gnuplot script
 *
 * Numbers are written digit by digit, the same in every locale. Text can hold anything: it reaches the picture as it
 * is, but for control characters and bytes that are no UTF-8, which become '?'. */
#ifndef PLOT_SCRIPT_H
#define PLOT_SCRIPT_H

#include "plot.h"
#include "text.h"

/* A place in the picture, in pixels from its top left corner. */
typedef struct plot_frame {
    double left, top, width, height;
} plot_frame;

typedef struct plot_canvas {
    text script;
    double width, height;
} plot_canvas;

/* 6 digits, as a script has it. */
void plot_number(text *to, double value);
#define PLOT_FIGURE_BYTES 64
/* So many digits after the point. */
void plot_fixed(double value, int decimals, char figure[PLOT_FIGURE_BYTES]);
/* 3 digits, for people: "93.2", "0.0123", "1230", "1.20e-6". */
void plot_figure(double value, char figure[PLOT_FIGURE_BYTES]);
/* "'it''s'": at most `most` characters, the last of them an ellipsis where there are more. */
void plot_quoted(text *to, const char *name, size_t most);

/* Widths, roughly, of a font that is not known here: that many characters fit, and the other way. */
size_t plot_characters(double width, double size);
double plot_text_width(const char *name, double size);

/* What stands before a panel: nothing of the one before is left, and the frame is where it should be. */
void plot_panel_begin(plot_canvas *canvas, const plot_frame *frame);
/* "set label 'name' at screen ..." with the options that follow, in pixels. */
void plot_label(plot_canvas *canvas, double x, double y, const char *name, size_t most, const char *options);
/* The legend, its top left corner there. */
void plot_key(plot_canvas *canvas, double x, double y);

/* The look of a series. */
extern const char *const plot_colours[PLOT_SERIES_MAX];
extern const int plot_marks[PLOT_SERIES_MAX];

/* Panels of each kind; they begin with plot_panel_begin, and `labels` are lines of the script for the whole picture. */
void plot_roofline_draw(plot_canvas *canvas, const plot_frame *frame, const plot_panel *panel, const char *labels);
void plot_bars_draw(plot_canvas *canvas, const plot_frame *frame, const plot_panel *panel, const char *labels);
/* The size of the frame, and of what stands right of it. */
void plot_roofline_size(const plot_panel *panel, plot_frame *frame, double *legend);
void plot_bars_size(const plot_panel *panel, plot_frame *frame, double *legend);
ffn_status plot_roofline_check(const plot_roofline_data *data, ffn_diag *diag);
ffn_status plot_bars_check(const plot_bars_data *data, ffn_diag *diag);

/* The names of the series in the order in which they come; the count, or PLOT_SERIES_MAX + 1 for too many. */
size_t plot_series(const plot_roofline_data *data, const char *names[PLOT_SERIES_MAX]);

/* Title above, caption below: lines of the script. `extra` (NULL is allowed) stands above the machine. Returns the
 * height of the caption; the text is written only if `to` is not NULL. */
double plot_caption_draw(text *to, const plot_canvas *canvas, const plot_caption *caption, const char *extra);
#define PLOT_TITLE_HEIGHT 40.0

/* The script of a whole picture, `body` drawn on the canvas -> the picture. `name`: NULL for a file of its own. */
typedef enum plot_kind { PLOT_SVG, PLOT_PNG } plot_kind;
ffn_status plot_kind_of(const char *path, plot_kind *kind, ffn_diag *diag);
ffn_status plot_picture(plot_canvas *canvas, plot_kind kind, const char *name, ffn_bytes *picture, ffn_diag *diag);
ffn_status plot_file(plot_canvas *canvas, const char *path, ffn_diag *diag);

/* A script -> what gnuplot prints for it; free() what picture->data points to. */
ffn_status plot_gnuplot(const char *script, size_t script_bytes, ffn_bytes *picture, ffn_diag *diag);

#endif
