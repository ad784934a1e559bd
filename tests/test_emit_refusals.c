/* What the functions of an emitted header refuse: what libffn refuses, with the same status, and nothing is written. */
#include "support_emitted.h"

#include "support_data.h"
#include "support_files.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(emit_refusals, .init = support_folder_make, .fini = support_folder_remove);

/* Everything that a call needs, in one place that a row of a table can spoil. */
typedef struct call {
    ffn_args args;
    float *hidden;
    int64_t begin, end;
} call;

enum { D = 20, F = 24, N = 3, FLOATS = 16384 };

static struct { _Alignas(64) float x[FLOATS], y[FLOATS], hidden[FLOATS], scratch[FLOATS], packed[FLOATS]; } place;

static call usual_call(void) {
    return (call){{N, place.x, D, place.y, D, place.packed, place.scratch, sizeof place.scratch}, place.hidden, 0, 16};
}

#define SPOIL(NAME, STATEMENT)  \
    static void NAME(call *c) { \
        ffn_args *a = &c->args; \
        (void)a;                \
        STATEMENT;              \
    }
#define SPOILS(X)                                                                                     \
    X(negative_n, a->n = -1)                                                                          \
    X(no_x, a->x = NULL)                                                                              \
    X(no_y, a->y = NULL)                                                                              \
    X(odd_x, a->x = (const float *)(void *)((char *)place.x + 1))                                     \
    X(odd_y, a->y = (float *)(void *)((char *)place.y + 2))                                           \
    X(short_ldx, a->ldx = D - 1)                                                                      \
    X(short_ldy, a->ldy = D - 1)                                                                      \
    X(negative_ldx, a->ldx = -D)                                                                      \
    X(huge_ldx, a->ldx = INT64_MAX / 4)                                                               \
    X(huge_ldy, a->ldy = INT64_MAX / 8)                                                               \
    X(in_place, a->x = a->y)                                                                          \
    X(rows_meet, a->x = a->y + D)                                                                     \
    X(rows_meet_below, a->x = a->y - 1 + N * D)                                                       \
    X(other_strides, (a->x = a->y + D, a->ldx = 2 * D, a->ldy = 3 * D))                               \
    X(columns_meet, (a->x = a->y + D - 1, a->ldx = a->ldy = 2 * D))                                   \
    X(columns_meet_behind, (a->x = a->y + D + 1, a->ldx = a->ldy = 2 * D))                            \
    X(no_packed, a->packed = NULL)                                                                    \
    X(odd_packed, a->packed = place.packed + 8)                                                       \
    X(wrong_packed, a->packed = place.x)                                                              \
    X(no_scratch, a->scratch = NULL)                                                                  \
    X(odd_scratch, a->scratch = place.scratch + 1)                                                    \
    X(small_scratch, a->scratch_bytes = 64)                                                           \
    X(scratch_is_y, (a->scratch = place.y, a->scratch_bytes = sizeof place.y))                        \
    X(scratch_is_x, (a->scratch = place.x, a->scratch_bytes = sizeof place.x))                        \
    X(scratch_is_packed, (a->scratch = place.packed, a->scratch_bytes = sizeof place.packed))         \
    X(y_is_packed, a->y = place.packed + 64)                                                          \
    X(begin_below, c->begin = -1)                                                                     \
    X(begin_behind, (c->begin = 17, c->end = 16))                                                     \
    X(begin_in_panel, c->begin = 8)                                                                   \
    X(end_behind, c->end = 1000)                                                                      \
    X(end_in_panel, c->end = 8)                                                                       \
    X(no_hidden, c->hidden = NULL)                                                                    \
    X(odd_hidden, c->hidden = place.hidden + 4)                                                       \
    X(hidden_is_x, (c->hidden = place.x))                                                             \
    X(hidden_is_y, (c->hidden = place.y))                                                             \
    X(hidden_is_packed, (c->hidden = place.packed))                                                   \
    X(hidden_is_scratch, (c->hidden = place.scratch))                                                 \
    X(many_rows, (a->n = 17, a->ldx = D))                                                             \
    X(nothing_wrong, (void)0)                                                                         \
    X(no_rows, (a->n = 0, a->x = NULL, a->y = NULL, a->packed = NULL, a->scratch = NULL, c->end = 0)) \
    X(no_columns, c->end = 0)                                                                         \
    X(columns_apart, (a->x = a->y + D, a->ldx = a->ldy = 2 * D))
