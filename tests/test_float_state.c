/* test_float_state.c: the caller's floating-point state (rounding, flushing of subnormals) -> left alone by every call;
 * and what it does to results: no NaN where the default has none, and errors within stated bounds (docs/numerics.md) */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ffngen.h"
#include "formula.h"
#include "support_data.h"
#include "support_host.h"
#include "support_oracle.h"
#include "support_store.h"
#include "support_threads.h"

#if defined(__x86_64__)
#include <xmmintrin.h>

enum { DAZ = 0x0040, ROUND_DOWN = 0x2000, ROUND_UP = 0x4000, ROUND_ZERO = 0x6000, FTZ = 0x8000, CONTROL = 0xffc0 };

static const struct {
    const char *name;
    unsigned bits;
} states[] = {{"default", 0},
              {"FTZ", FTZ},
              {"DAZ", DAZ},
              {"FTZ and DAZ", FTZ | DAZ},
              {"down", ROUND_DOWN},
              {"up", ROUND_UP},
              {"to zero", ROUND_ZERO},
              {"to zero, FTZ and DAZ", ROUND_ZERO | FTZ | DAZ}};
enum { STATES = sizeof states / sizeof *states };

static unsigned control(void) {
    return _mm_getcsr() & CONTROL;
}

static unsigned short x87(void) {
    unsigned short word;
    __asm__ volatile("fnstcw %0" : "=m"(word));
    return word;
}

/* The flags of past exceptions are no part of the state; every operation may raise them. */
static void enter(unsigned bits) {
    _mm_setcsr((_mm_getcsr() & 0x1f80U) | bits);
}

static void leave(void) {
    enter(0);
}

/* ---- Every public call leaves the state as it was ---- */

static unsigned entered;
static unsigned short entered_x87;

static void expect_untouched(const char *call, bool done) {
    const unsigned after = control();
    const unsigned short after_x87 = x87();
    leave();
    cr_expect(done, "%s", call);
    cr_expect_eq(after, entered, "%s: MXCSR %#x, before it %#x", call, after, entered);
    cr_expect_eq(after_x87, entered_x87, "%s: x87 control %#x, before it %#x", call, after_x87, entered_x87);
    _mm_setcsr((_mm_getcsr() & 0x3fU) | entered);
}

