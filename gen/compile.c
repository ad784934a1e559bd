/* compile.c: the whole pipeline on one page: spec and plan -> module -> object -> image
 *
 * LLVM is entered under guard.h alone, which turns its ways of ending the process into a status. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "diag.h"
#include "ffngen.h"
#include "formula.h"
#include "free_order.h"
#include "guard.h"
#include "identity.h"
#include "link.h"
#include "nest.h"
#include "object.h"
#include "plan.h"
#include "stages.h"

#if !defined(FFNGEN_LLVM_VERSION)
#include <llvm/Config/llvm-config.h>
#define FFNGEN_LLVM_VERSION LLVM_VERSION_STRING
#endif

/* Diagnostics of a context go nowhere instead of standard error; what matters comes back as a status. */
static void ignore_diagnostic(LLVMDiagnosticInfoRef info, void *unused) {
    (void)info;
    (void)unused;
}

const char *ffngen_version(void) {
    return FFN_VERSION;
}

const char *ffngen_llvm_version(void) {
    return FFNGEN_LLVM_VERSION;
}

typedef struct job {
    const ffn_spec *spec;
    const ffn_plan *plan;
    const isa_row *isa;
    packed_layout layout;
    formula_graph *graph;
    ffngen_format format;
    free_order free;
    bool count_stages;
    ffn_bytes out;
} job;

static ffn_status compile(void *argument, ffn_diag *diag) {
    job *j = argument;
    char name[FFN_SPEC_NAME_BYTES];
    ffn_status status = ffn_spec_name(j->spec, false, name, sizeof name, diag);
    if (status)
        return status;
    ir g;
    ir_begin(&g, j->isa, plan_lanes(j->plan), name);
    g.free = j->free;
    g.count_stages = j->count_stages;
    LLVMContextSetDiagnosticHandler(g.context, ignore_diagnostic, NULL);
    nest_build(&g, j->spec, j->plan, &j->layout, j->graph);
    status = calls_go_on(diag);
    if (status) {
        ir_end(&g);
        return status;
    }
    if (j->format != FFNGEN_IMAGE) {
        status = object_write(&g, j->format, &j->out, diag);
    } else {
        ffn_bytes object = {.data = NULL};
        status = object_write(&g, FFNGEN_OBJECT, &object, diag);
        status = status ? status : link_image(&object, j->spec, j->plan, j->isa, &j->out, diag);
        free(object.data);
    }
    ir_end(&g);
    return status;
}

/* Spec and plan -> a job whose graph is the caller's to free. */
static ffn_status prepare(job *j, ffn_diag *diag) {
    ffn_status status = ffn_spec_check(j->spec, diag);
    status = status ? status : ffn_plan_check(j->spec, j->plan, diag);
    status = status ? status : packed_layout_of(j->spec, &j->layout, diag);
    if (status)
        return status;
    j->isa = isa_row_of(j->plan->isa);
    j->graph = malloc(sizeof *j->graph);
    if (!j->graph)
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for the activation's graph");
    return formula_build(j->spec->activation, j->spec->accuracy, j->graph, diag);
}

static ffn_status run(job *j, ffn_bytes *out, ffn_diag *diag) {
    ffn_status status = prepare(j, diag);
    status = status ? status : guard_run(compile, j, diag);
    free(j->graph);
    if (!status)
        *out = j->out;
    return status;
}

ffn_status ffngen_emit(const ffn_spec *spec, const ffn_plan *plan, ffngen_format format, ffn_bytes *out,
                       ffn_diag *diag) {
    if (!out)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "out is NULL: it is where the code goes");
    if ((unsigned)format >= FFNGEN_FORMATS)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "format %d: it must be 0 .. %d", (int)format, FFNGEN_FORMATS - 1);
    job j = {.spec = spec, .plan = plan, .format = format};
    return run(&j, out, diag);
}

ffn_status free_order_image(const ffn_spec *spec, const ffn_plan *plan, const free_order *order, ffn_bytes *image,
                            ffn_diag *diag) {
    job j = {.spec = spec, .plan = plan, .format = FFNGEN_IMAGE, .free = *order};
    return run(&j, image, diag);
}

ffn_status stages_image(const ffn_spec *spec, const ffn_plan *plan, ffn_bytes *image, ffn_diag *diag) {
    job j = {.spec = spec, .plan = plan, .format = FFNGEN_IMAGE, .count_stages = true};
    return run(&j, image, diag);
}

static ffn_status build(void *self, const ffn_spec *spec, const ffn_plan *plan, ffn_bytes *image, ffn_diag *diag) {
    (void)self;
    return ffngen_emit(spec, plan, FFNGEN_IMAGE, image, diag);
}

static ffn_source source = {.build = build};

static void name_source(void) {
    source.identity = identity_line();
}

const ffn_source *ffngen_source(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, name_source);
    return &source;
}