SPOILS(SPOIL)
#define SPOIL_ROW(NAME, STATEMENT) {#NAME, NAME},
static const struct {
    const char *name;
    void (*spoil)(call *c);
} spoils[] = {SPOILS(SPOIL_ROW)};

/* What a header calls it. */
static int as_header(ffn_status status) {
    return status == FFN_OK ? 0 : status == FFN_BAD_ARGUMENT ? 1 : status == FFN_BAD_WEIGHTS ? 2 : -1;
}

/* The status that libffn has, and after a refusal every byte that was there before. */
static void expect_status(const char *name, const char *function, int got, ffn_status want, const void *before) {
    cr_expect_eq(got, as_header(want), "%s, %s: %d, libffn says %d", function, name, got, as_header(want));
    if (want != FFN_OK)
        cr_expect_eq(memcmp(&place, before, sizeof place), 0, "%s, %s: something was written", function, name);
}

static void refill(const ffn_spec *spec) {
    support_fill_normal(place.x, FLOATS, 1, 11);
    support_fill_nan(place.y, FLOATS);
    support_fill_normal(place.hidden, FLOATS, 1, 12);
    support_fill_nan(place.scratch, FLOATS);
    memset(place.packed, 0, sizeof place.packed);
    support_weights *weights = support_random_weights(spec, SUPPORT_NORMAL, 13);
    cr_assert_eq(ffn_pack(spec, &weights->weights, place.packed, sizeof place.packed, NULL), FFN_OK);
    support_weights_free(weights);
}

Test(emit_refusals, refuses_what_libffn_refuses_and_writes_nothing) {
    const ffn_spec spec = support_spec("d20-f24-relu-bias");
    support_emitted net;
    void *object = support_emitted_net(CC "-O2", "net.h", NULL, (const char *const[]){"d20-f24-relu-bias"}, 1);
    support_emitted_functions(object, "net", &net);
    ffn_context *context = support_emitted_context();
    ffn_kernel *kernel = support_emitted_kernel(context, &spec);
    cr_assert_leq(ffn_kernel_scratch_bytes(kernel), sizeof place.scratch);
    void *before = malloc(sizeof place);
    refill(&spec);
    memcpy(before, &place, sizeof place);
    for (size_t i = 0; i < sizeof spoils / sizeof *spoils; i++)
        for (int function = 0; function < 4; function++) {
            static const char *const functions[] = {"run", "run_rows", "expand", "contract"};
            call c = usual_call();
            if (function == 1)
                c.end = N;
            spoils[i].spoil(&c);
            int got = -1;
            ffn_status want = FFN_OK;
            memcpy(&place, before, sizeof place);
            switch (function) {
            case 0:
                want = ffn_kernel_run(kernel, &c.args, NULL);
                memcpy(&place, before, sizeof place);
                got = net.run(&c.args);
                break;
            case 1:
                want = ffn_kernel_run_rows(kernel, &c.args, c.begin, c.end, NULL);
                memcpy(&place, before, sizeof place);
                got = net.run_rows(&c.args, c.begin, c.end);
                break;
            case 2:
                want = ffn_kernel_expand(kernel, &c.args, c.hidden, c.begin, c.end, NULL);
                memcpy(&place, before, sizeof place);
                got = net.expand(&c.args, c.hidden, c.begin, c.end);
                break;
            default:
                want = ffn_kernel_contract(kernel, &c.args, c.hidden, c.begin, c.end, NULL);
                memcpy(&place, before, sizeof place);
                got = net.contract(&c.args, c.hidden, c.begin, c.end);
            }
            expect_status(spoils[i].name, functions[function], got, want, before);
        }
    cr_expect_eq(net.run(NULL), 1);
    cr_expect_eq(net.run_rows(NULL, 0, 0), 1);
    cr_expect_eq(net.expand(NULL, place.hidden, 0, 0), 1);
    cr_expect_eq(net.contract(NULL, place.hidden, 0, 0), 1);
    free(before);
    ffn_kernel_destroy(kernel);
    ffn_context_destroy(context);
}

