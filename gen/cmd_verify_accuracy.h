/* cmd_verify_accuracy.h: a spec -> how far its activation, as a kernel has it, is from the same formula in double
 *
 * About 100,000 arguments, always the same ones: every exponent of both signs, the range where activations bend, their
 * tails. */
#ifndef CMD_VERIFY_ACCURACY_H
#define CMD_VERIFY_ACCURACY_H

#include "ffn.h"

/* Arguments, and what formula_reference says of them; made once for all ISAs of a spec. */
typedef struct accuracy_sample {
    const ffn_spec *spec;
    bool gated, own; /* own: a user's formula, which has no bound that it must keep */
    bool fast;       /* it has a fast form, and that is what the spec asks for */
    double scale;    /* of a fast one's bound: max(1, |alpha|) for elu, else 1 */
    int64_t count;
    float *g, *u, *out;
    double *value, *bound;
} accuracy_sample;

/* Where the largest error was found. */
typedef struct accuracy_place {
    double error;
    float g, u;
} accuracy_place;

typedef struct accuracy_found {
    bool measured;
    bool fast; /* as in the sample */
    /* Accurate ones and formulas: in units of the last place, where the value is normal; where f32 has infinity, 2^128
     * counts. Fast ones: absolute, over max(1, |x|), a gated one over its up factor too, elu over max(1, |alpha|). */
    accuracy_place worst;
    accuracy_place subnormal; /* in smallest subnormals, where the value is below 2^-126 (a gated one's: below |u| + 1
                                 times that) */
    int64_t nan;              /* arguments where one of both is NaN and the other is not */
} accuracy_found;

ffn_status accuracy_sample_make(const ffn_spec *spec, accuracy_sample *sample, ffn_diag *diag);
void accuracy_sample_free(accuracy_sample *sample);
/* By the code that serves n rows. VERIFY_FAILED: a built-in activation is beyond its bound, at the argument that the
 * diag names; `measured` is filled all the same. */
ffn_status accuracy_measure(const accuracy_sample *sample, const ffn_kernel *kernel, int64_t n,
                            accuracy_found *measured, ffn_diag *diag);

#endif
