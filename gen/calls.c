/* calls.c: see calls.h
 *
 * exit() destroys LLVM's static objects while other threads may still use them. It runs what was registered last first:
 * our function comes after the objects made when libLLVM was loaded, and statics.h sees to those made later. */
#define _POSIX_C_SOURCE 200809L
#include "calls.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "diag.h"
#include "inflight.h"

#define EXIT_WAIT_MS 20000 /* many times the longest build: only one that hangs is left behind */

static inflight calls;
static atomic_bool process_ends;

static void wait_for_calls(void) {
    atomic_store(&process_ends, true);
    for (int ms = 0; ms < EXIT_WAIT_MS && inflight_count(&calls) > 0; ms++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static int exit_watch = -1; /* what atexit said */

/* At load, when libLLVM has just been initialised: later than that, exit() may have begun. */
__attribute__((constructor)) static void watch_exit(void) {
    exit_watch = atexit(wait_for_calls);
}

ffn_status calls_enter(ffn_diag *diag) {
    if (!inflight_enter(&calls))
        return diag_fail(diag, FFN_COMPILE_FAILED,
                         "this process was forked while LLVM was at work in another thread: nothing can be compiled "
                         "here, but images can be loaded");
    if (exit_watch == 0 && !atomic_load(&process_ends))
        return FFN_OK;
    inflight_leave(&calls);
    return exit_watch ? diag_fail(diag, FFN_OUT_OF_MEMORY, "libffngen was loaded while memory or the process ended")
                      : diag_fail(diag, FFN_COMPILE_FAILED, "the process is ending: nothing is compiled any more");
}

void calls_leave(void) {
    inflight_leave(&calls);
}
