/* test_cache.c: one build a key, whoever asks and whatever fails; counters that tell what happened */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "support_data.h"
#include "support_image.h"

typedef struct world {
    fake_source fake;
    ffn_context *context;
} world;

static void begin(world *w, ffn_verify_mode verify) {
    fake_source_init(&w->fake);
    ffn_options options = {.source = &w->fake.source, .verify = verify, .store = ""};
    cr_assert_eq(ffn_context_create(&options, &w->context, NULL), FFN_OK);
}

static ffn_kernel *kernel_of(world *w, const char *text) {
    ffn_spec spec = support_spec(text);
    ffn_kernel *kernel;
    ffn_diag diag = {.status = FFN_OK};
    cr_assert_eq(ffn_kernel_create(w->context, &spec, &kernel, &diag), FFN_OK, "%s", diag.text);
    return kernel;
}

static ffn_counters counters_of(world *w) {
    ffn_counters counters;
    ffn_context_counters(w->context, &counters);
    return counters;
}

static ffn_origin origin_of(const ffn_kernel *kernel, int64_t n) {
    ffn_kernel_info info;
    ffn_kernel_inspect(kernel, n, &info);
    return info.source;
}

static void end(world *w) {
    ffn_context_destroy(w->context);
    fake_source_free(&w->fake);
}

Test(cache, one_spec_has_one_kernel_and_its_code_is_built_once) {
    NEEDS_IMAGES();
    world w;
    begin(&w, FFN_VERIFY_FIRST_USE);
    ffn_kernel *first = kernel_of(&w, "d64-f256-gelu"), *second = kernel_of(&w, "d64-f256-gelu");
    cr_expect_eq(first, second);
    ffn_kernel *other = kernel_of(&w, "d64-f256-gelu-bias");
    cr_expect_neq(first, other);
    ffn_kernel_destroy(other);
    cr_expect_eq(origin_of(first, 1), FFN_FROM_FALLBACK);
    cr_expect_eq(ffn_kernel_prepare(first, 1, NULL), FFN_OK);
    cr_expect_eq(ffn_kernel_prepare(second, 1, NULL), FFN_OK);
    cr_expect_eq(ffn_kernel_prepare(second, 1, NULL), FFN_OK);
    cr_expect_eq(origin_of(first, 1), FFN_FROM_COMPILER);
    cr_expect_eq(origin_of(second, 1), FFN_FROM_COMPILER);
    ffn_counters c = counters_of(&w);
    cr_expect_eq(c.compiled, 1);
    cr_expect_eq(c.hit, 2);
    cr_expect_eq(c.failed + c.fell_back + c.loaded, 0);
    cr_expect_eq(w.fake.builds, 1);
    ffn_kernel_destroy(first);
    cr_expect_eq(origin_of(second, 1), FFN_FROM_COMPILER, "a destroyed handle took the code of another with it");
    ffn_kernel_destroy(second);
    end(&w);
}

Test(cache, classes_and_specs_are_keys_of_their_own) {
    NEEDS_IMAGES();
    world w;
    begin(&w, FFN_VERIFY_NEVER);
    static const char *const specs[] = {"d64-f256-gelu",     "d64-f256-gelu-bias", "d64-f256-gelu-bias_up",
                                        "d65-f256-gelu",     "d64-f257-gelu",      "d64-f256-gelu_tanh",
                                        "d64-f256-act(x*2)", "d64-f256-act(x*3)"};
    enum { SPECS = sizeof specs / sizeof *specs };
    static const int64_t rows[FFN_N_CLASSES] = {1, 3, 9, 1000};
    for (int s = 0; s < SPECS; ++s) {
        ffn_kernel *kernel = kernel_of(&w, specs[s]);
        for (int c = 0; c < FFN_N_CLASSES; ++c) {
            cr_expect_eq(ffn_kernel_prepare(kernel, rows[c], NULL), FFN_OK);
            ffn_kernel_info info;
            ffn_kernel_inspect(kernel, rows[c], &info);
            cr_expect_eq(info.plan.n_class, (ffn_n_class)c);
            cr_expect_not(info.verified);
        }
        ffn_kernel_destroy(kernel);
    }
    cr_expect_eq(w.fake.builds, SPECS * FFN_N_CLASSES);
    cr_expect_eq(counters_of(&w).compiled, SPECS * FFN_N_CLASSES);
    end(&w);
}

#define THREADS 64

typedef struct racer {
    world *w;
    pthread_barrier_t *start;
    int late_ms;
    ffn_status status;
    ffn_origin origin;
} racer;

