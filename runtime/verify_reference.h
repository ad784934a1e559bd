/* verify_reference.h: what the code under test should give, from two sources that share nothing with it
 *
 * The portable kernel gives bits; the formula in double through libm gives values, where few weights make that sharp.
 */
#ifndef FFN_VERIFY_REFERENCE_H
#define FFN_VERIFY_REFERENCE_H

#include "verify_block.h"

typedef struct verify_reference { /* every array [inputs][...] */
    int inputs;                   /* verify_inputs */
    int64_t stride;               /* of up, gate and hidden: image_hidden_stride */
    float *x, *y;                 /* [d_model] */
    float *up, *gate;             /* sums before the activation, of the panels that are not full */
    float *hidden;
    void *scratch; /* of the portable kernel */
} verify_reference;

/* Memory and inputs; one for all blocks of a shape. */
ffn_status verify_reference_make(const kernel_shape *shape, verify_reference *reference, ffn_diag *diag);
void verify_reference_free(verify_reference *reference);

/* hidden and y by the portable kernel; where a panel holds few weights, by its chains restricted to them, which
 * gives the same bits since a zero weight changes no partial sum, but to NaN if the other factor is not finite. */
void verify_reference_run(verify_reference *reference, const verify_block *block);

/* How many hidden units of an input are infinite or NaN. */
int64_t verify_reference_nonfinite(const verify_reference *reference, const kernel_shape *shape, int input);

/* Check (b): the formula through libm on up to VERIFY_LIBM_UNITS units against `hidden`, and its sums against row
 * `input` of `y`, a row the code under test gave. VERIFY_FAILED names the first difference; `compared` is raised. */
#define VERIFY_LIBM_UNITS 256
ffn_status verify_reference_check(const verify_reference *reference, const verify_block *block, int input,
                                  const float *y, int64_t *compared, ffn_diag *diag);

#endif
