/* nest_blocks.h: the two block functions that every entry point is a loop over */
#ifndef FFNGEN_NEST_BLOCKS_H
#define FFNGEN_NEST_BLOCKS_H

#include "nest.h"
#include "sparse.h"
#include "stage.h"

typedef struct nest {
    ir *g;
    const ffn_spec *spec;
    const ffn_plan *plan;
    const packed_layout *layout;
    const formula_graph *graph;
    plan_scratch scratch;
    bool gated;
    bool cold;     /* no stage has chains: vectors go through tiles and activation alone, the rest is control */
    int64_t group; /* panels that pass through the row tiles together */
    stage expand, contract;
    sparse sparse; /* of the contract stage */
    LLVMValueRef activate, interleave, expand_block, contract_block, start_chains;
} nest;

/* A part of the caller's scratch. */
static inline LLVMValueRef nest_scratch(const nest *n, LLVMValueRef scratch, int64_t offset) {
    return ir_at_const(n->g, scratch, offset);
}

/* True if the tiles of the expand stage apply the activation in registers. */
bool nest_tiles_activate(const nest *n);

/* The weights of one panel of a matrix of the expand stage, from term k on; of the contract stage, from hidden column
 * f. */
LLVMValueRef nest_expand_weights(nest *n, LLVMValueRef packed, bool gate, LLVMValueRef panel, LLVMValueRef k);
LLVMValueRef nest_contract_weights(nest *n, LLVMValueRef packed, LLVMValueRef panel, LLVMValueRef f);

/* Adds activate, start_chains, expand_block and contract_block to the module; the stages are built. */
void nest_blocks_build(nest *n);

#endif
