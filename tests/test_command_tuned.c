/* test_command_tuned.c: ffngen tuned and explain: what a table holds is shown, added to and handed on, and never lost;
 * no table changes a result */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support_command.h"
#include "support_data.h"
#include "support_files.h"
#include "support_image.h"
#include "tuned.h"

static char own[1024]; /* the user's table */

static void begin(void) {
    support_folder_make();
    setenv("XDG_CONFIG_HOME", support_path("config"), 1);
    setenv("XDG_CACHE_HOME", support_path("cache"), 1);
    snprintf(own, sizeof own, "%s", support_path("config/ffngen/tuned"));
}

TestSuite(command_tuned, .init = begin, .fini = support_folder_remove, .timeout = 120);

#define PLAN "avx2 17+ m96 f384 k768 u4 p1 6x1 5x1 4x1 1x1"
#define RECORD(spec, threads, ms, machine)                                                                            \
    "spec=" spec " plan=\"" PLAN "\" threads=" threads " ms=" ms " spread=0.012 machine=\"" machine "\" llvm=19.1.7 " \
    "generator=0.1.0\n"
#define HEAD TUNED_MAGIC "\n"

static void write_text(const char *path, const char *text) {
    support_file_write(path, text, strlen(text));
}

static void expect_text(const char *path, const char *text) {
    support_file_expect(path, text, strlen(text), path);
}

static void expect_word(const char *text, const char *word) {
    cr_expect_not_null(strstr(text, word), "\"%s\" is not in:\n%s", word, text);
}

Test(command_tuned, merge_adds_to_the_users_table_and_counts) {
    RUN("tuned", "path");
    support_expect_status(0);
    cr_expect_eq(strncmp(support_result.out, own, strlen(own)), 0, "%s", support_result.out);
    RUN("tuned", "show");
    support_expect_status(0);
    expect_word(support_result.out, "not there yet");
    write_text(support_path("a"), HEAD "# by hand\n" RECORD("d768-f3072-gelu", "1", "2.5", "A B")
                                      RECORD("d768-f3072-relu", "1", "2", "A B"));
    RUN("tuned", "merge", support_path("a"));
    support_expect_status(0);
    expect_word(support_result.out, "2 new, 0 better than before, 0 no better");
    write_text(support_path("b"), HEAD RECORD("d768-f3072-gelu", "1", "2.25", "A B") RECORD(
                                      "d768-f3072-relu", "1", "2.1", "A B") RECORD("d768-f3072-gelu", "4", "1", "A B"));
    RUN("tuned", "merge", support_path("b"));
    support_expect_status(0);
    expect_word(support_result.out, "1 new, 1 better than before, 1 no better");
    expect_text(own, HEAD RECORD("d768-f3072-gelu", "1", "2.25", "A B") RECORD("d768-f3072-relu", "1", "2", "A B")
                         RECORD("d768-f3072-gelu", "4", "1", "A B"));
    RUN("tuned", "merge", support_path("a"), support_path("b"), "-o", support_path("c")); /* a file of its own */
    support_expect_status(0);
    expect_text(support_path("c"), HEAD RECORD("d768-f3072-gelu", "1", "2.25", "A B") RECORD(
                                       "d768-f3072-relu", "1", "2", "A B") RECORD("d768-f3072-gelu", "4", "1", "A B"));
}

Test(command_tuned, a_bad_file_is_refused_whole_and_nothing_is_written) {
    write_text(support_path("good"), HEAD RECORD("d768-f3072-gelu", "1", "2.5", "A B"));
    write_text(support_path("bad"), HEAD "\n" RECORD("d768-f3072-gelu", "1", "2.5", "A B") "spec=d8-f8-relo\n");
    RUN("tuned", "merge", support_path("good"), support_path("bad"));
    support_expect_status(1);
    expect_word(support_result.err, "bad, line 4: spec: ");
    cr_expect_neq(access(own, F_OK), 0, "a table was written");
    RUN("tuned", "show", support_path("bad"));
    support_expect_status(1);
    expect_word(support_result.err, "bad, line 4: spec: ");
    RUN("tuned", "merge", support_path("good"));
    support_expect_status(0);
    write_text(own, "ffngen-tuned 1\nthis is not a record\n"); /* a bad target stays as it is */
    RUN("tuned", "merge", support_path("good"));
    support_expect_status(1);
    expect_word(support_result.err, "line 2: spec");
    expect_text(own, "ffngen-tuned 1\nthis is not a record\n");
    RUN("tuned", "export", "-o", support_path("out"));
    support_expect_status(1);
    cr_expect_neq(access(support_path("out"), F_OK), 0);
}

