/* test_tuned.c: tuned tables: what was measured is kept whole, found again, and told apart from another machine's */
#include <criterion/criterion.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support_data.h"
#include "support_files.h"
#include "tuned.h"

TestSuite(tuned, .init = support_folder_make, .fini = support_folder_remove, .timeout = 120);

#define PLAN "avx2 17+ m96 f384 k768 u4 p1 6x1 5x1 4x1 1x1"
/* A line with one field exchanged. */
#define LINE(spec, plan, threads, ms, spread, machine, llvm, generator)                                              \
    "spec=" spec " plan=\"" plan "\" threads=" threads " ms=" ms " spread=" spread " machine=" machine " llvm=" llvm \
    " generator=" generator
#define GOOD LINE("d768-f3072-gelu-bias", PLAN, "1", "2.5", "0.012", "\"AMD EPYC 7763\"", "19.1.7", "0.1.0")

static ffn_diag diag;

static ffn_status load_text(const char *text, tuned **table) {
    const char *path = support_path("table");
    support_file_write(path, text, strlen(text));
    diag = (ffn_diag){.text = ""};
    return tuned_load(path, table, &diag);
}

static tuned *loaded(const char *text) {
    tuned *table = NULL;
    cr_assert_eq(load_text(text, &table), FFN_OK, "%s", diag.text);
    return table;
}

static void expect_saved(const tuned *table, const char *text) {
    const char *path = support_path("saved");
    cr_assert_eq(tuned_save(table, path, &diag), FFN_OK, "%s", diag.text);
    support_file_expect(path, text, strlen(text), "the saved table");
}

static size_t count_of(const tuned *table) {
    size_t count = 0;
    while (tuned_at(table, count))
        count++;
    return count;
}

/* ---- Files ---- */

Test(tuned, a_line_has_the_documented_meaning) {
    tuned *table = loaded(TUNED_MAGIC "\n" GOOD "\n");
    const tuned_record *r = tuned_at(table, 0);
    char plan[256];
    cr_assert(r && !tuned_at(table, 1));
    const ffn_spec spec = support_spec("bert-base");
    cr_expect(ffn_spec_equal(&r->spec, &spec));
    cr_assert_eq(ffn_plan_format(&r->plan, plan, sizeof plan, NULL), FFN_OK);
    cr_expect_str_eq(plan, PLAN);
    cr_expect_eq(r->threads, 1);
    cr_expect_eq(r->ms, 2.5);
    cr_expect_eq(r->spread, 0.012);
    cr_expect_str_eq(r->machine, "AMD EPYC 7763");
    cr_expect_str_eq(r->llvm, "19.1.7");
    cr_expect_str_eq(r->generator, "0.1.0");
    tuned_free(table);
}

Test(tuned, what_is_saved_is_what_was_loaded_comments_and_blank_lines_too) {
    static const char text[] =
        TUNED_MAGIC "\n"
                    "# by hand\n\n" GOOD "\n"
                    "  # between, with a \"quote\n" LINE("d64-f256-silu", "neon 2-4 m4 f256 k64 u1 p0 4x1 1x1", "16",
                                                         "0.000001", "0", "graviton", "19.1.7", "0.1.0") "\n"
                                                                                                         "\n"
                                                                                                         "# last\n";
    tuned *table = loaded(text);
    expect_saved(table, text);
    tuned_free(table);
    table = loaded(TUNED_MAGIC "\n");
    expect_saved(table, TUNED_MAGIC "\n");
    tuned_free(table);
}

Test(tuned, a_preset_and_its_spec_are_one_key) {
    tuned *table = loaded(
        TUNED_MAGIC "\n" LINE("bert-base", PLAN, "1", "3", "0", "\"AMD EPYC 7763\"", "19.1.7", "0.1.0") "\n" GOOD "\n");
    expect_saved(table, TUNED_MAGIC "\n" GOOD "\n");
    tuned_free(table);
}

