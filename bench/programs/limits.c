/* limits.c: what loops written by hand, with everything in their favour, make of this core: the limit of each regime
 *
 *   bench_limits [SECONDS]
 *
 * Tiles of rows by panels, of AVX-512 where the CPU has it, else AVX2, x laid out for them ([term][row], one line after
 * the other), one matrix, no activation, no bias. `hot`: x and panels in L1, or panels from L2: how near arithmetic
 * alone comes to the FMA peak where operands are loaded at all. `few rows`: panels from memory, sums of a group in L1;
 * all tiles, chunks and numbers of streams that are prefetched side by side are tried, and the best counts. What a
 * kernel reaches, it reaches beside this (docs/performance.md). x86-64. */
#include "buffers.h"
#include "hand_sweep.h"
#include "probes.h"
#include "rounds.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define PEAK_TURNS 20000
#define FEW_BYTES (INT64_C(96) << 20) /* of panels: far more than L3 holds */
enum { FEW_TERMS = 2048, FEW_ROWS = 16, ROUNDS_MIN = 5 };

static void sweep_call(void *self) {
    hand_sweep_run(self);
}

static void peak_call(void *self) {
    ((const bench_probes *)self)->peak.loop(PEAK_TURNS);
}

typedef struct reader {
    bench_read read;
    const char *from;
} reader;

static void read_call(void *self) {
    const reader *r = self;
    r->read(r->from, FEW_BYTES);
}

static double flops_of(const hand_sweep *s) {
    return 2.0 * (double)(s->rows * s->terms * s->count * HAND_PANEL);
}

/* Panels of a whole sum from L1 and from L2, one tile. */
static void hot(const bench_probes *probes, const hand_tiles *tiles, float *x, float *y, const char *panels,
                double seconds) {
    static const struct {
        const char *name;
        int64_t terms, panels; /* 1: those of one tile */
    } cases[] = {{"L1, 256 terms", 256, 1}, {"L2, 256 terms", 256, 16}, {"L2, 768 terms", 768, 6}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hand_sweep s = {.tiles = *tiles,
                        .x = x,
                        .y = y,
                        .ldy = HAND_STREAMS * HAND_PANEL,
                        .y_stays = true,
                        .panels = panels,
                        .stride = cases[i].terms * HAND_LINE,
                        .count = cases[i].panels > 1 ? cases[i].panels : tiles->panels,
                        .rows = tiles->rows,
                        .terms = cases[i].terms,
                        .chunk = cases[i].terms};
        bench_contender both[] = {{.call = peak_call, .self = (void *)(uintptr_t)probes},
                                  {.call = sweep_call, .self = &s}};
        bench_rounds(both, 2, BENCH_CLOCK_THREAD, ROUNDS_MIN, seconds);
        const double peak = probes->peak.flops * PEAK_TURNS / both[0].ms_min, reached = flops_of(&s) / both[1].ms_min;
        printf("%d rows by %d panels, %-14s %5.1f GFLOP/s of %5.1f: %.1f %%\n", tiles->rows, tiles->panels,
               cases[i].name, reached * 1e-6, peak * 1e-6, 100 * reached / peak);
    }
}

static void few_rows(const bench_probes *probes, const hand_tiles tiles[HAND_TILES_MAX], float *x, float *y,
                     const char *panels, double seconds) {
    static const int cases[] = {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, FEW_ROWS};
    static const int chunks[] = {32, 64, 128, 256, FEW_TERMS};
    enum { TILES = HAND_TILES_MAX, CHUNKS = 5, VARIANTS = 2 * TILES * CHUNKS };
    const int64_t panel_bytes = (int64_t)FEW_TERMS * HAND_LINE;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static hand_sweep sweeps[VARIANTS];
        static bench_contender all[VARIANTS + 9];
        static reader readers[8];
        int count = 0, best = 0;
        for (int v = 0; v < VARIANTS; v++) {
            if (!tiles[v / 2 % TILES].rows)
                continue;
            sweeps[count] = (hand_sweep){.tiles = tiles[v / 2 % TILES],
                                         .x = x,
                                         .y = y,
                                         .ldy = HAND_STREAMS * HAND_PANEL,
                                         .y_stays = true,
                                         .panels = panels,
                                         .stride = panel_bytes,
                                         .count = FEW_BYTES / panel_bytes,
                                         .rows = cases[i],
                                         .terms = FEW_TERMS,
                                         .chunk = chunks[v / 2 / TILES],
                                         .ahead = v % 2 ? HAND_INTO_L1 : HAND_NOTHING};
            all[count] = (bench_contender){.call = sweep_call, .self = &sweeps[count]};
            count++;
        }
        all[count++] = (bench_contender){.call = peak_call, .self = (void *)(uintptr_t)probes};
        const int peak_place = count - 1;
        for (int r = 0; probes->reads[r] && r < 8; r++) {
            readers[r] = (reader){probes->reads[r], panels};
            all[count++] = (bench_contender){.call = read_call, .self = &readers[r]};
        }
        bench_rounds(all, count, BENCH_CLOCK_THREAD, ROUNDS_MIN, seconds);
        double read_ms = INFINITY;
        for (int r = peak_place + 1; r < count; r++)
            read_ms = fmin(read_ms, all[r].ms_min);
        for (int v = 1; v < peak_place; v++)
            best = all[v].ms_min < all[best].ms_min ? v : best;
        const hand_sweep *s = &sweeps[best];
        const double peak = probes->peak.flops * PEAK_TURNS / all[peak_place].ms_min;
        const double roof_ms = fmax(read_ms, flops_of(s) / peak);
        printf(
            "%2d rows, weights from memory: %4.1f %% of the roof, medians %4.1f %% (%.1f GB/s of %.1f, %.1f GFLOP/s of "
            "%.1f; tiles of %d rows by %d panels, chunks of %lld terms, %d panels side by side, %s)\n",
            cases[i], 100 * roof_ms / all[best].ms_min, 100 * roof_ms / all[best].ms_median,
            (double)FEW_BYTES / all[best].ms_min * 1e-6, (double)FEW_BYTES / read_ms * 1e-6,
            flops_of(s) / all[best].ms_min * 1e-6, peak * 1e-6, s->tiles.rows, s->tiles.panels, (long long)s->chunk,
            s->tiles.group, s->ahead ? "the next ones prefetched" : "no prefetch");
    }
}

int main(int argc, char **argv) {
    const hand_tiles *tiles = hand_few_tiles(ffn_isa_best());
    const bench_probes *probes = tiles ? bench_probes_of(tiles->isa) : NULL;
    const double seconds = argc > 1 ? atof(argv[1]) : 2;
    float *x = bench_alloc((size_t)FEW_ROWS * FEW_TERMS * sizeof(float)),
          *y = bench_alloc((size_t)FEW_ROWS * HAND_STREAMS * HAND_LINE);
    char *panels = bench_alloc((size_t)FEW_BYTES + (1 << 20));
    if (!probes || !x || !y || !panels) {
        puts(probes ? "bench_limits: no memory" : "bench_limits: neither AVX2 nor AVX-512 here");
        return probes ? 1 : 0;
    }
    bench_fill(x, FEW_ROWS * FEW_TERMS, 1, 1);
    bench_fill((float *)(void *)panels, FEW_BYTES / (int64_t)sizeof(float), 1, 2);
    hot(probes, tiles, x, y, panels, seconds);
    few_rows(probes, tiles, x, y, panels, seconds);
    bench_free(x);
    bench_free(y);
    bench_free(panels);
    return 0;
}
