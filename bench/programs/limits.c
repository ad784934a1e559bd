/* limits.c: what loops written by hand, with everything in their favour, make of this core: the limit of each regime
 *
 *   bench_limits [SECONDS]
 *
 * A tile of rows by one panel, 8 lanes, x laid out for it ([term][row], one line after the other), one matrix, no
 * activation, no bias. `hot`: x and panels in L1, or panels from L2: how near arithmetic alone comes to the FMA peak
 * where operands are loaded at all. `few rows`: panels from memory, sums of a group in L1; all chunks and numbers of
 * streams that are prefetched side by side are tried, and the best counts. What a kernel reaches, it reaches beside
 * this (docs/performance.md). x86-64 with AVX2 and FMA. */
#include "buffers.h"
#include "probes.h"
#include "rounds.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef __x86_64__
int main(void) {
    puts("bench_limits: x86-64 only");
    return 0;
}
#else

#define PEAK_TURNS 20000
#define FEW_BYTES (INT64_C(96) << 20) /* of panels: far more than L3 holds */
enum { PANEL = 16, FEW_TERMS = 2048, ROUNDS_MIN = 5 };

/* clang-format off */
#define SUMS(DO) DO("0", "1", "0") DO("2", "3", "1") DO("4", "5", "2") DO("6", "7", "3")
#define SUMS_4(DO) SUMS(DO)
#define SUMS_5(DO) SUMS(DO) DO("8", "9", "4")
#define SUMS_6(DO) SUMS_5(DO) DO("10", "11", "5")
#define LOAD(A, B, R) "vmovups 64*" R "(%[c]), %%ymm" A "\n\t" "vmovups 32+64*" R "(%[c]), %%ymm" B "\n\t"
#define STORE(A, B, R) "vmovups %%ymm" A ", 64*" R "(%[c])\n\t" "vmovups %%ymm" B ", 32+64*" R "(%[c])\n\t"
#define ROW(ROWS, T, A, B, R) "vbroadcastss 4*" ROWS "*" T "+4*" R "(%[a]), %%ymm14\n\t" \
                              "vfmadd231ps %%ymm12, %%ymm14, %%ymm" A "\n\t" "vfmadd231ps %%ymm13, %%ymm14, %%ymm" B "\n\t"
#define TERM(ROWS, T) "vmovaps 64*" #T "(%[b]), %%ymm12\n\t" "vmovaps 32+64*" #T "(%[b]), %%ymm13\n\t" SUMS_##ROWS(ROW_##ROWS##_##T)
#define ROW_4_0(A, B, R) ROW("4", "0", A, B, R)
#define ROW_4_1(A, B, R) ROW("4", "1", A, B, R)
#define ROW_4_2(A, B, R) ROW("4", "2", A, B, R)
#define ROW_4_3(A, B, R) ROW("4", "3", A, B, R)
#define ROW_5_0(A, B, R) ROW("5", "0", A, B, R)
#define ROW_5_1(A, B, R) ROW("5", "1", A, B, R)
#define ROW_5_2(A, B, R) ROW("5", "2", A, B, R)
#define ROW_5_3(A, B, R) ROW("5", "3", A, B, R)
#define ROW_6_0(A, B, R) ROW("6", "0", A, B, R)
#define ROW_6_1(A, B, R) ROW("6", "1", A, B, R)
#define ROW_6_2(A, B, R) ROW("6", "2", A, B, R)
#define ROW_6_3(A, B, R) ROW("6", "3", A, B, R)
#define FETCH_0
#define FETCH_1 "prefetcht0 (%[next])\n\t"
#define FETCH_2 FETCH_1 "prefetcht0 (%[next], %[stride])\n\t"
#define FETCH_4 FETCH_2 "prefetcht0 (%[next], %[stride], 2)\n\t" "prefetcht0 (%[next], %[far])\n\t"