Test(tuned, a_bad_line_rejects_the_file_with_its_number_and_field) {
    static const struct {
        const char *line, *named;
    } cases[] = {
        {LINE("d768-f3072-gelo", PLAN, "1", "2.5", "0", "m", "19", "0.1"), "spec: "},
        {LINE("\"\"", PLAN, "1", "2.5", "0", "m", "19", "0.1"), "spec: "},
        {LINE("bert-base", "avx2 17+ m96", "1", "2.5", "0", "m", "19", "0.1"), "plan: "},
        {LINE("bert-base", "portable 17+ m96 f384 k768 u4 p1 1x1", "1", "2", "0", "m", "19", "0.1"), "plan: "},
        {LINE("bert-base", "avx2 17+ m96 f384 k768 u4 p1 6x1", "1", "2.5", "0", "m", "19", "0.1"), "1x1"},
        {LINE("bert-base", "avx2 17+ m96 f384 k768 u4 p1 9x2 9x1 1x1", "1", "2.5", "0", "m", "19", "0.1"), "registers"},
        {LINE("bert-base", PLAN, "0", "2.5", "0", "m", "19", "0.1"), "threads: "},
        {LINE("bert-base", PLAN, "1.0", "2.5", "0", "m", "19", "0.1"), "threads: "},
        {LINE("bert-base", PLAN, "-1", "2.5", "0", "m", "19", "0.1"), "threads: "},
        {LINE("bert-base", PLAN, "9999999999", "2.5", "0", "m", "19", "0.1"), "threads: "},
        {LINE("bert-base", PLAN, "1", "0", "0", "m", "19", "0.1"), "ms: "},
        {LINE("bert-base", PLAN, "1", "nan", "0", "m", "19", "0.1"), "ms: "},
        {LINE("bert-base", PLAN, "1", "2,5", "0", "m", "19", "0.1"), "ms: "},
        {LINE("bert-base", PLAN, "1", "2.", "0", "m", "19", "0.1"), "ms: "},
        {LINE("bert-base", PLAN, "1", ".5", "0", "m", "19", "0.1"), "ms: "},
        {LINE("bert-base", PLAN, "1", "1e-3", "0", "m", "19", "0.1"), "ms: "},
        {LINE("bert-base", PLAN, "1", "0.0000001", "0", "m", "19", "0.1"), "ms: "},
        {LINE("bert-base", PLAN, "1", "1000000001", "0", "m", "19", "0.1"), "ms: "},
        {LINE("bert-base", PLAN, "1", "2.5", "-0.1", "m", "19", "0.1"), "spread: "},
        {LINE("bert-base", PLAN, "1", "2.5", "", "m", "19", "0.1"), "spread: "},
        {LINE("bert-base", PLAN, "1", "2.5", "0", "\"\"", "19", "0.1"), "machine: "},
        {LINE("bert-base", PLAN, "1", "2.5", "0", "\"a\tb\"", "19", "0.1"), "machine: "},
        {LINE("bert-base", PLAN, "1", "2.5", "0", "\"a\\nb\"", "19", "0.1"), "machine: "},
        {LINE("bert-base", PLAN, "1", "2.5", "0", "\"a\"b", "19", "0.1"), "machine: "},
        {LINE("bert-base", PLAN, "1", "2.5", "0", "a\"b", "19", "0.1"), "machine: "},
        {LINE("bert-base", PLAN, "1", "2.5", "0", "a b", "19", "0.1"), "llvm="},
        {LINE("bert-base", PLAN, "1", "2.5", "0", "m", "\"19", "0.1"), "llvm: "},
        {LINE("bert-base", PLAN, "1", "2.5", "0", "m", "19", ""), "generator: "},
        {LINE("bert-base", PLAN, "1", "2.5", "0", "m", "19", "0.1 busy=1"), "generator"},
        {LINE("bert-base", PLAN, "1", "2.5", "0", "m", "19", "0.1 "), "generator"},
        {LINE("bert-base", PLAN, "1", "2.5", "0", "m", "19  generator=0.1", "0.1"), "generator"},
        {"spec=bert-base", "plan="},
        {"spec=bert-base ", "plan="},
        {"spec", "spec="},
        {"spec=bert-base threads=1", "plan="},
        {" " GOOD, "spec="},
        {TUNED_MAGIC, "spec="}, /* two files, one behind the other */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static char text[8192];
        tuned *table = (tuned *)text; /* a pointer that nobody may change */
        snprintf(text, sizeof text, TUNED_MAGIC "\n" GOOD "\n# three\n%s\n" GOOD "\n", cases[i].line);
        cr_expect_eq(load_text(text, &table), FFN_BAD_FILE, "%s", cases[i].line);
        cr_expect(strstr(diag.text, "line 4: ") && strstr(diag.text, cases[i].named), "%s: %s", cases[i].line,
                  diag.text);
        cr_expect_eq(table, (tuned *)text);
    }
}

