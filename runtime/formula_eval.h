/* formula_eval.h: formula_eval with the choice of FMA in the caller's hand, so that both ways can be compared */
#ifndef FFN_FORMULA_EVAL_H
#define FFN_FORMULA_EVAL_H

#include "formula.h"

/* EVAL_UNIT may be asked for only where eval_has_unit(). */
typedef enum eval_fma { EVAL_SOFT, EVAL_UNIT } eval_fma;
bool eval_has_unit(void);
void formula_eval_by(eval_fma fma, const formula_graph *graph, int64_t count, const float *g, const float *u,
                     float *out);

#endif
