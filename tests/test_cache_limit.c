/* test_cache_limit.c: the cache keeps to its limit, never at the cost of a kernel that somebody holds */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support_data.h"
#include "support_image.h"

#if defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1, THREAD_SANITIZED = 1 };
#elif defined(__SANITIZE_ADDRESS__)
enum { SANITIZED = 1, THREAD_SANITIZED = 0 };
#else
enum { SANITIZED = 0, THREAD_SANITIZED = 0 };
#endif

typedef struct world {
    fake_source fake;
    ffn_context *context;
} world;

static void begin(world *w, size_t cache_bytes) {
    fake_source_init(&w->fake);
    ffn_options options = {
        .source = &w->fake.source, .verify = FFN_VERIFY_NEVER, .store = "", .cache_bytes = cache_bytes};
    cr_assert_eq(ffn_context_create(&options, &w->context, NULL), FFN_OK);
}

static void end(world *w) {
    ffn_context_destroy(w->context);
    fake_source_free(&w->fake);
}

static ffn_kernel *create(world *w, int d_model) {
    char text[64];
    snprintf(text, sizeof text, "d%d-f8-relu", d_model);
    ffn_spec spec = support_spec(text);
    ffn_kernel *kernel = NULL;
    cr_assert_eq(ffn_kernel_create(w->context, &spec, &kernel, NULL), FFN_OK);
    return kernel;
}

static ffn_kernel *create_prepared(world *w, int d_model) {
    ffn_kernel *kernel = create(w, d_model);
    cr_assert_eq(ffn_kernel_prepare(kernel, 1, NULL), FFN_OK);
    return kernel;
}

/* True if the cache still has the code of a shape. */
static bool remembers(world *w, int d_model) {
    ffn_kernel *kernel = create(w, d_model);
    ffn_kernel_info info;
    ffn_kernel_inspect(kernel, 1, &info);
    ffn_kernel_destroy(kernel);
    return info.source != FFN_FROM_FALLBACK;
}

static ffn_counters counters_of(world *w) {
    ffn_counters counters;
    ffn_context_counters(w->context, &counters);
    return counters;
}

static long status_kib(const char *field) {
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    long kib = -1;
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, field, strlen(field)) == 0)
            kib = strtol(line + strlen(field) + 1, NULL, 10);
    if (file != NULL)
        fclose(file);
    return kib;
}

static long map_count(void) {
    FILE *file = fopen("/proc/self/maps", "r");
    cr_assert_not_null(file);
    long lines = 0;
    for (int c; (c = getc(file)) != EOF;)
        lines += c == '\n';
    fclose(file);
    return lines;
}

/* Bytes of one prepared kernel, found by asking for ever smaller limits: the limit is about bytes the test need not
 * know. */
static size_t limit_for(int kernels) {
    for (size_t limit = 4096;; limit += 1024) {
        world w;
        begin(&w, limit);
        for (int i = 1; i <= kernels; i++)
            ffn_kernel_destroy(create_prepared(&w, i));
        bool enough = counters_of(&w).evicted == 0;
        end(&w);
        if (enough)
            return limit;
    }
}

Test(cache_limit, the_least_recently_used_goes_first) {
    NEEDS_IMAGES();
    world w;
    begin(&w, limit_for(3));
    for (int i = 1; i <= 3; i++)
        ffn_kernel_destroy(create_prepared(&w, i));
    ffn_kernel_destroy(create(&w, 1)); /* used again: now 2 is the oldest */
    ffn_kernel_destroy(create_prepared(&w, 4));
    cr_expect_eq(counters_of(&w).evicted, 1);
    int builds = w.fake.builds;
    cr_expect(remembers(&w, 1));
    cr_expect(remembers(&w, 3));
    cr_expect(remembers(&w, 4));
    cr_expect_eq(w.fake.builds, builds);
    cr_expect_not(remembers(&w, 2));
    end(&w);
}

static void *touch_often(void *data) {
    for (int i = 0; i < 1000; i++)
        ffn_kernel_destroy(create(data, 1));
    return NULL;
}

Test(cache_limit, what_another_thread_used_often_is_older_than_what_was_used_last) {
    NEEDS_IMAGES();
    world w;
    begin(&w, limit_for(2));
    ffn_kernel_destroy(create_prepared(&w, 1));
    ffn_kernel_destroy(create_prepared(&w, 2));
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, touch_often, &w), 0);
    pthread_join(thread, NULL);
    usleep(30000); /* steps of the clock that threads share are a few milliseconds */
    ffn_kernel_destroy(create(&w, 2));
    ffn_kernel_destroy(create_prepared(&w, 3));
    cr_expect_eq(counters_of(&w).evicted, 1);
    cr_expect(remembers(&w, 2));
    end(&w);
}

Test(cache_limit, a_kernel_that_is_held_stays_whatever_the_limit) {
    NEEDS_IMAGES();
    world w;
    begin(&w, 1);
    enum { HELD = 20 };
    ffn_kernel *held[HELD];
    for (int i = 0; i < HELD; i++)
        held[i] = create_prepared(&w, i + 1);
    cr_expect_eq(counters_of(&w).evicted, 0);
    for (int i = 0; i < HELD; i++) {
        ffn_kernel *again = create(&w, i + 1);
        cr_expect_eq(again, held[i]);
        ffn_kernel_destroy(again);
        ffn_kernel_info info;
        ffn_kernel_inspect(held[i], 1, &info);
        cr_expect_eq(info.source, FFN_FROM_COMPILER);
    }
    long maps = map_count();
    for (int i = 0; i < HELD; i++)
        ffn_kernel_destroy(held[i]);
    cr_expect_eq(counters_of(&w).evicted, HELD, "a kernel over the limit stayed after its last holder went");
    cr_expect_leq(map_count(), maps - HELD);
    end(&w);
}

