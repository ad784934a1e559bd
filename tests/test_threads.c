/* test_threads.c: pieces of a work give the bits of the whole, however it is cut and whoever runs them */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#if defined(_OPENMP)
#include <omp.h>
#endif

#include <cblas.h>

#include "ffn_blas.h"
#include "peer.h"
#include "support_oracle.h"
#include "support_threads.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { EVERY_ROW_COUNT = 9, EVERY_PIECE_COUNT = 8, ROWS_MANY = 140 };
#else
enum { EVERY_ROW_COUNT = 1, EVERY_PIECE_COUNT = 1, ROWS_MANY = 600 };
#endif

/* Large enough for many pieces, but for those of one panel: 33 pieces of one row need 4 MiB of weights. */
static const struct {
    const char *spec;
    bool fine; /* every n and number of pieces; else a few of them */
} shapes[] = {{"d512-f1040-gelu-bias", true}, {"d321-f1117-swiglu", false},        {"d48-f2064-relu2-bias", false},
              {"d8-f8-relu", true},           {"d16-f4099-silu-bias_down", false}, {"d1031-f17-geglu-bias", false},
              {"d33-f61-gelu_tanh", false}};

static void expect_every_cut(const char *spec, bool generated, bool fine) {
    support_layer layer;
    support_layer_begin(&layer, spec, generated, ROWS_MANY);
    const int64_t row_step = fine ? EVERY_ROW_COUNT : 11, piece_step = fine ? EVERY_PIECE_COUNT : 5;
    for (int64_t n = 0; n <= ROWS_MANY; n += n < 70 ? row_step : 173)
        for (int64_t pieces = 1; pieces <= 33; pieces += piece_step) {
            support_call call;
            ffn_work work;
            ffn_diag diag = {.text = ""};
            support_call_begin(&call, &layer, n, pieces);
            cr_assert_eq(ffn_work_make(layer.kernel, &call.args, pieces, &work, &diag), FFN_OK, "%s", diag.text);
            cr_assert(work.phases <= 2 && (work.phases == 0) == (n == 0));
            for (int phase = 0; phase < work.phases; phase++)
                cr_assert(work.pieces[phase] >= 1 && work.pieces[phase] <= pieces);
            support_work_shuffled(&work, (uint64_t)(n * 64 + pieces));
            cr_assert(support_call_right(&call, &layer), "%s, %s, n = %lld, %lld pieces", spec,
                      generated ? "generated" : "portable", (long long)n, (long long)pieces);
            support_call_end(&call);
        }
    support_layer_end(&layer);
}

Test(threads, no_cut_changes_a_bit_of_generated_code) {
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        expect_every_cut(shapes[i].spec, true, shapes[i].fine);
}

Test(threads, no_cut_changes_a_bit_of_the_portable_kernel) {
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        expect_every_cut(shapes[i].spec, false, false);
}

/* The bits of the whole are right in themselves: against the numeric contract written out. */
Test(threads, pieces_follow_the_numeric_contract) {
    support_layer layer;
    support_layer_begin(&layer, "d96-f1530-geglu-bias", true, 9);
    support_call call;
    ffn_work work;
    support_call_begin(&call, &layer, 9, 4);
    cr_assert_eq(ffn_work_make(layer.kernel, &call.args, 4, &work, NULL), FFN_OK);
    cr_expect(work.pieces[0] > 1);
    support_work_shuffled(&work, 1);
    float *want = support_aligned((size_t)(9 * layer.spec.d_model) * sizeof(float));
    oracle_contract(&layer.spec, &layer.weights->weights, layer.x, layer.ldx, 9, want);
    cr_expect_eq(oracle_first_unequal(&layer.spec, call.y, layer.ldy, want, layer.spec.d_model, 9), -1);
    free(want);
    support_call_end(&call);
    support_layer_end(&layer);
}

/* ---- Who runs it ---- */

Test(threads, real_threads_give_the_bits_of_one) {
    support_layer layer;
    support_layer_begin(&layer, "d321-f1117-swiglu-bias", true, 100);
    for (int64_t n = 1; n <= 100; n += n < 4 ? 1 : 32)
        for (int64_t threads = 1; threads <= 8; threads += 7) {
            support_call call;
            support_crowd crowd;
            ffn_diag diag = {.text = ""};
            support_crowd_make(&crowd, threads);
            support_call_begin(&call, &layer, n, threads);
            cr_expect_eq(ffn_kernel_run_parallel(layer.kernel, &call.args, &crowd.parallel, &diag), FFN_OK, "%s",
                         diag.text);
            cr_expect_eq(crowd.calls, threads == 1 ? 0 : n <= 64 ? 2 : 1, "n = %lld: %d", (long long)n, crowd.calls);
            cr_expect(support_call_right(&call, &layer), "n = %lld, %lld threads", (long long)n, (long long)threads);
            support_call_end(&call);
        }
    support_layer_end(&layer);
}

