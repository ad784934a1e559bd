/* cmd_emit_job.h: what `ffngen emit` was told -> a job for the emitters: names, ISAs, plans, weights */
#ifndef CMD_EMIT_JOB_H
#define CMD_EMIT_JOB_H

#include "cmd_emit_plans.h"
#include "emit.h"
#include "weights.h"

typedef struct emit_settings {
    const cmd *command;
    emit_plans *plans;
    const char *isas;                                    /* "avx2,portable" */
    const char *prefix;                                  /* NULL: from the name of the output */
    const char *output;                                  /* NULL: standard output */
    const char *weights, *weights_out, *machine, *tuned; /* files */
    weights_options names;
    bool is_static;
} emit_settings;

typedef struct emit_made {
    emit_job job;
    ffn_isa isas[FFN_ISA_COUNT];
    char prefix[EMIT_NAME_BYTES], file[EMIT_NAME_BYTES], weights_file[EMIT_NAME_BYTES];
    emit_kernel *kernels;
    void *weights;
    char *weights_new; /* the file of --weights-out, not yet in its place; NULL: none */
} emit_made;

/* Operands "[NAME=]SPEC" and settings -> *made. Exit status; a mistake was said and nothing stays. With --weights-out
 * its file has been written beside its place. */
int emit_made_begin(const emit_settings *settings, char **operands, int count, emit_made *made);
/* That file goes to its place: once all that belongs to it is there. Exit status. */
int emit_made_finish(const emit_settings *settings, emit_made *made);
void emit_made_end(emit_made *made);

/* "avx2,avx512,portable" -> the ISAs code is generated for, in the order of the table, and whether portable is among
 * them; all of one architecture. Exit status. */
int emit_isas(const cmd *command, const char *names, ffn_isa isas[FFN_ISA_COUNT], int32_t *count, bool *portable);

#endif
