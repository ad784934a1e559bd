/* test_tune_worker.c: code that crashes, loops for ever or is wrong costs its
 * own candidate and nothing else
 *
 * Real images, spoilt where the plan's m_block says so, are made, verified and
 * timed in real child processes. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ffngen.h"
#include "support_data.h"
#include "support_files.h"
#include "support_image.h"
#include "tune_weights.h"
#include "tune_worker.h"

TestSuite(tune_worker, .timeout = 120, .init = support_folder_make, .fini = support_folder_remove);

#define SPEC "d64-f96-gelu-bias"
#define N 3

/* Of m_block, added to a round number. */
enum { RIGHT, TRAP, LOOP, BUILD_ABORTS, BUILD_HANGS, BUILD_EXITS, OTHER_ACTIVATION, DAMAGED, REFUSED, KINDS };

static int *builds; /* shared with the children */

static ffn_status build_spoilt(void *self, const ffn_spec *spec, const ffn_plan *plan, ffn_bytes *made,
                               ffn_diag *diag) {
    (void)self;
    static const unsigned char codes[][2] = {[TRAP] = {0x0f, 0x0b}, [LOOP] = {0xeb, 0xfe}}; /* ud2; jmp to itself */
    int kind = (int)(plan->m_block % KINDS);
    ++*builds;
    ffn_spec built = *spec;
    if (kind == BUILD_ABORTS)
        abort();
    if (kind == BUILD_EXITS)
        _exit(3);
    while (kind == BUILD_HANGS)
        pause();
    if (kind == REFUSED) {
        snprintf(diag->text, sizeof diag->text, "no such plan today");
        return FFN_UNSUPPORTED;
    }
    if (kind == OTHER_ACTIVATION)
        built = support_spec("d64-f96-gelu_tanh-bias");
    ffn_status status = ffngen_emit(&built, plan, FFNGEN_IMAGE, made, diag);
    if (status || kind == RIGHT)
        return status;
    image_header *header = made->data;
    header->spec = *spec;
    for (int e = 0; e < IMAGE_ENTRIES && (kind == TRAP || kind == LOOP); e++)
        memcpy((char *)made->data + header->entries[e], codes[kind], 2);
    support_image_seal(made->data, made->bytes);
    if (kind == DAMAGED)
        ((char *)made->data)[made->bytes - 1] ^= 1;
    return FFN_OK;
}

static const ffn_source spoilt = {.build = build_spoilt, .identity = "test_tune_worker 1"};

typedef struct bed {
    ffn_spec spec;
    ffn_machine machine;
    bench_copies packed;
    tune_setup setup;
    tune_worker *worker;
    tune_lab lab;
    ffn_plan plan;
    char reason[TUNE_REASON_BYTES];
} bed;

static volatile sig_atomic_t stopping;

static void begin(bed *b, int32_t threads) {
    if (!support_image_possible())
        cr_skip_test("no generated ISA of x86-64 here: spoilt images cannot run");
    setenv("TMPDIR", support_path("."), 1);
    builds = mmap(NULL, sizeof *builds, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(builds, MAP_FAILED);
    *b = (bed){.spec = support_spec(SPEC)};
    ffn_machine_read(&b->machine);
    ffn_diag diag;
    cr_assert_eq(tune_weights_make(&b->spec, false, &b->machine, &b->packed, &diag), FFN_OK, "%s", diag.text);
    cr_assert_eq(ffn_plan_make(&b->spec, ffn_isa_best(), ffn_n_class_of(N), &b->machine, &b->plan, NULL), FFN_OK);
    stopping = 0;
    b->setup = (tune_setup){&b->spec, ffn_isa_best(), N, threads, &spoilt, &b->machine, &b->packed, &stopping};
    cr_assert_eq(tune_worker_create(&b->setup, &b->worker, &diag), FFN_OK, "%s", diag.text);
    b->lab = tune_worker_lab(b->worker);
}

static void end(bed *b) {
    int child = tune_worker_child(b->worker);
    char folder[4096];
    snprintf(folder, sizeof folder, "%s", tune_worker_folder(b->worker));
    tune_worker_destroy(b->worker);
    cr_expect(child == 0 || kill(child, 0) != 0, "the child lives on");
    cr_expect_neq(access(folder, F_OK), 0, "the folder of images is left");
    cr_expect_eq(waitpid(-1, NULL, WNOHANG), -1, "a child is left");
    bench_copies_free(&b->packed);
}

static tune_state prepare_kind(bed *b, int index, int kind, double seconds) {
    bool verified = false;
    ffn_plan plan = b->plan;
    plan.m_block = KINDS * (index + 1) + kind;
    tune_state state = b->lab.prepare(b->lab.self, index, &plan, seconds, &verified, b->reason);
    cr_expect_eq(verified, state == TUNE_OK);
    return state;
}

Test(tune_worker, a_right_kernel_is_verified_and_timed) {
    for (int32_t threads = 1; threads <= 2; threads++) {
        bed b;
        begin(&b, threads);
        cr_assert_eq(prepare_kind(&b, 0, RIGHT, 30), TUNE_OK, "%s", b.reason);
        for (int i = 0; i < 3; i++) {
            tune_sample sample = {0};
            cr_assert_eq(b.lab.sample(b.lab.self, 0, 30, &sample, b.reason), TUNE_OK, "%s", b.reason);
            cr_expect(sample.ms > 0 && sample.ms < 1000, "%g ms", sample.ms);
            cr_expect(sample.stolen >= 0 && sample.stolen < 1, "%g", sample.stolen);
        }
        end(&b);
    }
}

typedef struct outcome {
    int kind;
    tune_state state;
    double seconds;
    const char *reason;
} outcome;

Test(tune_worker, what_is_spoilt_is_told_by_its_kind_and_the_others_go_on) {
    const outcome table[] = {{TRAP, TUNE_CRASHED, 30, "Illegal instruction"},
                             {BUILD_ABORTS, TUNE_CRASHED, 30, "Abort"},
                             {BUILD_EXITS, TUNE_CRASHED, 30, "status 3"},
                             {LOOP, TUNE_HUNG, 1, "no answer within 1 s"},
                             {BUILD_HANGS, TUNE_HUNG, 0.3, "no answer within 0.3 s"},
                             {OTHER_ACTIVATION, TUNE_WRONG, 30, ""},
                             {DAMAGED, TUNE_REFUSED, 30, ""},
                             {REFUSED, TUNE_REFUSED, 30, "no such plan today"}};
    bed b;
    begin(&b, 1);
    cr_assert_eq(prepare_kind(&b, 0, RIGHT, 30), TUNE_OK, "%s", b.reason);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        tune_state state = prepare_kind(&b, (int)i + 1, table[i].kind, table[i].seconds);
#ifndef __SANITIZE_ADDRESS__
        cr_expect(strstr(b.reason, table[i].reason), "kind %d: %s", table[i].kind, b.reason);
#endif
        cr_expect_eq(state, table[i].state, "kind %d: state %d, %s", table[i].kind, (int)state, b.reason);
        tune_sample sample = {0};
        cr_expect_eq(b.lab.sample(b.lab.self, 0, 30, &sample, b.reason), TUNE_OK, "kind %d: %s", table[i].kind,
                     b.reason);
        cr_expect_gt(sample.ms, 0);
    }
    end(&b);
}

