/* peer_module.h: what a peer's module implements: a layer -> weights as it wants them -> cases of n rows -> y
 *
 * A module is a shared library of its own, bench/peers/<name>.c, loaded when it is asked for, so that the command
 * needs no peer and the symbols of two peers cannot meet. It exports one symbol, a peer_module. It links nothing of the
 * command: what it needs is handed in. At most one case of its weights is alive at a time. */
#ifndef BENCH_PEER_MODULE_H
#define BENCH_PEER_MODULE_H

#include "layer.h"

#define PEER_INTERFACE 2
#define PEER_SYMBOL "ffngen_peer"
#define PEER_TEXT_BYTES 160

/* The generated, vectorised activation: out[i] = act(g[i]) or phi(g[i], u[i]); out may be g or u. Thread-safe. */
typedef struct peer_lender {
    void (*activate)(const void *self, int64_t count, const float *g, const float *u, float *out);
    const void *self;
} peer_lender;

/* What is passed must outlive what is made of it. `text` has PEER_TEXT_BYTES; where something cannot be made it gets
 * the reason and the result is NULL. */
typedef struct peer_module {
    int interface; /* PEER_INTERFACE */
    /* Name, version, and the code path that this machine gets: "OpenBLAS 0.3.21 Zen". */
    void (*describe)(char *text);
    /* Once for each layer: everything that does not depend on n. */
    void *(*weights_create)(bench_layer *layer, int threads, char *text);
    void (*weights_destroy)(void *weights);
    /* Once for each n. x: [n][d_model], dense. Everything that can be done before the first call is done here; trials
     * may take as many `seconds` as all contenders together will be timed for, and more where one call takes longer. */
    void *(*case_create)(void *weights, int64_t n, const float *x, peer_lender lender, double seconds, char *text);
    void (*case_destroy)(void *self);
    /* One FFN of all n rows, with the next copy of the weights where there are several. */
    void (*call)(void *self);
    /* [n][d_model], dense, of the last call. */
    const float *(*output)(void *self);
    /* What was chosen for this case, in words. */
    void (*chosen)(const void *self, char *text);
    /* True if the activation of this case is the library's own, not the lent one. NULL: never. */
    bool (*own_activation)(const void *self);
    /* After calls, before another contender runs: sends threads of its own to sleep. NULL: it has none. */
    void (*rest)(void *self);
    /* How long its library's threads spin after a call where there are several. */
    double settle_ms;
} peer_module;

#if defined(__GNUC__)
#define PEER_EXPORT __attribute__((visibility("default")))
#else
#define PEER_EXPORT
#endif

extern PEER_EXPORT const peer_module ffngen_peer;

#endif
