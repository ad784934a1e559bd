/* fallback.h: the portable kernel: plain C, any spec, any CPU, the same bits as generated code */
#ifndef FFN_FALLBACK_H
#define FFN_FALLBACK_H

#include "formula.h"
#include "packed.h"
#include "plan.h"

/* Everything here is stateless; `graph` is the built activation of the spec, `layout` its packed_layout. Scratch is
 * fallback_scratch_bytes(spec) long, FFN_SCRATCH_ALIGN aligned, and does not grow with n. Same contracts as the
 * entries in image.h. */
size_t fallback_scratch_bytes(const ffn_spec *spec);
void fallback_run(const ffn_spec *spec, const packed_layout *layout, const formula_graph *graph, const float *x,
                  int64_t ldx, float *y, int64_t ldy, const void *packed, void *scratch, int64_t row_begin,
                  int64_t row_end);
void fallback_expand(const ffn_spec *spec, const packed_layout *layout, const formula_graph *graph, const float *x,
                     int64_t ldx, const void *packed, float *hidden, void *scratch, int64_t n, int64_t col_begin,
                     int64_t col_end);
void fallback_contract(const ffn_spec *spec, const packed_layout *layout, const float *hidden, const void *packed,
                       float *y, int64_t ldy, void *scratch, int64_t n, int64_t col_begin, int64_t col_end);

/* a * b + c rounded once, without an FMA unit and without libm; to nearest even whatever else the CPU has. */
float softfma(float a, float b, float c);

#endif
