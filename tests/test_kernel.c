/* test_kernel.c: arguments are checked before anything is touched; the right code serves; stages and row ranges give
 * the bits of the whole */
#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "support_data.h"
#include "support_image.h"
#include "support_oracle.h"

enum { ROWS = 20, LD = 80 };

typedef struct bench { /* a kernel with all that a run needs */
    fake_source fake;
    ffn_context *context;
    ffn_kernel *kernel;
    ffn_spec spec;
    support_weights *weights;
    void *packed;
    size_t scratch_bytes;
    float *scratch, *x, *y, *hidden;
    ffn_args args;
} bench;

static void bench_begin(bench *b, const char *text, const ffn_options *options) {
    memset(b, 0, sizeof *b);
    fake_source_init(&b->fake);
    ffn_options own = options != NULL ? *options : (ffn_options){.source = &b->fake.source, .store = ""};
    b->spec = support_spec(text);
    ffn_diag diag = {.status = FFN_OK};
    cr_assert_eq(ffn_context_create(&own, &b->context, &diag), FFN_OK, "%s", diag.text);
    cr_assert_eq(ffn_kernel_create(b->context, &b->spec, &b->kernel, &diag), FFN_OK, "%s", diag.text);
    b->weights = support_random_weights(&b->spec, SUPPORT_NORMAL, 7);
    b->packed = support_packed(&b->spec, &b->weights->weights);
    b->scratch_bytes = ffn_kernel_scratch_bytes(b->kernel);
    b->scratch = support_aligned(b->scratch_bytes);
    b->x = support_aligned(ROWS * LD * sizeof(float));
    b->y = support_aligned(ROWS * LD * sizeof(float));
    b->hidden = support_aligned(ffn_kernel_hidden_bytes(b->kernel));
    support_fill_nan(b->x, ROWS * LD);
    support_fill_x(b->x, ROWS, b->spec.d_model, LD, SUPPORT_NORMAL, 3);
    support_fill_nan(b->y, ROWS * LD);
    memset(b->scratch, 0xff, b->scratch_bytes);
    memset(b->hidden, 0xff, ffn_kernel_hidden_bytes(b->kernel));
    b->args = (ffn_args){.n = ROWS,
                         .x = b->x,
                         .ldx = LD,
                         .y = b->y,
                         .ldy = LD,
                         .packed = b->packed,
                         .scratch = b->scratch,
                         .scratch_bytes = b->scratch_bytes};
}

static void bench_end(bench *b) {
    ffn_kernel_destroy(b->kernel);
    ffn_context_destroy(b->context);
    fake_source_free(&b->fake);
    support_weights_free(b->weights);
    free(b->packed);
    free(b->scratch);
    free(b->x);
    free(b->y);
    free(b->hidden);
}

static bool all_nan(const float *values, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        if (!isnan(values[i])) {
            return false;
        }
    }
    return true;
}

static void expect_right(const bench *b, const float *y, int64_t n, const char *what) {
    float want[ROWS * LD];
    oracle_contract(&b->spec, &b->weights->weights, b->x, LD, n, want);
    int64_t at = oracle_first_unequal(&b->spec, y, LD, want, b->spec.d_model, n);
    cr_expect_eq(at, -1, "%s: output %lld differs", what, (long long)at);
    for (int64_t i = 0; i < ROWS; ++i) {
        const float *row = y + i * LD;
        cr_expect(i < n ? all_nan(row + b->spec.d_model, LD - b->spec.d_model) : all_nan(row, LD),
                  "%s: row %lld: something beside y was written", what, (long long)i);
    }
}

