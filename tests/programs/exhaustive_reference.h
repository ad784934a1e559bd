/* exhaustive_reference.h: the activations in double, many arguments at a time, and the errors of f32 answers against
 * them
 *
 * Good to about 1e-14: exhaustive_activations.c asks MPFR wherever that leaves a doubt. Arguments and answers are no
 * NaN. */
#ifndef EXHAUSTIVE_REFERENCE_H
#define EXHAUSTIVE_REFERENCE_H

#include <stdint.h>

/* y[i] = F(x[i]) */
typedef void (*reference_function)(const double *parameters, int32_t count, const float *x, double *y);

/* Of an activation or function by name; a gated one's factor of g. NULL: not known. */
reference_function reference_of(const char *name);

/* What errors of a block come to, in units of the exact value's last place (of the smallest subnormal below 2^-126).
 * Infinity counts as 2^128. */
typedef struct reference_errors {
    double largest;           /* of results of at least 2^-126 */
    double largest_subnormal; /* of smaller ones */
    int32_t above_1, above_2; /* results of at least 2^-126 that are off by more than 1 + above, 2 + above */
    int32_t doubtful;         /* within `margin` of those */
} reference_errors;

/* error[i] of out[i] against y[i]; `out` and `y` as they come. */
reference_errors reference_measure(int32_t count, const float *out, const double *y, double above, double margin,
                                   double *error);

/* Largest |out[i] - y[i]| / max(1, |x[i]|). */
double reference_distance(int32_t count, const float *x, const float *out, const double *y);

/* Places i where out[i + 1] < out[i] (rising), or > (not rising), i < count - 1. */
int32_t reference_turns(int32_t count, const float *out, int rising);

#endif
