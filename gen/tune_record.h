/* tune_record.h: one candidate's result <-> a JSON object on one line */
#ifndef TUNE_RECORD_H
#define TUNE_RECORD_H

#include "json.h"
#include "tune_search.h"

#define TUNE_NAME_BYTES 128
#define TUNE_SOURCE_BYTES 256
#define TUNE_PLAN_BYTES 512

typedef struct tune_record {
    /* what was measured, where, with what */
    ffn_spec spec;
    ffn_isa isa;
    int64_t n, threads;
    bool cold;
    char grid[TUNE_NAME_BYTES]; /* name of the grid that the search began with */
    bool exhaustive;
    char machine[TUNE_NAME_BYTES], llvm[TUNE_NAME_BYTES], generator[TUNE_NAME_BYTES];
    char source[TUNE_SOURCE_BYTES];                         /* ffn_source.identity: finer than the versions */
    char plan[TUNE_PLAN_BYTES], reference[TUNE_PLAN_BYTES]; /* the plan that `ratio` is to; "" where none was timed */
    /* what came of it */
    tune_state state;
    char reason[TUNE_REASON_BYTES];
    tune_figures figures; /* of state OK */
    double gflops, busy;
    bool verified;
    bool winner; /* the search is over and this is its plan */
    char date[32];
} tune_record;

/* The object; the caller prints or frees it. */
json_line tune_record_line(const tune_record *record);
/* BAD_FILE names the field and what would be right. */
ffn_status tune_record_parse(const char *text, tune_record *record, ffn_diag *diag);
/* Whether two were measured alike: everything but plan and results; one grid or exhaustive search is as good as
 * another. */
bool tune_record_alike(const tune_record *a, const tune_record *b);

#endif
