/* hand_sweep.c: see hand_sweep.h */
#include "hand_sweep.h"

#include <stddef.h>

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

const hand_tiles *hand_few_tiles(ffn_isa isa) {
    static const hand_tiles avx2[HAND_TILES_MAX] = {{FFN_ISA_AVX2, 6, 1, 1},
                                                    {FFN_ISA_AVX2, 6, 1, 2},
                                                    {FFN_ISA_AVX2, 6, 1, 4}},
                            avx512[HAND_TILES_MAX] = {{FFN_ISA_AVX512, 8, 2, 2},
                                                      {FFN_ISA_AVX512, 6, 4, 4},
                                                      {FFN_ISA_AVX512, 14, 2, 2},
                                                      {FFN_ISA_AVX512, 14, 1, 1}};
    if (!hand_tile_of(isa, 1, 1, HAND_NO_FETCH) || !ffn_isa_supported(isa))
        return NULL;
    return isa == FFN_ISA_AVX2 ? avx2 : avx512;
}

/* `bytes` of each stream in a turn: as many lines as hold them. */
static hand_fetch fetch_of(const hand_sweep *s, int64_t bytes) {
    static const hand_fetch of_streams[HAND_STREAMS + 1] = {[1] = HAND_FETCH_1, [2] = HAND_FETCH_2, [4] = HAND_FETCH_4};
    if (s->ahead == HAND_NOTHING)
        return HAND_NO_FETCH;
    if (s->tiles.isa == FFN_ISA_AVX2)
        return of_streams[s->tiles.group];
    if (s->ahead == HAND_INTO_L2)
        return HAND_FETCH_1_L2;
    return bytes > 2 * HAND_LINE ? HAND_FETCH_4 : bytes > HAND_LINE ? HAND_FETCH_2 : HAND_FETCH_1;
}

/* Terms k .. k + terms of one group; `next` is fetched from on the way, all of it by all tiles together. */
static void run_chunk(const hand_sweep *s, const char *group, int64_t panels, float *y, int64_t k, int64_t terms,
                      const char *next) {
    const int64_t down = (s->rows + s->tiles.rows - 1) / s->tiles.rows;
    const int64_t across = panels / s->tiles.panels + panels % s->tiles.panels;
    const int64_t bytes = terms * HAND_LINE / (down * across); /* of each stream, in the time of one tile */
    const int64_t step = bytes / (terms / HAND_TURN);
    const hand_fetch fetch = fetch_of(s, step);
    int64_t row = 0;
    for (int64_t t = 0; t < down; t++) {
        const int64_t height = (s->rows + t) / down;
        int64_t p = 0;
        for (int64_t i = 0; i < across; i++) {
            const int64_t wide = panels - p < s->tiles.panels ? 1 : s->tiles.panels;
            hand_tile_of(s->tiles.isa, (int)height, (int)wide, fetch)(
                s->x + row * s->terms + k * height,
                (const float *)(const void *)(group + p * s->stride + k * HAND_LINE), y + row * s->ldy + p * HAND_PANEL,
                s->ldy, terms, next + (t * across + i) * bytes, step, s->stride);
            p += wide;
        }
        row += height;
    }
}

void hand_sweep_run(const hand_sweep *s) {
    const int64_t group = s->tiles.group;
    float *y = s->y;
    for (int64_t p = 0; p < s->count; p += group) {
        const char *panels = s->panels + p * s->stride;
        for (int64_t k = 0; k < s->terms; k += s->chunk) {
            const bool last = k + s->chunk >= s->terms;
            const char *next = last ? panels + group * s->stride : panels + (k + s->chunk) * HAND_LINE;
            run_chunk(s, panels, smaller(group, s->count - p), y, k, smaller(s->chunk, s->terms - k), next);
        }
        if (!s->y_stays)
            y += group * HAND_PANEL;
    }
}
