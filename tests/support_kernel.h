/* support_kernel.h: spec and plan -> generated code that runs here, for every ISA of templates/isas.def
 *
 * Where this CPU lacks the ISA, the same IR (its lanes, tiles and masks) is lowered to what the CPU has: slower code,
 * the same arithmetic. That tests everything but LLVM's last step. support_isa_note says so for the test's output. */
#ifndef SUPPORT_KERNEL_H
#define SUPPORT_KERNEL_H

#include "image.h"
#include "plan.h"
#include "support_data.h"

typedef struct support_kernel {
    ffn_spec spec;
    ffn_plan plan;
    image code;
    int64_t scratch_bytes;
} support_kernel;

/* False if no code for this host can be made at all (then the test has nothing to run). */
bool support_isa_runs(ffn_isa isa);
/* "" where the ISA runs as it is, else how its kernels are run here. */
const char *support_isa_note(ffn_isa isa);

ffn_plan support_kernel_plan(const ffn_spec *spec, ffn_isa isa, ffn_n_class n_class);
/* What support_kernel_build maps; that of an ISA this CPU lacks is an image of AVX2 code. */
ffn_status support_kernel_image(const ffn_spec *spec, const ffn_plan *plan, ffn_bytes *out, ffn_diag *diag);
/* Fails the test if the kernel cannot be built. */
void support_kernel_build(const ffn_spec *spec, const ffn_plan *plan, support_kernel *kernel);
void support_kernel_free(support_kernel *kernel);

/* y of rows 0 .. n-1, scratch full of NaN before. */
void support_kernel_run(const support_kernel *kernel, const float *x, int64_t ldx, float *y, int64_t ldy, int64_t n,
                        const void *packed);
/* The portable kernel on the same arguments. */
void support_portable_run(const ffn_spec *spec, const float *x, int64_t ldx, float *y, int64_t ldy, int64_t n,
                          const void *packed);

#endif
