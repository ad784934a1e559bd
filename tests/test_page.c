/* test_page.c: the page of a suite: figures worked out by hand, names of any kind, what is missing */
#define _GNU_SOURCE
#include "page.h"
#include "support_files.h"

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Against a: 2/1, 8/1, 1/2 -> geometric mean 2 (the cube root of 8), least 0.5. Against b: 4/1 alone. The fastest of
 * them: 2, 8, 0.5. */
static const char three_rows[] =
    "{\"suite\":1,\"complete\":true,\"date\":\"2026-11-30\",\"machine\":\"M <b>&\\\"\",\"isa\":\"avx2\",\"seconds\":9,"
    "\"caches\":{\"l1_bytes\":32768},\"versions\":{\"ffngen\":\"1\",\"llvm\":\"19\",\"kernel\":\"Linux <6>\"},"
    "\"peers\":[{\"name\":\"a\",\"title\":\"A & co\",\"version\":\"A 1.0\"},"
    "{\"name\":\"c\",\"title\":\"C\",\"missing\":\"no <module> here\"}],"
    "\"left_out\":[{\"spec\":\"d9-f9-relu\",\"n\":512,\"threads\":2}],\"rows\":["
    "{\"spec\":\"d1-f1-relu\",\"n\":1,\"threads\":1,\"plan\":\"tiles=<i>\",\"plan_from\":\"model\",\"ms_min\":0.9,\"ms_"
    "median\":1,"
    "\"gflops\":12.34,\"fraction_of_peak\":0.5,\"weight_gbs\":24,\"vs\":{\"a\":2,\"b\":4},\"vs_min\":{\"a\":2,\"b\":4}}"
    ","
    "{\"spec\":\"d1-f1-relu\",\"n\":4,\"threads\":1,\"ms_min\":0.9,\"ms_median\":1,\"gflops\":12,\"weight_gbs\":6,"
    "\"vs\":{\"a\":8}},"
    "{\"spec\":\"<script>alert('x')</script>\",\"n\":1,\"threads\":2,\"ms_min\":1,\"ms_median\":2,\"gflops\":3,"
    "\"weight_gbs\":6,\"vs\":{\"a\":1}}]}";

static char *page_of(const char *json, ffn_status want, ffn_diag *remark) {
    ffn_diag diag = {0};
    cJSON *suite = cJSON_Parse(json);
    cr_assert_not_null(suite);
    cr_assert_eq(page_write(suite, support_path("page.html"), remark, &diag), want, "%s", diag.text);
    cJSON_Delete(suite);
    if (want)
        return NULL;
    size_t bytes;
    char *data = support_file_read(support_path("page.html"), &bytes), *page = malloc(bytes + 1);
    memcpy(page, data, bytes);
    page[bytes] = 0;
    free(data);
    return page;
}

static void expect_in(const char *page, const char *part) {
    cr_expect_not_null(strstr(page, part), "'%s' is not in the page", part);
}

TestSuite(page, .init = support_folder_make, .fini = support_folder_remove);

Test(page, geometric_means_are_those_worked_out_by_hand) {
    cJSON *suite = cJSON_Parse(three_rows);
    const cJSON *rows = cJSON_GetObjectItem(suite, "rows");
    const struct {
        const char *peer;
        int n, threads, rows, slower;
        double mean, least;
    } table[] = {{"a", 0, 0, 3, 1, 2, 0.5}, {"b", 0, 0, 1, 0, 4, 4}, {NULL, 0, 0, 3, 1, 2, 0.5},
                 {"a", 1, 0, 2, 1, 1, 0.5}, {"a", 0, 1, 2, 0, 4, 2}, {"b", 0, 2, 0, 0, 0, 0}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        page_ratio of = page_ratio_of(rows, table[i].peer, table[i].n, table[i].threads, false);
        cr_expect_eq(of.rows, table[i].rows, "line %zu", i);
        cr_expect_eq(of.slower, table[i].slower, "line %zu", i);
        cr_expect_float_eq(of.mean, table[i].mean, 1e-12, "line %zu", i);
        cr_expect_float_eq(of.least, table[i].least, 1e-12, "line %zu", i);
    }
    cJSON_Delete(suite);
}

