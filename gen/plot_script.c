/* plot_script.c: numbers, text and places as gnuplot reads them; the frame of every picture */
#define _DEFAULT_SOURCE /* strcasecmp */
#include "plot_script.h"

#include "diag.h"
#include "file.h"
#include "replace.h"
#include "text_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define CAPTION_SIZE 11
#define CAPTION_LINE 16.0
#define CAPTION_MARGIN 20.0
#define CAPTION_BYTES 2048
#define PNG_SCALE \
    2 /* pixels for each of an SVG: pictures are looked at on dense screens. Fonts: cairo has 96 to the inch */

/* Told apart by those who do not see red and green as two (Okabe and Ito). */
const char *const plot_colours[PLOT_SERIES_MAX] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                                   "#E69F00", "#56B4E9", "#7F7F7F", "#000000"};
const int plot_marks[PLOT_SERIES_MAX] = {7, 5, 9, 11, 13, 15, 6, 4};

/* ---- Numbers and text ---- */

/* value = digits x 10^exponent, with `count` digits. */
static long long digits_of(double value, int count, int *exponent) {
    *exponent = (int)floor(log10(fabs(value))) - (count - 1);
    double scaled = *exponent > 0 ? value / pow(10, *exponent) : value * pow(10, -*exponent);
    return llround(scaled);
}

void plot_number(text *to, double value) {
    int exponent = 0;
    long long digits = isfinite(value) && fabs(value) > 1e-290 ? digits_of(value, 6, &exponent) : 0;
    text_print(to, "%llde%d", digits, exponent);
}

/* What is smaller is no figure for an axis, and would not fit. */
enum { DECIMALS_MAX = 15 };