Test(kernel, the_portable_kernel_serves_until_prepared) {
    ffn_options options = {.compiler = "", .store = ""};
    bench b;
    bench_begin(&b, "d65-f130-gelu-bias", &options);
    ffn_diag diag = {.status = FFN_OK};
    cr_expect_eq(ffn_kernel_prepare(b.kernel, 1, &diag), FFN_UNSUPPORTED);
    cr_expect(strstr(diag.text, "no source") != NULL, "%s", diag.text);
    cr_expect_eq(ffn_kernel_run(b.kernel, &b.args, &diag), FFN_OK, "%s", diag.text);
    expect_right(&b, b.y, ROWS, "portable");
    ffn_kernel_info info;
    ffn_kernel_inspect(b.kernel, 1, &info);
    cr_expect_eq(info.isa, FFN_ISA_PORTABLE);
    cr_expect_eq(info.plan.tile_count, 0);
    cr_expect(ffn_spec_equal(ffn_kernel_spec(b.kernel), &b.spec));
    ffn_counters counters;
    ffn_context_counters(b.context, &counters);
    cr_expect_eq(counters.fell_back, 1);
    bench_end(&b);
}

Test(kernel, row_ranges_and_stages_give_the_bits_of_the_whole) {
    static const char *const specs[] = {"d65-f130-gelu-bias", "d48-f96-swiglu", "d17-f33-relu-bias_down"};
    for (size_t s = 0; s < 3; ++s) {
        bench b;
        bench_begin(&b, specs[s], NULL);
        if (support_image_possible()) {
            cr_expect_eq(ffn_kernel_prepare(b.kernel, ROWS, NULL), FFN_OK);
        }
        for (int64_t i = 0; i < ROWS; i += 7) {
            int64_t end = i + 7 < ROWS ? i + 7 : ROWS;
            cr_expect_eq(ffn_kernel_run_rows(b.kernel, &b.args, i, end, NULL), FFN_OK);
        }
        expect_right(&b, b.y, ROWS, specs[s]);

        support_fill_nan(b.y, ROWS * LD);
        b.args.n = FFN_STAGE_ROWS_MAX;
        for (int64_t c = 0; c < b.spec.d_ff; c += 32) {
            int64_t end = c + 32 < b.spec.d_ff ? c + 32 : b.spec.d_ff;
            cr_expect_eq(ffn_kernel_expand(b.kernel, &b.args, b.hidden, c, end, NULL), FFN_OK);
        }
        cr_expect(all_nan(b.y, ROWS * LD));
        for (int64_t c = 0; c < b.spec.d_model; c += 16) {
            int64_t end = c + 16 < b.spec.d_model ? c + 16 : b.spec.d_model;
            cr_expect_eq(ffn_kernel_contract(b.kernel, &b.args, b.hidden, c, end, NULL), FFN_OK);
        }
        expect_right(&b, b.y, FFN_STAGE_ROWS_MAX, specs[s]);
        bench_end(&b);
    }
}

Test(kernel, no_rows_are_a_success_that_touches_nothing) {
    bench b;
    bench_begin(&b, "d65-f130-gelu-bias", NULL);
    const ffn_args nothing = {0};
    ffn_args args = b.args;
    args.n = 0;
    cr_expect_eq(ffn_kernel_run(b.kernel, &nothing, NULL), FFN_OK);
    cr_expect_eq(ffn_kernel_run(b.kernel, &args, NULL), FFN_OK);
    cr_expect_eq(ffn_kernel_run_rows(b.kernel, &nothing, 0, 0, NULL), FFN_OK);
    cr_expect_eq(ffn_kernel_run_rows(b.kernel, &b.args, 5, 5, NULL), FFN_OK);
    cr_expect_eq(ffn_kernel_expand(b.kernel, &nothing, NULL, 0, 130, NULL), FFN_OK);
    cr_expect_eq(ffn_kernel_contract(b.kernel, &nothing, NULL, 0, 65, NULL), FFN_OK);
    cr_expect_eq(ffn_kernel_activate(b.kernel, 1, 0, NULL, NULL, NULL, NULL), FFN_OK);
    cr_expect(all_nan(b.y, ROWS * LD));
    bench_end(&b);
}

/* One wrong argument after the other; y and scratch must stay as they were, and the diag must name it. */
static void expect_refused(const bench *b, const ffn_args *args, ffn_status status, const char *says) {
    ffn_diag diag = {.status = FFN_OK};
    cr_expect_eq(ffn_kernel_run(b->kernel, args, &diag), status, "%s: \"%s\"", says, diag.text);
    cr_expect(strstr(diag.text, says) != NULL, "\"%s\" does not say \"%s\"", diag.text, says);
    cr_expect_eq(diag.status, status);
    cr_expect(all_nan(b->y, ROWS * LD), "%s: y was touched", says);
    cr_expect(all_nan(b->scratch, (int64_t)(b->scratch_bytes / sizeof(float))), "%s: scratch was touched", says);
}

