/* guard.c: see guard.h
 *
 * LLVM and the C++ library have one hook each for the whole process. Ours are in place only while a call of ours runs,
 * so that a program that uses the same libraries keeps its own habits at other times; and they act only on a thread
 * that has a way back into one. */
#include "guard.h"

#include <llvm-c/ErrorHandling.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "diag.h"
#include "stack.h"
#include "statics.h"

typedef void (*new_handler)(void);
typedef void (*bad_alloc_handler)(void *unused, const char *reason, bool report);

/* C++ functions under their mangled names. Weak: they need not be there, and come from the C++ library that libLLVM
 * itself is bound to. */
#define CXX(name) __asm__(name) __attribute__((weak))
new_handler set_new_handler(new_handler handler) CXX("_ZSt15set_new_handlerPFvvE");
new_handler get_new_handler(void) CXX("_ZSt15get_new_handlerv");
void throw_bad_alloc(void) CXX("_ZSt17__throw_bad_allocv");
void install_bad_alloc_handler(bad_alloc_handler handler, void *argument)
    CXX("_ZN4llvm31install_bad_alloc_error_handlerEPFvPvPKcbES0_");
void remove_bad_alloc_handler(void) CXX("_ZN4llvm30remove_bad_alloc_error_handlerEv");

typedef struct way_back {
    jmp_buf jump;
    ffn_status status;
    char text[256];
} way_back;

/* Initial-exec: the first use of any other kind by a thread allocates, and libc ends the process if it cannot. */
static _Thread_local __attribute__((tls_model("initial-exec"))) way_back *back;

static atomic_bool dead;
static _Atomic(new_handler) programs_new_handler;

static bool is_guarded(void) {
    return back != NULL;
}

static _Noreturn void leave_llvm(ffn_status status, const char *text) {
    atomic_store(&dead, true);
    way_back *b = back;
    b->status = status;
    strncpy(b->text, text, sizeof b->text - 1);
    longjmp(b->jump, 1);
}

static void on_fatal(const char *reason) {
    if (back)
        leave_llvm(FFN_COMPILE_FAILED, reason ? reason : "an error without a text");
}

static void on_new_failed(void) {
    if (back)
        leave_llvm(FFN_OUT_OF_MEMORY, "out of memory");
    new_handler programs = atomic_load(&programs_new_handler);
    if (programs)
        programs();
    else
        throw_bad_alloc(); /* what `new` does where there is no handler */
}

static void on_malloc_failed(void *unused, const char *reason, bool report) {
    (void)unused;
    (void)report;
    if (back)
        leave_llvm(FFN_OUT_OF_MEMORY, reason ? reason : "out of memory");
    abort(); /* a thread of the program's own in LLVM, which does this where there is no handler */
}

static void set_hooks(void) {
    LLVMInstallFatalErrorHandler(on_fatal);
    if (install_bad_alloc_handler)
        install_bad_alloc_handler(on_malloc_failed, NULL);
    if (set_new_handler && throw_bad_alloc)
        atomic_store(&programs_new_handler, set_new_handler(on_new_failed));
}

static void reset_hooks(void) {
    LLVMResetFatalErrorHandler();
    if (remove_bad_alloc_handler)
        remove_bad_alloc_handler();
    if (get_new_handler && get_new_handler() == on_new_failed)
        set_new_handler(atomic_load(&programs_new_handler));
}

static void count_hooked(int change) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int hooked;
    pthread_mutex_lock(&lock);
    if (change > 0 && hooked == 0)
        set_hooks();
    hooked += change;
    if (hooked == 0)
        reset_hooks();
    pthread_mutex_unlock(&lock);
}

static ffn_status run_guarded(guard_task task, void *argument, ffn_diag *diag) {
    if (atomic_load(&dead))
        return diag_fail(diag, FFN_COMPILE_FAILED, "LLVM failed earlier in this process and is not used again");
    way_back here = {.status = FFN_OK};
    if (setjmp(here.jump) == 0) {
        back = &here;
        ffn_status status = task(argument, diag);
        back = NULL;
        return status;
    }
    back = NULL;
    return diag_fail(diag, here.status, "LLVM: %s", here.text);
}

static ffn_status run_hooked(guard_task task, void *argument, ffn_diag *diag) {
    count_hooked(1);
    ffn_status status = run_guarded(task, argument, diag);
    count_hooked(-1);
    return status;
}

static bool statics_are_kept;

__attribute__((constructor)) static void keep_statics(void) {
    statics_are_kept = statics_keep(is_guarded);
}

/* Until one task has come through, tasks run one at a time: a thread must not wait for state of LLVM's that another one
 * left half made when LLVM died under it. Locks are taken between calls_enter and calls_leave alone: a child forked
 * while one was held gets no further than calls_enter. */
static ffn_status run_first(guard_task task, void *argument, ffn_diag *diag) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static atomic_bool proven;
    if (atomic_load(&proven))
        return run_hooked(task, argument, diag);
    pthread_mutex_lock(&lock);
    if (!statics_are_kept)
        calls_watch_exit_again();
    statics_are_kept = true;
    ffn_status status = calls_go_on(diag);
    status = status ? status : run_hooked(task, argument, diag);
    if (!status)
        atomic_store(&proven, true);
    pthread_mutex_unlock(&lock);
    return status;
}

ffn_status guard_run(guard_task task, void *argument, ffn_diag *diag) {
    size_t left;
    if (!stack_has(STACK_NEEDED_BYTES, &left))
        return diag_fail(diag, FFN_COMPILE_FAILED, "compiling: %zu KiB of this thread's stack are left, %zu needed",
                         left >> 10, STACK_NEEDED_BYTES >> 10);
    ffn_status status = calls_enter(diag);
    if (status)
        return status;
    status = run_first(task, argument, diag);
    calls_leave();
    return status;
}
