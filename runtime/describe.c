/* describe.c: a kernel, and the CPU below it, as lines for people
 *
 * Text is made whole before a caller's buffer is touched. */
#include <stdio.h>
#include <string.h>

#include "cpu.h"
#include "diag.h"
#include "isa.h"

/* A formula may be as long as a page; its spec then goes by its name. */
#define SPEC_BYTES (FFN_DESCRIBE_BYTES / 2)
#define PLAN_BYTES 192

static ffn_status hand_out(const char *made, char *text, size_t text_bytes, ffn_diag *diag) {
    size_t bytes = strlen(made) + 1;
    if (text_bytes < bytes)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "text: %zu bytes, where %zu are needed (FFN_DESCRIBE_BYTES always do)",
                         text_bytes, bytes);
    memcpy(text, made, bytes);
    return FFN_OK;
}

ffn_status ffn_kernel_describe(const ffn_kernel *kernel, int64_t n, char *text, size_t text_bytes, ffn_diag *diag) {
    static const char *const origins[] = {[FFN_FROM_FALLBACK] = "portable",
                                          [FFN_FROM_COMPILER] = "compiled",
                                          [FFN_FROM_STORE] = "disk",
                                          [FFN_FROM_IMAGE] = "memory",
                                          [FFN_FROM_NATIVE] = "native"};
    static const char *const choosers[] = {[FFN_PLAN_MODEL] = "planned by the model",
                                           [FFN_PLAN_TUNED] = "tuned here",
                                           [FFN_PLAN_HINT] = "tuned on another machine",
                                           [FFN_PLAN_GIVEN] = "its plan given"};
    if (kernel == NULL || text == NULL || n < 0)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "kernel and text must not be NULL and n not be negative");
    const ffn_spec *spec = ffn_kernel_spec(kernel);
    char spec_text[SPEC_BYTES], plan[PLAN_BYTES], made[FFN_DESCRIBE_BYTES];
    ffn_status status = ffn_spec_format(spec, spec_text, sizeof spec_text, NULL);
    if (status != FFN_OK)
        status = ffn_spec_name(spec, false, spec_text, sizeof spec_text, diag);
    if (status != FFN_OK)
        return status;
    ffn_kernel_info info;
    ffn_kernel_inspect(kernel, n, &info);
    if (info.source == FFN_FROM_FALLBACK) {
        snprintf(made, sizeof made, "%s portable, no generated code", spec_text);
        return hand_out(made, text, text_bytes, diag);
    }
    status = ffn_plan_format(&info.plan, plan, sizeof plan, diag);
    if (status != FFN_OK)
        return status;
    const char *origin = origins[info.source], *verified = info.verified ? "verified" : "not verified",
               *chooser = choosers[info.plan_from];
    if (info.source == FFN_FROM_NATIVE) /* how large it is nobody knows */
        snprintf(made, sizeof made, "%s %s %s %s, %s", spec_text, plan, origin, verified, chooser);
    else
        snprintf(made, sizeof made, "%s %s image %.1f KiB (code %.1f KiB) %s %s, %s", spec_text, plan,
                 (double)info.image_bytes / 1024, (double)info.code_bytes / 1024, origin, verified, chooser);
    return hand_out(made, text, text_bytes, diag);
}

ffn_status ffn_cpu_describe(const ffn_kernel *kernel, int64_t n, char *text, size_t text_bytes, ffn_diag *diag) {
    if (text == NULL || n < 0)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "text must not be NULL and n not be negative");
    ffn_isa in_use = ffn_isa_best();
    if (kernel != NULL) {
        ffn_kernel_info info;
        ffn_kernel_inspect(kernel, n, &info);
        in_use = info.isa;
    }
    char built[128] = "", has[128], made[FFN_DESCRIBE_BYTES];
    for (ffn_isa isa = FFN_ISA_PORTABLE; isa < FFN_ISA_COUNT; isa++) {
        const isa_row *row = isa_row_of(isa);
        size_t used = strlen(built);
        if (row == NULL || row->arch == cpu_arch()) /* portable code is built for every CPU */
            snprintf(built + used, sizeof built - used, " %s", ffn_isa_name(isa));
    }
    cpu_features_format(cpu_features(), has, sizeof has);
    snprintf(made, sizeof made, "built for:%s\nCPU has: %s\nin use: %s\n", built,
             has[0] != '\0' ? has : "none of the features that generated code uses", ffn_isa_name(in_use));
    return hand_out(made, text, text_bytes, diag);
}
