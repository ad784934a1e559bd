/* compile.c: the whole pipeline on one page: spec and plan -> module -> object -> image
 *
 * LLVM reports some errors by ending the process. Its fatal handler is replaced by one that jumps back here; LLVM may
 * then be in any state, so the compiler counts as dead for the rest of the process and later calls say so. */
#include <llvm-c/ErrorHandling.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "diag.h"
#include "ffngen.h"
#include "formula.h"
#include "link.h"
#include "nest.h"
#include "object.h"

#if !defined(FFNGEN_LLVM_VERSION)
#include <llvm/Config/llvm-config.h>
#define FFNGEN_LLVM_VERSION LLVM_VERSION_STRING
#endif

static atomic_bool compiler_is_dead;
static _Thread_local jmp_buf *on_fatal;
static _Thread_local char fatal_text[256];

static void fatal(const char *reason) {
    if (!on_fatal)
        return; /* not from a call of ours */
    atomic_store(&compiler_is_dead, true);
    strncpy(fatal_text, reason ? reason : "", sizeof fatal_text - 1);
    longjmp(*on_fatal, 1);
}

/* LLVM has one handler for the whole process. It is ours only while a call of ours runs, so that a program which uses
 * the same libLLVM keeps its own habits at other times. */
static void watch_fatal_errors(int change) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int calls;
    pthread_mutex_lock(&lock);
    if (change > 0 && calls == 0)
        LLVMInstallFatalErrorHandler(fatal);
    calls += change;
    if (change < 0 && calls == 0)
        LLVMResetFatalErrorHandler();
    pthread_mutex_unlock(&lock);
}

/* Diagnostics of a context go nowhere instead of standard error; what matters comes back as a status. */
static void ignore_diagnostic(LLVMDiagnosticInfoRef info, void *unused) {
    (void)info;
    (void)unused;
}

const char *ffngen_llvm_version(void) {
    return FFNGEN_LLVM_VERSION;
}

static ffn_status compile(const ffn_spec *spec, const ffn_plan *plan, const isa_row *isa, const packed_layout *layout,
                          const formula_graph *graph, ffngen_format format, ffn_bytes *out, ffn_diag *diag) {
    char name[FFN_SPEC_NAME_BYTES];
    ffn_status status = ffn_spec_name(spec, false, name, sizeof name, diag);
    if (status)
        return status;
    ir g;
    ir_begin(&g, isa, name);
    LLVMContextSetDiagnosticHandler(g.context, ignore_diagnostic, NULL);
    nest_build(&g, spec, plan, layout, graph);
    if (format != FFNGEN_IMAGE) {
        status = object_write(&g, format, out, diag);
    } else {
        ffn_bytes object = {.data = NULL};
        status = object_write(&g, FFNGEN_OBJECT, &object, diag);
        status = status ? status : link_image(&object, spec, plan, isa, out, diag);
        free(object.data);
    }
    ir_end(&g);
    return status;
}

ffn_status ffngen_emit(const ffn_spec *spec, const ffn_plan *plan, ffngen_format format, ffn_bytes *out,
                       ffn_diag *diag) {
    if (!out)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "out is NULL: it is where the code goes");
    if ((unsigned)format >= FFNGEN_FORMATS)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "format %d: it must be 0 .. %d", (int)format, FFNGEN_FORMATS - 1);
    ffn_status status = ffn_spec_check(spec, diag);
    status = status ? status : ffn_plan_check(spec, plan, diag);
    packed_layout layout;
    status = status ? status : packed_layout_of(spec, &layout, diag);
    if (status)
        return status;
    formula_graph *graph = malloc(sizeof *graph);
    if (!graph)
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for the activation's graph");
    status = formula_build(spec->activation, graph, diag);
    if (!status) {
        jmp_buf back;
        watch_fatal_errors(1);
        if (atomic_load(&compiler_is_dead)) {
            status = diag_fail(diag, FFN_COMPILE_FAILED, "LLVM failed earlier in this process and is not used again");
        } else if (setjmp(back)) {
            status = diag_fail(diag, FFN_COMPILE_FAILED, "LLVM: %s", fatal_text);
        } else {
            on_fatal = &back;
            status = compile(spec, plan, isa_row_of(plan->isa), &layout, graph, format, out, diag);
        }
        on_fatal = NULL;
        watch_fatal_errors(-1);
    }
    free(graph);
    return status;
}

static ffn_status build(void *self, const ffn_spec *spec, const ffn_plan *plan, ffn_bytes *image, ffn_diag *diag) {
    (void)self;
    return ffngen_emit(spec, plan, FFNGEN_IMAGE, image, diag);
}

const ffn_source *ffngen_source(void) {
    static const ffn_source source = {.build = build, .self = NULL};
    return &source;
}
