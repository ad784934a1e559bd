/* test_command_tune.c: ffngen tune from its arguments to the tuned table, the
 * log and what it prints */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "ffngen.h"
#include "support_command.h"
#include "support_data.h"
#include "support_files.h"
#include "tune_log.h"
#include "tuned.h"

#define SPEC "d64-f128-relu-bias"

static void begin(void) {
    support_folder_make();
    setenv("XDG_CONFIG_HOME", support_path("config"), 1);
    setenv("XDG_CACHE_HOME", support_path("cache"), 1);
    setenv("XDG_STATE_HOME", support_path("state"), 1);
    setenv("TMPDIR", support_path("."), 1);
}

TestSuite(command_tune, .timeout = 120, .init = begin, .fini = support_folder_remove);

#define NEEDS_CODE()                        \
    if (ffn_isa_best() == FFN_ISA_PORTABLE) \
    cr_skip_test("no generated ISA here: there is nothing to tune")

static void expect_refused(const char *named) {
    support_expect_status(2);
    cr_expect(strstr(support_result.err, named), "wanted '%s': %s", named, support_result.err);
    cr_expect_str_empty(support_result.out);
}

Test(command_tune, bad_usage_is_named) {
    const char *list = support_path("list");
    RUN("tune");
    expect_refused("no SPEC is given");
    RUN("tune", "d64-f128-relux");
    expect_refused("relux");
    RUN("tune", SPEC, "--budget", "soon");
    expect_refused("--budget: 'soon' is no time");
    RUN("tune", SPEC, "--budget", "0s");
    expect_refused("--budget");
    RUN("tune", SPEC, "--budget", "3 parsecs");
    expect_refused("--budget");
    RUN("tune", SPEC, "--threads", "4096");
    expect_refused("--threads: at most 1024");
    RUN("tune", SPEC, "--n", "0");
    expect_refused("--n");
    RUN("tune", SPEC, "--isa", "mmx");
    expect_refused("--isa");
    RUN("tune", SPEC, "--n", "1", "--plot", "f.bmp");
    expect_refused("--plot: f.bmp");
    RUN("tune", SPEC, "--plot", "f.svg");
    expect_refused("--plot shows one spec");
    RUN("tune", "--from", list);
    expect_refused("--from");
    support_file_write(list, "# nothing\n\n", 11);
    RUN("tune", "--from", list);
    expect_refused("names no spec");
    const char bad[] = "bert-base # known\n\n  # a remark\nd64-f128-reluu\n";
    support_file_write(list, bad, strlen(bad));
    RUN("tune", "--from", list);
    expect_refused("list:4: 'd64-f128-reluu'");
    cr_expect_eq(support_folder_count(), 1, "something was made");
}

Test(command_tune, a_bad_log_or_table_ends_it_before_anything_is_measured) {
    const char *log = support_path("log");
    support_file_write(log, "{}\n", 3);
    RUN("tune", SPEC, "--log", log, "--resume");
    support_expect_status(1);
    cr_expect(strstr(support_result.err, "log:1: "), "%s", support_result.err);
    RUN("tune", SPEC, "--log", support_path("."));
    support_expect_status(1);
    const char *table = support_path("table");
    support_file_write(table, "no table\n", 9);
    RUN("tune", SPEC, "--n", "1", "--budget", "60", "--log", support_path("log2"), "--tuned", table);
    support_expect_status(1);
    cr_expect(strstr(support_result.err, "table"), "%s", support_result.err);
    support_file_expect(table, "no table\n", 9, "the bad table");
    cr_expect_neq(access(support_path("log2"), F_OK), 0, "a log was made");
}

static const tuned_record *record_at(const char *path, tuned **table, size_t i) {
    ffn_diag diag = {0};
    cr_assert_eq(tuned_load(path, table, &diag), FFN_OK, "%s", diag.text);
    return tuned_at(*table, i);
}

