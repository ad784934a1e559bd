/* nest.h: spec and plan -> the whole kernel as one module: the tiles, the loops around them, the entry points */
#ifndef FFNGEN_NEST_H
#define FFNGEN_NEST_H

#include "formula.h"
#include "ir.h"
#include "packed.h"
#include "plan.h"

/* How the names of the entry points end, in the order of image_entry. A whole name is
 * ffn_<spec>_<isa>_n<class>_<entry>, so that objects of several kernels link into one program. */
extern const char *const nest_entry_names[];

/* Fills the module of `g` (from ir_begin). Spec and plan have been checked. */
void nest_build(ir *g, const ffn_spec *spec, const ffn_plan *plan, const packed_layout *layout,
                const formula_graph *graph);

#endif
