/* fake_llvm.c: names of LLVM in a program that shows them to every library it loads; none may ever be called */
#include <stdio.h>
#include <stdlib.h>

#define FAKE(name)                                                 \
    void name(void);                                               \
    void name(void) {                                              \
        fputs("the program's own " #name " was called\n", stderr); \
        abort();                                                   \
    }

FAKE(LLVMContextCreate)
FAKE(LLVMModuleCreateWithNameInContext)
FAKE(LLVMRunPasses)
FAKE(LLVMTargetMachineEmitToMemoryBuffer)
FAKE(LLVMInitializeX86Target)
FAKE(_ZN4llvm2cl6Option11addArgumentEv)
FAKE(_ZN4llvm11LLVMContextC1Ev)
