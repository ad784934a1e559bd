/* exhaustive_sweep.h: one activation over every f32 there is, on several threads -> what its errors come to */
#ifndef EXHAUSTIVE_SWEEP_H
#define EXHAUSTIVE_SWEEP_H

#include "exhaustive_reference.h"
#include "formula.h"
#include "image.h"
#include "support_mpfr.h"

typedef struct sweep_job {
    const char *name; /* as support_mpfr.h and exhaustive_reference.h know it */
    double parameters[EXACT_PARAMETERS_MAX];
    float from, to; /* the numbers that are looked at; all: from -infinity to +infinity */
    int64_t stride; /* every so many of them; all: 1 */
    bool fast;      /* measured by its distance, not in units */
    float up;       /* of a gated one: the value that leaves its factor alone */
    double turn;    /* it falls below this argument and rises above; with `falls` the other way round */
    bool falls;
    const formula_graph *graph;
    image_activate activate; /* compiled code that must return the same bits; NULL: there is none here */
    reference_function reference;
} sweep_job;

typedef struct sweep_result {
    double largest, largest_subnormal; /* units of the last place; smallest subnormals, of results below 2^-126 */
    float at, subnormal_at;
    int64_t above_1, above_2;
    double distance; /* largest |error| / max(1, |x|) */
    float distance_at;
    int64_t turns; /* neighbours in the wrong order */
    double step;   /* the largest of them, in units */
    float step_at;
    int64_t wrong; /* NaN where none belongs or none where one does; infinity likewise */
    float wrong_at;
    int64_t unequal; /* results whose bits are not those of the compiled code */
    float unequal_at;
    double off; /* largest relative error of the double reference, on arguments checked with MPFR */
    float off_at;
    int64_t exact_calls;
} sweep_result;

/* `checks` arguments by MPFR, to see that the reference is right. */
sweep_result sweep_run(const sweep_job *job, int32_t threads, int64_t checks);

#endif
