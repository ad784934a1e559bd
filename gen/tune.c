/* tune.c: job -> candidates -> search -> records */
#define _POSIX_C_SOURCE 200809L /* gmtime_r */
#include "tune.h"

#include "diag.h"
#include "plan_cost.h"
#include "plan_space.h"
#include "tune_weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LIMIT_SECONDS 10  /* of one call to the worker, with time to spare on a busy machine */
#define LIMIT_LEAST 2     /* even where the budget is small */
#define LIMIT_SHARE 0.125 /* of the budget: one that hangs must not take all of it */
#define LIMIT_GFLOPS 1    /* slower than any kernel: long runs get their time */

typedef struct running {
    const tune_job *job;
    tune_search search;
    tune_outcome *outcome;
    ffn_diag diag; /* of a record that could not be kept */
    ffn_status status;
} running;

static double flops_of(const tune_job *job) {
    return 2.0 * (double)job->n * (double)job->spec.d_model * (double)job->spec.d_ff *
           (ffn_spec_gated(&job->spec) ? 3 : 2);
}

static void date_now(char text[32]) {
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

/* What every record of a job has. */
static tune_record record_tune_record_alike(const tune_job *job) {
    tune_record r = {.spec = job->spec,
                     .isa = job->isa,
                     .n = job->n,
                     .threads = job->threads,
                     .cold = job->cold,
                     .exhaustive = job->exhaustive,
                     .grid = PLAN_GRID_NAME,
                     .generator = FFN_VERSION};
    snprintf(r.machine, sizeof r.machine, "%s", job->machine_name);
    snprintf(r.llvm, sizeof r.llvm, "%s", job->llvm);
    snprintf(r.source, sizeof r.source, "%s", job->source->identity ? job->source->identity : "");
    return r;
}

static tune_record record_of(const running *of, const tune_candidate *candidate) {
    tune_record r = record_tune_record_alike(of->job);
    const tune_search *search = &of->search;
    ffn_plan_format(&candidate->plan, r.plan, sizeof r.plan, NULL);
    if (search->reference >= 0)
        ffn_plan_format(&search->candidates[search->reference].plan, r.reference, sizeof r.reference, NULL);
    r.state = candidate->state;
    memcpy(r.reason, candidate->reason, sizeof r.reason);
    r.figures = candidate->figures;
    r.gflops = r.figures.ms_min > 0 ? flops_of(of->job) / r.figures.ms_min * 1e-6 : 0;
    r.busy = candidate->busy;
    r.verified = candidate->verified;
    date_now(r.date);
    return r;
}

static void tell(const running *of, const tune_record *record) {
    if (of->job->result)
        of->job->result(of->job->self, record);
}

static bool keep(running *of, const tune_record *record) {
    const tune_job *job = of->job;
    if (job->log && !of->status)
        of->status = tune_log_append(job->log, record, &of->diag);
    if (!of->status)
        tell(of, record);
    return !of->status;
}

/* ---- What the search asks for ---- */

static size_t neighbours(void *self, const ffn_plan *plan, ffn_plan *plans, size_t plans_max) {
    const running *of = self;
    (void)plans_max; /* PLAN_NEIGHBOURS_MAX */
    return plan_space_neighbours(&of->job->spec, plan, plans);
}

static double model_ms(void *self, const ffn_plan *plan) {
    const tune_job *job = ((const running *)self)->job;
    return plan_cost_ms(&job->spec, plan, job->machine, job->n, job->cold);
}

static bool keep_candidate(void *self, const tune_candidate *candidate) {
    running *of = self;
    tune_record record = record_of(of, candidate);
    return keep(of, &record);
}

static void show(void *self, const tune_search *search, double seconds_left) {
    const running *of = self;
    if (!of->job->progress)
        return;
    tune_progress progress = {.candidates = search->count, .seconds_left = fmax(seconds_left, 0)};
    double ratio = INFINITY;
    for (int i = 0; i < search->count; i++) {
        const tune_candidate *candidate = &search->candidates[i];
        progress.tried += candidate->state < TUNE_STATES;
        progress.failed += candidate->state < TUNE_STATES && candidate->state != TUNE_OK;
        if (candidate->state == TUNE_OK)
            ratio = fmin(ratio, candidate->figures.ratio);
    }
    progress.gain = isfinite(ratio) ? 1 / ratio - 1 : 0;
    of->job->progress(of->job->self, &progress);
}

/* ---- Candidates ---- */

typedef struct costed {
    ffn_plan plan;
    double ms;
    int place; /* in the grid */
} costed;

static int by_cost(const void *a, const void *b) {
    const costed *left = a, *right = b;
    if (left->ms != right->ms)
        return left->ms > right->ms ? 1 : -1;
    return left->place - right->place;
}

/* The plan an untuned kernel would have, then the grid in the order of the model. */
static ffn_status list_candidates(running *of, ffn_diag *diag) {
    const tune_job *job = of->job;
    ffn_n_class n_class = ffn_n_class_of(job->n);
    ffn_plan model, grid[PLAN_GRID_MAX];
    ffn_status status = ffn_plan_make(&job->spec, job->isa, n_class, job->machine, &model, diag);
    if (status)
        return status;
    size_t count = plan_space_grid(&job->spec, job->isa, n_class, grid);
    costed ordered[PLAN_GRID_MAX];
    for (size_t i = 0; i < count; i++)
        ordered[i] = (costed){grid[i], model_ms(of, &grid[i]), (int)i};
    qsort(ordered, count, sizeof *ordered, by_cost);
    bool added = tune_search_add(&of->search, &model);
    for (size_t i = 0; i < count && added; i++)
        added = tune_search_add(&of->search, &ordered[i].plan);
    return added ? FFN_OK : diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for the plans");
}

/* ---- What the log knows ---- */

/* The last record that ended a search like this one; an exhaustive one stands for both kinds. */
static const tune_record *known_winner(const running *of) {
    const tune_record own = record_tune_record_alike(of->job), *found = NULL;
    for (size_t i = 0; tune_log_at(of->job->log, i); i++) {
        const tune_record *record = tune_log_at(of->job->log, i);
        bool enough = record->exhaustive || !own.exhaustive;
        if (record->winner && enough && tune_record_alike(record, &own) &&
            (!own.exhaustive || !strcmp(record->grid, own.grid)))
            found = record;
    }
    return found;
}

static void recall_known(running *of, const tune_record *winner) {
    const tune_record own = record_tune_record_alike(of->job);
    tune_outcome *outcome = of->outcome;
    outcome->known = true;
    outcome->best = *winner;
    outcome->model.state = TUNE_PENDING;
    for (size_t i = 0; tune_log_at(of->job->log, i); i++) {
        const tune_record *record = tune_log_at(of->job->log, i);
        ffn_plan plan;
        if (!tune_record_alike(record, &own) || record->winner || ffn_plan_parse(record->plan, &plan, NULL))
            continue;
        tell(of, record);
        if (!strcmp(record->plan, winner->reference))
            outcome->model = *record;
        int place = tune_search_find(&of->search, &plan);
        if (place < 0 && tune_search_add(&of->search, &plan))
            place = of->search.count - 1;
        if (place >= 0)
            of->search.candidates[place].state = record->state;
    }
    for (int i = 0; i < of->search.count; i++) {
        tune_state state = of->search.candidates[i].state;
        outcome->tried += state < TUNE_STATES;
        outcome->failed += state < TUNE_STATES && state != TUNE_OK;
    }
    outcome->recalled = outcome->tried;
    outcome->busy = winner->busy;
}

/* Results of an earlier run that did not end: the last of each plan. Ratios count where they are to the plan that this
 * run's will be to: the first of the list that has not failed. */
static ffn_status recall(running *of, ffn_diag *diag) {
    const tune_record own = record_tune_record_alike(of->job);
    tune_search *search = &of->search;
    char reference[TUNE_PLAN_BYTES] = "";
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; pass == 1 && i < search->count && !*reference; i++) {
            if (search->candidates[i].state == TUNE_PENDING)
                ffn_plan_format(&search->candidates[i].plan, reference, sizeof reference, NULL);
        }
        for (size_t i = 0; tune_log_at(of->job->log, i); i++) {
            const tune_record *record = tune_log_at(of->job->log, i);
            ffn_plan plan;
            bool timed = record->state == TUNE_OK;
            if (!tune_record_alike(record, &own) || record->winner || ffn_plan_parse(record->plan, &plan, NULL) ||
                timed != (pass == 1) || (timed && strcmp(record->reference, reference) != 0))
                continue;
            int place = tune_search_find(search, &plan);
            if (place < 0 && own.exhaustive)
                continue; /* the grid alone */
            if (place < 0 && !tune_search_add(search, &plan))
                return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for the plans");
            tune_candidate *candidate = &search->candidates[place < 0 ? search->count - 1 : place];
            if (timed && candidate->state < TUNE_STATES && candidate->state != TUNE_OK)
                continue; /* it failed later */
            of->outcome->recalled += !candidate->recalled;
            candidate->recalled = true;
            candidate->state = record->state;
            candidate->figures = record->figures;
            candidate->busy = record->busy;
            candidate->verified = record->verified;
            memcpy(candidate->reason, record->reason, sizeof candidate->reason);
            tell(of, record);
        }
    }
    return FFN_OK;
}

