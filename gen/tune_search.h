/* tune_search.h: a list of plans, a lab that times them, a budget -> the fastest plan
 *
 * Each plan is made and screened beside the reference, best guess first; neighbours of the leaders follow; the leaders
 * meet in interleaved rounds that drop the worse half until few are left (successive halving). A plan that fails is
 * noted and never ends the search. Nothing here knows how a plan is timed: that is the lab's. */
#ifndef TUNE_SEARCH_H
#define TUNE_SEARCH_H

#include "ffn.h"
#include "tune_figures.h"

#define TUNE_REASON_BYTES 256

typedef enum tune_state {
    TUNE_OK,
    TUNE_CRASHED, /* its process died */
    TUNE_HUNG,    /* took longer than the limit */
    TUNE_WRONG,   /* did not pass verification */
    TUNE_REFUSED, /* could not be made */
    TUNE_STATES,
    TUNE_PENDING = TUNE_STATES, /* not measured: no time was left, or it was interrupted */
    TUNE_BROKEN                 /* the lab itself failed, whatever the plan: the search ends */
} tune_state;

/* "ok", "crashed", ...; NULL for what is no result */
const char *tune_state_name(tune_state state);

typedef struct tune_candidate {
    ffn_plan plan;
    double model_ms;
    tune_state state;
    char reason[TUNE_REASON_BYTES]; /* where it failed */
    bool ready;                     /* made in this search */
    bool verified;
    bool recalled; /* its figures are an earlier search's */
    double busy;   /* the larger of: share of time taken by others, the reference slower than at its best */
    tune_samples samples;
    tune_figures figures;
} tune_candidate;

/* One timing: ms of a call, and the share of wall time in which the caller's thread did not run. */
typedef struct tune_sample {
    double ms, stolen;
} tune_sample;

/* Candidates are known by their place in the list. No call takes longer than `seconds`: PENDING is the answer where
 * that was too short to call it hung. */
typedef struct tune_lab {
    tune_state (*prepare)(void *self, int index, const ffn_plan *plan, double seconds, bool *verified,
                          char reason[TUNE_REASON_BYTES]);
    tune_state (*sample)(void *self, int index, double seconds, tune_sample *sample, char reason[TUNE_REASON_BYTES]);
    double (*now)(void *self); /* seconds */
    bool (*stopped)(void *self);
    void *self;
} tune_lab;

typedef struct tune_search {
    const tune_lab *lab;
    tune_candidate *candidates; /* in the order to be tried; the first is the model's; freed by the caller */
    int count, room;
    double seconds;  /* budget */
    double limit;    /* seconds of one call to the lab; one that the budget cuts shorter is not called hung */
    bool exhaustive; /* all of the list with the same number of rounds, no neighbours, no budget */
    /* More plans near one of the list, or NULL. Returns how many. */
    size_t (*neighbours)(void *self, const ffn_plan *plan, ffn_plan *plans, size_t plans_max);
    double (*model_ms)(void *self, const ffn_plan *plan);
    /* A candidate's figures are new, or it has failed. NULL is allowed; false ends the search. */
    bool (*record)(void *self, const tune_candidate *candidate);
    void (*progress)(void *self, const struct tune_search *search, double seconds_left); /* NULL is allowed */
    void *self;

    /* What comes of it. */
    int reference; /* that ratios are to: the first that could be timed; -1: none could */
    int best;      /* -1: none */
    int tried, failed;
    double busy; /* drift of the reference, or the largest share of time that others took */
    bool interrupted;
    double *reference_ms; /* every sample of it; freed by the caller */
    int reference_count, reference_room;
    double began;
} tune_search;

/* OUT_OF_MEMORY; SYSTEM where the lab broke (its words) or `record` ended it. UNSUPPORTED where no plan could be timed:
 * the text says what became of the first. Recalled candidates are not screened again. */
ffn_status tune_search_run(tune_search *search, ffn_diag *diag);
/* Adds a plan unless it is there. False without memory. */
bool tune_search_add(tune_search *search, const ffn_plan *plan);
/* The place of a plan in the list, or -1. */
int tune_search_find(const tune_search *search, const ffn_plan *plan);
void tune_search_clear(tune_search *search);

#endif
