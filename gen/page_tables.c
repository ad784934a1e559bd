/* page_tables.c: rows -> a table for each spec, and the plans that were run */
#include "page_parts.h"

#include <string.h>

static double percent(const cJSON *row, const char *key) {
    return suite_number(row, key, 0) * 100;
}

static void heads(text *to, const char *const *peers, int count) {
    static const char *const own[] = {"n",      "threads", "ms min", "ms median", "GFLOP/s",
                                      "% peak", "% read",  "% roof", "max error"};
    text_put(to, "<thead><tr>");
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        text_print(to, "<th scope=\"col\">%s</th>", own[i]);
    for (int i = 0; i < count; i++) {
        text_put(to, "<th scope=\"col\">vs ");
        page_escaped(to, suite_peer_title(peers[i]));
        text_put(to, "</th>");
    }
    text_put(to, "</tr></thead>\n");
}

static void error_cell(text *to, double error) {
    int exponent = 0;
    if (!(error > 0)) {
        text_put(to, "<td>0</td>");
        return;
    }
    for (; error < 0.95 && exponent > -30; exponent--)
        error *= 10;
    text_print(to, "<td>%.0fe%d</td>", error, exponent);
}

static void line(text *to, const cJSON *row, const char *const *peers, int count) {
    text_print(to, "<tr><th scope=\"row\">%.0f</th><td>%.0f</td>", suite_number(row, "n", 0),
               suite_number(row, "threads", 0));
    page_cell(to, suite_number(row, "ms_min", 0), 4);
    page_cell(to, suite_number(row, "ms_median", 0), 4);
    page_cell(to, suite_number(row, "gflops", 0), 1);
    page_cell(to, percent(row, "fraction_of_peak"), 1);
    page_cell(to, percent(row, "fraction_of_read"), 1);
    page_cell(to, percent(row, "fraction_of_roof"), 1);
    error_cell(to, suite_number(row, "max_error", 0));
    const cJSON *vs = suite_group(row, "vs");
    for (int i = 0; i < count; i++) {
        double own = suite_number(row, "ms_median", 0), theirs = suite_number(vs, peers[i], 0);
        if (own > 0 && theirs > 0)
            page_ratio_cell(to, theirs / own);
        else
            text_put(to, "<td>missing</td>");
    }
    text_put(to, "</tr>\n");
}

static void plans(text *to, const cJSON *rows, const char *spec) {
    text_put(to, "<details><summary>Plans</summary><dl>\n");
    const cJSON *row;
    cJSON_ArrayForEach(row, rows) {
        if (strcmp(suite_text(row, "spec"), spec))
            continue;
        text_print(to, "<dt>n = %.0f, threads: %.0f</dt><dd><code>", suite_number(row, "n", 0),
                   suite_number(row, "threads", 0));
        page_escaped(to, suite_text(row, "plan"));
        text_put(to, "</code> (");
        page_escaped(to, suite_text(row, "plan_from"));
        text_put(to, ")</dd>\n");
    }
    text_put(to, "</dl></details>\n");
}

static void names_of(text *to, const cJSON *suite, const char *spec) {
    const cJSON *preset, *name;
    cJSON_ArrayForEach(preset, cJSON_GetObjectItemCaseSensitive(suite, "presets")) {
        if (strcmp(suite_text(preset, "spec"), spec))
            continue;
        const char *comma = "<p>";
        cJSON_ArrayForEach(name, cJSON_GetObjectItemCaseSensitive(preset, "names")) {
            text_put(to, comma);
            page_escaped(to, cJSON_IsString(name) ? name->valuestring : "");
            comma = ", ";
        }
        text_put(to, "</p>\n");
    }
}

void page_tables(text *to, const cJSON *suite) {
    const cJSON *rows = cJSON_GetObjectItemCaseSensitive(suite, "rows"), *row, *before;
    const char *peers[PAGE_PEERS_MAX];
    const int count = page_peers(rows, peers);
    text_put(to, "<section id=\"specs\"><h2>Every spec</h2>\n");
    cJSON_ArrayForEach(row, rows) {
        const char *spec = suite_text(row, "spec");
        for (before = rows->child; before != row && strcmp(suite_text(before, "spec"), spec);)
            before = before->next;
        if (before != row)
            continue;
        text_put(to, "<h3>");
        page_escaped(to, spec);
        text_put(to, "</h3>\n");
        names_of(to, suite, spec);
        text_put(to, "<div class=\"wide\"><table>\n");
        heads(to, peers, count);
        text_put(to, "<tbody>\n");
        for (const cJSON *other = row; other; other = other->next) {
            if (!strcmp(suite_text(other, "spec"), spec))
                line(to, other, peers, count);
        }
        text_put(to, "</tbody></table></div>\n");
        plans(to, rows, spec);
    }
    text_put(to, "</section>\n");
}
