/* tune_heat.h: results -> the picture of GFLOP/s by tile */
#ifndef TUNE_HEAT_H
#define TUNE_HEAT_H

#include "tune_record.h"

/* The best of each first tile, rows x vectors. All zero at first; free(cells). */
typedef struct tune_heat {
    struct plot_cell *cells;
    char (*plans)[TUNE_PLAN_BYTES]; /* of the cells; free too */
    size_t count;
    bool failed; /* no memory */
} tune_heat;

void tune_heat_add(tune_heat *heat, const tune_record *record);
ffn_status tune_heat_plot(tune_heat *heat, const tune_record *best, const char *path, ffn_diag *diag);
void tune_heat_clear(tune_heat *heat);

#endif
