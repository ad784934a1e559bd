/* test_work.c: how a work is cut, where its pieces write, and what is refused */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ffngen.h"
#include "support_threads.h"

/* ---- How it is cut ---- */

static void expect_cut(const support_layer *layer, int64_t n, int64_t pieces, int phases, int64_t least_pieces) {
    support_call call;
    ffn_work work;
    support_call_begin(&call, layer, n, pieces);
    cr_assert_eq(ffn_work_make(layer->kernel, &call.args, pieces, &work, NULL), FFN_OK);
    cr_expect_eq(work.phases, phases, "n = %lld, %lld pieces: %d phases", (long long)n, (long long)pieces, work.phases);
    for (int phase = 0; phase < work.phases; phase++)
        cr_expect(work.pieces[phase] >= least_pieces && work.pieces[phase] <= pieces, "n = %lld: %lld pieces of %lld",
                  (long long)n, (long long)work.pieces[phase], (long long)pieces);
    support_call_end(&call);
}

Test(work, few_rows_feed_every_core_and_many_are_cut_by_rows) {
    for (int generated = 0; generated < 2; generated++) {
        support_layer layer;
        support_layer_begin(&layer, "d768-f3072-gelu", generated, 512);
        expect_cut(&layer, 1, 32, 2, 24);
        expect_cut(&layer, 1, 2, 2, 2);
        expect_cut(&layer, 3, 8, 2, 8);
        expect_cut(&layer, 20, 16, 2, 14);
        expect_cut(&layer, 40, 16, 2, 14);
        expect_cut(&layer, 512, 16, 1, 16);
        expect_cut(&layer, 128, 2, 1, 2);
        expect_cut(&layer, 128, 1, 1, 1);
        support_layer_end(&layer);
    }
    support_layer layer; /* one panel of d_model cannot be shared */
    support_layer_begin(&layer, "d16-f16400-relu", true, 16);
    expect_cut(&layer, 16, 2, 1, 2);
    support_layer_end(&layer);
}

Test(work, small_work_stays_in_one_piece) {
    static const struct {
        const char *spec;
        int64_t n;
    } small[] = {
        {"d8-f8-relu", 1}, {"d8-f8-relu", 70}, {"d64-f256-gelu", 1}, {"d64-f256-gelu", 4}, {"d1-f1-relu", 600}};
    for (size_t i = 0; i < sizeof small / sizeof small[0]; i++) {
        support_layer layer;
        support_layer_begin(&layer, small[i].spec, true, small[i].n);
        expect_cut(&layer, small[i].n, 64, 1, 1);
        support_call call;
        support_crowd crowd;
        ffn_work work;
        support_crowd_make(&crowd, 64);
        support_call_begin(&call, &layer, small[i].n, 64);
        cr_assert_eq(ffn_work_make(layer.kernel, &call.args, 64, &work, NULL), FFN_OK);
        cr_expect_eq(work.pieces[0], 1, "%s: %lld pieces", small[i].spec, (long long)work.pieces[0]);
        cr_expect_eq(ffn_kernel_run_parallel(layer.kernel, &call.args, &crowd.parallel, NULL), FFN_OK);
        cr_expect_eq(crowd.calls, 0, "one piece is run on the calling thread");
        cr_expect(support_call_right(&call, &layer));
        support_call_end(&call);
        support_layer_end(&layer);
    }
}

/* Writes a pattern, runs one piece, and adds one to the count of each float that changed. */
static void count_writes(const ffn_work *work, int phase, int64_t piece, float *memory, size_t bytes, uint8_t *writes) {
    const int64_t count = (int64_t)(bytes / sizeof(float));
    float *before = support_aligned(bytes);
    memcpy(before, memory, bytes);
    cr_assert_eq(ffn_work_run(work, phase, piece, NULL), FFN_OK);
    for (int64_t i = 0; i < count; i++)
        writes[i] = (uint8_t)(writes[i] + (memcmp(&before[i], &memory[i], sizeof(float)) != 0));
    free(before);
}