static void *race(void *data) {
    racer *r = data;
    ffn_kernel *kernel = kernel_of(r->w, "d64-f256-gelu");
    pthread_barrier_wait(r->start);
    nanosleep(&(struct timespec){.tv_nsec = r->late_ms * 1000000L}, NULL);
    r->status = ffn_kernel_prepare(kernel, 17, NULL);
    r->origin = origin_of(kernel, 17);
    ffn_kernel_destroy(kernel);
    return NULL;
}

/* Half of the threads ask at once, the others one by one: before the build ends, as it is published, and later. */
static void race_all(world *w, racer racers[THREADS]) {
    pthread_barrier_t start;
    pthread_t threads[THREADS];
    pthread_barrier_init(&start, NULL, THREADS);
    for (int t = 0; t < THREADS; ++t) {
        racers[t] = (racer){.w = w, .start = &start, .late_ms = t < THREADS / 2 ? 0 : 2 * (t - THREADS / 2)};
        cr_assert_eq(pthread_create(&threads[t], NULL, race, &racers[t]), 0);
    }
    for (int t = 0; t < THREADS; ++t) {
        pthread_join(threads[t], NULL);
    }
    pthread_barrier_destroy(&start);
}

Test(cache, threads_on_one_cold_key_build_once) {
    NEEDS_IMAGES();
    world w;
    begin(&w, FFN_VERIFY_FIRST_USE);
    w.fake.sleep_ms = 30;
    racer racers[THREADS];
    race_all(&w, racers);
    for (int t = 0; t < THREADS; ++t) {
        cr_expect_eq(racers[t].status, FFN_OK);
        cr_expect_eq(racers[t].origin, FFN_FROM_COMPILER);
    }
    cr_expect_eq(w.fake.builds, 1);
    cr_expect_eq(counters_of(&w).compiled, 1);
    cr_expect_eq(counters_of(&w).hit, THREADS - 1);
    end(&w);
}

Test(cache, threads_that_wait_for_a_failing_build_get_its_status) {
    NEEDS_IMAGES();
    world w;
    begin(&w, FFN_VERIFY_NEVER);
    w.fake.sleep_ms = 50;
    w.fake.fail_first = 1;
    w.fake.fail_status = FFN_COMPILE_FAILED;
    racer racers[THREADS];
    race_all(&w, racers);
    uint64_t told = 0;
    for (int t = 0; t < THREADS; ++t) {
        told += racers[t].status == FFN_COMPILE_FAILED;
        cr_expect(racers[t].status == FFN_COMPILE_FAILED ||
                  (racers[t].status == FFN_OK && racers[t].origin == FFN_FROM_COMPILER));
    }
    cr_expect_gt(told, 1, "only the thread that built was told");
    ffn_counters c = counters_of(&w);
    cr_expect_eq(w.fake.builds, told < THREADS ? 2 : 1);
    cr_expect_eq(c.failed, 1);
    cr_expect_eq(c.fell_back, told);
    cr_expect_eq(c.compiled + c.hit, THREADS - told);
    end(&w);
}

Test(cache, a_failed_build_is_tried_again) {
    NEEDS_IMAGES();
    static const ffn_status failures[] = {FFN_COMPILE_FAILED, FFN_OUT_OF_MEMORY, FFN_SYSTEM};
    for (size_t i = 0; i < sizeof failures / sizeof *failures; ++i) {
        world w;
        begin(&w, FFN_VERIFY_FIRST_USE);
        w.fake.fail_first = 2;
        w.fake.fail_status = failures[i];
        ffn_kernel *kernel = kernel_of(&w, "d64-f256-gelu");
        ffn_diag diag = {.status = FFN_OK};
        cr_expect_eq(ffn_kernel_prepare(kernel, 1, &diag), failures[i]);
        cr_expect_str_eq(diag.text, "fake build 0 fails");
        cr_expect_eq(ffn_kernel_prepare(kernel, 1, &diag), failures[i]);
        cr_expect_str_eq(diag.text, "fake build 1 fails");
        cr_expect_eq(ffn_kernel_prepare(kernel, 1, &diag), FFN_OK);
        cr_expect_eq(origin_of(kernel, 1), FFN_FROM_COMPILER);
        ffn_counters c = counters_of(&w);
        cr_expect_eq(c.failed, 2);
        cr_expect_eq(c.fell_back, 2);
        cr_expect_eq(c.compiled, 1);
        ffn_kernel_destroy(kernel);
        end(&w);
    }
}

