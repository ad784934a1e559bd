/* Weights into a file: whole or not at all, whatever the system and other processes do; little memory. */
#define _GNU_SOURCE
#include "packed_file.h"
#include "support_data.h"
#include "support_files.h"
#include "weights.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(pack_file, .init = support_folder_make, .fini = support_folder_remove, .timeout = 120);

/* ---- Faults of the system ----
 *
 * The functions below stand before the C library's own for all that is linked into this program. */

typedef enum point { NO_CALL, PWRITE, FSYNC, CLOSE, RENAME } point;

static struct {
    point call;
    int number; /* of that call, from 1 */
    int error;  /* 0: pwrite does half of what was asked for */
    int count;
} fault;

static bool fails(point call) {
    if (fault.call != call || ++fault.count != fault.number)
        return false;
    errno = fault.error;
    return true;
}

ssize_t pwrite(int file, const void *data, size_t bytes, off_t at) {
    const bool failed = fails(PWRITE);
    if (failed && fault.error != 0)
        return -1;
    return syscall(SYS_pwrite64, file, data, failed ? (bytes + 1) / 2 : bytes, at);
}

int fsync(int file) {
    return fails(FSYNC) ? -1 : (int)syscall(SYS_fsync, file);
}

int close(int file) {
    const int status = (int)syscall(SYS_close, file);
    return fails(CLOSE) ? -1 : status;
}

int rename(const char *from, const char *to) {
    return fails(RENAME) ? -1 : renameat(AT_FDCWD, from, AT_FDCWD, to);
}

static ffn_status pack_to(const char *path, uint64_t seed, ffn_diag *diag) {
    const ffn_spec spec = support_spec("d40-f72-swiglu-bias");
    support_weights *w = support_random_weights(&spec, SUPPORT_NORMAL, seed);
    const ffn_status status = ffn_pack_file(&spec, &w->weights, path, diag);
    support_weights_free(w);
    return status;
}

/* The number that the next descriptor gets. */
static int next_descriptor(void) {
    const int file = dup(STDERR_FILENO);
    close(file);
    return file;
}

Test(pack_file, that_fails_anywhere_leaves_the_old_one_and_nothing_else) {
    const struct {
        point call;
        int number, error;
    } faults[] = {{PWRITE, 1, ENOSPC}, {PWRITE, 2, ENOSPC}, {PWRITE, 1, EDQUOT},
                  {FSYNC, 1, EIO},     {CLOSE, 1, EIO},     {RENAME, 1, EACCES}};
    const char *path = support_path("weights.ffnw");
    size_t bytes = 0;
    cr_assert_eq(pack_to(path, 1, NULL), FFN_OK);
    void *before = support_file_read(path, &bytes);
    const int descriptor = next_descriptor();
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        ffn_diag diag = {0};
        fault.call = faults[i].call;
        fault.number = faults[i].number;
        fault.error = faults[i].error;
        fault.count = 0;
        const ffn_status status = pack_to(path, 2, &diag);
        fault.call = NO_CALL;
        cr_expect_eq(status, FFN_SYSTEM, "fault %zu: %d", i, (int)status);
        cr_expect(strstr(diag.text, "weights.ffnw") && strstr(diag.text, strerror(faults[i].error)), "fault %zu: %s", i,
                  diag.text);
        support_file_expect(path, before, bytes, "the old file");
        cr_expect_eq(support_folder_count(), 1, "fault %zu", i);
        cr_expect_eq(next_descriptor(), descriptor, "fault %zu", i);
    }
    free(before);
}

Test(pack_file, goes_on_after_a_short_write_and_an_interrupted_one) {
    const char *path = support_path("w.ffnw");
    size_t bytes = 0;
    cr_assert_eq(pack_to(path, 1, NULL), FFN_OK);
    void *right = support_file_read(path, &bytes);
    for (int number = 1; number <= 2; number++)
        for (int interrupted = 0; interrupted < 2; interrupted++) {
            fault.call = PWRITE;
            fault.number = number;
            fault.error = interrupted ? EINTR : 0;
            fault.count = 0;
            unlink(path);
            cr_assert_eq(pack_to(path, 1, NULL), FFN_OK);
            cr_expect_geq(fault.count, 3);
            fault.call = NO_CALL;
            support_file_expect(path, right, bytes, interrupted ? "interrupted" : "short");
        }
    free(right);
}

static volatile sig_atomic_t signals;

static void count_signal(int number) {
    (void)number;
    signals++;
}

static bool is_pending(int number) {
    sigset_t pending;
    return sigpending(&pending) == 0 && sigismember(&pending, number) == 1;
}

