/* page.c: the parts of the page, in order, and what every part writes with */
#include "page_parts.h"

#include "diag.h"
#include "plot_script.h"
#include "text_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char style[] =
    "body{font:16px/1.5 system-ui,sans-serif;color:#111;background:#fff;max-width:75rem;margin:0 auto;padding:1rem}\n"
    "h1{font-size:1.6rem}h2{font-size:1.3rem;margin-top:2rem;border-bottom:1px solid #bbb}h3{font-size:1.05rem;"
    "margin-bottom:.3rem}\n"
    ".wide{overflow-x:auto}table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}\n"
    "th,td{padding:.2rem .6rem;border-bottom:1px solid #ddd;text-align:right;white-space:nowrap}\n"
    "thead th{background:#f2f2f2;border-bottom:2px solid #888}tbody th{font-weight:normal}\n"
    "table.facts th,table.facts td{text-align:left;white-space:normal;vertical-align:top;overflow-wrap:anywhere}\n"
    "td.slow{background:#fde3d3;color:#7a2500;font-weight:bold}.alert{border-left:4px solid #d55e00;"
    "padding:.3rem .8rem;background:#fdf3ec}\n"
    ".small,dl{font-size:.85rem}code{overflow-wrap:anywhere}figure{margin:1rem 0}figure "
    "svg{max-width:100%;height:auto}\n"
    "@media print{body{font-size:10pt;max-width:none;padding:0}.wide{overflow:visible}table{font-size:7pt}"
    "th,td{padding:.1rem .3rem}tr,figure{break-inside:avoid}h2,h3{break-after:avoid}}\n";

void page_escaped(text *to, const char *name) {
    text quoted = {0};
    plot_quoted(&quoted, name, SIZE_MAX / 2); /* what is no UTF-8, or a control character, goes here */
    for (size_t i = 1; i + 1 < quoted.bytes; i++) {
        char c = quoted.data[i];
        if (c == '\'' && i + 2 < quoted.bytes && quoted.data[i + 1] == '\'')
            i++;
        switch (c) {
        case '&':
            text_put(to, "&amp;");
            break;
        case '<':
            text_put(to, "&lt;");
            break;
        case '>':
            text_put(to, "&gt;");
            break;
        case '"':
            text_put(to, "&quot;");
            break;
        case '\'':
            text_put(to, "&#39;");
            break;
        default:
            text_add(to, &c, 1);
        }
    }
    to->failed = to->failed || quoted.failed;
    text_free(&quoted);
}

void page_cell(text *to, double value, int decimals) {
    char figure[PLOT_FIGURE_BYTES];
    if (value > 0)
        plot_fixed(value, decimals, figure);
    text_print(to, "<td>%s</td>", value > 0 ? figure : "–");
}

void page_ratio_cell(text *to, double ratio) {
    char figure[PLOT_FIGURE_BYTES];
    if (!(ratio > 0)) {
        text_put(to, "<td>–</td>");
        return;
    }
    plot_fixed(ratio < 1 ? floor(ratio * 100) / 100 : ratio, 2, figure); /* 0.999 is no 1.00 */
    if (ratio < 1)
        text_print(to, "<td class=\"slow\" title=\"slower\">▼ %s×</td>", figure);
    else
        text_print(to, "<td>%s×</td>", figure);
}

/* ---- Machine and versions ---- */

static void fact(text *to, const char *name, const char *value) {
    if (!*value)
        return;
    text_print(to, "<tr><th scope=\"row\">%s</th><td>", name);
    page_escaped(to, value);
    text_put(to, "</td></tr>\n");
}

static void caches(text *to, const cJSON *suite) {
    static const char *const keys[] = {"l1_bytes", "l2_bytes", "l3_bytes"};
    const cJSON *of = cJSON_GetObjectItemCaseSensitive(suite, "caches");
    char line[128] = "";
    for (int i = 0; i < 3; i++) {
        double bytes = suite_number(of, keys[i], 0);
        size_t length = strlen(line);
        if (bytes > 0)
            snprintf(line + length, sizeof line - length, "%sL%d %.0f KiB", length ? ", " : "", i + 1, bytes / 1024);
    }
    fact(to, "caches", line);
}

