/* test_native.c: code that is part of the program already (ffn_source.find) serves like an image, is believed no more
 * than one, and comes before the store and the compiler
 *
 * The entries are those of images that the suite has mapped itself: what a linked kernel is to libffn. Expected bits
 * come from oracle_contract. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ffngen.h"
#include "support_kernel.h"
#include "support_oracle.h"
#include "support_store.h"

#define SPEC "d48-f35-gelu-bias"
#define LIKE "d48-f35-relu-bias" /* the same sizes, other values */
enum { D_MODEL = 48, ROWS = 20, SCRATCH_BYTES = 1 << 18 };
static const int64_t rows_of[FFN_N_CLASSES] = {1, 3, 9, ROWS};

typedef struct program { /* what is linked into it, and how it answers */
    ffn_source source;
    ffn_isa isa; /* it holds code of this ISA alone */
    support_kernel kernels[FFN_N_CLASSES];
    ffn_native natives[FFN_N_CLASSES];
    ffn_status answer;
    _Atomic int finds, builds;
} program;

static ffn_status find(void *self, const ffn_spec *spec, const ffn_plan *plan, ffn_native *native, ffn_diag *diag) {
    (void)spec, (void)diag;
    program *p = self;
    atomic_fetch_add(&p->finds, 1);
    if (p->answer != FFN_OK || plan->isa != p->isa)
        return p->answer != FFN_OK ? p->answer : FFN_UNSUPPORTED;
    *native = p->natives[plan->n_class];
    return FFN_OK;
}

static ffn_status build(void *self, const ffn_spec *spec, const ffn_plan *plan, ffn_bytes *bytes, ffn_diag *diag) {
    program *p = self;
    atomic_fetch_add(&p->builds, 1);
    return ffngen_emit(spec, plan, FFNGEN_IMAGE, bytes, diag);
}

static void begin(program *p, ffn_isa isa) {
    memset(p, 0, sizeof *p);
    if (!ffn_isa_supported(isa) || isa == FFN_ISA_PORTABLE)
        cr_skip_test("no generated code runs on this CPU as it is");
    p->isa = isa;
    p->source = (ffn_source){.find = find, .build = build, .self = p, .identity = "test_native 1"};
    const ffn_spec spec = support_spec(SPEC);
    for (int c = 0; c < FFN_N_CLASSES; c++) {
        ffn_plan plan = support_kernel_plan(&spec, isa, (ffn_n_class)c);
        support_kernel_build(&spec, &plan, &p->kernels[c]);
        const image *code = &p->kernels[c].code;
        p->natives[c] = (ffn_native){.plan = plan,
                                     .scratch_bytes = SCRATCH_BYTES, /* which tells no class from another */
                                     .fused = code->fused,
                                     .expand = code->expand,
                                     .contract = code->contract,
                                     .activate = code->activate};
    }
}

static void end(program *p) {
    for (int c = 0; c < FFN_N_CLASSES; c++)
        support_kernel_free(&p->kernels[c]);
}

static ffn_kernel *kernel_of(program *p, const ffn_options *options, ffn_context **context) {
    ffn_options own = options != NULL ? *options : (ffn_options){.store = ""};
    own.source = &p->source;
    ffn_kernel *kernel;
    ffn_diag diag = {.text = ""};
    const ffn_spec spec = support_spec(SPEC);
    cr_assert_eq(ffn_context_create(&own, context, &diag), FFN_OK, "%s", diag.text);
    cr_assert_eq(ffn_kernel_create(*context, &spec, &kernel, &diag), FFN_OK, "%s", diag.text);
    return kernel;
}

static void destroy(ffn_kernel *kernel, ffn_context *context) {
    ffn_kernel_destroy(kernel);
    ffn_context_destroy(context);
}

static ffn_kernel_info info_of(const ffn_kernel *kernel, int64_t n) {
    ffn_kernel_info info;
    ffn_kernel_inspect(kernel, n, &info);
    return info;
}

static ffn_counters counters_of(ffn_context *context) {
    ffn_counters counters;
    ffn_context_counters(context, &counters);
    return counters;
}

