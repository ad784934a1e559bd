/* test_warm.c: what is warm waits for nobody: running takes no lock and starts no thread, lookups wait for no build
 *
 * No time is measured: what a thread must not wait for ends only after the thread has. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "context.h"
#include "kernel_handle.h"
#include "support_command.h"
#include "support_image.h"
#include "support_threads.h"

enum { THREADS = 32, ROUNDS = 20, N = 5 };

typedef struct runner {
    support_layer layer;
    pthread_barrier_t warm;
    atomic_int right;
} runner;

/* One thread's calls: whole, as pieces, and what an engine asks beside. */
static void *run_many(void *argument) {
    runner *r = argument;
    const ffn_kernel *kernel = r->layer.kernel;
    support_call call, cut;
    support_call_begin(&call, &r->layer, N, 1);
    support_call_begin(&cut, &r->layer, N, 4);
    pthread_barrier_wait(&r->warm); /* all have what they need */
    pthread_barrier_wait(&r->warm); /* the locks are held */
    int right = 1;
    for (int i = 0; i < ROUNDS; i++) {
        ffn_kernel_info info;
        ffn_work work;
        ffn_kernel_inspect(kernel, N, &info);
        right &= info.source == FFN_FROM_COMPILER && ffn_kernel_scratch_bytes(kernel) <= call.args.scratch_bytes;
        right &= ffn_kernel_prepare(r->layer.kernel, N, NULL) == FFN_OK;
        right &= ffn_kernel_run(kernel, &call.args, NULL) == FFN_OK;
        right &= ffn_work_make(kernel, &cut.args, 4, &work, NULL) == FFN_OK;
        for (int phase = 0; phase < work.phases; phase++)
            for (int64_t piece = 0; piece < work.pieces[phase]; piece++)
                right &= ffn_work_run(&work, phase, piece, NULL) == FFN_OK;
    }
    right &= support_call_right(&call, &r->layer) && support_call_right(&cut, &r->layer);
    atomic_fetch_add(&r->right, right);
    support_call_end(&call);
    support_call_end(&cut);
    return NULL;
}

Test(warm, thirty_two_threads_run_while_every_lock_is_held, .timeout = 120) {
    if (ffn_isa_best() == FFN_ISA_PORTABLE)
        cr_skip_test("no ISA that code is generated for");
    runner r = {.right = 0};
    pthread_t threads[THREADS];
    support_layer_begin(&r.layer, "d96-f1530-swiglu-bias", true, N);
    cr_assert_eq(pthread_barrier_init(&r.warm, NULL, THREADS + 1), 0);
    for (int t = 0; t < THREADS; t++)
        cr_assert_eq(pthread_create(&threads[t], NULL, run_many, &r), 0);
    pthread_barrier_wait(&r.warm);
    pthread_mutex_lock(&r.layer.context->builds);
    cache_lock_all(r.layer.context->kernels);
    pthread_barrier_wait(&r.warm);
    for (int t = 0; t < THREADS; t++) /* a thread that wants one of the locks never comes */
        cr_assert_eq(pthread_join(threads[t], NULL), 0);
    cache_unlock_all(r.layer.context->kernels);
    pthread_mutex_unlock(&r.layer.context->builds);
    cr_expect_eq(r.right, THREADS);
    pthread_barrier_destroy(&r.warm);
    support_layer_end(&r.layer);
}

