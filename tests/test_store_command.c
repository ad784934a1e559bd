/* test_store_command.c: ffngen cache list|verify|clear from outside */
#define _GNU_SOURCE
#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support_command.h"
#include "support_store.h"

TestSuite(store_command, .timeout = 120);

#define CACHE(...) RUN("cache", "--store", folder, __VA_ARGS__)

/* Three entries, one of them for an ISA that this CPU lacks. */
static const char *filled(void) {
    const char *folder = support_store_path(support_store_scratch(), "ffngen");
    static const char *const specs[] = {"d64-f256-relu-bias", "d8-f16-act(x*sigmoid(1.702*x))", "d64-f256-gelu"};
    ffn_isa isa = ffn_isa_best() == FFN_ISA_PORTABLE ? FFN_ISA_AVX2 : ffn_isa_best();
    ffn_isa foreign = ffn_isa_supported(FFN_ISA_NEON) ? FFN_ISA_AVX2 : FFN_ISA_NEON;
    for (int i = 0; i < 3; i++) {
        store_case c;
        store_case_init(&c, specs[i], i == 2 ? foreign : isa, FFN_N_2_4, 4096);
        store_case_keep(folder, &c);
        store_case_free(&c);
    }
    return folder;
}

static const char *text_of(const cJSON *line, const char *key) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(line, key);
    cr_assert(cJSON_IsString(item), "%s", key);
    return item->valuestring;
}

static double number_of(const cJSON *line, const char *key) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(line, key);
    cr_assert(cJSON_IsNumber(item), "%s", key);
    return item->valuedouble;
}

static bool flag_of(const cJSON *line, const char *key) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(line, key);
    cr_assert(cJSON_IsBool(item), "%s", key);
    return cJSON_IsTrue(item);
}

Test(store_command, list_tells_what_is_there) {
    const char *folder = filled();
    CACHE("list");
    support_expect_status(0);
    static const char *const said[] = {"d64-f256-relu-bias",
                                       "d8-f16-act(x*sigmoid(1.702*x))",
                                       "d64-f256-gelu",
                                       "  0123456789  ",
                                       "19.1.7",
                                       ": 3 entries",
                                       "the limit is 256 MiB"};
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        cr_expect_not_null(strstr(support_result.out, said[i]), "%s: %s", said[i], support_result.out);
    cr_expect_not_null(strstr(support_result.out, folder));
}

Test(store_command, list_as_json_has_a_line_for_each_entry_and_one_for_all) {
    const char *folder = filled();
    CACHE("list", "--json");
    support_expect_status(0);
    int entries = 0, here = 0, totals = 0;
    double bytes = 0;
    for (char *line = strtok(support_result.out, "\n"); line; line = strtok(NULL, "\n")) {
        cJSON *object = cJSON_Parse(line);
        cr_assert_not_null(object, "%s", line);
        if (cJSON_HasObjectItem(object, "entries")) {
            totals++;
            cr_expect_eq(number_of(object, "entries"), 3);
            cr_expect_eq(number_of(object, "bytes"), bytes);
            cr_expect_eq(number_of(object, "limit_bytes"), 268435456);
            cr_expect_str_eq(text_of(object, "store"), folder);
        } else {
            entries++;
            here += flag_of(object, "runs_here");
            cr_expect(flag_of(object, "verified"));
            cr_expect_str_eq(text_of(object, "n_class"), "2-4");
            cr_expect_str_eq(text_of(object, "generator"), "generator 0123456789abcdef LLVM 19.1.7");
            cr_expect_eq(strncmp(text_of(object, "plan"), text_of(object, "isa"), 4), 0);
            cr_expect_eq(strncmp(text_of(object, "entry"), "d", 1), 0);
            cr_expect_geq(number_of(object, "age_s"), 0);
            cr_expect_eq(number_of(object, "bytes"), 4096 + 2 * 4096 + 4096);
            bytes += number_of(object, "bytes");
        }
        cJSON_Delete(object);
    }
    cr_expect_eq(entries, 3);
    cr_expect_eq(totals, 1);
    cr_expect_eq(here, ffn_isa_best() == FFN_ISA_PORTABLE ? 0 : 2);
}

Test(store_command, a_folder_that_is_not_there_is_an_empty_store) {
    const char *folder = support_store_path(support_store_scratch(), "none/ffngen");
    static const char *const actions[] = {"list", "verify", "clear"};
    for (int i = 0; i < 3; i++) {
        CACHE(actions[i]);
        support_expect_status(0);
        cr_expect_not_null(strstr(support_result.out, "0 entries"), "%s", support_result.out);
        CACHE(actions[i], "--json");
        support_expect_status(0);
    }
    cr_expect_neq(access(folder, F_OK), 0, "asking made the folder");
}

Test(store_command, the_default_folder_is_the_librarys) {
    const char *cache = support_store_path(filled(), "..");
    setenv("XDG_CACHE_HOME", cache, 1);
    RUN("cache", "list");
    support_expect_status(0);
    cr_expect_not_null(strstr(support_result.out, ": 3 entries"), "%s", support_result.out);
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    RUN("cache", "list");
    support_expect_status(1);
    cr_expect_not_null(strstr(support_result.err, "HOME"), "%s", support_result.err);
}

