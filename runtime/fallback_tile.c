/* fallback_tile.c: the tiles of the portable kernel, for the FMA units of x86-64 and AArch64 and for no FMA unit
 *
 * A row of a panel is a few named vectors and each height of a tile a function of named rows: gcc keeps arrays of
 * vectors in memory, at half the speed. */
#include "fallback_tile.h"

#include "cpu.h"
#include "fallback_softfma.h"

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

#if defined(__x86_64__)

#include <immintrin.h>

#define TILE_NEEDS (FFN_CPU_AVX2 | FFN_CPU_FMA | FFN_CPU_YMM_STATE)
#define TILE_TARGET __attribute__((target("avx2,fma")))
#define TILE_INLINE TILE_TARGET static inline __attribute__((always_inline))

typedef struct panel_row {
    __m256 a, b;
} panel_row;

TILE_INLINE panel_row row_load(const float *from) {
    return (panel_row){_mm256_load_ps(from), _mm256_load_ps(from + 8)};
}

TILE_INLINE void row_store(float *to, panel_row row) {
    _mm256_store_ps(to, row.a);
    _mm256_store_ps(to + 8, row.b);
}

TILE_INLINE panel_row row_fma(const float *term, panel_row weights, panel_row sum) {
    const __m256 terms = _mm256_broadcast_ss(term);
    return (panel_row){_mm256_fmadd_ps(terms, weights.a, sum.a), _mm256_fmadd_ps(terms, weights.b, sum.b)};
}

#elif defined(__aarch64__)

#include <arm_neon.h>

#define TILE_NEEDS FFN_CPU_NEON
#define TILE_TARGET
#define TILE_INLINE static inline __attribute__((always_inline))

typedef struct panel_row {
    float32x4_t a, b, c, d;
} panel_row;

TILE_INLINE panel_row row_load(const float *from) {
    return (panel_row){vld1q_f32(from), vld1q_f32(from + 4), vld1q_f32(from + 8), vld1q_f32(from + 12)};
}

TILE_INLINE void row_store(float *to, panel_row row) {
    vst1q_f32(to, row.a);
    vst1q_f32(to + 4, row.b);
    vst1q_f32(to + 8, row.c);
    vst1q_f32(to + 12, row.d);
}

TILE_INLINE panel_row row_fma(const float *term, panel_row weights, panel_row sum) {
    const float32x4_t terms = vld1q_dup_f32(term);
    return (panel_row){vfmaq_f32(sum.a, terms, weights.a), vfmaq_f32(sum.b, terms, weights.b),
                       vfmaq_f32(sum.c, terms, weights.c), vfmaq_f32(sum.d, terms, weights.d)};
}

#endif

#if defined(TILE_TARGET)

#define ROWS_1(DO) DO(0)
#define ROWS_2(DO) \
    ROWS_1(DO);    \
    DO(1)
#define ROWS_3(DO) \
    ROWS_2(DO);    \
    DO(2)
#define ROWS_4(DO) \
    ROWS_3(DO);    \
    DO(3)
#define ROWS_5(DO) \
    ROWS_4(DO);    \
    DO(4)
#define ROWS_6(DO) \
    ROWS_5(DO);    \
    DO(5)

#define ROW_LOAD(r) panel_row sum##r = row_load(sums + r * FFN_PANEL)
#define ROW_STEP(r) sum##r = row_fma(term + r * lda, weights, sum##r)
#define ROW_STORE(r) row_store(sums + r * FFN_PANEL, sum##r)

#define TILE(rows)                                                                                                    \
    TILE_TARGET static void tile_##rows(const float *a, int64_t lda, const float *panel, int64_t terms, int64_t step, \
                                        float *sums) {                                                                \
        ROWS_##rows(ROW_LOAD);                                                                                        \
        for (int64_t t = 0; t < terms; t++) {                                                                         \
            const float *term = a + t * step;                                                                         \
            const panel_row weights = row_load(panel + t * step * FFN_PANEL);                                         \
            ROWS_##rows(ROW_STEP);                                                                                    \
        }                                                                                                             \
        ROWS_##rows(ROW_STORE);                                                                                       \
    }

TILE(1)
TILE(2)
TILE(3)
TILE(4)
TILE(5)
TILE(6)

static void tile_fma(int64_t rows, const float *a, int64_t lda, const float *panel, int64_t terms, int64_t step,
                     float *sums) {
    static void (*const heights[FALLBACK_TILE_ROWS])(const float *, int64_t, const float *, int64_t, int64_t,
                                                     float *) = {tile_1, tile_2, tile_3, tile_4, tile_5, tile_6};
    heights[rows - 1](a, lda, panel, terms, step, sums);
}

fallback_tile fallback_tile_best(void) {
    return (cpu_features() & TILE_NEEDS) == TILE_NEEDS ? tile_fma : fallback_tile_soft;
}

#else

fallback_tile fallback_tile_best(void) {
    return fallback_tile_soft;
}

#endif
