/* support_mpfr.h: exact values of the activations, and the error of an f32 answer in units of its last place
 *
 * Written from the definitions in the literature, with none of the library's formulas, at 128 bits. */
#ifndef SUPPORT_MPFR_H
#define SUPPORT_MPFR_H

#include <stdbool.h>
#include <stdint.h>

#define EXACT_PARAMETERS_MAX 2

typedef struct exact_error {
    bool wrong;   /* NaN or infinity where it should not be, or not where it should */
    double ulps;  /* |got - exact| in units of the exact value's last place; at least the smallest subnormal */
    double units; /* |got - exact| in smallest subnormals */
    double value; /* the exact value, rounded to double; infinity where f32 overflows */
} exact_error;

/* True if `name` is an activation that this file knows, or one of the language's functions ("exp", "log1p"). */
bool exact_knows(const char *name);
/* Error of `got` for the activation at (g, u), limits at infinities. Parameters as in the activation's text. */
exact_error exact_compare(const char *name, const double *parameters, float g, float u, float got);
/* Frees MPFR's caches. */
void exact_cleanup(void);

#endif
