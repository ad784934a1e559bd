/* test_exit.c: exit() while LLVM is in use: it waits for the step under way, for no other, and not for ever
 *
 * What a whole program sees of it is in test_compiler.c. Each check happens in a child of its own. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "calls.h"
#include "ffngen.h"
#include "guard.h"

enum { OF_EXIT = 42, WAITERS = 4 };
enum step { MODULE, CODE, STEPS };

static struct shared { /* with the child */
    atomic_int entering, begun, ended;
    atomic_bool reached[STEPS];
} * shared;

/* The clock as all code of this program sees it; once `hurry` is set each look at it is five seconds later. */
static atomic_bool hurry;

int clock_gettime(clockid_t clock, struct timespec *now) {
    static atomic_int looks;
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && atomic_load(&hurry))
        now->tv_sec += 5 * atomic_fetch_add(&looks, 1);
    return failed;
}

/* The functions of LLVM that a build's steps begin with, as this program has them: one step lasts until exit() begins.
 */
static enum step held;

static void reach(enum step step) {
    atomic_store(&shared->reached[step], true);
    while (step == held && calls_go_on(NULL) == FFN_OK)
        usleep(1000);
}

void LLVMContextSetDiagnosticHandler(void *context, void *handler, void *argument);
int LLVMTargetMachineEmitToMemoryBuffer(void *machine, void *module, int type, char **message, void **buffer);

void LLVMContextSetDiagnosticHandler(void *context, void *handler, void *argument) {
    (void)context, (void)handler, (void)argument;
    reach(MODULE);
}

int LLVMTargetMachineEmitToMemoryBuffer(void *machine, void *module, int type, char **message, void **buffer) {
    (void)machine, (void)module, (void)type, (void)message, (void)buffer;
    reach(CODE);
    return 1; /* an error */
}

/* Wait status of a child that runs `task` and exits. */
static int status_of_exit(void (*task)(void)) {
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(shared, MAP_FAILED);
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        alarm(10);
        task();
        exit(OF_EXIT);
    }
    cr_assert(child > 0 && waitpid(child, &status, 0) == child);
    return status;
}

static void expect_exit(void (*task)(void)) {
    int status = status_of_exit(task);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == OF_EXIT, "wait status %#x", (unsigned)status);
}

static void *run_task(void *task) {
    atomic_fetch_add(&shared->entering, 1);
    guard_run(*(guard_task *)task, NULL, NULL);
    return NULL;
}

static void start(guard_task *task) {
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, run_task, task), 0);
}

static void wait_for(atomic_int *count, int value) {
    while (atomic_load(count) < value)
        usleep(1000);
}

static ffn_status until_the_process_ends(void *unused, ffn_diag *diag) {
    (void)unused;
    atomic_fetch_add(&shared->begun, 1);
    while (calls_go_on(diag) == FFN_OK)
        usleep(1000);
    usleep(50000);
    atomic_fetch_add(&shared->ended, 1);
    return FFN_OK;
}

static ffn_status at_once(void *unused, ffn_diag *diag) {
    (void)unused, (void)diag;
    atomic_fetch_add(&shared->begun, 1);
    return FFN_OK;
}

static _Noreturn ffn_status never(void *unused, ffn_diag *diag) {
    (void)unused, (void)diag;
    atomic_fetch_add(&shared->begun, 1);
    for (;;)
        pause();
}

static void exit_with_others_waiting(void) {
    static guard_task first = until_the_process_ends, other = at_once;
    start(&first);
    wait_for(&shared->begun, 1);
    for (int i = 0; i < WAITERS; i++)
        start(&other);
    wait_for(&shared->entering, 1 + WAITERS);
    usleep(20000); /* they wait for the first to come through */
}

Test(exit, the_call_under_way_ends_and_those_that_wait_for_it_do_not_begin) {
    expect_exit(exit_with_others_waiting);
    cr_expect_eq(shared->ended, 1, "the call under way was left behind");
    cr_expect_eq(shared->begun, 1, "%d calls began while the process ended", shared->begun - 1);
}

static void exit_with_one_that_hangs(void) {
    static guard_task task = never;
    start(&task);
    wait_for(&shared->begun, 1);
    atomic_store(&hurry, true);
}

Test(exit, a_call_that_hangs_is_left_behind_by_the_clock) {
    expect_exit(exit_with_one_that_hangs);
}

static void *emit(void *unused) {
    (void)unused;
    ffn_spec spec = {.d_model = 16, .d_ff = 16, .activation = "relu"};
    ffn_machine machine;
    ffn_plan plan;
    ffn_bytes out;
    ffn_machine_generic(FFN_ISA_AVX2, &machine, NULL);
    if (ffn_plan_make(&spec, FFN_ISA_AVX2, FFN_N_1, &machine, &plan, NULL) == FFN_OK)
        ffngen_emit(&spec, &plan, FFNGEN_IMAGE, &out, NULL);
    return NULL;
}

static void exit_at_a_step(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, emit, NULL);
    while (!atomic_load(&shared->reached[held]))
        usleep(1000);
}

Test(exit, a_build_goes_no_further_than_its_step) {
    for (held = MODULE; held < STEPS; held++) {
        expect_exit(exit_at_a_step);
        for (enum step step = MODULE; step < STEPS; step++)
            cr_expect_eq(shared->reached[step], step <= held, "step %d, held at %d", step, held);
    }
}
