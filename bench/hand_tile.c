/* hand_tile.c: see hand_tile.h */
#include "hand_tile.h"

#include <stddef.h>

#ifdef __x86_64__

/* Four terms of a tall tile are a longer string than C17 asks of every compiler. */
#pragma GCC diagnostic ignored "-Woverlength-strings"

/* clang-format off */

/* ---- Rows: the accumulators of each, DO(rows of the tile, term of the turn, accumulators, row) ---- */

#define ONE_1(DO, ROWS, T) DO(ROWS, T, "0", "0")
#define ONE_2(DO, ROWS, T) ONE_1(DO, ROWS, T) DO(ROWS, T, "1", "1")
#define ONE_3(DO, ROWS, T) ONE_2(DO, ROWS, T) DO(ROWS, T, "2", "2")
#define ONE_4(DO, ROWS, T) ONE_3(DO, ROWS, T) DO(ROWS, T, "3", "3")
#define ONE_5(DO, ROWS, T) ONE_4(DO, ROWS, T) DO(ROWS, T, "4", "4")
#define ONE_6(DO, ROWS, T) ONE_5(DO, ROWS, T) DO(ROWS, T, "5", "5")
#define ONE_7(DO, ROWS, T) ONE_6(DO, ROWS, T) DO(ROWS, T, "6", "6")
#define ONE_8(DO, ROWS, T) ONE_7(DO, ROWS, T) DO(ROWS, T, "7", "7")
#define ONE_9(DO, ROWS, T) ONE_8(DO, ROWS, T) DO(ROWS, T, "8", "8")
#define ONE_10(DO, ROWS, T) ONE_9(DO, ROWS, T) DO(ROWS, T, "9", "9")
#define ONE_11(DO, ROWS, T) ONE_10(DO, ROWS, T) DO(ROWS, T, "10", "10")
#define ONE_12(DO, ROWS, T) ONE_11(DO, ROWS, T) DO(ROWS, T, "11", "11")
#define ONE_13(DO, ROWS, T) ONE_12(DO, ROWS, T) DO(ROWS, T, "12", "12")
#define ONE_14(DO, ROWS, T) ONE_13(DO, ROWS, T) DO(ROWS, T, "13", "13")
#define TWO_1(DO, ROWS, T) DO(ROWS, T, "0", "1", "0")
#define TWO_2(DO, ROWS, T) TWO_1(DO, ROWS, T) DO(ROWS, T, "2", "3", "1")
#define TWO_3(DO, ROWS, T) TWO_2(DO, ROWS, T) DO(ROWS, T, "4", "5", "2")
#define TWO_4(DO, ROWS, T) TWO_3(DO, ROWS, T) DO(ROWS, T, "6", "7", "3")
#define TWO_5(DO, ROWS, T) TWO_4(DO, ROWS, T) DO(ROWS, T, "8", "9", "4")
#define TWO_6(DO, ROWS, T) TWO_5(DO, ROWS, T) DO(ROWS, T, "10", "11", "5")
#define TWO_7(DO, ROWS, T) TWO_6(DO, ROWS, T) DO(ROWS, T, "12", "13", "6")
#define TWO_8(DO, ROWS, T) TWO_7(DO, ROWS, T) DO(ROWS, T, "14", "15", "7")
#define TWO_9(DO, ROWS, T) TWO_8(DO, ROWS, T) DO(ROWS, T, "16", "17", "8")
#define TWO_10(DO, ROWS, T) TWO_9(DO, ROWS, T) DO(ROWS, T, "18", "19", "9")
#define TWO_11(DO, ROWS, T) TWO_10(DO, ROWS, T) DO(ROWS, T, "20", "21", "10")
#define TWO_12(DO, ROWS, T) TWO_11(DO, ROWS, T) DO(ROWS, T, "22", "23", "11")
#define TWO_13(DO, ROWS, T) TWO_12(DO, ROWS, T) DO(ROWS, T, "24", "25", "12")
#define TWO_14(DO, ROWS, T) TWO_13(DO, ROWS, T) DO(ROWS, T, "26", "27", "13")
#define FOUR_1(DO, ROWS, T) DO(ROWS, T, "0", "1", "2", "3", "0")
#define FOUR_2(DO, ROWS, T) FOUR_1(DO, ROWS, T) DO(ROWS, T, "4", "5", "6", "7", "1")
#define FOUR_3(DO, ROWS, T) FOUR_2(DO, ROWS, T) DO(ROWS, T, "8", "9", "10", "11", "2")
#define FOUR_4(DO, ROWS, T) FOUR_3(DO, ROWS, T) DO(ROWS, T, "12", "13", "14", "15", "3")
#define FOUR_5(DO, ROWS, T) FOUR_4(DO, ROWS, T) DO(ROWS, T, "16", "17", "18", "19", "4")
#define FOUR_6(DO, ROWS, T) FOUR_5(DO, ROWS, T) DO(ROWS, T, "20", "21", "22", "23", "5")

