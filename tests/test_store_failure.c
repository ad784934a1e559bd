/* test_store_failure.c: a store that cannot be used is one that never hits: it says so once and nothing else changes */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support_store.h"

TestSuite(store_failure, .timeout = 120);

#define NOBODY 65534
#define SPEC "d64-f256-relu-bias"

static void case_init(store_case *c) {
    ffn_isa isa = ffn_isa_best();
    if (isa == FFN_ISA_PORTABLE)
        cr_skip_test("no generated ISA here: nothing can be found in a store");
    store_case_init(c, SPEC, isa, FFN_N_1, 65536);
}

/* Neither finds nor keeps, and says once why: `why` is part of it. */
static void expect_unusable(const char *folder, const char *why) {
    store_case c;
    case_init(&c);
    store *s = store_create(folder, FFN_STORE_BYTES_DEFAULT);
    cr_assert_not_null(s);
    ffn_bytes found;
    ffn_diag remarks[4];
    int said = 0;
    for (int i = 0; i < 4; i++) {
        remarks[i] = (ffn_diag){.status = FFN_OK};
        if (i % 2 == 0)
            store_keep(s, &c.key, c.image, c.image_bytes, i ? &remarks[i] : NULL); /* nobody heard the first */
        else
            cr_expect_not(store_find(s, &c.key, &found, &remarks[i]));
        if (!*remarks[i].text)
            continue;
        said++;
        cr_expect_eq(remarks[i].status, FFN_OK);
        cr_expect_not_null(strstr(remarks[i].text, why), "\"%s\" says nothing of \"%s\"", remarks[i].text, why);
    }
    cr_expect_eq(said, 1, "said %d times: %s", said, why);
    store_destroy(s);
    store_case_free(&c);
}

static void expect_usable(const char *folder) {
    store_case c;
    case_init(&c);
    store_case_keep(folder, &c);
    cr_expect(store_case_found(folder, &c), "%s", folder ? folder : "the default folder");
    store_case_free(&c);
}

/* ---- Which folder ---- */

Test(store_failure, the_default_folder_follows_the_xdg_rule) {
    char cache[STORE_PATH_BYTES], home[STORE_PATH_BYTES];
    const char *top = support_store_scratch();
    snprintf(cache, sizeof cache, "%s/cache", top);
    snprintf(home, sizeof home, "%s/home", top);
    setenv("XDG_CACHE_HOME", cache, 1);
    setenv("HOME", home, 1);
    expect_usable(NULL);
    cr_expect_eq(support_store_count(support_store_path(cache, "ffngen"), ".ffn"), 1);
    cr_expect_neq(access(home, F_OK), 0);
    setenv("XDG_CACHE_HOME", "relative", 1); /* to be ignored */
    expect_usable(NULL);
    cr_expect_eq(support_store_count(support_store_path(home, ".cache/ffngen"), ".ffn"), 1);
    unsetenv("HOME");
    expect_unusable(NULL, "HOME");
    setenv("HOME", "", 1);
    expect_unusable(NULL, "HOME");
    setenv("HOME", "relative/home", 1);
    setenv("XDG_CACHE_HOME", "", 1);
    expect_unusable(NULL, "HOME");
    cr_expect_neq(access("relative", F_OK), 0);
}

Test(store_failure, a_relative_folder_stays_where_it_was_when_the_program_moves) {
    const char *top = support_store_scratch();
    store_case c;
    case_init(&c);
    char here[STORE_PATH_BYTES];
    cr_assert_not_null(getcwd(here, sizeof here));
    cr_assert_eq(chdir(top), 0);
    store *s = store_create("mine", FFN_STORE_BYTES_DEFAULT);
    cr_assert_eq(chdir(here), 0);
    store_keep(s, &c.key, c.image, c.image_bytes, NULL);
    store_destroy(s);
    cr_expect(store_case_found(support_store_path(top, "mine"), &c));
    store_case_free(&c);
}

