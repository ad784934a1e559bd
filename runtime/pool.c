/* pool.c: pthreadpool -> an ffn_parallel_for that never waits for itself
 *
 * pthreadpool serves one caller at a time: a second one would wait for the first, and a task that calls its own pool
 * would wait for ever. So the first takes the pool, and whoever finds it taken works alone. */
#define _GNU_SOURCE
#include "ffn_pool.h"

#include <errno.h>
#include <pthread.h>
#include <pthreadpool.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_MAX 65536

struct ffn_pool {
    pthreadpool_t threads;
    ffn_parallel_for parallel;
    unsigned forks;    /* of the process that has the threads */
    atomic_flag taken; /* who set it owns what follows */
    void (*task)(void *argument, int64_t i);
    void *argument;
    /* pthreadpool orders a run and its tasks by itself; these say so to tools that cannot look into it. */
    atomic_uint begun, ended;
};

static ffn_status fail(ffn_diag *diag, ffn_status status, const char *what, int64_t threads, const char *why) {
    if (diag != NULL) {
        diag->status = status;
        snprintf(diag->text, sizeof diag->text, "%s%lld%s", what, (long long)threads, why);
    }
    return status;
}

/* How often this process and its parents were forked since the first pool was made. */
static atomic_uint forks;

static void count_fork(void) {
    atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed);
}

static void watch_forks(void) {
    pthread_atfork(NULL, NULL, count_fork);
}

static bool threads_are_here(const ffn_pool *pool) {
    return pool->forks == atomic_load_explicit(&forks, memory_order_relaxed);
}

static void run_task(void *context, size_t i) {
    ffn_pool *pool = context;
    atomic_load_explicit(&pool->begun, memory_order_acquire);
    pool->task(pool->argument, (int64_t)i);
    atomic_fetch_add_explicit(&pool->ended, 1, memory_order_release);
}

static void run(void *self, int64_t count, void (*task)(void *argument, int64_t i), void *argument) {
    ffn_pool *pool = self;
    if (pool->threads != NULL && threads_are_here(pool) &&
        !atomic_flag_test_and_set_explicit(&pool->taken, memory_order_acquire)) {
        pool->task = task;
        pool->argument = argument;
        atomic_fetch_add_explicit(&pool->begun, 1, memory_order_release);
        if (count > 0)
            pthreadpool_parallelize_1d(pool->threads, run_task, pool, (size_t)count, 0); /* 0: MXCSR is left alone */
        atomic_load_explicit(&pool->ended, memory_order_acquire);
        atomic_flag_clear_explicit(&pool->taken, memory_order_release);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        task(argument, i);
}

/* CPUs that this thread may run on; the mask may be larger than a cpu_set_t. */
static int64_t cpus_allowed(void) {
    for (size_t cpus = CPU_SETSIZE; cpus <= THREADS_MAX; cpus *= 2) {
        cpu_set_t *set = CPU_ALLOC(cpus);
        if (set == NULL)
            return 1;
        const int got = sched_getaffinity(0, CPU_ALLOC_SIZE(cpus), set), error = errno;
        const int count = got == 0 ? CPU_COUNT_S(CPU_ALLOC_SIZE(cpus), set) : 1;
        CPU_FREE(set);
        if (got == 0 || error != EINVAL)
            return count > 0 ? count : 1;
    }
    return 1;
}

static void *wait_for_start(void *start) {
    pthread_mutex_lock(start);
    pthread_mutex_unlock(start);
    return NULL;
}

/* True if that many threads can live at once. pthreadpool waits for threads that could not be started. */
static bool threads_possible(int64_t count) {
    pthread_t *threads = calloc((size_t)count + 1, sizeof *threads);
    if (threads == NULL)
        return false;
    pthread_mutex_t start = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&start);
    int64_t started = 0;
    while (started < count && pthread_create(&threads[started], NULL, wait_for_start, &start) == 0)
        started++;
    pthread_mutex_unlock(&start);
    for (int64_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&start);
    free(threads);
    return started == count;
}

ffn_status ffn_pool_create(int64_t threads, ffn_pool **pool, ffn_diag *diag) {
    if (pool == NULL || threads < 0 || threads > THREADS_MAX)
        return fail(diag, FFN_BAD_ARGUMENT, "threads is ", threads, ": it must be 0 to 65536, and pool not NULL");
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    const int64_t count = threads > 0 ? threads : cpus_allowed();
    ffn_pool *made = calloc(1, sizeof *made);
    if (made == NULL)
        return fail(diag, FFN_OUT_OF_MEMORY, "no memory for a pool of ", count, " threads");
    made->parallel = (ffn_parallel_for){.run = run, .self = made, .threads = count};
    made->forks = atomic_load_explicit(&forks, memory_order_relaxed);
    atomic_flag_clear(&made->taken);
    if (count > 1) {
        const bool possible = threads_possible(count - 1);
        made->threads = possible ? pthreadpool_create((size_t)count) : NULL;
        if (made->threads == NULL) {
            free(made);
            return possible ? fail(diag, FFN_OUT_OF_MEMORY, "no memory for a pool of ", count, " threads")
                            : fail(diag, FFN_SYSTEM, "the system does not let this process have ", count, " threads");
        }
    }
    *pool = made;
    return FFN_OK;
}

void ffn_pool_destroy(ffn_pool *pool) {
    if (pool == NULL)
        return;
    if (pool->threads != NULL && threads_are_here(pool)) /* else it would wait for threads that are not there */
        pthreadpool_destroy(pool->threads);
    free(pool);
}

int64_t ffn_pool_threads(const ffn_pool *pool) {
    return pool->parallel.threads;
}

const ffn_parallel_for *ffn_pool_parallel(const ffn_pool *pool) {
    return &pool->parallel;
}