/* The bits of the contract, by the fused entry and by both stages, whoever serves. */
static void expect_right(const ffn_kernel *kernel, int64_t n) {
    const ffn_spec spec = support_spec(SPEC);
    support_weights *weights = support_random_weights(&spec, SUPPORT_NORMAL, 7);
    void *packed = support_packed(&spec, &weights->weights);
    float *x = support_aligned(ROWS * D_MODEL * sizeof *x), *want = support_aligned(ROWS * D_MODEL * sizeof *want);
    float *y = support_aligned(ROWS * D_MODEL * sizeof *y), *hidden = support_aligned(ffn_kernel_hidden_bytes(kernel));
    const size_t scratch_bytes = ffn_kernel_scratch_bytes(kernel);
    void *scratch = support_aligned(scratch_bytes);
    support_fill_x(x, n, D_MODEL, D_MODEL, SUPPORT_NORMAL, 3);
    oracle_contract(&spec, &weights->weights, x, D_MODEL, n, want);
    support_fill_nan(y, ROWS * D_MODEL);
    memset(scratch, 0xff, scratch_bytes);
    ffn_args args = {n, x, D_MODEL, y, D_MODEL, packed, scratch, scratch_bytes};
    cr_expect_eq(ffn_kernel_run(kernel, &args, NULL), FFN_OK);
    cr_expect_eq(oracle_first_unequal(&spec, y, D_MODEL, want, D_MODEL, n), -1, "n = %d", (int)n);
    if (n <= FFN_STAGE_ROWS_MAX) {
        support_fill_nan(y, ROWS * D_MODEL);
        cr_expect_eq(ffn_kernel_expand(kernel, &args, hidden, 0, spec.d_ff, NULL), FFN_OK);
        cr_expect_eq(ffn_kernel_contract(kernel, &args, hidden, 0, D_MODEL, NULL), FFN_OK);
        cr_expect_eq(oracle_first_unequal(&spec, y, D_MODEL, want, D_MODEL, n), -1, "stages, n = %d", (int)n);
    }
    support_weights_free(weights);
    free(packed);
    free(x);
    free(want);
    free(y);
    free(hidden);
    free(scratch);
}

/* Prepare fails so, and the portable kernel serves. */
static void expect_refused(program *p, ffn_status status, const char *word) {
    ffn_context *context;
    ffn_kernel *kernel = kernel_of(p, &(ffn_options){.store = "", .isa = p->isa}, &context);
    ffn_diag diag = {.text = ""};
    cr_expect_eq(ffn_kernel_prepare(kernel, 1, &diag), status, "%s", diag.text);
    cr_expect(strstr(diag.text, word) != NULL, "\"%s\" does not say %s", diag.text, word);
    cr_expect_eq(info_of(kernel, 1).source, FFN_FROM_FALLBACK);
    const ffn_counters counters = counters_of(context);
    cr_expect_eq(counters.loaded, 0);
    cr_expect_eq(counters.compiled, 0);
    cr_expect_eq(counters.failed, status != FFN_UNSUPPORTED);
    cr_expect_eq(counters.fell_back, 1);
    expect_right(kernel, 1);
    destroy(kernel, context);
}

Test(native, serves_every_class_with_the_bits_of_the_contract, .timeout = 120) {
    program p;
    ffn_context *context;
    begin(&p, ffn_isa_best());
    ffn_kernel *kernel = kernel_of(&p, NULL, &context);
    for (int c = 0; c < FFN_N_CLASSES; c++) {
        const int64_t n = rows_of[c];
        ffn_diag diag = {.text = ""};
        cr_assert_eq(ffn_kernel_prepare(kernel, n, &diag), FFN_OK, "%s", diag.text);
        const ffn_kernel_info info = info_of(kernel, n);
        cr_expect_eq(info.source, FFN_FROM_NATIVE);
        cr_expect_eq(info.isa, p.isa);
        cr_expect_eq((int)info.plan.n_class, c, "codes of two classes are taken for one");
        cr_expect(info.verified && info.verify_ms > 0);
        cr_expect(info.image_bytes == 0 && info.compile_ms <= 0);
        char text[FFN_DESCRIBE_BYTES];
        cr_expect_eq(ffn_kernel_describe(kernel, n, text, sizeof text, NULL), FFN_OK);
        cr_expect(strstr(text, " native verified") && !strstr(text, "KiB"), "%s", text);
        expect_right(kernel, n);
        cr_expect_eq(ffn_kernel_verify(kernel, n, NULL, NULL, &diag), FFN_OK, "%s", diag.text);
    }
    cr_expect_eq(ffn_kernel_prepare(kernel, 1, NULL), FFN_OK);
    const ffn_counters counters = counters_of(context);
    cr_expect_eq(counters.loaded, FFN_N_CLASSES);
    cr_expect(counters.hit == 1 && counters.compiled == 0 && counters.failed == 0 && counters.fell_back == 0);
    cr_expect_eq(p.finds, FFN_N_CLASSES);
    cr_expect_eq(p.builds, 0);
    destroy(kernel, context);
    end(&p);
}

