/* formula_ir.h: a formula graph -> IR on whole vectors, node by node */
#ifndef FFNGEN_FORMULA_IR_H
#define FFNGEN_FORMULA_IR_H

#include "formula.h"
#include "ir.h"

/* The value of the graph at g and u (NULL where it is not gated), all vectors of the ISA. */
LLVMValueRef formula_ir(ir *g, const formula_graph *graph, LLVMValueRef gate, LLVMValueRef up);

/* The values of the nodes whose `half` is the wanted one, and of constants; what they take of others is there already.
 */
void formula_ir_nodes(ir *g, const formula_graph *graph, const uint8_t *half, uint8_t wanted, LLVMValueRef gate,
                      LLVMValueRef up, LLVMValueRef *values);

/* Whether a node's value is a vector of words. */
bool formula_ir_is_word(const formula_graph *graph, int32_t node);

#endif