/* ---- What each vector length does with a row, and with a term ---- */

#define DOWN(POINTER) "add %[ldc], %[" POINTER "]\n\t"
#define A(ROWS, T, R) "4*" ROWS "*" T "+4*" R "(%[a])"

#define LOAD_YMM(ROWS, T, A0, A1, R) "vmovups (%[in]), %%ymm" A0 "\n\t" "vmovups 32(%[in]), %%ymm" A1 "\n\t" DOWN("in")
#define STORE_YMM(ROWS, T, A0, A1, R) "vmovups %%ymm" A0 ", (%[out])\n\t" "vmovups %%ymm" A1 ", 32(%[out])\n\t" DOWN("out")
#define ROW_YMM(ROWS, T, A0, A1, R) "vbroadcastss " A(ROWS, T, R) ", %%ymm14\n\t" \
    "vfmadd231ps %%ymm12, %%ymm14, %%ymm" A0 "\n\t" "vfmadd231ps %%ymm13, %%ymm14, %%ymm" A1 "\n\t"
#define TERM_YMM(LIST, ROWS, T) "vmovups 64*" T "(%[b]), %%ymm12\n\t" "vmovups 32+64*" T "(%[b]), %%ymm13\n\t" LIST(ROW_YMM, ROWS, T)

#define LOAD_ONE(ROWS, T, A0, R) "vmovups (%[in]), %%zmm" A0 "\n\t" DOWN("in")
#define STORE_ONE(ROWS, T, A0, R) "vmovups %%zmm" A0 ", (%[out])\n\t" DOWN("out")
#define ROW_ONE(ROWS, T, A0, R) "vfmadd231ps " A(ROWS, T, R) "%{1to16%}, %%zmm28, %%zmm" A0 "\n\t"
#define B_ONE(T) "vmovups 64*" T "(%[b]), %%zmm28\n\t"
#define TERM_ONE(LIST, ROWS, T) B_ONE(T) LIST(ROW_ONE, ROWS, T)

#define LOAD_TWO(ROWS, T, A0, A1, R) "vmovups (%[in]), %%zmm" A0 "\n\t" "vmovups 64(%[in]), %%zmm" A1 "\n\t" DOWN("in")
#define STORE_TWO(ROWS, T, A0, A1, R) "vmovups %%zmm" A0 ", (%[out])\n\t" "vmovups %%zmm" A1 ", 64(%[out])\n\t" DOWN("out")
#define ROW_TWO(ROWS, T, A0, A1, R) "vbroadcastss " A(ROWS, T, R) ", %%zmm30\n\t" \
    "vfmadd231ps %%zmm28, %%zmm30, %%zmm" A0 "\n\t" "vfmadd231ps %%zmm29, %%zmm30, %%zmm" A1 "\n\t"
#define B_TWO(T) B_ONE(T) "vmovups 64*" T "(%[b], %[stride]), %%zmm29\n\t"
#define TERM_TWO(LIST, ROWS, T) B_TWO(T) LIST(ROW_TWO, ROWS, T)

#define LOAD_FOUR(ROWS, T, A0, A1, A2, A3, R) "vmovups (%[in]), %%zmm" A0 "\n\t" "vmovups 64(%[in]), %%zmm" A1 "\n\t" \
    "vmovups 128(%[in]), %%zmm" A2 "\n\t" "vmovups 192(%[in]), %%zmm" A3 "\n\t" DOWN("in")