/* Digest of three rows by a kernel that looks into `table`; the plan it was given. */
static uint64_t bits_with(const char *table, ffn_plan_origin from, char plan[TUNE_PLAN_BYTES]) {
    enum { ROWS = 3, WIDTH = 64 };
    static float x[ROWS * WIDTH], y[ROWS * WIDTH];
    const ffn_spec spec = support_spec(SPEC);
    const ffn_options options = {.tuned = table, .store = "", .source = ffngen_source()};
    ffn_context *context;
    ffn_kernel *kernel;
    ffn_kernel_info info;
    ffn_diag diag = {0};
    cr_assert_eq(ffn_context_create(&options, &context, &diag), FFN_OK, "%s", diag.text);
    cr_assert_eq(ffn_kernel_create(context, &spec, &kernel, &diag), FFN_OK, "%s", diag.text);
    cr_assert_eq(ffn_kernel_prepare(kernel, ROWS, &diag), FFN_OK, "%s", diag.text);
    ffn_kernel_inspect(kernel, ROWS, &info);
    cr_expect_eq(info.plan_from, from, "plan from %d", (int)info.plan_from);
    ffn_plan_format(&info.plan, plan, TUNE_PLAN_BYTES, NULL);
    support_weights *weights = support_random_weights(&spec, SUPPORT_NORMAL, 3);
    void *packed = support_packed(&spec, &weights->weights);
    size_t scratch_bytes = ffn_kernel_scratch_bytes(kernel);
    void *scratch = support_aligned(scratch_bytes);
    support_fill_normal(x, ROWS * WIDTH, 1, 4);
    const ffn_args args = {ROWS, x, WIDTH, y, WIDTH, packed, scratch, scratch_bytes};
    cr_assert_eq(ffn_kernel_run(kernel, &args, &diag), FFN_OK, "%s", diag.text);
    free(scratch);
    free(packed);
    support_weights_free(weights);
    ffn_kernel_destroy(kernel);
    ffn_context_destroy(context);
    return ffn_digest(y, ROWS, WIDTH, WIDTH);
}

Test(command_tune, the_winner_is_printed_logged_and_in_the_table) {
    NEEDS_CODE();
    char table_path[256], log_path[256];
    snprintf(table_path, sizeof table_path, "%s", support_path("config/ffngen/tuned"));
    snprintf(log_path, sizeof log_path, "%s", support_path("state/ffngen/tune.jsonl"));
    RUN("tune", SPEC, "--n", "3", "--budget", "2s", "--json");
    support_expect_status(0);
    cJSON *line = cJSON_Parse(support_result.out);
    cr_assert_not_null(line, "%s", support_result.out);
    static const char *const numbers[] = {"n",    "threads", "ms_min", "ms_median", "spread",   "gflops",  "ratio",
                                          "busy", "gain",    "tried",  "failed",    "model_ms", "recalled"};
    static const char *const texts[] = {"spec", "isa",     "n_class", "plan", "reference",
                                        "grid", "machine", "llvm",    "date"};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        cr_expect(cJSON_IsNumber(cJSON_GetObjectItemCaseSensitive(line, numbers[i])), "%s", numbers[i]);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        cr_expect(cJSON_IsString(cJSON_GetObjectItemCaseSensitive(line, texts[i])), "%s", texts[i]);
    cr_expect(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(line, "verified")));
    cr_expect(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(line, "cold")));

    tuned *table;
    const tuned_record *record = record_at(table_path, &table, 0);
    const ffn_spec spec = support_spec(SPEC);
    char plan[TUNE_PLAN_BYTES] = "";
    cr_assert_not_null(record);
    cr_expect_null(tuned_at(table, 1));
    ffn_plan_format(&record->plan, plan, sizeof plan, NULL);
    cr_expect_str_eq(plan, cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(line, "plan")));
    cr_expect(ffn_spec_equal(&record->spec, &spec));
    cr_expect_eq(record->threads, 1);
    cr_expect_eq(record->plan.n_class, FFN_N_2_4);
    cr_expect_str_eq(record->machine, ffn_machine_name());
    tuned_free(table);
    cJSON_Delete(line);

    tune_log *log;
    ffn_diag diag = {0};
    bool torn;
    int winners = 0;
    cr_assert_eq(tune_log_open(log_path, true, &log, &torn, &diag), FFN_OK, "%s", diag.text);
    for (size_t i = 0; tune_log_at(log, i); i++)
        winners += tune_log_at(log, i)->winner;
    cr_expect_eq(winners, 1);
    tune_log_close(log);

    /* A second run adds; nothing of the first is lost. */
    RUN("tune", SPEC, "--n", "20", "--threads", "1,2", "--budget", "4s", "--warm");
    support_expect_status(0);
    cr_expect(strstr(support_result.out, SPEC) && strstr(support_result.out, "gain"), "%s", support_result.out);
    cr_expect_null(strchr(support_result.err, '\r'), "progress although standard error is no terminal");
    record_at(table_path, &table, 0);
    for (size_t i = 0; i < 3; i++)
        cr_expect_not_null(tuned_at(table, i), "%zu records", i);
    cr_expect_null(tuned_at(table, 3));
    tuned_free(table);

    char served[TUNE_PLAN_BYTES], model[TUNE_PLAN_BYTES];
    cr_expect_eq(bits_with(table_path, FFN_PLAN_TUNED, served), bits_with("", FFN_PLAN_MODEL, model));
    cr_expect_str_eq(served, plan);
}

