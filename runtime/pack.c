/* pack.c: the weights as a user has them (either orientation, any stride, gate and up in any order) -> a packed block
 *
 * Every way of giving a matrix is a view: an address and two strides. Panels are written once, in the order of the
 * block; each is hashed and searched for infinities and NaN while it is in the cache. Invariant: every argument is
 * checked before the first byte is written. */
#include "packed_seal.h"

#include "diag.h"

#include <inttypes.h>
#include <string.h>

/* Element (k, column) of a matrix with K inputs stands at data[k * k_stride + column * column_stride]. */
typedef struct view {
    const float *data;
    int64_t k_stride, column_stride;
} view;

/* What is packed, each part once. `gate` and `bias_gate` are NULL where the spec has none, biases too. */
typedef struct sources {
    view up, gate, down;
    const float *bias_up, *bias_gate, *bias_down;
    int64_t bias_stride; /* of bias_up and bias_gate */
} sources;

/* Panels written side by side: a row of an [in, out] matrix is taken 16 cache lines at a time, not one on each of
 * thousands of pages. An [out, in] matrix is best read along 16 rows and no more. */
enum { GROUP = 16 };

static ffn_status matrix_view(const char *name, const ffn_matrix *matrix, int64_t inputs, int64_t outputs, view *made,
                              ffn_diag *diag) {
    if (matrix->data == NULL)
        return diag_fail(diag, FFN_BAD_ARGUMENT,
                         "weights.%s.data is NULL: a matrix of %" PRId64 " inputs and %" PRId64
                         " outputs belongs there",
                         name, inputs, outputs);
    if ((uintptr_t)matrix->data % _Alignof(float) != 0)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "weights.%s.data is at %p, no address of a float", name,
                         (const void *)matrix->data);
    if (matrix->layout != FFN_IN_OUT && matrix->layout != FFN_OUT_IN)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "weights.%s.layout is %d: FFN_IN_OUT or FFN_OUT_IN is right", name,
                         (int)matrix->layout);
    const bool in_out = matrix->layout == FFN_IN_OUT;
    const int64_t rows = in_out ? inputs : outputs, width = in_out ? outputs : inputs;
    const int64_t ld = matrix->ld == 0 ? width : matrix->ld;
    if (ld < width)
        return diag_fail(diag, FFN_BAD_ARGUMENT,
                         "weights.%s.ld is %" PRId64 ": at least %" PRId64 " (or 0 for dense) is right, since %s", name,
                         ld, width,
                         in_out ? "a row holds the outputs of one input" : "a row holds the inputs of one output");
    if (ld > INT64_MAX / (int64_t)sizeof(float) / rows)
        return diag_fail(diag, FFN_BAD_ARGUMENT,
                         "weights.%s.ld is %" PRId64 ": %" PRId64 " rows of it pass the address space", name, ld, rows);
    *made = in_out ? (view){matrix->data, ld, 1} : (view){matrix->data, 1, ld};
    return FFN_OK;
}

/* A bias is given exactly where `wanted`. */
static ffn_status bias_check(const char *name, const float *bias, bool wanted, ffn_diag *diag) {
    if (wanted && bias == NULL)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "weights.%s is NULL, but the spec has this bias", name);
    if (!wanted && bias != NULL)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "weights.%s is given, but it must be NULL for this spec%s", name,
                         strcmp(name, "bias_gate") == 0 ? " and gate order" : "");
    if ((uintptr_t)bias % _Alignof(float) != 0)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "weights.%s is at %p, no address of a float", name,
                         (const void *)bias);
    return FFN_OK;
}

/* Where gate and up lie inside a fused matrix: columns `up + step j` and `gate + step j`. */
typedef struct fusion {
    int64_t up, gate, step;
} fusion;

static fusion fusion_of(ffn_gate_order order, int64_t d_ff) {
    switch (order) {
    case FFN_GATE_FIRST:
        return (fusion){.up = d_ff, .gate = 0, .step = 1};
    case FFN_UP_FIRST:
        return (fusion){.up = 0, .gate = d_ff, .step = 1};
    case FFN_GATE_INTERLEAVED:
        return (fusion){.up = 1, .gate = 0, .step = 2};
    case FFN_GATE_SEPARATE:
        break;
    }
    return (fusion){.step = 0};
}

static view view_from(const view *whole, int64_t column, int64_t step) {
    return (view){whole->data + column * whole->column_stride, whole->k_stride, step * whole->column_stride};
}

