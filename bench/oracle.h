/* oracle.h: a layer and rows of x -> the y of some of them in double, which all contenders are compared with
 *
 * Products by OpenBLAS's dgemm on widened operands, the activation through libm, one value after the other. Neither the
 * packed weights nor any kernel takes part. Row i of x does not depend on n, so one oracle serves every n of a layer:
 * it holds all rows up to a number that takes about a second, and beyond that the first ones, the last ones of each n,
 * and rows between at irregular distances, so that every remainder by a tile's height is among them. */
#ifndef BENCH_ORACLE_H
#define BENCH_ORACLE_H

#include "layer.h"

typedef struct bench_oracle {
    int64_t d_model, count;
    int64_t *rows; /* [count], ascending */
    double *y;     /* [count][d_model] */
} bench_oracle;

/* x: [largest of n][d_model], dense. VERIFY_FAILED where y is not finite. */
ffn_status bench_oracle_create(const bench_layer *layer, const float *x, const int64_t *n, int n_count,
                               bench_oracle *oracle, ffn_diag *diag);
void bench_oracle_destroy(bench_oracle *oracle);

/* Largest |y - oracle| over the largest |oracle|, of its rows below n; NaN or infinite where y is not finite and should
 * be. y: [n][d_model], dense. */
double bench_oracle_error(const bench_oracle *oracle, const float *y, int64_t n);

#endif
