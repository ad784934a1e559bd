/* emit_job_values.c: what all specs of a header share -> values for its templates */
#include "emit_parts.h"

#include "isa.h"
#include "spec_text.h"

#include <inttypes.h>
#include <string.h>

void emit_upper(const char *name, char upper[EMIT_NAME_BYTES]) {
    size_t i = 0;
    for (; name[i] != '\0' && i < EMIT_NAME_BYTES - 1; i++)
        upper[i] = (char)(name[i] >= 'a' && name[i] <= 'z' ? name[i] - 'a' + 'A' : name[i]);
    upper[i] = '\0';
}

/* "avx2" -> FFN_ISA_AVX2 */
static void put_isa(text *to, ffn_isa isa) {
    char upper[EMIT_NAME_BYTES];
    emit_upper(ffn_isa_name(isa), upper);
    text_print(to, "FFN_ISA_%s", upper);
}

static void put_native(text *to, const emit_kernel *kernel, const ffn_plan *plan, int32_t variant) {
    static const char *const classes[FFN_N_CLASSES] = {
        [FFN_N_1] = "FFN_N_1",
        [FFN_N_2_4] = "FFN_N_2_4",
        [FFN_N_5_16] = "FFN_N_5_16",
        [FFN_N_17_UP] = "FFN_N_17_UP",
    };
    text_print(to, "    {%" PRId64 ", %" PRId64 ", %uu, %uu, \"%s\", %d, &%s__rows[%d],\n     {", kernel->spec.d_model,
               kernel->spec.d_ff, kernel->spec.bias, kernel->spec.accuracy, kernel->spec.activation, variant,
               kernel->symbol, variant * FFN_N_CLASSES + (int32_t)plan->n_class);
    put_isa(to, plan->isa);
    text_print(to,
               ", %s, %" PRId64 ", %" PRId64 ", %" PRId64 ", %d, %d, %d, (ffn_row_split)%d, %d, %d, %d, %d, %d, %d, {",
               classes[plan->n_class], plan->m_block, plan->f_block, plan->k_block, plan->unroll, plan->prefetch,
               plan->ahead, (int)plan->row_split, plan->vector_bits, plan->chunk, plan->group, plan->copy_x,
               plan->hold_y, plan->tile_count);
    for (int32_t i = 0; i < plan->tile_count; i++)
        text_print(to, "%s{%d, %d}", i > 0 ? ", " : "", plan->tiles[i].mr, plan->tiles[i].panels);
    text_put(to, "}}},\n");
}

static void natives_value(const emit_view *view, emit_values *values) {
    text rows = {0};
    int32_t count = 0;
    for (int32_t k = 0; k < view->job->kernel_count; k++)
        for (int32_t v = 0; v < view->isa_count; v++)
            for (int32_t c = 0; c < FFN_N_CLASSES; c++, count++)
                put_native(&rows, &view->job->kernels[k], &view->job->kernels[k].plans[view->isas[v]][c], v);
    emit_values_take(values, "NATIVES", &rows);
    emit_values_print(values, "NATIVE_COUNT", "%d", count);
}

static void variant_values(const emit_view *view, emit_values *values) {
    text names = {0}, needs = {0};
    for (int32_t i = 0; i < view->isa_count; i++) {
        text_print(&names, "%s\"%s\"", i > 0 ? ", " : "", ffn_isa_name(view->isas[i]));
        text_print(&needs, "%s0x%" PRIx64 "u", i > 0 ? ", " : "", isa_row_of(view->isas[i])->needs);
    }
    if (view->job->portable)
        text_print(&names, "%s\"portable\"", view->isa_count > 0 ? ", " : "");
    emit_values_take(values, "VARIANT_NAMES", &names);
    emit_values_take(values, "VARIANT_NEEDS", &needs);
    emit_values_print(values, "GENERATED", "%d", view->isa_count);
    emit_values_print(values, "VARIANTS", "%d", view->isa_count + view->job->portable);
}

static void feature_values(emit_values *values) {
    static const struct {
        const char *name;
        uint64_t bit;
    } features[] = {
        {"CPU_AVX2", FFN_CPU_AVX2},           {"CPU_FMA", FFN_CPU_FMA},
        {"CPU_YMM_STATE", FFN_CPU_YMM_STATE}, {"CPU_AVX512F", FFN_CPU_AVX512F},
        {"CPU_AVX512VL", FFN_CPU_AVX512VL},   {"CPU_AVX512DQ", FFN_CPU_AVX512DQ},
        {"CPU_AVX512BW", FFN_CPU_AVX512BW},   {"CPU_ZMM_STATE", FFN_CPU_ZMM_STATE},
        {"CPU_NEON", FFN_CPU_NEON},
    };
    for (size_t i = 0; i < sizeof features / sizeof *features; i++)
        emit_values_print(values, features[i].name, "0x%" PRIx64 "u", features[i].bit);
}

/* The name stands in comments and in strings: what would end one is a '_'. */
static void file_value(const char *file, emit_values *values) {
    text name = {0};
    for (const char *at = file; *at != '\0'; at++)
        text_add(&name, strchr("\"\\*?@", *at) != NULL || (unsigned char)*at < ' ' ? "_" : at, 1);
    emit_values_take(values, "FILE", &name);
}

void emit_job_values(const emit_view *view, emit_values *values) {
    const emit_job *job = view->job;
    const bool generated = view->isa_count > 0;
    const bool x86_64 = !generated || isa_row_of(view->isas[0])->arch == FFN_ARCH_X86_64; /* the C kernel asks too */
    emit_values_print(values, "P", "%s", job->prefix);
    emit_values_print(values, "PU", "%s", view->prefix_upper);
    emit_values_print(values, "API", "%s_API", view->prefix_upper);
    file_value(job->file, values);
    emit_values_print(values, "PORTABLE", "%d", job->portable);
    emit_values_print(values, "STATIC", "%d", job->is_static);
    emit_values_print(values, "X86_64", "%d", x86_64);
    emit_values_print(values, "ARCH_MACRO", "%s", !generated ? "" : x86_64 ? "__x86_64__" : "__aarch64__");
    emit_values_print(values, "ARCH_NAME", "%s", x86_64 ? "x86-64" : "AArch64");
    emit_values_print(values, "OTHER_ARCH", "%s", x86_64 ? "AArch64" : "x86-64");
    emit_values_print(values, "OTHER_ISAS", "%s", x86_64 ? "neon,portable" : "avx2,avx512,portable");
    emit_values_print(values, "ASSEMBLED", "%d", job->assembled && generated);
    variant_values(view, values);
    feature_values(values);
    natives_value(view, values);
}