static void levels(text *to, const cJSON *suite) {
    static const char *const keys[][2] = {{"peak_gflops", "peak GFLOP/s"},
                                          {"l1_gbs", "L1 GB/s"},
                                          {"l2_gbs", "L2 GB/s"},
                                          {"l3_gbs", "L3 GB/s"},
                                          {"memory_gbs", "memory GB/s"}};
    const cJSON *all = cJSON_GetObjectItemCaseSensitive(suite, "levels"), *of;
    if (cJSON_GetArraySize(all) == 0)
        return;
    text_put(to, "<h3>What the machine can do, measured in the same run</h3>\n<div class=\"wide\"><table>\n"
                 "<thead><tr><th scope=\"col\">threads</th>");
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        text_print(to, "<th scope=\"col\">%s</th>", keys[i][1]);
    text_put(to, "</tr></thead>\n<tbody>\n");
    cJSON_ArrayForEach(of, all) {
        text_print(to, "<tr><th scope=\"row\">%.0f</th>", suite_number(of, "threads", 0));
        for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
            page_cell(to, suite_number(of, keys[i][0], 0), 1);
        text_put(to, "</tr>\n");
    }
    text_put(to, "</tbody></table></div>\n");
    cJSON_ArrayForEach(of, all) {
        if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(of, "busy"))) {
            text_put(to, "<p class=\"alert\">The machine was busy while this was measured: it can do better.</p>\n");
            return;
        }
    }
}

static void machine(text *to, const cJSON *suite) {
    const cJSON *versions = cJSON_GetObjectItemCaseSensitive(suite, "versions"), *peer;
    text_put(to, "<section id=\"machine\"><h2>Machine and versions</h2>\n<table class=\"facts\"><tbody>\n");
    fact(to, "machine", suite_text(suite, "machine"));
    caches(to, suite);
    fact(to, "kernels for", suite_text(suite, "isa"));
    fact(to, "date", suite_text(suite, "date"));
    fact(to, "ffngen", suite_text(versions, "ffngen"));
    fact(to, "LLVM", suite_text(versions, "llvm"));
    fact(to, "operating system", suite_text(versions, "kernel"));
    cJSON_ArrayForEach(peer, cJSON_GetObjectItemCaseSensitive(suite, "peers")) {
        const char *missing = suite_text(peer, "missing");
        text_put(to, "<tr><th scope=\"row\">");
        page_escaped(to, suite_text(peer, "title"));
        text_put(to, *missing ? "</th><td><strong>missing</strong>: " : "</th><td>");
        page_escaped(to, *missing ? missing : suite_text(peer, "version"));
        text_put(to, "</td></tr>\n");
    }
    fact(to, "set, and of influence on peers", suite_text(suite, "environment"));
    text_put(to, "</tbody></table>\n");
    levels(to, suite);
    text_put(to, "</section>\n");
}

/* ---- How, and what was cut ---- */

static void measured(text *to, const cJSON *suite) {
    const cJSON *rows = cJSON_GetObjectItemCaseSensitive(suite, "rows"), *row;
    int shorter = 0, busy = 0;
    cJSON_ArrayForEach(row, rows) {
        shorter += suite_number(row, "seconds", 1) < 0.5;
        busy += suite_number(row, "busy", 0) > 0.05;
    }
    text_put(
        to,
        "<section id=\"how\"><h2>How it was measured</h2>\n<p>All in one process. In each row ffngen, the peers, and "
        "probes of what the machine can do take turns in rounds, at least three; the tables tell the least and the "
        "median time of one call. Every output was compared with one computed in double before it was timed. Flops "
        "are 2 × multiply-adds of the true sizes; the activation is not counted. % peak: of multiply-adds from "
        "registers; % read: of reading a buffer as large as the weights; % roof: of the larger of both times, the "
        "activation included. With one thread times are CPU times, else wall times.</p>\n");
    text_print(to, "<p>%d rows were measured", cJSON_GetArraySize(rows));
    if (suite_number(suite, "seconds", 0) > 0)
        text_print(to, " in %.0f s", suite_number(suite, "seconds", 0));
    text_print(to, "; %d of them had less than half a second for their rounds.", shorter);
    if (busy)
        text_print(to, " In %d rows other processes took more than 5 %% of the time.", busy);
    text_put(to, "</p>\n</section>\n");
}

static void list(text *to, const cJSON *suite, const char *key, const char *words) {
    const cJSON *items = cJSON_GetObjectItemCaseSensitive(suite, key), *item;
    if (cJSON_GetArraySize(items) == 0)
        return;
    text_print(to, "<details class=\"alert\"><summary>%d rows %s</summary>\n<ul>\n", cJSON_GetArraySize(items), words);
    const char *spec = NULL;
    double threads = 0;
    cJSON_ArrayForEach(item, items) { /* those of one spec in one line */
        if (!spec || strcmp(spec, suite_text(item, "spec")) || threads != suite_number(item, "threads", 0)) {
            text_put(to, spec ? "</li>\n<li>" : "<li>");
            spec = suite_text(item, "spec");
            threads = suite_number(item, "threads", 0);
            page_escaped(to, spec);
            text_print(to, ", %.0f thread%s: n = %.0f", threads, threads == 1 ? "" : "s", suite_number(item, "n", 0));
        } else
            text_print(to, ", %.0f", suite_number(item, "n", 0));
    }
    text_put(to, "</li>\n</ul></details>\n");
}

