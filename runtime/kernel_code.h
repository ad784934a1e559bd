/* kernel_code.h: (spec, plan) -> generated code that may be published, native, from the store or the compiler
 *
 * A kernel_code is written once, by the thread that obtained it, and never changes after it has been published. */
#ifndef FFN_KERNEL_CODE_H
#define FFN_KERNEL_CODE_H

#include "context.h"
#include "formula.h"
#include "image.h"
#include "packed.h"
#include "tools.h"

/* All that follows from a spec, worked out once a kernel. */
typedef struct kernel_shape {
    ffn_spec spec;
    uint64_t spec_hash;
    packed_layout layout;
    formula_graph graph;
} kernel_shape;

typedef struct kernel_code {
    image code;
    ffn_origin origin;
    ffn_plan_origin plan_from;
    bool verified;
    double compile_ms, verify_ms, load_ms;
    size_t image_bytes;
    tools_note *note;
} kernel_code;

/* Bytes -> mapped, checked against the spec, verified as the context says. On failure nothing stays mapped. */
ffn_status kernel_code_load(const ffn_context *context, const kernel_shape *shape, const void *bytes, size_t size,
                            kernel_code *code, ffn_diag *diag);
/* The code of a plan: what the source holds already, else from the store, else built by the source, which is loaded if
 * need be; what was built and verified is kept in the store. `remark`: what the store could not do, once a context. */
ffn_status kernel_code_obtain(ffn_context *context, const kernel_shape *shape, const plan_choice *choice,
                              kernel_code *code, ffn_diag *remark, ffn_diag *diag);
void kernel_code_free(kernel_code *code);

#endif
