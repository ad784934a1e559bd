/* test_stack.c: everything that runs a kernel gets by on a stack of 64 KiB with a guard page behind it */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "ffngen.h"
#include "support_threads.h"

/* Instrumented code has larger frames: what is tested then is the rest of the suite's memory. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { STACK_BYTES = 512 << 10 };
#else
enum { STACK_BYTES = 64 << 10 };
#endif

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

static void expect_small_stack(const char *spec, bool generated) {
    subject s = {.failures = 0};
    support_layer_begin(&s.layer, spec, generated, ROWS);
    const size_t least = (size_t)PTHREAD_STACK_MIN; /* 128 KiB on AArch64 */
    support_threads_run(1, least > STACK_BYTES ? least : STACK_BYTES, run_everything, &s);
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
