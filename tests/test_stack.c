/* test_stack.c: everything but compiling gets by on a stack of 64 KiB with a guard page behind it, verifying on 128 KiB
 */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffngen.h"
#include "support_store.h"
#include "support_threads.h"

/* Instrumented code and code that is not optimised have larger frames: what is tested then is the rest of the suite's
 * memory. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) || !defined(__OPTIMIZE__)
enum { STACK_BYTES = 512 << 10 };
#else
enum { STACK_BYTES = 64 << 10 };
#endif
enum { VERIFY_STACK_BYTES = 2 * STACK_BYTES };

enum { ROWS = 97 };

/* Many values alive at once. */
#define MANY_VALUES                                                                                                 \
    "gated((g*2/(g*3)+u*2/(u*3))*(g*5+u*5)+(g*2*(u*5)+g*3*(u*2))*tanh(g*2)*erf(g*3)*exp(-(u*2)*(u*2))*sigmoid(u*3)" \
    "+g*5*(u*3)/(1+exp(g*5)+exp(u*5)))"

typedef struct subject {
    support_layer layer;
    int64_t failures;
} subject;

static void note(subject *s, bool good) {
    s->failures += !good;
}

/* The stages on up to 16 rows, in column ranges. */
static void run_stages(subject *s, support_call *call, int64_t n) {
    const ffn_kernel *kernel = s->layer.kernel;
    const ffn_spec *spec = &s->layer.spec;
    float *hidden = support_aligned(ffn_kernel_hidden_bytes(kernel));
    call->args.n = n;
    for (int64_t begin = 0; begin < spec->d_ff; begin += 64) {
        const int64_t end = begin + 64 < spec->d_ff ? begin + 64 : spec->d_ff;
        note(s, ffn_kernel_expand(kernel, &call->args, hidden, begin, end, NULL) == FFN_OK);
    }
    for (int64_t begin = 0; begin < spec->d_model; begin += 32) {
        const int64_t end = begin + 32 < spec->d_model ? begin + 32 : spec->d_model;
        note(s, ffn_kernel_contract(kernel, &call->args, hidden, begin, end, NULL) == FFN_OK);
    }
    note(s, support_call_right(call, &s->layer));
    note(s, ffn_kernel_activate(kernel, n, 100, hidden, hidden, hidden, NULL) == FFN_OK);
    free(hidden);
}

static void *run_everything(void *argument) {
    static const int64_t counts[] = {1, 2, 4, 5, 16, 17, ROWS};
    subject *s = argument;
    const ffn_kernel *kernel = s->layer.kernel;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        const int64_t n = counts[i];
        support_call call;
        ffn_work work;
        ffn_diag diag;
        support_call_begin(&call, &s->layer, n, 8);
        note(s, ffn_work_make(kernel, &call.args, 8, &work, &diag) == FFN_OK);
        for (int phase = 0; phase < work.phases; phase++)
            for (int64_t piece = 0; piece < work.pieces[phase]; piece++)
                note(s, ffn_work_run(&work, phase, piece, &diag) == FFN_OK);
        note(s, support_call_right(&call, &s->layer));
        note(s, ffn_work_run(&work, 3, 0, &diag) == FFN_BAD_ARGUMENT); /* with the text of a failure */

        support_fill_nan(call.y, ROWS * s->layer.ldy);
        note(s, ffn_kernel_run(kernel, &call.args, &diag) == FFN_OK);
        note(s, support_call_right(&call, &s->layer));
        support_fill_nan(call.y, ROWS * s->layer.ldy);
        for (int64_t row = 0; row < n; row++)
            note(s, ffn_kernel_run_rows(kernel, &call.args, row, row + 1, &diag) == FFN_OK);
        note(s, support_call_right(&call, &s->layer));
        support_fill_nan(call.y, ROWS * s->layer.ldy);
        if (n <= FFN_STAGE_ROWS_MAX)
            run_stages(s, &call, n);
        support_call_end(&call);
    }
    return NULL;
}

static void *verify(void *argument) {
    subject *s = argument;
    ffn_verify_report report;
    for (int64_t n = 1; n <= 17; n += 16)
        note(s, ffn_kernel_verify(s->layer.kernel, n, NULL, &report, NULL) == FFN_OK);
    return NULL;
}

