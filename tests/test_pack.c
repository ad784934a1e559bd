/* test_pack.c: packed blocks against the layout of docs/packed.md, element by element; damage and wrong arguments */
#include "packed.h"
#include "support_data.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

enum { UP, GATE, DOWN, PARTS };

/* Element (k, j) of a part, and its bias at k = -1: a different number each, so that any mix-up shows. */
static float element(int part, int64_t k, int64_t j) {
    return (float)((k + 1) * 211 + j + 1) + 0.25f * (float)part;
}

static ffn_spec make_spec(int64_t d_model, int64_t d_ff, bool gated, uint32_t bias) {
    ffn_spec spec = support_spec(gated ? "d1-f1-bilinear" : "d1-f1-relu");
    spec.d_model = d_model;
    spec.d_ff = d_ff;
    spec.bias = bias;
    return spec;
}

/* How gate and up stand in the matrix that weights.up is; every other part is FFN_GATE_SEPARATE. */
typedef struct fused {
    int64_t d_ff;
    ffn_gate_order order;
} fused;

static float fused_element(fused of, int part, int64_t k, int64_t j) {
    switch (of.order) {
    case FFN_GATE_FIRST:
        return j < of.d_ff ? element(GATE, k, j) : element(UP, k, j - of.d_ff);
    case FFN_UP_FIRST:
        return j < of.d_ff ? element(UP, k, j) : element(GATE, k, j - of.d_ff);
    case FFN_GATE_INTERLEAVED:
        return element(j % 2 == 0 ? GATE : UP, k, j / 2);
    default:
        return element(part, k, j);
    }
}

typedef struct buffer {
    float *data;
    size_t bytes;
} buffer;

/* A matrix that ends at an unmapped page; NaN between its rows. */
static buffer make_matrix(fused of, int part, int64_t inputs, int64_t outputs, ffn_layout layout, int64_t extra,
                          ffn_matrix *matrix) {
    const int64_t rows = layout == FFN_IN_OUT ? inputs : outputs, width = layout == FFN_IN_OUT ? outputs : inputs;
    const int64_t ld = width + extra;
    const size_t bytes = (size_t)((rows - 1) * ld + width) * sizeof(float);
    float *data = support_guarded(bytes, true);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < width; c++)
            data[r * ld + c] = layout == FFN_IN_OUT ? fused_element(of, part, r, c) : fused_element(of, part, c, r);
    *matrix = (ffn_matrix){data, extra == 0 ? 0 : ld, layout};
    return (buffer){data, bytes};
}

static buffer make_bias(fused of, int part, int64_t count, const float **bias) {
    const buffer made = {support_guarded((size_t)count * sizeof(float), true), (size_t)count * sizeof(float)};
    for (int64_t j = 0; j < count; j++)
        made.data[j] = fused_element(of, part, -1, j);
    *bias = made.data;
    return made;
}

/* The value at (k, j) of a padded part: +0 outside the matrix and for a bias the spec does not have. */
static void expect_rows(const float **body, int part, int64_t begin, int64_t end, int64_t columns, int64_t first,
                        bool present) {
    for (int64_t k = begin; k < end; k++)
        for (int64_t c = first; c < first + FFN_PANEL; c++) {
            const float want = present && c < columns ? element(part, k, c) : 0.0f;
            if (memcmp(&want, *body, sizeof want) != 0)
                cr_assert(false, "part %d (%lld, %lld): %g, not %g", part, (long long)k, (long long)c, (double)**body,
                          (double)want);
            ++*body;
        }
}

static void expect_bias(const float **body, int part, int64_t columns, bool present) {
    for (int64_t first = 0; first < columns; first += FFN_PANEL)
        expect_rows(body, part, -1, 0, columns, first, present);
}