/* Each output is written by one piece, each piece has scratch of its own, no cache line of scratch or h is shared. */
Test(work, pieces_write_to_places_of_their_own) {
    static const int64_t rows[] = {1, 3, 20, 100};
    support_layer layer;
    support_layer_begin(&layer, "d501-f1037-swiglu", true, 100);
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        const int64_t n = rows[r], cells = layer.rows * layer.ldy;
        support_call call;
        ffn_work work;
        support_call_begin(&call, &layer, n, 12);
        cr_assert_eq(ffn_work_make(layer.kernel, &call.args, 12, &work, NULL), FFN_OK);
        uint8_t *in_y = calloc((size_t)cells, 1);
        const int64_t lines = (int64_t)(call.args.scratch_bytes / 64);
        int16_t *owner = calloc((size_t)lines, sizeof *owner);
        for (int phase = 0; phase < work.phases; phase++) {
            memset(owner, 0, (size_t)lines * sizeof *owner);
            for (int64_t piece = 0; piece < work.pieces[phase]; piece++) {
                uint8_t *in_scratch = calloc(call.args.scratch_bytes, 1);
                if (phase + 1 == work.phases) {
                    support_fill_nan(call.y, cells);
                    count_writes(&work, phase, piece, call.y, (size_t)cells * sizeof(float), in_y);
                }
                count_writes(&work, phase, piece, call.scratch, call.args.scratch_bytes, in_scratch);
                for (int64_t i = 0; i < lines * 16; i++)
                    if (in_scratch[i] > 0) {
                        cr_assert(owner[i / 16] == 0 || owner[i / 16] == piece + 1,
                                  "n = %lld: pieces %d and %lld share a line", (long long)n, owner[i / 16] - 1,
                                  (long long)piece);
                        owner[i / 16] = (int16_t)(piece + 1);
                    }
                free(in_scratch);
            }
        }
        for (int64_t i = 0; i < cells; i++) {
            const int wanted = i / layer.ldy < n && i % layer.ldy < layer.spec.d_model;
            cr_assert_eq(in_y[i], wanted, "n = %lld: output %lld was written by %d pieces", (long long)n, (long long)i,
                         in_y[i]);
        }
        free(owner);
        free(in_y);
        support_call_end(&call);
    }
    support_layer_end(&layer);
}

/* ---- What is refused ---- */

typedef struct refused {
    support_layer layer;
    support_call call;
} refused;

static void expect_refused(refused *r, const ffn_args *args, int64_t pieces, const char *names) {
    ffn_work work, before;
    ffn_diag diag = {.text = ""};
    memset(&work, 0x5a, sizeof work);
    memcpy(&before, &work, sizeof work);
    cr_expect_eq(ffn_work_make(r->layer.kernel, args, pieces, &work, &diag), FFN_BAD_ARGUMENT, "%s: %d", names,
                 diag.status);
    cr_expect(strstr(diag.text, names) != NULL, "'%s' should name %s", diag.text, names);
    cr_expect_eq(memcmp(&work, &before, sizeof work), 0, "%s: work was touched", names);
    if (pieces > 0) {
        support_crowd crowd;
        support_crowd_make(&crowd, pieces);
        cr_expect_eq(ffn_kernel_run_parallel(r->layer.kernel, args, &crowd.parallel, &diag), FFN_BAD_ARGUMENT);
        cr_expect_eq(crowd.calls, 0);
    }
    for (int64_t i = 0; i < r->layer.rows * r->layer.ldy; i++)
        cr_assert(isnan(r->call.y[i]), "%s: y was touched", names);
}

static void refused_begin(refused *r, int64_t n, int64_t pieces) {
    support_layer_begin(&r->layer, "d321-f1117-gelu", false, 20);
    support_call_begin(&r->call, &r->layer, n, pieces);
}

static void refused_end(refused *r) {
    support_call_end(&r->call);
    support_layer_end(&r->layer);
}