Test(page, a_fast_kernel_counts_where_a_peer_has_an_activation_of_its_own) {
    cJSON *rows = cJSON_Parse("[{\"n\":1,\"ms_median\":2,\"vs\":{\"a\":4,\"b\":8},\"vs_fast\":{\"b\":16}},"
                              "{\"n\":1,\"ms_median\":2,\"vs\":{\"a\":16,\"b\":2}}]");
    page_ratio a = page_ratio_of(rows, "a", 0, 0, true), b = page_ratio_of(rows, "b", 0, 0, true);
    cr_expect_float_eq(a.mean, 4, 1e-12);
    cr_expect_float_eq(b.mean, 4, 1e-12);
    cr_expect_float_eq(b.least, 1, 1e-12);
    cr_expect_float_eq(page_ratio_of(rows, "b", 0, 0, false).mean, 2, 1e-12);
    cr_expect_float_eq(page_ratio_of(rows, NULL, 0, 0, true).mean, sqrt(2), 1e-12);
    cJSON_Delete(rows);
}

Test(page, every_name_is_escaped_and_slower_rows_are_marked) {
    ffn_diag remark;
    char *page = page_of(three_rows, FFN_OK, &remark);
    cr_expect_null(strstr(page, "<script"));
    cr_expect_null(strstr(page, "M <b>"));
    cr_expect_null(strstr(page, "<module>"));
    cr_expect_null(strstr(page, "<6>"));
    cr_expect_null(strstr(page, "tiles=<i>"));
    const char *const parts[] = {"&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;",
                                 "M &lt;b&gt;&amp;&quot;",
                                 "A &amp; co",
                                 "<strong>missing</strong>: no &lt;module&gt; here",
                                 "▼ 0.50×",
                                 "<td>12.3</td>",
                                 "<td>50.0</td>",
                                 "In 1 of 3 rows",
                                 "1 rows were left out, for there was no time for them",
                                 "d9-f9-relu, 2 threads: n = 512",
                                 "L1 32 KiB",
                                 "2026-11-30"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        expect_in(page, parts[i]);
    cr_expect_null(strstr(page, "Incomplete:"));
    free(page);
}

Test(page, pictures_stand_in_it_or_the_reason_why_not) {
    ffn_diag remark;
    char *page = page_of(three_rows, FFN_OK, &remark);
    if (remark.status == FFN_UNSUPPORTED)
        printf("skipped: gnuplot is not installed\n");
    else
        expect_in(page, "<figure aria-label=\"ffngen and its peers, 2 threads\"><svg");
    free(page);
    setenv("PATH", "/nowhere", 1);
    page = page_of(three_rows, FFN_OK, &remark);
    cr_expect_eq(remark.status, FFN_UNSUPPORTED);
    cr_expect_null(strstr(page, "<svg"));
    expect_in(page, "There are no pictures: gnuplot");
    free(page);
}

Test(page, rows_without_peers_and_no_rows_at_all) {
    ffn_diag remark;
    char *page = page_of("{\"suite\":1,\"complete\":false,\"rows\":[{\"spec\":\"d1-f1-relu\",\"n\":1,\"threads\":1,"
                         "\"ms_min\":1,\"ms_median\":1,\"gflops\":3,\"weight_gbs\":6,\"vs\":{}}]}",
                         FFN_OK, &remark);
    expect_in(page, "No peer was measured");
    expect_in(page, "Incomplete:");
    free(page);
    page = page_of("{\"suite\":1,\"rows\":[]}", FFN_OK, &remark);
    expect_in(page, "0 rows were measured");
    free(page);
}

Test(page, another_json_is_refused_and_the_old_page_stays) {
    ffn_diag remark;
    support_file_write(support_path("page.html"), "old", 3);
    for (const char *const *json =
             (const char *const[]){"{}", "[]", "3", "{\"suite\":2,\"rows\":[]}", "{\"suite\":1,\"rows\":{}}", NULL};
         *json; json++)
        page_of(*json, FFN_BAD_FILE, &remark);
    support_file_expect(support_path("page.html"), "old", 3, "the page");
    free(page_of("{\"suite\":1,\"rows\":[3,null,\"x\",{\"spec\":4,\"n\":\"5\",\"vs\":[1],\"vs_min\":7},[]]}", FFN_OK,
                 &remark));
}

/* Figures that no machine has, but a file may: nothing is written where it does not belong. */
Test(page, figures_beyond_all_machines_are_survived) {
    static const char *const figures[][2] = {{"40", "1e70"}, {"1e-80", "1"}, {"1e300", "1e-300"}, {"1e-300", "1e300"}};
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        char json[512];
        snprintf(json, sizeof json,
                 "{\"suite\":1,\"rows\":[{\"spec\":\"d1-f1-relu\",\"n\":1,\"threads\":1,\"gflops\":%s,\"ms_min\":1,"
                 "\"ms_median\":1,\"weight_gbs\":%s}]}",
                 figures[i][0], figures[i][1]);
        ffn_diag remark = {0};
        free(page_of(json, FFN_OK, &remark));
    }
}