/* ---- The run ---- */

static ffn_status search_with_worker(running *of, ffn_diag *diag) {
    const tune_job *job = of->job;
    bench_copies packed;
    ffn_status status = tune_weights_make(&job->spec, job->cold, job->machine, &packed, diag);
    if (status)
        return status;
    const tune_setup setup = {&job->spec,  job->isa,     job->n,  job->threads,
                              job->source, job->machine, &packed, job->stopping};
    tune_worker *worker;
    status = tune_worker_create(&setup, &worker, diag);
    if (!status) {
        tune_lab lab = tune_worker_lab(worker);
        of->search.lab = &lab;
        status = tune_search_run(&of->search, diag);
        tune_worker_destroy(worker);
    }
    bench_copies_free(&packed);
    return status;
}

static double limit_of(const tune_job *job) {
    if (job->limit > 0)
        return job->limit;
    double limit = job->exhaustive ? LIMIT_SECONDS : fmin(LIMIT_SECONDS, fmax(LIMIT_LEAST, job->seconds * LIMIT_SHARE));
    return limit + 4 * flops_of(job) / (LIMIT_GFLOPS * 1e9);
}

static ffn_status finish(running *of, ffn_diag *diag) {
    const tune_search *search = &of->search;
    tune_outcome *outcome = of->outcome;
    outcome->tried = search->tried;
    outcome->failed = search->failed;
    outcome->busy = search->busy;
    outcome->interrupted = search->interrupted || search->best < 0;
    outcome->model = record_of(of, &search->candidates[0]);
    if (outcome->interrupted)
        return FFN_OK;
    outcome->best = record_of(of, &search->candidates[search->best]);
    outcome->best.busy = fmax(outcome->best.busy, search->busy);
    outcome->best.winner = true;
    keep(of, &outcome->best);
    if (of->status && diag)
        *diag = of->diag;
    return of->status;
}

ffn_status tune_run(const tune_job *job, tune_outcome *outcome, ffn_diag *diag) {
    *outcome = (tune_outcome){0};
    running of = {.job = job, .outcome = outcome};
    of.search = (tune_search){.seconds = job->seconds,
                              .limit = limit_of(job),
                              .exhaustive = job->exhaustive,
                              .neighbours = job->exhaustive ? NULL : neighbours,
                              .model_ms = model_ms,
                              .record = keep_candidate,
                              .progress = show,
                              .self = &of};
    ffn_status status = list_candidates(&of, diag);
    const tune_record *winner = !status && job->log && job->resume ? known_winner(&of) : NULL;
    if (winner) {
        recall_known(&of, winner);
    } else {
        if (!status && job->log && job->resume)
            status = recall(&of, diag);
        if (!status)
            status = search_with_worker(&of, diag);
        if (of.status) { /* what made the search end says more than that it did */
            status = of.status;
            if (diag)
                *diag = of.diag;
        }
        if (!status)
            status = finish(&of, diag);
    }
    tune_search_clear(&of.search);
    return status;
}