static ffn_args changed(const bench *b) {
    return b->args;
}

Test(kernel, wrong_arguments_are_refused_and_named) {
    for (int generated = 0; generated < 2; ++generated) {
        bench b;
        bench_begin(&b, "d65-f130-gelu-bias", NULL);
        if (generated && (!support_image_possible() || ffn_kernel_prepare(b.kernel, ROWS, NULL) != FFN_OK)) {
            bench_end(&b);
            break;
        }
        memset(b.scratch, 0xff, b.scratch_bytes);
        ffn_args a = changed(&b);
        a.n = -1;
        expect_refused(&b, &a, FFN_BAD_ARGUMENT, "n is -1");
        a.n = INT64_MIN;
        expect_refused(&b, &a, FFN_BAD_ARGUMENT, "n is -9223372036854775808");
        a = changed(&b), a.x = NULL;
        expect_refused(&b, &a, FFN_BAD_ARGUMENT, "x is ");
        a = changed(&b), a.y = NULL;
        expect_refused(&b, &a, FFN_BAD_ARGUMENT, "y is ");
        a = changed(&b), a.x = (const float *)((const char *)b.x + 2);
        expect_refused(&b, &a, FFN_BAD_ARGUMENT, "float-aligned");
        a = changed(&b), a.ldx = 64;
        expect_refused(&b, &a, FFN_BAD_ARGUMENT, "ldx is 64");
        a = changed(&b), a.ldy = -80;
        expect_refused(&b, &a, FFN_BAD_ARGUMENT, "ldy is -80");
        a = changed(&b), a.ldy = 0;
        expect_refused(&b, &a, FFN_BAD_ARGUMENT, "ldy is 0");
        a = changed(&b), a.n = INT64_MAX;
        expect_refused(&b, &a, FFN_BAD_ARGUMENT, "address space");
        a = changed(&b), a.ldx = INT64_MAX;
        expect_refused(&b, &a, FFN_BAD_ARGUMENT, "address space");
        a = changed(&b), a.ldx = INT64_C(1) << 60;
        expect_refused(&b, &a, FFN_BAD_ARGUMENT, "address space");
        a = changed(&b), a.n = 17, a.ldx = INT64_C(1) << 60; /* 16 strides wrap round to nothing */
        expect_refused(&b, &a, FFN_BAD_ARGUMENT, "address space");
        a = changed(&b), a.n = 2, a.ldx = INT64_C(1) << 62; /* as bytes they do */
        expect_refused(&b, &a, FFN_BAD_ARGUMENT, "address space");
        a = changed(&b), a.packed = NULL;
        expect_refused(&b, &a, FFN_BAD_ARGUMENT, "packed");
        a = changed(&b), a.packed = (const char *)b.packed + 32;
        expect_refused(&b, &a, FFN_BAD_ARGUMENT, "packed");
        a = changed(&b), a.scratch = NULL;
        expect_refused(&b, &a, FFN_BAD_ARGUMENT, "scratch is");
        a = changed(&b), a.scratch = (char *)b.scratch + 32;
        expect_refused(&b, &a, FFN_BAD_ARGUMENT, "scratch is");
        a = changed(&b), a.scratch_bytes = b.scratch_bytes - 1;
        expect_refused(&b, &a, FFN_BAD_ARGUMENT, "scratch has");
        a = changed(&b), a.scratch = b.y;
        expect_refused(&b, &a, FFN_BAD_ARGUMENT, "overlap");
        ffn_diag diag = {.status = FFN_OK};
        cr_expect_eq(ffn_kernel_run(NULL, &b.args, &diag), FFN_BAD_ARGUMENT);
        cr_expect_eq(ffn_kernel_run(b.kernel, NULL, &diag), FFN_BAD_ARGUMENT);
        cr_expect_eq(ffn_kernel_run_rows(b.kernel, &b.args, -1, 3, &diag), FFN_BAD_ARGUMENT);
        cr_expect_eq(ffn_kernel_run_rows(b.kernel, &b.args, 3, 2, &diag), FFN_BAD_ARGUMENT);
        cr_expect_eq(ffn_kernel_run_rows(b.kernel, &b.args, 0, ROWS + 1, &diag), FFN_BAD_ARGUMENT);
        cr_expect(all_nan(b.y, ROWS * LD));
        bench_end(&b);
    }
}

