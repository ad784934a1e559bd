/* test_pool.c: libffnpool: a pool that gives the bits of one thread and never waits for itself */
#define _GNU_SOURCE
#include <criterion/criterion.h>

#if defined(FFN_POOL)
#include "ffn_pool.h"
#include "support_threads.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static ffn_pool *pool_of(int64_t threads) {
    ffn_pool *pool = NULL;
    ffn_diag diag = {.text = ""};
    cr_assert_eq(ffn_pool_create(threads, &pool, &diag), FFN_OK, "%s", diag.text);
    return pool;
}

/* One call of n rows on the pool; true if y is right. */
static bool run_right(const support_layer *layer, int64_t n, const ffn_pool *pool) {
    support_call call;
    support_call_begin(&call, layer, n, ffn_pool_threads(pool));
    bool right = ffn_kernel_run_parallel(layer->kernel, &call.args, ffn_pool_parallel(pool), NULL) == FFN_OK &&
                 support_call_right(&call, layer);
    support_call_end(&call);
    return right;
}

Test(pool, gives_the_bits_of_one_thread) {
    support_layer layer;
    support_layer_begin(&layer, "d321-f1117-swiglu-bias", true, 70);
    for (int64_t threads = 1; threads <= 5; threads++) {
        ffn_pool *pool = pool_of(threads);
        cr_expect_eq(ffn_pool_threads(pool), threads);
        for (int64_t n = 0; n <= 70; n += n < 4 ? 1 : 22)
            cr_expect(run_right(&layer, n, pool), "n = %lld, %lld threads", (long long)n, (long long)threads);
        ffn_pool_destroy(pool);
    }
    support_layer_end(&layer);
}

static void count_task(void *argument, int64_t i) {
    atomic_int *counts = argument;
    atomic_fetch_add(&counts[i], 1);
}

Test(pool, runs_each_task_once) {
    ffn_pool *pool = pool_of(4);
    const ffn_parallel_for *parallel = ffn_pool_parallel(pool);
    for (int64_t count = 0; count <= 100; count += 1 + count / 4) {
        atomic_int counts[101] = {0};
        parallel->run(parallel->self, count, count_task, counts);
        for (int64_t i = 0; i <= 100; i++)
            cr_assert_eq(atomic_load(&counts[i]), i < count, "task %lld of %lld", (long long)i, (long long)count);
    }
    ffn_pool_destroy(pool);
}

/* sched_setaffinity is what a container or taskset would do. */
Test(pool, zero_threads_are_the_cpus_of_the_mask) {
    cpu_set_t all, one;
    cr_assert_eq(sched_getaffinity(0, sizeof all, &all), 0);
    ffn_pool *pool = pool_of(0);
    cr_expect_eq(ffn_pool_threads(pool), CPU_COUNT(&all));
    ffn_pool_destroy(pool);
    CPU_ZERO(&one);
    for (size_t cpu = 0; CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &all))
            CPU_SET(cpu, &one);
    cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0);
    pool = pool_of(0);
    cr_expect_eq(ffn_pool_threads(pool), 1);
    ffn_pool_destroy(pool);
}

typedef struct nested {
    const support_layer *layer;
    const ffn_pool *pool;
    atomic_int right;
} nested;

static void nested_task(void *argument, int64_t i) {
    nested *n = argument;
    (void)i;
    atomic_fetch_add(&n->right, run_right(n->layer, 2, n->pool));
}

Test(pool, a_task_may_use_its_own_pool, .timeout = 60) {
    support_layer layer;
    support_layer_begin(&layer, "d96-f1530-relu", true, 2);
    ffn_pool *pool = pool_of(3);
    nested n = {.layer = &layer, .pool = pool};
    const ffn_parallel_for *parallel = ffn_pool_parallel(pool);
    parallel->run(parallel->self, 10, nested_task, &n);
    cr_expect_eq(atomic_load(&n.right), 10);
    ffn_pool_destroy(pool);
    support_layer_end(&layer);
}

static void *nested_thread(void *argument) {
    for (int i = 0; i < 20; i++)
        nested_task(argument, i);
    return NULL;
}

Test(pool, threads_that_share_a_pool_do_not_wait_or_mix, .timeout = 60) {
    support_layer layer;
    support_layer_begin(&layer, "d96-f1530-relu", true, 2);
    ffn_pool *pool = pool_of(3);
    nested n = {.layer = &layer, .pool = pool};
    support_threads_run(8, 0, nested_thread, &n);
    cr_expect_eq(atomic_load(&n.right), 160);
    ffn_pool_destroy(pool);
    support_layer_end(&layer);
}

#if !defined(__SANITIZE_THREAD__) /* which does not let a process with threads fork and go on */
Test(pool, a_child_process_runs_alone, .timeout = 60) {
    support_layer layer;
    support_layer_begin(&layer, "d96-f1530-relu", true, 2);
    ffn_pool *pool = pool_of(3);
    cr_expect(run_right(&layer, 2, pool));
    const pid_t child = fork();
    if (child == 0) {
        bool right = run_right(&layer, 2, pool);
        ffn_pool_destroy(pool);
        ffn_pool *own = NULL; /* a pool of the child's own has threads again */
        right = right && ffn_pool_create(3, &own, NULL) == FFN_OK && run_right(&layer, 2, own);
        ffn_pool_destroy(own);
        _exit(right ? 0 : 1);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %d", status);
    cr_expect(run_right(&layer, 2, pool), "the parent's pool goes on");
    ffn_pool_destroy(pool);
    support_layer_end(&layer);
}
#endif

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__) /* which need more address space */
/* The limit binds root as well: stacks of 8 MiB find no room. */
Test(pool, threads_that_cannot_start_are_an_error, .timeout = 60) {
    struct rlimit limit = {(rlim_t)1 << 30, (rlim_t)1 << 30};
    cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
    ffn_pool *pool = NULL;
    ffn_diag diag = {.text = ""};
    cr_expect_eq(ffn_pool_create(10000, &pool, &diag), FFN_SYSTEM, "%d: %s", diag.status, diag.text);
    cr_expect_null(pool);
    cr_expect_eq(ffn_pool_create(2, &pool, &diag), FFN_OK, "%s", diag.text);
    ffn_pool_destroy(pool);
}
#endif

Test(pool, arguments_are_checked) {
    ffn_pool *pool = NULL;
    ffn_diag diag = {.text = ""};
    cr_expect_eq(ffn_pool_create(-1, &pool, &diag), FFN_BAD_ARGUMENT);
    cr_expect_neq(diag.text[0], '\0');
    cr_expect_eq(ffn_pool_create(INT64_MAX, &pool, &diag), FFN_BAD_ARGUMENT);
    cr_expect_eq(ffn_pool_create(2, NULL, &diag), FFN_BAD_ARGUMENT);
    cr_expect_null(pool);
    ffn_pool_destroy(NULL);
}

#else

Test(pool, is_built) {
    cr_skip_test("built without pthreadpool");
}

#endif
