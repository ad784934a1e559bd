/* cpu.c: cpuid, xgetbv and the auxiliary vector -> feature bits
 *
 * Invariant: a bit is set only if the instruction set is there AND the operating system saves the registers it uses, so
 * code that needs exactly the bits of a row of templates/isas.def can never fault. Nothing here executes an instruction
 * that an older CPU of the architecture lacks: leaves above the highest are not asked for, xgetbv not without OSXSAVE.
 */
#include "cpu.h"

#include <stdatomic.h>
#include <stdio.h>

static const struct {
    uint64_t bit;
    const char *name;
} names[] = {
    {FFN_CPU_AVX2, "avx2"},           {FFN_CPU_FMA, "fma"},
    {FFN_CPU_YMM_STATE, "ymm-state"}, {FFN_CPU_AVX512F, "avx512f"},
    {FFN_CPU_AVX512VL, "avx512vl"},   {FFN_CPU_AVX512DQ, "avx512dq"},
    {FFN_CPU_AVX512BW, "avx512bw"},   {FFN_CPU_ZMM_STATE, "zmm-state"},
    {FFN_CPU_NEON, "neon"},
};

#if defined(__x86_64__)

#include <cpuid.h>

static uint64_t xcr0(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0)); /* the intrinsic would ask for -mxsave */
    return (uint64_t)high << 32 | low;
}

/* Where cpuid says what, and the register state it is worth nothing without. */
static const struct {
    uint64_t bit;
    uint64_t state;
    uint8_t leaf, reg, position; /* reg: 1 ebx, 2 ecx */
} cpuid_bits[] = {
    {FFN_CPU_FMA, FFN_CPU_YMM_STATE, 1, 2, 12},      {FFN_CPU_AVX2, FFN_CPU_YMM_STATE, 7, 1, 5},
    {FFN_CPU_AVX512F, FFN_CPU_ZMM_STATE, 7, 1, 16},  {FFN_CPU_AVX512DQ, FFN_CPU_ZMM_STATE, 7, 1, 17},
    {FFN_CPU_AVX512BW, FFN_CPU_ZMM_STATE, 7, 1, 30}, {FFN_CPU_AVX512VL, FFN_CPU_ZMM_STATE, 7, 1, 31},
};

static uint64_t read_features(void) {
    enum { OSXSAVE_AND_AVX = 1 << 27 | 1 << 28, XMM_YMM = 0x6, XMM_YMM_ZMM = 0xe6 };
    uint32_t leaves[8][4] = {0};
    if (!__get_cpuid(1, &leaves[1][0], &leaves[1][1], &leaves[1][2], &leaves[1][3]))
        return 0;
    if ((leaves[1][2] & OSXSAVE_AND_AVX) != OSXSAVE_AND_AVX)
        return 0;
    __get_cpuid_count(7, 0, &leaves[7][0], &leaves[7][1], &leaves[7][2], &leaves[7][3]);

    uint64_t saved = xcr0(), features = 0;
    if ((saved & XMM_YMM) == XMM_YMM)
        features |= FFN_CPU_YMM_STATE;
    if ((saved & XMM_YMM_ZMM) == XMM_YMM_ZMM)
        features |= FFN_CPU_ZMM_STATE;
    for (size_t i = 0; i < sizeof cpuid_bits / sizeof *cpuid_bits; i++)
        if ((features & cpuid_bits[i].state) &&
            (leaves[cpuid_bits[i].leaf][cpuid_bits[i].reg] >> cpuid_bits[i].position & 1))
            features |= cpuid_bits[i].bit;
    return features;
}

ffn_arch cpu_arch(void) {
    return FFN_ARCH_X86_64;
}

#elif defined(__aarch64__)

#include <sys/auxv.h>

static uint64_t read_features(void) {
    enum { HWCAP_BIT_ASIMD = 1 << 1 };
    return getauxval(AT_HWCAP) & HWCAP_BIT_ASIMD ? FFN_CPU_NEON : 0;
}

ffn_arch cpu_arch(void) {
    return FFN_ARCH_AARCH64;
}

#else

static uint64_t read_features(void) {
    return 0;
}

ffn_arch cpu_arch(void) {
    return FFN_ARCH_OTHER;
}

#endif

uint64_t cpu_features(void) {
    static const uint64_t known = UINT64_C(1) << 63;
    static _Atomic uint64_t cached;
    uint64_t features = atomic_load_explicit(&cached, memory_order_relaxed);
    if (!features) { /* threads that meet here read the same CPU and store the same word */
        features = read_features() | known;
        atomic_store_explicit(&cached, features, memory_order_relaxed);
    }
    return features & ~known;
}

void cpu_features_format(uint64_t features, char *text, uint64_t text_bytes) {
    if (text_bytes == 0)
        return;
    text[0] = '\0';
    uint64_t used = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!(features & names[i].bit))
            continue;
        int length = snprintf(text + used, text_bytes - used, "%s%s", used ? " " : "", names[i].name);
        if (length < 0 || (uint64_t)length >= text_bytes - used) {
            text[used] = '\0'; /* never half a name */
            return;
        }
        used += (uint64_t)length;
    }
}
