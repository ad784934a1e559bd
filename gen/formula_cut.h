/* formula_cut.h: a formula -> two halves, each about half as long as the whole in time from its arguments to its result
 *
 * An accurate activation is a chain of some twenty operations that wait for each other, and a core looks ahead over two
 * or three vectors of it: it waits most of the time. A loop that takes the second half of one vector together with the
 * first half of the next has chains half as long, and as many operations (activation.h). */
#ifndef FFNGEN_FORMULA_CUT_H
#define FFNGEN_FORMULA_CUT_H

#include "formula.h"

#define CUT_CARRIED_MAX 6

typedef struct formula_cut {
    int32_t carried_count;
    int32_t carried[CUT_CARRIED_MAX]; /* nodes of the first half, or arguments, that the second one takes */
    uint8_t half[FORMULA_NODES_MAX];  /* of each node: 0 or 1; constants are in both */
} formula_cut;

/* False where halves would not be worth it: a short formula, or too many values between them. */
bool formula_cut_find(const formula_graph *graph, formula_cut *cut);

#endif