/* The limit on a file's size is a full disk for everybody, root too; and it raises a signal whose default is to end the
 * process. */
static void expect_no_room(void) {
    const struct rlimit limit = {4097, RLIM_INFINITY};
    struct rlimit before;
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    ffn_diag diag = {0};
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){limit.rlim_cur, before.rlim_max});
    const ffn_status status = pack_to(support_path("weights.ffnw"), 1, &diag);
    setrlimit(RLIMIT_FSIZE, &before);
    cr_expect_eq(status, FFN_SYSTEM);
    cr_expect(strstr(diag.text, "weights.ffnw cannot be written: File too large"), "%s", diag.text);
    cr_expect_eq(support_folder_count(), 0);
}

Test(pack_file, that_finds_no_room_says_so_and_leaves_nothing) {
    sigset_t mask;
    expect_no_room(); /* the default: to be still here is the test */
    signal(SIGXFSZ, SIG_IGN);
    expect_no_room();
    signal(SIGXFSZ, count_signal);
    expect_no_room();
    cr_expect_eq(signals, 0, "the program's handler was called");
    cr_expect_not(is_pending(SIGXFSZ));
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    cr_expect_eq(sigismember(&mask, SIGXFSZ), 0, "the signal stays blocked");
}

Test(pack_file, that_finds_no_room_leaves_a_signal_of_the_programs_pending) {
    sigset_t limit;
    sigemptyset(&limit);
    sigaddset(&limit, SIGXFSZ);
    signal(SIGXFSZ, count_signal);
    pthread_sigmask(SIG_BLOCK, &limit, NULL);
    expect_no_room();
    cr_expect_not(is_pending(SIGXFSZ));
    raise(SIGXFSZ);
    expect_no_room();
    cr_expect(is_pending(SIGXFSZ));
    pthread_sigmask(SIG_UNBLOCK, &limit, NULL);
    cr_expect_eq(signals, 1);
}

/* ---- Targets ---- */

static void refuse_target(const char *path, ffn_status wanted, const char *words) {
    struct stat before = {.st_mode = 0}, after = {.st_mode = 0};
    const int names = support_folder_count();
    const bool there = lstat(path, &before) == 0;
    ffn_diag diag = {0};
    const ffn_status status = pack_to(path, 1, &diag);
    cr_expect_eq(status, wanted, "%s: status %d, %s", path, (int)status, diag.text);
    cr_expect(strstr(diag.text, words), "\"%s\" lacks \"%s\"", diag.text, words);
    cr_expect_eq(lstat(path, &after) == 0, there);
    cr_expect(before.st_mode == after.st_mode && before.st_ino == after.st_ino, "%s is another now", path);
    cr_expect_eq(support_folder_count(), names);
}

Test(pack_file, replaces_nothing_but_regular_files) {
    cr_assert(mkfifo(support_path("pipe"), 0600) == 0 && mkdir(support_path("folder"), 0700) == 0);
    cr_assert_eq(symlink("nowhere", support_path("dangling")), 0);
    refuse_target(support_path("folder"), FFN_BAD_ARGUMENT, "folder is a folder");
    refuse_target(support_path("pipe"), FFN_BAD_ARGUMENT, "pipe is a pipe");
    refuse_target(support_path("dangling"), FFN_BAD_ARGUMENT, "leads nowhere");
    refuse_target(support_path("none/w.ffnw"), FFN_SYSTEM, "No such file or directory");
    refuse_target(support_path("pipe/w.ffnw"), FFN_SYSTEM, "Not a directory");
    refuse_target(support_path("none/"), FFN_SYSTEM, "No such file or directory");
    refuse_target("", FFN_SYSTEM, "No such file or directory");
    if (mknod(support_path("device"), S_IFCHR | 0600, makedev(1, 3)) == 0) /* as root alone */
        refuse_target(support_path("device"), FFN_BAD_ARGUMENT, "device is a device");
}

Test(pack_file, follows_a_link_and_leaves_it_a_link) {
    const char *path = support_path("w.ffnw"), *link = support_path("link");
    struct stat info;
    cr_assert(pack_to(path, 1, NULL) == FFN_OK && symlink("w.ffnw", link) == 0);
    cr_assert_eq(pack_to(link, 2, NULL), FFN_OK);
    cr_expect(lstat(link, &info) == 0 && S_ISLNK(info.st_mode));
    size_t bytes = 0;
    cr_assert_eq(pack_to(support_path("other"), 2, NULL), FFN_OK);
    void *right = support_file_read(support_path("other"), &bytes);
    support_file_expect(path, right, bytes, "what the link names");
    free(right);
}

