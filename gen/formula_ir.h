/* formula_ir.h: a formula graph -> IR on whole vectors, node by node */
#ifndef FFNGEN_FORMULA_IR_H
#define FFNGEN_FORMULA_IR_H

#include "formula.h"
#include "ir.h"

/* The value of the graph at g and u (NULL where it is not gated), all vectors of the ISA. */
LLVMValueRef formula_ir(ir *g, const formula_graph *graph, LLVMValueRef gate, LLVMValueRef up);

#endif
