/* test_fork.c: a child of fork() has contexts that work, whatever other threads were doing */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache.h"
#include "context.h"
#include "support_data.h"
#include "support_image.h"

typedef struct world {
    fake_source fake;
    ffn_context *context;
    ffn_kernel *kernel;
} world;

static void begin(world *w) {
    fake_source_init(&w->fake);
    ffn_options options = {.source = &w->fake.source, .verify = FFN_VERIFY_NEVER, .store = ""};
    cr_assert_eq(ffn_context_create(&options, &w->context, NULL), FFN_OK);
    ffn_spec spec = support_spec("d64-f256-gelu");
    cr_assert_eq(ffn_kernel_create(w->context, &spec, &w->kernel, NULL), FFN_OK);
}

static void end(world *w) {
    ffn_kernel_destroy(w->kernel);
    ffn_context_destroy(w->context);
    fake_source_free(&w->fake);
}

/* The allocator of AddressSanitizer (gcc 12) does not take its locks before a fork, as that of libc does: a child
 * forked while another thread allocates may wait for ever in its first allocation. */
#ifdef __SANITIZE_ADDRESS__
enum { ALLOCATOR_FORKS = 0 };
#else
enum { ALLOCATOR_FORKS = 1 };
#endif
#define NEEDS_AN_ALLOCATOR_THAT_FORKS()                                                       \
    do {                                                                                      \
        if (!ALLOCATOR_FORKS) {                                                               \
            puts("skipped: AddressSanitizer's allocator does not fork beside other threads"); \
            return;                                                                           \
        }                                                                                     \
    } while (0)