Test(command_tuned, merges_at_the_same_time_lose_no_record) {
    enum { PROCESSES = 8, RECORDS = 200 };
    pid_t children[PROCESSES];
    for (int p = 0; p < PROCESSES; p++) {
        static char text[RECORDS * 512];
        char name[8], *at = text + sprintf(text, HEAD);
        for (int i = 0; i < RECORDS; i++)
            at += sprintf(at, RECORD("d768-f3072-gelu", "%d", "1", "machine %d"), i + 1, p);
        snprintf(name, sizeof name, "t%d", p);
        write_text(support_path(name), text);
    }
    for (int p = 0; p < PROCESSES; p++) {
        char name[8];
        snprintf(name, sizeof name, "t%d", p);
        children[p] = fork();
        if (children[p] == 0) {
            const char *other = getenv("FFNGEN"); /* as support_run */
            execl(other ? other : FFN_COMMAND, "ffngen", "tuned", "merge", support_path(name), (char *)NULL);
            _exit(126);
        }
    }
    for (int p = 0; p < PROCESSES; p++) {
        int status = -1;
        cr_assert_eq(waitpid(children[p], &status, 0), children[p]);
        cr_expect_eq(status, 0);
    }
    tuned *table = NULL;
    ffn_diag diag;
    cr_assert_eq(tuned_load(own, &table, &diag), FFN_OK, "%s", diag.text);
    size_t count = 0, at = 0;
    while (tuned_next(table, &at))
        count++;
    cr_expect_eq(count, PROCESSES * RECORDS);
    tuned_free(table);
}

Test(command_tuned, export_writes_what_was_asked_for_to_a_new_file) {
    char text[4096], mine[1024];
    snprintf(mine, sizeof mine, RECORD("d768-f3072-relu", "1", "2", "%s"), ffn_machine_name());
    snprintf(text, sizeof text, HEAD "# mine\n" RECORD("d768-f3072-gelu", "1", "2.5", "A B") "%s", mine);
    write_text(support_path("a"), text);
    RUN("tuned", "merge", support_path("a"));
    support_expect_status(0);
    RUN("tuned", "export", "d768-f3072-gelu", "-o", support_path("gelu"));
    support_expect_status(0);
    expect_text(support_path("gelu"), HEAD RECORD("d768-f3072-gelu", "1", "2.5", "A B"));
    RUN("tuned", "export", "--machine", "A B", "--output", "-");
    support_expect_status(0);
    cr_expect_str_eq(support_result.out, HEAD RECORD("d768-f3072-gelu", "1", "2.5", "A B"));
    RUN("tuned", "export", "--machine", "this", "-o", "-");
    support_expect_status(0);
    expect_word(support_result.out, mine);
    cr_expect_null(strstr(support_result.out, "A B"));
    RUN("tuned", "export", "-o", support_path("gelu"));
    support_expect_status(1);
    expect_word(support_result.err, "is there already");
    expect_text(support_path("gelu"), HEAD RECORD("d768-f3072-gelu", "1", "2.5", "A B"));
    RUN("tuned", "export", "--machine", "nobody", "-o", support_path("none"));
    support_expect_status(1);
    cr_expect_neq(access(support_path("none"), F_OK), 0);
}