Test(kernel, weights_of_another_spec_are_refused) {
    static const char *const others[] = {"d65-f130-gelu", "d65-f129-gelu-bias", "d64-f130-gelu-bias",
                                         "d65-f130-gelu_tanh-bias", "d65-f130-geglu-bias"};
    bench b;
    bench_begin(&b, "d65-f130-gelu-bias", NULL);
    for (size_t i = 0; i < sizeof others / sizeof *others; ++i) {
        ffn_spec spec = support_spec(others[i]);
        support_weights *weights = support_random_weights(&spec, SUPPORT_NORMAL, 1);
        void *packed = support_packed(&spec, &weights->weights);
        ffn_args a = b.args;
        a.packed = packed;
        expect_refused(&b, &a, FFN_BAD_WEIGHTS, "packed");
        free(packed);
        support_weights_free(weights);
    }
    bench_end(&b);
}

Test(kernel, overlap_is_refused_unless_columns_stay_apart) {
    enum { WIDTH = 65, BUFFER = 200 };
    bench b;
    bench_begin(&b, "d65-f130-gelu-bias", NULL);
    float *buffer = support_aligned((ROWS + 2) * BUFFER * sizeof(float));
    for (int64_t shift = -2 * BUFFER; shift <= 2 * BUFFER; ++shift) {
        /* y begins `shift` floats after x; rows of both are BUFFER apart */
        ffn_args a = b.args;
        a.n = 4;
        a.x = buffer + 4 * BUFFER;
        a.y = buffer + 4 * BUFFER + shift;
        a.ldx = a.ldy = BUFFER;
        bool apart = true;
        for (int64_t i = 0; i < a.n; ++i) {
            for (int64_t j = 0; j < a.n; ++j) {
                int64_t distance = (a.y + j * BUFFER) - (a.x + i * BUFFER);
                apart = apart && (distance >= WIDTH || distance <= -WIDTH);
            }
        }
        support_fill_x(buffer, ROWS + 2, BUFFER, BUFFER, SUPPORT_NORMAL, 5);
        cr_expect_eq(ffn_kernel_run(b.kernel, &a, NULL), apart ? FFN_OK : FFN_BAD_ARGUMENT, "shift %lld",
                     (long long)shift);
        a.ldy = BUFFER + 1; /* with two strides only what does not meet at all is right */
        uintptr_t x_end = (uintptr_t)(a.x + 3 * a.ldx + WIDTH), y_end = (uintptr_t)(a.y + 3 * a.ldy + WIDTH);
        bool meet = (uintptr_t)a.x < y_end && (uintptr_t)a.y < x_end;
        cr_expect_eq(ffn_kernel_run(b.kernel, &a, NULL), meet ? FFN_BAD_ARGUMENT : FFN_OK, "shift %lld",
                     (long long)shift);
    }
    ffn_args same = b.args;
    same.y = b.x;
    cr_expect_eq(ffn_kernel_run(b.kernel, &same, NULL), FFN_BAD_ARGUMENT);
    free(buffer);
    bench_end(&b);
}