Test(tune_worker, survivors_are_loaded_by_the_next_child_and_not_compiled_again) {
    bed b;
    begin(&b, 1);
    cr_assert_eq(prepare_kind(&b, 0, RIGHT, 30), TUNE_OK, "%s", b.reason);
    cr_assert_eq(prepare_kind(&b, 1, RIGHT, 30), TUNE_OK, "%s", b.reason);
    int first = tune_worker_child(b.worker);
    cr_assert_eq(prepare_kind(&b, 2, TRAP, 30), TUNE_CRASHED);
    for (int i = 0; i < 2; i++) {
        tune_sample sample;
        cr_assert_eq(b.lab.sample(b.lab.self, i, 30, &sample, b.reason), TUNE_OK, "%s", b.reason);
    }
    cr_expect_neq(tune_worker_child(b.worker), first);
    cr_expect_eq(*builds, 3, "%d builds", *builds);
    struct stat is;
    cr_assert_eq(stat(tune_worker_folder(b.worker), &is), 0);
    cr_expect_eq(is.st_mode & 0777, 0700);
    end(&b);
}

Test(tune_worker, a_child_that_is_killed_from_outside_costs_one_call) {
    bed b;
    begin(&b, 1);
    cr_assert_eq(prepare_kind(&b, 0, RIGHT, 30), TUNE_OK, "%s", b.reason);
    kill(tune_worker_child(b.worker), SIGKILL);
    tune_sample sample;
    cr_expect_eq(b.lab.sample(b.lab.self, 0, 30, &sample, b.reason), TUNE_CRASHED);
    cr_expect(strstr(b.reason, "Killed"), "%s", b.reason);
    cr_expect_eq(b.lab.sample(b.lab.self, 0, 30, &sample, b.reason), TUNE_OK, "%s", b.reason);
    end(&b);
}

static void stop_soon(int signal_number) {
    (void)signal_number;
    stopping = 1;
}

Test(tune_worker, a_signal_ends_a_call_at_once) {
    bed b;
    begin(&b, 1);
    struct sigaction action = {.sa_handler = stop_soon};
    sigaction(SIGALRM, &action, NULL);
    timer_t timer;
    cr_assert_eq(
        timer_create(CLOCK_MONOTONIC, &(struct sigevent){.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM}, &timer),
        0);
    const struct itimerspec soon = {.it_value = {.tv_nsec = 300000000}};
    cr_assert_eq(timer_settime(timer, 0, &soon, NULL), 0);
    cr_expect_eq(prepare_kind(&b, 0, BUILD_HANGS, 60), TUNE_PENDING, "%s", b.reason);
    timer_delete(timer);
    end(&b);
}

/* The tuner itself is killed: its child must not stay. */
Test(tune_worker, no_child_outlives_its_parent, .timeout = 60) {
    int pipes[2];
    cr_assert_eq(pipe(pipes), 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    fflush(NULL);
    pid_t tuner = fork();
    if (tuner == 0) {
        bed b;
        begin(&b, 1);
        prepare_kind(&b, 0, RIGHT, 30);
        int child = tune_worker_child(b.worker);
        if (write(pipes[1], &child, sizeof child) != (ssize_t)sizeof child)
            _exit(1);
        prepare_kind(&b, 1, BUILD_HANGS, 60);
        _exit(0);
    }
    close(pipes[1]);
    int child, status;
    if (read(pipes[0], &child, sizeof child) != (ssize_t)sizeof child)
        cr_skip_test("nothing can be timed here");
    kill(tuner, SIGKILL);
    cr_assert_eq(waitpid(tuner, &status, 0), tuner);
    /* At work it is killed; between two requests it may see first that nobody asks any more. One that stayed would be
     * waited for until the time is up. */
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) || WIFEXITED(status));
    close(pipes[0]);
}
