/* calls.c: see calls.h
 *
 * exit() runs what was registered last first. Our function is registered when libffngen is loaded; if the program had
 * loaded libLLVM before, that is after LLVM's static objects, else statics.h sees to it that none are destroyed, and
 * where it cannot the first call registers once more. */
#define _GNU_SOURCE
#include "calls.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "diag.h"
#include "inflight.h"

#define EXIT_WAIT_S 20 /* many times the longest build: only one that hangs is left behind */

static inflight calls;
static atomic_bool process_ends;

static void wait_for_calls(void) {
    atomic_store(&process_ends, true);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    for (time_t end = now.tv_sec + EXIT_WAIT_S; inflight_count(&calls) > 0 && now.tv_sec < end;) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        clock_gettime(CLOCK_MONOTONIC, &now);
    }
}

static int exit_watch = -1; /* what the registration said */

extern void *__dso_handle __attribute__((visibility("hidden")));

static void at_exit(void *unused) {
    (void)unused;
    wait_for_calls();
}

/* At load: later than that, exit() may have begun. What atexit does, by libc's own function: this runs before every
 * other constructor, and a library that replaces it, as sanitizers do, is not ready yet. */
__attribute__((constructor)) static void watch_exit(void) {
    int (*registration)(void (*)(void *), void *, void *);
    *(void **)&registration = dlsym(RTLD_NEXT, "__cxa_atexit");
    exit_watch = registration ? registration(at_exit, NULL, &__dso_handle) : atexit(wait_for_calls);
}

void calls_watch_exit_again(void) {
    atexit(wait_for_calls);
}

ffn_status calls_enter(ffn_diag *diag) {
    if (!inflight_enter(&calls))
        return diag_fail(diag, FFN_COMPILE_FAILED,
                         "this process was forked while LLVM was at work in another thread: nothing can be compiled "
                         "here, but images can be loaded");
    ffn_status status =
        exit_watch ? diag_fail(diag, FFN_OUT_OF_MEMORY, "libffngen was loaded while memory or the process ended")
                   : calls_go_on(diag);
    if (status)
        inflight_leave(&calls);
    return status;
}

ffn_status calls_go_on(ffn_diag *diag) {
    return atomic_load(&process_ends)
               ? diag_fail(diag, FFN_COMPILE_FAILED, "the process is ending: nothing is compiled any more")
               : FFN_OK;
}

void calls_leave(void) {
    inflight_leave(&calls);
}
