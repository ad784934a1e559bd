/* activation.h: a formula over rows of vectors, as a loop that keeps the arithmetic pipes busy
 *
 *     for j = 0 .. vectors: first half of vector j; if j > 0, second half of vector j - 1 and its store
 *
 * (formula_cut.h). The last turn's first half is of the last vector once more, and goes nowhere. A formula that is not
 * cut is one half. */
#ifndef FFNGEN_ACTIVATION_H
#define FFNGEN_ACTIVATION_H

#include "formula.h"
#include "ir.h"

/* Parameters of the function: g, u and out are arrays of rows; out may be u or g, else they do not overlap. Not gated:
 * u alone is read. */
typedef enum activation_parameter {
    ACTIVATION_G,
    ACTIVATION_LDG, /* floats between rows */
    ACTIVATION_U,
    ACTIVATION_LDU,
    ACTIVATION_OUT,
    ACTIVATION_LDO,
    ACTIVATION_ROWS,
    ACTIVATION_COLUMNS, /* a multiple of the ISA's lanes */
    ACTIVATION_PARAMETERS
} activation_parameter;

LLVMValueRef activation_function(ir *g, const formula_graph *graph);

#endif