static void on_stack(size_t bytes, void *(*body)(void *argument), void *argument) {
    const size_t least = (size_t)PTHREAD_STACK_MIN; /* 128 KiB on AArch64 */
    support_threads_run(1, least > bytes ? least : bytes, body, argument);
}

static void expect_small_stack(const char *spec, bool generated) {
    subject s = {.failures = 0};
    support_layer_begin(&s.layer, spec, generated, ROWS);
    on_stack(STACK_BYTES, run_everything, &s);
    on_stack(VERIFY_STACK_BYTES, verify, &s);
    cr_expect_eq(s.failures, 0, "%s, %s: %lld of the calls", spec, generated ? "generated" : "portable",
                 (long long)s.failures);
    support_layer_end(&s.layer);
}

static const char *const specs[] = {"d768-f1536-gelu-bias", "d321-f517-swiglu-bias", "d40-f2064-tanh-bias",
                                    "d61-f130-" MANY_VALUES};

Test(stack, generated_code_runs_on_64_kib) {
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++)
        expect_small_stack(specs[i], true);
}

Test(stack, the_portable_kernel_runs_on_64_kib) {
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++)
        expect_small_stack(specs[i], false);
}

/* ---- Everything that leads to a run ---- */

#define SPEC_BYTES 8192

/* begin, `count` times `again`, middle, as often `close`, end */
static const char *deep(char *text, const char *begin, const char *again, int count, const char *middle,
                        const char *close, const char *end) {
    char *at = text + sprintf(text, "d61-f130-%s", begin);
    for (int i = 0; i < count; i++)
        at += sprintf(at, "%s", again);
    at += sprintf(at, "%s", middle);
    for (int i = 0; i < count; i++)
        at += sprintf(at, "%s", close);
    sprintf(at, "%s", end);
    return text;
}

static struct {
    char folder[STORE_PATH_BYTES], file[STORE_PATH_BYTES + 16];
    char deepest[6][SPEC_BYTES];
    size_t failures;
} steps;

static void step(bool good) {
    steps.failures += !good;
}

/* Texts that nest and chain as far as the language lets them; the last two are too long. */
static void *read_specs(void *argument) {
    char text[FFN_SPEC_TEXT_BYTES], name[FFN_SPEC_NAME_BYTES];
    ffn_spec spec;
    ffn_diag diag;
    (void)argument;
    for (size_t i = 0; i < 6; i++) {
        const ffn_status status = ffn_spec_parse(steps.deepest[i], &spec, &diag);
        step(status == (i < 4 ? FFN_OK : FFN_BAD_SPEC));
        if (status != FFN_OK)
            continue;
        step(ffn_spec_check(&spec, &diag) == FFN_OK && ffn_spec_gated(&spec) == false);
        step(ffn_spec_format(&spec, text, sizeof text, &diag) == FFN_OK);
        step(ffn_spec_name(&spec, true, name, sizeof name, &diag) == FFN_OK);
    }
    step(ffn_spec_parse("bert-bas", &spec, &diag) == FFN_BAD_SPEC); /* with near names */
    step(ffn_spec_parse("d8-f8-act(x*sigmoit(x))", &spec, &diag) == FFN_BAD_SPEC);
    return NULL;
}

