/* fallback_tile.h: the one place where the portable kernel multiplies: a tile of rows x one panel of 16 columns
 *
 *     sums[r][c] = fma(a[r lda + t step], panel[t step][c], sums[r][c])     for t = 0 .. terms - 1 in this order
 *
 * There is a tile for the FMA unit and one for CPUs without; their bits are the same, so everything around them stands
 * once, in fallback.c. */
#ifndef FFN_FALLBACK_TILE_H
#define FFN_FALLBACK_TILE_H

#include "fallback.h"

enum { FALLBACK_TILE_ROWS = 6 }; /* 6 rows of two 8-lane vectors: 12 of AVX2's 16 registers accumulate */

/* rows is 1 .. FALLBACK_TILE_ROWS; panel is aligned to 64 bytes, sums[FALLBACK_TILE_ROWS][FFN_PANEL] too. */
typedef void (*fallback_tile)(int64_t rows, const float *a, int64_t lda, const float *panel, int64_t terms,
                              int64_t step, float *sums);

/* The FMA unit's tile where this CPU has one, else softfma's. */
fallback_tile fallback_tile_best(void);
void fallback_tile_soft(int64_t rows, const float *a, int64_t lda, const float *panel, int64_t terms, int64_t step,
                        float *sums);

/* What fallback_run, _expand and _contract do, with a tile of the caller's choice. */
void fallback_run_by(fallback_tile tile, const ffn_spec *spec, const packed_layout *layout, const formula_graph *graph,
                     const float *x, int64_t ldx, float *y, int64_t ldy, const void *packed, void *scratch,
                     int64_t row_begin, int64_t row_end);
void fallback_expand_by(fallback_tile tile, const ffn_spec *spec, const packed_layout *layout,
                        const formula_graph *graph, const float *x, int64_t ldx, const void *packed, float *hidden,
                        void *scratch, int64_t n, int64_t col_begin, int64_t col_end);
void fallback_contract_by(fallback_tile tile, const ffn_spec *spec, const packed_layout *layout, const float *hidden,
                          const void *packed, float *y, int64_t ldy, int64_t n, int64_t col_begin, int64_t col_end);

#endif
