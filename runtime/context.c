/* context.c: options -> a context
 *
 * Creating one touches no file: the tables of tuned plans and the machine are first looked at when a kernel is made,
 * the store's folder and the compiler library when one is prepared. */
#include "context.h"

#include <stdlib.h>
#include <string.h>

#include "diag.h"
#include "isa.h"
#include "kernel_handle.h"
#include "plan.h"
#include "user_path.h"

/* The ISA of a context: the one asked for, else the plan's, else the best of this CPU. */
static ffn_status resolve_isa(const ffn_options *options, ffn_isa *isa, ffn_diag *diag) {
    ffn_isa asked = options->isa;
    if (options->plan != NULL) {
        if (asked != FFN_ISA_AUTO && asked != options->plan->isa) {
            return diag_fail(diag, FFN_BAD_ARGUMENT, "options: isa and plan->isa differ: leave isa at FFN_ISA_AUTO");
        }
        asked = options->plan->isa;
    }
    if (asked == FFN_ISA_AUTO) {
        *isa = ffn_isa_best();
        return FFN_OK;
    }
    const char *name = ffn_isa_name(asked);
    if (name == NULL) {
        return diag_fail(diag, FFN_BAD_ARGUMENT, "options: isa %d is not one of enum ffn_isa", (int)asked);
    }
    if (asked != FFN_ISA_PORTABLE && !ffn_isa_supported(asked)) {
        return diag_fail(diag, FFN_UNSUPPORTED,
                         "options: this CPU or its operating system does not support %s; %s is "
                         "its best",
                         name, ffn_isa_name(ffn_isa_best()));
    }
    *isa = asked;
    return FFN_OK;
}

static ffn_status check_options(const ffn_options *options, ffn_diag *diag) {
    if ((unsigned)options->verify > FFN_VERIFY_NEVER) {
        return diag_fail(diag, FFN_BAD_ARGUMENT, "options: verify %d is not one of enum ffn_verify_mode",
                         (int)options->verify);
    }
    if (options->machine != NULL && plan_machine_check(options->machine, diag) != FFN_OK) {
        return FFN_BAD_ARGUMENT;
    }
    if (options->plan != NULL && isa_row_of(options->plan->isa) == NULL) {
        return diag_fail(diag, FFN_BAD_ARGUMENT,
                         "options: plan->isa is %d: a plan is for an ISA that has generated code",
                         (int)options->plan->isa);
    }
    if ((options->source != NULL && options->source->build == NULL && options->source->find == NULL) ||
        (options->product != NULL && options->product->multiply == NULL)) {
        return diag_fail(diag, FFN_BAD_ARGUMENT, "options: a source needs its build or find, a product its multiply");
    }
    if (options->threads < 0) {
        return diag_fail(diag, FFN_BAD_ARGUMENT, "options: threads %d: it must be 1 or more, or 0 for 1",
                         (int)options->threads);
    }
    const uint32_t tools = FFN_TOOL_PERF_MAP | FFN_TOOL_GDB;
    if ((options->tools & ~tools) != 0) {
        return diag_fail(diag, FFN_BAD_ARGUMENT, "options: tools 0x%x: only the FFN_TOOL_* bits 0x%x mean anything",
                         (unsigned)options->tools, (unsigned)tools);
    }
    return FFN_OK;
}

/* The parts that need memory. Those that were made stay in `made` on failure, for ffn_context_destroy. */
static bool make_parts(const ffn_options *options, ffn_context *made) {
    size_t cache_bytes = options->cache_bytes != 0 ? options->cache_bytes : FFN_CACHE_BYTES_DEFAULT;
    size_t store_bytes = options->store_bytes != 0 ? options->store_bytes : FFN_STORE_BYTES_DEFAULT;
    bool wants_store = options->store == NULL || options->store[0] != '\0';
    bool wants_compiler = options->source == NULL && (options->compiler == NULL || options->compiler[0] != '\0');
    made->kernels = cache_create(cache_bytes);
    made->store = wants_store ? store_create(options->store, store_bytes) : NULL;
    made->compiler = wants_compiler ? compiler_create(options->compiler) : NULL;
    return made->kernels != NULL && (made->store != NULL || !wants_store) &&
           (made->compiler != NULL || !wants_compiler);
}