/* What a child does: it must end by itself within seconds, with what `work` returns. */
static int status_of_child(int (*work)(world *), world *w) {
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        signal(SIGALRM, SIG_DFL);
        alarm(20); /* a hang ends by this signal */
        _exit(work(w));
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static int prepare_and_make_another(world *w) {
    if (ffn_kernel_prepare(w->kernel, 17, NULL) != FFN_OK)
        return 1;
    ffn_kernel_info info;
    ffn_kernel_inspect(w->kernel, 17, &info);
    if (info.source != FFN_FROM_COMPILER)
        return 2;
    ffn_spec spec = support_spec("d32-f32-relu");
    ffn_kernel *other;
    if (ffn_kernel_create(w->context, &spec, &other, NULL) != FFN_OK || ffn_kernel_prepare(other, 1, NULL) != FFN_OK)
        return 3;
    ffn_kernel_destroy(other);
    ffn_kernel_destroy(w->kernel);
    ffn_context_destroy(w->context);
    return 0;
}

static void *prepare_17(void *kernel) {
    ffn_kernel_prepare(kernel, 17, NULL);
    return NULL;
}

Test(fork, a_child_of_an_idle_process_builds_and_destroys) {
    NEEDS_IMAGES();
    world w;
    begin(&w);
    cr_expect_eq(status_of_child(prepare_and_make_another, &w), 0);
    cr_assert_eq(ffn_kernel_prepare(w.kernel, 17, NULL), FFN_OK);
    cr_expect_eq(status_of_child(prepare_and_make_another, &w), 0);
    end(&w);
}

Test(fork, a_child_forked_during_a_build_does_not_wait_for_it) {
    NEEDS_IMAGES();
    world w;
    begin(&w);
    w.fake.sleep_ms = 500;
    pthread_t builder, waiter;
    cr_assert_eq(pthread_create(&builder, NULL, prepare_17, w.kernel), 0);
    while (w.fake.builds < 1)
        usleep(1000);
    cr_assert_eq(pthread_create(&waiter, NULL, prepare_17, w.kernel), 0);
    usleep(50000); /* the waiter waits by now */
    w.fake.sleep_ms = 0;
    cr_expect_eq(status_of_child(prepare_and_make_another, &w), 0);
    pthread_join(builder, NULL);
    pthread_join(waiter, NULL);
    cr_expect_eq(prepare_and_make_another(&w), 0, "the parent");
    fake_source_free(&w.fake);
}

/* ---- Locks held by other threads ---- */

typedef struct holder {
    world w;
    void (*lock)(ffn_context *context), (*unlock)(ffn_context *context);
    pthread_barrier_t held;
} holder;

static void lock_builds(ffn_context *context) {
    pthread_mutex_lock(&context->builds);
}

static void unlock_builds(ffn_context *context) {
    pthread_mutex_unlock(&context->builds);
}

static void lock_cache(ffn_context *context) {
    cache_lock_all(context->kernels);
}

static void unlock_cache(ffn_context *context) {
    cache_unlock_all(context->kernels);
}

static void *hold_for_a_while(void *data) {
    holder *h = data;
    h->lock(h->w.context);
    pthread_barrier_wait(&h->held);
    usleep(200000); /* the fork has begun by now */
    h->unlock(h->w.context);
    return NULL;
}

/* A fork that did not wait for the lock would leave it held for ever in the child. */
static void expect_free_in_child(void (*lock)(ffn_context *), void (*unlock)(ffn_context *)) {
    holder h = {.lock = lock, .unlock = unlock};
    pthread_t thread;
    begin(&h.w);
    pthread_barrier_init(&h.held, NULL, 2);
    cr_assert_eq(pthread_create(&thread, NULL, hold_for_a_while, &h), 0);
    pthread_barrier_wait(&h.held);
    cr_expect_eq(status_of_child(prepare_and_make_another, &h.w), 0);
    pthread_join(thread, NULL);
    cr_expect_eq(prepare_and_make_another(&h.w), 0, "the parent");
    pthread_barrier_destroy(&h.held);
    fake_source_free(&h.w.fake);
}

Test(fork, waits_for_the_lock_of_builds) {
    NEEDS_IMAGES();
    expect_free_in_child(lock_builds, unlock_builds);
}

Test(fork, waits_for_the_locks_of_the_cache) {
    NEEDS_IMAGES();
    expect_free_in_child(lock_cache, unlock_cache);
}

/* The oldest goes each time: it is last in the list of all contexts, whose lock is held for as long as it is sought. */
static void *replace_contexts(void *stop) {
    enum { KEPT = 1000 };
    static const ffn_machine machine = {.l1_bytes = 1 << 15, .l2_bytes = 1 << 19, .l3_bytes = 1 << 20};
    static const ffn_options options = {.machine = &machine, .store = "", .compiler = ""};
    ffn_context *kept[KEPT] = {NULL};
    for (int i = 0; !atomic_load((atomic_bool *)stop); i = (i + 1) % KEPT) {
        ffn_context_destroy(kept[i]);
        if (ffn_context_create(&options, &kept[i], NULL) != FFN_OK)
            kept[i] = NULL;
    }
    for (int i = 0; i < KEPT; i++)
        ffn_context_destroy(kept[i]);
    return NULL;
}

static int create_and_destroy(world *w) {
    ffn_context *another;
    if (ffn_context_create(&(ffn_options){.store = "", .compiler = ""}, &another, NULL) != FFN_OK)
        return 1;
    ffn_context_destroy(another);
    ffn_kernel_destroy(w->kernel);
    ffn_context_destroy(w->context);
    return 0;
}

Test(fork, contexts_may_come_and_go_in_other_threads, .timeout = 120) {
    NEEDS_IMAGES();
    NEEDS_AN_ALLOCATOR_THAT_FORKS();
    world w;
    begin(&w);
    enum { THREADS = 2, FORKS = 15 };
    atomic_bool stop = false;
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++)
        cr_assert_eq(pthread_create(&threads[t], NULL, replace_contexts, &stop), 0);
    for (int i = 0; i < FORKS; i++) {
        usleep(10000);
        cr_assert_eq(status_of_child(create_and_destroy, &w), 0, "fork %d", i);
    }
    atomic_store(&stop, true);
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    end(&w);
}

typedef struct hitter {
    world *w;
    atomic_bool stop;
} hitter;

static void *hit_until_stopped(void *data) {
    hitter *h = data;
    ffn_spec spec = support_spec("d64-f256-gelu");
    while (!atomic_load(&h->stop)) {
        ffn_kernel *kernel;
        ffn_kernel_create(h->w->context, &spec, &kernel, NULL);
        ffn_kernel_prepare(kernel, 1, NULL);
        ffn_kernel_destroy(kernel);
    }
    return NULL;
}

/* Forks at random moments of other threads' lookups. */
Test(fork, other_threads_may_be_anywhere_in_a_lookup) {
    NEEDS_IMAGES();
    NEEDS_AN_ALLOCATOR_THAT_FORKS();
    world w;
    begin(&w);
    enum { THREADS = 6, FORKS = 40 };
    pthread_t threads[THREADS];
    hitter h = {.w = &w};
    for (int t = 0; t < THREADS; t++)
        cr_assert_eq(pthread_create(&threads[t], NULL, hit_until_stopped, &h), 0);
    for (int i = 0; i < FORKS; i++)
        cr_assert_eq(status_of_child(prepare_and_make_another, &w), 0, "fork %d", i);
    atomic_store(&h.stop, true);
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    end(&w);
}
