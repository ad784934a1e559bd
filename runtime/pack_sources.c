/* pack_sources.c: the weights as a user has them (either orientation, any stride, gate and up in any order) -> views
 *
 * Every way of giving a matrix is one view. Invariant: what is in a job has been checked against the spec. */
#include "pack.h"

#include "diag.h"

#include <inttypes.h>
#include <string.h>

static bool matrix_given(const ffn_matrix *matrix, const pack_reader *reader) {
    return matrix->data != NULL || reader->read != NULL;
}

static ffn_status matrix_view(const char *name, const ffn_matrix *matrix, const pack_reader *reader, int64_t inputs,
                              int64_t outputs, pack_view *made, ffn_diag *diag) {
    if (!matrix_given(matrix, reader))
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
    *made = (pack_view){.layout = matrix->layout,
                        .data = matrix->data,
                        .k_stride = in_out ? ld : 1,
                        .column_stride = in_out ? 1 : ld,
                        .reader = reader->read != NULL ? reader : NULL,
                        .step = 1};
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

static pack_view view_from(const pack_view *whole, int64_t column, int64_t step) {
    pack_view part = *whole;
    if (part.reader == NULL)
        part.data += column * whole->column_stride;
    part.column_stride *= step;
    part.first = column;
    part.step = step;
    return part;
}

static ffn_status fused_sources(const ffn_spec *spec, const pack_weights *given, fusion at, pack_job *job,
                                ffn_diag *diag) {
    const ffn_weights *weights = &given->weights;
    if (matrix_given(&weights->gate, &given->gate))
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
    pack_view whole;
    ffn_status status = matrix_view("up", &weights->up, &given->up, spec->d_model, 2 * spec->d_ff, &whole, diag);
    if (status == FFN_OK)
        status = bias_check("bias_up", weights->bias_up, biases == both, diag);
    if (status == FFN_OK)
        status = bias_check("bias_gate", weights->bias_gate, false, diag);
    if (status != FFN_OK)
        return status;
    job->up = view_from(&whole, at.up, at.step);
    job->gate = view_from(&whole, at.gate, at.step);
    job->bias_up = biases == both ? weights->bias_up + at.up : NULL;
    job->bias_gate = biases == both ? weights->bias_up + at.gate : NULL;
    job->bias_stride = at.step;
    return FFN_OK;
}

static ffn_status separate_sources(const ffn_spec *spec, const pack_weights *given, bool gated, pack_job *job,
                                   ffn_diag *diag) {
    const ffn_weights *weights = &given->weights;
    if (!gated && matrix_given(&weights->gate, &given->gate))
        return diag_fail(diag, FFN_BAD_ARGUMENT, "weights.gate.data is given, but %s has no gate: pass NULL",
                         spec->activation);
    ffn_status status = matrix_view("up", &weights->up, &given->up, spec->d_model, spec->d_ff, &job->up, diag);
    if (status == FFN_OK && gated)
        status = matrix_view("gate", &weights->gate, &given->gate, spec->d_model, spec->d_ff, &job->gate, diag);
    if (status == FFN_OK)
        status = bias_check("bias_up", weights->bias_up, spec->bias & FFN_BIAS_UP, diag);
    if (status == FFN_OK)
        status = bias_check("bias_gate", weights->bias_gate, spec->bias & FFN_BIAS_GATE, diag);
    job->bias_up = weights->bias_up;
    job->bias_gate = weights->bias_gate;
    job->bias_stride = 1;
    return status;
}

static ffn_status sources_of(const ffn_spec *spec, bool gated, const pack_weights *given, pack_job *job,
                             ffn_diag *diag) {
    const ffn_weights *weights = &given->weights;
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
    job->bias_down = weights->bias_down;
    ffn_status status = fused ? fused_sources(spec, given, fusion_of(weights->gate_order, spec->d_ff), job, diag)
                              : separate_sources(spec, given, gated, job, diag);
    if (status == FFN_OK)
        status = matrix_view("down", &weights->down, &given->down, spec->d_ff, spec->d_model, &job->down, diag);
    if (status == FFN_OK)
        status = bias_check("bias_down", weights->bias_down, spec->bias & FFN_BIAS_DOWN, diag);
    return status;
}

ffn_status pack_prepare(const ffn_spec *spec, const pack_weights *weights, pack_job *job, ffn_diag *diag) {
    pack_job made = {.at = {0}};
    ffn_status status = ffn_spec_check(spec, diag);
    if (status == FFN_OK)
        status = packed_layout_of(spec, &made.at, diag);
    if (status == FFN_OK)
        status = sources_of(spec, packed_gated(&made.at), weights, &made, diag);
    if (status == FFN_OK)
        status = packed_header_make(spec, &made.at, &made.header, diag);
    if (status == FFN_OK)
        *job = made;
    return status;
}
