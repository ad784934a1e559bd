/* test_tune_log.c: results are in the log when they are told, whatever ends the
 * tuner; a log that is torn or bad is told so */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support_command.h"
#include "support_data.h"
#include "support_files.h"
#include "tune_log.h"

static void begin(void) {
    support_folder_make();
    setenv("XDG_CONFIG_HOME", support_path("config"), 1);
    setenv("XDG_CACHE_HOME", support_path("cache"), 1);
    setenv("XDG_STATE_HOME", support_path("state"), 1);
    setenv("TMPDIR", support_path("."), 1);
}

TestSuite(tune_log, .timeout = 120, .init = begin, .fini = support_folder_remove);

static tune_record some_record(int i) {
    tune_record r = {.spec = support_spec("d64-f256-act(x*sigmoid(1.702*x))"),
                     .isa = FFN_ISA_AVX2,
                     .n = 2 + (i + 1) % 3,
                     .threads = 2,
                     .cold = i % 2,
                     .grid = "grid-7",
                     .machine = "A \"machine\", with\\signs",
                     .llvm = "19.1.7",
                     .generator = "0.1.0",
                     .source = "generator 12, LLVM 19",
                     .plan = "avx2 2-4 m4 f256 k64 u4 p0 4x1 1x1",
                     .reference = "avx2 2-4 m8 f256 k64 u4 p0 4x1 1x1",
                     .figures = {5, 0.0125, 0.013, 0.07, 0.0135, 0.96, 0.95, 0.97, 0},
                     .gflops = 42.5,
                     .busy = 0.02,
                     .verified = true,
                     .winner = i == 2,
                     .date = "2026-11-30T12:00:00Z"};
    if (i == 1) {
        r.state = TUNE_CRASHED;
        strcpy(r.reason, "its process died: Illegal instruction");
        r.figures = (tune_figures){0};
        r.gflops = r.busy = 0;
        r.reference[0] = '\0';
    }
    return r;
}

static tune_log *open_log(const char *path, bool read, bool torn_wanted) {
    tune_log *log = NULL;
    ffn_diag diag = {0};
    bool torn;
    cr_assert_eq(tune_log_open(path, read, &log, &torn, &diag), FFN_OK, "%s", diag.text);
    cr_expect_eq(torn, torn_wanted);
    return log;
}

static void append(tune_log *log, int i) {
    ffn_diag diag = {0};
    const tune_record r = some_record(i);
    cr_assert_eq(tune_log_append(log, &r, &diag), FFN_OK, "%s", diag.text);
}

