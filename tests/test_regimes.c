/* test_regimes.c: `ffngen bench --regimes` says what is wanted and whether it is met; its usage */
#define _GNU_SOURCE
#include "ffn.h"
#include "support_command.h"
#include "support_json.h"

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(regimes, .timeout = 120);

/* Packed weights of whole panels are as large as those given, but for a header and biases that the spec has not. */
Test(regimes, say_what_is_wanted_and_whether_it_is_met) {
    char folder[] = "regimes_XXXXXX", path[64], text[4096] = "";
    cr_assert(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/regimes.md", folder);
    RUN("bench", "--regimes", "memory", "--json", "--output", path);
    support_expect_status(0);
    cJSON *all = json_lines_of(support_result.out);
    const cJSON *line;
    int packed = 0, scratch = 0;
    cJSON_ArrayForEach(line, all) {
        double value = json_number_of(line, "value"), wanted = json_number_of(line, "wanted");
        ffn_spec spec;
        cr_expect_str_eq(json_text_of(line, "regime"), "memory");
        cr_assert_eq(ffn_spec_parse(json_text_of(line, "spec"), &spec, NULL), FFN_OK);
        cr_expect_eq(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(line, "met")), value <= wanted);
        if (!strcmp(json_text_of(line, "figure"), "scratch_bytes")) {
            scratch++;
            continue;
        }
        double weights = 4.0 * (double)(spec.d_model * spec.d_ff) * (ffn_spec_gated(&spec) ? 3 : 2);
        packed++;
        cr_expect(value >= 1 && value * weights <= weights + 4 * (double)(spec.d_model + 2 * spec.d_ff) + 4096,
                  "%s: %g", json_text_of(line, "spec"), value);
    }
    cr_expect(packed > 15 && scratch == packed, "%d and %d lines", packed, scratch);
    cJSON_Delete(all);
    FILE *page = fopen(path, "r");
    cr_assert(page);
    cr_expect_gt(fread(text, 1, sizeof text - 1, page), 0);
    fclose(page);
    cr_expect(strstr(text, "| memory: every preset | at most 512 KiB of scratch |"), "%s", text);
    unlink(path);
    rmdir(folder);
}

Test(regimes, are_named_and_have_their_own_specs_and_files) {
    RUN("bench", "--regimes", "memory,prefil");
    support_expect_status(2);
    cr_expect(strstr(support_result.err, "'prefil'") && strstr(support_result.err, "prefill"), "%s",
              support_result.err);
    RUN("bench", "--regimes", "memory", "--output", "regimes.html");
    support_expect_status(2);
    RUN("bench", "--regimes", "memory", "d16-f16-relu");
    support_expect_status(2);
}
