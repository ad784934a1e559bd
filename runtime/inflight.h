/* inflight.h: calls that are under way in this process, in one word
 *
 * A child made by fork() inherits the word but not the threads: where calls were under way at the fork, the locks they
 * held stay held for good, and whatever they guard must not be entered. The word holds the process id beside the count,
 * so that the child can tell; it takes no lock to find out. */
#ifndef FFN_INFLIGHT_H
#define FFN_INFLIGHT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

typedef _Atomic uint64_t inflight; /* process id << 32 | calls under way; starts as 0 */

/* False, for good, in a child forked while calls were under way. Each true is answered by one inflight_leave. */
static inline bool inflight_enter(inflight *word) {
    uint64_t me = (uint64_t)getpid() << 32, next, seen = atomic_load(word);
    do {
        bool mine = seen >> 32 == me >> 32;
        if (!mine && (uint32_t)seen != 0)
            return false;
        next = (mine ? seen : me) + 1;
    } while (!atomic_compare_exchange_weak(word, &seen, next));
    return true;
}

static inline void inflight_leave(inflight *word) {
    atomic_fetch_sub(word, 1);
}

/* Calls that this very process has under way. */
static inline uint32_t inflight_count(inflight *word) {
    uint64_t seen = atomic_load(word);
    return seen >> 32 == (uint64_t)getpid() ? (uint32_t)seen : 0;
}

#endif
