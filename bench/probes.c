/* probes.c: the probe loops, a set of them for each kind of vector registers */
#include "probes.h"

/* clang-format off */
#if defined(__x86_64__)

#define CLOBBERS "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", \
                 "xmm12", "xmm13", "xmm14", "xmm15", "cc", "memory"
#define ON_12(DO, R) DO(R, "0") DO(R, "1") DO(R, "2") DO(R, "3") DO(R, "4") DO(R, "5") DO(R, "6") DO(R, "7") \
                     DO(R, "8") DO(R, "9") DO(R, "10") DO(R, "11")
#define START(R, A) "vbroadcastss (%1), %%" R A "\n\t"
#define FMA(R, A) "vfmadd231ps %%" R "14, %%" R "15, %%" R A "\n\t"

/* 12 accumulators: a latency of 4 or 5 on 2 pipes needs at most 10. The factors are ordinary numbers: zeros would
 * draw less power than a kernel does. */
#define PEAK(NAME, R)                                                                                          \
    static void NAME(int64_t turns) {                                                                          \
        static const float factors[2] = {1.0001f, 0.37f};                                                      \
        __asm__ volatile("vbroadcastss (%1), %%" R "14\n\t"                                                    \
                         "vbroadcastss 4(%1), %%" R "15\n\t" ON_12(START, R)                                   \
                         "1:\n\t" ON_12(FMA, R) ON_12(FMA, R)                                                  \
                         "decq %0\n\t"                                                                         \
                         "jnz 1b\n\t"                                                                          \
                         "vzeroupper"                                                                          \
                         : "+r"(turns) : "r"(factors) : CLOBBERS);                                             \
    }

/* %0 data, %1 turns, %2 bytes of a stream, %3 %4 %5 three, five, seven times that. A turn takes two lines of each. */
#define YMM(AT) "vmovups   " AT ", %%ymm0\n\t" "vmovups 32" AT ", %%ymm1\n\t" \
                "vmovups 64" AT ", %%ymm2\n\t" "vmovups 96" AT ", %%ymm3\n\t"
#define ZMM(AT) "vmovups   " AT ", %%zmm0\n\t" "vmovups 64" AT ", %%zmm1\n\t"
#define AHEAD(AT) "prefetcht0 2048" AT "\n\t" "prefetcht0 2112" AT "\n\t"
#define STREAMS_1(DO) DO("(%0)")
#define STREAMS_2(DO) STREAMS_1(DO) DO("(%0,%2)")
#define STREAMS_4(DO) STREAMS_2(DO) DO("(%0,%2,2)") DO("(%0,%3)")
#define STREAMS_8(DO) STREAMS_4(DO) DO("(%0,%2,4)") DO("(%0,%4)") DO("(%0,%3,2)") DO("(%0,%5)")
#define YMM_AHEAD(AT) AHEAD(AT) YMM(AT)
#define ZMM_AHEAD(AT) AHEAD(AT) ZMM(AT)
#define READ(NAME, STREAMS, DO)                                                                                \
    static void NAME(const char *data, int64_t bytes) {                                                        \
        int64_t stream = bytes / STREAMS, turns = stream / 128;                                                \
        __asm__ volatile("1:\n\t" STREAMS_##STREAMS(DO)                                                        \
                         "addq $128, %0\n\t"                                                                   \
                         "decq %1\n\t"                                                                         \
                         "jnz 1b\n\t"                                                                          \
                         "vzeroupper"                                                                          \
                         : "+r"(data), "+r"(turns)                                                             \
                         : "r"(stream), "r"(3 * stream), "r"(5 * stream), "r"(7 * stream) : CLOBBERS);         \
    }