Test(work, arguments_are_checked_before_anything_is_touched) {
    refused r;
    refused_begin(&r, 3, 4);
    const ffn_args good = r.call.args;
    ffn_args bad = good;
    bad.n = -1;
    expect_refused(&r, &bad, 4, "n is -1");
    bad = good;
    bad.n = INT64_MAX / 8;
    expect_refused(&r, &bad, 4, "address space");
    bad = good;
    bad.scratch_bytes--;
    expect_refused(&r, &bad, 4, "ffn_work_scratch_bytes");
    expect_refused(&r, &good, 5, "ffn_work_scratch_bytes"); /* scratch of four pieces */
    bad = good;
    bad.scratch = (char *)good.scratch + 4;
    expect_refused(&r, &bad, 4, "scratch");
    bad = good;
    bad.x = NULL;
    expect_refused(&r, &bad, 4, "x is");
    bad = good;
    bad.ldy = 1;
    expect_refused(&r, &bad, 4, "ldy is 1");
    bad = good;
    bad.y = (float *)good.scratch; /* where h of a second phase would stand, too */
    bad.ldy = r.layer.spec.d_model;
    expect_refused(&r, &bad, 4, "overlap");
    bad = good;
    bad.y = (float *)(void *)((char *)good.scratch + good.scratch_bytes) - 8;
    expect_refused(&r, &bad, 4, "overlap");
    bad = good;
    bad.packed = NULL;
    expect_refused(&r, &bad, 4, "packed");
    expect_refused(&r, &good, 0, "pieces_max is 0");
    expect_refused(&r, &good, -3, "pieces_max is -3");
    expect_refused(&r, NULL, 4, "args");
    cr_expect_eq(ffn_work_make(NULL, &good, 4, &(ffn_work){0}, NULL), FFN_BAD_ARGUMENT);
    cr_expect_eq(ffn_work_make(r.layer.kernel, &good, 4, NULL, NULL), FFN_BAD_ARGUMENT);
    refused_end(&r);
}

Test(work, a_bad_pool_is_refused) {
    refused r;
    refused_begin(&r, 3, 4);
    support_crowd crowd;
    support_crowd_make(&crowd, 4);
    const ffn_parallel_for bad[] = {{.run = NULL, .threads = 4},
                                    {.run = crowd.parallel.run, .self = &crowd, .threads = 0},
                                    {.run = crowd.parallel.run, .self = &crowd, .threads = -1}};
    for (size_t i = 0; i < 4; i++) {
        ffn_diag diag = {.text = ""};
        cr_expect_eq(ffn_kernel_run_parallel(r.layer.kernel, &r.call.args, i < 3 ? &bad[i] : NULL, &diag),
                     FFN_BAD_ARGUMENT);
        cr_expect(strstr(diag.text, "pool") != NULL, "%s", diag.text);
        cr_expect_eq(crowd.calls, 0);
    }
    refused_end(&r);
}

Test(work, no_rows_are_no_work) {
    refused r;
    refused_begin(&r, 3, 4);
    ffn_work work = {.phases = 7};
    ffn_diag diag;
    cr_expect_eq(ffn_work_make(r.layer.kernel, &(ffn_args){.n = 0}, 4, &work, &diag), FFN_OK);
    cr_expect_eq(work.phases, 0);
    cr_expect_eq(ffn_work_run(&work, 0, 0, &diag), FFN_BAD_ARGUMENT);
    cr_expect_eq(ffn_work_scratch_bytes(r.layer.kernel, 0, 4), 0);
    support_crowd crowd;
    support_crowd_make(&crowd, 4);
    cr_expect_eq(ffn_kernel_run_parallel(r.layer.kernel, &(ffn_args){.n = 0}, &crowd.parallel, &diag), FFN_OK);
    cr_expect_eq(crowd.calls, 0);
    refused_end(&r);
}

