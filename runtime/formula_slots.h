/* formula_slots.h: which values of a graph may share memory, from when each is last used
 *
 * Private to runtime/formula*.c. Constants come first and keep their slots; so do arguments. BITS and FLOAT are other
 * names for the slot of their operand. An operation's slot is never one of its operands'. */
#ifndef FFN_FORMULA_SLOTS_H
#define FFN_FORMULA_SLOTS_H

#include "formula.h"

#define SLOTS_MAX 704 /* a graph that needs more is refused when it is built */

typedef struct slot_map {
    int32_t count;                    /* slots in all */
    uint16_t slot[FORMULA_NODES_MAX]; /* of each node */
} slot_map;

void slots_assign(const formula_graph *graph, slot_map *map);

#endif
