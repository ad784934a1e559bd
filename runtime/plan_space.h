/* plan_space.h: spec, ISA, n class -> the plans worth trying, as tables
 *
 * Whatever is chosen from it, the bits of a result are the same. Every plan given passes ffn_plan_check. */
#ifndef FFN_PLAN_SPACE_H
#define FFN_PLAN_SPACE_H

#include "ffn.h"

/* The name of the grid that figures are given for; it changes whenever the grid does. */
#define PLAN_GRID_NAME "grid-5"
#define PLAN_GRID_MAX 150
#define PLAN_NEIGHBOURS_MAX 64
#define PLAN_SCRATCH_MOST (512 << 10) /* bytes a thread, of a plan that is chosen untuned */

/* Every plan of the grid, each once, in a fixed order; at most PLAN_GRID_MAX. Returns their number; 0 where code is not
 * generated (portable). */
size_t plan_space_grid(const ffn_spec *spec, ffn_isa isa, ffn_n_class n_class, ffn_plan plans[PLAN_GRID_MAX]);

/* The plan of the grid that the cost model (plan_cost.h) finds, one axis at a time; what ffn_plan_make gives. False
 * where there is none. */
bool plan_space_best(const ffn_spec *spec, ffn_isa isa, ffn_n_class n_class, const ffn_machine *machine,
                     ffn_plan *best);

/* Plans one step away from `plan` along each axis of the space, which is finer than the grid: another list of tiles,
 * the next smaller and larger block, one step of unrolling or prefetch. */
size_t plan_space_neighbours(const ffn_spec *spec, const ffn_plan *plan, ffn_plan plans[PLAN_NEIGHBOURS_MAX]);

/* Whether a is simpler than b, for ties: fewer tiles, then less unrolling, less prefetch, larger blocks, then the text.
 */
bool plan_space_simpler(const ffn_plan *a, const ffn_plan *b);

#endif