Test(emit_refusals, refuses_arrays_that_overlap_in_part) {
    support_emitted nets[SUPPORT_EMITTED_SPECS];
    support_emitted_all(CC "-O2", "net.h", nets);
    ffn_context *context = support_emitted_context();
    static float data[64];
    static const struct {
        int64_t n, count, g, u, out; /* -1: NULL */
    } rows[] = {{1, 8, 0, 8, 16},  {1, 8, 0, 8, 0},    {1, 8, 0, 8, 8},  {1, 8, 0, 16, 7},         {1, 8, 0, 16, 1},
                {1, 8, 20, 0, 7},  {1, 8, -1, 8, 16},  {1, 8, 0, -1, 8}, {1, 8, 0, 8, -1},         {-1, 8, 0, 8, 16},
                {1, -1, 0, 8, 16}, {1, 0, -1, -1, -1}, {0, 8, 0, 8, 16}, {1, INT64_MAX, 0, 8, 16}, {100, 8, 8, 0, 16}};
    for (int32_t s = 0; s < SUPPORT_EMITTED_SPECS; s++) {
        const ffn_spec spec = support_spec(support_emitted_specs[s]);
        ffn_kernel *kernel = support_emitted_kernel(context, &spec);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            const float *g = rows[i].g < 0 ? NULL : data + rows[i].g, *u = rows[i].u < 0 ? NULL : data + rows[i].u;
            float *out = rows[i].out < 0 ? NULL : data + rows[i].out;
            const ffn_status want = ffn_kernel_activate(kernel, rows[i].n, rows[i].count, g, u, out, NULL);
            cr_expect_eq(nets[s].activate(rows[i].n, rows[i].count, g, u, out), as_header(want), "%s, row %zu",
                         support_emitted_specs[s], i);
        }
        ffn_kernel_destroy(kernel);
    }
    ffn_context_destroy(context);
}

static void expect_pack_status(const support_emitted *net, const ffn_spec *spec, const ffn_weights *weights,
                               void *packed, size_t bytes, const char *what) {
    static unsigned char before[1 << 18];
    cr_assert_leq(bytes, sizeof before);
    unsigned char *copy = support_aligned(bytes);
    memset(copy, 0x77, bytes);
    memset(before, 0x77, bytes);
    void *to = packed == NULL ? NULL : copy + ((uintptr_t)packed & 63);
    const ffn_status want = ffn_pack(spec, weights, to, bytes - ((uintptr_t)packed & 63), NULL);
    memset(copy, 0x77, bytes);
    cr_expect_eq(net->pack(weights, to, bytes - ((uintptr_t)packed & 63)), as_header(want), "%s: %s", spec->activation,
                 what);
    if (want != FFN_OK)
        cr_expect_eq(memcmp(copy, before, bytes), 0, "%s: %s: something was written", spec->activation, what);
    free(copy);
}