Test(store_failure, a_folder_removed_under_a_running_program_is_made_again) {
    const char *folder = support_store_path(support_store_scratch(), "ffngen");
    store_case c;
    case_init(&c);
    store *s = store_create(folder, FFN_STORE_BYTES_DEFAULT);
    ffn_bytes found;
    ffn_diag remark = {.status = FFN_OK};
    store_keep(s, &c.key, c.image, c.image_bytes, &remark);
    cr_assert_eq(unlink(support_store_path(folder, support_store_entry(folder))), 0);
    cr_assert_eq(rmdir(folder), 0);
    cr_expect_not(store_find(s, &c.key, &found, &remark));
    store_keep(s, &c.key, c.image, c.image_bytes, &remark);
    cr_assert(store_find(s, &c.key, &found, &remark));
    found.release(found.data);
    cr_expect(!*remark.text, "%s", remark.text);
    store_destroy(s);
    store_case_free(&c);
}

Test(store_failure, a_folder_that_cannot_be_is_said_once) {
    const char *top = support_store_scratch();
    char path[STORE_PATH_BYTES], long_name[400];
    expect_unusable("", "empty");
    expect_unusable("/", "must not be /");
    expect_unusable("/proc/ffngen_store", "cannot be opened or made");
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    snprintf(path, sizeof path, "%s/%s/ffngen", top, long_name);
    expect_unusable(path, "File name too long");
    support_write_file(support_store_path(top, "file"), "x", 1);
    snprintf(path, sizeof path, "%s/file", top);
    expect_unusable(path, "'file' is not a folder");
    snprintf(path, sizeof path, "%s/file/ffngen", top);
    expect_unusable(path, "'file' is not a folder");
    cr_assert_eq(mkdir(support_store_path(top, "real"), 0700), 0);
    snprintf(path, sizeof path, "%s/link", top);
    cr_assert_eq(symlink("real", path), 0);
    expect_unusable(path, "'link' is not a folder of its own");
    cr_expect_eq(support_store_count(support_store_path(top, "real"), ""), 0, "the link was followed");
    snprintf(path, sizeof path, "%s/link/ffngen//", top);
    expect_usable(path); /* above the folder links are followed */
}

/* ---- Who else may write ---- */

Test(store_failure, a_folder_that_others_may_write_is_refused) {
    const char *folder = support_store_path(support_store_scratch(), "ffngen");
    static const mode_t modes[] = {0770, 0707, 0777, 01777, 0720};
    cr_assert_eq(mkdir(folder, 0700), 0);
    expect_usable(folder);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        cr_assert_eq(chmod(folder, modes[i]), 0);
        expect_unusable(folder, "others may write it");
    }
    cr_assert_eq(chmod(folder, 0755), 0);
    expect_usable(folder);
}

Test(store_failure, a_folder_that_others_could_replace_is_refused) {
    const char *top = support_store_scratch();
    char folder[STORE_PATH_BYTES];
    snprintf(folder, sizeof folder, "%s/shared/mine/ffngen", top);
    const char *shared = support_store_path(top, "shared");
    cr_assert_eq(mkdir(shared, 0700), 0);
    static const mode_t modes[] = {0777, 0770};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        cr_assert_eq(chmod(shared, modes[i]), 0);
        expect_unusable(folder, "'shared' above it");
    }
    cr_assert_eq(chmod(shared, 01777), 0);
    expect_usable(folder);
    if (geteuid() == 0) {
        cr_assert_eq(chown(shared, NOBODY, NOBODY), 0);
        expect_unusable(folder, "'shared' above it (user 65534");
    }
}

Test(store_failure, a_folder_of_another_user_is_refused) {
    if (geteuid() != 0)
        cr_skip_test("only root can give a folder away");
    const char *folder = support_store_path(support_store_scratch(), "ffngen");
    cr_assert_eq(mkdir(folder, 0700), 0);
    expect_usable(folder);
    cr_assert_eq(chown(folder, NOBODY, NOBODY), 0);
    expect_unusable(folder, "belongs to user 65534");
}

/* ---- Nothing can be written, or no more ---- */

