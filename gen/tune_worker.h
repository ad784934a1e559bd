/* tune_worker.h: plans -> timings by a child process: a lab (tune_search.h) that survives what it measures
 *
 * A kernel is compiled, verified and timed in the child. A child that dies or does not answer in time is ended and
 * another one started; what it had prepared comes back from images in a private folder, which is gone at the end. */
#ifndef TUNE_WORKER_H
#define TUNE_WORKER_H

#include "buffers.h"
#include "ffn.h"
#include "tune_search.h"

#include <signal.h>

/* Everything named must outlive the worker. */
typedef struct tune_setup {
    const ffn_spec *spec;
    ffn_isa isa;
    int64_t n;
    int32_t threads;
    const ffn_source *source;
    const ffn_machine *machine;
    const bench_copies *packed;            /* tune_weights_make */
    const volatile sig_atomic_t *stopping; /* not 0: calls return at once with PENDING; NULL: never */
} tune_setup;

typedef struct tune_worker tune_worker;

/* Starts nothing yet. SYSTEM where the private folder cannot be made in $TMPDIR or /tmp. The process should have one
 * thread: it forks. */
ffn_status tune_worker_create(const tune_setup *setup, tune_worker **worker, ffn_diag *diag);
/* NULL is allowed. The child is ended and waited for, the folder removed. */
void tune_worker_destroy(tune_worker *worker);

/* Valid as long as the worker. */
tune_lab tune_worker_lab(tune_worker *worker);

/* For tests: the child, or 0; the private folder. */
int tune_worker_child(const tune_worker *worker);
const char *tune_worker_folder(const tune_worker *worker);

#endif
