/* plan_cost.h: spec, plan, machine, rows -> the milliseconds that one thread should take
 *
 * A model: registers and load ports in the tiles, what each block makes travel between the cache levels, and the rate
 * of each level. Meant to order plans; the absolute figure is right within some tens of per cent. */
#ifndef FFN_PLAN_COST_H
#define FFN_PLAN_COST_H

#include "ffn.h"

/* `cold`: the weights come from beyond the last cache that could hold them, as in a model of many layers. */
double plan_cost_ms(const ffn_spec *spec, const ffn_plan *plan, const ffn_machine *machine, int64_t n, bool cold);

#endif