Test(command_tuned, show_tells_every_field) {
    write_text(support_path("a"), HEAD RECORD("d768-f3072-gelu", "2", "2.5", "A B"));
    RUN("tuned", "show", support_path("a"));
    support_expect_status(0);
    static const char *const words[] = {"d768-f3072-gelu ", PLAN,    " 2 ",       "2.5", "1.2", "A B",
                                        "19.1.7",           "0.1.0", ": 1 record"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        expect_word(support_result.out, words[i]);
    RUN("tuned", "show", "--json", support_path("a"));
    support_expect_status(0);
    expect_word(support_result.out,
                "\"spec\":\"d768-f3072-gelu\",\"isa\":\"avx2\",\"n_class\":\"17+\",\"threads\":2,\"plan\":\"" PLAN
                "\",\"ms_min\":2.5,\"spread\":0.012,\"machine\":\"A B\",\"here\":false,\"llvm\":\"19.1.7\"");
}

Test(command_tuned, mistakes_are_bad_usage) {
    static const struct {
        const char *arguments[4], *says;
    } cases[] = {{{NULL}, "show, merge, export or path"},
                 {{"shaw"}, "show"},
                 {{"merge"}, "which files"},
                 {{"merge", "x", "-o", "-"}, "not -"},
                 {{"export"}, "--output"},
                 {{"path", "x"}, "no operand"},
                 {{"show", "--machine", "x"}, "--machine"},
                 {{"merge", "--json", "x"}, "--json"},
                 {{"export", "-o", "-", "d8-f8"}, "SPEC"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const *a = cases[i].arguments;
        RUN("tuned", a[0], a[0] ? a[1] : NULL, a[0] && a[1] ? a[2] : NULL, a[0] && a[1] && a[2] ? a[3] : NULL);
        support_expect_status(2);
        expect_word(support_result.err, cases[i].says);
    }
}

/* ---- Who takes plans from tables --------------------------------------------------------------------------- */

#define SPEC "d64-f256-gelu"

/* A record for SPEC and n = 17 and more, whose plan the model does not choose. */
static void write_record(const char *path, const char *machine, int32_t threads, int64_t m_block) {
    ffn_spec spec = support_spec(SPEC);
    ffn_diag diag;
    tuned *table;
    tuned_record r = {.spec = spec,
                      .plan = support_plan(&spec, FFN_N_17_UP),
                      .threads = threads,
                      .ms = 2.5,
                      .llvm = "19.1.7",
                      .generator = "0.1.0"};
    r.plan.m_block = m_block;
    snprintf(r.machine, sizeof r.machine, "%s", machine);
    cr_assert_eq(tuned_create(&table, &diag), FFN_OK);
    cr_assert_eq(tuned_add(table, &r, &diag), FFN_OK, "%s", diag.text);
    cr_assert_eq(tuned_save(table, path, &diag), FFN_OK, "%s", diag.text);
    tuned_free(table);
}

static void copy_bits(char bits[32]) {
    const char *at = strstr(support_result.out, "\"bits\":\"");
    cr_assert_not_null(at, "%s", support_result.out);
    snprintf(bits, 32, "%.18s", at + strlen("\"bits\":\""));
}

Test(command_tuned, a_run_has_the_same_bits_with_any_table) {
    if (ffn_isa_best() == FFN_ISA_PORTABLE) {
        printf("no ISA here has plans\n");
        return;
    }
    char without[32], with[32];
    RUN("run", SPEC, "--n", "40", "--json");
    support_expect_status(0);
    expect_word(support_result.out, "\"plan_from\":\"model\"");
    copy_bits(without);
    static const char *const machines[] = {NULL, "A B"};
    for (int i = 0; i < 2; i++) {
        write_record(support_path("a"), machines[i] ? machines[i] : ffn_machine_name(), 1, 101);
        unlink(own);
        RUN("tuned", "merge", support_path("a"));
        support_expect_status(0);
        RUN("run", SPEC, "--n", "40", "--json");
        support_expect_status(0);
        expect_word(support_result.out, i ? "\"plan_from\":\"hint\"" : "\"plan_from\":\"tuned\"");
        expect_word(support_result.out, "m101");
        copy_bits(with);
        cr_expect_str_eq(with, without);
    }
    write_text(own, "no table\n");
    RUN("run", SPEC, "--n", "40", "--json");
    support_expect_status(0);
    expect_word(support_result.err, "tuned, line 1");
    expect_word(support_result.out, "\"plan_from\":\"model\"");
    copy_bits(with);
    cr_expect_str_eq(with, without);
}

Test(command_tuned, explain_says_where_the_plan_comes_from) {
    if (ffn_isa_best() == FFN_ISA_PORTABLE) {
        printf("no ISA here has plans\n");
        return;
    }
    char line[2048];
    RUN("explain", SPEC, "--n", "40");
    support_expect_status(0);
    expect_word(support_result.out, "\n  the model\n");
    expect_word(support_result.out, "predicted at n = 40: ");
    write_record(support_path("here"), ffn_machine_name(), 1, 101);
    write_record(support_path("there"), "A B", 1, 101);
    RUN("explain", SPEC, "--n", "40", "--tuned", support_path("here"));
    support_expect_status(0);
    snprintf(line, sizeof line, "\n  tuned: %s, this machine, 1 thread, 2.5 ms\n", support_path("here"));
    expect_word(support_result.out, line);
    expect_word(support_result.out, " m101 ");
    RUN("explain", SPEC, "--n", "40", "--tuned", support_path("there"), "--threads", "2");
    support_expect_status(0);
    expect_word(support_result.out, "\n  hint: measured on \"A B\", not on this machine: ");
    RUN("tuned", "merge", support_path("here"));
    support_expect_status(0);
    RUN("explain", SPEC, "--n", "40", "--json");
    support_expect_status(0);
    snprintf(line, sizeof line,
             "\"plan_from\":\"tuned\",\"tuned\":\"%s\",\"machine\":\"%s\",\"threads\":1,\"ms_min\":2.5", own,
             ffn_machine_name());
    expect_word(support_result.out, line);
    write_record(support_path("two"), ffn_machine_name(), 2, 102);
    RUN("tuned", "merge", support_path("two"));
    support_expect_status(0);
    for (int threads = 1; threads <= 2; threads++) {
        RUN("explain", SPEC, "--n", "40", "--threads", threads == 1 ? "1" : "2");
        support_expect_status(0);
        expect_word(support_result.out, threads == 1 ? " m101 " : " m102 ");
    }
    RUN("explain", SPEC, "--n", "40", "--tuned", "off");
    support_expect_status(0);
    expect_word(support_result.out, "\n  the model\n");
    RUN("explain", SPEC, "--tuned", support_path("absent"));
    support_expect_status(1);
    expect_word(support_result.err, "absent");
}

Test(command_tuned, emission_says_which_plans_are_hints) {
    write_text(support_path("a"), HEAD RECORD("d768-f3072-gelu", "1", "2.5", "A B"));
    RUN("emit", "d768-f3072-gelu", "--format", "header", "--isa", "avx2", "--tuned", support_path("a"), "-o",
        support_path("h.h"));
    support_expect_status(0);
    expect_word(support_result.err,
                "1 of 4 plans are of the tuned table; hints from other machines: 1, measured on \"A B\"");
}
