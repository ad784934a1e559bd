/* object.c: see object.h */
#include "object.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "diag.h"
#include "guard.h"

/* For kernels of free order alone, whose activation LLVM may rewrite (free_order.h). All others are written as they
 * should come out, unrolled and with addresses that instruction selection folds: passes took a sixth of the time and
 * made no loop shorter. */
#define PASSES \
    "function(early-cse,instcombine<no-verify-fixpoint>,separate-const-offset-from-gep,early-cse,simplifycfg)"
#define PASSES_16 "function(early-cse,instcombine,separate-const-offset-from-gep,early-cse,simplifycfg)"

static void initialize_targets(void) {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
    LLVMInitializeAArch64AsmParser();
}

static ffn_status fail(ffn_diag *diag, const char *what, char *message) {
    ffn_status status = diag_fail(diag, FFN_COMPILE_FAILED, "%s: %s", what, message ? message : "no details");
    LLVMDisposeMessage(message);
    return status;
}

static ffn_status copy_out(const char *data, size_t bytes, ffn_bytes *out, ffn_diag *diag) {
    void *copy = malloc(bytes ? bytes : 1);
    if (!copy)
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for %zu bytes of generated code", bytes);
    memcpy(copy, data, bytes);
    *out = (ffn_bytes){.data = copy, .bytes = bytes, .release = free};
    return FFN_OK;
}

static ffn_status check_module(ir *g, ffn_diag *diag) {
    char *message = NULL;
    if (LLVMVerifyModule(g->module, LLVMReturnStatusAction, &message))
        return fail(diag, "generated IR is not valid", message);
    LLVMDisposeMessage(message);
    return FFN_OK;
}

static ffn_status run_passes(ir *g, LLVMTargetMachineRef machine, ffn_diag *diag) {
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef error = LLVMRunPasses(g->module, LLVM_VERSION_MAJOR > 17 ? PASSES : PASSES_16, machine, options);
    LLVMDisposePassBuilderOptions(options);
    if (!error)
        return FFN_OK;
    char *text = LLVMGetErrorMessage(error);
    ffn_status status = diag_fail(diag, FFN_COMPILE_FAILED, "LLVM passes: %s", text);
    LLVMDisposeErrorMessage(text);
    return status;
}

static void initialize_targets_once(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, initialize_targets);
}

/* Small code model and PIC everywhere: what is left to relocate is relative to the code itself. */
static ffn_status machine_of(const isa_row *isa, const char *features, LLVMTargetMachineRef *machine, ffn_diag *diag) {
    initialize_targets_once();
    LLVMTargetRef target;
    char *message = NULL;
    if (LLVMGetTargetFromTriple(isa->triple, &target, &message))
        return fail(diag, isa->triple, message);
    const char *cpu = isa->arch == FFN_ARCH_X86_64 ? "x86-64" : "generic";
    *machine = LLVMCreateTargetMachine(target, isa->triple, cpu, features, LLVMCodeGenLevelLess, LLVMRelocPIC,
                                       LLVMCodeModelSmall);
    return *machine ? FFN_OK : diag_fail(diag, FFN_COMPILE_FAILED, "LLVM has no target machine for %s", isa->triple);
}

static void set_layout(LLVMModuleRef module, LLVMTargetMachineRef machine) {
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
    LLVMSetModuleDataLayout(module, layout);
    LLVMDisposeTargetData(layout);
}

