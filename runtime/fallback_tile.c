/* fallback_tile.c: the tiles of the portable kernel, for the FMA units of x86-64 and AArch64 and for no FMA unit
 *
 * The first is one text over a vector type; each height is compiled on its own, so that its accumulators stay in
 * registers. */
#include "fallback_tile.h"

#include "cpu.h"
#include "fallback_softfma.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define TILE_TARGET __attribute__((target("avx2,fma")))
#define TILE_NEEDS (FFN_CPU_AVX2 | FFN_CPU_FMA | FFN_CPU_YMM_STATE)
typedef __m256 lanes;
#define lanes_load(from) _mm256_load_ps(from)
#define lanes_store(to, value) _mm256_store_ps(to, value)
#define lanes_spread(from) _mm256_broadcast_ss(from)
#define lanes_fma(a, b, c) _mm256_fmadd_ps(a, b, c)
#elif defined(__aarch64__)
#include <arm_neon.h>
#define TILE_TARGET
#define TILE_NEEDS FFN_CPU_NEON
typedef float32x4_t lanes;
#define lanes_load(from) vld1q_f32(from)
#define lanes_store(to, value) vst1q_f32(to, value)
#define lanes_spread(from) vld1q_dup_f32(from)
#define lanes_fma(a, b, c) vfmaq_f32(c, a, b)
#endif

void fallback_tile_soft(int64_t rows, const float *a, int64_t lda, const float *panel, int64_t terms, int64_t step,
                        float *sums) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t t = 0; t < terms; t++) {
            const float term = a[r * lda + t * step];
            const float *weights = panel + t * step * FFN_PANEL;
            for (int64_t c = 0; c < FFN_PANEL; c++)
                sums[r * FFN_PANEL + c] = fallback_softfma(term, weights[c], sums[r * FFN_PANEL + c]);
        }
}

#if defined(TILE_TARGET)

enum { LANES = sizeof(lanes) / sizeof(float), VECTORS = FFN_PANEL / LANES };

TILE_TARGET static inline __attribute__((always_inline)) void
tile_of(const int rows, const float *a, int64_t lda, const float *panel, int64_t terms, int64_t step, float *sums) {
    lanes sum[FALLBACK_TILE_ROWS][VECTORS];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < VECTORS; v++)
            sum[r][v] = lanes_load(sums + r * FFN_PANEL + v * LANES);
    for (int64_t t = 0; t < terms; t++) {
        lanes weights[VECTORS];
        for (int v = 0; v < VECTORS; v++)
            weights[v] = lanes_load(panel + v * LANES);
        for (int r = 0; r < rows; r++) {
            const lanes term = lanes_spread(a + r * lda);
            for (int v = 0; v < VECTORS; v++)
                sum[r][v] = lanes_fma(term, weights[v], sum[r][v]);
        }
        a += step;
        panel += step * FFN_PANEL;
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < VECTORS; v++)
            lanes_store(sums + r * FFN_PANEL + v * LANES, sum[r][v]);
}

TILE_TARGET static void tile_fma(int64_t rows, const float *a, int64_t lda, const float *panel, int64_t terms,
                                 int64_t step, float *sums) {
    switch (rows) {
    case 1:
        tile_of(1, a, lda, panel, terms, step, sums);
        break;
    case 2:
        tile_of(2, a, lda, panel, terms, step, sums);
        break;
    case 3:
        tile_of(3, a, lda, panel, terms, step, sums);
        break;
    case 4:
        tile_of(4, a, lda, panel, terms, step, sums);
        break;
    case 5:
        tile_of(5, a, lda, panel, terms, step, sums);
        break;
    default:
        tile_of(FALLBACK_TILE_ROWS, a, lda, panel, terms, step, sums);
        break;
    }
}

fallback_tile fallback_tile_best(void) {
    return (cpu_features() & TILE_NEEDS) == TILE_NEEDS ? tile_fma : fallback_tile_soft;
}

#else

fallback_tile fallback_tile_best(void) {
    return fallback_tile_soft;
}

#endif
