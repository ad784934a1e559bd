/* support_oracle.h: a spec, weights and x -> what y must be, by two independent paths
 *
 * oracle_ffn       real arithmetic, as near as double gets: triple loops over the weights as the user gives them, the
 *                  activation through libm (formula_reference). Neither packed weights nor formula graphs take part.
 * oracle_contract  the numeric contract (docs/numerics.md) word for word in scalar float code: fmaf, one chain after
 * the other, formula_eval. For comparisons bit for bit; it knows weights as the user gives them, not packed.
 */
#ifndef SUPPORT_ORACLE_H
#define SUPPORT_ORACLE_H

#include "support_data.h"

/* y and bound: [n][d_model], dense; bound may be NULL. A float result that keeps the contract lies within `bound` of y:
 * |y_f32 - y| <= bound. It is a rigorous running error bound, not a guess: each rounding of a chain costs at most 2^-24
 * times the partial sum it made, the activation carries the error of its argument on (its change over that interval)
 * and adds its own bound, the contract stage adds up |W| times those. For normal-like data it is about
 * sqrt(K) times smaller than gamma_K |x||W|: it tells two columns apart at any size, sees a dropped hidden unit up to
 * some thousands of them and a dropped weight up to some hundreds; beyond that compare bits. Not meaningful for
 * formulas with a jump. Costs n (d_model d_ff 4 ns + d_ff 3 (gated: 9) formula_reference). */
void oracle_ffn(const ffn_spec *spec, const ffn_weights *weights, const float *x, int64_t ldx, int64_t n, double *y,
                double *bound);

/* y: [n][d_model], dense. */
void oracle_contract(const ffn_spec *spec, const ffn_weights *weights, const float *x, int64_t ldx, int64_t n,
                     float *y);

/* got against want +- bound: NaN wants NaN, an infinity wants itself, and where want + bound leaves the range of float
 * the infinity of want's sign is right too. */
bool oracle_within(float got, double want, double bound);

/* -1 if all rows of got ([n][d_model] at stride ld) are within the bounds, else row * d_model + column of the first
 * that is not. */
int64_t oracle_first_outside(const ffn_spec *spec, const float *got, int64_t ld, int64_t n, const double *y,
                             const double *bound);

/* -1 if two arrays [n][d_model] at their strides have equal bits (every NaN equals every NaN), else as above. */
int64_t oracle_first_unequal(const ffn_spec *spec, const float *a, int64_t lda, const float *b, int64_t ldb, int64_t n);

#endif