/* True once the rest of the process sees mounts of its own. */
static bool own_mounts(void) {
    return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

Test(store_failure, a_read_only_file_system_serves_what_is_there) {
    const char *folder = support_store_path(support_store_scratch(), "ffngen");
    expect_usable(folder);
    if (!own_mounts() || mount(folder, folder, NULL, MS_BIND, NULL) != 0 ||
        mount(NULL, folder, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) != 0)
        cr_skip_test("mounting is not allowed here");
    store_case c, fresh;
    case_init(&c);
    store_case_init(&fresh, "d65-f256-relu", c.plan.isa, FFN_N_1, 4096);
    cr_expect(store_case_found(folder, &c));
    ffn_diag remark = {.status = FFN_SYSTEM};
    store *s = store_create(folder, FFN_STORE_BYTES_DEFAULT);
    store_keep(s, &fresh.key, fresh.image, fresh.image_bytes, &remark);
    cr_expect(remark.status == FFN_OK && strstr(remark.text, "Read-only"), "%s", remark.text);
    store_destroy(s);
    umount2(folder, MNT_DETACH);
    store_case_free(&c);
    store_case_free(&fresh);
}

Test(store_failure, a_full_disk_leaves_no_part_and_is_said_once) {
    const char *folder = support_store_path(support_store_scratch(), "ffngen");
    cr_assert_eq(mkdir(folder, 0700), 0);
    if (!own_mounts() || mount("none", folder, "tmpfs", 0, "size=40k,mode=0700") != 0)
        cr_skip_test("mounting is not allowed here");
    expect_unusable(folder, "No space left");
    cr_expect_eq(support_store_count(folder, ""), 0, "a part of an entry is left");
    store_case small;
    store_case_init(&small, SPEC, ffn_isa_best(), FFN_N_1, 4096);
    store_case_keep(folder, &small);
    cr_expect(store_case_found(folder, &small), "what fits is kept");
    umount2(folder, MNT_DETACH);
    store_case_free(&small);
}

/* A limit on the size of files raises a signal whose default is to end the process. */
Test(store_failure, a_limit_on_file_sizes_is_no_signal) {
    const char *folder = support_store_path(support_store_scratch(), "ffngen");
    struct rlimit before, limit;
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    for (rlim_t most = 0; most <= 65536; most += 16384) {
        limit = (struct rlimit){.rlim_cur = most, .rlim_max = before.rlim_max};
        cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
        expect_unusable(folder, "File too large");
        cr_assert_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
        cr_expect_eq(support_store_count(folder, ""), 0);
    }
    expect_usable(folder);
}

Test(store_failure, no_descriptor_left_is_said_once) {
    const char *folder = support_store_path(support_store_scratch(), "ffngen");
    struct rlimit before, limit;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    int lowest = dup(0);
    close(lowest);
    for (int spare = 0; spare < 2; spare++) {
        limit = (struct rlimit){.rlim_cur = (rlim_t)(lowest + spare), .rlim_max = before.rlim_max};
        cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
        expect_unusable(folder, "Too many open files");
        cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    }
    expect_usable(folder);
    int now = dup(0);
    close(now);
    cr_expect_eq(now, lowest, "descriptors are left open");
}

enum { THREADS = 8 };

static void *ask(void *argument) {
    store_case c;
    store *s = argument;
    case_init(&c);
    intptr_t said = 0;
    for (int i = 0; i < 20; i++) {
        ffn_bytes found;
        ffn_diag remark = {.status = FFN_OK};
        store_find(s, &c.key, &found, &remark);
        said += *remark.text != '\0';
    }
    store_case_free(&c);
    return (void *)said;
}

Test(store_failure, threads_are_told_once_together) {
    const char *top = support_store_scratch();
    support_write_file(support_store_path(top, "file"), "x", 1);
    store *s = store_create(support_store_path(top, "file"), FFN_STORE_BYTES_DEFAULT);
    pthread_t threads[THREADS];
    intptr_t said = 0;
    for (int t = 0; t < THREADS; t++)
        cr_assert_eq(pthread_create(&threads[t], NULL, ask, s), 0);
    for (int t = 0; t < THREADS; t++) {
        void *one;
        pthread_join(threads[t], &one);
        said += (intptr_t)one;
    }
    cr_expect_eq(said, 1);
    store_destroy(s);
}
