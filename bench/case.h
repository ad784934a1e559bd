/* case.h: one measurement: a layer, a kernel, a number of rows -> times, and what the machine allows
 *
 * Kernel, peer, FMA probe, read probe and the activation alone are contenders of the same rounds. */
#ifndef BENCH_CASE_H
#define BENCH_CASE_H

#include "layer.h"
#include "team.h"

typedef struct bench_request {
    bench_layer *layer;
    const ffn_kernel *kernel;      /* prepared for n */
    const ffn_kernel *peer_kernel; /* lends the peer its activation; NULL: no peer */
    bench_team *team;
    ffn_isa isa; /* of the kernel */
    int64_t n;
    const float *x; /* [n][d_model], dense; NULL: seeded values */
    double seconds; /* for the rounds */
} bench_request;

/* A figure that could not be measured is 0. */
typedef struct bench_report {
    double ms_min, ms_median, gflops;
    double peak_gflops, fraction_of_peak;          /* the best peak seen in the same rounds */
    double weight_gbs, read_gbs, fraction_of_read; /* of a buffer as large as the weights */
    double act_ns_per_vector, roof_ms, fraction_of_roof;
    /* Of all threads over one in the same rounds: the kernel, multiply-adds from registers, reading; 0 for one thread.
     */
    double speedup, peak_speedup, read_speedup, speedup_of_peak, speedup_of_read;
    double peer_ms_min, peer_ms_median;
    double busy;            /* share of the time that other processes took; one thread only */
    double peer_difference; /* largest |y - peer's y| over the largest |y| */
    uint64_t bits;
    float *y; /* [n][d_model], dense; bench_report_clear frees it */
} bench_report;

ffn_status bench_case(const bench_request *request, bench_report *report, ffn_diag *diag);
void bench_report_clear(bench_report *report);

#endif
