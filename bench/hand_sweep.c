/* hand_sweep.c: see hand_sweep.h */
#include "hand_sweep.h"

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Terms k .. k + terms of one group; `next` is fetched from on the way, all of it by all tiles together. */
static void run_chunk(const hand_sweep *s, const char *group, int64_t panels, float *y, int64_t k, int64_t terms,
                      const char *next) {
    const int64_t tiles = (s->rows + HAND_ROWS - 1) / HAND_ROWS;
    const int64_t bytes = terms * HAND_LINE / (tiles * panels); /* of each stream, in the time of one tile */
    const int64_t step = bytes / (terms / HAND_TURN);
    int64_t row = 0;
    for (int64_t t = 0; t < tiles; t++) {
        const int64_t height = (s->rows + t) / tiles;
        const hand_tile run = hand_tile_of((int)height, s->fetch ? s->streams : 0);
        for (int64_t p = 0; p < panels; p++)
            run(s->x + row * s->terms + k * height,
                (const float *)(const void *)(group + p * s->stride + k * HAND_LINE), y + row * s->ldy + p * HAND_PANEL,
                s->ldy, terms, next + (t * panels + p) * bytes, step, s->stride);
        row += height;
    }
}

void hand_sweep_run(const hand_sweep *s) {
    float *y = s->y;
    for (int64_t p = 0; p < s->count; p += s->streams) {
        const char *group = s->panels + p * s->stride;
        for (int64_t k = 0; k < s->terms; k += s->chunk) {
            const bool last = k + s->chunk >= s->terms;
            const char *next = last ? group + s->streams * s->stride : group + (k + s->chunk) * HAND_LINE;
            run_chunk(s, group, smaller(s->streams, s->count - p), y, k, smaller(s->chunk, s->terms - k), next);
        }
        if (!s->y_stays)
            y += s->streams * HAND_PANEL;
    }
}