static void expect_body(const ffn_spec *spec, bool gated, const char *packed, size_t bytes) {
    const float *body = (const float *)(packed + 256);
    expect_bias(&body, UP, spec->d_ff, spec->bias & FFN_BIAS_UP);
    if (gated)
        expect_bias(&body, GATE, spec->d_ff, spec->bias & FFN_BIAS_GATE);
    expect_bias(&body, DOWN, spec->d_model, spec->bias & FFN_BIAS_DOWN);
    for (int64_t first = 0; first < spec->d_ff; first += FFN_PANEL) {
        if (gated)
            expect_rows(&body, GATE, 0, spec->d_model, spec->d_ff, first, true);
        expect_rows(&body, UP, 0, spec->d_model, spec->d_ff, first, true);
    }
    for (int64_t first = 0; first < spec->d_model; first += FFN_PANEL)
        expect_rows(&body, DOWN, 0, spec->d_ff, spec->d_model, first, true);
    cr_assert_eq((const char *)body, packed + bytes, "the block ends where its parts end");
}

static void pack_and_expect(int64_t d_model, int64_t d_ff, bool gated, ffn_gate_order order, uint32_t bias,
                            unsigned layouts, int64_t extra) {
    const ffn_spec spec = make_spec(d_model, d_ff, gated, bias);
    const bool separate = order == FFN_GATE_SEPARATE;
    const fused of = {d_ff, order}, plain = {d_ff, FFN_GATE_SEPARATE};
    const ffn_layout expand_layout = layouts & 1 ? FFN_OUT_IN : FFN_IN_OUT;
    ffn_weights weights = {.gate_order = order};
    buffer used[2 * PARTS];
    int count = 0;
    used[count++] = make_matrix(of, UP, d_model, separate ? d_ff : 2 * d_ff, expand_layout, extra, &weights.up);
    if (gated && separate)
        used[count++] =
            make_matrix(of, GATE, d_model, d_ff, layouts & 4 ? FFN_OUT_IN : FFN_IN_OUT, 2 * extra, &weights.gate);
    used[count++] =
        make_matrix(plain, DOWN, d_ff, d_model, layouts & 2 ? FFN_OUT_IN : FFN_IN_OUT, extra, &weights.down);
    if (bias & FFN_BIAS_UP)
        used[count++] = make_bias(of, UP, separate ? d_ff : 2 * d_ff, &weights.bias_up);
    if (separate && (bias & FFN_BIAS_GATE))
        used[count++] = make_bias(of, GATE, d_ff, &weights.bias_gate);
    if (bias & FFN_BIAS_DOWN)
        used[count++] = make_bias(plain, DOWN, d_model, &weights.bias_down);

    size_t bytes = 0;
    ffn_diag diag;
    cr_assert_eq(ffn_packed_bytes(&spec, &bytes, &diag), FFN_OK);
    char *packed = support_guarded(bytes, true);
    const ffn_status status = ffn_pack(&spec, &weights, packed, bytes, &diag);
    cr_assert_eq(status, FFN_OK, "%s", diag.text);
    expect_body(&spec, gated, packed, bytes);
    const ffn_status checked = ffn_packed_check(&spec, packed, bytes, &diag);
    cr_assert_eq(checked, FFN_OK, "%s", diag.text);
    cr_assert_eq(((const packed_header *)(const void *)packed)->finite, 1);
    support_guarded_free(packed, bytes);
    while (count-- > 0)
        support_guarded_free(used[count].data, used[count].bytes);
}

static const int64_t edges[] = {1, 2, 3, 15, 16, 17, 31, 32, 33, 47, 67};
enum { EDGES = sizeof edges / sizeof *edges };

Test(pack, places_every_element_of_ungated_weights) {
    for (int i = 0; i < EDGES; i++)
        for (int j = 0; j < EDGES; j++)
            for (unsigned layouts = 0; layouts < 4; layouts++)
                pack_and_expect(edges[i], edges[j], false, FFN_GATE_SEPARATE,
                                (i + j) % 2 ? FFN_BIAS_UP | FFN_BIAS_DOWN : 0, layouts, (i * j) % 3);
}

