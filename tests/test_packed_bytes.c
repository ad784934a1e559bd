/* Files of packed weights hold the bytes of ffn_pack, whatever the weights lie in and however large a panel is. */
#include "packed_file.h"
#include "support_data.h"
#include "support_files.h"
#include "weights.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(packed_bytes, .init = support_folder_make, .fini = support_folder_remove, .timeout = 120);

/* ---- The bytes of ffn_pack ---- */

/* Both halves of gate and up in one array, with columns to spare. */
enum { SPARE = 3 };

typedef struct model {
    ffn_spec spec;
    ffn_weights weights;
    float *arrays[6];
} model;

static float *random_array(int64_t count, uint64_t seed) {
    float *array = malloc((size_t)count * sizeof *array);
    cr_assert_not_null(array);
    support_fill_normal(array, count, 1.0f, seed);
    return array;
}

static ffn_matrix random_matrix(float **array, int64_t in, int64_t out, ffn_layout layout, uint64_t seed) {
    const int64_t rows = layout == FFN_IN_OUT ? in : out, ld = (layout == FFN_IN_OUT ? out : in) + SPARE;
    *array = random_array(rows * ld, seed);
    return (ffn_matrix){*array, ld, layout};
}

static model model_make(const char *text, ffn_gate_order order, unsigned layouts) {
    model m = {.spec = support_spec(text), .weights.gate_order = order};
    const bool gated = ffn_spec_gated(&m.spec), fused = order != FFN_GATE_SEPARATE;
    const int64_t d = m.spec.d_model, f = m.spec.d_ff, up = fused ? 2 * f : f;
    m.weights.up = random_matrix(&m.arrays[0], d, up, layouts & 1 ? FFN_OUT_IN : FFN_IN_OUT, 1);
    if (gated && !fused)
        m.weights.gate = random_matrix(&m.arrays[1], d, f, layouts & 2 ? FFN_OUT_IN : FFN_IN_OUT, 2);
    m.weights.down = random_matrix(&m.arrays[2], f, d, layouts & 4 ? FFN_OUT_IN : FFN_IN_OUT, 3);
    if (m.spec.bias & FFN_BIAS_UP)
        m.weights.bias_up = m.arrays[3] = random_array(up, 4);
    if (!fused && (m.spec.bias & FFN_BIAS_GATE))
        m.weights.bias_gate = m.arrays[4] = random_array(f, 5);
    if (m.spec.bias & FFN_BIAS_DOWN)
        m.weights.bias_down = m.arrays[5] = random_array(d, 6);
    return m;
}

static void model_free(model *m) {
    for (int i = 0; i < 6; i++)
        free(m->arrays[i]);
}

static void memory_read(void *self, int64_t row, int64_t rows, int64_t column, int64_t columns, float *to) {
    const ffn_matrix *matrix = self;
    for (int64_t r = 0; r < rows; r++)
        memcpy(to + r * columns, matrix->data + (row + r) * matrix->ld + column, (size_t)columns * sizeof *to);
}

/* The same weights through readers: the matrices themselves give their layout alone. */
static pack_weights model_read(model *m, ffn_matrix matrices[3]) {
    pack_weights through = {.weights = m->weights};
    ffn_matrix *const given[] = {&through.weights.up, &through.weights.gate, &through.weights.down};
    pack_reader *const readers[] = {&through.up, &through.gate, &through.down};
    for (int i = 0; i < 3; i++) {
        matrices[i] = *given[i];
        *given[i] = (ffn_matrix){.layout = matrices[i].layout};
        if (matrices[i].data)
            *readers[i] = (pack_reader){memory_read, &matrices[i]};
    }
    return through;
}

static void expect_same_bytes(const char *text, ffn_gate_order order, unsigned layouts) {
    model m = model_make(text, order, layouts);
    const char *path = support_path("w.ffnw");
    char what[160];
    snprintf(what, sizeof what, "%s, order %d, layouts %u", text, (int)order, layouts);
    size_t bytes = 0;
    ffn_packed_bytes(&m.spec, &bytes, NULL);
    void *packed = support_packed(&m.spec, &m.weights);
    ffn_diag diag = {0};
    cr_assert_eq(ffn_pack_file(&m.spec, &m.weights, path, &diag), FFN_OK, "%s: %s", what, diag.text);
    support_file_expect(path, packed, bytes, what);

    ffn_matrix matrices[3];
    const pack_weights read = model_read(&m, matrices);
    packed_header header;
    cr_assert_eq(packed_file_write(&m.spec, &read, path, &header, &diag), FFN_OK, "%s: %s", what, diag.text);
    support_file_expect(path, packed, bytes, what);
    cr_assert_eq(memcmp(&header, packed, sizeof header), 0);
    cr_assert_eq(support_folder_count(), 1);
    free(packed);
    model_free(&m);
}