static int thread_count(void) {
    DIR *tasks = opendir("/proc/self/task");
    cr_assert_not_null(tasks);
    int count = 0;
    for (struct dirent *entry; (entry = readdir(tasks)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

/* Seen from inside a run, where a thread of the library's own would be at work. */
static atomic_int most_threads;

static void count_threads(void *self, int64_t count, void (*task)(void *argument, int64_t i), void *argument) {
    (void)self;
    for (int64_t i = 0; i < count; i++) {
        task(argument, i);
        int now = thread_count();
        if (now > atomic_load(&most_threads))
            atomic_store(&most_threads, now);
    }
}

Test(warm, neither_building_nor_running_starts_a_thread) {
    int before = thread_count();
    support_layer layer;
    support_layer_begin(&layer, "d321-f1117-swiglu-bias", true, 200);
    cr_expect_eq(thread_count(), before, "preparing and verifying");
    const ffn_parallel_for pool = {.run = count_threads, .threads = 8};
    support_call call;
    support_call_begin(&call, &layer, 200, 8);
    cr_expect_eq(ffn_kernel_run_parallel(layer.kernel, &call.args, &pool, NULL), FFN_OK);
    cr_expect_eq(atomic_load(&most_threads), before, "running");
    cr_expect_eq(ffn_kernel_run(layer.kernel, &call.args, NULL), FFN_OK);
    cr_expect_eq(thread_count(), before, "having run");
    support_call_end(&call);
    support_layer_end(&layer);
}

/* A source whose build of a shape ends when the test says so. */
typedef struct held_source {
    ffn_source source;
    fake_source *fake;
    atomic_bool begun, may_end;
} held_source;

static void wait_until(const atomic_bool *flag) {
    while (!atomic_load(flag)) {
        struct timespec pause = {.tv_nsec = 1000000};
        nanosleep(&pause, NULL);
    }
}

static ffn_status build_held(void *self, const ffn_spec *spec, const ffn_plan *plan, ffn_bytes *bytes, ffn_diag *diag) {
    held_source *held = self;
    if (spec->d_ff == 512) {
        atomic_store(&held->begun, true);
        wait_until(&held->may_end);
    }
    return held->fake->source.build(held->fake, spec, plan, bytes, diag);
}

static ffn_kernel *kernel_of(ffn_context *context, const char *text) {
    ffn_spec spec = support_spec(text);
    ffn_kernel *kernel = NULL;
    cr_assert_eq(ffn_kernel_create(context, &spec, &kernel, NULL), FFN_OK);
    return kernel;
}

static ffn_origin origin_of(const ffn_kernel *kernel, int64_t n) {
    ffn_kernel_info info;
    ffn_kernel_inspect(kernel, n, &info);
    return info.source;
}

static void *prepare_cold(void *kernel) {
    ffn_kernel_prepare(kernel, 17, NULL);
    return NULL;
}

/* If one of these calls waited for the build, this test would never end: the build ends after them. */
Test(warm, lookups_do_not_wait_for_a_build, .timeout = 60) {
    if (!support_image_possible())
        cr_skip_test("no generated ISA of x86-64 here: fake images cannot run");
    fake_source fake;
    ffn_context *context;
    fake_source_init(&fake);
    held_source held = {.source = {.build = build_held, .self = &held}, .fake = &fake};
    ffn_options options = {.source = &held.source, .verify = FFN_VERIFY_NEVER, .store = ""};
    cr_assert_eq(ffn_context_create(&options, &context, NULL), FFN_OK);
    ffn_kernel *warm = kernel_of(context, "d64-f256-gelu"), *cold = kernel_of(context, "d64-f512-gelu");
    cr_assert_eq(ffn_kernel_prepare(warm, 1, NULL), FFN_OK);
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, prepare_cold, cold), 0);
    wait_until(&held.begun);
    ffn_kernel *again = kernel_of(context, "d64-f256-gelu"), *same = kernel_of(context, "d64-f512-gelu");
    ffn_kernel *other = kernel_of(context, "d65-f256-gelu");
    cr_expect_eq(again, warm);
    cr_expect_eq(same, cold);
    cr_expect_eq(ffn_kernel_prepare(again, 1, NULL), FFN_OK);
    cr_expect_eq(ffn_kernel_prepare(again, 17, NULL), FFN_OK, "another class");
    cr_expect_eq(ffn_kernel_prepare(other, 1, NULL), FFN_OK, "another spec");
    cr_expect_eq(origin_of(cold, 17), FFN_FROM_FALLBACK);
    ffn_kernel_destroy(again);
    ffn_kernel_destroy(same);
    ffn_kernel_destroy(other);
    atomic_store(&held.may_end, true);
    pthread_join(thread, NULL);
    cr_expect_eq(origin_of(cold, 17), FFN_FROM_COMPILER);
    ffn_kernel_destroy(warm);
    ffn_kernel_destroy(cold);
    ffn_context_destroy(context);
    fake_source_free(&fake);
}

/* ---- A warm start ---- */

static void expect_start(const char *folder, const char *said) {
    char program[4096];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - sizeof "warm_start");
    cr_assert_gt(length, 0);
    program[length] = '\0';
    strcpy(strrchr(program, '/') + 1, "warm_start");
    support_run(program, -1, (const char *const[]){folder, NULL});
    support_expect_status(0);
    cr_expect_str_eq(support_result.out, said);
}

Test(warm, a_start_from_the_store_loads_no_llvm) {
    if (ffn_isa_best() == FFN_ISA_PORTABLE)
        cr_skip_test("no ISA that code is generated for");
    char folder[] = "/tmp/ffn_warm_XXXXXX", command[64];
    cr_assert_not_null(mkdtemp(folder));
    expect_start(folder, "compiled 1 loaded 0 LLVM yes rwx no\n");
    expect_start(folder, "compiled 0 loaded 1 LLVM no rwx no\n");
    snprintf(command, sizeof command, "rm -rf %s", folder);
    cr_expect_eq(system(command), 0);
}