Test(command_tune, a_faster_record_stays_and_that_is_said) {
    NEEDS_CODE();
    const char *table_path = support_path("table");
    RUN("tune", SPEC, "--n", "20", "--budget", "2s", "--tuned", table_path, "--log", support_path("log"));
    support_expect_status(0);
    tuned *table, *changed;
    tuned_record record = *record_at(table_path, &table, 0);
    tuned_free(table);
    ffn_plan other = record.plan;
    other.m_block = other.m_block == 7 ? 8 : 7;
    record.plan = other;
    record.ms = 0.000001;
    ffn_diag diag = {0};
    cr_assert_eq(tuned_create(&changed, &diag), FFN_OK);
    cr_assert_eq(tuned_add(changed, &record, &diag), FFN_OK, "%s", diag.text);
    cr_assert_eq(tuned_save(changed, table_path, &diag), FFN_OK, "%s", diag.text);
    tuned_free(changed);
    RUN("tune", SPEC, "--n", "20", "--budget", "2s", "--tuned", table_path, "--log", support_path("log"));
    support_expect_status(0);
    cr_expect(strstr(support_result.err, "the table has a faster plan"), "%s", support_result.err);
    cr_expect_eq(record_at(table_path, &table, 0)->plan.m_block, other.m_block);
    tuned_free(table);
}

Test(command_tune, specs_come_from_a_file_and_the_table_may_be_off) {
    NEEDS_CODE();
    const char *list = support_path("list");
    const char text[] = "# two shapes\nd32-f64-relu\n\n d48-f64-swiglu # gated";
    support_file_write(list, text, strlen(text));
    RUN("tune", "--from", list, "--n", "1", "--budget", "2s", "--tuned", "off", "--log", support_path("log"), "--json");
    support_expect_status(0);
    cr_expect(strstr(support_result.out, "d32-f64-relu") && strstr(support_result.out, "d48-f64-swiglu"), "%s",
              support_result.out);
    cr_expect_neq(access(support_path("config"), F_OK), 0, "a table was made");
}

/* The log must not be opened where standard output was, and be written over by the table. */
Test(command_tune, a_closed_output_is_told_and_the_log_is_whole) {
    NEEDS_CODE();
    char line[4096], first[64] = "";
    const char *log = support_path("closed.jsonl");
    snprintf(line, sizeof line, "exec %s tune " SPEC " --n 1 --budget 1s --tuned off --log %s >&-", FFN_COMMAND, log);
    support_run("/bin/sh", -1, (const char *const[]){"-c", line, NULL});
    support_expect_status(1);
    cr_expect(strstr(support_result.err, "standard output"), "%s", support_result.err);
    FILE *file = fopen(log, "r");
    cr_assert_not_null(file);
    cr_expect_not_null(fgets(first, sizeof first, file));
    cr_expect_eq(first[0], '{', "%s", first);
    fclose(file);
}