Test(tuned, what_is_no_whole_table_is_refused) {
    static const struct {
        const char *text, *named;
    } cases[] = {{"", "line 1"},
                 {GOOD "\n", "line 1"},
                 {"ffngen-tuned 2\n" GOOD "\n", "ffngen-tuned 1"},
                 {"ffngen-tuned 1", "line 1"},
                 {TUNED_MAGIC "\n" GOOD, "line 2"}}; /* which might have ended in generator=0.1.0.5 */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tuned *table = NULL;
        cr_expect_eq(load_text(cases[i].text, &table), FFN_BAD_FILE, "%s", cases[i].text);
        cr_expect(strstr(diag.text, cases[i].named), "%s: %s", cases[i].text, diag.text);
    }
    tuned *table = NULL;
    cr_expect_eq(tuned_load(support_path("absent"), &table, &diag), FFN_SYSTEM);
    cr_assert_eq(mkfifo(support_path("pipe"), 0600), 0);
    cr_expect_eq(tuned_load(support_path("pipe"), &table, &diag), FFN_BAD_FILE);
    cr_expect_null(table);
}

Test(tuned, every_cut_of_a_file_is_refused_or_has_whole_records) {
    static const char whole[] = TUNED_MAGIC "\n# c\n" GOOD "\n";
    for (size_t length = 0; length < sizeof whole - 1; length++) {
        char text[sizeof whole];
        tuned *table = NULL;
        memcpy(text, whole, length);
        text[length] = '\0';
        if (load_text(text, &table) == FFN_OK)
            cr_expect_eq(count_of(table), 0u, "a record out of \"%s\"", text);
        tuned_free(table);
    }
}

/* ---- Records ---- */

static tuned_record record_of(const char *spec, const char *plan, int32_t threads, double ms, const char *machine) {
    tuned_record r = {.spec = support_spec(spec), .threads = threads, .ms = ms, .llvm = "19.1.7", .generator = "0.1.0"};
    cr_assert_eq(ffn_plan_parse(plan, &r.plan, &diag), FFN_OK, "%s", diag.text);
    snprintf(r.machine, sizeof r.machine, "%s", machine);
    return r;
}

static tuned *empty(void) {
    tuned *table = NULL;
    cr_assert_eq(tuned_create(&table, NULL), FFN_OK);
    return table;
}

static void add(tuned *table, const tuned_record *record) {
    cr_assert_eq(tuned_add(table, record, &diag), FFN_OK, "%s", diag.text);
}