Test(pack, places_every_element_of_gated_weights_in_every_order) {
    for (int order = FFN_GATE_SEPARATE; order <= FFN_GATE_INTERLEAVED; order++)
        for (int i = 0; i < EDGES; i++)
            for (int j = 0; j < EDGES; j++)
                for (unsigned layouts = 0; layouts < (order == FFN_GATE_SEPARATE ? 8u : 4u); layouts++)
                    pack_and_expect(edges[i], edges[j], true, (ffn_gate_order)order,
                                    (i + j) % 2 ? FFN_BIAS_UP | FFN_BIAS_GATE | FFN_BIAS_DOWN : 0, layouts,
                                    (i * j) % 3);
}

Test(pack, takes_every_set_of_biases) {
    for (uint32_t bias = 0; bias < 8; bias++)
        pack_and_expect(19, 37, true, FFN_GATE_SEPARATE, bias, 0, 0);
    for (uint32_t bias = 0; bias < 8; bias++)
        if ((bias & FFN_BIAS_GATE) == 0)
            pack_and_expect(19, 37, false, FFN_GATE_SEPARATE, bias, 3, 5);
}

/* More panels than are packed side by side. */
Test(pack, places_every_element_of_wide_weights) {
    for (unsigned layouts = 0; layouts < 4; layouts++) {
        pack_and_expect(21, 1063, true, FFN_GATE_SEPARATE, 0, layouts, 1);
        pack_and_expect(709, 18, true, FFN_GATE_INTERLEAVED, 0, layouts, 0);
    }
}

/* ---- Sizes ---- */

Test(pack, size_is_the_sum_of_the_parts) {
    const struct {
        int64_t d_model, d_ff;
        bool gated;
        size_t bytes;
    } rows[] = {
        {1, 1, false, 256 + 64 + 64 + 64 + 64},
        {16, 16, false, 256 + 64 + 64 + 16 * 64 + 16 * 64},
        {17, 16, false, 256 + 64 + 128 + 17 * 64 + 2 * 16 * 64},
        {16, 17, true, 256 + 128 + 128 + 64 + 4 * 16 * 64 + 17 * 64},
        {768, 3072, false, 256 + 4 * (3072 + 768) + 2 * 4 * 768 * 3072},
        {4096, 14336, true, 256 + 4 * (2 * 14336 + 4096) + 3 * 4 * (size_t)4096 * 14336},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const ffn_spec spec = make_spec(rows[i].d_model, rows[i].d_ff, rows[i].gated, 0);
        size_t bytes = 0;
        cr_assert_eq(ffn_packed_bytes(&spec, &bytes, NULL), FFN_OK);
        cr_assert_eq(bytes, rows[i].bytes, "row %zu: %zu", i, bytes);
    }
}

Test(pack, sizes_past_the_limit_are_refused) {
    const int64_t dims[][2] = {{0, 1},
                               {1, 0},
                               {-1, 4},
                               {4, INT64_MIN},
                               {FFN_DIM_MAX + 1, 1},
                               {INT64_MAX, INT64_MAX},
                               {FFN_DIM_MAX, FFN_DIM_MAX}};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
        for (int gated = 0; gated < 2; gated++) {
            const ffn_spec spec = make_spec(dims[i][0], dims[i][1], gated, 0);
            size_t bytes = 77;
            packed_layout layout = {.total_bytes = 77};
            ffn_diag diag = {0};
            cr_assert_eq(ffn_packed_bytes(&spec, &bytes, &diag), FFN_BAD_SPEC);
            cr_assert_eq(bytes, 77);
            cr_assert_neq(diag.text[0], 0);
            cr_assert_eq(packed_layout_of(&spec, &layout, &diag), FFN_BAD_SPEC);
            cr_assert_eq(layout.total_bytes, 77);
        }
}

/* ---- Wrong arguments ---- */