Test(kernel, wrong_stage_arguments_are_refused) {
    bench b;
    bench_begin(&b, "d65-f130-gelu-bias", NULL);
    b.args.n = 4;
    ffn_args many = b.args, bare = b.args;
    many.n = FFN_STAGE_ROWS_MAX + 1;
    static const int64_t ranges[][2] = {{-16, 16}, {8, 16}, {0, 8}, {32, 16}, {0, 131}, {0, 144}, {128, 129}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; ++i) {
        cr_expect_eq(ffn_kernel_expand(b.kernel, &b.args, b.hidden, ranges[i][0], ranges[i][1], NULL), FFN_BAD_ARGUMENT,
                     "%lld..%lld", (long long)ranges[i][0], (long long)ranges[i][1]);
    }
    cr_expect_eq(ffn_kernel_contract(b.kernel, &b.args, b.hidden, 0, 80, NULL), FFN_BAD_ARGUMENT);
    cr_expect_eq(ffn_kernel_expand(b.kernel, &many, b.hidden, 0, 16, NULL), FFN_BAD_ARGUMENT);
    cr_expect_eq(ffn_kernel_expand(b.kernel, &b.args, NULL, 0, 16, NULL), FFN_BAD_ARGUMENT);
    cr_expect_eq(ffn_kernel_expand(b.kernel, &b.args, b.hidden + 1, 0, 16, NULL), FFN_BAD_ARGUMENT);
    cr_expect_eq(ffn_kernel_expand(b.kernel, &b.args, b.x, 0, 16, NULL), FFN_BAD_ARGUMENT, "hidden is x");
    cr_expect_eq(ffn_kernel_contract(b.kernel, &b.args, b.y, 0, 16, NULL), FFN_BAD_ARGUMENT, "hidden is y");
    bare.y = NULL;
    bare.ldy = 0;
    cr_expect_eq(ffn_kernel_expand(b.kernel, &bare, b.hidden, 0, 130, NULL), FFN_OK, "the expand stage needs no y");
    bare = b.args;
    bare.x = NULL;
    cr_expect_eq(ffn_kernel_contract(b.kernel, &bare, b.hidden, 0, 65, NULL), FFN_OK, "the contract stage needs no x");
    bench_end(&b);
}

Test(kernel, a_missing_class_is_served_by_the_nearest) {
    NEEDS_IMAGES();
    static const int64_t rows[FFN_N_CLASSES] = {1, 4, 16, 17};
    for (int only = 0; only < FFN_N_CLASSES; ++only) {
        bench b;
        bench_begin(&b, "d65-f130-gelu-bias", NULL);
        cr_assert_eq(ffn_kernel_prepare(b.kernel, rows[only], NULL), FFN_OK);
        for (int c = 0; c < FFN_N_CLASSES; ++c) {
            ffn_kernel_info info;
            ffn_kernel_inspect(b.kernel, rows[c], &info);
            cr_expect_eq(info.plan.n_class, (ffn_n_class)only);
            b.args.n = rows[c];
            support_fill_nan(b.y, ROWS * LD);
            int calls = b.fake.calls;
            cr_expect_eq(ffn_kernel_run(b.kernel, &b.args, NULL), FFN_OK);
            cr_expect_eq(b.fake.calls, calls + 1, "the portable kernel served");
            expect_right(&b, b.y, rows[c], "nearest");
        }
        /* With the outer two, each inner class goes to its neighbour. */
        cr_assert_eq(ffn_kernel_prepare(b.kernel, 1, NULL), FFN_OK);
        cr_assert_eq(ffn_kernel_prepare(b.kernel, 17, NULL), FFN_OK);
        ffn_kernel_info info;
        ffn_kernel_inspect(b.kernel, 16, &info);
        cr_expect_eq(info.plan.n_class, only == FFN_N_5_16 ? FFN_N_5_16 : FFN_N_17_UP);
        bench_end(&b);
    }
}

