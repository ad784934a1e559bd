/* peer.h: the programs that a kernel is compared with, by name -> modules loaded, or the reason why one is missing
 *
 * A module is looked for beside the running program (a build folder) and in ../lib/ffngen/peers from there (an
 * installed one). One that was asked for and is not there stays in the list with the reason: it is never left out
 * silently. */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H

#include "peer_module.h"

#define BENCH_PEERS_MAX 4
#define BENCH_PEER_NAMES "openblas, onednn, libxsmm, blis"

typedef struct bench_peer {
    const char *name;               /* "onednn" */
    const char *title;              /* "oneDNN" */
    char version[PEER_TEXT_BYTES];  /* as the module describes itself; empty where it is missing */
    char missing[PEER_TEXT_BYTES];  /* why; empty where it is there */
    char no_layer[PEER_TEXT_BYTES]; /* why it cannot take the layer of now; empty where it can */
    const peer_module *module;
    void *library;
    void *weights; /* of the layer of now */
} bench_peer;

typedef struct bench_peers {
    int count;
    bench_peer list[BENCH_PEERS_MAX];
} bench_peers;

/* "openblas,blis", "all" or "none" -> the list, nothing loaded yet. BAD_ARGUMENT names what is no peer. */
ffn_status bench_peers_parse(const char *text, bench_peers *peers, ffn_diag *diag);
/* Loads each; what cannot be had gets `missing`. The rest of the functions pass over those. */
void bench_peers_open(bench_peers *peers);
void bench_peers_close(bench_peers *peers);

/* The weights of a layer for each peer, in place of those of the layer before. Both must outlive it. */
void bench_peers_take(bench_peers *peers, bench_layer *layer, int threads);
void bench_peers_drop(bench_peers *peers);

/* Looks for modules in this folder alone; NULL: where they belong. For tests. */
void bench_peers_folder(const char *folder);

/* Libraries read their environment when they are loaded, OpenBLAS before main: where variables are set that would make
 * a peer another one than is installed, or pin our threads, this unsets them and starts the program anew. Returns if
 * there were none, or -1 if the program could not be started again. */
int bench_peer_clean_start(char **argv);
/* Variables that are set and may change a peer's pace, "OMP_PROC_BIND, BLIS_IC_NT"; empty where there are none. */
const char *bench_peer_environment(void);

#endif