#define CALL(expression)                      \
    do {                                      \
        const bool done_ = (expression);      \
        expect_untouched(#expression, done_); \
    } while (0)
#define FINE(expression) CALL((expression) == FFN_OK)

static void call_everything(const char *folder, const char *file) {
    ffn_diag diag;
    ffn_spec spec;
    ffn_machine machine;
    ffn_plan plan;
    char text[FFN_SPEC_TEXT_BYTES];
    size_t bytes;
    FINE(ffn_spec_parse("d40-f100-geglu-bias", &spec, &diag));
    FINE(ffn_spec_format(&spec, text, sizeof text, &diag));
    CALL((ffn_machine_read(&machine), true));
    CALL(ffn_machine_name() != NULL);
    CALL(ffn_isa_best() != FFN_ISA_AUTO);
    if (ffn_isa_best() != FFN_ISA_PORTABLE)
        FINE(ffn_plan_make(&spec, ffn_isa_best(), FFN_N_17_UP, &machine, &plan, &diag));
    support_weights *weights = support_random_weights(&spec, SUPPORT_NORMAL, 3);
    FINE(ffn_packed_bytes(&spec, &bytes, &diag));
    void *packed = support_aligned(bytes);
    const void *mapped;
    FINE(ffn_pack(&spec, &weights->weights, packed, bytes, &diag));
    FINE(ffn_packed_check(&spec, packed, bytes, &diag));
    FINE(ffn_pack_file(&spec, &weights->weights, file, &diag));
    FINE(ffn_packed_map(&spec, file, &mapped, &bytes, &diag));
    CALL((ffn_packed_unmap(mapped, bytes), true));

    ffn_context *context;
    ffn_kernel *kernel;
    ffn_kernel_info info;
    ffn_verify_report report;
    const ffn_options options = {.source = ffngen_source(), .store = folder, .tuned = "", .verify = FFN_VERIFY_ALWAYS};
    FINE(ffn_context_create(&options, &context, &diag));
    FINE(ffn_kernel_create(context, &spec, &kernel, &diag));
    for (int64_t n = 1; n <= 17; n += 16) {
        if (ffn_isa_best() != FFN_ISA_PORTABLE) /* compiles and verifies, or loads and verifies */
            FINE(ffn_kernel_prepare(kernel, n, &diag));
        CALL((ffn_kernel_inspect(kernel, n, &info), true));
        FINE(ffn_kernel_describe(kernel, n, text, sizeof text, &diag));
        FINE(ffn_kernel_verify(kernel, n, NULL, &report, &diag));
    }
    if (ffn_isa_best() != FFN_ISA_PORTABLE) {
        ffn_bytes image;
        FINE(ffngen_emit(&spec, &plan, FFNGEN_IMAGE, &image, &diag));
        FINE(ffn_kernel_load(kernel, image.data, image.bytes, &diag));
        image.release(image.data);
    }

    enum { N = 16 };
    support_crowd crowd;
    support_crowd_make(&crowd, 3);
    const size_t scratch_bytes = ffn_work_scratch_bytes(kernel, N, 3) + ffn_kernel_scratch_bytes(kernel);
    float *x = support_aligned((size_t)(N * spec.d_model) * sizeof *x);
    float *y = support_aligned((size_t)(N * spec.d_model) * sizeof *y);
    float *hidden = support_aligned(ffn_kernel_hidden_bytes(kernel));
    void *scratch = support_aligned(scratch_bytes);
    support_fill_x(x, N, spec.d_model, spec.d_model, SUPPORT_NORMAL, 4);
    const ffn_args args = {N, x, spec.d_model, y, spec.d_model, packed, scratch, scratch_bytes};
    FINE(ffn_kernel_run(kernel, &args, &diag));
    FINE(ffn_kernel_run_rows(kernel, &args, 3, 9, &diag));
    FINE(ffn_kernel_expand(kernel, &args, hidden, 0, spec.d_ff, &diag));
    FINE(ffn_kernel_contract(kernel, &args, hidden, 0, spec.d_model, &diag));
    FINE(ffn_kernel_activate(kernel, 1, spec.d_model, x, x, y, &diag));
    FINE(ffn_kernel_run_parallel(kernel, &args, &crowd.parallel, &diag));
    CALL(ffn_digest(y, N, spec.d_model, spec.d_model) != 0);
    CALL((ffn_kernel_destroy(kernel), ffn_context_destroy(context), true));
    support_weights_free(weights);
    free(packed);
    free(x);
    free(y);
    free(hidden);
    free(scratch);
}

Test(float_state, every_call_leaves_it_alone, .timeout = 120) {
    const char *folder = support_store_scratch();
    char file[STORE_PATH_BYTES + 16];
    snprintf(file, sizeof file, "%s/packed", folder);
    entered_x87 = x87();
    for (int s = 0; s < STATES; s++) { /* the first and the last compile, the others load what the first kept */
        enter(states[s].bits);
        entered = control() | (_mm_getcsr() & 0x1f80U);
        call_everything(s + 1 < STATES ? folder : "", file);
        leave();
    }
}

Test(float_state, loading_the_libraries_leaves_it_alone) {
    NO_SANITIZER("the run time of a sanitizer does not come into a process late");
    static const char *const libraries[] = {"libffn.so", "libffngen.so"};
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
        for (int s = 0; s < STATES; s += 3) {
            enter(states[s].bits);
            const unsigned before = control();
            void *library = dlopen(support_beside(libraries[i]), RTLD_NOW | RTLD_LOCAL);
            const unsigned after = control();
            leave();
            cr_expect_not_null(library, "%s", dlerror());
            cr_expect_eq(before, after, "%s: MXCSR %#x, before it %#x", libraries[i], after, before);
        }
}

/* ---- Results ---- */

/* What directed rounding may add to a hidden value, of the largest of 1, its argument and itself: a reduction of the
 * argument then takes a neighbouring interval, where its polynomial is not made for. */
#define DIRECTED 0x1p-15
/* What flushing may add to an activation: a few of the smallest normal number. */
#define FLUSHED 0x1p-123

enum { ROWS = 5, VALUES = 700, KINDS = 2 };
static const float scales[KINDS] = {1.0f, 0x1p-128f}; /* of x: ordinary, subnormal */

typedef struct fixture { /* one activation */
    ffn_spec spec;
    support_weights *weights;
    void *packed;
    float *x[KINDS], *y, g[VALUES], u[VALUES], plain[VALUES], out[VALUES];
    double *want[KINDS], *bound[KINDS], value[VALUES], value_bound[VALUES];
} fixture;

/* Dense on [-20, 20], and what is far out or no number like others. */
static void fill_values(fixture *f) {
    static const float special[] = {0.0f,   -0.0f, INFINITY, -INFINITY, NAN,    1e-40f, -1e-40f, 1e-45f, -1e-45f, 3e38f,
                                    -3e38f, 88.7f, -88.7f,   -104.0f,   104.0f, 1e-30f, -1e-30f, 1e10f,  -1e10f};
    enum { SPECIALS = sizeof special / sizeof *special };
    for (int i = 0; i < VALUES; i++) {
        f->g[i] = i < SPECIALS ? special[i] : 40.0f * ((float)i / VALUES - 0.5f);
        f->u[i] = i % 2 ? 1.0f : -0.75f;
        formula_reference(f->spec.activation, f->spec.accuracy, (double)f->g[i], (double)f->u[i], &f->value[i],
                          &f->value_bound[i], NULL);
    }
}

static void set_up(fixture *f, const char *activation) {
    char text[64];
    snprintf(text, sizeof text, "d40-f70-%s", activation);
    f->spec = support_spec(text);
    const int64_t count = ROWS * f->spec.d_model;
    f->weights = support_random_weights(&f->spec, SUPPORT_NORMAL, 21);
    f->packed = support_packed(&f->spec, &f->weights->weights);
    f->y = support_aligned((size_t)count * sizeof(float));
    for (int k = 0; k < KINDS; k++) {
        f->x[k] = support_aligned((size_t)count * sizeof(float));
        f->want[k] = support_aligned((size_t)count * sizeof(double));
        f->bound[k] = support_aligned((size_t)count * sizeof(double));
        support_fill_normal(f->x[k], count, scales[k], 22);
        oracle_ffn(&f->spec, &f->weights->weights, f->x[k], f->spec.d_model, ROWS, f->want[k], f->bound[k]);
    }
    fill_values(f);
}

static void tear_down(fixture *f) {
    support_weights_free(f->weights);
    void *const buffers[] = {f->packed, f->y, f->x[0], f->x[1], f->want[0], f->want[1], f->bound[0], f->bound[1]};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        free(buffers[i]);
}

static bool is_directed(int state) {
    return states[state].bits & ROUND_ZERO;
}

static bool flushes(int state) {
    return states[state].bits & (FTZ | DAZ);
}

/* The largest share of what docs/numerics.md promises. */
static double worst_output(const fixture *f, const ffn_kernel *kernel, int kind, int state) {
    const int64_t d = f->spec.d_model, d_ff = f->spec.d_ff;
    const size_t scratch_bytes = ffn_kernel_scratch_bytes(kernel);
    void *scratch = support_aligned(scratch_bytes);
    const ffn_args args = {ROWS, f->x[kind], d, f->y, d, f->packed, scratch, scratch_bytes};
    support_fill_nan(f->y, ROWS * d);
    enter(states[state].bits);
    const ffn_status status = ffn_kernel_run(kernel, &args, NULL);
    leave();
    cr_assert_eq(status, FFN_OK);
    free(scratch);
    double worst = 0;
    for (int64_t i = 0; i < ROWS * d; i++) {
        double bound = f->bound[kind][i] * (is_directed(state) ? 2 : 1);
        bound += flushes(state) ? 0x1p-126 * (double)(d + d_ff) : 0;
        for (int64_t k = 0; k < d_ff && is_directed(state); k++)
            bound += DIRECTED * fabs((double)f->weights->down[k * d + i % d]);
        cr_expect(isfinite(f->y[i]), "%s, %s: %g", f->spec.activation, states[state].name, (double)f->y[i]);
        worst = fmax(worst, fabs((double)f->y[i] - f->want[kind][i]) / bound);
    }
    return worst;
}

static double worst_value(fixture *f, const ffn_kernel *kernel, int state) {
    enter(states[state].bits);
    ffn_kernel_activate(kernel, ROWS, VALUES, f->g, f->u, f->out, NULL);
    leave();
    double worst = 0;
    for (int i = 0; i < VALUES; i++) {
        const double size = fmax(fmax(1, fabs((double)f->g[i])), fabs(f->value[i]));
        const double bound =
            f->value_bound[i] + (is_directed(state) ? DIRECTED * size : 0) + (flushes(state) ? FLUSHED : 0);
        cr_expect(isnan(f->out[i]) == isnan(f->plain[i]), "%s, %s: %a gives %a, by default %a", f->spec.activation,
                  states[state].name, (double)f->g[i], (double)f->out[i], (double)f->plain[i]);
        if (isfinite(f->value[i]) && isfinite(f->plain[i]) && isfinite(f->out[i]))
            worst = fmax(worst, fabs((double)f->out[i] - f->value[i]) / bound);
    }
    return worst;
}

/* Small code, made soon: no plan changes a bit. */
static ffn_kernel *small_kernel(const ffn_spec *spec, ffn_isa isa, ffn_context **context) {
    ffn_options options = {.isa = isa, .source = ffngen_source(), .store = "", .tuned = "", .verify = FFN_VERIFY_NEVER};
    ffn_diag diag = {.text = ""};
    ffn_machine machine;
    ffn_plan plan;
    ffn_kernel *kernel;
    ffn_machine_read(&machine);
    if (isa != FFN_ISA_PORTABLE) {
        cr_assert_eq(ffn_plan_make(spec, isa, FFN_N_5_16, &machine, &plan, &diag), FFN_OK, "%s", diag.text);
        plan.unroll = 1;
        plan.prefetch = plan.ahead = 0;
        plan.tile_count = 2;
        plan.tiles[0] = (ffn_tile){2, 1};
        plan.tiles[1] = (ffn_tile){1, 1};
        options.plan = &plan;
    }
    cr_assert_eq(ffn_context_create(&options, context, &diag), FFN_OK, "%s", diag.text);
    cr_assert_eq(ffn_kernel_create(*context, spec, &kernel, &diag), FFN_OK, "%s", diag.text);
    if (isa != FFN_ISA_PORTABLE)
        cr_assert_eq(ffn_kernel_prepare(kernel, ROWS, &diag), FFN_OK, "%s", diag.text);
    return kernel;
}

/* Subnormal parameters and halfway digits included. */
Test(float_state, a_spec_means_the_same_in_each) {
    static const char *const texts[] = {"leaky_relu(1e-40)", "leaky_relu(1e-45)",    "elu(1e-42)-fast",
                                        "act(x*1e-45)",      "act(x+1.1754942e-38)", "leaky_relu(3.4e38)",
                                        "swish(0.3)",        "act(x*0.1)",           "act(x*16777217)",
                                        "act(x*3.14159265)", "act(x*7.7654e-21)"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (int s = 0; s < STATES; s++) {
            char text[128], plain[FFN_SPEC_TEXT_BYTES], now[FFN_SPEC_TEXT_BYTES] = "";
            ffn_spec spec, other;
            leave();
            snprintf(text, sizeof text, "d2-f2-%s", texts[i]);
            cr_assert_eq(ffn_spec_parse(text, &spec, NULL), FFN_OK, "%s", text);
            cr_assert_eq(ffn_spec_format(&spec, plain, sizeof plain, NULL), FFN_OK);
            static formula_graph graph, graph_now;
            formula_build(spec.activation, spec.accuracy, &graph, NULL);
            enter(states[s].bits);
            ffn_status status = ffn_spec_parse(text, &other, NULL);
            status = status ? status : ffn_spec_format(&other, now, sizeof now, NULL);
            status = status ? status : formula_build(spec.activation, spec.accuracy, &graph_now, NULL);
            const unsigned after = control();
            leave();
            cr_expect_eq(status, FFN_OK, "%s, %s", text, states[s].name);
            cr_expect_str_eq(now, plain, "%s", states[s].name);
            cr_expect_eq(graph.count, graph_now.count);
            cr_expect_arr_eq(graph.nodes, graph_now.nodes, (size_t)graph.count * sizeof *graph.nodes, "%s, %s", text,
                             states[s].name);
            cr_expect_eq(after & ~0x1f80U, states[s].bits, "%s", states[s].name);
        }
}

Test(float_state, results_stay_near_whatever_it_is, .timeout = 120) {
    static fixture f;
    double worst[STATES][KINDS + 1] = {{0}};
    for (size_t a = 0; ffn_activation_at(a) != NULL; a++) {
        set_up(&f, ffn_activation_at(a)->name);
        for (int isa = FFN_ISA_PORTABLE; isa < FFN_ISA_COUNT; isa++) {
            if (isa != FFN_ISA_PORTABLE && !ffn_isa_supported((ffn_isa)isa))
                continue;
            ffn_context *context;
            ffn_kernel *kernel = small_kernel(&f.spec, (ffn_isa)isa, &context);
            ffn_kernel_activate(kernel, ROWS, VALUES, f.g, f.u, f.plain, NULL);
            for (int s = 0; s < STATES; s++)
                for (int kind = 0; kind <= KINDS; kind++) {
                    const double now = kind < KINDS ? worst_output(&f, kernel, kind, s) : worst_value(&f, kernel, s);
                    cr_expect_leq(now, 1, "%s %s, %s, kind %d: %g of the bound", f.spec.activation,
                                  ffn_isa_name((ffn_isa)isa), states[s].name, kind, now);
                    worst[s][kind] = fmax(worst[s][kind], now);
                }
            ffn_kernel_destroy(kernel);
            ffn_context_destroy(context);
        }
        tear_down(&f);
    }
    for (int s = 0; s < STATES; s++)
        printf("%-22s of the bound: outputs %.3f, of subnormal rows %.3f, activations %.3f\n", states[s].name,
               worst[s][0], worst[s][1], worst[s][2]);
}

#else
Test(float_state, none_here) {
    printf("skipped: MXCSR is a register of x86-64\n");
}
#endif