Test(kernel, loads_an_image_made_earlier) {
    NEEDS_IMAGES();
    ffn_options none = {.compiler = "", .store = ""};
    bench b;
    bench_begin(&b, "d65-f130-gelu-bias", &none);
    ffn_plan plan = support_plan(&b.spec, FFN_N_2_4);
    ffn_bytes image_bytes = support_image(&b.fake, &b.spec, &plan);
    ffn_diag diag = {.status = FFN_OK};
    cr_expect_eq(ffn_kernel_load(b.kernel, image_bytes.data, image_bytes.bytes, &diag), FFN_OK, "%s", diag.text);
    memset(image_bytes.data, 0, image_bytes.bytes); /* the bytes are the caller's again */
    ffn_kernel_info info;
    ffn_kernel_inspect(b.kernel, 4, &info);
    cr_expect_eq(info.source, FFN_FROM_IMAGE);
    cr_expect(info.verified);
    cr_expect_gt(info.verify_ms, 0);
    cr_expect_eq(info.plan.n_class, FFN_N_2_4);
    b.args.n = 4;
    cr_expect_eq(ffn_kernel_run(b.kernel, &b.args, NULL), FFN_OK);
    expect_right(&b, b.y, 4, "loaded");
    ffn_counters counters;
    ffn_context_counters(b.context, &counters);
    cr_expect_eq(counters.loaded, 1);
    image_bytes.release(image_bytes.data);

    b.fake.defect = FAKE_COLUMN;
    image_bytes = support_image(&b.fake, &b.spec, &plan);
    cr_expect_eq(ffn_kernel_load(b.kernel, image_bytes.data, image_bytes.bytes, &diag), FFN_VERIFY_FAILED);
    cr_expect_eq(ffn_kernel_load(b.kernel, image_bytes.data, image_bytes.bytes - 1, &diag), FFN_BAD_IMAGE);
    cr_expect_eq(ffn_kernel_load(b.kernel, NULL, 0, &diag), FFN_BAD_ARGUMENT);
    b.fake.defect = FAKE_NONE;
    ffn_context_counters(b.context, &counters);
    cr_expect_eq(counters.failed, 2);
    cr_expect_eq(ffn_kernel_run(b.kernel, &b.args, NULL), FFN_OK);
    expect_right(&b, b.y, 4, "still the right one");
    image_bytes.release(image_bytes.data);
    bench_end(&b);
}

Test(kernel, an_image_for_another_spec_or_isa_is_refused) {
    NEEDS_IMAGES();
    ffn_options portable = {.isa = FFN_ISA_PORTABLE, .store = ""};
    bench b, p;
    bench_begin(&b, "d65-f130-gelu-bias", NULL);
    bench_begin(&p, "d65-f130-gelu-bias", &portable);
    ffn_spec other = support_spec("d65-f130-relu-bias");
    ffn_plan plan = support_plan(&b.spec, FFN_N_1);
    ffn_bytes wrong = support_image(&b.fake, &other, &plan), right = support_image(&b.fake, &b.spec, &plan);
    ffn_diag diag = {.status = FFN_OK};
    cr_expect_eq(ffn_kernel_load(b.kernel, wrong.data, wrong.bytes, &diag), FFN_BAD_IMAGE);
    cr_expect(strstr(diag.text, "d65-f130-relu-bias") != NULL, "%s", diag.text);
    cr_expect_eq(ffn_kernel_load(p.kernel, right.data, right.bytes, &diag), FFN_BAD_IMAGE);
    cr_expect(strstr(diag.text, "portable") != NULL, "%s", diag.text);
    wrong.release(wrong.data);
    right.release(right.data);
    bench_end(&b);
    bench_end(&p);
}

Test(kernel, an_image_that_needs_more_scratch_raises_the_query) {
    NEEDS_IMAGES();
    bench b;
    bench_begin(&b, "d65-f130-gelu-bias", NULL);
    ffn_plan plan = support_plan(&b.spec, FFN_N_17_UP);
    b.fake.more_scratch = b.scratch_bytes + 6400;
    ffn_bytes bytes = support_image(&b.fake, &b.spec, &plan);
    cr_assert_eq(ffn_kernel_load(b.kernel, bytes.data, bytes.bytes, NULL), FFN_OK);
    size_t need = ffn_kernel_scratch_bytes(b.kernel);
    cr_expect_geq(need, b.scratch_bytes + 6400);
    memset(b.scratch, 0xff, b.scratch_bytes);
    expect_refused(&b, &b.args, FFN_BAD_ARGUMENT, "scratch has");
    b.args.scratch = support_aligned(need);
    b.args.scratch_bytes = need;
    cr_expect_eq(ffn_kernel_run(b.kernel, &b.args, NULL), FFN_OK);
    expect_right(&b, b.y, ROWS, "with more scratch");
    free(b.args.scratch);
    bytes.release(bytes.data);
    bench_end(&b);
}

