/* verify_product.h: check (c), the whole output against an independent matrix product */
#ifndef FFN_VERIFY_PRODUCT_H
#define FFN_VERIFY_PRODUCT_H

#include "verify_reference.h"

typedef struct verify_outputs {
    const float *code; /* [VERIFY_INPUTS][d_model] */
    const bool *has;   /* which inputs the code has been run on */
    bool portable;     /* the code under test is the portable kernel */
} verify_outputs;

/* Compares the code and the portable kernel with the product. `before` is what check (a) said, its text in `diag`: a
 * failure there stays one, and its text gets to name the side that is wrong. */
ffn_status verify_product_check(const verify_reference *reference, const verify_block *block,
                                const verify_outputs *outputs, const ffn_product *product, ffn_status before,
                                ffn_verify_report *report, ffn_diag *diag);

#endif
