/* neon_record.h: a spec and a class -> digests of everything its code computes; the same functions on the machine that
 * says what is right and on the one that is tested
 *
 * A file of records is [record][image of NEON code], again and again; both machines are little-endian. Values, weights
 * and rows follow from the spec and are equal bit for bit everywhere (support_data.h). */
#ifndef NEON_RECORD_H
#define NEON_RECORD_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"
#include "support_data.h"

/* n whose last rows meet every tile below the tall ones, and more rows than any tile has. */
static const int64_t neon_rows[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 16, 17, 23};
enum { NEON_RUNS = sizeof neon_rows / sizeof *neon_rows, NEON_ROWS_MAX = 23, NEON_VALUES = 67 };

typedef struct neon_digests {
    uint64_t runs[NEON_RUNS]; /* y, n by n */
    uint64_t stages;          /* y of NEON_STAGE_ROWS rows by expand and contract, in two ranges of columns each */
    uint64_t values;          /* the activation alone */
} neon_digests;
enum { NEON_STAGE_ROWS = 13 };

typedef struct neon_record {
    char spec[FFN_SPEC_TEXT_BYTES];
    int32_t n_class;
    uint32_t image_bytes;
    neon_digests want;
} neon_record;

/* Rows that make prepare choose the class. */
static inline int64_t neon_rows_of(ffn_n_class n_class) {
    static const int64_t rows[FFN_N_CLASSES] = {1, 4, 16, 17};
    return rows[n_class];
}

static inline float neon_value(int64_t i) {
    static const float special[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1e-40f, -1e-40f, 3e38f, -3e38f};
    enum { SPECIALS = sizeof special / sizeof *special };
    return i < SPECIALS ? special[i] : 0.37f * (float)(i - NEON_VALUES / 2);
}

/* Whoever serves the kernel: y and scratch are NaN before every call. */
static inline neon_digests neon_digests_of(const ffn_kernel *kernel, const void *packed, const float *x) {
    neon_digests digests;
    const ffn_spec *spec = ffn_kernel_spec(kernel);
    const int64_t d = spec->d_model, count = NEON_ROWS_MAX * d, half = spec->d_ff / 2 / FFN_PANEL * FFN_PANEL;
    const size_t scratch_bytes = ffn_kernel_scratch_bytes(kernel);
    float *y = support_aligned((size_t)count * sizeof *y), *hidden = support_aligned(ffn_kernel_hidden_bytes(kernel));
    void *scratch = support_aligned(scratch_bytes);
    memset(scratch, 0xff, scratch_bytes);
    ffn_diag diag = {.text = ""};
    ffn_args args = {1, x, d, y, d, packed, scratch, scratch_bytes};
    for (int r = 0; r < NEON_RUNS; r++) {
        args.n = neon_rows[r];
        support_fill_nan(y, count);
        EXPECT(ffn_kernel_run(kernel, &args, &diag) == FFN_OK, "%s", diag.text);
        digests.runs[r] = ffn_digest(y, args.n, d, d);
    }
    args.n = NEON_STAGE_ROWS;
    support_fill_nan(y, count);
    const int64_t ranges[2][3] = {{0, half, spec->d_ff}, {0, d / 2 / FFN_PANEL * FFN_PANEL, d}};
    for (int r = 0; r < 2; r++)
        EXPECT(ranges[0][r] == ranges[0][r + 1] ||
                   ffn_kernel_expand(kernel, &args, hidden, ranges[0][r], ranges[0][r + 1], &diag) == FFN_OK,
               "%s", diag.text);
    for (int r = 0; r < 2; r++)
        EXPECT(ranges[1][r] == ranges[1][r + 1] ||
                   ffn_kernel_contract(kernel, &args, hidden, ranges[1][r], ranges[1][r + 1], &diag) == FFN_OK,
               "%s", diag.text);
    digests.stages = ffn_digest(y, NEON_STAGE_ROWS, d, d);
    float g[NEON_VALUES], u[NEON_VALUES], out[NEON_VALUES];
    for (int64_t i = 0; i < NEON_VALUES; i++) {
        g[i] = neon_value(i);
        u[i] = neon_value(i * 7 % NEON_VALUES);
    }
    EXPECT(ffn_kernel_activate(kernel, 1, NEON_VALUES, g, ffn_spec_gated(spec) ? u : NULL, out, &diag) == FFN_OK, "%s",
           diag.text);
    digests.values = ffn_digest(out, 1, NEON_VALUES, NEON_VALUES);
    free(y);
    free(hidden);
    free(scratch);
    return digests;
}

static inline void neon_expect_equal(const char *who, const neon_record *record, const neon_digests *got) {
    for (int r = 0; r < NEON_RUNS; r++)
        EXPECT(got->runs[r] == record->want.runs[r], "%s, %s, class %s, n = %d: other bits", who, record->spec,
               ffn_n_class_name((ffn_n_class)record->n_class), (int)neon_rows[r]);
    EXPECT(got->stages == record->want.stages, "%s, %s: the stages have other bits", who, record->spec);
    EXPECT(got->values == record->want.values, "%s, %s: the activation has other bits", who, record->spec);
}

typedef struct neon_layer { /* weights and x of a spec */
    ffn_spec spec;
    void *packed;
    float *x;
} neon_layer;

static inline neon_layer neon_layer_make(const char *text) {
    neon_layer layer = {.spec = support_spec(text)};
    const uint64_t seed = (uint64_t)(layer.spec.d_model * 67 + layer.spec.d_ff);
    support_weights *weights = support_random_weights(&layer.spec, SUPPORT_NORMAL, seed);
    layer.packed = support_packed(&layer.spec, &weights->weights);
    support_weights_free(weights);
    layer.x = support_aligned((size_t)(NEON_ROWS_MAX * layer.spec.d_model) * sizeof *layer.x);
    support_fill_x(layer.x, NEON_ROWS_MAX, layer.spec.d_model, layer.spec.d_model, SUPPORT_NORMAL, seed + 1);
    return layer;
}

static inline void neon_layer_free(neon_layer *layer) {
    free(layer->packed);
    free(layer->x);
}

#endif