/* From a spec's text to y: the code stands in the store. */
static void *serve_from_store(void *argument) {
    const char *text = argument;
    char line[FFN_DESCRIBE_BYTES], plan[256];
    ffn_spec spec;
    ffn_diag diag;
    ffn_context *context;
    ffn_kernel *kernel, *again;
    ffn_kernel_info info;
    size_t bytes;
    const ffn_options options = {
        .source = ffngen_source(), .verify = FFN_VERIFY_NEVER, .store = steps.folder, .tools = FFN_TOOL_GDB};
    step(ffn_spec_parse(text, &spec, &diag) == FFN_OK);
    step(ffn_context_create(&options, &context, &diag) == FFN_OK);
    step(ffn_kernel_create(context, &spec, &kernel, &diag) == FFN_OK);
    step(ffn_kernel_prepare(kernel, 1, &diag) == FFN_OK);
    step(ffn_kernel_create(context, &spec, &again, &diag) == FFN_OK && again == kernel);
    ffn_kernel_inspect(kernel, 1, &info);
    step(info.source == FFN_FROM_STORE || ffn_isa_best() == FFN_ISA_PORTABLE);
    step(ffn_plan_format(&info.plan, plan, sizeof plan, &diag) == FFN_OK);
    step(ffn_kernel_describe(kernel, 1, line, sizeof line, &diag) == FFN_OK);
    step(ffn_cpu_describe(kernel, 1, line, sizeof line, &diag) == FFN_OK);

    support_weights *weights = support_random_weights(&spec, SUPPORT_NORMAL, 1);
    const void *mapped = NULL;
    step(ffn_packed_bytes(&spec, &bytes, &diag) == FFN_OK);
    void *packed = support_packed(&spec, &weights->weights);
    step(ffn_packed_check(&spec, packed, bytes, &diag) == FFN_OK);
    step(ffn_pack_file(&spec, &weights->weights, steps.file, &diag) == FFN_OK);
    step(ffn_packed_map(&spec, steps.file, &mapped, &bytes, &diag) == FFN_OK);
    float *x = support_aligned((size_t)spec.d_model * sizeof *x),
          *y = support_aligned((size_t)spec.d_model * sizeof *y);
    support_fill_x(x, 1, spec.d_model, spec.d_model, SUPPORT_NORMAL, 1);
    ffn_args args = {1, x, spec.d_model, y, spec.d_model, mapped, NULL, ffn_kernel_scratch_bytes(kernel)};
    args.scratch = support_aligned(args.scratch_bytes);
    step(ffn_kernel_run(kernel, &args, &diag) == FFN_OK);
    const uint64_t bits = ffn_digest(y, 1, spec.d_model, spec.d_model);
    args.packed = packed;
    step(ffn_kernel_run(kernel, &args, &diag) == FFN_OK && ffn_digest(y, 1, spec.d_model, spec.d_model) == bits);
    ffn_packed_unmap(mapped, bytes);
    free(args.scratch);
    free(x);
    free(y);
    free(packed);
    support_weights_free(weights);
    ffn_kernel_destroy(again);
    ffn_kernel_destroy(kernel);
    ffn_context_destroy(context);
    return NULL;
}

static void fill_store(const char *text) {
    const ffn_spec spec = support_spec(text);
    const ffn_options options = {.source = ffngen_source(), .store = steps.folder};
    ffn_context *context;
    ffn_kernel *kernel;
    cr_assert_eq(ffn_context_create(&options, &context, NULL), FFN_OK);
    cr_assert_eq(ffn_kernel_create(context, &spec, &kernel, NULL), FFN_OK);
    ffn_kernel_prepare(kernel, 1, NULL);
    ffn_kernel_destroy(kernel);
    ffn_context_destroy(context);
}

Test(stack, specs_are_read_on_64_kib) {
    deep(steps.deepest[0], "act(", "select(x<x+x*", 54, "x", ",x,x)", ")");
    deep(steps.deepest[1], "act(", "max(x,-(x+x*", 20, "x", "))", ")");
    deep(steps.deepest[2], "act(x", "+x", 500, "", "", ")");
    deep(steps.deepest[3], "act(", "x-(x*(", 31, "x", "+x))", ")");
    deep(steps.deepest[4], "act(x", "+x", 1000, "", "", ")");
    deep(steps.deepest[5], "act(", "tanh(erf(", 30, "x", "))", ")");
    on_stack(STACK_BYTES, read_specs, NULL);
    cr_expect_eq(steps.failures, 0, "%zu of the calls", steps.failures);
}

Test(stack, kernels_are_made_from_the_store_on_64_kib) {
    const char *const texts[] = {"d768-f1536-gelu-bias", "d61-f130-" MANY_VALUES,
                                 deep(steps.deepest[0], "act(", "select(x<x+x*", 54, "x", ",x,x)", ")")};
    snprintf(steps.folder, sizeof steps.folder, "%s", support_store_path(support_store_scratch(), "ffngen"));
    snprintf(steps.file, sizeof steps.file, "%s.ffnw", steps.folder);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        fill_store(texts[i]);
        on_stack(STACK_BYTES, serve_from_store, (void *)(uintptr_t)texts[i]);
        cr_expect_eq(steps.failures, 0, "%s: %zu of the calls", texts[i], steps.failures);
    }
}
