/* hand_sweep.h: rows by panels as tiles by hand, chunk of terms after chunk, several panels side by side */
#ifndef BENCH_HAND_SWEEP_H
#define BENCH_HAND_SWEEP_H

#include "hand_tile.h"

#include <stdbool.h>

typedef struct hand_sweep {
    const float *x; /* [tile][term][row of the tile], HAND_ROWS rows in a tile or as near to equal as goes */
    float *y;       /* [row][panel][16], rows `ldy` floats apart; y_stays: every group has the place of the first */
    int64_t ldy;
    bool y_stays;
    const char *panels; /* each [terms][16] floats */
    int64_t stride;     /* bytes from one to the next */
    int64_t count;
    int64_t rows, terms;
    int64_t chunk; /* terms that are done in all panels of a group before the next ones; a multiple of HAND_TURN */
    int streams;   /* panels of a group */
    bool fetch;    /* the next chunk, while this one is worked on */
} hand_sweep;

void hand_sweep_run(const hand_sweep *s);

#endif
