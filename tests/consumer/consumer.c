/* consumer.c: an installed ffngen computes a network small enough to do by hand
 *
 *     x = (1, 2, -3);  h = relu(x W_up + b_up) = relu(-2, 4.5) = (0, 4.5);  y = h W_down + b_down = (10, -3.5, 4.5) */
#include <ffn.h>
#ifdef WITH_COMPILER
#include <ffn_blas.h>
#include <ffngen.h>
#endif
#include <stdio.h>
#include <stdlib.h>

static const float up[] = {1, 0, 0, 2, 1, 0}, bias_up[] = {0, 0.5F};
static const float down[] = {7, 8, 9, 2, -1, 1}, bias_down[] = {1, 1, 0};
static const float x[] = {1, 2, -3}, expected[] = {10, -3.5F, 4.5F};

static void require(ffn_status status, const ffn_diag *diag) {
    if (status != FFN_OK) {
        fprintf(stderr, "%s: %s\n", ffn_status_text(status), diag->text);
        exit(1);
    }
}

int main(void) {
    ffn_diag diag = {FFN_OK, ""};
    ffn_spec spec;
    require(ffn_spec_parse("d3-f2-relu-bias", &spec, &diag), &diag);

    ffn_weights weights = {.up = {.data = up}, .down = {.data = down}, .bias_up = bias_up, .bias_down = bias_down};
    size_t packed_bytes = 0;
    require(ffn_packed_bytes(&spec, &packed_bytes, &diag), &diag);
    void *packed =
        aligned_alloc(FFN_PACKED_ALIGN, (packed_bytes + FFN_PACKED_ALIGN - 1) / FFN_PACKED_ALIGN * FFN_PACKED_ALIGN);
    if (packed == NULL)
        return 1;
    require(ffn_pack(&spec, &weights, packed, packed_bytes, &diag), &diag);

    ffn_options options = {.store = ""};
#ifdef WITH_COMPILER
    options.source = ffngen_source();
    options.product = ffn_blas_product(true);
#endif
    ffn_context *context = NULL;
    ffn_kernel *kernel = NULL;
    require(ffn_context_create(&options, &context, &diag), &diag);
    require(ffn_kernel_create(context, &spec, &kernel, &diag), &diag);
#ifdef COMPILES
    ffn_status prepared = ffn_kernel_prepare(kernel, 1, &diag);
    if (ffn_isa_best() != FFN_ISA_PORTABLE)
        require(prepared, &diag);
#endif

    size_t scratch_bytes = ffn_kernel_scratch_bytes(kernel);
    void *scratch = aligned_alloc(FFN_SCRATCH_ALIGN, (scratch_bytes / FFN_SCRATCH_ALIGN + 1) * FFN_SCRATCH_ALIGN);
    if (scratch == NULL)
        return 1;
    float y[3] = {0};
    ffn_args args = {.n = 1,
                     .x = x,
                     .ldx = 3,
                     .y = y,
                     .ldy = 3,
                     .packed = packed,
                     .scratch = scratch,
                     .scratch_bytes = scratch_bytes};
    require(ffn_kernel_run(kernel, &args, &diag), &diag);

    ffn_kernel_info info;
    ffn_kernel_inspect(kernel, 1, &info);
    printf("%s kernel: y = %g %g %g\n", ffn_isa_name(info.isa), y[0], y[1], y[2]);
    int wrong = 0;
    for (int j = 0; j < 3; j++)
        wrong += y[j] != expected[j];
#ifdef COMPILES
    wrong += ffn_isa_best() != FFN_ISA_PORTABLE && info.source != FFN_FROM_COMPILER;
#endif

    ffn_kernel_destroy(kernel);
    ffn_context_destroy(context);
    free(packed);
    free(scratch);
    return wrong != 0;
}