enum { D_MODEL = 5, D_FF = 18 };
static float values[4 * D_MODEL * D_FF + 1];

static ffn_weights good_weights(bool gated) {
    return (ffn_weights){.up = {.data = values},
                         .gate = {.data = gated ? values : NULL},
                         .down = {.data = values},
                         .bias_up = values,
                         .bias_gate = gated ? values : NULL,
                         .bias_down = values};
}

static const float *off_by_two_bytes(void) {
    return (const float *)(const void *)((const char *)values + 2);
}

/* Each breaks good weights in one way; `names` stands in the message. */
#define BREAKS(X)                                                                                      \
    X(false, "weights.up.data", w.up.data = NULL)                                                      \
    X(false, "weights.down.data", w.down.data = NULL)                                                  \
    X(true, "weights.gate.data", w.gate.data = NULL)                                                   \
    X(false, "weights.gate.data", w.gate.data = values)                                                \
    X(false, "weights.up.ld", w.up.ld = D_FF - 1)                                                      \
    X(false, "weights.up.ld", (w.up.layout = FFN_OUT_IN, w.up.ld = D_MODEL - 1))                       \
    X(true, "weights.gate.ld", w.gate.ld = -1)                                                         \
    X(false, "weights.down.ld", w.down.ld = D_MODEL - 1)                                               \
    X(false, "weights.down.ld", (w.down.layout = FFN_OUT_IN, w.down.ld = D_FF - 1))                    \
    X(false, "weights.down.ld", w.down.ld = INT64_MAX)                                                 \
    X(false, "weights.down.ld", w.down.ld = INT64_MAX / 4 / D_FF + 1)                                  \
    X(false, "weights.up.layout", w.up.layout = (ffn_layout)2)                                         \
    X(false, "weights.down.data", w.down.data = off_by_two_bytes())                                    \
    X(false, "weights.bias_down", w.bias_down = off_by_two_bytes())                                    \
    X(false, "weights.bias_up", w.bias_up = NULL)                                                      \
    X(true, "weights.bias_gate", w.bias_gate = NULL)                                                   \
    X(false, "weights.bias_down", w.bias_down = NULL)                                                  \
    X(false, "weights.bias_gate", w.bias_gate = values)                                                \
    X(true, "weights.gate_order", w.gate_order = (ffn_gate_order)4)                                    \
    X(true, "weights.gate_order", w.gate_order = (ffn_gate_order)-1)                                   \
    X(false, "gate_order", w.gate_order = FFN_GATE_FIRST)                                              \
    X(true, "weights.gate.data", w.gate_order = FFN_UP_FIRST)                                          \
    X(true, "weights.bias_gate", (w.gate_order = FFN_UP_FIRST, w.gate.data = NULL))                    \
    X(true, "weights.up.ld",                                                                           \
      (w.gate_order = FFN_GATE_FIRST, w.gate.data = NULL, w.bias_gate = NULL, w.up.ld = 2 * D_FF - 1)) \
    X(true, "weights.bias_up",                                                                         \
      (w.gate_order = FFN_GATE_INTERLEAVED, w.gate.data = NULL, w.bias_gate = NULL, w.bias_up = NULL))

static void refused(const ffn_spec *spec, const ffn_weights *weights, char *packed, size_t given, const char *names) {
    ffn_diag diag = {0};
    cr_assert_eq(ffn_pack(spec, weights, packed, given, &diag), FFN_BAD_ARGUMENT, "%s", names);
    cr_assert_eq(diag.status, FFN_BAD_ARGUMENT);
    cr_assert_not_null(strstr(diag.text, names), "\"%s\" does not name %s", diag.text, names);
}