Test(cache, unsupported_is_remembered) {
    NEEDS_IMAGES();
    world w;
    begin(&w, FFN_VERIFY_FIRST_USE);
    w.fake.fail_first = 1000;
    w.fake.fail_status = FFN_UNSUPPORTED;
    ffn_kernel *kernel = kernel_of(&w, "d64-f256-gelu");
    for (int i = 0; i < 5; ++i) {
        ffn_diag diag = {.status = FFN_OK};
        cr_expect_eq(ffn_kernel_prepare(kernel, 1, &diag), FFN_UNSUPPORTED);
        cr_expect_str_eq(diag.text, "fake build 0 fails");
    }
    cr_expect_eq(w.fake.builds, 1);
    ffn_counters c = counters_of(&w);
    cr_expect_eq(c.fell_back, 5);
    cr_expect_eq(c.failed, 0, "UNSUPPORTED is no failure");
    ffn_kernel_destroy(kernel);
    end(&w);
}

Test(cache, a_bad_image_is_never_published) {
    NEEDS_IMAGES();
    ffn_spec other = support_spec("d64-f256-relu");
    for (int kind = 0; kind < 3; ++kind) {
        world w;
        begin(&w, FFN_VERIFY_NEVER);
        w.fake.damage = kind == 0;
        w.fake.as_spec = kind == 1 ? &other : NULL;
        w.fake.more_scratch = kind == 2 ? (size_t)1 << 50 : 0;
        ffn_kernel *kernel = kernel_of(&w, "d64-f256-gelu");
        ffn_diag diag = {.status = FFN_OK};
        cr_expect_eq(ffn_kernel_prepare(kernel, 1, &diag), FFN_BAD_IMAGE, "kind %d: %s", kind, diag.text);
        cr_expect_eq(origin_of(kernel, 1), FFN_FROM_FALLBACK);
        cr_expect_eq(counters_of(&w).failed, 1);
        ffn_kernel_destroy(kernel);
        end(&w);
    }
}

