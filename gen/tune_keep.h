/* tune_keep.h: the plan that won -> the tuned table */
#ifndef TUNE_KEEP_H
#define TUNE_KEEP_H

#include "tune.h"

/* Adds the winner to the table at `path`, which other processes may be adding to. Where the table has a faster record
 * of the same key, that one stays and `*stays` is its time and `plan` its plan; else 0. */
ffn_status tune_keep_best(const tune_record *best, const char *path, double *stays, char plan[TUNE_PLAN_BYTES],
                          ffn_diag *diag);

#endif