/* ROWS rows by one panel, four terms in a turn; LINES lines of each of STREAMS panels fetched in it. */
#define TILE(ROWS, STREAMS)                                                                                    \
    static void tile_##ROWS##_##STREAMS(const float *a, const float *b, float *c, int64_t terms,               \
                                        const char *next, int64_t step, int64_t stride) {                      \
        int64_t turns = terms / 4;                                                                             \
        __asm__ volatile(SUMS_##ROWS(LOAD)                                                                     \
                         "1:\n\t" FETCH_##STREAMS                                                              \
                         TERM(ROWS, 0) TERM(ROWS, 1) TERM(ROWS, 2) TERM(ROWS, 3)                               \
                         "add $4*4*" #ROWS ", %[a]\n\t"                                                        \
                         "add $4*64, %[b]\n\t"                                                                 \
                         "add %[step], %[next]\n\t"                                                            \
                         "dec %[turns]\n\t"                                                                    \
                         "jnz 1b\n\t" SUMS_##ROWS(STORE)                                                       \
                         "vzeroupper"                                                                          \
                         : [a] "+r"(a), [b] "+r"(b), [next] "+r"(next), [turns] "+r"(turns)                    \
                         : [c] "r"(c), [step] "r"(step), [stride] "r"(stride), [far] "r"(3 * stride)           \
                         : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",     \
                           "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "cc", "memory");                       \
    }
/* clang-format on */
TILE(4, 0)
TILE(4, 1)
TILE(4, 2)
TILE(4, 4)
TILE(5, 0)
TILE(5, 1)
TILE(5, 2)
TILE(5, 4)
TILE(6, 0)
TILE(6, 1)
TILE(6, 2)
TILE(6, 4)

typedef void (*tile)(const float *a, const float *b, float *c, int64_t terms, const char *next, int64_t step,
                     int64_t stride);
static const struct {
    int rows;
    tile by_streams[5];
} tiles[] = {
    {4, {tile_4_0, tile_4_1, tile_4_2, NULL, tile_4_4}},
    {5, {tile_5_0, tile_5_1, tile_5_2, NULL, tile_5_4}},
    {6, {tile_6_0, tile_6_1, tile_6_2, NULL, tile_6_4}},
};

/* NULL: there is none. */
static tile tile_of(int rows, int streams) {
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++)
        if (tiles[i].rows == rows)
            return tiles[i].by_streams[streams];
    return NULL;
}

/* So many rows as tiles, over panels of `terms`, `groups` times `streams` of them side by side. */
typedef struct sweep {
    const float *x;
    float *y;
    const char *panels;
    int rows, tile_rows[4], streams; /* heights of the row tiles, ended by 0; panels of a group */
    int64_t terms, chunk, groups;
    bool fetch;
} sweep;

