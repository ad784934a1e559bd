/* page_summary.c: rows -> geometric mean and least ratio against each peer, and every row where a peer was faster */
#include "page_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Median time of the peer, of the fastest one if it is NULL; 0: none. */
static double peer_ms(const cJSON *row, const char *peer, const char **which) {
    const cJSON *times = suite_group(row, "vs"), *time;
    double best = 0;
    cJSON_ArrayForEach(time, times) {
        if (!cJSON_IsNumber(time) || !(time->valuedouble > 0) || (peer && strcmp(peer, time->string)))
            continue;
        if (best == 0 || time->valuedouble < best) {
            best = time->valuedouble;
            *which = time->string;
        }
    }
    return best;
}

/* Over the time of ours; `fast`: where the peer has an activation of its own, of ours with the cheaper one. */
static double ratio_to(const cJSON *row, const char *peer, bool fast) {
    double own = suite_number(row, "ms_median", 0), least = 0;
    const cJSON *time;
    cJSON_ArrayForEach(time, suite_group(row, "vs")) {
        if (!cJSON_IsNumber(time) || !(time->valuedouble > 0) || !(own > 0) || (peer && strcmp(peer, time->string)))
            continue;
        double ratio = fast ? suite_number(suite_group(row, "vs_fast"), time->string, 0) : 0;
        ratio = ratio > 0 ? ratio : time->valuedouble / own;
        least = least > 0 ? fmin(least, ratio) : ratio;
    }
    return least;
}

page_ratio page_ratio_of(const cJSON *rows, const char *peer, int n, int threads, bool fast) {
    page_ratio of = {.least = INFINITY};
    double logs = 0;
    const cJSON *row;
    cJSON_ArrayForEach(row, rows) {
        double ratio = ratio_to(row, peer, fast);
        if ((n && suite_number(row, "n", 0) != n) || (threads && suite_number(row, "threads", 0) != threads) ||
            !(ratio > 0))
            continue;
        of.rows++;
        of.slower += ratio < 1;
        of.least = fmin(of.least, ratio);
        logs += log(ratio);
    }
    of.mean = of.rows ? exp(logs / of.rows) : 0;
    of.least = of.rows ? of.least : 0;
    return of;
}

int page_peers(const cJSON *rows, const char *names[PAGE_PEERS_MAX]) {
    int count = 0;
    const cJSON *row, *time;
    cJSON_ArrayForEach(row, rows) {
        cJSON_ArrayForEach(time, suite_group(row, "vs")) {
            int at = 0;
            while (at < count && strcmp(names[at], time->string))
                at++;
            if (at == count && count < PAGE_PEERS_MAX)
                names[count++] = time->string;
        }
    }
    return count;
}

int page_values(const cJSON *rows, const char *key, int values[PAGE_VALUES_MAX]) {
    int count = 0;
    const cJSON *row;
    cJSON_ArrayForEach(row, rows) {
        double given = suite_number(row, key, 0);
        if (!(given >= 1 && given < 1e9))
            continue;
        int value = (int)given, at = 0;
        while (at < count && values[at] < value)
            at++;
        if ((at < count && values[at] == value) || count == PAGE_VALUES_MAX)
            continue;
        memmove(values + at + 1, values + at, (size_t)(count - at) * sizeof *values);
        values[at] = value;
        count++;
    }
    return count;
}

static void line(text *to, const cJSON *rows, const char *head, int n, int threads, const char *const *peers, int count,
                 bool fast) {
    text_print(to, "<tr><th scope=\"row\">%s</th>", head);
    if (n)
        text_print(to, "<td>%d</td>", n);
    else
        text_put(to, "<td>all</td>");
    for (int i = 0; i <= count; i++) {
        page_ratio of = page_ratio_of(rows, i < count ? peers[i] : NULL, n, threads, fast);
        page_ratio_cell(to, of.mean);
        page_ratio_cell(to, of.least);
    }
    text_put(to, "</tr>\n");
}