Test(store_command, verify_names_the_bad_ones) {
    const char *folder = filled();
    CACHE("verify");
    support_expect_status(0);
    cr_expect_not_null(strstr(support_result.out, "3 entries, 0 bad, "), "%s", support_result.out);
    store_case c;
    store_case_init(&c, "d96-f256-relu", FFN_ISA_AVX2, FFN_N_1, 4096);
    const char *alone = support_store_path(folder, "alone");
    store_case_keep(alone, &c);
    const char *name = support_store_entry(alone), *path = support_store_path(folder, name);
    size_t bytes;
    unsigned char *file = support_read_file(support_store_path(alone, name), &bytes);
    static const struct damage {
        size_t at, length;
        const char *said;
    } damages[] = {{9000, 16384, "checksum"}, {30, 16384, "head"},
                   {4000, 16384, "checksum"}, {0, 16383, "12287 bytes given"},
                   {0, 20, "20 bytes"},       {0, 5000, "5000 bytes are no"},
                   {0, 0, "0 bytes"}};
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        file[damages[i].at] ^= damages[i].length == bytes;
        support_write_file(path, file, damages[i].length);
        file[damages[i].at] ^= damages[i].length == bytes;
        CACHE("verify");
        support_expect_status(1);
        const char *line = strstr(support_result.out, name);
        cr_assert_not_null(line, "%s", support_result.out);
        line = memcpy(support_result.err, line, strcspn(line, "\n") + 1);
        support_result.err[strcspn(line, "\n")] = '\0';
        cr_expect_not_null(strstr(line, damages[i].said), "\"%s\" says nothing of \"%s\"", line, damages[i].said);
        cr_expect_not_null(strstr(support_result.out, "4 entries, 1 bad"), "%s", support_result.out);
        CACHE("list");
        support_expect_status(0);
        cr_expect_not_null(strstr(support_result.out, "damaged"), "%s", support_result.out);
        CACHE("verify", "--json");
        support_expect_status(1);
        cr_expect_not_null(strstr(support_result.out, "\"passed\":false"), "%s", support_result.out);
    }
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(symlink(support_store_path(alone, name), path), 0);
    CACHE("verify");
    support_expect_status(1);
    cr_expect_not_null(strstr(support_result.out, "symbolic link"), "%s", support_result.out);
    cr_assert_eq(unlink(path), 0);
    char misnamed[300];
    snprintf(misnamed, sizeof misnamed, "x%s", name);
    support_write_file(support_store_path(folder, misnamed), file, bytes);
    CACHE("verify");
    support_expect_status(1);
    cr_expect_not_null(strstr(support_result.out, "name of another entry"), "%s", support_result.out);
    free(file);
    store_case_free(&c);
}

Test(store_command, clear_removes_entries_and_nothing_else) {
    const char *folder = filled(), *outside = support_store_path(folder, "../outside.ffn");
    static const char *const others[] = {"notes.txt",
                                         "x.ffn",
                                         ".hidden.0123456789abcdef.ffn",
                                         "d8.avx2.1.0123456789abcdeF.ffn",
                                         "d8.avx2.1.0123456789abcdef.ffn.bak",
                                         ".tmp.1.0123456789abcdef"}; /* process 1 lives */
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        support_write_file(support_store_path(folder, others[i]), "mine", 4);
    support_write_file(outside, "mine", 4);
    const char *link = support_store_path(folder, "d9.avx2.1.0123456789abcdef.ffn");
    const char *inner = support_store_path(folder, "d10.avx2.1.0123456789abcdef.ffn");
    cr_assert_eq(symlink(outside, link), 0);
    cr_assert_eq(mkdir(inner, 0700), 0);
    support_write_file(support_store_path(inner, "d8.avx2.1.0123456789abcdef.ffn"), "mine", 4);
    pid_t gone = fork();
    if (gone == 0)
        _exit(0);
    waitpid(gone, NULL, 0);
    char temporary[64];
    snprintf(temporary, sizeof temporary, ".tmp.%d.0123456789abcdef", (int)gone);
    support_write_file(support_store_path(folder, temporary), "half", 4);
    support_write_file(support_store_path(folder, "d8.avx2.1.0123456789abcdef.ffn"), "damaged", 7);
    CACHE("clear");
    support_expect_status(0);
    cr_expect_not_null(strstr(support_result.out, "4 entries removed, 1 temporary"), "%s", support_result.out);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        cr_expect_eq(access(support_store_path(folder, others[i]), F_OK), 0, "%s is gone", others[i]);
    cr_expect_eq(access(outside, F_OK), 0, "a link was followed");
    struct stat seen;
    cr_expect_eq(lstat(link, &seen), 0, "what is no file is no entry");
    cr_expect_eq(support_store_count(inner, ""), 1, "a folder was entered");
    cr_expect_eq(support_store_count(folder, ""), (int)(sizeof others / sizeof *others) + 2);
    CACHE("clear", "--json");
    support_expect_status(0);
    cr_expect_not_null(strstr(support_result.out, "\"removed\":0"), "%s", support_result.out);
}

