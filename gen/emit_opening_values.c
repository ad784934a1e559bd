/* emit_opening_values.c: a job in words, for the comment that a header opens with */
#include "emit_parts.h"

#include "ffngen.h"
#include "formula_ast.h"
#include "image.h"
#include "isa.h"
#include "spec_text.h"

#include <inttypes.h>

static void put_isas(const emit_view *view, text *to) {
    for (int32_t i = 0; i < view->isa_count; i++)
        text_print(to, "%s%s", i > 0 ? ", " : "", ffn_isa_name(view->isas[i]));
    if (view->job->portable)
        text_print(to, "%s%s", view->isa_count > 0 ? ", " : "", "portable C");
}

static ffn_status put_spec(const emit_view *view, const emit_kernel *kernel, text *to, ffn_diag *diag) {
    const ffn_spec *spec = &kernel->spec;
    const bool gated = ffn_spec_gated(spec);
    char upper[EMIT_NAME_BYTES], spec_text[FFN_SPEC_TEXT_BYTES];
    packed_layout at;
    activation_text activation;
    ffn_status status = packed_layout_of(spec, &at, diag);
    if (status == FFN_OK)
        status = activation_parse(spec->activation, &activation, diag);
    if (status != FFN_OK)
        return status;
    spec_text_of(spec, spec_text);
    emit_upper(kernel->symbol, upper);
    text_print(to, " * %s: functions %s_x, macros %s_X\n", spec_text, kernel->symbol, upper);
    text_print(to, " *   h = act(%sx W_up%s), y = h W_down%s; d_model %" PRId64 ", d_ff %" PRId64 ".\n",
               !gated                       ? ""
               : spec->bias & FFN_BIAS_GATE ? "x W_gate + b_gate, "
                                            : "x W_gate, ",
               spec->bias & FFN_BIAS_UP ? " + b_up" : "", spec->bias & FFN_BIAS_DOWN ? " + b_down" : "", spec->d_model,
               spec->d_ff);
    if (activation.row != NULL && spec->accuracy == FFN_FAST && activation_fast(activation.row) != NULL)
        text_print(to, " *   act is %s, %s; its fast form: the error is at most 1e-6 max(1, |x|)%s.\n",
                   activation.row->shown.name, activation.row->shown.formula, gated ? " times the up factor" : "");
    else if (activation.row != NULL)
        text_print(to, " *   act is %s, %s; its error is at most %g ulp.\n", activation.row->shown.name,
                   activation.row->shown.formula, activation.row->ulps);
    else
        text_put(to, " *   act is the formula, step by step; its error is what the steps add up to.\n");
    text_print(to,
               " *   Packed weights: %" PRId64 " bytes. Scratch: %zu bytes for each thread. Hidden values of the two "
               "stages: %" PRId64 " bytes.\n *\n",
               at.total_bytes, emit_scratch_bytes(view, kernel),
               image_hidden_stride(spec) * FFN_STAGE_ROWS_MAX * (int64_t)sizeof(float));
    return FFN_OK;
}

/* "{w_up, 0, X_IN_OUT}, ..." of a P_weights that fits the spec. */
static void usage_value(const emit_view *view, const emit_kernel *kernel, emit_values *values) {
    const char *const upper = view->prefix_upper;
    const uint32_t bias = kernel->spec.bias;
    emit_values_print(values, "USAGE_WEIGHTS",
                      "{w_up, 0, %s_IN_OUT}, {%s, 0, %s_IN_OUT}, {w_down, 0, %s_IN_OUT},\n"
                      " *                       %s_GATE_SEPARATE, %s, %s, %s",
                      upper, ffn_spec_gated(&kernel->spec) ? "w_gate" : "NULL", upper, upper, upper,
                      bias & FFN_BIAS_UP ? "b_up" : "NULL", bias & FFN_BIAS_GATE ? "b_gate" : "NULL",
                      bias & FFN_BIAS_DOWN ? "b_down" : "NULL");
    emit_values_print(values, "USAGE_PARAMETERS", "const float *w_up, %sconst float *w_down%s%s%s",
                      ffn_spec_gated(&kernel->spec) ? "const float *w_gate, " : "",
                      bias & FFN_BIAS_UP ? ",\n *                 const float *b_up" : "",
                      bias & FFN_BIAS_GATE ? ", const float *b_gate" : "",
                      bias & FFN_BIAS_DOWN ? ", const float *b_down" : "");
    text note = {0};
    if (kernel->weights_file) {
        char spec_upper[EMIT_NAME_BYTES];
        emit_upper(kernel->symbol, spec_upper);
        text_print(&note,
                   ":\n * the assembler reads them from the file that the macro %s_WEIGHTS_FILE names, a string; its "
                   "default is"
                   "\n * found where -I says",
                   spec_upper);
    }
    emit_values_take(values, "WEIGHTS_NOTE", &note);
}

static void needs_value(const emit_view *view, emit_values *values) {
    text needs = {0};
    text_put(&needs, "gcc or clang, C99 or C++11 or later, a little-endian 64-bit ELF system");
    if (view->isa_count > 0) {
        text_print(&needs, " on %s", isa_row_of(view->isas[0])->arch == FFN_ARCH_X86_64 ? "x86-64" : "AArch64");
        text_put(&needs, ".\n * When run it takes the best that CPU and operating system support of: ");
        for (int32_t i = 0; i < view->isa_count; i++)
            text_print(&needs, "%s%s (%s)", i > 0 ? ", " : "", ffn_isa_name(view->isas[i]),
                       isa_row_of(view->isas[i])->features);
        text_put(&needs, view->job->portable ? ";\n * else portable C, which runs on any CPU"
                                             : ";\n * on any other CPU functions return UNSUPPORTED");
    }
    text_put(&needs, ".");
    emit_values_take(values, "NEEDS", &needs);
}

ffn_status emit_opening_values(const emit_view *view, emit_values *values, ffn_diag *diag) {
    const emit_job *job = view->job;
    text isas = {0}, specs = {0};
    put_isas(view, &isas);
    emit_values_take(values, "ISAS", &isas);
    ffn_status status = FFN_OK;
    for (int32_t i = 0; i < job->kernel_count && status == FFN_OK; i++)
        status = put_spec(view, &job->kernels[i], &specs, diag);
    if (specs.bytes > 0)
        specs.bytes--; /* the template ends the line */
    emit_values_take(values, "SPECS", &specs);
    usage_value(view, &job->kernels[0], values);
    needs_value(view, values);
    emit_values_print(values, "VERSION", "%s", FFN_VERSION);
    if (view->isa_count > 0)
        emit_values_print(values, "LLVM", " (LLVM %s)", ffngen_llvm_version());
    else
        emit_values_print(values, "LLVM", "%s", "");
    emit_values_print(values, "STATIC_NOTE", "%s",
                      job->is_static ? "; as\n * functions are static, in every file that calls them" : "");
    emit_values_print(values, "DEFAULT_API", "%s", job->is_static ? "static" : "extern");
    return status;
}