Test(emit_refusals, refuses_weights_that_ffn_pack_refuses) {
    support_emitted nets[SUPPORT_EMITTED_SPECS];
    support_emitted_all(CC "-O2", "net.h", nets);
    for (int32_t s = 0; s < SUPPORT_EMITTED_SPECS; s++) {
        const ffn_spec spec = support_spec(support_emitted_specs[s]);
        size_t bytes;
        ffn_packed_bytes(&spec, &bytes, NULL);
        support_weights *random = support_random_weights(&spec, SUPPORT_NORMAL, 17);
        const ffn_weights right = random->weights;
        static float spare[1 << 16];
        void *const aligned = (void *)(uintptr_t)64, *const odd = (void *)(uintptr_t)(64 + 32);
#define PACK(WHAT, ...)                                                \
    do {                                                               \
        ffn_weights w = right;                                         \
        __VA_ARGS__;                                                   \
        expect_pack_status(&nets[s], &spec, &w, aligned, bytes, WHAT); \
    } while (0)
        PACK("right", (void)0);
        PACK("no up", w.up.data = NULL);
        PACK("no down", w.down.data = NULL);
        PACK("no gate", w.gate.data = NULL);
        PACK("a gate", w.gate = (ffn_matrix){spare, 0, FFN_IN_OUT});
        PACK("odd up", w.up.data = (const float *)(void *)((char *)spare + 1));
        PACK("odd gate", w.gate.data = (const float *)(void *)((char *)spare + 2));
        PACK("layout of up", w.up.layout = (ffn_layout)2);
        PACK("layout of down", w.down.layout = (ffn_layout)-1);
        PACK("short ld", w.up.ld = spec.d_ff - 1);
        PACK("negative ld", w.down.ld = -spec.d_model - 1);
        PACK("short ld of down", w.down.ld = spec.d_model - 1);
        PACK("huge ld", w.up.ld = INT64_MAX / 4);
        PACK("no bias_up", w.bias_up = NULL);
        PACK("no bias_gate", w.bias_gate = NULL);
        PACK("no bias_down", w.bias_down = NULL);
        PACK("a bias_up", w.bias_up = spare);
        PACK("a bias_gate", w.bias_gate = spare);
        PACK("a bias_down", w.bias_down = spare);
        PACK("odd bias", w.bias_up = (const float *)(void *)((char *)spare + 1));
        for (int order = -1; order <= 4; order++) {
            char what[32];
            snprintf(what, sizeof what, "gate order %d", order);
            PACK(what, w.gate_order = (ffn_gate_order)order);
            PACK(what, w.gate_order = (ffn_gate_order)order, w.gate.data = NULL, w.up.data = spare, w.bias_gate = NULL,
                 w.bias_up = w.bias_up != NULL ? spare : NULL);
            PACK(what, w.gate_order = (ffn_gate_order)order, w.gate.data = NULL, w.up.data = spare,
                 w.bias_gate = w.bias_up = NULL);
            PACK(what, w.gate_order = (ffn_gate_order)order, w.gate.data = NULL, w.up.data = spare, w.up.ld = spec.d_ff,
                 w.bias_gate = NULL, w.bias_up = spare);
        }
        expect_pack_status(&nets[s], &spec, &right, NULL, bytes, "packed NULL");
        expect_pack_status(&nets[s], &spec, &right, odd, bytes + 32, "packed not aligned");
        expect_pack_status(&nets[s], &spec, &right, aligned, bytes - 1, "too small");
        cr_expect_eq(nets[s].pack(NULL, spare, bytes), 1);
        support_weights_free(random);
    }
}

Test(emit_refusals, finds_each_damaged_byte) {
    support_emitted nets[SUPPORT_EMITTED_SPECS];
    support_emitted_all(CC "-O2", "net.h", nets);
    static const int32_t chosen[] = {1, 4};
    for (int i = 0; i < 2; i++) {
        const support_emitted *net = &nets[chosen[i]];
        const ffn_spec spec = support_spec(support_emitted_specs[chosen[i]]);
        size_t bytes;
        ffn_packed_bytes(&spec, &bytes, NULL);
        support_weights *weights = support_random_weights(&spec, SUPPORT_NORMAL, 19);
        unsigned char *packed = support_packed(&spec, &weights->weights);
        cr_expect_eq(net->check(packed, bytes), 0);
        for (size_t at = 0; at < bytes; at++) {
            packed[at] ^= (unsigned char)(1u << at % 8);
            cr_expect_eq(net->check(packed, bytes), 2, "byte %zu of %zu", at, bytes);
            packed[at] ^= (unsigned char)(1u << at % 8);
        }
        cr_expect_eq(net->check(packed, bytes - 1), 2);
        cr_expect_eq(net->check(packed, 255), 2);
        cr_expect_eq(net->check(packed, 0), 2);
        cr_expect_eq(net->check(NULL, bytes), 1);
        cr_expect_eq(net->check(packed + 4, bytes), 1);
        cr_expect_eq(net->check(packed, bytes + 1), 0);
        cr_expect_eq(nets[0].check(packed, bytes), 2, "weights of another spec");
        support_weights_free(weights);
        free(packed);
    }
}