static void append_text(const char *path, const char *text) {
    FILE *file = fopen(path, "a");
    cr_assert(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

Test(tune_log, what_is_added_is_read_back) {
    const char *path = support_path("log");
    tune_log *log = open_log(path, true, false);
    cr_expect_null(tune_log_at(log, 0));
    for (int i = 0; i < 3; i++)
        append(log, i);
    tune_log_close(log);
    log = open_log(path, true, false);
    for (int i = 0; i < 3; i++) {
        const tune_record *got = tune_log_at(log, (size_t)i), want = some_record(i);
        cr_assert_not_null(got);
        cr_expect(tune_record_alike(got, &want), "record %d", i);
        cr_expect_eq(got->state, want.state);
        cr_expect_str_eq(got->plan, want.plan);
        cr_expect_str_eq(got->reference, want.reference);
        cr_expect_str_eq(got->reason, want.reason);
        cr_expect_str_eq(got->grid, want.grid);
        cr_expect_str_eq(got->date, want.date);
        cr_expect_eq(got->winner, want.winner);
        cr_expect_eq(got->verified, want.verified);
        cr_expect_eq(memcmp(&got->figures, &want.figures, sizeof want.figures), 0, "figures of record %d", i);
        cr_expect_float_eq(got->gflops, want.gflops, 1e-9);
    }
    cr_expect_null(tune_log_at(log, 3));
    tune_log_close(log);
}

Test(tune_log, a_record_of_other_circumstances_is_not_alike) {
    const tune_record a = some_record(0);
    tune_record b = a;
    cr_expect(tune_record_alike(&a, &b));
    b.n++;
    cr_expect_not(tune_record_alike(&a, &b));
    b = a, b.threads++;
    cr_expect_not(tune_record_alike(&a, &b));
    b = a, b.cold = !b.cold;
    cr_expect_not(tune_record_alike(&a, &b));
    b = a, b.isa = FFN_ISA_NEON;
    cr_expect_not(tune_record_alike(&a, &b));
    b = a, strcpy(b.machine, "another");
    cr_expect_not(tune_record_alike(&a, &b));
    b = a, strcpy(b.llvm, "18.1.0");
    cr_expect_not(tune_record_alike(&a, &b));
    b = a, strcpy(b.generator, "0.0.9");
    cr_expect_not(tune_record_alike(&a, &b));
    b = a, strcpy(b.source, "generator 13");
    cr_expect_not(tune_record_alike(&a, &b));
    b = a, b.spec.d_ff++;
    cr_expect_not(tune_record_alike(&a, &b));
}

Test(tune_log, a_torn_last_line_goes_and_the_next_one_is_whole) {
    for (int read = 0; read < 2; read++) {
        const char *path = support_path(read ? "read" : "added");
        tune_log *log = open_log(path, true, false);
        append(log, 0);
        tune_log_close(log);
        append_text(path, "{\"spec\":\"d64-f256-relu\",\"isa\":\"av");
        log = open_log(path, read, true);
        append(log, 1);
        tune_log_close(log);
        log = open_log(path, true, false);
        cr_expect_not_null(tune_log_at(log, 1));
        cr_expect_null(tune_log_at(log, 2));
        tune_log_close(log);
    }
    const char *path = support_path("nothing but");
    append_text(path, "{\"spec\"");
    tune_log_close(open_log(path, true, true));
    struct stat is;
    cr_assert_eq(stat(path, &is), 0);
    cr_expect_eq(is.st_size, 0);
}

Test(tune_log, a_bad_line_is_named_and_the_file_left_alone) {
    const struct {
        const char *from, *to, *named;
    } table[] = {{"{", "[", "no JSON object"},
                 {"\"n\":4", "\"n\":0", "n is wanted as a count"},
                 {"\"n\":4", "\"n\":4.5", "n is wanted as a count"},
                 {"\"isa\":\"avx2\"", "\"isa\":\"avx3\"", "isa"},
                 {"\"isa\":\"avx2\",", "", "isa is wanted"},
                 {"\"status\":\"crashed\"", "\"status\":\"bored\"", "status 'bored'"},
                 {"\"cold\":true", "\"cold\":1", "cold is wanted as true or false"},
                 {"4x1 1x1", "4x1 1y1", "plan"},
                 {"\"plan\":\"avx2 ", "\"plan\":\"avx512 ", "is none for isa avx2"},
                 {"\"n_class\":\"2-4\"", "\"n_class\":\"17+\"", "and that n_class"},
                 {"d64-f256", "d64-g256", "spec"},
                 {"\"date\":\"2026-11-30T12:00:00Z\"",
                  "\"date\":\"2026-11-30T12:00:00Z and much more than fits there\"", "date"}};
    const char *path = support_path("good");
    tune_log *log = open_log(path, true, false);
    for (int i = 0; i < 3; i++)
        append(log, i);
    tune_log_close(log);
    size_t bytes;
    char *good = support_file_read(path, &bytes);
    char *text = strndup(good, bytes);
    free(good);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char *second = strchr(text, '\n') + 1, *at = strstr(second, table[i].from), *bad = NULL;
        cr_assert(at, "%s", table[i].from);
        int length = asprintf(&bad, "%.*s%s%s", (int)(at - text), text, table[i].to, at + strlen(table[i].from));
        const char *file = support_path("bad");
        support_file_write(file, bad, (size_t)length);
        ffn_diag diag = {0};
        bool torn;
        tune_log *none = NULL;
        cr_expect_eq(tune_log_open(file, true, &none, &torn, &diag), FFN_BAD_FILE, "%s", table[i].to);
        cr_expect_null(none);
        cr_expect(strstr(diag.text, "bad:2: ") && strstr(diag.text, table[i].named), "%s: %s", table[i].to, diag.text);
        support_file_expect(file, bad, (size_t)length, "the bad log");
        free(bad);
    }
    free(text);
}

Test(tune_log, two_at_once_are_not_let_in) {
    const char *path = support_path("log");
    tune_log *log = open_log(path, true, false), *second = NULL;
    ffn_diag diag = {0};
    bool torn;
    cr_expect_eq(tune_log_open(path, true, &second, &torn, &diag), FFN_SYSTEM);
    cr_expect(strstr(diag.text, "another ffngen tune"), "%s", diag.text);
    append(log, 0);
    tune_log_close(log);
    tune_log_close(open_log(path, true, false));
}

Test(tune_log, a_line_that_does_not_fit_leaves_none_behind) {
    const char *path = support_path("log");
    tune_log *log = open_log(path, true, false);
    append(log, 0);
    struct stat before, after;
    cr_assert_eq(stat(path, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    const struct rlimit most = {(rlim_t)before.st_size + 40, RLIM_INFINITY};
    struct rlimit old;
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &most), 0);
    const tune_record r = some_record(1);
    ffn_diag diag = {0};
    cr_expect_eq(tune_log_append(log, &r, &diag), FFN_SYSTEM);
    setrlimit(RLIMIT_FSIZE, &old);
    cr_assert_eq(stat(path, &after), 0);
    cr_expect_eq(after.st_size, before.st_size);
    append(log, 2);
    tune_log_close(log);
    log = open_log(path, true, false);
    cr_expect_not_null(tune_log_at(log, 1));
    tune_log_close(log);
}

/* ---- The command, killed ---- */

static size_t count_lines(const char *path) {
    FILE *file = fopen(path, "r");
    size_t lines = 0;
    for (int c; file && (c = getc(file)) != EOF;)
        lines += c == '\n';
    if (file)
        fclose(file);
    return lines;
}

/* `what` in the file, or in the part of it from the line `from` on. */
static int count_in(const char *path, const char *what, size_t from) {
    size_t bytes;
    char *data = support_file_read(path, &bytes), *text = strndup(data, bytes), *at = text;
    int count = 0;
    for (size_t i = 0; i < from && at; i++)
        at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL;
    while (at && (at = strstr(at, what)) != NULL)
        count++, at++;
    free(data);
    free(text);
    return count;
}

Test(tune_log, a_killed_tuner_loses_nothing_that_it_had_finished) {
    if (ffn_isa_best() == FFN_ISA_PORTABLE)
        cr_skip_test("no generated ISA here: there is nothing to tune");
    char log[256];
    snprintf(log, sizeof log, "%s", support_path("killed.jsonl"));
    fflush(NULL);
    pid_t parent = getpid(), tuner = fork();
    if (tuner == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int quiet = open("/dev/null", O_RDWR);
        dup2(quiet, STDOUT_FILENO);
        dup2(quiet, STDERR_FILENO);
        const char *command = getenv("FFNGEN") ? getenv("FFNGEN") : FFN_COMMAND;
        if (getppid() == parent)
            execl(command, "ffngen", "tune", "d64-f128-relu", "--n", "1", "--budget", "60", "--log", log, (char *)NULL);
        _exit(126);
    }
    int status;
    for (int i = 0; i < 3000 && count_lines(log) < 6; i++)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    kill(tuner, SIGKILL);
    cr_assert_eq(waitpid(tuner, &status, 0), tuner);
    cr_assert(WIFSIGNALED(status), "it ended by itself with %d", WEXITSTATUS(status));
    size_t finished = count_lines(log);
    cr_assert_geq(finished, 6);

    /* Its child holds no lock, and goes on with nothing. The reference alone is
     * screened anew: finals have more rounds than screening, where the budget
     * does not cut them. */
    RUN("tune", "d64-f128-relu", "--n", "1", "--budget", "60", "--log", log, "--resume", "--json");
    support_expect_status(0);
    cr_expect(strstr(support_result.out, "\"winner\":true"), "%s", support_result.out);
    tune_log *read = open_log(log, true, false);
    int screened_again = 0;
    for (size_t i = 1; i < finished; i++) {
        const tune_record *old = tune_log_at(read, i);
        for (size_t j = finished; tune_log_at(read, j); j++) {
            const tune_record *newer = tune_log_at(read, j);
            screened_again += !strcmp(old->plan, newer->plan) && newer->figures.rounds == 3 && !newer->winner &&
                              strcmp(newer->plan, newer->reference) != 0;
        }
    }
    cr_expect_eq(screened_again, 0);
    tune_log_close(read);

    /* And now that it has ended there is nothing left to do. */
    size_t lines = count_lines(log);
    RUN("tune", "d64-f128-relu", "--n", "1", "--budget", "60", "--log", log, "--resume", "--json");
    support_expect_status(0);
    cr_expect(strstr(support_result.out, "\"winner\":true"), "%s", support_result.out);
    cr_expect_eq(count_lines(log), lines);
    cr_expect_eq(count_in(log, "\"winner\":true", 0), 1);
}

Test(tune_log, an_interrupt_ends_cleanly_and_keeps_the_results) {
    if (ffn_isa_best() == FFN_ISA_PORTABLE)
        cr_skip_test("no generated ISA here: there is nothing to tune");
    char log[256], folder[256];
    snprintf(log, sizeof log, "%s", support_path("stopped.jsonl"));
    snprintf(folder, sizeof folder, "%s", support_path("temporary"));
    cr_assert_eq(mkdir(folder, 0700), 0);
    fflush(NULL);
    pid_t parent = getpid(), tuner = fork();
    if (tuner == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setenv("TMPDIR", folder, 1);
        int quiet = open("/dev/null", O_RDWR);
        dup2(quiet, STDOUT_FILENO);
        dup2(quiet, STDERR_FILENO);
        const char *command = getenv("FFNGEN") ? getenv("FFNGEN") : FFN_COMMAND;
        if (getppid() == parent)
            execl(command, "ffngen", "tune", "d64-f128-relu", "--budget", "60", "--log", log, (char *)NULL);
        _exit(126);
    }
    int status;
    for (int i = 0; i < 3000 && count_lines(log) < 3; i++)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    kill(tuner, SIGINT);
    cr_assert_eq(waitpid(tuner, &status, 0), tuner);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 1, "status %x", (unsigned)status);
    cr_expect_eq(rmdir(folder), 0, "images are left");
    tune_log_close(open_log(log, true, false));
    cr_expect_geq(count_lines(log), 3);
}
