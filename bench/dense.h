/* dense.h: the kernel of a case and the same without the way past zeros -> whether their bits are equal, and how much
 * of h is zero
 *
 * It is then one of the contenders of the case, on one thread. */
#ifndef BENCH_DENSE_H
#define BENCH_DENSE_H

#include "layer.h"

typedef struct bench_dense_report {
    bool timed;
    double zeros;        /* share of h */
    double zero_columns; /* share of its columns that are zero in each of the rows */
    double ms_min, ms_median;
    double ratio_min, ratio_median; /* its time over the kernel's, of the fastest and by rounds */
} bench_dense_report;

/* `args` of the case, its y written twice. VERIFY_FAILED: other bits. h is looked at for FFN_STAGE_ROWS_MAX rows at
 * most. */
ffn_status bench_dense_compare(const bench_layer *layer, const ffn_kernel *kernel, const ffn_kernel *dense,
                               const ffn_args *args, bench_dense_report *report, ffn_diag *diag);

#endif
