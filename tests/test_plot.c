/* test_plot.c: pictures: what stands in them, and what becomes of the file when there can be none */
#define _GNU_SOURCE
#include "plot.h"
#include "plot_script.h"
#include "support_files.h"

#include <criterion/criterion.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const plot_caption caption = {"a_title^2 {b} <&> 'q' \"d\" `x`", "A machine (1.2.3)", "2026-11-30",
                                     "avx2, 1 thread"};
static const plot_cell cells[] = {{6, 2, 50.23, "tiles=6x2"}, {4, 3, 41.5, "tiles=4x3"}, {1, 1, 0.05, NULL}};

static bool have_gnuplot(void) {
    bool there = system("gnuplot --version > /dev/null 2>&1") == 0;
    if (!there)
        printf("skipped: gnuplot is not installed\n");
    return there;
}

/* Elements that close, in order; no stray & or <. What xmllint --noout finds, where it is not there. */
static void expect_well_formed(const char *xml) {
    const char *open[64];
    size_t lengths[64];
    int depth = 0;
    for (const char *at = xml; *at; at++) {
        if (*at == '&') {
            const size_t name = strspn(at + 1, "#abcdefghijklmnopqrstuvwxyz0123456789");
            cr_assert(name > 0 && at[1 + name] == ';', "a bare & at: %.40s", at);
        }
        if (*at != '<')
            continue;
        const char *end = strchr(at, '>');
        cr_assert_not_null(end, "no end of: %.40s", at);
        const char *next = strchr(at + 1, '<');
        cr_assert(!strncmp(at, "<!--", 4) || !next || next > end, "< inside: %.40s", at);
        if (!strncmp(at, "<!--", 4))
            end = strstr(at, "-->") + 2;
        else if (at[1] == '/') {
            cr_assert_gt(depth, 0);
            depth--;
            cr_assert(!strncmp(at + 2, open[depth], lengths[depth]) && at[2 + lengths[depth]] == '>',
                      "%.20s ends what is no such element: %.20s", at, open[depth]);
        } else if (at[1] != '?' && at[1] != '!' && end[-1] != '/') {
            cr_assert_lt(depth, 64);
            open[depth] = at + 1;
            lengths[depth++] = strcspn(at + 1, " \t\r\n>");
        }
        at = end;
    }
    cr_assert_eq(depth, 0);
}

static char *text_of(const char *path) {
    size_t bytes;
    char *data = support_file_read(path, &bytes), *with_end = malloc(bytes + 1);
    memcpy(with_end, data, bytes);
    with_end[bytes] = 0;
    free(data);
    return with_end;
}

static void expect_in(const char *whole, const char *part) {
    cr_expect_not_null(strstr(whole, part), "'%s' is not in the picture", part);
}

/* A program called gnuplot that is all of PATH. */
static void fake_gnuplot(const char *script) {
    if (script) {
        support_file_write(support_path("gnuplot"), script, strlen(script));
        chmod(support_path("gnuplot"), 0755);
    }
    char path[4096];
    snprintf(path, sizeof path, "%s", support_path("gnuplot"));
    *strrchr(path, '/') = 0;
    setenv("PATH", path, 1);
}

TestSuite(plot, .init = support_folder_make, .fini = support_folder_remove);

Test(plot, figures_have_three_digits_and_a_point_in_every_locale) {
    const struct {
        double value;
        const char *figure;
    } table[] = {{0, "0"},           {93.16, "93.2"}, {9.996, "10.0"},     {99.96, "100"},  {1234, "1234"},
                 {0.0123, "0.0123"}, {0.5, "0.500"},  {1.2e-7, "1.20e-7"}, {-2.5, "-2.50"}, {3.5e12, "3.50e12"}};
    for (const char *const *name = (const char *const[]){"de_DE.UTF-8", "fr_FR.UTF-8", "C", NULL}; *name; name++) {
        if (!setlocale(LC_ALL, *name))
            printf("skipped: there is no locale %s\n", *name);
        for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
            char figure[PLOT_FIGURE_BYTES];
            plot_figure(table[i].value, figure);
            cr_expect_str_eq(figure, table[i].figure);
        }
        text script = {0};
        plot_number(&script, 0.125);
        plot_number(&script, -53100);
        text_add(&script, "", 1);
        cr_expect_str_eq(script.data, "125000e-6-531000e-1");
        text_free(&script);
    }
}

