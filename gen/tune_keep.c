/* tune_keep.c: record -> tuned.h */
#include "tune_keep.h"

#include "tuned.h"

#include <string.h>

static bool same_key(const tuned_record *a, const tuned_record *b) {
    return ffn_spec_equal(&a->spec, &b->spec) && a->plan.isa == b->plan.isa && a->plan.n_class == b->plan.n_class &&
           a->threads == b->threads && !strcmp(a->machine, b->machine) && !strcmp(a->llvm, b->llvm) &&
           !strcmp(a->generator, b->generator);
}

/* The record that the table has now where it is not ours. */
static ffn_status look(const char *path, const tuned_record *own, double *stays, char plan[TUNE_PLAN_BYTES],
                       ffn_diag *diag) {
    tuned *table;
    ffn_status status = tuned_load(path, &table, diag);
    if (status)
        return status;
    const tuned_record *record;
    for (size_t i = 0; (record = tuned_next(table, &i)) != NULL;) {
        char text[TUNE_PLAN_BYTES];
        if (!same_key(record, own) || ffn_plan_format(&record->plan, text, sizeof text, NULL))
            continue;
        char ours[TUNE_PLAN_BYTES] = "";
        ffn_plan_format(&own->plan, ours, sizeof ours, NULL);
        if (strcmp(text, ours) != 0) {
            *stays = record->ms;
            memcpy(plan, text, sizeof text);
        }
    }
    tuned_free(table);
    return FFN_OK;
}

ffn_status tune_keep_best(const tune_record *best, const char *path, double *stays, char plan[TUNE_PLAN_BYTES],
                          ffn_diag *diag) {
    tuned_record record = {.spec = best->spec,
                           .threads = (int32_t)best->threads,
                           .ms = best->figures.ms_min,
                           .spread = best->figures.spread};
    memcpy(record.machine, best->machine, sizeof record.machine);
    memcpy(record.llvm, best->llvm, sizeof record.llvm);
    memcpy(record.generator, best->generator, sizeof record.generator);
    *stays = 0;
    tuned *table = NULL;
    ffn_status status = ffn_plan_parse(best->plan, &record.plan, diag);
    if (!status)
        status = tuned_create(&table, diag);
    if (!status)
        status = tuned_add(table, &record, diag);
    if (!status)
        status = tuned_save_merged(table, path, diag);
    tuned_free(table);
    return status ? status : look(path, &record, stays, plan, diag);
}
