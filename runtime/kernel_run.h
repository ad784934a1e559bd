/* kernel_run.h: the checks that every way to run all rows of a call begins with */
#ifndef FFN_KERNEL_RUN_H
#define FFN_KERNEL_RUN_H

#include "kernel_handle.h"

/* kernel and args are there, n is not negative. */
ffn_status kernel_run_check_call(const ffn_kernel *kernel, const ffn_args *args, ffn_diag *diag);
/* The rest, for n >= 1: x, y, packed and `scratch_bytes` of scratch can be used and stay apart. `query` names the
 * function that tells how much scratch is wanted. */
ffn_status kernel_run_check(const ffn_kernel *kernel, const ffn_args *args, size_t scratch_bytes, const char *query,
                            ffn_diag *diag);

/* Bytes that a run through a slot (NULL: the portable kernel) needs. */
static inline size_t kernel_run_scratch_bytes(const ffn_kernel *kernel, const kernel_slot *slot) {
    return slot != NULL ? slot->scratch_bytes : kernel->planned_scratch_bytes;
}

#endif