Test(native, comes_before_the_store_which_is_left_alone) {
    program p;
    ffn_context *context;
    begin(&p, ffn_isa_best());
    const char *folder = support_store_scratch();
    p.answer = FFN_UNSUPPORTED; /* a first process builds and keeps */
    ffn_kernel *kernel = kernel_of(&p, &(ffn_options){.store = folder}, &context);
    cr_expect_eq(ffn_kernel_prepare(kernel, 1, NULL), FFN_OK);
    destroy(kernel, context);
    const int kept = support_store_count(folder, "");
    cr_expect_gt(kept, 0);
    p.answer = FFN_OK;
    kernel = kernel_of(&p, &(ffn_options){.store = folder}, &context);
    for (int c = 0; c < FFN_N_CLASSES; c++) {
        cr_expect_eq(ffn_kernel_prepare(kernel, rows_of[c], NULL), FFN_OK);
        cr_expect_eq(info_of(kernel, rows_of[c]).source, FFN_FROM_NATIVE);
    }
    destroy(kernel, context);
    cr_expect_eq(support_store_count(folder, ""), kept, "native code was kept in the store");
    /* A store that cannot be: whoever looked at it would leave a remark. */
    ffn_diag diag = {.text = ""};
    kernel = kernel_of(&p, &(ffn_options){.store = "/dev/null/store"}, &context);
    cr_expect_eq(ffn_kernel_prepare(kernel, 1, &diag), FFN_OK);
    cr_expect_str_empty(diag.text);
    destroy(kernel, context);
    end(&p);
}

Test(native, is_verified_when_the_options_say_so) {
    static const struct {
        ffn_verify_mode mode;
        bool verified;
    } cases[] = {{FFN_VERIFY_FIRST_USE, true}, {FFN_VERIFY_ALWAYS, true}, {FFN_VERIFY_NEVER, false}};
    program p;
    ffn_context *context;
    begin(&p, ffn_isa_best());
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ffn_kernel *kernel = kernel_of(&p, &(ffn_options){.store = "", .verify = cases[i].mode}, &context);
        cr_expect_eq(ffn_kernel_prepare(kernel, 1, NULL), FFN_OK);
        cr_expect_eq(info_of(kernel, 1).verified, cases[i].verified, "mode %d", (int)cases[i].mode);
        destroy(kernel, context);
    }
    end(&p);
}

Test(native, code_of_another_spec_is_never_published) {
    program p;
    begin(&p, ffn_isa_best());
    const ffn_spec like = support_spec(LIKE), shorter = support_spec("d48-f34-gelu-bias");
    support_kernel relu, short_sum;
    ffn_plan plan = support_kernel_plan(&like, p.isa, FFN_N_1);
    support_kernel_build(&like, &plan, &relu);
    plan = support_kernel_plan(&shorter, p.isa, FFN_N_1);
    support_kernel_build(&shorter, &plan, &short_sum);
    const ffn_native right = p.natives[FFN_N_1];
    p.natives[FFN_N_1].fused = relu.code.fused;
    expect_refused(&p, FFN_VERIFY_FAILED, "");
    p.natives[FFN_N_1] = right;
    p.natives[FFN_N_1].expand = relu.code.expand;
    expect_refused(&p, FFN_VERIFY_FAILED, "");
    p.natives[FFN_N_1] = right;
    p.natives[FFN_N_1].contract = short_sum.code.contract;
    expect_refused(&p, FFN_VERIFY_FAILED, "");
    p.natives[FFN_N_1] = right;
    p.natives[FFN_N_1].activate = relu.code.activate;
    expect_refused(&p, FFN_VERIFY_FAILED, "");
    cr_expect_eq(p.builds, 0, "wrong code was passed over in silence");
    support_kernel_free(&relu);
    support_kernel_free(&short_sum);
    end(&p);
}

