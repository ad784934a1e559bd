/* case.h: one measurement: a layer, a kernel, a number of rows -> times, and what the machine allows
 *
 * Kernel, peers, FMA probe, read probe and the activation alone are contenders of the same rounds. The outputs of
 * kernel and peers are compared with the oracle before any of them is timed; what is wrong is not timed. */
#ifndef BENCH_CASE_H
#define BENCH_CASE_H

#include "beside.h"
#include "dense.h"
#include "free_order.h"
#include "hand.h"
#include "layer.h"
#include "oracle.h"
#include "peer.h"
#include "stages.h"
#include "team.h"

typedef struct bench_request {
    bench_layer *layer;
    const ffn_kernel *kernel;          /* prepared for n */
    const ffn_kernel *fast;            /* with the cheaper activation, prepared for n; timed where a peer has its own */
    const ffn_kernel *lender;          /* of the activation that peers use where they have none; prepared for n */
    const bench_peers *peers;          /* which have taken the layer */
    const bench_oracle *oracle;        /* of the layer and of x */
    const bench_free_kernels *free;    /* timed against the kernel, on one thread; NULL: not */
    const bench_stages_kernel *stages; /* timed against the kernel, on one thread; NULL: not */
    const ffn_kernel *dense;           /* the same that multiplies zeros too, on one thread; NULL: not timed */
    bool hand;                         /* loops by hand beside it, on one thread */
    bench_team *team;
    ffn_isa isa; /* of the kernel */
    int64_t n;
    const float *x; /* [n][d_model], dense */
    double seconds; /* for the rounds */
} bench_request;

/* The largest error that two f32 programs which add in different orders stay far below, and one wrong column does not:
 * of the largest |y|. */
#define BENCH_ERROR_MAX 1e-3

typedef struct bench_peer_report {
    bool ran;                   /* its output is there, and max_error */
    bool timed;                 /* it was right, and has times */
    double ms_min, ms_median;   /* of one call */
    bool own_activation;        /* its activation is not the lent one */
    double max_error;           /* largest |y - oracle| over the largest |y| */
    char text[PEER_TEXT_BYTES]; /* what was chosen for this case; where it did not run: why */
} bench_peer_report;

typedef struct bench_free_report {
    bool timed;
    int chosen; /* of bench_free_kernels */
    double ms_min, ms_median;
    double ratio_min, ratio_median; /* the kernel's time over it, of the fastest and by rounds */
    double max_error;
} bench_free_report;

typedef struct bench_stages_report {
    bool timed;
    double ms[BENCH_PARTS];                    /* of ms_min of the kernel that does not count */
    double peak[BENCH_REST], read[BENCH_REST]; /* of expand and contract: shares of peak and read rate in their time */
    double ratio_min, ratio_median;            /* the counting kernel's time over that of the other */
} bench_stages_report;

typedef struct bench_fast_report {
    bool timed;
    double ms_min, ms_median;
    double max_error;
} bench_fast_report;

/* Of the loops by hand: as the figures of the kernel. */
typedef struct bench_hand_report {
    bool timed;
    bench_hand_way way;
    double ms_min, ms_median;
    double fraction_of_peak, fraction_of_roof;
    double ratio_min, ratio_median;              /* the kernel's time over theirs, of the fastest and by rounds */
    char missing[sizeof(((ffn_diag *)0)->text)]; /* why they took no part, where they were asked for */
} bench_hand_report;

/* A figure that could not be measured is 0. */
typedef struct bench_report {
    double ms_min, ms_median, gflops;
    double peak_gflops, fraction_of_peak;          /* the best peak seen in the same rounds */
    double weight_gbs, read_gbs, fraction_of_read; /* of a buffer as large as the weights */
    double act_ns_per_vector, roof_ms, fraction_of_roof;
    /* Of all threads over one in the same rounds: the kernel, multiply-adds from registers, reading; 0 for one thread.
     */
    double speedup, peak_speedup, read_speedup, speedup_of_peak, speedup_of_read;
    double busy;                              /* share of the time that other processes took; one thread only */
    double max_error;                         /* of the kernel, as of a peer */
    bench_peer_report peers[BENCH_PEERS_MAX]; /* in the order of the request */
    bench_free_report free_order;
    bench_stages_report stages;
    bench_fast_report fast;
    bench_dense_report dense;
    bench_hand_report hand;
    uint64_t bits;
    float *y; /* [n][d_model], dense; bench_report_clear frees it */
} bench_report;

/* VERIFY_FAILED: the kernel's output is not that of the oracle. A peer that is wrong is no failure of the case. */
ffn_status bench_case(const bench_request *request, bench_report *report, ffn_diag *diag);
void bench_report_clear(bench_report *report);

#endif
