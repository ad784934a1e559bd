/* hand_tile.h: a tile of rows by panels, written by hand: what the multiply-adds of a product cost at least
 *
 * In assembly, so no compiler and no flag changes what is measured. x is laid out for the tile: all rows of one term,
 * then those of the next. Vectors of 256 bits: up to 6 rows by one panel; of 512: 14 by 1 or 2, 6 by 4. */
#ifndef BENCH_HAND_TILE_H
#define BENCH_HAND_TILE_H

#include "ffn.h"

#include <stdint.h>

enum { HAND_ROWS = 14, HAND_PANEL = 16, HAND_TURN = 4, HAND_STREAMS = 4 };
enum { HAND_LINE = 64 }; /* bytes of a term of a panel, and of a line of a cache */

/* What a tile fetches in each turn. Of 256 bits, into L1: a line from that many panels. Of 512: lines of each panel of
 * the tile, into L1 or L2. */
typedef enum hand_fetch {
    HAND_NO_FETCH,
    HAND_FETCH_1,
    HAND_FETCH_2,
    HAND_FETCH_4,
    HAND_FETCH_1_L2,
    HAND_FETCHES
} hand_fetch;

/* c[rows][panels x 16] += a[terms][rows] * b[panels][terms][16], rows of c `ldc` floats and panels `stride` bytes
 * apart; terms: a multiple of HAND_TURN. What is fetched begins at `next`, which moves on by `step` bytes in each turn,
 * and each `stride` bytes further. */
typedef void (*hand_tile)(const float *a, const float *b, float *c, int64_t ldc, int64_t terms, const char *next,
                          int64_t step, int64_t stride);

/* NULL where there is none such, and where the compiler makes code for other CPUs than x86-64. AVX2 or AVX512: runs on
 * CPUs that have it. */
hand_tile hand_tile_of(ffn_isa isa, int rows, int panels, hand_fetch fetch);

#endif
