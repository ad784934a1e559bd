/* nest.h: spec and plan -> the whole kernel as one module: the tiles, the loops around them, the entry points */
#ifndef FFNGEN_NEST_H
#define FFNGEN_NEST_H

#include "formula.h"
#include "ir.h"
#include "packed.h"
#include "plan.h"

/* Fills the module of `g` (from ir_begin). Spec and plan have been checked. */
void nest_build(ir *g, const ffn_spec *spec, const ffn_plan *plan, const packed_layout *layout,
                const formula_graph *graph);

#endif