Test(pack, each_wrong_argument_is_named_and_nothing_is_written) {
    for (int gated = 0; gated < 2; gated++) {
        const uint32_t bias = FFN_BIAS_UP | FFN_BIAS_DOWN | (gated ? FFN_BIAS_GATE : 0u);
        const ffn_spec spec = make_spec(D_MODEL, D_FF, gated, bias);
        size_t bytes = 0;
        cr_assert_eq(ffn_packed_bytes(&spec, &bytes, NULL), FFN_OK);
        char *packed = support_guarded(bytes, true);
        const ffn_weights good = good_weights(gated);
#define BREAK(for_gated, names, change)           \
    if ((for_gated) == (gated != 0)) {            \
        ffn_weights w = good;                     \
        change;                                   \
        refused(&spec, &w, packed, bytes, names); \
    }
        BREAKS(BREAK)
#undef BREAK
        refused(&spec, &good, packed, bytes - 1, "packed_bytes");
        refused(&spec, &good, packed + 4, bytes, "multiple of 64");
        refused(&spec, &good, NULL, bytes, "packed is NULL");
        refused(&spec, NULL, packed, bytes, "weights is NULL");
        for (size_t i = 0; i < bytes; i++)
            cr_assert_eq((unsigned char)packed[i], 0xff, "byte %zu was written", i);
        cr_assert_eq(ffn_pack(&spec, &good, packed, bytes, NULL), FFN_OK, "a diag is optional");
        support_guarded_free(packed, bytes);
    }
}

Test(pack, fused_weights_with_one_bias_of_two_are_refused) {
    const ffn_spec spec = make_spec(D_MODEL, D_FF, true, FFN_BIAS_GATE);
    size_t bytes = 0;
    cr_assert_eq(ffn_packed_bytes(&spec, &bytes, NULL), FFN_OK);
    char *packed = support_aligned(bytes);
    const ffn_weights weights = {
        .up = {.data = values}, .down = {.data = values}, .gate_order = FFN_GATE_FIRST, .bias_up = values};
    refused(&spec, &weights, packed, bytes, "FFN_GATE_SEPARATE");
    free(packed);
}

/* ---- What the block says of itself ---- */

static char *pack_random(const ffn_spec *spec, size_t *bytes) {
    support_weights *weights = support_random_weights(spec, SUPPORT_NORMAL, 3);
    char *packed = support_packed(spec, &weights->weights);
    support_weights_free(weights);
    cr_assert_eq(ffn_packed_bytes(spec, bytes, NULL), FFN_OK);
    return packed;
}

Test(pack, any_flipped_byte_is_found) {
    const ffn_spec spec = support_spec("d5-f18-swiglu-bias");
    size_t bytes = 0;
    char *packed = pack_random(&spec, &bytes);
    cr_assert_eq(ffn_packed_check(&spec, packed, bytes, NULL), FFN_OK);
    for (size_t i = 0; i < bytes; i++) {
        ffn_diag diag = {0};
        packed[i] = (char)(packed[i] ^ (1 << i % 8));
        cr_assert_eq(ffn_packed_check(&spec, packed, bytes, &diag), FFN_BAD_WEIGHTS, "byte %zu", i);
        cr_assert_neq(diag.text[0], 0);
        packed[i] = (char)(packed[i] ^ (1 << i % 8));
    }
    cr_assert_eq(ffn_packed_check(&spec, packed, bytes, NULL), FFN_OK);
    free(packed);
}

Test(pack, a_block_cut_short_is_found) {
    const ffn_spec spec = support_spec("d5-f18-relu");
    size_t bytes = 0;
    char *packed = pack_random(&spec, &bytes);
    for (size_t cut = 0; cut < bytes; cut += cut < 320 ? 1 : 37) {
        /* at the end of mapped memory where alignment lets it be */
        char *part = support_guarded(cut, cut % 64 == 0);
        memcpy(part, packed, cut);
        cr_assert_eq(ffn_packed_check(&spec, part, cut, NULL), FFN_BAD_WEIGHTS, "%zu bytes", cut);
        support_guarded_free(part, cut);
    }
    cr_assert_eq(ffn_packed_check(&spec, NULL, bytes, NULL), FFN_BAD_ARGUMENT);
    cr_assert_eq(ffn_packed_check(&spec, packed + 4, bytes, NULL), FFN_BAD_ARGUMENT);
    free(packed);
}