static void slower(text *to, const cJSON *rows) {
    page_ratio all = page_ratio_of(rows, NULL, 0, 0, false);
    if (!all.slower) {
        text_print(to, "<p>No peer was faster in any of the %d rows.</p>\n", all.rows);
        return;
    }
    text_print(to,
               "<h3>Where ffngen is slower</h3>\n<p>In %d of %d rows the fastest peer was faster than ffngen:</p>\n"
               "<div class=\"wide\"><table>\n<thead><tr><th scope=\"col\">spec</th><th scope=\"col\">n</th>"
               "<th scope=\"col\">threads</th><th scope=\"col\">fastest peer</th><th scope=\"col\">its time / "
               "ours</th></tr></thead>\n<tbody>\n",
               all.slower, all.rows);
    const cJSON *row;
    cJSON_ArrayForEach(row, rows) {
        const char *which = "";
        double own = suite_number(row, "ms_median", 0), theirs = peer_ms(row, NULL, &which);
        if (!(theirs > 0) || !(own > theirs))
            continue;
        text_put(to, "<tr><th scope=\"row\">");
        page_escaped(to, suite_text(row, "spec"));
        text_print(to, "</th><td>%.0f</td><td>%.0f</td><td>", suite_number(row, "n", 0),
                   suite_number(row, "threads", 0));
        page_escaped(to, suite_peer_title(which));
        text_put(to, "</td>");
        page_ratio_cell(to, theirs / own);
        text_put(to, "</tr>\n");
    }
    text_put(to, "</tbody></table></div>\n");
}

static bool any_fast(const cJSON *rows) {
    const cJSON *row;
    cJSON_ArrayForEach(row, rows) {
        if (suite_group(row, "vs_fast"))
            return true;
    }
    return false;
}

void page_summary(text *to, const cJSON *suite) {
    const cJSON *rows = cJSON_GetObjectItemCaseSensitive(suite, "rows");
    const char *peers[PAGE_PEERS_MAX];
    int n[PAGE_VALUES_MAX], threads[PAGE_VALUES_MAX], count = page_peers(rows, peers);
    const int n_count = page_values(rows, "n", n), threads_count = page_values(rows, "threads", threads);
    text_put(to, "<section id=\"summary\"><h2>Summary</h2>\n");
    if (count == 0) {
        text_put(to, "<p>No peer was measured: there is nothing to compare ffngen with.</p></section>\n");
        return;
    }
    text_put(to,
             "<p>Median time of the peer over that of ffngen, in the same rounds: above 1 ffngen is faster. Below 1 "
             "it is slower, which is marked with ▼.</p>\n<div class=\"wide\"><table>\n<thead><tr><th rowspan=\"2\" "
             "scope=\"col\">threads</th><th rowspan=\"2\" scope=\"col\">n</th>");
    for (int i = 0; i <= count; i++) {
        text_put(to, "<th colspan=\"2\" scope=\"colgroup\">");
        page_escaped(to, i < count ? suite_peer_title(peers[i]) : "the fastest of them");
        text_put(to, "</th>");
    }
    text_put(to, "</tr>\n<tr>");
    for (int i = 0; i <= count; i++)
        text_put(to, "<th scope=\"col\">mean</th><th scope=\"col\">least</th>");
    text_put(to, "</tr></thead>\n<tbody>\n");
    line(to, rows, "all", 0, 0, peers, count, false);
    if (any_fast(rows))
        line(to, rows, "all, fast (1)", 0, 0, peers, count, true);
    for (int t = 0; t < threads_count; t++) {
        char head[16];
        snprintf(head, sizeof head, "%d", threads[t]);
        line(to, rows, head, 0, threads[t], peers, count, false);
        for (int i = 0; i < n_count; i++)
            line(to, rows, head, n[i], threads[t], peers, count, false);
    }
    text_put(to, "</tbody></table></div>\n<p class=\"small\">mean: geometric mean of the ratios; least: the smallest "
                 "one.</p>\n");
    if (any_fast(rows))
        text_put(to,
                 "<p class=\"small\">(1) with fast where the peer approximates: rows where its activation is its own "
                 "and not the lent one count against ffngen with the cheaper activation, timed in the same "
                 "rounds.</p>\n");
    slower(to, rows);
    text_put(to, "</section>\n");
}
