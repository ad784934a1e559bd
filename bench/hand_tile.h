/* hand_tile.h: a tile of rows by one panel, written by hand: what the multiply-adds of a product cost at least
 *
 * Up to six rows by 16 columns, 8 lanes, in assembly, so no compiler and no flag changes what is measured. x is laid
 * out for the tile: all rows of one term, then those of the next. */
#ifndef BENCH_HAND_TILE_H
#define BENCH_HAND_TILE_H

#include <stdint.h>

enum { HAND_ROWS = 6, HAND_PANEL = 16, HAND_TURN = 4, HAND_STREAMS = 4 };
enum { HAND_LINE = 64 }; /* bytes of a term of a panel, and of a line of a cache */

/* c[rows][16] += a[terms][rows] * b[terms][16], rows of c `ldc` floats apart; terms: a multiple of HAND_TURN. In each
 * turn a line is fetched into L1 from `next`, which moves on by `step` bytes, and one from each `stride` bytes further,
 * as many as there are streams.
 */
typedef void (*hand_tile)(const float *a, const float *b, float *c, int64_t ldc, int64_t terms, const char *next,
                          int64_t step, int64_t stride);

/* `rows` from 1 to HAND_ROWS; `streams` 0 (nothing is fetched), 1, 2 or 4. NULL for others, and where the compiler
 * makes code for other CPUs than x86-64. Runs on CPUs with AVX2 and FMA. */
hand_tile hand_tile_of(int rows, int streams);

#endif
