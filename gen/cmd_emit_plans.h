/* cmd_emit_plans.h: where emission takes its plans from: a tuned table, the model for a machine, changes by hand */
#ifndef CMD_EMIT_PLANS_H
#define CMD_EMIT_PLANS_H

#include "cmd.h"
#include "tuned.h"

typedef struct emit_plans {
    bool has_machine;
    ffn_machine machine; /* else the fixed one of each ISA */
    tuned *table;        /* NULL: none */
    const char *changes; /* NULL: none */
    int asked, tuned;    /* plans given out; those of the table */
    /* Of these, those that were measured on other machines than this: for the note alone, what is emitted is the same
     * wherever it is. */
    int hints, machines;
    char elsewhere[TUNED_NAME_BYTES];
} emit_plans;

/* Files of --machine and --tuned, text of --plan; each may be NULL. Exit status. */
int emit_plans_begin(const cmd *command, const char *machine, const char *table, const char *changes,
                     emit_plans *plans);
void emit_plans_end(emit_plans *plans);

/* The table's plan where it has one for spec, ISA and class, measured on whichever machine; else the model's. Changes
 * come last. */
ffn_status emit_plan(emit_plans *plans, const ffn_spec *spec, ffn_isa isa, ffn_n_class n_class, ffn_plan *plan,
                     ffn_diag *diag);

/* Says how many plans the table gave, and which were of other machines. */
void emit_plans_note(const emit_plans *plans, const cmd *command);

#endif
