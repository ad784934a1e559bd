/* formula_count.h: a graph -> vector instructions on the arithmetic pipes
 *
 * What an activation costs beside the products, which run on the same pipes; bits and constants cost nothing. */
#ifndef FFN_FORMULA_COUNT_H
#define FFN_FORMULA_COUNT_H

#include "formula.h"

/* A comparison and its select are one where they are a minimum or a maximum, and a negation is part of the fma that
 * takes it. */
int32_t formula_count_operations(const formula_graph *graph);

#endif