Test(store_command, a_folder_that_is_not_safe_is_left_alone) {
    const char *folder = filled();
    cr_assert_eq(chmod(folder, 0777), 0);
    static const char *const actions[] = {"list", "verify", "clear"};
    for (int i = 0; i < 3; i++) {
        CACHE(actions[i]);
        support_expect_status(1);
        cr_expect_not_null(strstr(support_result.err, "others may write it"), "%s", support_result.err);
    }
    cr_expect_eq(support_store_count(folder, ".ffn"), 3);
}

/* Runs a small FFN; where its kernel came from, and the digest of its output (both in static storage). */
static const char *source_of_run(const char *folder, char *bits) {
    static char source[32];
    RUN("run", "d16-f32-gelu-bias", "--store", folder, "--json");
    support_expect_status(0);
    cJSON *line = cJSON_Parse(support_result.out);
    cr_assert_not_null(line);
    snprintf(source, sizeof source, "%s", text_of(line, "source"));
    snprintf(bits, 32, "%s", text_of(line, "bits"));
    cJSON_Delete(line);
    return source;
}

Test(store_command, run_keeps_its_kernel_and_finds_it_again_with_the_same_bits) {
    if (ffn_isa_best() == FFN_ISA_PORTABLE)
        cr_skip_test("nothing is compiled here");
    const char *folder = support_store_path(support_store_scratch(), "ffngen");
    char compiled[32], found[32];
    cr_expect_str_eq(source_of_run(folder, compiled), "compiled");
    cr_expect_str_eq(source_of_run(folder, found), "disk");
    cr_expect_str_eq(found, compiled);
    cr_expect_str_eq(source_of_run("off", found), "compiled");
    const char *path = support_store_path(folder, support_store_entry(folder));
    cr_assert_eq(truncate(path, 9000), 0);
    cr_expect_str_eq(source_of_run(folder, found), "compiled", "a damaged entry served");
    cr_expect_str_eq(source_of_run(folder, found), "disk", "it was not replaced");
    cr_expect_str_eq(found, compiled);
    cr_expect_null(strstr(support_result.err, "disk store"), "%s", support_result.err);
    cr_expect_str_eq(source_of_run("/proc/ffngen_store", found), "compiled");
    cr_expect_not_null(strstr(support_result.err, "note: disk store: /proc/ffngen_store"), "%s", support_result.err);
    cr_expect_str_eq(found, compiled);
}

Test(store_command, bad_usage_is_said) {
    static const struct usage {
        const char *arguments[5], *said;
    } usages[] = {{{"cache"}, "list, verify or clear"},
                  {{"cache", "lst"}, "list"},
                  {{"cache", "list", "clear"}, "'clear' is one more"},
                  {{"cache", "list", "--store"}, "--store needs a value"},
                  {{"cache", "list", "--store", ""}, "--store: the value is empty"}};
    for (size_t i = 0; i < sizeof usages / sizeof *usages; i++) {
        support_run(FFN_COMMAND, -1, usages[i].arguments);
        support_expect_status(2);
        cr_expect_not_null(strstr(support_result.err, usages[i].said), "%s", support_result.err);
    }
    int full = open("/dev/full", O_WRONLY);
    const char *folder = filled();
    RUN_TO(full, "cache", "list", "--store", folder);
    support_expect_status(1);
    RUN_TO(full, "cache", "list", "--store", folder, "--json");
    support_expect_status(1);
    RUN_TO(full, "cache", "verify", "--store", folder);
    support_expect_status(1);
    close(full);
}

/* Names in the folder, the folder's own and what damaged entries say come from whoever made them. */
Test(store_command, names_cannot_move_a_cursor_or_split_a_line) {
    static const char name[] = "d8\033[2J\r\nall is well\a.avx2.n1.0123456789abcdef.ffn";
    const char *top = support_store_scratch(), *folder = support_store_path(top, "odd\033[31m\nfolder");
    cr_assert_eq(mkdir(folder, 0700), 0);
    support_write_file(support_store_path(folder, name), "x", 1);
    static const char *const actions[] = {"list", "verify", "clear"};
    for (int i = 0; i < 3; i++) {
        CACHE(actions[i]);
        support_expect_status(i == 1);
        const char *said[] = {support_result.out, support_result.err};
        for (int s = 0; s < 2; s++) {
            for (const char *c = said[s]; *c; c++)
                cr_assert((unsigned char)*c >= 0x20 || *c == '\n', "%s: byte %#x", actions[i], *c);
            cr_expect_null(strstr(said[s], "\nall is well"), "%s", said[s]);
            cr_expect_null(strstr(said[s], "\nfolder"), "%s", said[s]);
        }
        cr_expect_not_null(strstr(support_result.out, "odd?[31m?folder"), "%s", support_result.out);
        if (i < 2)
            cr_expect_not_null(strstr(support_result.out, "d8?[2J??all is well?.avx2.n1."), "%s", support_result.out);
    }
}