Test(packed_bytes, has_the_bytes_of_ffn_pack_for_ungated_weights) {
    static const char *const specs[] = {
        "d1-f1-relu",           "d1-f50-relu",    "d50-f1-gelu-bias",         "d16-f16-gelu-bias",
        "d33-f47-relu-bias_up", "d300-f129-silu", "d129-f301-relu-bias_down", "d17-f1063-gelu-bias",
        "d7-f33-act(x*x)"};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        for (unsigned layouts = 0; layouts < 8; layouts += layouts & 1 ? 3 : 1)
            expect_same_bytes(specs[i], FFN_GATE_SEPARATE, layouts);
}

Test(packed_bytes, has_the_bytes_of_ffn_pack_for_gated_weights_in_every_order) {
    static const char *const specs[] = {"d1-f1-bilinear", "d1-f40-reglu", "d40-f1-geglu-bias", "d31-f50-swiglu-bias",
                                        "d150-f290-geglu"};
    for (int order = FFN_GATE_SEPARATE; order <= FFN_GATE_INTERLEAVED; order++)
        for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
            for (unsigned layouts = 0; layouts < 8; layouts++)
                expect_same_bytes(specs[i], (ffn_gate_order)order, layouts);
}

/* A panel of one matrix is larger than a piece, and so is a bias in the last. */
Test(packed_bytes, has_the_bytes_of_ffn_pack_where_a_panel_passes_the_buffer) {
    for (unsigned layouts = 0; layouts < 8; layouts += 5) {
        expect_same_bytes("d3-f70001-relu-bias", FFN_GATE_SEPARATE, layouts);
        expect_same_bytes("d70001-f17-swiglu", FFN_GATE_INTERLEAVED, layouts);
    }
    expect_same_bytes("d1-f1100007-relu-bias", FFN_GATE_SEPARATE, 0);
}

/* Large enough that pages are released and come back: what is read from them must be the same. */
static void expect_streamed(const char *text, const support_tensors *as, const char *map_text) {
    const ffn_spec spec = support_spec(text);
    const char *from = support_path("w.safetensors"), *to = support_path("w.ffnw");
    support_safetensors_write(from, &spec, as, 7);
    const char *layout = as->layout == FFN_IN_OUT ? "in_out" : "out_in";
    const weights_options whole = {.map = map_text, .layout = layout},
                          parts = {.map = map_text, .layout = layout, .streamed = true};
    weights_file *file;
    ffn_diag diag = {0};
    cr_assert_eq(weights_open(&spec, from, &whole, &file, &diag), FFN_OK, "%s", diag.text);
    size_t bytes = 0;
    ffn_packed_bytes(&spec, &bytes, NULL);
    void *packed = support_packed(&spec, weights_of(file));
    weights_close(file);
    cr_assert_eq(weights_open(&spec, from, &parts, &file, &diag), FFN_OK, "%s", diag.text);
    cr_expect_null(weights_of(file)->up.data);
    cr_assert_eq(packed_file_write(&spec, weights_streamed(file), to, NULL, &diag), FFN_OK, "%s", diag.text);
    weights_close(file);
    char what[160];
    snprintf(what, sizeof what, "%s %s %s order %d pad %d", text, as->dtype, layout, (int)as->order, as->pad);
    support_file_expect(to, packed, bytes, what);
    free(packed);
}

Test(packed_bytes, of_streamed_tensors_has_the_bytes_of_whole_ones) {
    static const char *const types[] = {"F32", "F16", "BF16"};
    for (int t = 0; t < 3; t++)
        for (int layout = FFN_IN_OUT; layout <= FFN_OUT_IN; layout++) {
            support_tensors as = {.dtype = types[t], .layout = (ffn_layout)layout, .pad = 2 * t + layout};
            expect_streamed("d700-f1031-gelu-bias", &as, NULL);
            as.pad = 0;
            expect_streamed("d520-f777-swiglu-bias", &as, NULL);
            as.order = FFN_GATE_INTERLEAVED;
            expect_streamed("d520-f777-swiglu", &as, "gate_up_interleaved=w1,down=w2");
            as.order = FFN_UP_FIRST;
            expect_streamed("d520-f777-swiglu-bias", &as, "up_gate=w1,b1=b1,down=w2,b2=b2");
        }
}