static ffn_status fused_sources(const ffn_spec *spec, const ffn_weights *weights, fusion at, sources *from,
                                ffn_diag *diag) {
    if (weights->gate.data != NULL)
        return diag_fail(
            diag, FFN_BAD_ARGUMENT,
            "weights.gate.data is given, but gate_order says that gate stands in weights.up: pass NULL, or "
            "FFN_GATE_SEPARATE");
    const uint32_t both = FFN_BIAS_UP | FFN_BIAS_GATE, biases = spec->bias & both;
    if (biases != 0 && biases != both)
        return diag_fail(
            diag, FFN_BAD_ARGUMENT,
            "gate_order is fused, but the spec has a bias on only one of gate and up: give the two matrices "
            "as FFN_GATE_SEPARATE");
    view whole;
    ffn_status status = matrix_view("up", &weights->up, spec->d_model, 2 * spec->d_ff, &whole, diag);
    if (status == FFN_OK)
        status = bias_check("bias_up", weights->bias_up, biases == both, diag);
    if (status == FFN_OK)
        status = bias_check("bias_gate", weights->bias_gate, false, diag);
    if (status != FFN_OK)
        return status;
    from->up = view_from(&whole, at.up, at.step);
    from->gate = view_from(&whole, at.gate, at.step);
    from->bias_up = biases == both ? weights->bias_up + at.up : NULL;
    from->bias_gate = biases == both ? weights->bias_up + at.gate : NULL;
    from->bias_stride = at.step;
    return FFN_OK;
}

static ffn_status separate_sources(const ffn_spec *spec, const ffn_weights *weights, bool gated, sources *from,
                                   ffn_diag *diag) {
    if (!gated && weights->gate.data != NULL)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "weights.gate.data is given, but %s has no gate: pass NULL",
                         spec->activation);
    ffn_status status = matrix_view("up", &weights->up, spec->d_model, spec->d_ff, &from->up, diag);
    if (status == FFN_OK && gated)
        status = matrix_view("gate", &weights->gate, spec->d_model, spec->d_ff, &from->gate, diag);
    if (status == FFN_OK)
        status = bias_check("bias_up", weights->bias_up, spec->bias & FFN_BIAS_UP, diag);
    if (status == FFN_OK)
        status = bias_check("bias_gate", weights->bias_gate, spec->bias & FFN_BIAS_GATE, diag);
    from->bias_up = weights->bias_up;
    from->bias_gate = weights->bias_gate;
    from->bias_stride = 1;
    return status;
}

static ffn_status sources_of(const ffn_spec *spec, bool gated, const ffn_weights *weights, sources *from,
                             ffn_diag *diag) {
    if ((unsigned)weights->gate_order > FFN_GATE_INTERLEAVED)
        return diag_fail(diag, FFN_BAD_ARGUMENT,
                         "weights.gate_order is %d: one of FFN_GATE_SEPARATE (0) to "
                         "FFN_GATE_INTERLEAVED (%d) is right",
                         (int)weights->gate_order, FFN_GATE_INTERLEAVED);
    const bool fused = weights->gate_order != FFN_GATE_SEPARATE;
    if (fused && !gated)
        return diag_fail(diag, FFN_BAD_ARGUMENT,
                         "weights.gate_order is fused, but %s has no gate: FFN_GATE_SEPARATE is "
                         "right",
                         spec->activation);
    *from = (sources){.bias_down = weights->bias_down};
    ffn_status status = fused ? fused_sources(spec, weights, fusion_of(weights->gate_order, spec->d_ff), from, diag)
                              : separate_sources(spec, weights, gated, from, diag);
    if (status == FFN_OK)
        status = matrix_view("down", &weights->down, spec->d_ff, spec->d_model, &from->down, diag);
    if (status == FFN_OK)
        status = bias_check("bias_down", weights->bias_down, spec->bias & FFN_BIAS_DOWN, diag);
    return status;
}

/* `count` values at a stride, or none, then +0 up to whole panels. */
static void bias_write(const float *bias, int64_t stride, int64_t count, int64_t panels, float *to, packed_seal *seal) {
    for (int64_t i = 0; i < panels * FFN_PANEL; i++)
        to[i] = bias != NULL && i < count ? bias[i * stride] : 0.0f;
    packed_seal_add(seal, to, panels * FFN_PANEL);
}

/* Columns first .. first + width - 1 of rows k_begin .. k_end - 1 -> their place in a panel. The nearest elements of
 * the source are taken one after the other: along a row of an [in, out] matrix, in squares of cache lines across an
 * [out, in] one. */
