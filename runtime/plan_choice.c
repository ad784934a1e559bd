/* plan_choice.c: see plan_choice.h */
#include "plan_choice.h"

/* A record of the i-th table: of this machine, or else of any. */
static const tuned_record *find(const planner *who, int i, tuned_query query, bool here) {
    const int32_t threads[] = {who->threads, 0};
    for (int t = 0; t < 2; t++) {
        bool hint = true;
        query.threads = threads[t];
        const tuned_record *record = tuned_find(who->tables.of[i].table, &query, &hint);
        if (record != NULL && !(here && hint))
            return record;
    }
    return NULL;
}

static bool find_tuned(const planner *who, const tuned_query *query, plan_choice *choice) {
    for (int here = 1; here >= 0; here--)
        for (int i = 0; i < who->tables.count; i++) {
            const tuned_record *record = find(who, i, *query, here);
            if (record == NULL)
                continue;
            *choice = (plan_choice){.plan = record->plan,
                                    .from = here ? FFN_PLAN_TUNED : FFN_PLAN_HINT,
                                    .record = record,
                                    .path = who->tables.of[i].path};
            return true;
        }
    return false;
}

ffn_status plan_choose(const planner *who, const ffn_spec *spec, ffn_isa isa, ffn_n_class n_class, plan_choice *choice,
                       ffn_diag *diag) {
    const tuned_query query = {.spec = spec, .isa = isa, .n_class = n_class, .machine = who->machine_name};
    if (who->given == NULL && find_tuned(who, &query, choice))
        return FFN_OK;
    plan_choice made = {.from = who->given != NULL ? FFN_PLAN_GIVEN : FFN_PLAN_MODEL};
    ffn_status status = FFN_OK;
    if (who->given != NULL) {
        made.plan = *who->given;
        status = ffn_plan_check(spec, &made.plan, diag);
    } else {
        status = ffn_plan_make(spec, isa, n_class, &who->machine, &made.plan, diag);
    }
    if (status == FFN_OK)
        *choice = made;
    return status;
}
