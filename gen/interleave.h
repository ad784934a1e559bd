/* interleave.h: rows of floats in the order in which tiles read them
 *
 * A row tile multiplies one term of all its rows with one row of a panel, then the next term. In memory its rows are as
 * many streams as it has rows. Interleaved they are one: to[term * height + row], where the height is that of the row
 * tile. A row tile begins where its first row would without interleaving, at `to` + first row * ld. */
#ifndef FFNGEN_INTERLEAVE_H
#define FFNGEN_INTERLEAVE_H

#include "ir.h"
#include "row_tiles.h"

/* Parameters of the function. What lies behind the last term of a row tile, as far as its rows have room, is written
 * as well: ld of the target is at least terms + 16. */
typedef enum interleave_parameter {
    INTERLEAVE_FROM,
    INTERLEAVE_LD_FROM, /* floats between rows */
    INTERLEAVE_TO,
    INTERLEAVE_LD_TO,
    INTERLEAVE_ROWS,
    INTERLEAVE_TERMS,
    INTERLEAVE_PARAMETERS
} interleave_parameter;

LLVMValueRef interleave_function(ir *g, const row_tiles *tiles);

#endif
