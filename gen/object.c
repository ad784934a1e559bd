/* object.c: see object.h */
#include "object.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "diag.h"

/* As good as default<O2> on these modules and several times cheaper: the loops are written unrolled already. */
#define PASSES \
    "function(early-cse,instcombine<no-verify-fixpoint>,separate-const-offset-from-gep,early-cse,simplifycfg)"
#define PASSES_16 "function(early-cse,instcombine,separate-const-offset-from-gep,early-cse,simplifycfg)"

static void initialize_targets(void) {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
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

static ffn_status optimise(ir *g, LLVMTargetMachineRef machine, ffn_diag *diag) {
    char *message = NULL;
    if (LLVMVerifyModule(g->module, LLVMReturnStatusAction, &message))
        return fail(diag, "generated IR is not valid", message);
    LLVMDisposeMessage(message);
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

ffn_status object_write(ir *g, ffngen_format format, ffn_bytes *out, ffn_diag *diag) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, initialize_targets);

    LLVMTargetRef target;
    char *message = NULL;
    if (LLVMGetTargetFromTriple(g->isa->triple, &target, &message))
        return fail(diag, g->isa->triple, message);
    const char *cpu = g->isa->arch == FFN_ARCH_X86_64 ? "x86-64" : "generic";
    /* Small code model and PIC everywhere: what is left to relocate is relative to the code itself. */
    LLVMTargetMachineRef machine = LLVMCreateTargetMachine(target, g->isa->triple, cpu, g->isa->features,
                                                           LLVMCodeGenLevelDefault, LLVMRelocPIC, LLVMCodeModelSmall);
    if (!machine)
        return diag_fail(diag, FFN_COMPILE_FAILED, "LLVM has no target machine for %s", g->isa->triple);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
    LLVMSetModuleDataLayout(g->module, layout);
    LLVMDisposeTargetData(layout);

    ffn_status status = optimise(g, machine, diag);
    status = status ? status : calls_go_on(diag);
    if (status == FFN_OK && format == FFNGEN_IR) {
        char *text = LLVMPrintModuleToString(g->module);
        status = text ? copy_out(text, strlen(text), out, diag)
                      : diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for the text of the module");
        LLVMDisposeMessage(text);
    } else if (status == FFN_OK) {
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
