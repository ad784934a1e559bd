/* levels.h: a machine -> what its cores read from each level of memory, and multiply and add from registers
 *
 * Every way of reading (bench/probes.h) is tried on each level, all of them in turn in the same rounds, and the best
 * sample of the best way counts: what the machine can do, whoever else it worked for meanwhile. */
#ifndef BENCH_LEVELS_H
#define BENCH_LEVELS_H

#include "ffn.h"
#include "team.h"

/* Rates in 10^9 a second; a level that is not there has 0. */
typedef struct bench_levels {
    double peak_gflops; /* a multiply-add is two */
    double l1_gbs, l2_gbs, l3_gbs, memory_gbs;
    double spread; /* the largest, over the levels, of (median - best) / best */
    bool busy;     /* the spread was large or other processes took time: the machine can do better than this */
} bench_levels;

/* Of one core; takes about `seconds` and 4 x L3 of memory, at most 512 MiB. UNSUPPORTED where there are no probes for
 * the registers of the ISA. */
ffn_status bench_levels_measure(ffn_isa isa, const ffn_machine *machine, double seconds, bench_levels *levels,
                                ffn_diag *diag);
/* The sum over the members of a team that all work at once, each on its own part of L3 and of memory. */
ffn_status bench_levels_measure_team(ffn_isa isa, const ffn_machine *machine, bench_team *team, double seconds,
                                     bench_levels *levels, ffn_diag *diag);

/* As a machine file has them. */
void bench_levels_keep(const bench_levels *levels, ffn_machine *machine);

#endif