Test(kernel, options_are_checked) {
    ffn_context *context = NULL;
    ffn_diag diag = {.status = FFN_OK};
    cr_expect_eq(ffn_context_create(NULL, NULL, &diag), FFN_BAD_ARGUMENT);
    ffn_options options = {.isa = FFN_ISA_COUNT};
    cr_expect_eq(ffn_context_create(&options, &context, &diag), FFN_BAD_ARGUMENT);
    options = (ffn_options){.verify = (ffn_verify_mode)7};
    cr_expect_eq(ffn_context_create(&options, &context, &diag), FFN_BAD_ARGUMENT);
    ffn_source empty = {0};
    options = (ffn_options){.source = &empty};
    cr_expect_eq(ffn_context_create(&options, &context, &diag), FFN_BAD_ARGUMENT);
    options = (ffn_options){.tools = 4};
    cr_expect_eq(ffn_context_create(&options, &context, &diag), FFN_BAD_ARGUMENT);
    static const ffn_machine machines[] = {{.l1_bytes = 0, .l2_bytes = 1 << 20},
                                           {.l1_bytes = 1 << 15, .l2_bytes = -1},
                                           {.l1_bytes = 1 << 15, .l2_bytes = INT64_MAX}};
    for (int m = 0; m < 3; ++m) {
        options = (ffn_options){.machine = &machines[m]};
        cr_expect_eq(ffn_context_create(&options, &context, &diag), FFN_BAD_ARGUMENT, "machine %d", m);
    }
    static const ffn_isa without_code[] = {FFN_ISA_AUTO, FFN_ISA_PORTABLE, FFN_ISA_COUNT};
    for (int i = 0; i < 3; ++i) {
        ffn_plan plan = {.isa = without_code[i]};
        options = (ffn_options){.plan = &plan};
        cr_expect_eq(ffn_context_create(&options, &context, &diag), FFN_BAD_ARGUMENT, "plan for isa %d", (int)plan.isa);
    }
    for (int isa = FFN_ISA_PORTABLE + 1; isa < FFN_ISA_COUNT; ++isa) {
        options = (ffn_options){.isa = (ffn_isa)isa};
        if (!ffn_isa_supported((ffn_isa)isa)) {
            cr_expect_eq(ffn_context_create(&options, &context, &diag), FFN_UNSUPPORTED);
            cr_expect(strstr(diag.text, ffn_isa_name((ffn_isa)isa)) != NULL, "%s", diag.text);
        }
    }
    cr_expect_null(context, "a failure wrote its output");
    ffn_context_destroy(NULL);
    ffn_kernel_destroy(NULL);
    ffn_context_counters(NULL, NULL);
    ffn_kernel_inspect(NULL, 1, NULL);
    cr_expect_eq(ffn_kernel_scratch_bytes(NULL) + ffn_kernel_hidden_bytes(NULL), 0);
    cr_expect_null(ffn_kernel_spec(NULL));

    ffn_spec bad = {.d_model = 0, .d_ff = 4, .activation = "relu"};
    ffn_kernel *kernel = NULL;
    cr_assert_eq(ffn_context_create(NULL, &context, &diag), FFN_OK);
    cr_expect_eq(ffn_kernel_create(context, &bad, &kernel, &diag), FFN_BAD_SPEC);
    bad = (ffn_spec){.d_model = FFN_DIM_MAX, .d_ff = FFN_DIM_MAX, .activation = "relu"};
    cr_expect_eq(ffn_kernel_create(context, &bad, &kernel, &diag), FFN_BAD_SPEC);
    cr_expect_null(kernel);
    ffn_context_destroy(context);
}

Test(kernel, a_plan_given_serves_every_class) {
    NEEDS_IMAGES();
    bench first;
    bench_begin(&first, "d65-f130-gelu-bias", NULL);
    ffn_plan plan = support_plan(&first.spec, FFN_N_5_16);
    ffn_options options = {.source = &first.fake.source, .plan = &plan, .store = ""};
    bench b;
    bench_begin(&b, "d65-f130-gelu-bias", &options);
    cr_expect_eq(ffn_kernel_prepare(b.kernel, 1, NULL), FFN_OK);
    cr_expect_eq(ffn_kernel_prepare(b.kernel, 100, NULL), FFN_OK);
    cr_expect_eq(first.fake.builds, 1, "one plan, one build");
    cr_expect_eq(ffn_kernel_run(b.kernel, &b.args, NULL), FFN_OK);
    expect_right(&b, b.y, ROWS, "a plan given");
    bench_end(&b);
    bench_end(&first);
}

