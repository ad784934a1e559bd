/* stage.h: one of the two products (expand, contract) over a block: the row tiles of a group of panels
 *
 * A stage owns the tile functions of its shape and the function that sweeps them over the rows of a block. Both stages
 * are the same code with other constants. */
#ifndef FFNGEN_STAGE_H
#define FFNGEN_STAGE_H

#include "plan.h"
#include "tile.h"

typedef struct stage {
    const char *name;
    int64_t columns;      /* padded to panels */
    int64_t terms;        /* of a whole sum */
    int64_t panel_stride; /* floats between consecutive panels of one matrix */
    int32_t chains;
    bool add_zero;
    bool fetch_soon;                 /* C is large: a tile fetches that of the next one */
    const formula_graph *activation; /* applied by the tiles; NULL: not */
    LLVMValueRef sweep;
} stage;

/* Parameters of the sweep function. With several chains, c and init are planes: [row][chain][column], so that ldc is
 * chains * columns and a plane is `columns` away from the next. */
typedef enum sweep_parameter {
    SWEEP_A,
    SWEEP_LDA,
    SWEEP_B,
    SWEEP_C,
    SWEEP_LDC,
    SWEEP_INIT,
    SWEEP_LDI,
    SWEEP_ROWS,
    SWEEP_PANELS,
    SWEEP_K,
    SWEEP_NEXT, /* the first panel of what runs after this group, to be prefetched */
    SWEEP_PARAMETERS
} sweep_parameter;

/* A function with the parameters of a sweep, and these. */
LLVMValueRef stage_sweep_function(ir *g, const char *name, LLVMValueRef *parameters);

/* Adds the tiles and the sweep to the module. */
void stage_build(ir *g, stage *s, const ffn_plan *plan);

#endif