static void cut(text *to, const cJSON *suite) {
    if (!cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(suite, "complete")))
        text_put(to, "<p class=\"alert\"><strong>Incomplete:</strong> the run was interrupted.</p>\n");
    list(to, suite, "left_out", "were left out, for there was no time for them");
    list(to, suite, "failed", "failed");
}

/* ---- Pictures ---- */

static const cJSON *levels_of(const cJSON *suite, int threads) {
    const cJSON *of;
    cJSON_ArrayForEach(of, cJSON_GetObjectItemCaseSensitive(suite, "levels")) {
        if (suite_number(of, "threads", 0) == threads)
            return of;
    }
    return NULL;
}

static ffn_status picture(text *to, const cJSON *suite, int threads, ffn_diag *diag) {
    suite_panels panels;
    const cJSON *rows = cJSON_GetObjectItemCaseSensitive(suite, "rows");
    ffn_status status = suite_panels_make(rows, threads, levels_of(suite, threads), &panels, diag);
    if (!status && panels.count) {
        char title[96], name[32], notes[256];
        ffn_bytes svg;
        snprintf(title, sizeof title, "ffngen and its peers, %d thread%s", threads, threads == 1 ? "" : "s");
        snprintf(name, sizeof name, "f%d", threads);
        snprintf(notes, sizeof notes, "%.40s, ffngen %.40s, LLVM %.40s", suite_text(suite, "isa"),
                 suite_text(cJSON_GetObjectItemCaseSensitive(suite, "versions"), "ffngen"),
                 suite_text(cJSON_GetObjectItemCaseSensitive(suite, "versions"), "llvm"));
        const plot_caption caption = {title, suite_text(suite, "machine"), suite_text(suite, "date"), notes};
        status = plot_board_svg(panels.panels, panels.count, &caption, name, &svg, diag);
        if (!status) {
            text_print(to, "<figure aria-label=\"%s\">", title);
            text_add(to, svg.data, svg.bytes);
            text_put(to, "</figure>\n");
            free(svg.data);
        }
    }
    suite_panels_free(&panels);
    return status;
}

/* A page without pictures is better than none. */
static void pictures(text *to, const cJSON *suite, ffn_diag *remark) {
    int threads[PAGE_VALUES_MAX];
    const int count = page_values(cJSON_GetObjectItemCaseSensitive(suite, "rows"), "threads", threads);
    *remark = (ffn_diag){0};
    text_put(to, "<section id=\"pictures\"><h2>Pictures</h2>\n");
    for (int i = 0; i < count && !remark->status; i++) {
        if (!picture(to, suite, threads[i], remark))
            continue;
        text_put(to, "<p class=\"alert\">There are no pictures: ");
        page_escaped(to, remark->text);
        text_put(to, "</p>\n");
    }
    text_put(to, "</section>\n");
}

ffn_status page_write(const cJSON *suite, const char *path, ffn_diag *remark, ffn_diag *diag) {
    ffn_diag unseen;
    if (!cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(suite, "rows")) || suite_number(suite, "suite", 0) != 1)
        return diag_fail(
            diag, FFN_BAD_FILE,
            "no results of a suite: \"suite\": 1 and an array \"rows\" are needed, as ffngen bench --suite "
            "writes them");
    text page = {0};
    text_put(&page, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>ffngen bench: ");
    page_escaped(&page, suite_text(suite, "machine"));
    text_print(&page, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<main>\n<h1>ffngen against its peers</h1>\n<p>",
               style);
    page_escaped(&page, suite_text(suite, "machine"));
    text_put(&page, ", ");
    page_escaped(&page, suite_text(suite, "date"));
    text_put(&page, "</p>\n");
    cut(&page, suite);
    page_summary(&page, suite);
    machine(&page, suite);
    measured(&page, suite);
    pictures(&page, suite, remark ? remark : &unseen);
    page_tables(&page, suite);
    text_put(&page, "</main>\n</body>\n</html>\n");
    ffn_bytes bytes;
    ffn_status status = text_take(&page, &bytes, diag);
    if (status)
        return status;
    status = text_file_write(path, bytes.data, bytes.bytes, diag);
    free(bytes.data);
    return status;
}