void plot_fixed(double value, int decimals, char figure[PLOT_FIGURE_BYTES]) {
    char *at = figure + PLOT_FIGURE_BYTES;
    while (decimals > 0 && fabs(value) * pow(10, decimals) >= 1e17)
        decimals--; /* of more digits than a number has */
    decimals = decimals < DECIMALS_MAX ? decimals : DECIMALS_MAX;
    if (!isfinite(value) || fabs(value) >= 1e15) {
        snprintf(figure, PLOT_FIGURE_BYTES, "%s", isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
        return;
    }
    long long rest = llround(fabs(value) * pow(10, decimals));
    *--at = 0;
    for (int written = 0; rest > 0 || written <= decimals; rest /= 10) {
        *--at = (char)('0' + rest % 10);
        if (++written == decimals)
            *--at = '.';
    }
    if (value < 0)
        *--at = '-';
    memmove(figure, at, (size_t)(figure + PLOT_FIGURE_BYTES - at));
}

void plot_figure(double value, char figure[PLOT_FIGURE_BYTES]) {
    int exponent = 0;
    if (isfinite(value) && fabs(value) > 1e-290)
        exponent = digits_of(fabs(value), 3, &exponent) == 1000 ? exponent + 3 : exponent + 2;
    if (!isfinite(value) || (exponent > -5 && exponent < 9)) {
        plot_fixed(value, exponent >= 2 || value == 0 ? 0 : 2 - exponent, figure);
        return;
    }
    plot_fixed(value / pow(10, exponent), 2, figure);
    size_t length = strlen(figure);
    snprintf(figure + length, PLOT_FIGURE_BYTES - length, "e%d", exponent);
}

/* Bytes of the character that begins here; 0: it is no UTF-8. */
static size_t character_bytes(const char *at) {
    const unsigned char *c = (const unsigned char *)at;
    size_t bytes = *c < 0x80                 ? 1
                   : *c >= 0xc2 && *c < 0xe0 ? 2
                   : *c >= 0xe0 && *c < 0xf0 ? 3
                   : *c >= 0xf0 && *c < 0xf5 ? 4
                                             : 0;
    for (size_t i = 1; i < bytes; i++) {
        if ((c[i] & 0xc0) != 0x80)
            return 0;
    }
    bool surrogate = bytes == 3 && c[0] == 0xed && c[1] >= 0xa0,
         nothing = bytes == 3 && c[0] == 0xef && c[1] == 0xbf && c[2] >= 0xbe;
    bool longer = (bytes == 3 && c[0] == 0xe0 && c[1] < 0xa0) || (bytes == 4 && c[0] == 0xf0 && c[1] < 0x90);
    bool beyond = bytes == 4 && c[0] == 0xf4 && c[1] > 0x8f;
    return surrogate || nothing || longer || beyond ? 0 : bytes;
}

static size_t characters_of(const char *name) {
    size_t count = 0;
    while (*name) {
        size_t bytes = character_bytes(name);
        name += bytes ? bytes : 1;
        count++;
    }
    return count;
}

void plot_quoted(text *to, const char *name, size_t most) {
    bool cut = characters_of(name) > most;
    text_put(to, "'");
    for (size_t count = 0; *name && count + cut < most; count++) {
        size_t bytes = character_bytes(name);
        bool control = (unsigned char)*name < 0x20 || *name == 0x7f ||
                       (bytes == 2 && (unsigned char)*name == 0xc2 && (unsigned char)name[1] < 0xa0);
        if (bytes == 0 || control)
            text_put(to, "?");
        else if (*name == '\'')
            text_put(to, "''");
        else
            text_add(to, name, bytes);
        name += bytes ? bytes : 1;
    }
    text_put(to, cut ? "…'" : "'");
}

size_t plot_characters(double width, double size) {
    return width > 0 ? (size_t)(width / (0.6 * size)) : 0;
}

double plot_text_width(const char *name, double size) {
    return 0.6 * size * (double)characters_of(name);
}

/* ---- Places ---- */

static void screen(text *to, const plot_canvas *canvas, double x, double y) {
    text_put(to, "screen ");
    plot_number(to, x / canvas->width);
    text_put(to, ", screen ");
    plot_number(to, 1 - y / canvas->height);
}

static void margin(text *to, const char *name, double at) {
    text_print(to, "set %s at screen ", name);
    plot_number(to, at);
    text_put(to, "\n");
}

void plot_panel_begin(plot_canvas *canvas, const plot_frame *frame) {
    text *to = &canvas->script;
    text_put(to, "reset\n"
                 "set border lc rgb '#444444'\nset tics textcolor rgb '#222222' nomirror\n"
                 "set grid lc rgb '#dddddd' lt 1 lw 0.5 back\n");
    margin(to, "lmargin", frame->left / canvas->width);
    margin(to, "rmargin", (frame->left + frame->width) / canvas->width);
    margin(to, "tmargin", 1 - frame->top / canvas->height);
    margin(to, "bmargin", 1 - (frame->top + frame->height) / canvas->height);
}

static void label(text *to, const plot_canvas *canvas, double x, double y, const char *name, size_t most,
                  const char *options) {
    text_put(to, "set label ");
    plot_quoted(to, name, most);
    text_put(to, " at ");
    screen(to, canvas, x, y);
    text_print(to, " front %s\n", options);
}

void plot_label(plot_canvas *canvas, double x, double y, const char *name, size_t most, const char *options) {
    label(&canvas->script, canvas, x, y, name, most, options);
}

void plot_key(plot_canvas *canvas, double x, double y) {
    text *to = &canvas->script;
    text_put(to, "set key at ");
    screen(to, canvas, x, y);
    text_put(to, " left top Left reverse samplen 1.5 spacing 1.25 font ',11' textcolor rgb '#222222'\n");
}

/* ---- Title and caption ---- */

/* A line of at most `most` characters from *rest on, broken after a blank or a comma where there is one. */
static void take_line(const char **rest, size_t most, char line[CAPTION_BYTES]) {
    const char *at = *rest, *end = at, *good = NULL;
    for (size_t count = 0; *end && count < most; count++) {
        size_t bytes = character_bytes(end);
        end += bytes ? bytes : 1;
        if (end[-1] == ' ' || end[-1] == ',')
            good = end;
    }
    if (*end && good)
        end = good;
    snprintf(line, CAPTION_BYTES, "%.*s", (int)(end - at), at);
    *rest = end + strspn(end, " ");
}

static double paragraph(text *to, const plot_canvas *canvas, double y, const char *words) {
    size_t most = plot_characters(canvas->width - 2 * CAPTION_MARGIN, CAPTION_SIZE);
    char line[CAPTION_BYTES];
    while (words && *words) {
        take_line(&words, most < CAPTION_BYTES / 4 ? most : CAPTION_BYTES / 4, line);
        if (to)
            label(to, canvas, CAPTION_MARGIN, y + CAPTION_LINE / 2, line, CAPTION_BYTES,
                  "left font ',11' textcolor rgb '#444444'");
        y += CAPTION_LINE;
    }
    return y;
}

double plot_caption_draw(text *to, const plot_canvas *canvas, const plot_caption *caption, const char *extra) {
    char where[CAPTION_BYTES];
    snprintf(where, sizeof where, "%s, %s", caption->machine, caption->date);
    double begin = to ? canvas->height : 0, y = begin;
    if (to) {
        y -= plot_caption_draw(NULL, canvas, caption, extra);
        label(to, canvas, canvas->width / 2, PLOT_TITLE_HEIGHT / 2 + 2, caption->title,
              plot_characters(canvas->width - 2 * CAPTION_MARGIN, 16), "center font ',16' textcolor rgb '#111111'");
    }
    begin = y;
    y = paragraph(to, canvas, y, extra);
    y = paragraph(to, canvas, y, where);
    y = paragraph(to, canvas, y, caption->notes);
    return y + 10 - begin;
}

/* ---- Whole pictures ---- */

ffn_status plot_kind_of(const char *path, plot_kind *kind, ffn_diag *diag) {
    const char *dot = strrchr(path, '.');
    if (!dot || (strcasecmp(dot, ".svg") && strcasecmp(dot, ".png")))
        return diag_fail(diag, FFN_BAD_ARGUMENT,
                         "%s is the name of neither an SVG nor a PNG: it should end in .svg or .png", file_label(path));
    *kind = strcasecmp(dot, ".svg") ? PLOT_PNG : PLOT_SVG;
    return FFN_OK;
}

static void head(text *to, const plot_canvas *canvas, plot_kind kind, const char *name) {
    const int width = (int)ceil(canvas->width), height = (int)ceil(canvas->height);
    text_put(to, "set encoding utf8\n");
    if (kind == PLOT_SVG)
        text_print(to, "set terminal svg size %d,%d noenhanced font 'sans-serif,12' background 'white' name '%s'\n",
                   width, height, name ? name : "ffngen");
    else
        text_print(
            to,
            "if (strstrt(GPVAL_TERMINALS, 'pngcairo')) set terminal pngcairo size %d,%d noenhanced font "
            "'sans-serif,12' fontscale %d.%d linewidth %d pointscale %d background 'white'; else set terminal png "
            "size %d,%d noenhanced background 'white'\n",
            PNG_SCALE * width, PNG_SCALE * height, PNG_SCALE * 3 / 4, PNG_SCALE * 75 % 100, PNG_SCALE,
            PNG_SCALE * 3 / 2, width, height);
}

ffn_status plot_picture(plot_canvas *canvas, plot_kind kind, const char *name, ffn_bytes *picture, ffn_diag *diag) {
    text script = {0};
    head(&script, canvas, kind, name);
    text_put(&script, "set multiplot\n");
    text_add(&script, canvas->script.data, canvas->script.bytes);
    text_put(&script, "unset multiplot\n");
    script.failed = script.failed || canvas->script.failed;
    text_free(&canvas->script);
    ffn_bytes whole;
    ffn_status status = text_take(&script, &whole, diag);
    if (status)
        return status;
    status = plot_gnuplot(whole.data, whole.bytes, picture, diag);
    free(whole.data);
    return status;
}

ffn_status plot_file(plot_canvas *canvas, const char *path, ffn_diag *diag) {
    plot_kind kind = PLOT_SVG;
    ffn_bytes picture;
    ffn_status status = plot_kind_of(path, &kind, diag);
    if (status)
        text_free(&canvas->script);
    else
        status = plot_picture(canvas, kind, NULL, &picture, diag);
    if (status)
        return status;
    status = text_file_write(path, picture.data, picture.bytes, diag);
    free(picture.data);
    return status;
}

ffn_status plot_path_check(const char *path, ffn_diag *diag) {
    plot_kind kind;
    const ffn_status status = plot_kind_of(path, &kind, diag);
    return status ? status : replace_check(path, diag);
}