Test(tuned, any_text_and_number_comes_back_in_any_locale) {
    static const char *const names[] = {"plain", "with blanks", "\"quoted\"",       "back\\slash and \\\"",
                                        "#hash", "a=b",         "\xc3\xa9t\xc3\xa9"};
    static const double times[] = {1e-6, 0.1, 1.0 / 3, 123456.789012, 1e9};
    tuned *table = empty();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (size_t t = 0; t < sizeof times / sizeof *times; t++) {
            tuned_record r = record_of("d40-f72-act( x * sigmoid(1.702 * x) )", "avx512 1 m1 f80 k40 u2 p0 1x8 1x1",
                                       (int32_t)t + 1, times[t], names[i]);
            r.spread = times[t] / 1e4;
            add(table, &r);
        }
    for (int pass = 0; pass < 2; pass++) { /* the second under decimal commas, if the system has such a locale */
        tuned *back = NULL;
        cr_assert_eq(tuned_save(table, support_path("saved"), &diag), FFN_OK, "%s", diag.text);
        cr_assert_eq(tuned_load(support_path("saved"), &back, &diag), FFN_OK, "%s", diag.text);
        for (size_t i = 0; i < sizeof names / sizeof *names * 5; i++) {
            const tuned_record *a = tuned_at(table, i), *b = tuned_at(back, i);
            cr_assert(a && b);
            cr_expect_eq(a->ms, b->ms);
            cr_expect_eq(a->spread, b->spread);
            cr_expect_lt(fabs(b->ms - times[i % 5]), 0.6e-6);
            cr_expect_str_eq(b->machine, names[i / 5]);
            cr_expect(ffn_spec_equal(&a->spec, &b->spec));
        }
        tuned_free(back);
        if (!setlocale(LC_ALL, "de_DE.UTF-8"))
            break;
    }
    tuned_free(table);
}

Test(tuned, records_that_no_file_could_hold_are_refused) {
    tuned *table = empty();
    const tuned_record good = record_of("bert-base", PLAN, 1, 2.5, "m");
    tuned_record bad[10];
    for (int i = 0; i < 10; i++)
        bad[i] = good;
    bad[0].ms = 0;
    bad[1].ms = NAN;
    bad[2].ms = INFINITY;
    bad[3].spread = -1;
    bad[4].threads = 0;
    bad[5].machine[0] = '\0';
    strcpy(bad[6].machine, "two\nlines");
    bad[7].plan.tile_count = 0;
    bad[8].spec.d_ff = 0;
    bad[9].llvm[0] = '\0';
    for (int i = 0; i < 10; i++)
        cr_expect_neq(tuned_add(table, &bad[i], &diag), FFN_OK, "record %d", i);
    cr_expect_eq(count_of(table), 0u);
    tuned_free(table);
}

Test(tuned, the_better_of_two_with_one_key_stays_and_no_other_is_lost) {
    const tuned_record first = record_of("bert-base", PLAN, 1, 2.5, "m");
    tuned_record other = first, keys[7];
    for (int i = 0; i < 7; i++)
        keys[i] = first;
    keys[0].spec = support_spec("d768-f3072-gelu");
    cr_assert_eq(ffn_plan_parse("avx512 17+ m96 f384 k768 u2 p1 6x1 1x1", &keys[1].plan, NULL), FFN_OK);
    cr_assert_eq(ffn_plan_parse("avx2 5-16 m96 f384 k768 u4 p1 6x1 1x1", &keys[2].plan, NULL), FFN_OK);
    keys[3].threads = 2;
    strcpy(keys[4].machine, "n");
    strcpy(keys[5].llvm, "20");
    strcpy(keys[6].generator, "0.2");
    cr_assert_eq(ffn_plan_parse("avx2 17+ m66 f512 k768 u4 p1 6x1 1x1", &other.plan, NULL), FFN_OK);

    tuned *table = empty(), *more = empty();
    add(table, &first);
    other.ms = 2.500001; /* worse by a nanosecond */
    add(table, &other);
    cr_assert_eq(count_of(table), 1u);
    cr_expect_eq(tuned_at(table, 0)->plan.m_block, 96);
    other.ms = 2.5; /* as good: the first stays */
    add(table, &other);
    cr_expect_eq(tuned_at(table, 0)->plan.m_block, 96);
    other.ms = 2.499999;
    add(more, &other);
    for (int i = 0; i < 7; i++) {
        keys[i].ms = 9;
        add(more, &keys[i]);
    }
    cr_assert_eq(tuned_merge(table, more, &diag), FFN_OK, "%s", diag.text);
    cr_assert_eq(count_of(table), 8u);
    cr_expect_eq(tuned_at(table, 0)->plan.m_block, 66);
    cr_expect_eq(tuned_at(table, 0)->ms, 2.499999);
    for (int i = 0; i < 7; i++)
        cr_expect_eq(tuned_at(table, (size_t)i + 1)->ms, 9.0);
    cr_assert_eq(tuned_merge(more, table, &diag), FFN_OK);
    cr_assert_eq(tuned_merge(more, more, &diag), FFN_OK);
    cr_expect_eq(count_of(more), 8u);
    tuned_free(table);
    tuned_free(more);
    tuned_free(NULL);
}

