/* context_plan.c: a context -> its plans: what they are chosen from is read once, when the first is wanted
 *
 * The first thread that needs a plan reads the tables and the machine, outside every lock; others wait for it. What was
 * read does not change afterwards, so every kernel of a context has the plan, and the scratch, that was first said. */
#include <string.h>

#include "context.h"
#include "machine.h"

static void read_all(ffn_context *context, tuned_tables *tables, ffn_machine *machine,
                     ffn_diag remarks[TUNED_TABLES_MAX + 1]) {
    tuned_tables_load(context->tuned, tables, remarks);
    remarks[TUNED_TABLES_MAX] = (ffn_diag){.status = FFN_OK};
    *machine = context->planner.machine;
    if (!context->has_machine) {
        machine_read_calibrated(machine, &remarks[TUNED_TABLES_MAX]);
    }
}

static void be_ready(ffn_context *context) {
    if (atomic_load_explicit(&context->planning, memory_order_acquire) == CONTEXT_PLANS) {
        return;
    }
    pthread_mutex_lock(&context->builds);
    while (atomic_load_explicit(&context->planning, memory_order_relaxed) == CONTEXT_READING) {
        pthread_cond_wait(&context->built, &context->builds);
    }
    const bool reads = atomic_load_explicit(&context->planning, memory_order_relaxed) == CONTEXT_UNPLANNED;
    if (reads) {
        atomic_store_explicit(&context->planning, CONTEXT_READING, memory_order_relaxed);
    }
    pthread_mutex_unlock(&context->builds);
    if (!reads) {
        return;
    }
    tuned_tables tables;
    ffn_machine machine;
    ffn_diag remarks[TUNED_TABLES_MAX + 1];
    read_all(context, &tables, &machine, remarks);
    for (int i = 0; i <= TUNED_TABLES_MAX; i++) {
        context_leave_remark(context, &remarks[i]);
    }
    pthread_mutex_lock(&context->builds);
    context->planner.tables = tables;
    context->planner.machine = machine;
    context->planner.machine_name = ffn_machine_name();
    atomic_store_explicit(&context->planning, CONTEXT_PLANS, memory_order_release);
    pthread_cond_broadcast(&context->built);
    pthread_mutex_unlock(&context->builds);
}

ffn_status context_plan(ffn_context *context, const ffn_spec *spec, ffn_isa isa, ffn_n_class n_class,
                        plan_choice *choice, ffn_diag *diag) {
    if (!context->has_plan && isa != FFN_ISA_PORTABLE) {
        int cancelled; /* a thread that ended on the way would leave others waiting for it */
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelled);
        be_ready(context);
        pthread_setcancelstate(cancelled, NULL);
    }
    return plan_choose(&context->planner, spec, isa, n_class, choice, diag);
}

/* ---- Remarks ----------------------------------------------------------------------------------------------- */

void context_leave_remark(ffn_context *context, const ffn_diag *remark) {
    if (remark->text[0] == '\0') {
        return;
    }
    pthread_mutex_lock(&context->builds);
    const int count = atomic_load_explicit(&context->remark_count, memory_order_relaxed);
    if (count < CONTEXT_REMARKS_MAX) {
        context->remarks[count] = *remark;
        atomic_store_explicit(&context->remark_count, count + 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&context->builds);
}

void context_take_remarks(ffn_context *context, ffn_diag *diag) {
    static const char between[] = "; ";
    pthread_mutex_lock(&context->builds);
    const int count = atomic_load_explicit(&context->remark_count, memory_order_relaxed);
    size_t used = 0;
    int taken = 0;
    for (; taken < count; taken++) {
        const char *text = context->remarks[taken].text;
        const size_t gap = taken > 0 ? sizeof between - 1 : 0, length = strlen(text);
        if (used + gap + length >= sizeof diag->text) {
            break;
        }
        memcpy(diag->text + used, between, gap);
        memcpy(diag->text + used + gap, text, length + 1);
        used += gap + length;
    }
    memmove(context->remarks, context->remarks + taken, (size_t)(count - taken) * sizeof *context->remarks);
    atomic_store_explicit(&context->remark_count, count - taken, memory_order_relaxed);
    pthread_mutex_unlock(&context->builds);
}
