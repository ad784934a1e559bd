/* stage.h: one of the two products (expand, contract) over a block: the row tiles of a group of panels
 *
 * Both stages are the same code with other constants. Where neither has chains, what differs between them is a
 * parameter, and one set of tiles serves both: half the code, and half the time to compile it. */
#ifndef FFNGEN_STAGE_H
#define FFNGEN_STAGE_H

#include "plan.h"
#include "row_tiles.h"
#include "tile.h"

typedef struct stage {
    const char *name;     /* before those of its functions */
    int64_t columns;      /* padded to panels */
    int64_t terms;        /* of a whole sum */
    int64_t panel_stride; /* floats between consecutive panels of one matrix */
    int32_t chains;
    bool add_zero;                   /* a sum of this stage ends with +0 */
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
    SWEEP_NEXT,   /* the first panel of what runs after this group, to be prefetched */
    SWEEP_STRIDE, /* floats between panels: the stage's panel_stride */
    SWEEP_LAST,   /* not 0: this is the contract stage */
    /* Floats that each row of a tile is further right, in c and in init, than the row above; 0: straight. */
    SWEEP_SLANT_C,
    SWEEP_SLANT_INIT,
    SWEEP_PARAMETERS
} sweep_parameter;

/* A function with the parameters of a sweep, and these. */
LLVMValueRef stage_sweep_function(ir *g, const char *name, LLVMValueRef *parameters);

/* Adds the tiles and the sweep of both stages to the module. */
void stages_build(ir *g, stage *expand, stage *contract, const ffn_plan *plan);

#endif