ffn_status object_write(ir *g, ffngen_format format, ffn_bytes *out, ffn_diag *diag) {
    LLVMTargetMachineRef machine;
    ffn_status status = machine_of(g->isa, g->isa->features, &machine, diag);
    if (status)
        return status;
    set_layout(g->module, machine);

    status = check_module(g, diag);
    if (!status && g->free.math)
        status = run_passes(g, machine, diag);
    status = status ? status : calls_go_on(diag);
    if (status == FFN_OK && format == FFNGEN_IR) {
        char *text = LLVMPrintModuleToString(g->module);
        status = text ? copy_out(text, strlen(text), out, diag)
                      : diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for the text of the module");
        LLVMDisposeMessage(text);
    } else if (status == FFN_OK) {
        char *message = NULL;
        LLVMMemoryBufferRef buffer = NULL;
        LLVMCodeGenFileType type = format == FFNGEN_ASM ? LLVMAssemblyFile : LLVMObjectFile;
        if (LLVMTargetMachineEmitToMemoryBuffer(machine, g->module, type, &message, &buffer)) {
            status = fail(diag, "code generation", message);
        } else {
            status = copy_out(LLVMGetBufferStart(buffer), LLVMGetBufferSize(buffer), out, diag);
            LLVMDisposeMemoryBuffer(buffer);
        }
    }
    LLVMDisposeTargetMachine(machine);
    return status;
}

/* ---- Assembly text -> object: the inline assembly of a module in which nothing else stands ---- */

typedef struct assembling {
    ffn_arch arch;
    const char *assembly;
    size_t bytes;
    ffn_bytes object;
    char error[256]; /* the assembler's first */
} assembling;

static void keep_error(LLVMDiagnosticInfoRef info, void *argument) {
    assembling *a = argument;
    if (LLVMGetDiagInfoSeverity(info) != LLVMDSError || a->error[0])
        return;
    char *text = LLVMGetDiagInfoDescription(info);
    snprintf(a->error, sizeof a->error, "%s", text && *text ? text : "no details");
    LLVMDisposeMessage(text);
}

/* The features of all ISAs of an architecture, so that the assembler knows every instruction. */
static const isa_row *features_of(ffn_arch arch, char *features, size_t room) {
    const isa_row *found = NULL;
    size_t at = 0;
    for (int isa = 0; isa < FFN_ISA_COUNT; isa++) {
        const isa_row *row = isa_row_of((ffn_isa)isa);
        if (!row || row->arch != arch)
            continue;
        at += (size_t)snprintf(features + at, room - at, "%s%s", found ? "," : "", row->features);
        found = row;
    }
    return found;
}

static ffn_status assemble(void *argument, ffn_diag *diag) {
    assembling *a = argument;
    char features[1024] = "";
    const isa_row *isa = features_of(a->arch, features, sizeof features);
    LLVMTargetMachineRef machine;
    ffn_status status = machine_of(isa, features, &machine, diag);
    if (status)
        return status;
    LLVMContextRef context = LLVMContextCreate();
    LLVMModuleRef module = LLVMModuleCreateWithNameInContext("", context);
    LLVMContextSetDiagnosticHandler(context, keep_error, a);
    LLVMSetTarget(module, isa->triple);
    set_layout(module, machine);
    LLVMSetModuleInlineAsm2(module, a->assembly, a->bytes);
    char *message = NULL;
    LLVMMemoryBufferRef buffer = NULL;
    if (LLVMTargetMachineEmitToMemoryBuffer(machine, module, LLVMObjectFile, &message, &buffer)) {
        status = fail(diag, "assembler", message);
    } else {
        status = a->error[0] ? diag_fail(diag, FFN_COMPILE_FAILED, "assembler: %s", a->error)
                             : copy_out(LLVMGetBufferStart(buffer), LLVMGetBufferSize(buffer), &a->object, diag);
        LLVMDisposeMemoryBuffer(buffer);
    }
    LLVMDisposeModule(module);
    LLVMContextDispose(context);
    LLVMDisposeTargetMachine(machine);
    return status;
}

ffn_status object_assemble(ffn_arch arch, const char *assembly, size_t bytes, ffn_bytes *object, ffn_diag *diag) {
    assembling a = {.arch = arch, .assembly = assembly, .bytes = bytes};
    ffn_status status = guard_run(assemble, &a, diag);
    if (!status)
        *object = a.object;
    return status;
}