/* ---- Finding ---- */

static const tuned_record *found(const tuned *table, const char *spec_text, ffn_n_class n_class, int32_t threads,
                                 const char *machine, bool *hint) {
    const ffn_spec spec = support_spec(spec_text);
    return tuned_find(table, &(tuned_query){&spec, FFN_ISA_AVX2, n_class, threads, machine}, hint);
}

Test(tuned, the_record_of_this_machine_goes_before_a_faster_hint) {
    tuned *table = empty();
    tuned_record r = record_of("bert-base", PLAN, 1, 1, "fast");
    add(table, &r);
    r = record_of("bert-base", PLAN, 1, 3, "slow");
    add(table, &r);
    strcpy(r.llvm, "20.1.0");
    r.ms = 2;
    add(table, &r);
    bool hint = true;
    const tuned_record *best = found(table, "bert-base", FFN_N_17_UP, 1, "slow", &hint);
    cr_assert(best);
    cr_expect(!hint);
    cr_expect_eq(best->ms, 2.0);
    best = found(table, "bert-base", FFN_N_17_UP, 1, "elsewhere", &hint);
    cr_assert(best);
    cr_expect(hint);
    cr_expect_str_eq(best->machine, "fast");
    best = found(table, "bert-base", FFN_N_17_UP, 0, NULL, &hint);
    cr_assert(best);
    cr_expect(hint);
    cr_expect_eq(best->ms, 1.0);
    cr_expect(found(table, "bert-base", FFN_N_17_UP, 1, "slow", NULL));
    tuned_free(table);
}

Test(tuned, nothing_is_found_for_another_spec_class_isa_or_thread_count) {
    tuned *table = loaded(TUNED_MAGIC "\n" GOOD "\n");
    bool hint = false;
    cr_expect(found(table, "bert-base", FFN_N_17_UP, 1, "AMD EPYC 7763", &hint));
    cr_expect_null(found(table, "d768-f3072-gelu", FFN_N_17_UP, 1, NULL, &hint));
    cr_expect_null(found(table, "bert-base", FFN_N_1, 1, NULL, &hint));
    cr_expect_null(found(table, "bert-base", FFN_N_17_UP, 2, NULL, &hint));
    const ffn_spec spec = support_spec("bert-base");
    cr_expect_null(tuned_find(table, &(tuned_query){&spec, FFN_ISA_AVX512, FFN_N_17_UP, 1, NULL}, &hint));
    tuned_free(table);
}

Test(tuned, what_is_found_does_not_depend_on_the_order_of_lines) {
    const tuned_record a = record_of("bert-base", PLAN, 1, 2, "a"), b = record_of("bert-base", PLAN, 1, 2, "b");
    tuned *one = empty(), *two = empty();
    add(one, &a);
    add(one, &b);
    add(two, &b);
    add(two, &a);
    cr_expect_str_eq(found(one, "bert-base", FFN_N_17_UP, 1, "c", NULL)->machine, "a");
    cr_expect_str_eq(found(two, "bert-base", FFN_N_17_UP, 1, "c", NULL)->machine, "a");
    tuned_free(one);
    tuned_free(two);
}

/* ---- Many writers ---- */

