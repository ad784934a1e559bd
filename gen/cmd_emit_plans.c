/* cmd_emit_plans.c: see cmd_emit_plans.h */
#include "cmd_emit_plans.h"

#include <stdio.h>
#include <string.h>

#include "machine_text.h"

int emit_plans_begin(const cmd *command, const char *machine, const char *table, const char *changes,
                     emit_plans *plans) {
    ffn_diag diag = {0};
    *plans = (emit_plans){.has_machine = machine != NULL, .changes = changes};
    if ((machine && machine_file_read(machine, &plans->machine, &diag)) ||
        (table && tuned_load(table, &plans->table, &diag)))
        return cmd_error(command, CMD_FAILED, "%s", diag.text);
    return CMD_OK;
}

void emit_plans_end(emit_plans *plans) {
    tuned_free(plans->table);
    *plans = (emit_plans){.table = NULL};
}

/* One thread's plan for choice: a kernel of a header does not know how many share its work. */
static const tuned_record *find(const emit_plans *plans, const ffn_spec *spec, ffn_isa isa, ffn_n_class n_class) {
    tuned_query query = {.spec = spec, .isa = isa, .n_class = n_class, .threads = 1};
    if (!plans->table)
        return NULL;
    const tuned_record *record = tuned_find(plans->table, &query, NULL);
    query.threads = 0;
    return record ? record : tuned_find(plans->table, &query, NULL);
}

ffn_status emit_plan(emit_plans *plans, const ffn_spec *spec, ffn_isa isa, ffn_n_class n_class, ffn_plan *plan,
                     ffn_diag *diag) {
    const tuned_record *record = find(plans, spec, isa, n_class);
    ffn_machine machine = plans->machine;
    ffn_status status = plans->has_machine ? FFN_OK : ffn_machine_generic(isa, &machine, diag);
    if (!status && record)
        *plan = record->plan;
    else if (!status)
        status = ffn_plan_make(spec, isa, n_class, &machine, plan, diag);
    if (!status && plans->changes)
        status = cmd_plan_change(plans->changes, plan, diag);
    plans->asked++;
    plans->tuned += record != NULL;
    if (record && strcmp(record->machine, ffn_machine_name()) != 0) {
        plans->hints++;
        plans->machines += strcmp(plans->elsewhere, record->machine) != 0;
        strcpy(plans->elsewhere, record->machine);
    }
    return status ? status : ffn_plan_check(spec, plan, diag);
}

void emit_plans_note(const emit_plans *plans, const cmd *command) {
    char hints[TUNED_NAME_BYTES + 96] = "";
    if (!plans->table)
        return;
    if (plans->hints)
        snprintf(hints, sizeof hints, "; hints from other machines: %d, measured on \"%s\"%s", plans->hints,
                 plans->elsewhere, plans->machines > 1 ? " and others" : "");
    cmd_note(command, "%d of %d plans are of the tuned table%s", plans->tuned, plans->asked, hints);
}