#define STORE_FOUR(ROWS, T, A0, A1, A2, A3, R) "vmovups %%zmm" A0 ", (%[out])\n\t" "vmovups %%zmm" A1 ", 64(%[out])\n\t" \
    "vmovups %%zmm" A2 ", 128(%[out])\n\t" "vmovups %%zmm" A3 ", 192(%[out])\n\t" DOWN("out")
#define ROW_FOUR(ROWS, T, A0, A1, A2, A3, R) "vbroadcastss " A(ROWS, T, R) ", %%zmm27\n\t" \
    "vfmadd231ps %%zmm28, %%zmm27, %%zmm" A0 "\n\t" "vfmadd231ps %%zmm29, %%zmm27, %%zmm" A1 "\n\t" \
    "vfmadd231ps %%zmm30, %%zmm27, %%zmm" A2 "\n\t" "vfmadd231ps %%zmm31, %%zmm27, %%zmm" A3 "\n\t"
#define B_FOUR(T) B_TWO(T) "vmovups 64*" T "(%[b], %[stride], 2), %%zmm30\n\t" "vmovups 64*" T "(%[b], %[far]), %%zmm31\n\t"
#define TERM_FOUR(LIST, ROWS, T) B_FOUR(T) LIST(ROW_FOUR, ROWS, T)

/* ---- What is fetched: AT lines from here, by so many streams ---- */

#define FETCH_ONE(TO, AT) "prefetcht" TO " " AT "(%[next])\n\t"
#define FETCH_TWO(TO, AT) FETCH_ONE(TO, AT) "prefetcht" TO " " AT "(%[next], %[stride])\n\t"
#define FETCH_FOUR(TO, AT) FETCH_TWO(TO, AT) "prefetcht" TO " " AT "(%[next], %[stride], 2)\n\t" "prefetcht" TO " " AT "(%[next], %[far])\n\t"

#define YMM_NO_FETCH ""
#define YMM_FETCH_1 FETCH_ONE("0", "")
#define YMM_FETCH_2 FETCH_TWO("0", "")
#define YMM_FETCH_4 FETCH_FOUR("0", "")
#define LINES_0(STREAMS) ""
#define LINES_1(STREAMS) STREAMS("0", "")
#define LINES_2(STREAMS) STREAMS("0", "") STREAMS("0", "64")
#define LINES_4(STREAMS) LINES_2(STREAMS) STREAMS("0", "128") STREAMS("0", "192")
#define LINES_1_L2(STREAMS) STREAMS("1", "")

/* ---- Tiles ---- */

/* The upper registers of 512 bits hold nothing of a function that is nothing but this. */
#define TILE(NAME, ROWS, LIST, LOAD, STORE, TERM, FETCH)                                                              \
    static void NAME(const float *a, const float *b, float *c, int64_t ldc, int64_t terms, const char *next,          \
                     int64_t step, int64_t stride) {                                                                  \
        int64_t turns = terms / HAND_TURN;                                                                            \
        float *in = c, *out = c;                                                                                      \
        __asm__ volatile(LIST(LOAD, "", "")                                                                           \
                         "test %[turns], %[turns]\n\t"                                                                \
                         "jle 2f\n\t"                                                                                 \
                         "1:\n\t" FETCH                                                                               \
                         TERM(LIST, ROWS, "0") TERM(LIST, ROWS, "1") TERM(LIST, ROWS, "2") TERM(LIST, ROWS, "3")      \
                         "add $4*4*" ROWS ", %[a]\n\t"                                                                \
                         "add $4*64, %[b]\n\t"                                                                        \
                         "add %[step], %[next]\n\t"                                                                   \
                         "dec %[turns]\n\t"                                                                           \
                         "jnz 1b\n\t"                                                                                 \
                         "2:\n\t" LIST(STORE, "", "")                                                                 \
                         "vzeroupper"                                                                                 \
                         : [a] "+r"(a), [b] "+r"(b), [next] "+r"(next), [turns] "+r"(turns), [in] "+r"(in),           \
                           [out] "+r"(out)                                                                            \
                         : [ldc] "r"(ldc * (int64_t)sizeof(float)), [step] "r"(step), [stride] "r"(stride),           \
                           [far] "r"(3 * stride)                                                                      \
                         : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",   \
                           "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "cc", "memory");                              \
    }