static void sweep_call(void *self) {
    const sweep *s = self;
    const int64_t stride = s->terms * PANEL * (int64_t)sizeof(float);
    int tile_count = 0;
    while (s->tile_rows[tile_count])
        tile_count++;
    for (int64_t g = 0; g < s->groups; g++) {
        const char *group = s->panels + g * s->streams * stride;
        for (int64_t k = 0; k < s->terms; k += s->chunk) {
            const bool last = k + s->chunk >= s->terms;
            const char *next = last ? group + s->streams * stride : group + (k + s->chunk) * PANEL * 4;
            const int64_t lines = s->chunk / (tile_count * s->streams); /* of each panel, by one tile and panel */
            int part = 0, row = 0;
            for (int t = 0; t < tile_count; row += s->tile_rows[t++]) {
                const tile run = tile_of(s->tile_rows[t], s->fetch ? s->streams : 0);
                for (int p = 0; p < s->streams; p++, part++)
                    run(s->x + row * s->terms + k * s->tile_rows[t],
                        (const float *)(const void *)(group + p * stride + k * PANEL * 4),
                        s->y + (row * s->streams + p * s->tile_rows[t]) * PANEL, s->chunk, next + part * lines * 64,
                        lines * 64 * 4 / s->chunk, stride);
            }
        }
    }
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

static double flops_of(const sweep *s) {
    return 2.0 * s->rows * (double)(s->terms * PANEL * s->streams * s->groups);
}

/* Panels of a whole sum from L1 and from L2, six rows, 1 and 11 tiles over each panel. */
static void hot(const bench_probes *probes, float *x, float *y, const char *panels, double seconds) {
    static const struct {
        const char *name;
        int64_t terms, groups;
    } cases[] = {{"L1, 256 terms", 256, 1}, {"L2, 256 terms", 256, 16}, {"L2, 768 terms", 768, 6}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sweep s = {x, y, panels, 6, {6}, 1, cases[i].terms, cases[i].terms, cases[i].groups, false};
        bench_contender both[] = {{.call = peak_call, .self = (void *)(uintptr_t)probes},
                                  {.call = sweep_call, .self = &s}};
        bench_rounds(both, 2, BENCH_CLOCK_THREAD, ROUNDS_MIN, seconds);
        const double peak = probes->peak.flops * PEAK_TURNS / both[0].ms_min, reached = flops_of(&s) / both[1].ms_min;
        printf("six rows, one panel at a time, %-14s %5.1f GFLOP/s of %5.1f: %.1f %%\n", cases[i].name, reached * 1e-6,
               peak * 1e-6, 100 * reached / peak);
    }
}

static void few_rows(const bench_probes *probes, float *x, float *y, const char *panels, double seconds) {
    static const struct {
        int rows, tile_rows[4];
    } cases[] = {{4, {4}}, {5, {5}}, {6, {6}}, {8, {4, 4}}, {10, {5, 5}}, {12, {6, 6}}, {16, {6, 5, 5}}};
    static const int streams[] = {1, 2, 4}, chunks[] = {32, 64, 128, 256, FEW_TERMS};
    enum { STREAMS = 3, CHUNKS = 5, VARIANTS = 2 * STREAMS * CHUNKS };
    const int64_t panel_bytes = (int64_t)FEW_TERMS * PANEL * (int64_t)sizeof(float);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static sweep sweeps[VARIANTS];
        static bench_contender all[VARIANTS + 9];
        static reader readers[8];
        int count = 0, best = 0;
        for (int v = 0; v < VARIANTS; v++, count++) {
            const int n = streams[v / 2 % STREAMS];
            sweeps[v] = (sweep){x, y, panels, cases[i].rows, {0}, n, FEW_TERMS, chunks[v / 2 / STREAMS], 0, v % 2 == 1};
            sweeps[v].groups = FEW_BYTES / panel_bytes / n;
            for (int t = 0; t < 4; t++)
                sweeps[v].tile_rows[t] = cases[i].tile_rows[t];
            all[count] = (bench_contender){.call = sweep_call, .self = &sweeps[v]};
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
        for (int v = 1; v < VARIANTS; v++)
            best = all[v].ms_min < all[best].ms_min ? v : best;
        const sweep *s = &sweeps[best];
        const double peak = probes->peak.flops * PEAK_TURNS / all[peak_place].ms_min;
        const double roof_ms = fmax(read_ms, flops_of(s) / peak);
        printf(
            "%2d rows, weights from memory: %4.1f %% of the roof, medians %4.1f %% (%.1f GB/s of %.1f, %.1f GFLOP/s of "
            "%.1f; chunks of %lld terms, %d panels side by side, %s)\n",
            cases[i].rows, 100 * roof_ms / all[best].ms_min, 100 * roof_ms / all[best].ms_median,
            (double)FEW_BYTES / all[best].ms_min * 1e-6, (double)FEW_BYTES / read_ms * 1e-6,
            flops_of(s) / all[best].ms_min * 1e-6, peak * 1e-6, (long long)s->chunk, s->streams,
            s->fetch ? "the next ones prefetched" : "no prefetch");
    }
}

int main(int argc, char **argv) {
    const bench_probes *probes = bench_probes_of(FFN_ISA_AVX2);
    const double seconds = argc > 1 ? atof(argv[1]) : 2;
    float *x = bench_alloc((size_t)16 * FEW_TERMS * sizeof(float)),
          *y = bench_alloc((size_t)16 * 4 * PANEL * sizeof(float));
    char *panels = bench_alloc((size_t)FEW_BYTES + (1 << 20));
    if (!probes || !x || !y || !panels) {
        puts(probes ? "bench_limits: no memory" : "bench_limits: no AVX2 and FMA here");
        return probes ? 1 : 0;
    }
    bench_fill(x, 16 * FEW_TERMS, 1, 1);
    bench_fill((float *)(void *)panels, FEW_BYTES / (int64_t)sizeof(float), 1, 2);
    hot(probes, x, y, panels, seconds);
    few_rows(probes, x, y, panels, seconds);
    bench_free(x);
    bench_free(y);
    bench_free(panels);
    return 0;
}
#endif
