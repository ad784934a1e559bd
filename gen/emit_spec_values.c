/* emit_spec_values.c: one spec of a header -> its sizes, data tables and activation, as values for templates
 *
 * Offsets and header of the packed block come from runtime/packed.c, so an emitted header packs the same bytes. */
#include "emit_parts.h"

#include "diag.h"
#include "emit_weights.h"
#include "ffngen.h"
#include "formula.h"
#include "image.h"
#include "packed_seal.h"
#include "plan.h"
#include "spec_text.h"
#include "symbol.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool emit_has_weights(const emit_kernel *kernel) {
    return kernel->weights != NULL || kernel->weights_file != NULL;
}

size_t emit_scratch_bytes(const emit_view *view, const emit_kernel *kernel) {
    /* The portable kernel keeps h of one row; a header without code for anything is not made. */
    int64_t most = view->job->portable ? image_hidden_stride(&kernel->spec) * (int64_t)sizeof(float) : 0;
    for (int32_t v = 0; v < view->isa_count; v++)
        for (int32_t c = 0; c < FFN_N_CLASSES; c++) {
            const int64_t bytes = plan_scratch_bytes(&kernel->spec, &kernel->plans[view->isas[v]][c]);
            most = bytes > most ? bytes : most;
        }
    return (size_t)((most + FFN_SCRATCH_ALIGN - 1) / FFN_SCRATCH_ALIGN * FFN_SCRATCH_ALIGN);
}

static ffn_status header_value(const ffn_spec *spec, const packed_layout *at, emit_values *values, ffn_diag *diag) {
    packed_header header;
    const ffn_status status = packed_header_make(spec, at, &header, diag);
    if (status != FFN_OK)
        return status;
    uint64_t words[sizeof header / sizeof(uint64_t)];
    memcpy(words, &header, sizeof words);
    text rows = {0};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        text_print(&rows, "%s0x%" PRIx64 "u%s", i % 4 == 0 ? "    " : " ", words[i],
                   i + 1 == sizeof words / sizeof *words ? ""
                   : i % 4 == 3                          ? ",\n"
                                                         : ",");
    emit_values_take(values, "HEADER", &rows);
    return FFN_OK;
}

static ffn_status code_values(const emit_view *view, const emit_kernel *kernel, const char *spec_text,
                              emit_values *values, ffn_diag *diag) {
    text entries = {0}, rows = {0};
    ffn_status status = FFN_OK;
    for (int32_t v = 0; v < view->isa_count && status == FFN_OK; v++)
        for (int32_t c = 0; c < FFN_N_CLASSES && status == FFN_OK; c++) {
            const ffn_plan *plan = &kernel->plans[view->isas[v]][c];
            char unit[EMIT_SYMBOL_BYTES], name[EMIT_SYMBOL_BYTES + 16], plan_text[256];
            status = ffn_plan_format(plan, plan_text, sizeof plan_text, diag);
            emit_unit_name(kernel, view->isas[v], unit);
            snprintf(name, sizeof name, "%s_%s", unit, symbol_classes[c]);
            text_print(&entries, "%s__ENTRIES(%s)\n", view->prefix_upper, name);
            text_print(&rows,
                       "    {%s_fused, %s_expand, %s_contract, %s_activate, %" PRId64
                       ",\n     \"%s, %s, ffngen %s, LLVM %s\"},\n",
                       name, name, name, name, plan_scratch_bytes(&kernel->spec, plan), spec_text, plan_text,
                       FFN_VERSION, ffngen_llvm_version());
        }
    emit_values_take(values, "ENTRIES", &entries);
    emit_values_take(values, "CODE", &rows);
    return status;
}

static ffn_status activation_values(const emit_job *job, const ffn_spec *spec, emit_values *values, ffn_diag *diag) {
    formula_graph *graph = malloc(sizeof *graph);
    if (graph == NULL)
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for the graph of %s", spec->activation);
    const ffn_status status = formula_build(spec->activation, spec->accuracy, graph, diag);
    if (status == FFN_OK) {
        text body = {0};
        emit_formula(graph, job->prefix, &body);
        emit_values_take(values, "ACT_BODY", &body);
        emit_values_print(values, "ACT_PARAMETERS", "%s", graph->gated ? "float g, float u" : "float x");
        emit_values_print(values, "ACT_ARGUMENTS", "%s", graph->gated ? "g[i], u[i]" : "g[i]");
    }
    free(graph);
    return status;
}

/* The file that the header itself names; an object has it inside. */
static void weights_file_value(const emit_job *job, const emit_kernel *kernel, emit_values *values) {
    text name = {0};
    if (kernel->weights_file != NULL && !job->assembled)
        emit_weights_name(kernel->weights_file, &name);
    emit_values_take(values, "WEIGHTS_FILE", &name);
}

ffn_status emit_spec_values(const emit_view *view, const emit_kernel *kernel, emit_values *values, ffn_diag *diag) {
    const ffn_spec *spec = &kernel->spec;
    char upper[EMIT_NAME_BYTES], symbol[EMIT_SYMBOL_BYTES], spec_text[FFN_SPEC_TEXT_BYTES];
    packed_layout at;
    ffn_status status = ffn_spec_check(spec, diag);
    if (status == FFN_OK)
        status = packed_layout_of(spec, &at, diag);
    if (status != FFN_OK)
        return status;
    spec_text_of(spec, spec_text);
    emit_upper(kernel->symbol, upper);
    emit_values_print(values, "S", "%s", kernel->symbol);
    emit_values_print(values, "SU", "%s", upper);
    emit_values_print(values, "SPEC", "%s", spec_text);
    emit_values_print(values, "D_MODEL", "%" PRId64, spec->d_model);
    emit_values_print(values, "D_FF", "%" PRId64, spec->d_ff);
    emit_values_print(values, "BIAS", "%u", spec->bias);
    emit_values_print(values, "GATED", "%d", packed_gated(&at));
    emit_values_print(values, "PACKED_BYTES", "%" PRId64, at.total_bytes);
    emit_values_print(values, "SCRATCH_BYTES", "%zu", emit_scratch_bytes(view, kernel));
    emit_values_print(values, "HIDDEN_BYTES", "%" PRId64,
                      FFN_STAGE_ROWS_MAX * image_hidden_stride(spec) * (int64_t)sizeof(float));
    emit_values_print(values, "LAYOUT",
                      "%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
                      ", %" PRId64,
                      at.bias_up, at.bias_gate, at.bias_down, at.expand, at.expand_panel_stride, at.expand_up,
                      at.contract, at.contract_panel_bytes);
    emit_values_print(values, "PORTABLE_TEXT", "%s, portable, ffngen %s", spec_text, FFN_VERSION);
    emit_values_print(values, "WEIGHTS", "%d", emit_has_weights(kernel));
    emit_weights_symbol(kernel, symbol);
    emit_values_print(values, "PACKED", "%s", symbol);
    weights_file_value(view->job, kernel, values);
    status = header_value(spec, &at, values, diag);
    if (status == FFN_OK)
        status = code_values(view, kernel, spec_text, values, diag);
    return status == FFN_OK ? activation_values(view->job, spec, values, diag) : status;
}