Test(native, what_cannot_be_is_refused_by_name) {
    program p;
    begin(&p, ffn_isa_best());
    const ffn_native right = p.natives[FFN_N_1];
    ffn_native *native = &p.natives[FFN_N_1];
    native->fused = NULL;
    expect_refused(&p, FFN_BAD_IMAGE, "entries");
    *native = right;
    native->expand = NULL;
    expect_refused(&p, FFN_BAD_IMAGE, "entries");
    *native = right;
    native->contract = NULL;
    expect_refused(&p, FFN_BAD_IMAGE, "entries");
    *native = right;
    native->activate = NULL;
    expect_refused(&p, FFN_BAD_IMAGE, "entries");
    *native = right;
    native->scratch_bytes = (size_t)p.kernels[FFN_N_1].scratch_bytes - 1;
    expect_refused(&p, FFN_BAD_IMAGE, "scratch");
    *native = right;
    native->plan.isa = FFN_ISA_PORTABLE;
    expect_refused(&p, FFN_BAD_IMAGE, "ISA number");
    *native = right;
    native->plan.isa = (ffn_isa)99;
    expect_refused(&p, FFN_BAD_IMAGE, "ISA number");
    *native = right;
    native->plan.tiles[0].mr = 0;
    expect_refused(&p, FFN_BAD_IMAGE, "plan");
    cr_expect_eq(p.builds, 0);
    p.source.build = NULL;
    *native = right;
    native->plan.isa = FFN_ISA_NEON;
    if (ffn_isa_supported(FFN_ISA_NEON))
        native->plan.isa = FFN_ISA_AVX2;
    expect_refused(&p, FFN_UNSUPPORTED, "no code");
    if (p.isa != FFN_ISA_AVX2 && ffn_isa_supported(FFN_ISA_AVX2)) { /* this CPU runs it, but it was not asked for */
        const ffn_spec spec = support_spec(SPEC);
        *native = right;
        native->plan = support_kernel_plan(&spec, FFN_ISA_AVX2, FFN_N_1);
        native->scratch_bytes = 1 << 20;
        expect_refused(&p, FFN_BAD_IMAGE, "avx2");
    }
    end(&p);
}

Test(native, without_code_the_source_builds) {
    program p;
    ffn_context *context;
    begin(&p, ffn_isa_best());
    p.answer = FFN_UNSUPPORTED;
    ffn_kernel *kernel = kernel_of(&p, NULL, &context);
    cr_expect_eq(ffn_kernel_prepare(kernel, 1, NULL), FFN_OK);
    cr_expect_eq(info_of(kernel, 1).source, FFN_FROM_COMPILER);
    cr_expect(p.finds >= 1 && p.builds == 1);
    cr_expect(counters_of(context).compiled == 1 && counters_of(context).loaded == 0);
    expect_right(kernel, 1);
    destroy(kernel, context);
    p.answer = FFN_OUT_OF_MEMORY; /* a failure is an answer */
    kernel = kernel_of(&p, NULL, &context);
    cr_expect_eq(ffn_kernel_prepare(kernel, 1, NULL), FFN_OUT_OF_MEMORY);
    cr_expect_eq(p.builds, 1);
    expect_right(kernel, 1);
    p.answer = FFN_OK; /* which the next prepare asks for again */
    cr_expect_eq(ffn_kernel_prepare(kernel, 1, NULL), FFN_OK);
    cr_expect_eq(info_of(kernel, 1).source, FFN_FROM_NATIVE);
    destroy(kernel, context);
    end(&p);
}

Test(native, a_source_that_builds_none_leaves_the_rest_to_the_portable_kernel) {
    program p;
    begin(&p, ffn_isa_best());
    p.source.build = NULL;
    p.answer = FFN_UNSUPPORTED;
    expect_refused(&p, FFN_UNSUPPORTED, "builds none");
    p.source.find = NULL;
    ffn_context *context;
    ffn_diag diag = {.text = ""};
    cr_expect_eq(ffn_context_create(&(ffn_options){.source = &p.source}, &context, &diag), FFN_BAD_ARGUMENT);
    cr_expect(strstr(diag.text, "build or find"), "%s", diag.text);
    end(&p);
}

