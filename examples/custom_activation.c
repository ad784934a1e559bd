/* custom_activation.c: a formula -> an activation as fast as the built-in ones
 *
 *     custom_activation [FORMULA]       "act(F)" with F of x, or "gated(F)" with F of g and u
 *
 * Compiles the formula into a kernel and prints its values, computed by generated code, next to those of the portable
 * kernel: the bits are the same. The language is described in docs/formula.md. */
#include <ffn.h>
#include <ffngen.h>
#include <stdio.h>
#include <string.h>

enum { POINTS = 9 };

static const float points[POINTS] = {-100.0F, -4.0F, -1.0F, -0.25F, 0.0F, 0.25F, 1.0F, 4.0F, 100.0F};

/* One kernel of the spec, from `source` or portable, applied to the points as x (or as g and u alike). */
static ffn_status evaluate(const ffn_spec *spec, const ffn_source *source, float *values, ffn_kernel_info *info,
                           ffn_diag *diag) {
    ffn_context *context;
    ffn_status status = ffn_context_create(&(ffn_options){.source = source}, &context, diag);
    if (status != FFN_OK)
        return status;
    ffn_kernel *kernel;
    status = ffn_kernel_create(context, spec, &kernel, diag);
    if (status == FFN_OK) {
        if (source != NULL)
            status = ffn_kernel_prepare(kernel, 1, diag);
        if (status == FFN_OK || status == FFN_UNSUPPORTED)
            status = ffn_kernel_activate(kernel, 1, POINTS, points, points, values, diag);
        ffn_kernel_inspect(kernel, 1, info);
        ffn_kernel_destroy(kernel);
    }
    ffn_context_destroy(context);
    return status;
}

int main(int argc, char **argv) {
    const char *formula = argc > 1 ? argv[1] : "act(x*sigmoid(1.5*x)+0.1*min(x,0))";
    char text[FFN_SPEC_TEXT_BYTES];
    ffn_diag diag;
    ffn_spec spec;
    float generated[POINTS], portable[POINTS];
    ffn_kernel_info info, portable_info;

    /* A formula is an activation like any other, always the last field of the spec's text. */
    if (snprintf(text, sizeof text, "d64-f256-bias-%s", formula) >= (int)sizeof text) {
        fputs("custom_activation: the formula is too long\n", stderr);
        return 2;
    }
    if (ffn_spec_parse(text, &spec, &diag) != FFN_OK) {
        fprintf(stderr, "custom_activation: %s\n", diag.text);
        return 2;
    }
    if (evaluate(&spec, ffngen_source(), generated, &info, &diag) != FFN_OK ||
        evaluate(&spec, NULL, portable, &portable_info, &diag) != FFN_OK) {
        fprintf(stderr, "custom_activation: %s\n", diag.text);
        return 1;
    }

    printf("%s\n%12s %16s %16s\n", spec.activation, "at", ffn_isa_name(info.isa), ffn_isa_name(portable_info.isa));
    for (int i = 0; i < POINTS; i++)
        printf("%12g %16.9g %16.9g\n", points[i], generated[i], portable[i]);
    const bool same = memcmp(generated, portable, sizeof generated) == 0;
    puts(same ? "the bits are the same" : "the bits differ");
    return same ? 0 : 1;
}
