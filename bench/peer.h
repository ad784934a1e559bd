/* peer.h: what a program without ffngen would run: OpenBLAS products and a vectorised activation loop
 *
 * Each product takes the orientation and the call (sgemm, or sgemv row by row) that is fastest here for its shape.
 * Biases are copied into the output first and the product adds to it; the activation between the products is the
 * generated one. Buffers are allocated beforehand. All of that is to the peer's advantage. */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H

#include "layer.h"

typedef struct bench_peer bench_peer;

/* x: [n][d_model], dense. `kernel` lends its activation. What is passed must outlive the peer. Sets OpenBLAS to
 * `threads` threads. NULL without memory. */
bench_peer *bench_peer_create(bench_layer *layer, int64_t n, const float *x, const ffn_kernel *kernel, int threads);
void bench_peer_destroy(bench_peer *peer); /* NULL is allowed */

/* A bench_contender's call: one FFN of all n rows. */
void bench_peer_call(void *peer);
/* [n][d_model], dense, of the last call. */
const float *bench_peer_output(const bench_peer *peer);

/* "OpenBLAS 0.3.21 Zen" */
const char *bench_peer_name(void);
/* OpenBLAS reads its environment when it is loaded, before main: where variables are set that would make it another
 * peer than the one installed, this unsets them and starts the program anew. Returns if there were none, or -1 if
 * the program could not be started again. */
int bench_peer_clean_start(char **argv);

#endif