static void *destroy(void *kernel) {
    ffn_kernel_destroy(kernel);
    return NULL;
}

Test(cache_limit, a_hold_counts_whichever_thread_gives_it_back) {
    NEEDS_IMAGES();
    world w;
    begin(&w, 1);
    ffn_kernel *kernel = create_prepared(&w, 5);
    for (int i = 0; i < 64; i++) { /* threads of every stripe */
        ffn_kernel *again = create(&w, 5);
        pthread_t thread;
        cr_assert_eq(pthread_create(&thread, NULL, destroy, again), 0);
        pthread_join(thread, NULL);
    }
    cr_expect_eq(counters_of(&w).evicted, 0);
    ffn_kernel_destroy(kernel);
    cr_expect_eq(counters_of(&w).evicted, 1);
    end(&w);
}

typedef struct user {
    world *w;
    unsigned seed;
    int wrong;
} user;

/* Creates, prepares, runs and destroys at random: a kernel that was freed in use crashes or gives a wrong y. */
static void *use_at_random(void *data) {
    user *u = data;
    _Alignas(64) float x[32], y[32];
    for (int round = 0; round < 400; round++) {
        int d_model = 1 + (int)(rand_r(&u->seed) % 12);
        char text[64];
        snprintf(text, sizeof text, "d%d-f8-relu", d_model);
        ffn_spec spec = support_spec(text);
        ffn_kernel *kernel = create_prepared(u->w, d_model);
        for (int i = 0; i < 32; i++)
            x[i] = (float)i - 8;
        if (rand_r(&u->seed) % 2)
            usleep((useconds_t)(rand_r(&u->seed) % 50));
        ffn_kernel_info info;
        ffn_kernel_inspect(kernel, 1, &info);
        u->wrong += info.source != FFN_FROM_COMPILER || !ffn_spec_equal(ffn_kernel_spec(kernel), &spec);
        if (!THREAD_SANITIZED) { /* which does not see how the code of a fake kernel hands over its data */
            u->wrong += ffn_kernel_activate(kernel, 1, 32, x, NULL, y, NULL) != FFN_OK;
            for (int i = 0; i < 32; i++)
                u->wrong += y[i] != (i > 8 ? x[i] : 0);
        }
        ffn_kernel_destroy(kernel);
    }
    return NULL;
}

Test(cache_limit, eviction_never_takes_a_kernel_in_use) {
    NEEDS_IMAGES();
    enum { THREADS = 8 };
    world w;
    begin(&w, limit_for(4));
    user users[THREADS];
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++) {
        users[t] = (user){.w = &w, .seed = (unsigned)t + 1};
        cr_assert_eq(pthread_create(&threads[t], NULL, use_at_random, &users[t]), 0);
    }
    for (int t = 0; t < THREADS; t++) {
        pthread_join(threads[t], NULL);
        cr_expect_eq(users[t].wrong, 0);
    }
    cr_expect_gt(counters_of(&w).evicted, 100);
    end(&w);
}

Test(cache_limit, memory_and_maps_are_flat_over_many_kernels) {
    NEEDS_IMAGES();
    enum { SHAPES = 1000 };
    static const size_t limits[] = {(size_t)1 << 30, (size_t)8 << 20}; /* all fit; hardly any does */
    static const int cycles[] = {SANITIZED ? 10000 : 100000, 5000};
    for (int l = 0; l < 2; l++) {
        world w;
        begin(&w, limits[l]);
        long maps = 0, resident = 0;
        for (int i = 0; i < cycles[l]; i++) {
            ffn_kernel_destroy(create_prepared(&w, 1 + i % SHAPES));
            if (i == 2 * SHAPES) {
                maps = map_count();
                resident = status_kib("VmRSS");
            }
        }
        cr_expect_leq(map_count(), maps + 8);
        if (l == 0) {
            if (!SANITIZED) /* whose allocators keep what was freed */
                cr_expect_leq(status_kib("VmRSS"), resident + 4096);
            cr_expect_eq(w.fake.builds, SHAPES);
        } else { /* the fake source keeps what it built, so memory says nothing here */
            cr_expect_gt(counters_of(&w).evicted, 2000);
        }
        end(&w);
    }
}

Test(cache_limit, images_loaded_in_turns_are_mapped_once_each) {
    NEEDS_IMAGES();
    world w;
    begin(&w, 0);
    ffn_spec spec = support_spec("d64-f256-relu");
    ffn_kernel *kernel;
    cr_assert_eq(ffn_kernel_create(w.context, &spec, &kernel, NULL), FFN_OK);
    ffn_plan plan = support_plan(&spec, FFN_N_1);
    ffn_bytes made[2];
    for (int i = 0; i < 2; i++) {
        made[i] = support_image(&w.fake, &spec, &plan);
        cr_assert_eq(ffn_kernel_load(kernel, made[i].data, made[i].bytes, NULL), FFN_OK);
    }
    long maps = map_count();
    for (int i = 0; i < 100; i++)
        cr_expect_eq(ffn_kernel_load(kernel, made[i % 2].data, made[i % 2].bytes, NULL), FFN_OK);
    cr_expect_leq(map_count(), maps + 2);
    for (int i = 0; i < 2; i++)
        made[i].release(made[i].data);
    ffn_kernel_destroy(kernel);
    end(&w);
}
