/* hand_tile.c: see hand_tile.h */
#include "hand_tile.h"

#include <stddef.h>

#ifdef __x86_64__

/* clang-format off */
#define ROWS_1(DO, ROWS, T) DO(ROWS, T, "0", "1", "0", C_0)
#define ROWS_2(DO, ROWS, T) ROWS_1(DO, ROWS, T) DO(ROWS, T, "2", "3", "1", C_1)
#define ROWS_3(DO, ROWS, T) ROWS_2(DO, ROWS, T) DO(ROWS, T, "4", "5", "2", C_2)
#define ROWS_4(DO, ROWS, T) ROWS_3(DO, ROWS, T) DO(ROWS, T, "6", "7", "3", C_3)
#define ROWS_5(DO, ROWS, T) ROWS_4(DO, ROWS, T) DO(ROWS, T, "8", "9", "4", C_4)
#define ROWS_6(DO, ROWS, T) ROWS_5(DO, ROWS, T) DO(ROWS, T, "10", "11", "5", C_5)
#define C_0 "(%[c])"
#define C_1 "(%[c], %[ldc])"
#define C_2 "(%[c], %[ldc], 2)"
#define C_3 "(%[below])"
#define C_4 "(%[below], %[ldc])"
#define C_5 "(%[below], %[ldc], 2)"
#define LOAD(ROWS, T, A, B, R, C) "vmovups " C ", %%ymm" A "\n\t" "vmovups 32" C ", %%ymm" B "\n\t"
#define STORE(ROWS, T, A, B, R, C) "vmovups %%ymm" A ", " C "\n\t" "vmovups %%ymm" B ", 32" C "\n\t"
#define ROW(ROWS, T, A, B, R, C) "vbroadcastss 4*" ROWS "*" T "+4*" R "(%[a]), %%ymm14\n\t" \
                              "vfmadd231ps %%ymm12, %%ymm14, %%ymm" A "\n\t" "vfmadd231ps %%ymm13, %%ymm14, %%ymm" B "\n\t"
#define TERM(ROWS, T) "vmovups 64*" T "(%[b]), %%ymm12\n\t" "vmovups 32+64*" T "(%[b]), %%ymm13\n\t" ROWS_##ROWS(ROW, #ROWS, T)
#define FETCH_0
#define FETCH_1 "prefetcht0 (%[next])\n\t"
#define FETCH_2 FETCH_1 "prefetcht0 (%[next], %[stride])\n\t"
#define FETCH_4 FETCH_2 "prefetcht0 (%[next], %[stride], 2)\n\t" "prefetcht0 (%[next], %[far])\n\t"

#define TILE(ROWS, STREAMS)                                                                                    \
    static void tile_##ROWS##_##STREAMS(const float *a, const float *b, float *c, int64_t ldc, int64_t terms,  \
                                        const char *next, int64_t step, int64_t stride) {                      \
        int64_t turns = terms / HAND_TURN;                                                                     \
        const float *below = c + 3 * ldc;                                                                      \
        __asm__ volatile(ROWS_##ROWS(LOAD, "", "")                                                             \
                         "test %[turns], %[turns]\n\t"                                                         \
                         "jle 2f\n\t"                                                                          \
                         "1:\n\t" FETCH_##STREAMS                                                              \
                         TERM(ROWS, "0") TERM(ROWS, "1") TERM(ROWS, "2") TERM(ROWS, "3")                       \
                         "add $4*4*" #ROWS ", %[a]\n\t"                                                        \
                         "add $4*64, %[b]\n\t"                                                                 \
                         "add %[step], %[next]\n\t"                                                            \
                         "dec %[turns]\n\t"                                                                    \
                         "jnz 1b\n\t"                                                                          \
                         "2:\n\t" ROWS_##ROWS(STORE, "", "")                                                   \
                         "vzeroupper"                                                                          \
                         : [a] "+r"(a), [b] "+r"(b), [next] "+r"(next), [turns] "+r"(turns)                    \
                         : [c] "r"(c), [below] "r"(below), [ldc] "r"(ldc * (int64_t)sizeof(float)),            \
                           [step] "r"(step), [stride] "r"(stride), [far] "r"(3 * stride)                       \
                         : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",     \
                           "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "cc", "memory");                       \
    }
#define TILES(ROWS) TILE(ROWS, 0) TILE(ROWS, 1) TILE(ROWS, 2) TILE(ROWS, 4)
#define NAMES(ROWS) {tile_##ROWS##_0, tile_##ROWS##_1, tile_##ROWS##_2, NULL, tile_##ROWS##_4}
TILES(1)
TILES(2)
TILES(3)
TILES(4)
TILES(5)
TILES(6)
/* clang-format on */

hand_tile hand_tile_of(int rows, int streams) {
    static const hand_tile tiles[HAND_ROWS][HAND_STREAMS + 1] = {NAMES(1), NAMES(2), NAMES(3),
                                                                 NAMES(4), NAMES(5), NAMES(6)};
    return rows < 1 || rows > HAND_ROWS || streams < 0 || streams > HAND_STREAMS ? NULL : tiles[rows - 1][streams];
}

#else

hand_tile hand_tile_of(int rows, int streams) {
    (void)rows, (void)streams;
    return NULL;
}

#endif