static void panel_write(const view *from, int64_t first, int64_t width, int64_t k_begin, int64_t k_end, float *panel) {
    const float *source = from->data + first * from->column_stride;
    const int64_t k_stride = from->k_stride, column_stride = from->column_stride;
    if (width < FFN_PANEL)
        memset(panel + k_begin * FFN_PANEL, 0, (size_t)(k_end - k_begin) * FFN_PANEL * sizeof *panel);
    if (column_stride == 1 && width == FFN_PANEL) {
        for (int64_t k = k_begin; k < k_end; k++)
            memcpy(panel + k * FFN_PANEL, source + k * k_stride, FFN_PANEL * sizeof *panel);
    } else if (k_stride == 1) {
        for (int64_t c = 0; c < width; c++)
            for (int64_t k = k_begin; k < k_end; k++)
                panel[k * FFN_PANEL + c] = source[c * column_stride + k];
    } else {
        for (int64_t k = k_begin; k < k_end; k++)
            for (int64_t c = 0; c < width; c++)
                panel[k * FFN_PANEL + c] = source[k * k_stride + c * column_stride];
    }
}

/* All panels of one stage: `gate` NULL, or taking turns with `up`: gate panel 0, up panel 0, gate panel 1, ... */
static void stage_write(const view *gate, const view *up, int64_t terms, int64_t columns, float *to,
                        packed_seal *seal) {
    const int64_t panels = (columns + FFN_PANEL - 1) / FFN_PANEL, halves = gate != NULL ? 2 : 1;
    const int64_t panel_floats = terms * FFN_PANEL, together = up->k_stride == 1 ? 1 : GROUP;
    for (int64_t group = 0; group < panels; group += together) {
        const int64_t group_end = group + together < panels ? group + together : panels;
        for (int64_t k = 0; k < terms; k += FFN_PANEL) {
            const int64_t k_end = k + FFN_PANEL < terms ? k + FFN_PANEL : terms;
            for (int64_t p = group; p < group_end; p++) {
                const int64_t first = p * FFN_PANEL;
                const int64_t width = columns - first < FFN_PANEL ? columns - first : FFN_PANEL;
                float *panel = to + p * halves * panel_floats;
                if (gate != NULL)
                    panel_write(gate, first, width, k, k_end, panel);
                panel_write(up, first, width, k, k_end, panel + (halves - 1) * panel_floats);
            }
        }
        packed_seal_add(seal, to + group * halves * panel_floats, (group_end - group) * halves * panel_floats);
    }
}

ffn_status ffn_pack(const ffn_spec *spec, const ffn_weights *weights, void *packed, size_t packed_bytes,
                    ffn_diag *diag) {
    packed_layout at;
    ffn_status status = ffn_spec_check(spec, diag);
    if (status == FFN_OK)
        status = packed_layout_of(spec, &at, diag);
    if (status != FFN_OK)
        return status;
    if (weights == NULL || packed == NULL)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "%s is NULL", weights == NULL ? "weights" : "packed");
    if ((uintptr_t)packed % FFN_PACKED_ALIGN != 0)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "packed is at %p: its address must be a multiple of %d", packed,
                         FFN_PACKED_ALIGN);
    if (packed_bytes < (size_t)at.total_bytes)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "packed_bytes is %zu: this spec needs %zu (ffn_packed_bytes)",
                         packed_bytes, (size_t)at.total_bytes);
    sources from;
    packed_header header;
    status = sources_of(spec, packed_gated(&at), weights, &from, diag);
    if (status == FFN_OK)
        status = packed_header_make(spec, &at, &header, diag);
    if (status != FFN_OK)
        return status;

    char *block = packed;
    packed_seal seal;
    packed_seal_begin(&seal);
    bias_write(from.bias_up, from.bias_stride, spec->d_ff, at.up_panels, (float *)(block + at.bias_up), &seal);
    if (header.gated)
        bias_write(from.bias_gate, from.bias_stride, spec->d_ff, at.up_panels, (float *)(block + at.bias_gate), &seal);
    bias_write(from.bias_down, 1, spec->d_model, at.down_panels, (float *)(block + at.bias_down), &seal);
    stage_write(header.gated ? &from.gate : NULL, &from.up, spec->d_model, spec->d_ff, (float *)(block + at.expand),
                &seal);
    stage_write(NULL, &from.down, spec->d_ff, spec->d_model, (float *)(block + at.contract), &seal);
    packed_seal_end(&seal, &header);
    memcpy(packed, &header, sizeof header);
    return FFN_OK;
}