Test(pack_file, has_the_mode_that_the_umask_leaves) {
    static const mode_t masks[] = {022, 027, 077, 0};
    struct stat info;
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        const mode_t before = umask(masks[i]);
        const ffn_status status = pack_to(support_path("w.ffnw"), 1, NULL);
        umask(before);
        cr_assert(status == FFN_OK && stat(support_path("w.ffnw"), &info) == 0);
        cr_expect_eq(info.st_mode & 07777, 0666 & ~masks[i], "umask %o: %o", masks[i], info.st_mode & 07777);
    }
}

Test(pack_file, over_a_mapped_one_leaves_the_map_as_it_was) {
    const ffn_spec spec = support_spec("d40-f72-swiglu-bias");
    const char *path = support_path("w.ffnw");
    const void *packed = NULL;
    size_t bytes = 0;
    cr_assert_eq(pack_to(path, 1, NULL), FFN_OK);
    cr_assert_eq(ffn_packed_map(&spec, path, &packed, &bytes, NULL), FFN_OK);
    const packed_header before = *(const packed_header *)packed;
    cr_assert_eq(pack_to(path, 2, NULL), FFN_OK);
    cr_expect_eq(memcmp(&before, packed, sizeof before), 0);
    cr_expect_eq(ffn_packed_check(&spec, packed, bytes, NULL), FFN_OK);
    ffn_packed_unmap(packed, bytes);
}

/* Ends with its parent too, which a failed check may end. */
static _Noreturn void write_until_killed(const char *path) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (uint64_t seed = 1; seed < 100000 && getppid() != 1; seed++)
        pack_to(path, seed, NULL);
    _exit(0);
}

/* Writers that are killed at any moment: a reader sees a whole file or none. */
Test(pack_file, is_whole_for_readers_whatever_happens_to_its_writers) {
    const ffn_spec spec = support_spec("d40-f72-swiglu-bias");
    const char *path = support_path("w.ffnw");
    support_rng rng = {11};
    int seen = 0;
    for (int round = 0; round < 40; round++) {
        pid_t writers[3];
        for (int i = 0; i < 3; i++)
            if ((writers[i] = fork()) == 0)
                write_until_killed(path);
        for (int64_t looks = support_between(&rng, 0, 200); looks-- > 0;) {
            const void *packed = NULL;
            size_t bytes = 0;
            ffn_diag diag = {0};
            const ffn_status status = ffn_packed_map(&spec, path, &packed, &bytes, &diag);
            if (status == FFN_SYSTEM && strstr(diag.text, "No such file"))
                continue;
            cr_assert_eq(status, FFN_OK, "%s", diag.text);
            cr_assert_eq(ffn_packed_check(&spec, packed, bytes, &diag), FFN_OK, "%s", diag.text);
            ffn_packed_unmap(packed, bytes);
            seen++;
        }
        for (int i = 0; i < 3; i++) {
            kill(writers[i], SIGKILL);
            waitpid(writers[i], NULL, 0);
        }
    }
    cr_expect_gt(seen, 100);
}

/* ---- Memory ---- */

/* The peak of this process's resident memory in KiB, everything counted: code, heap, pages of mapped files. */
static long peak_kib(void) {
    struct rusage usage;
    cr_assert_eq(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_maxrss;
}

/* In a child, whose peak starts anew. 16 MiB above the packed size in all, the whole mapped input counted in. */
Test(pack_file, from_mapped_f32_needs_the_input_and_little_more) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    cr_skip_test("a sanitizer's own memory would be counted");
#endif
    const ffn_spec spec = support_spec("d1024-f4096-swiglu");
    const char *from = support_path("w.safetensors");
    support_safetensors_write(from, &spec, &(support_tensors){.dtype = "F32", .layout = FFN_OUT_IN, .zeros = true}, 1);
    size_t bytes = 0;
    ffn_packed_bytes(&spec, &bytes, NULL);
    const pid_t child = fork();
    if (child == 0) {
        const weights_options options = {.layout = "out_in"};
        weights_file *file;
        if (weights_open(&spec, from, &options, &file, NULL) != FFN_OK ||
            ffn_pack_file(&spec, weights_of(file), support_path("w.ffnw"), NULL) != FFN_OK)
            _exit(2);
        const long peak = peak_kib();
        fprintf(stderr, "peak %ld KiB, packed %zu KiB\n", peak, bytes / 1024);
        _exit(peak < (long)(bytes / 1024) + 16 * 1024 ? 0 : 1);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect_eq(status, 0, "status %d", WEXITSTATUS(status));
}