Test(cache, verification_happens_as_often_as_asked) {
    NEEDS_IMAGES();
    static const struct {
        ffn_verify_mode mode;
        bool marked, wrong;
        ffn_status status;
        bool verified;
    } cases[] = {
        {FFN_VERIFY_FIRST_USE, false, true, FFN_VERIFY_FAILED, false},
        {FFN_VERIFY_FIRST_USE, true, true, FFN_OK, true},
        {FFN_VERIFY_ALWAYS, true, true, FFN_VERIFY_FAILED, false},
        {FFN_VERIFY_ALWAYS, true, false, FFN_OK, true},
        {FFN_VERIFY_NEVER, false, true, FFN_OK, false},
        {FFN_VERIFY_FIRST_USE, false, false, FFN_OK, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        world w;
        begin(&w, cases[i].mode);
        w.fake.marked = cases[i].marked;
        w.fake.defect = cases[i].wrong ? FAKE_COLUMN : FAKE_NONE;
        ffn_kernel *kernel = kernel_of(&w, "d64-f256-gelu");
        cr_expect_eq(ffn_kernel_prepare(kernel, 1, NULL), cases[i].status, "case %zu", i);
        ffn_kernel_info info;
        ffn_kernel_inspect(kernel, 1, &info);
        cr_expect_eq(info.verified, cases[i].verified, "case %zu", i);
        if (cases[i].mode == FFN_VERIFY_NEVER) {
            cr_expect_eq(w.fake.calls, 0);
        }
        ffn_kernel_destroy(kernel);
        end(&w);
    }
}

static void *build_slowly(void *kernel) {
    ffn_kernel_prepare(kernel, 17, NULL);
    return NULL;
}

/* A build that a cancelled thread left behind would have the next one wait for ever. */
Test(cache, a_cancelled_thread_ends_its_build_first) {
    NEEDS_IMAGES();
    world w;
    begin(&w, FFN_VERIFY_NEVER);
    w.fake.sleep_ms = 100;
    ffn_kernel *kernel = kernel_of(&w, "d64-f256-gelu");
    pthread_t builder, waiter;
    cr_assert_eq(pthread_create(&builder, NULL, build_slowly, kernel), 0);
    while (w.fake.builds < 1) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    cr_assert_eq(pthread_create(&waiter, NULL, build_slowly, kernel), 0);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    pthread_cancel(waiter);
    pthread_cancel(builder);
    pthread_join(waiter, NULL);
    pthread_join(builder, NULL);
    alarm(20); /* a hang ends by this signal */
    cr_expect_eq(ffn_kernel_prepare(kernel, 17, NULL), FFN_OK);
    alarm(0);
    cr_expect_eq(w.fake.builds, 1);
    ffn_kernel_destroy(kernel);
    end(&w);
}

Test(cache, what_the_store_cannot_do_is_said_once_to_the_first_who_listens) {
    NEEDS_IMAGES();
    world w;
    fake_source_init(&w.fake);
    w.fake.source.identity = "fake 1";
    w.fake.fail_first = 1;
    w.fake.fail_status = FFN_COMPILE_FAILED;
    ffn_options options = {.source = &w.fake.source, .verify = FFN_VERIFY_NEVER, .store = "/proc/self/no/store"};
    cr_assert_eq(ffn_context_create(&options, &w.context, NULL), FFN_OK);
    ffn_kernel *kernel = kernel_of(&w, "d64-f256-gelu");
    ffn_diag diag;
    cr_expect_eq(ffn_kernel_prepare(kernel, 1, &diag), FFN_COMPILE_FAILED);
    cr_expect_str_eq(diag.text, "fake build 0 fails");
    cr_expect_eq(ffn_kernel_prepare(kernel, 1, NULL), FFN_OK);
    cr_expect_eq(ffn_kernel_prepare(kernel, 1, &diag), FFN_OK);
    cr_expect(strstr(diag.text, "/proc/self/no"), "%s", diag.text);
    cr_expect_eq(diag.status, FFN_OK);
    cr_expect_eq(ffn_kernel_prepare(kernel, 17, &diag), FFN_OK);
    cr_expect_str_empty(diag.text);
    ffn_kernel_destroy(kernel);
    end(&w);
}

static ffn_status answer_with_another_plan(void *self, const ffn_spec *spec, const ffn_plan *plan, ffn_bytes *bytes,
                                           ffn_diag *diag) {
    fake_source *fake = self;
    ffn_plan other = *plan;
    other.prefetch += 1;
    return fake->source.build(fake, spec, &other, bytes, diag);
}

Test(cache, an_image_with_another_plan_is_used_and_not_kept) {
    NEEDS_IMAGES();
    char folder[] = "/tmp/ffn_cache_XXXXXX", command[64];
    cr_assert_not_null(mkdtemp(folder));
    world w;
    fake_source_init(&w.fake);
    ffn_source fixed = {.build = answer_with_another_plan, .self = &w.fake, .identity = "fake 1"};
    for (int i = 0; i < 2; ++i) {
        ffn_options options = {.source = i == 0 ? &fixed : &w.fake.source, .verify = FFN_VERIFY_NEVER, .store = folder};
        w.fake.source.identity = "fake 1";
        cr_assert_eq(ffn_context_create(&options, &w.context, NULL), FFN_OK);
        ffn_kernel *kernel = kernel_of(&w, "d64-f256-gelu");
        cr_expect_eq(ffn_kernel_prepare(kernel, 1, NULL), FFN_OK);
        cr_expect_eq(origin_of(kernel, 1), FFN_FROM_COMPILER);
        ffn_kernel_destroy(kernel);
        ffn_context_destroy(w.context);
        snprintf(command, sizeof command, "ls %s | grep -c ffn >/dev/null", folder);
        cr_expect_eq(system(command) == 0, i == 1, "kept %d", i);
    }
    snprintf(command, sizeof command, "rm -rf %s", folder);
    cr_expect_eq(system(command), 0);
    fake_source_free(&w.fake);
}

static long lines_of(const char *path) {
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file);
    long lines = 0;
    for (int c; (c = getc(file)) != EOF;) {
        lines += c == '\n';
    }
    fclose(file);
    return lines;
}

/* Handles come and go; the context keeps one code a key, so that memory is flat once every shape has been seen. */
Test(cache, maps_stay_flat_over_many_handles) {
    NEEDS_IMAGES();
    enum { SHAPES = 100, ROUNDS = 50 };
    world w;
    begin(&w, FFN_VERIFY_NEVER);
    long after_first = 0;
    for (int round = 0; round < ROUNDS; ++round) {
        for (int s = 0; s < SHAPES; ++s) {
            char text[64];
            snprintf(text, sizeof text, "d%d-f%d-relu", 1 + s % 10, 1 + s / 10);
            ffn_kernel *kernel = kernel_of(&w, text);
            cr_assert_eq(ffn_kernel_prepare(kernel, 1, NULL), FFN_OK);
            ffn_kernel_destroy(kernel);
        }
        if (round == 1) {
            after_first = lines_of("/proc/self/maps");
        }
    }
    cr_expect_leq(lines_of("/proc/self/maps"), after_first + 4);
    cr_expect_eq(w.fake.builds, SHAPES);
    cr_expect_eq(counters_of(&w).hit, SHAPES * (ROUNDS - 1));
    end(&w);
    cr_expect_leq(lines_of("/proc/self/maps"), after_first - SHAPES);
}
