/* compiler_scope.h: which dlopen mode, if any, keeps libffngen's LLVM apart from any other in the process */
#ifndef FFN_COMPILER_SCOPE_H
#define FFN_COMPILER_SCOPE_H

#include "ffn.h"

/* UNSUPPORTED in a program without a dynamic linker: not even a look at what is loaded is safe there. */
ffn_status compiler_scope_check(ffn_diag *diag);
/* `libllvm` is the file of the LLVM that libffngen needs. UNSUPPORTED where no mode would. */
ffn_status compiler_scope_mode(const char *libllvm, int *mode, ffn_diag *diag);

#endif
