/* plan_choice.h: tables, machine, threads; spec, ISA, n class -> the plan to use, and where it is from
 *
 * Only the speed depends on the choice. A tuned plan can be generated for its spec: a table holds no other. */
#ifndef FFN_PLAN_CHOICE_H
#define FFN_PLAN_CHOICE_H

#include "tuned_tables.h"

/* Who plans: what does not change from kernel to kernel. */
typedef struct planner {
    const ffn_plan *given; /* for every class; NULL: none */
    tuned_tables tables;
    const char *machine_name; /* whose records are facts; those of others are hints */
    int32_t threads;          /* that share a run */
    ffn_machine machine;      /* that the model plans for */
} planner;

typedef struct plan_choice {
    ffn_plan plan;
    ffn_plan_origin from;
    const tuned_record *record; /* of a tuned plan or a hint, belongs to its table; else NULL */
    const char *path;           /* of that table */
} plan_choice;

/* The plan that was given; else a record of this machine; else another machine's; else the model's. In each the first
 * table goes before the second, and in a table records with this number of threads before the others. UNSUPPORTED for
 * the portable kernel, BAD_ARGUMENT where a given plan does not fit the spec. */
ffn_status plan_choose(const planner *who, const ffn_spec *spec, ffn_isa isa, ffn_n_class n_class, plan_choice *choice,
                       ffn_diag *diag);

#endif