Test(plot, names_are_quoted_whatever_they_hold) {
    const struct {
        const char *name, *quoted;
        size_t most;
    } table[] = {{"plain", "'plain'", 9},
                 {"it's", "'it''s'", 9},
                 {"a\nb\x7f", "'a?b?'", 9},
                 {"\xff\xc3(",
                  "'?"
                  "?('",
                  9},
                 {"n\xc3\xa4he", "'n\xc3\xa4he'", 4},
                 {"a long one", "'a lo…'", 5},
                 {"`x` $(y) \\n @z", "'`x` $(y) \\n @z'", 20},
                 {"\xed\xa0\x80",
                  "'?"
                  "?"
                  "?'",
                  9}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        text quoted = {0};
        plot_quoted(&quoted, table[i].name, table[i].most);
        text_add(&quoted, "", 1);
        cr_expect_str_eq(quoted.data, table[i].quoted);
        text_free(&quoted);
    }
}

Test(plot, heat_map_is_well_formed_and_holds_figures_names_and_caption) {
    ffn_diag diag = {0};
    if (!have_gnuplot())
        return;
    cr_assert_eq(plot_heat(cells, 3, &caption, support_path("heat.svg"), &diag), FFN_OK, "%s", diag.text);
    char *svg = text_of(support_path("heat.svg"));
    expect_well_formed(svg);
    const char *const parts[] = {"50.2",
                                 "41.5",
                                 "0.0500",
                                 "rows (mr)",
                                 "vectors side by side (nv)",
                                 "GFLOP/s",
                                 "a_title^2 {b} &lt;&amp;> 'q' \"d\" `x`",
                                 "A machine (1.2.3), 2026-11-30",
                                 "tiles=6x2",
                                 "mr = 6, nv = 2",
                                 "avx2, 1 thread",
                                 "grey: not measured"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        expect_in(svg, parts[i]);
    free(svg);
    cr_assert_eq(plot_heat(cells, 1, &caption, support_path("one.PNG"), &diag), FFN_OK, "%s", diag.text);
    size_t bytes;
    unsigned char *png = support_file_read(support_path("one.PNG"), &bytes);
    cr_assert(bytes > 1000 && !memcmp(png, "\x89PNG\r\n\x1a\n", 8));
    free(png);
    cr_expect_eq(support_folder_count(), 2, "something else was left in the folder");
}

Test(plot, board_holds_slopes_peak_series_and_bars) {
    ffn_diag diag = {0};
    if (!have_gnuplot())
        return;
    const plot_point points[] = {{"ffngen", 0.5, 13.1}, {"ffngen", 256, 51}, {"peer_one & <two>", 0.5, 0.013}};
    const plot_slope slopes[] = {{"L2", 190}, {"memory", 14.23}};
    const plot_roofline_data roofline = {points, 3, slopes, 2, 53.1};
    const char *const groups[] = {"n = 1", "n = 512"}, *const series[] = {"ffngen", "peer_one & <two>"};
    const double values[] = {13.1, 0, 51.4, 0.051};
    const plot_bars_data bars = {groups, 2, series, 2, values, 53.1};
    const plot_panel panels[] = {{"every case", &roofline, NULL}, {"d64-f256-relu", NULL, &bars}};
    cr_assert_eq(plot_board(panels, 2, &caption, support_path("board.svg"), &diag), FFN_OK, "%s", diag.text);
    char *svg = text_of(support_path("board.svg"));
    expect_well_formed(svg);
    const char *const parts[] = {"L2 190 GB/s",
                                 "memory 14.2 GB/s",
                                 "peak 53.1 GFLOP/s",
                                 "flops a byte of weights",
                                 "peer_one &amp; &lt;two>",
                                 "n = 512",
                                 "0.0510",
                                 "51.4",
                                 "d64-f256-relu",
                                 "2026-11-30"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        expect_in(svg, parts[i]);
    free(svg);
    ffn_bytes first, second;
    cr_assert_eq(plot_board_svg(panels, 2, &caption, "one", &first, &diag), FFN_OK, "%s", diag.text);
    cr_assert_eq(plot_board_svg(panels, 2, &caption, "one", &second, &diag), FFN_OK, "%s", diag.text);
    cr_assert(first.bytes == second.bytes && !memcmp(first.data, second.data, first.bytes), "two runs, two pictures");
    cr_assert(!memcmp(first.data, "<svg", 4));
    cr_expect_null(memmem(first.data, first.bytes, "'gpPt", 5), "an id that every picture has");
    cr_expect_null(memmem(first.data, first.bytes, "#gpPt", 5), "a reference to it");
    free(first.data);
    free(second.data);
}

Test(plot, without_gnuplot_it_says_how_to_get_it_and_leaves_the_file) {
    ffn_diag diag = {0};
    support_file_write(support_path("old.svg"), "old", 3);
    fake_gnuplot(NULL);
    cr_expect_eq(plot_heat(cells, 3, &caption, support_path("old.svg"), &diag), FFN_UNSUPPORTED);
    cr_expect_not_null(strstr(diag.text, "gnuplot-nox"), "%s", diag.text);
    support_file_expect(support_path("old.svg"), "old", 3, "the picture");
    cr_expect_eq(plot_heat(cells, 3, &caption, support_path("new.svg"), &diag), FFN_UNSUPPORTED);
    cr_expect_eq(support_folder_count(), 1);
}

Test(plot, a_gnuplot_that_fails_is_quoted_and_leaves_the_file) {
    const struct {
        const char *script, *words;
    } table[] = {{"#!/bin/sh\necho; echo '  out of ink' >&2; echo second >&2; exit 3\n", "out of ink"},
                 {"#!/bin/sh\necho '<svg>half'; kill -9 $$\n", "signal 9"},
                 {"#!/bin/sh\nexit 0\n", "said nothing"},
                 {"#!/bin/nothing-of-that-name\n", ""}};
    support_file_write(support_path("old.svg"), "old", 3);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        ffn_diag diag = {0};
        fake_gnuplot(table[i].script);
        ffn_status status = plot_heat(cells, 3, &caption, support_path("old.svg"), &diag);
        cr_expect(status == FFN_SYSTEM || status == FFN_UNSUPPORTED, "%zu: status %d", i, (int)status);
        cr_expect_not_null(strstr(diag.text, table[i].words), "%s", diag.text);
        cr_expect_null(strstr(diag.text, "second"));
        support_file_expect(support_path("old.svg"), "old", 3, "the picture");
        cr_expect_eq(support_folder_count(), 2);
    }
}

Test(plot, what_cannot_be_drawn_is_named) {
    ffn_diag diag = {0};
    const plot_cell bad = {2, 3, -1, NULL};
    cr_expect_eq(plot_heat(cells, 3, &caption, support_path("heat.pdf"), &diag), FFN_BAD_ARGUMENT);
    cr_expect_not_null(strstr(diag.text, ".svg or .png"));
    cr_expect_eq(plot_heat(cells, 0, &caption, support_path("heat.svg"), &diag), FFN_BAD_ARGUMENT);
    cr_expect_eq(plot_heat(&bad, 1, &caption, support_path("heat.svg"), &diag), FFN_BAD_ARGUMENT);
    cr_expect_not_null(strstr(diag.text, "2x3"), "%s", diag.text);
    const plot_point nowhere = {"peer", 0, 1};
    const plot_roofline_data roofline = {&nowhere, 1, NULL, 0, 0};
    const plot_panel panel = {"", &roofline, NULL};
    cr_expect_eq(plot_board(&panel, 1, &caption, support_path("b.svg"), &diag), FFN_BAD_ARGUMENT);
    cr_expect_not_null(strstr(diag.text, "peer"));
    cr_expect_eq(plot_board(NULL, 0, &caption, support_path("b.svg"), &diag), FFN_BAD_ARGUMENT);
    cr_expect_eq(support_folder_count(), 0);
}
