/* cmd_bench_code.h: a spec -> what its kernels cost: milliseconds to compile from cold, bytes of code and of memory
 *
 * Cold is a process in which LLVM has done nothing yet: each measurement is a child's, forked before the first compile,
 * and the time of a processor that it took. */
#ifndef CMD_BENCH_CODE_H
#define CMD_BENCH_CODE_H

#include "ffn.h"

typedef struct bench_code {
    double one_ms; /* the dearest of the n classes, alone in its process */
    ffn_n_class dearest;
    double all_ms;                /* one after the other in one process */
    int64_t bytes[FFN_ISA_COUNT]; /* of instructions and constants, all classes; 0: no code is generated for it */
} bench_code;

/* `isa` is the one whose time is measured; of the others there are bytes alone, with the plans for this machine. */
ffn_status bench_code_measure(const ffn_spec *spec, ffn_isa isa, bench_code *code, ffn_diag *diag);

typedef struct bench_memory {
    double packed_over_weights; /* bytes, biases included where the spec has them */
    int64_t scratch_bytes;      /* of the fused nest, the most of the n classes */
    ffn_n_class largest;
} bench_memory;

/* By the plans for this machine. */
ffn_status bench_memory_measure(const ffn_spec *spec, ffn_isa isa, bench_memory *memory, ffn_diag *diag);

/* The processor time of a process of this program that loads LLVM and does nothing else: the fastest of a few. Not that
 * of this process, which may have been started twice (bench_peer_clean_start). */
ffn_status bench_code_load(double *ms, ffn_diag *diag);

#endif