Test(pack, a_block_of_another_spec_is_named) {
    const ffn_spec spec = support_spec("d16-f16-gelu-bias");
    size_t bytes = 0;
    char *packed = pack_random(&spec, &bytes);
    const struct {
        const char *spec, *names;
    } others[] = {{"d17-f16-gelu-bias", "d_model 17"},
                  {"d16-f15-gelu-bias", "d_ff 15"},
                  {"d16-f16-gelu", "biases"},
                  {"d16-f16-gelu_tanh-bias", "gelu_tanh"},
                  {"d16-f16-swiglu-bias_up-bias_down", "swiglu"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const ffn_spec other = support_spec(others[i].spec);
        ffn_diag diag = {0};
        cr_assert_eq(packed_header_check(&other, packed_spec_hash(&other), packed, &diag), FFN_BAD_WEIGHTS);
        cr_assert_not_null(strstr(diag.text, others[i].names), "%s", diag.text);
    }
    cr_assert_eq(packed_header_check(&spec, packed_spec_hash(&spec), packed, NULL), FFN_OK);
    free(packed);
}

Test(pack, one_block_serves_every_accuracy) {
    const ffn_spec accurate = support_spec("d16-f16-gelu-bias"), fast = support_spec("d16-f16-gelu-bias-fast");
    size_t bytes = 0, fast_bytes = 0;
    char *packed = pack_random(&accurate, &bytes), *fast_packed = pack_random(&fast, &fast_bytes);
    cr_assert_eq(ffn_packed_check(&fast, packed, bytes, NULL), FFN_OK);
    cr_assert_eq(ffn_packed_check(&accurate, fast_packed, fast_bytes, NULL), FFN_OK);
    cr_expect_str_eq(((packed_header *)fast_packed)->spec_name, "d16-f16-gelu-bias");
    free(packed);
    free(fast_packed);
}

Test(pack, finite_is_said_of_finite_weights_alone) {
    const ffn_spec spec = support_spec("d17-f33-swiglu-bias");
    support_weights *w = support_random_weights(&spec, SUPPORT_NORMAL, 4);
    float *const places[] = {w->up,      w->up + 17 * 33 - 1, w->gate + 33,     w->down + 17 * 33 - 1,
                             w->bias_up, w->bias_gate + 32,   w->bias_down + 16};
    const struct {
        float value;
        uint32_t finite;
    } cases[] = {{FLT_MAX, 1}, {-FLT_MAX, 1}, {0x1p-149f, 1}, {INFINITY, 0}, {-INFINITY, 0}, {NAN, 0}, {-NAN, 0}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            const float before = *places[i];
            *places[i] = cases[c].value;
            packed_header *packed = support_packed(&spec, &w->weights);
            cr_assert_eq(packed->finite, cases[c].finite, "place %zu, case %zu", i, c);
            free(packed);
            *places[i] = before;
        }
    support_weights_free(w);
}

/* The checksum is XXH3 of the body, whatever pieces it was hashed in: a published function, so files can be checked by
 * others. */
Test(pack, checksum_is_xxh3_of_the_body) {
    const char *const specs[] = {"d1-f1-relu", "d67-f300-swiglu-bias", "d300-f1100-relu"};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        const ffn_spec spec = support_spec(specs[i]);
        size_t bytes = 0;
        char *packed = pack_random(&spec, &bytes);
        const packed_header *header = (const packed_header *)(const void *)packed;
        cr_assert_eq(header->checksum, XXH3_64bits(packed + 256, bytes - 256));
        cr_assert_eq(header->total_bytes, bytes);
        cr_assert_eq(memcmp(header->magic, "FFNPACK", 8), 0);
        free(packed);
    }
}
