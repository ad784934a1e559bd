/* tune.h: a spec, a number of rows, threads -> the plan that is fastest here, and a record of everything tried
 *
 * A search (tune_search.h) over the plan space in the order of the cost model, timed by a worker (tune_worker.h), kept
 * in a log (tune_log.h) as it goes. */
#ifndef TUNE_H
#define TUNE_H

#include "tune_log.h"
#include "tune_worker.h"

typedef struct tune_progress {
    int tried, failed, candidates;
    double gain;         /* of the fastest so far over the reference, 0.03 for 3 %; 0 where none is timed */
    double seconds_left; /* of this job */
} tune_progress;

typedef struct tune_job {
    ffn_spec spec;
    ffn_isa isa; /* not AUTO */
    int64_t n;
    int32_t threads;
    bool cold;
    bool exhaustive; /* the whole grid; `seconds` is then no limit */
    double seconds;
    double limit;             /* seconds for one candidate to be made, or timed once; 0: by shape and budget */
    const ffn_source *source; /* the compiler */
    const char *llvm;         /* its version */
    const ffn_machine *machine;
    const char *machine_name;
    tune_log *log; /* NULL: nothing is kept */
    bool resume;   /* what the log holds of the same job is not measured again */
    const volatile sig_atomic_t *stopping;
    void (*progress)(void *self, const tune_progress *progress); /* NULL is allowed */
    /* Told of every result, after the log, and of those that the log had; NULL is allowed. */
    void (*result)(void *self, const tune_record *record);
    void *self;
} tune_job;

typedef struct tune_outcome {
    tune_record best;
    tune_record model; /* of the model's plan; state is not OK where that failed */
    int tried, failed; /* candidates, earlier runs' included */
    int recalled;      /* of them, from the log */
    double busy;
    bool interrupted; /* there is no best then */
    bool known;       /* the log had the whole job: nothing was measured */
} tune_outcome;

/* UNSUPPORTED: there is no plan, or none could be timed. A failure may follow results that were already kept. */
ffn_status tune_run(const tune_job *job, tune_outcome *outcome, ffn_diag *diag);

#endif
