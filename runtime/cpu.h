/* cpu.h: feature bits of the CPU this runs on, each one counted only if the operating system saves its registers */
#ifndef FFN_CPU_H
#define FFN_CPU_H

#include <stdint.h>

#define FFN_CPU_AVX2 (UINT64_C(1) << 0)
#define FFN_CPU_FMA (UINT64_C(1) << 1)
#define FFN_CPU_YMM_STATE (UINT64_C(1) << 2) /* OSXSAVE and XCR0 bits 1, 2 */
#define FFN_CPU_AVX512F (UINT64_C(1) << 3)
#define FFN_CPU_AVX512VL (UINT64_C(1) << 4)
#define FFN_CPU_AVX512DQ (UINT64_C(1) << 5)
#define FFN_CPU_AVX512BW (UINT64_C(1) << 6)
#define FFN_CPU_ZMM_STATE (UINT64_C(1) << 7) /* XCR0 bits 5, 6, 7 as well */
#define FFN_CPU_NEON (UINT64_C(1) << 8)

typedef enum ffn_arch { FFN_ARCH_X86_64, FFN_ARCH_AARCH64, FFN_ARCH_OTHER } ffn_arch;

/* Read once, thread-safe, runs on the oldest CPU of the architecture. */
uint64_t cpu_features(void);
ffn_arch cpu_arch(void);
/* "avx2 fma ymm-state" into text; names come from one table. */
void cpu_features_format(uint64_t features, char *text, uint64_t text_bytes);

#endif
