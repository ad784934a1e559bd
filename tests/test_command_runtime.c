/* test_command_runtime.c: what the command tells of the runtime: counters, who serves, the CPU; and what --tools does
 */
#define _GNU_SOURCE
#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ffn.h"
#include "support_command.h"

/* An empty store, so that the first run compiles. */
static char home[] = "/tmp/ffn-test-runtime-XXXXXX";

static void set_up(void) {
    cr_assert_not_null(mkdtemp(home));
    setenv("XDG_CACHE_HOME", home, 1);
}

static void tear_down(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", home);
    cr_assert_eq(system(command), 0);
}

TestSuite(command_runtime, .init = set_up, .fini = tear_down, .timeout = 300);

static const char *const keys[] = {"compiled", "loaded", "hit", "evicted", "fell_back", "failed"};
enum { COMPILED, LOADED, HIT, EVICTED, FELL_BACK, FAILED, KEYS };

/* The counters of the first line of the last run. */
static void read_counters(double counters[KEYS]) {
    cJSON *line = cJSON_Parse(support_result.out);
    cr_assert_not_null(line, "%s", support_result.out);
    const cJSON *object = cJSON_GetObjectItem(line, "counters");
    cr_assert_eq(cJSON_GetArraySize(object), KEYS);
    for (int k = 0; k < KEYS; k++) {
        const cJSON *number = cJSON_GetObjectItem(object, keys[k]);
        cr_assert(cJSON_IsNumber(number), "%s in %s", keys[k], support_result.out);
        counters[k] = number->valuedouble;
    }
    cJSON_Delete(line);
}

static void expect_counters(int compiled, int loaded, int fell_back) {
    double counters[KEYS];
    const double expected[KEYS] = {[COMPILED] = compiled, [LOADED] = loaded, [FELL_BACK] = fell_back};
    read_counters(counters);
    for (int k = 0; k < KEYS; k++)
        cr_assert_eq(counters[k], expected[k], "%s in %s", keys[k], support_result.out);
}

Test(command_runtime, counters_tell_how_the_kernel_came) {
    if (ffn_isa_best() == FFN_ISA_PORTABLE)
        cr_skip_test("no ISA that code is generated for");
    RUN("run", "d24-f40-relu", "--json");
    support_expect_status(0);
    expect_counters(1, 0, 0);
    RUN("run", "d24-f40-relu", "--json");
    support_expect_status(0);
    expect_counters(0, 1, 0);
    RUN("verify", "d24-f40-relu", "--isa", ffn_isa_name(ffn_isa_best()), "--n", "1", "--json");
    support_expect_status(0);
    double counters[KEYS];
    read_counters(counters);
    cr_assert_eq(counters[COMPILED] + counters[LOADED], 1);
    RUN("bench", "d24-f40-relu", "--n", "1", "--seconds", "0.01", "--vs", "none", "--json");
    support_expect_status(0);
    read_counters(counters);
    cr_assert_eq(counters[COMPILED] + counters[LOADED], 1);
}

Test(command_runtime, counters_tell_that_the_portable_kernel_served) {
    RUN("run", "d24-f40-relu", "--isa", "portable", "--json");
    support_expect_status(0);
    expect_counters(0, 0, 1);
    RUN("run", "d24-f40-relu", "--isa", "portable");
    support_expect_status(0);
    cr_assert_not_null(
        strstr(support_result.out, "\nkernel: d24-f40-relu portable, no generated code; counters: 1 fell back\n"), "%s",
        support_result.out);
}

Test(command_runtime, run_says_who_served_in_one_line) {
    if (ffn_isa_best() == FFN_ISA_PORTABLE)
        cr_skip_test("no ISA that code is generated for");
    char start[64];
    snprintf(start, sizeof start, "\nkernel: d24-f40-relu %s 1 m", ffn_isa_name(ffn_isa_best()));
    RUN("run", "d24-f40-relu");
    support_expect_status(0);
    cr_assert_not_null(strstr(support_result.out, start), "%s", support_result.out);
    cr_assert_not_null(strstr(support_result.out, " compiled verified, planned by the model; counters: 1 compiled\n"),
                       "%s", support_result.out);
}

Test(command_runtime, list_isas_ends_in_the_cpu_report) {
    char report[FFN_DESCRIBE_BYTES];
    cr_assert_eq(ffn_cpu_describe(NULL, 1, report, sizeof report, NULL), FFN_OK);
    RUN("list", "isas");
    support_expect_status(0);
    size_t length = strlen(support_result.out);
    cr_assert_gt(length, strlen(report));
    cr_assert_str_eq(support_result.out + length - strlen(report), report);
    RUN("list", "presets");
    cr_assert_null(strstr(support_result.out, "CPU has"));
}

Test(command_runtime, tools_that_are_none_are_bad_usage) {
    static const char *const bad[][2] = {
        {"pref", "did you mean perf"}, {"perf,", "''"}, {"gdb,lldb", "lldb"}, {"gd", "gdb"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        RUN("run", "d24-f40-relu", "--tools", bad[i][0]);
        support_expect_status(2);
        cr_assert_not_null(strstr(support_result.err, "--tools"), "%s", support_result.err);
        cr_assert_not_null(strstr(support_result.err, bad[i][1]), "%s", support_result.err);
        RUN("bench", "d24-f40-relu", "--tools", bad[i][0]);
        support_expect_status(2);
    }
}

/* Perf maps that name this suite's own shape, removed. */
static int count_maps(const char *shape) {
    glob_t found;
    int count = 0;
    if (glob("/tmp/perf-*.map", 0, NULL, &found) != 0)
        return 0;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char text[4096];
        int file = open(found.gl_pathv[i], O_RDONLY | O_NONBLOCK); /* anything may stand there */
        ssize_t length = file >= 0 ? read(file, text, sizeof text - 1) : -1;
        if (file >= 0)
            close(file);
        if (length < 0)
            continue;
        text[length] = '\0';
        if (strstr(text, shape)) {
            unlink(found.gl_pathv[i]);
            count++;
        }
    }
    globfree(&found);
    return count;
}

Test(command_runtime, tools_are_told_by_run_and_bench_alone_if_asked) {
    if (ffn_isa_best() == FFN_ISA_PORTABLE)
        cr_skip_test("no ISA that code is generated for");
    static const char shape[] = "ffn_d23_f41_relu2_";
    count_maps(shape);
    RUN("run", "d23-f41-relu2");
    RUN("run", "d23-f41-relu2", "--tools", "gdb");
    support_expect_status(0);
    cr_assert_eq(count_maps(shape), 0);
    RUN("run", "d23-f41-relu2", "--tools", "perf,gdb");
    support_expect_status(0);
    cr_assert_eq(count_maps(shape), 1);
    RUN("bench", "d23-f41-relu2", "--n", "1", "--seconds", "0.01", "--vs", "none", "--tools", "perf");
    support_expect_status(0);
    cr_assert_eq(count_maps(shape), 1);
}