Test(tuned, processes_that_add_to_one_file_at_once_lose_nothing) {
    enum { WRITERS = 6, TIMES = 15 };
    const char *path = support_path("shared");
    for (int w = 0; w < WRITERS; w++) {
        const pid_t child = fork();
        cr_assert_geq(child, 0);
        if (child == 0) {
            for (int i = 0; i < TIMES; i++) {
                tuned *table = empty();
                tuned_record r = record_of("bert-base", PLAN, w * TIMES + i + 1, 1, "m");
                add(table, &r);
                if (tuned_save_merged(table, path, NULL))
                    _exit(1);
                tuned_free(table);
            }
            _exit(0);
        }
    }
    for (int w = 0; w < WRITERS; w++) {
        int status;
        cr_assert_gt(wait(&status), 0);
        cr_expect_eq(status, 0);
    }
    tuned *table = NULL;
    cr_assert_eq(tuned_load(path, &table, &diag), FFN_OK, "%s", diag.text);
    cr_expect_eq(count_of(table), (size_t)WRITERS * TIMES);
    cr_expect_eq(support_folder_count(), 1, "something was left behind");
    tuned_free(table);
}

Test(tuned, a_bad_file_is_not_replaced_by_a_merge_and_a_refused_save_leaves_the_old_one) {
    const char *path = support_path("table");
    static const char bad[] = "not a table\n";
    support_file_write(path, bad, sizeof bad - 1);
    tuned *table = loaded(TUNED_MAGIC "\n" GOOD "\n");
    support_file_write(path, bad, sizeof bad - 1);
    cr_expect_eq(tuned_save_merged(table, path, &diag), FFN_BAD_FILE);
    cr_expect(strstr(diag.text, "line 1"), "%s", diag.text);
    support_file_expect(path, bad, sizeof bad - 1, "the bad file");
    cr_expect_eq(tuned_save(table, support_path("no/such/folder"), &diag), FFN_SYSTEM);
    cr_assert_eq(mkdir(support_path("folder"), 0700), 0);
    cr_expect_eq(tuned_save(table, support_path("folder"), &diag), FFN_BAD_ARGUMENT);
    cr_expect_eq(support_folder_count(), 2, "something was left behind");
    tuned_free(table);
}

Test(tuned, a_write_that_fails_half_way_leaves_the_old_file_alone) {
    static const char old[] = TUNED_MAGIC "\n# old\n";
    tuned *table = loaded(TUNED_MAGIC "\n" GOOD "\n");
    const char *path = support_path("table");
    support_file_write(path, old, sizeof old - 1);
    struct rlimit before;
    getrlimit(RLIMIT_FSIZE, &before);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){40, before.rlim_max});
    cr_expect_eq(tuned_save(table, path, &diag), FFN_SYSTEM);
    setrlimit(RLIMIT_FSIZE, &before);
    support_file_expect(path, old, sizeof old - 1, "the old file");
    cr_expect_eq(support_folder_count(), 1, "something was left behind");
    tuned_free(table);
}

Test(tuned, a_link_stays_a_link_and_the_mode_is_the_umasks) {
    tuned *table = loaded(TUNED_MAGIC "\n" GOOD "\n");
    support_file_write(support_path("target"), "", 0);
    cr_assert_eq(symlink("target", support_path("link")), 0);
    cr_assert_eq(tuned_save(table, support_path("link"), &diag), FFN_OK, "%s", diag.text);
    struct stat info;
    cr_assert_eq(lstat(support_path("link"), &info), 0);
    cr_expect(S_ISLNK(info.st_mode));
    support_file_expect(support_path("target"), TUNED_MAGIC "\n" GOOD "\n", strlen(TUNED_MAGIC "\n" GOOD "\n"),
                        "target");
    umask(027);
    cr_assert_eq(tuned_save(table, support_path("new"), &diag), FFN_OK, "%s", diag.text);
    cr_assert_eq(stat(support_path("new"), &info), 0);
    cr_expect_eq(info.st_mode & 0777, 0640u);
    tuned_free(table);
}
