/* test_store_killed.c: a writer that is killed leaves nothing that a reader could see, and nothing that stays */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support_data.h"
#include "support_store.h"

TestSuite(store_killed, .timeout = 120);

#define SPEC "d64-f256-relu-bias"

/* ---- Writers that are killed ---- */

enum { PROCESSES = 16, KEYS = 4, KILLS = 120 };

static store_case keys[KEYS];

/* Keeps and finds until it is killed; ends with 1 if it was ever handed other bytes than were kept. */
static void keep_for_ever(const char *folder, int number) {
    store *s = store_create(folder, FFN_STORE_BYTES_DEFAULT);
    for (int round = 0;; round++) {
        store_case *c = &keys[(number + round) % KEYS];
        ffn_bytes found;
        ffn_diag remark = {.status = FFN_OK};
        store_keep(s, &c->key, c->image, c->image_bytes, &remark);
        if (*remark.text)
            _exit(2);
        if (!store_find(s, &c->key, &found, &remark))
            _exit(3); /* kept by somebody and never removed */
        if (found.bytes != c->image_bytes || memcmp(found.data, c->image, found.bytes) != 0)
            _exit(1);
        free(found.data);
    }
}

static pid_t start(const char *folder, int number) {
    fflush(NULL);
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent)
            keep_for_ever(folder, number);
        _exit(4);
    }
    cr_assert_gt(child, 0);
    return child;
}

Test(store_killed, sixteen_processes_killed_at_random_leave_whole_entries_and_nothing_else) {
    char folder[STORE_PATH_BYTES];
    snprintf(folder, sizeof folder, "%s/new/ffngen", support_store_scratch());
    ffn_isa isa = ffn_isa_best();
    if (isa == FFN_ISA_PORTABLE)
        cr_skip_test("no generated ISA here: nothing can be found in a store");
    for (int k = 0; k < KEYS; k++)
        store_case_init(&keys[k], SPEC, isa, (ffn_n_class)k, 1 << 18);
    pid_t children[PROCESSES];
    for (int i = 0; i < PROCESSES; i++)
        children[i] = start(folder, i);
    support_rng random = {20};
    int seen_temporary = 0;
    for (int kill_number = 0; kill_number < KILLS; kill_number++) {
        struct timespec pause = {.tv_nsec = support_between(&random, 0, 8000000)};
        nanosleep(&pause, NULL);
        int i = (int)support_between(&random, 0, PROCESSES - 1), status;
        kill(children[i], SIGKILL);
        cr_assert_eq(waitpid(children[i], &status, 0), children[i]);
        cr_assert(WIFSIGNALED(status), "a writer ended by itself with %d", WEXITSTATUS(status));
        seen_temporary += support_store_count(folder, "") > support_store_count(folder, ".ffn");
        children[i] = start(folder, i);
    }
    for (int i = 0; i < PROCESSES; i++)
        kill(children[i], SIGKILL);
    for (int i = 0; i < PROCESSES; i++)
        waitpid(children[i], NULL, 0);
    cr_expect_gt(seen_temporary, 0, "nobody was ever in the middle of writing");
    store_case_keep(folder, &keys[0]);
    for (int k = 0; k < KEYS; k++)
        cr_expect(store_case_found(folder, &keys[k]), "key %d", k);
    cr_expect_eq(support_store_count(folder, ""), KEYS, "killed writers left something");
    for (int k = 0; k < KEYS; k++)
        store_case_free(&keys[k]);
}

/* ---- Temporary files ---- */

enum { TEMPORARIES = 7 };

static void keep_one(const char *folder) {
    store_case c;
    store_case_init(&c, SPEC, FFN_ISA_AVX2, FFN_N_1, 4096);
    store_case_keep(folder, &c);
    store_case_free(&c);
}

static void make_temporary(const char *folder, const char *name, int64_t age) {
    char path[STORE_PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    support_write_file(path, "half", 4);
    struct timespec now, times[2];
    clock_gettime(CLOCK_REALTIME, &now);
    times[0] = times[1] = (struct timespec){.tv_sec = now.tv_sec - age};
    cr_assert_eq(utimensat(AT_FDCWD, path, times, 0), 0);
}

Test(store_killed, only_temporary_files_nobody_writes_are_swept) {
    const char *folder = support_store_path(support_store_scratch(), "ffngen");
    keep_one(folder);
    pid_t gone = fork();
    if (gone == 0)
        _exit(0);
    waitpid(gone, NULL, 0);
    char names[TEMPORARIES][64];
    const int64_t ages[TEMPORARIES] = {0, 0, 4000, 1000000, 1000000, 1000000, 1000000};
    snprintf(names[0], sizeof names[0], ".tmp.%d.0123456789abcdef", (int)gone);     /* its writer is gone */
    snprintf(names[1], sizeof names[1], ".tmp.%d.0123456789abcdef", (int)getpid()); /* its writer lives */
    snprintf(names[2], sizeof names[2], ".tmp.%d.1123456789abcdef", (int)getpid()); /* too old to be written */
    snprintf(names[3], sizeof names[3], ".tmp.%d.2123456789abcdef", (int)getpid()); /* old, but held */
    snprintf(names[4], sizeof names[4], ".tmp.notes");                              /* not ours */
    snprintf(names[5], sizeof names[5], ".tmp.%d.0123456789abcdeg", (int)gone);     /* not ours */
    snprintf(names[6], sizeof names[6], ".tmp.%d.0123456789abcdef.bak", (int)gone); /* not ours */
    static const bool swept[TEMPORARIES] = {true, false, true, false, false, false, false};
    for (int i = 0; i < TEMPORARIES; i++)
        make_temporary(folder, names[i], ages[i]);
    int held = open(support_store_path(folder, names[3]), O_RDONLY);
    cr_assert_eq(flock(held, LOCK_EX), 0);
    keep_one(folder);
    for (int i = 0; i < TEMPORARIES; i++)
        cr_expect_eq(access(support_store_path(folder, names[i]), F_OK) != 0, swept[i], "%s", names[i]);
    close(held);
    keep_one(folder);
    cr_expect_neq(access(support_store_path(folder, names[3]), F_OK), 0, "let go, it is swept");
}
