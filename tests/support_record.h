/* support_record.h: what a record of an activation holds: digests of its results and of its graph */
#ifndef SUPPORT_RECORD_H
#define SUPPORT_RECORD_H

#include "formula.h"

/* Of the results on 107,000 arguments, every NaN as 0x7fc00000. */
uint64_t hash_bits(const formula_graph *graph);
/* Of the operations with their constants, since the last digits of some coefficients show in few results. */
uint64_t hash_graph(const formula_graph *graph);

#endif
