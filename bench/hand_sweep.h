/* hand_sweep.h: rows by panels as tiles by hand, chunk of terms after chunk, several panels side by side */
#ifndef BENCH_HAND_SWEEP_H
#define BENCH_HAND_SWEEP_H

#include "hand_tile.h"

#include <stdbool.h>

/* The tiles of a sweep. */
typedef struct hand_tiles {
    ffn_isa isa;
    int rows;   /* at most, or as near to equal as goes */
    int panels; /* of a tile; those left over go one by one */
    int group;  /* panels of which a chunk is done before the next one; a multiple of `panels` */
} hand_tiles;

/* The tiles that are worth a try for few rows, the one with the most sums in flight first; up to one without rows, at
 * most HAND_TILES_MAX. NULL where no loops of this ISA run here. */
enum { HAND_TILES_MAX = 4 };
const hand_tiles *hand_few_tiles(ffn_isa isa);

/* What a sweep fetches while it works on a chunk: the next one into L1, or into L2. */
typedef enum hand_ahead { HAND_NOTHING, HAND_INTO_L1, HAND_INTO_L2 } hand_ahead;

typedef struct hand_sweep {
    hand_tiles tiles;
    hand_ahead ahead; /* AVX2 has L1 alone */
    const float *x;   /* [tile][term][row of the tile] */
    float *y;         /* [row][panel][16], rows `ldy` floats apart; y_stays: every group has the place of the first */
    int64_t ldy;
    bool y_stays;
    const char *panels; /* each [terms][16] floats */
    int64_t stride;     /* bytes from one to the next */
    int64_t count;
    int64_t rows, terms;
    int64_t chunk; /* terms that are done in all panels of a group before the next ones; a multiple of HAND_TURN */
} hand_sweep;

void hand_sweep_run(const hand_sweep *s);

#endif
