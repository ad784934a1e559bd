/* test_fork.c: a child of fork() has contexts that work, whatever other threads were doing */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support_data.h"
#include "support_image.h"

#define NEEDS_IMAGES()             \
    if (!support_image_possible()) \
    cr_skip_test("no generated ISA of x86-64 here: fake images cannot run")

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

typedef struct hitter {
    world *w;
    atomic_bool stop;
} hitter;

static void *hit_until_stopped(void *data) {
    hitter *h = data;
    world *w = h->w;
    ffn_spec spec = support_spec("d64-f256-gelu");
    for (int i = 0; !atomic_load(&h->stop); i++) {
        ffn_kernel *kernel;
        ffn_kernel_create(w->context, &spec, &kernel, NULL);
        ffn_kernel_prepare(kernel, 1, NULL);
        ffn_kernel_destroy(kernel);
        ffn_context *another;
        if (i % 64 == 0 && ffn_context_create(&(ffn_options){.store = ""}, &another, NULL) == FFN_OK)
            ffn_context_destroy(another);
    }
    return NULL;
}

/* Forks at random moments of other threads' lookups: a lock that was held would hang the child. */
Test(fork, locks_held_by_other_threads_are_free_in_the_child) {
    NEEDS_IMAGES();
    world w;
    begin(&w);
    enum { THREADS = 6, FORKS = 40 };
    pthread_t threads[THREADS];
    hitter h = {.w = &w};
    for (int t = 0; t < THREADS; t++)
        cr_assert_eq(pthread_create(&threads[t], NULL, hit_until_stopped, &h), 0);
    for (int i = 0; i < FORKS; i++)
        cr_expect_eq(status_of_child(prepare_and_make_another, &w), 0, "fork %d", i);
    atomic_store(&h.stop, true);
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    end(&w);
}