Test(work, pieces_that_do_not_exist_are_refused) {
    refused r;
    refused_begin(&r, 3, 4);
    ffn_work work;
    ffn_diag diag;
    cr_assert_eq(ffn_work_make(r.layer.kernel, &r.call.args, 4, &work, NULL), FFN_OK);
    const struct {
        int phase;
        int64_t piece;
    } bad[] = {{-1, 0}, {2, 0}, {0, -1}, {0, work.pieces[0]}, {1, work.pieces[1]}, {0, INT64_MAX}, {INT_MAX, 0}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_expect_eq(ffn_work_run(&work, bad[i].phase, bad[i].piece, &diag), FFN_BAD_ARGUMENT, "%zu", i);
    cr_expect_eq(ffn_work_run(NULL, 0, 0, NULL), FFN_BAD_ARGUMENT);
    for (int64_t i = 0; i < r.layer.rows * r.layer.ldy; i++)
        cr_assert(isnan(r.call.y[i]));
    refused_end(&r);
}

/* No product wraps, however many rows or pieces are named. */
Test(work, scratch_that_cannot_be_is_none) {
    refused r;
    refused_begin(&r, 3, 4);
    const ffn_kernel *kernel = r.layer.kernel;
    cr_expect_eq(ffn_work_scratch_bytes(kernel, INT64_MAX, INT64_MAX), 0);
    size_t last = 1;
    for (int64_t pieces = 1; pieces <= INT64_MAX / 4; pieces *= 4) {
        const size_t bytes = ffn_work_scratch_bytes(kernel, INT64_C(1) << 40, pieces);
        cr_expect(bytes >= last || bytes == 0, "%lld pieces: %zu bytes, fewer than with less", (long long)pieces,
                  bytes);
        cr_expect(last > 0 || bytes == 0, "%lld pieces: %zu bytes where fewer cannot be", (long long)pieces, bytes);
        last = bytes;
    }
    cr_expect_eq(ffn_work_scratch_bytes(kernel, 3, 0), 0);
    cr_expect_eq(ffn_work_scratch_bytes(kernel, -3, 4), 0);
    cr_expect_eq(ffn_work_scratch_bytes(NULL, 3, 4), 0);
    refused_end(&r);
}

static float *work_of_half_each(const ffn_work *odd, const ffn_work *even, int64_t floats) {
    support_fill_nan(odd->args.y, floats);
    for (int phase = 0; phase < odd->phases; phase++)
        for (int64_t piece = 0; piece < odd->pieces[phase]; piece++)
            cr_assert_eq(ffn_work_run(piece % 2 ? odd : even, phase, piece, NULL), FFN_OK);
    return odd->args.y;
}

/* A plan without one-panel tiles would take single panels row by row. */
Test(work, columns_are_dealt_out_in_panels_that_the_tiles_take) {
    enum { D_MODEL = 768, N = 7, THREADS = 48 };
    const ffn_isa isa = ffn_isa_best();
    if (isa == FFN_ISA_PORTABLE)
        cr_skip_test("no code is generated for this CPU");
    const ffn_spec spec = support_spec("d768-f3072-gelu");
    support_weights *weights = support_random_weights(&spec, SUPPORT_NORMAL, 2);
    void *packed = support_packed(&spec, &weights->weights);
    float *x = support_aligned(N * D_MODEL * sizeof *x), *y = support_aligned(N * D_MODEL * sizeof *y);
    ffn_machine machine;
    ffn_plan plan;
    ffn_machine_read(&machine);
    cr_assert_eq(ffn_plan_make(&spec, isa, FFN_N_5_16, &machine, &plan, NULL), FFN_OK);
    plan.tiles[0] = (ffn_tile){2, 2};
    plan.tiles[1] = (ffn_tile){1, 1};
    plan.tile_count = 2;
    const ffn_options options = {.source = ffngen_source(), .verify = FFN_VERIFY_NEVER, .store = "", .plan = &plan};
    ffn_context *context;
    ffn_kernel *kernel;
    ffn_diag diag = {.text = ""};
    cr_assert_eq(ffn_context_create(&options, &context, &diag), FFN_OK, "%s", diag.text);
    cr_assert_eq(ffn_kernel_create(context, &spec, &kernel, &diag), FFN_OK, "%s", diag.text);
    int in_columns = 0;
    for (int threads = 2; threads <= THREADS; threads++) {
        ffn_work work;
        ffn_args args = {N, x, D_MODEL, y, D_MODEL, packed, NULL, ffn_work_scratch_bytes(kernel, N, threads)};
        args.scratch = support_aligned(args.scratch_bytes);
        cr_assert_eq(ffn_work_make(kernel, &args, threads, &work, NULL), FFN_OK);
        in_columns += work.phases == 2;
        for (int phase = 0; work.phases == 2 && phase < 2; phase++)
            cr_expect_eq(work.unit[phase] % 2, 0, "%d threads: %lld panels", threads, (long long)work.unit[phase]);
        free(args.scratch);
    }
    cr_expect_gt(in_columns, 0);
    ffn_kernel_destroy(kernel);
    ffn_context_destroy(context);
    support_weights_free(weights);
    free(packed);
    free(x);
    free(y);
}

/* Code may be published between the calls of two threads that each make the work, though they should share one. */
Test(work, cut_does_not_depend_on_the_code_that_serves) {
    if (ffn_isa_best() == FFN_ISA_PORTABLE)
        cr_skip_test("no code is generated for this CPU");
    enum { THREADS = 16, D_MODEL = 768 };
    static const int64_t counts[] = {1, 3, 9, 40};
    const ffn_spec spec = support_spec("d768-f3072-gelu");
    support_weights *weights = support_random_weights(&spec, SUPPORT_NORMAL, 2);
    void *packed = support_packed(&spec, &weights->weights);
    float *x = support_aligned(40 * D_MODEL * sizeof *x), *y = support_aligned(40 * D_MODEL * sizeof *y);
    float *want = support_aligned(40 * D_MODEL * sizeof *want);
    support_fill_x(x, 40, D_MODEL, D_MODEL, SUPPORT_NORMAL, 3);
    const ffn_options options = {.source = ffngen_source(), .verify = FFN_VERIFY_NEVER, .store = ""};
    int in_columns = 0;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        const int64_t n = counts[i];
        ffn_context *context;
        ffn_kernel *kernel;
        cr_assert_eq(ffn_context_create(&options, &context, NULL), FFN_OK);
        cr_assert_eq(ffn_kernel_create(context, &spec, &kernel, NULL), FFN_OK);
        ffn_work before[THREADS + 1], after;
        ffn_args args = {n, x, D_MODEL, y, D_MODEL, packed, NULL, ffn_work_scratch_bytes(kernel, n, THREADS)};
        args.scratch = support_aligned(args.scratch_bytes);
        for (int threads = 2; threads <= THREADS; threads++)
            cr_assert_eq(ffn_work_make(kernel, &args, threads, &before[threads], NULL), FFN_OK);
        args.y = want;
        cr_assert_eq(ffn_kernel_run(kernel, &args, NULL), FFN_OK);
        args.y = y;
        for (int64_t rows = 1; rows <= 17; rows += rows == 1 ? 1 : rows == 2 ? 3 : 12)
            cr_assert_eq(ffn_kernel_prepare(kernel, rows, NULL), FFN_OK);
        for (int threads = 2; threads <= THREADS; threads++) {
            const ffn_work *was = &before[threads];
            cr_assert_eq(ffn_work_make(kernel, &args, threads, &after, NULL), FFN_OK);
            in_columns += after.phases == 2;
            cr_expect_eq(after.phases, was->phases);
            for (int phase = 0; phase < 2; phase++) {
                cr_expect_eq(after.pieces[phase], was->pieces[phase], "n %lld, %d threads", (long long)n, threads);
                cr_expect_eq(after.unit[phase], was->unit[phase], "n %lld, %d threads", (long long)n, threads);
            }
            cr_expect_eq(after.groups, was->groups);
            cr_expect_eq(after.slice_bytes, was->slice_bytes);
            cr_expect_eq(after.hidden, was->hidden);
            cr_expect_neq(after.code, was->code);
            cr_expect_arr_eq(work_of_half_each(was, &after, n * D_MODEL), want, (size_t)(n * D_MODEL) * sizeof *want,
                             "n %lld, %d threads", (long long)n, threads);
        }
        free(args.scratch);
        ffn_kernel_destroy(kernel);
        ffn_context_destroy(context);
    }
    cr_expect_gt(in_columns, 0);
    free(want);
    free(y);
    free(x);
    free(packed);
    support_weights_free(weights);
}
