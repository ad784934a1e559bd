/* sparse.h: rows of h that are mostly zero -> the contract stage over the columns that are not
 *
 * With ReLU-like activations most hidden values are zero. A term whose h is zero changes nothing (docs/numerics.md: the
 * last addition of +0), as long as the weights are finite, so the rows of W_down that meet zeros alone need not be
 * read. Which they are is seen at run time, by every call anew; where too few values are zero, the stage runs as it
 * always does. Same bits either way. */
#ifndef FFNGEN_SPARSE_H
#define FFNGEN_SPARSE_H

#include "formula.h"
#include "ir.h"
#include "packed.h"
#include "plan.h"

#define SPARSE_ROWS_MAX 4

typedef struct sparse {
    bool wanted;
    LLVMValueRef find;  /* find(h, ldh, rows, k, packed, list): columns in the list, or -1: the dense sweep is better */
    LLVMValueRef sweep; /* as a stage's sweep, over all panels at once; SWEEP_K: columns in the list, SWEEP_NEXT: it */
} sparse;

/* Whether an activation is exactly zero for every clearly negative argument. */
bool sparse_activation(const formula_graph *graph);

/* Whether kernels of this spec and plan look for zeros in h at all. */
bool sparse_passes(const ffn_spec *spec, const ffn_plan *plan, const formula_graph *graph);

/* Adds both functions to the module, if a kernel of this spec and plan looks for zeros. `panel_stride` is that of the
 * contract stage. */
void sparse_build(ir *g, sparse *s, const ffn_spec *spec, const ffn_plan *plan, const formula_graph *graph,
                  int64_t panel_stride);

#endif
