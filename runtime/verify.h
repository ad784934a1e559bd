/* verify.h: is this code the kernel of this spec? Checks (a), (b) and (c) of docs/verification.md */
#ifndef FFN_VERIFY_H
#define FFN_VERIFY_H

#include "kernel_code.h"

typedef struct verify_subject {
    const kernel_shape *shape;
    const image *code;    /* NULL: the portable kernel itself */
    size_t scratch_bytes; /* what the code may use */
} verify_subject;

/* Runs the code on weights and inputs of its own making, on numbers of rows that follow from spec and plan, and if n
 * > 0 on n rows as well, whatever that costs. VERIFY_FAILED names what differs and which side is wrong;
 * OUT_OF_MEMORY if the checks could not run. `product` and `report` may be NULL. Everything runs in the default
 * floating-point environment; the caller's is put back. */
ffn_status verify_run(const verify_subject *subject, int64_t n, const ffn_product *product, ffn_verify_report *report,
                      ffn_diag *diag);

#endif