/* Absolute, so that a later chdir does not lead to another file; "" stays. */
static ffn_status name_tuned(const char *file, ffn_context *made, ffn_diag *diag) {
    ffn_diag problem;
    if (file == NULL) {
        return FFN_OK;
    }
    if (*file == '\0') {
        made->tuned = calloc(1, 1);
        return made->tuned != NULL ? FFN_OK : diag_fail(diag, FFN_OUT_OF_MEMORY, "context: no memory for its tables");
    }
    made->tuned = user_path_absolute(file, "file", &problem);
    return made->tuned != NULL ? FFN_OK : diag_fail(diag, problem.status, "options: tuned: %s", problem.text);
}

static void free_context(ffn_context *context) {
    if (context->kernels != NULL) {
        kernel_free_list(cache_destroy(context->kernels));
    }
    tuned_tables_free(&context->planner.tables);
    free(context->tuned);
    store_destroy(context->store);
    compiler_destroy(context->compiler);
    pthread_cond_destroy(&context->built);
    pthread_mutex_destroy(&context->builds);
    free(context);
}

ffn_status ffn_context_create(const ffn_options *options, ffn_context **context, ffn_diag *diag) {
    static const ffn_options defaults;
    if (context == NULL) {
        return diag_fail(diag, FFN_BAD_ARGUMENT, "context is NULL: it must say where the new context goes");
    }
    if (options == NULL) {
        options = &defaults;
    }
    ffn_isa isa = FFN_ISA_PORTABLE;
    ffn_status status = check_options(options, diag);
    if (status == FFN_OK) {
        status = resolve_isa(options, &isa, diag);
    }
    if (status != FFN_OK) {
        return status;
    }
    ffn_context *made = aligned_alloc(_Alignof(ffn_context), sizeof *made);
    if (made == NULL) {
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "context: %zu bytes", sizeof *made);
    }
    memset(made, 0, sizeof *made);
    pthread_mutex_init(&made->builds, NULL);
    pthread_cond_init(&made->built, NULL);
    made->isa = isa;
    made->any_isa = options->isa == FFN_ISA_AUTO && options->plan == NULL;
    made->verify = options->verify;
    made->tools = options->tools;
    made->source = options->source;
    made->product = options->product;
    made->planner.threads = options->threads != 0 ? options->threads : 1;
    if (options->machine != NULL) {
        made->has_machine = true;
        made->planner.machine = *options->machine;
    }
    if (options->plan != NULL) {
        made->has_plan = true;
        made->plan = *options->plan;
        made->planner.given = &made->plan;
    }
    status = name_tuned(options->tuned, made, diag);
    if (status == FFN_OK) {
        status = make_parts(options, made) ? context_fork_watch(made, diag)
                                           : diag_fail(diag, FFN_OUT_OF_MEMORY, "context: no memory for its tables");
    }
    if (status != FFN_OK) {
        free_context(made);
        return status;
    }
    *context = made;
    return FFN_OK;
}

void ffn_context_destroy(ffn_context *context) {
    if (context != NULL) {
        context_fork_forget(context);
        free_context(context);
    }
}

void ffn_context_counters(ffn_context *context, ffn_counters *counters) {
    if (context == NULL || counters == NULL) {
        return;
    }
    uint64_t counts[CONTEXT_COUNTS], hits = 0;
    for (int c = 0; c < CONTEXT_COUNTS; ++c) {
        counts[c] = atomic_load_explicit(&context->counts[c], memory_order_relaxed);
    }
    for (int s = 0; s < CACHE_STRIPES; ++s) {
        hits += atomic_load_explicit(&context->stripes[s].hits, memory_order_relaxed);
    }
    *counters = (ffn_counters){.compiled = counts[CONTEXT_COMPILED],
                               .loaded = counts[CONTEXT_LOADED],
                               .hit = hits,
                               .evicted = counts[CONTEXT_EVICTED],
                               .fell_back = counts[CONTEXT_FELL_BACK],
                               .failed = counts[CONTEXT_FAILED]};
}