PEAK(peak_ymm, "ymm")
READ(ymm_1, 1, YMM) READ(ymm_2, 2, YMM) READ(ymm_4, 4, YMM) READ(ymm_8, 8, YMM)
READ(ymm_1_ahead, 1, YMM_AHEAD) READ(ymm_4_ahead, 4, YMM_AHEAD)
PEAK(peak_zmm, "zmm")
READ(zmm_1, 1, ZMM) READ(zmm_2, 2, ZMM) READ(zmm_4, 4, ZMM) READ(zmm_8, 8, ZMM)
READ(zmm_1_ahead, 1, ZMM_AHEAD) READ(zmm_4_ahead, 4, ZMM_AHEAD)

static const bench_read reads_ymm[] = {ymm_1, ymm_2, ymm_4, ymm_8, ymm_1_ahead, ymm_4_ahead, NULL};
static const bench_read reads_zmm[] = {zmm_1, zmm_2, zmm_4, zmm_8, zmm_1_ahead, zmm_4_ahead, NULL};
static const struct {
    ffn_isa isa;
    bench_probes probes;
} rows[] = {
    {FFN_ISA_AVX2, {{peak_ymm, 24 * 8 * 2}, reads_ymm, 8}},
    {FFN_ISA_AVX512, {{peak_zmm, 24 * 16 * 2}, reads_zmm, 16}},
};

#elif defined(__aarch64__)

#define CLOBBERS "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17", "v18", "v19", "v20", "v21", "v22", \
                 "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31", "cc", "memory"
#define ON_16(DO) DO("0") DO("1") DO("2") DO("3") DO("4") DO("5") DO("6") DO("7") \
                  DO("16") DO("17") DO("18") DO("19") DO("20") DO("21") DO("22") DO("23")
#define START(A) "ld1r {v" A ".4s}, [%1]\n\t"
#define FMA(A) "fmla v" A ".4s, v30.4s, v31.4s\n\t"

/* 16 accumulators: a latency of 4 on at most 4 pipes. */
static void peak_q(int64_t turns) {
    static const float factors[2] = {1.0001f, 0.37f};
    __asm__ volatile("ld1r {v30.4s}, [%1]\n\t"
                     "ld1r {v31.4s}, [%2]\n\t" ON_16(START)
                     "1:\n\t" ON_16(FMA) ON_16(FMA)
                     "subs %0, %0, #1\n\t"
                     "b.ne 1b"
                     : "+r"(turns) : "r"(factors), "r"(factors + 1) : CLOBBERS);
}

/* A line of each stream: %0 %2 %3 %4, of which a shape with fewer streams uses the first. */
#define Q(P) "ldp q0, q1, [" P "], #32\n\t" "ldp q2, q3, [" P "], #32\n\t"
#define STREAMS_1 Q("%0")
#define STREAMS_2 STREAMS_1 Q("%2")
#define STREAMS_4 STREAMS_2 Q("%3") Q("%4")
#define READ(NAME, STREAMS)                                                                                    \
    static void NAME(const char *data, int64_t bytes) {                                                        \
        int64_t stream = bytes / STREAMS, turns = stream / 64;                                                 \
        const char *second = data + stream, *third = second + stream, *fourth = third + stream;                \
        __asm__ volatile("1:\n\t" STREAMS_##STREAMS                                                            \
                         "subs %1, %1, #1\n\t"                                                                 \
                         "b.ne 1b"                                                                             \
                         : "+r"(data), "+r"(turns), "+r"(second), "+r"(third), "+r"(fourth) : : CLOBBERS);     \
    }

READ(q_1, 1) READ(q_2, 2) READ(q_4, 4)

static const bench_read reads_q[] = {q_1, q_2, q_4, NULL};
static const struct {
    ffn_isa isa;
    bench_probes probes;
} rows[] = {{FFN_ISA_NEON, {{peak_q, 32 * 4 * 2}, reads_q, 4}}};

#endif
/* clang-format on */

const bench_probes *bench_probes_of(ffn_isa isa) {
    if (isa == FFN_ISA_AUTO || isa == FFN_ISA_PORTABLE)
        isa = ffn_isa_best();
#if defined(__x86_64__) || defined(__aarch64__)
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].isa == isa && ffn_isa_supported(isa))
            return &rows[i].probes;
    }
#endif
    return NULL;
}