typedef struct caller {
    support_layer layer;
    atomic_int right, waiting;
    int callers;
} caller;

/* Each makes a work of its own and runs all of it, when all are there. */
static void *call_at_once(void *argument) {
    caller *c = argument;
    support_call call;
    ffn_work work;
    support_call_begin(&call, &c->layer, 3, 4);
    atomic_fetch_add(&c->waiting, 1);
    while (atomic_load(&c->waiting) < c->callers)
        sched_yield();
    if (ffn_work_make(c->layer.kernel, &call.args, 4, &work, NULL) == FFN_OK) {
        for (int phase = 0; phase < work.phases; phase++)
            for (int64_t piece = 0; piece < work.pieces[phase]; piece++)
                ffn_work_run(&work, phase, piece, NULL);
        atomic_fetch_add(&c->right, support_call_right(&call, &c->layer));
    }
    support_call_end(&call);
    return NULL;
}

Test(threads, three_hundred_callers_at_once) {
    caller c = {.callers = 300};
    support_layer_begin(&c.layer, "d96-f1530-relu", true, 3);
    support_threads_run(c.callers, 1 << 18, call_at_once, &c);
    cr_expect_eq(atomic_load(&c.right), c.callers, "%d of %d are right", atomic_load(&c.right), c.callers);
    support_layer_end(&c.layer);
}

#if defined(_OPENMP)
static void openmp_run(void *self, int64_t count, void (*task)(void *argument, int64_t i), void *argument) {
    (void)self;
#pragma omp parallel for num_threads(3) schedule(dynamic, 1)
    for (int64_t i = 0; i < count; i++)
        task(argument, i);
}
#endif

/* As an engine with OpenMP would: a pool made of it, and kernels run inside its regions, nested ones too. */
Test(threads, inside_openmp_regions) {
#if defined(_OPENMP)
    const ffn_parallel_for pool = {.run = openmp_run, .threads = 3};
    support_layer layer;
    support_layer_begin(&layer, "d321-f1117-swiglu-bias", true, 40);
    omp_set_max_active_levels(2);
    int right = 0;
#pragma omp parallel for num_threads(4) reduction(+ : right)
    for (int i = 0; i < 12; i++) {
        support_call call;
        support_call_begin(&call, &layer, i % 3 == 0 ? 40 : i % 3, 3);
        if (ffn_kernel_run_parallel(layer.kernel, &call.args, &pool, NULL) == FFN_OK)
            right += support_call_right(&call, &layer);
        support_call_end(&call);
    }
    cr_expect_eq(right, 12, "%d of 12 are right", right);
    support_layer_end(&layer);
#else
    cr_skip_test("built without OpenMP");
#endif
}

/* Else a comparison with one thread would be one with all. */
Test(threads, the_reference_runs_on_one_thread_when_told_so) {
    openblas_set_num_threads(2);
    if (openblas_get_num_threads() == 1)
        cr_skip_test("OpenBLAS was built for one thread");
    ffn_blas_product(false);
    cr_expect_eq(openblas_get_num_threads(), 2, "left as it was");
    ffn_blas_product(true);
    cr_expect_eq(openblas_get_num_threads(), 1);

    const ffn_machine machine = {.l1_bytes = 1 << 15, .l2_bytes = 1 << 19, .l3_bytes = 1 << 20};
    ffn_spec spec;
    bench_layer layer;
    bench_peers peers;
    cr_assert_eq(ffn_spec_parse("d96-f192-relu", &spec, NULL), FFN_OK);
    cr_assert_eq(bench_layer_create(&spec, NULL, false, &machine, &layer, NULL), FFN_OK);
    cr_assert_eq(bench_peers_parse("openblas", &peers, NULL), FFN_OK);
    bench_peers_open(&peers);
    cr_assert_str_empty(peers.list[0].missing);
    for (int threads = 2; threads >= 1; threads--) {
        bench_peers_take(&peers, &layer, threads);
        cr_expect_eq(openblas_get_num_threads(), threads);
    }
    bench_peers_close(&peers);
    bench_layer_destroy(&layer);
}
