/* formula_graph.h: appends operations to a graph; folds constants and shares equal nodes on the way
 *
 * Private to runtime/formula*.c. */
#ifndef FFN_FORMULA_GRAPH_H
#define FFN_FORMULA_GRAPH_H

#include "formula.h"

typedef struct graph_builder {
    formula_graph *graph;
    bool full; /* an operation did not fit: the graph cannot be used */
} graph_builder;

/* Node of the operation: a new one, an equal one that stands already, or the constant it comes to. */
uint16_t graph_add(graph_builder *builder, formula_op op, uint16_t a, uint16_t b, uint16_t c, uint32_t bits);
uint16_t graph_number(graph_builder *builder, float value);

/* Operations of the language that a graph spells out. */
uint16_t graph_abs(graph_builder *builder, uint16_t a);
/* NaN if either operand is; of two equal operands (zeros of both signs) the one that is no constant, else the second.
 */
uint16_t graph_min(graph_builder *builder, uint16_t a, uint16_t b);
uint16_t graph_max(graph_builder *builder, uint16_t a, uint16_t b);

/* Drops what `result` does not need; `result` becomes the last node. */
void graph_finish(graph_builder *builder, uint16_t result);

#endif
