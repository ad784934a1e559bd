/* default_state.h: a stretch of work in the default state of the floating-point unit (to nearest, nothing flushed),
 * whatever state the caller's is in, which is put back
 *
 * A text has to mean the same numbers, and a verdict be the same, in every state. What computes stands in a function of
 * its own that is not inlined: compilers move arithmetic across the calls here, not across that one. */
#ifndef FFN_DEFAULT_STATE_H
#define FFN_DEFAULT_STATE_H

#include <fenv.h>

#define DEFAULT_STATE_WORK static __attribute__((noinline))

static inline void default_state_begin(fenv_t *callers) {
    fegetenv(callers);
    fesetenv(FE_DFL_ENV);
}

static inline void default_state_end(const fenv_t *callers) {
    fesetenv(callers);
}

#endif