typedef struct runner {
    bench *b;
    float *y, *scratch;
    int wrong;
} runner;

static void *run_while_publishing(void *data) {
    runner *r = data;
    ffn_args args = r->b->args;
    float want[ROWS * LD];
    oracle_contract(&r->b->spec, &r->b->weights->weights, r->b->x, LD, ROWS, want);
    args.y = r->y;
    args.scratch = r->scratch;
    for (int i = 0; i < 300; ++i) {
        args.n = 1 + i % ROWS;
        r->wrong += ffn_kernel_run(r->b->kernel, &args, NULL) != FFN_OK;
        r->wrong += oracle_first_unequal(&r->b->spec, r->y, LD, want, r->b->spec.d_model, args.n) != -1;
    }
    return NULL;
}

Test(kernel, runs_while_classes_are_published) {
    enum { THREADS = 8 };
    bench b;
    bench_begin(&b, "d65-f130-gelu-bias", NULL);
    pthread_t threads[THREADS];
    runner runners[THREADS];
    for (int t = 0; t < THREADS; ++t) {
        runners[t] = (runner){
            .b = &b, .y = support_aligned(ROWS * LD * sizeof(float)), .scratch = support_aligned(b.scratch_bytes)};
        cr_assert_eq(pthread_create(&threads[t], NULL, run_while_publishing, &runners[t]), 0);
    }
    for (int64_t n = 1; n <= 17 && support_image_possible(); n += 4) {
        cr_expect_eq(ffn_kernel_prepare(b.kernel, n, NULL), FFN_OK);
    }
    for (int t = 0; t < THREADS; ++t) {
        pthread_join(threads[t], NULL);
        cr_expect_eq(runners[t].wrong, 0);
        free(runners[t].y);
        free(runners[t].scratch);
    }
    bench_end(&b);
}

Test(kernel, activate_gives_the_formula) {
    bench b;
    bench_begin(&b, "d48-f96-swiglu", NULL);
    if (support_image_possible()) {
        cr_assert_eq(ffn_kernel_prepare(b.kernel, 1, NULL), FFN_OK);
    }
    float g[3] = {1, -2, 3}, u[3] = {2, 2, -1}, out[3];
    cr_expect_eq(ffn_kernel_activate(b.kernel, 1, 3, g, u, out, NULL), FFN_OK);
    for (int i = 0; i < 3; ++i) {
        double want = (double)g[i] / (1 + exp(-(double)g[i])) * (double)u[i];
        cr_expect(fabs((double)out[i] - want) <= 1e-6 * fabs(want));
    }
    cr_expect_eq(ffn_kernel_activate(b.kernel, 1, 3, g, NULL, out, NULL), FFN_BAD_ARGUMENT);
    cr_expect_eq(ffn_kernel_activate(b.kernel, 1, -1, g, u, out, NULL), FFN_BAD_ARGUMENT);
    bench_end(&b);
}

/* The checks of a run, seen on a refusal at the last of them; generous, for slow and busy machines. */
Test(kernel, checks_cost_little) {
    bench b;
    bench_begin(&b, "d65-f130-gelu-bias", NULL);
    ffn_args bad = b.args;
    bad.scratch = b.y;
    enum { CALLS = 20000 };
    double best = 1e9;
    for (int repeat = 0; repeat < 50; ++repeat) {
        struct timespec start, stop;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
        for (int i = 0; i < CALLS; ++i) {
            ffn_kernel_run(b.kernel, &bad, NULL);
        }
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &stop);
        double ns = ((double)(stop.tv_sec - start.tv_sec) * 1e9 + (double)(stop.tv_nsec - start.tv_nsec)) / CALLS;
        best = ns < best ? ns : best;
    }
    printf("argument checks: %.1f ns\n", best);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    cr_expect_lt(best, 250);
#endif
    bench_end(&b);
}