#define YMM_TILES(R)                                                                       \
    TILE(ymm_##R##_0, #R, TWO_##R, LOAD_YMM, STORE_YMM, TERM_YMM, YMM_NO_FETCH)            \
    TILE(ymm_##R##_1, #R, TWO_##R, LOAD_YMM, STORE_YMM, TERM_YMM, YMM_FETCH_1)             \
    TILE(ymm_##R##_2, #R, TWO_##R, LOAD_YMM, STORE_YMM, TERM_YMM, YMM_FETCH_2)             \
    TILE(ymm_##R##_4, #R, TWO_##R, LOAD_YMM, STORE_YMM, TERM_YMM, YMM_FETCH_4)
#define ZMM_TILES(W, R)                                                                    \
    TILE(W##_##R##_0, #R, W##_##R, LOAD_##W, STORE_##W, TERM_##W, LINES_0(FETCH_##W))      \
    TILE(W##_##R##_1, #R, W##_##R, LOAD_##W, STORE_##W, TERM_##W, LINES_1(FETCH_##W))      \
    TILE(W##_##R##_2, #R, W##_##R, LOAD_##W, STORE_##W, TERM_##W, LINES_2(FETCH_##W))      \
    TILE(W##_##R##_4, #R, W##_##R, LOAD_##W, STORE_##W, TERM_##W, LINES_4(FETCH_##W))      \
    TILE(W##_##R##_1_l2, #R, W##_##R, LOAD_##W, STORE_##W, TERM_##W, LINES_1_L2(FETCH_##W))
#define YMM_NAMES(R) [R] = {ymm_##R##_0, ymm_##R##_1, ymm_##R##_2, ymm_##R##_4, NULL}
#define ZMM_NAMES(W, R) [R] = {W##_##R##_0, W##_##R##_1, W##_##R##_2, W##_##R##_4, W##_##R##_1_l2}

#define EACH_6(DO) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6)
#define EACH_14(DO) EACH_6(DO) DO(7) DO(8) DO(9) DO(10) DO(11) DO(12) DO(13) DO(14)
#define ONE_TILES(R) ZMM_TILES(ONE, R)
#define TWO_TILES(R) ZMM_TILES(TWO, R)
#define FOUR_TILES(R) ZMM_TILES(FOUR, R)
#define YMM_ENTRY(R) YMM_NAMES(R),
#define ONE_ENTRY(R) ZMM_NAMES(ONE, R),
#define TWO_ENTRY(R) ZMM_NAMES(TWO, R),
#define FOUR_ENTRY(R) ZMM_NAMES(FOUR, R),

EACH_6(YMM_TILES)
EACH_14(ONE_TILES)
EACH_14(TWO_TILES)
EACH_6(FOUR_TILES)

typedef hand_tile tiles_of_rows[HAND_ROWS + 1][HAND_FETCHES];

hand_tile hand_tile_of(ffn_isa isa, int rows, int panels, hand_fetch fetch) {
    static const tiles_of_rows ymm = {EACH_6(YMM_ENTRY)}, one = {EACH_14(ONE_ENTRY)}, two = {EACH_14(TWO_ENTRY)},
                               four = {EACH_6(FOUR_ENTRY)};
    static const tiles_of_rows *const of_avx2[HAND_STREAMS + 1] = {[1] = &ymm},
                               *const of_avx512[HAND_STREAMS + 1] = {[1] = &one, [2] = &two, [4] = &four};
    if ((isa != FFN_ISA_AVX2 && isa != FFN_ISA_AVX512) || rows < 1 || rows > HAND_ROWS || panels < 1 ||
        panels > HAND_STREAMS || fetch >= HAND_FETCHES)
        return NULL;
    const tiles_of_rows *tiles = (isa == FFN_ISA_AVX2 ? of_avx2 : of_avx512)[panels];
    return tiles ? (*tiles)[rows][fetch] : NULL;
}
/* clang-format on */

#else

hand_tile hand_tile_of(ffn_isa isa, int rows, int panels, hand_fetch fetch) {
    (void)isa, (void)rows, (void)panels, (void)fetch;
    return NULL;
}

#endif
