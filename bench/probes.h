/* probes.h: what the machine can do at most: FMA rate from registers, read rate of a buffer
 *
 * The loops are assembly, so no compiler and no flag changes what is measured. */
#ifndef BENCH_PROBES_H
#define BENCH_PROBES_H

#include "ffn.h"

/* Fused multiply-adds on independent accumulators, as many as keep every pipe busy. */
typedef struct bench_peak {
    void (*loop)(int64_t turns);
    double flops; /* of one turn */
} bench_peak;

/* One shape of reading: so many streams, with or without software prefetch. The bytes read are a multiple of
 * BENCH_READ_STEP. */
#define BENCH_READ_STEP 1024
typedef void (*bench_read)(const char *data, int64_t bytes);

typedef struct bench_probes {
    bench_peak peak;
    const bench_read *reads; /* NULL-terminated */
    int lanes;
} bench_probes;

/* The probes for the registers of an ISA; PORTABLE and AUTO get those of the best ISA. NULL where there are none. */
const bench_probes *bench_probes_of(ffn_isa isa);

#endif