/* A program that was built with the code of an older CPU alone. */
Test(native, code_of_a_lesser_isa_serves_where_any_may_and_nothing_better_is) {
    if (ffn_isa_best() == FFN_ISA_AVX2 || !ffn_isa_supported(FFN_ISA_AVX2))
        cr_skip_test("this CPU has one ISA");
    program p;
    ffn_context *context;
    begin(&p, FFN_ISA_AVX2);
    p.source.build = NULL;
    ffn_diag diag = {.text = ""};
    ffn_kernel *kernel = kernel_of(&p, NULL, &context);
    cr_expect_eq(ffn_kernel_prepare(kernel, 1, &diag), FFN_OK, "%s", diag.text);
    cr_expect(info_of(kernel, 1).source == FFN_FROM_NATIVE && info_of(kernel, 1).isa == FFN_ISA_AVX2);
    expect_right(kernel, 1);
    destroy(kernel, context);
    kernel = kernel_of(&p, &(ffn_options){.store = "", .isa = ffn_isa_best()}, &context);
    cr_expect_eq(ffn_kernel_prepare(kernel, 1, &diag), FFN_UNSUPPORTED);
    destroy(kernel, context);
    p.source.build = build; /* what the compiler makes is better */
    kernel = kernel_of(&p, NULL, &context);
    cr_expect_eq(ffn_kernel_prepare(kernel, 1, &diag), FFN_OK, "%s", diag.text);
    cr_expect_eq(info_of(kernel, 1).source, FFN_FROM_COMPILER);
    destroy(kernel, context);
    end(&p);
}

Test(native, more_scratch_than_planned_is_asked_for) {
    program p;
    ffn_context *context;
    begin(&p, ffn_isa_best());
    p.natives[FFN_N_1].scratch_bytes += 1 << 20;
    ffn_kernel *kernel = kernel_of(&p, NULL, &context);
    cr_expect_eq(ffn_kernel_prepare(kernel, 1, NULL), FFN_OK);
    cr_expect_eq(ffn_kernel_scratch_bytes(kernel), p.natives[FFN_N_1].scratch_bytes);
    expect_right(kernel, 1);
    destroy(kernel, context);
    end(&p);
}

Test(native, outlives_the_kernel_that_served_it) {
    program p;
    ffn_context *context;
    begin(&p, ffn_isa_best());
    ffn_kernel *kernel = kernel_of(&p, &(ffn_options){.store = "", .cache_bytes = 1}, &context);
    cr_expect_eq(ffn_kernel_prepare(kernel, 1, NULL), FFN_OK);
    ffn_kernel_destroy(kernel);
    cr_expect_eq(counters_of(context).evicted, 1);
    const ffn_spec spec = support_spec(SPEC);
    cr_expect_eq(ffn_kernel_create(context, &spec, &kernel, NULL), FFN_OK);
    cr_expect_eq(ffn_kernel_prepare(kernel, 1, NULL), FFN_OK);
    expect_right(kernel, 1);
    destroy(kernel, context);
    end(&p);
}

Test(native, tools_are_not_told) {
    program p;
    ffn_context *context;
    char path[64];
    begin(&p, ffn_isa_best());
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    unlink(path);
    ffn_options options = {.store = "", .tools = FFN_TOOL_PERF_MAP | FFN_TOOL_GDB};
    ffn_kernel *kernel = kernel_of(&p, &options, &context);
    cr_expect_eq(ffn_kernel_prepare(kernel, 1, NULL), FFN_OK);
    cr_expect_eq(info_of(kernel, 1).source, FFN_FROM_NATIVE);
    cr_expect_neq(access(path, F_OK), 0, "the perf map names code that the program's symbols name");
    destroy(kernel, context);
    end(&p);
}

static void *prepare_all(void *argument) {
    for (int c = 0; c < FFN_N_CLASSES; c++)
        if (ffn_kernel_prepare(argument, rows_of[c], NULL) != FFN_OK)
            return argument;
    return NULL;
}

Test(native, many_threads_find_it_once, .timeout = 120) {
    enum { THREADS = 8 };
    program p;
    ffn_context *context;
    begin(&p, ffn_isa_best());
    ffn_kernel *kernel = kernel_of(&p, NULL, &context);
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++)
        cr_assert_eq(pthread_create(&threads[t], NULL, prepare_all, kernel), 0);
    for (int t = 0; t < THREADS; t++) {
        void *failed;
        pthread_join(threads[t], &failed);
        cr_expect_null(failed);
    }
    cr_expect_eq(p.finds, FFN_N_CLASSES);
    const ffn_counters counters = counters_of(context);
    cr_expect(counters.loaded == FFN_N_CLASSES && counters.hit == (THREADS - 1) * FFN_N_CLASSES);
    for (int c = 0; c < FFN_N_CLASSES; c++)
        expect_right(kernel, rows_of[c]);
    destroy(kernel, context);
    end(&p);
}
