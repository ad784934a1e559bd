/* context_fork.c: fork() -> a child in which every context works
 *
 * The child has only the thread that forked. Whatever lock another thread held would stay held for ever, so all locks
 * are taken before and released on both sides. What another thread had under way, a build or the reading of tables,
 * will never end: whoever waits for it in the child must not. */
#include "kernel_handle.h"

#include "diag.h"

static pthread_mutex_t watched_lock = PTHREAD_MUTEX_INITIALIZER;
static ffn_context *watched;

static void before_fork(void) {
    pthread_mutex_lock(&watched_lock);
    for (ffn_context *c = watched; c != NULL; c = c->next) {
        pthread_mutex_lock(&c->builds);
        cache_lock_all(c->kernels);
    }
}

static void after_fork(void) {
    for (ffn_context *c = watched; c != NULL; c = c->next) {
        cache_unlock_all(c->kernels);
        pthread_mutex_unlock(&c->builds);
    }
    pthread_mutex_unlock(&watched_lock);
}

static void abandon_builds(cache_entry *entry) {
    ffn_kernel *kernel = (ffn_kernel *)entry;
    for (int c = 0; c < FFN_N_CLASSES; ++c) {
        kernel_build *build = &kernel->builds[c];
        if (build->running) {
            build->running = false;
            diag_fail(&build->failure, FFN_COMPILE_FAILED, "the process was forked while the kernel was being built");
        }
    }
}

static void in_child(void) {
    for (ffn_context *c = watched; c != NULL; c = c->next) {
        cache_each(c->kernels, abandon_builds);
        if (atomic_load_explicit(&c->planning, memory_order_relaxed) == CONTEXT_READING) /* whoever reads is not here */
            atomic_store_explicit(&c->planning, CONTEXT_UNPLANNED, memory_order_relaxed);
        c->built = (pthread_cond_t)PTHREAD_COND_INITIALIZER; /* those who waited on it are not here */
    }
    after_fork();
}

ffn_status context_fork_watch(ffn_context *context, ffn_diag *diag) {
    static bool registered; /* guarded by watched_lock */
    pthread_mutex_lock(&watched_lock);
    registered = registered || pthread_atfork(before_fork, after_fork, in_child) == 0;
    bool ready = registered;
    if (ready) {
        context->next = watched;
        watched = context;
    }
    pthread_mutex_unlock(&watched_lock);
    return ready ? FFN_OK : diag_fail(diag, FFN_OUT_OF_MEMORY, "context: no memory to be told of forks");
}

void context_fork_forget(ffn_context *context) {
    pthread_mutex_lock(&watched_lock);
    for (ffn_context **at = &watched; *at != NULL; at = &(*at)->next) {
        if (*at == context) {
            *at = context->next;
            break;
        }
    }
    pthread_mutex_unlock(&watched_lock);
}
