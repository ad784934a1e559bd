/* verify_trial.h: one call of one entry of the code under test, compared with the reference
 *
 * Outputs, hidden values and scratch are full of NaN before a call, and what lies beside them is checked after it. */
#ifndef FFN_VERIFY_TRIAL_H
#define FFN_VERIFY_TRIAL_H

#include "verify.h"
#include "verify_reference.h"

typedef struct verify_trial {
    const verify_subject *subject;
    verify_block *block;
    verify_reference *reference;
    int64_t rows_max;
    float *x, *y;  /* rows with padding, and one to spare at either end */
    float *hidden; /* [FFN_STAGE_ROWS_MAX + 1][stride] */
    char *scratch;
    float *seen; /* [VERIFY_INPUTS][d_model]: what the code gave for each input */
    bool has[VERIFY_INPUTS];
    ffn_verify_report *report;
    ffn_diag *diag;
} verify_trial;

/* Memory for runs of up to rows_max rows, which the caller has set. */
ffn_status verify_trial_allocate(verify_trial *t);
void verify_trial_free(verify_trial *t);

/* FFN_OK, or VERIFY_FAILED with the first difference. `rows` is at most rows_max, for stages at most
 * FFN_STAGE_ROWS_MAX; columns begin .. end-1 as image.h has them. */
ffn_status verify_trial_fused(verify_trial *t, int64_t rows);
ffn_status verify_trial_expand(verify_trial *t, int64_t rows, int64_t begin, int64_t end);
ffn_status verify_trial_contract(verify_trial *t, int64_t rows, int64_t begin, int64_t end);
/* The contract stage on sums that round to -0, which must not come out. */
ffn_status verify_trial_minus_zero(verify_trial *t, int64_t rows, int64_t begin, int64_t end);
/* The contract stage on few hidden values that are not zero: kernels may look for them. */
ffn_status verify_trial_few(verify_trial *t, int64_t rows, int64_t begin, int64_t end);
/* Ordinary, huge, tiny and special values, at every length of a tail. */
ffn_status verify_trial_activate(const verify_trial *t);

#endif
