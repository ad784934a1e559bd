/* compiler_scope.h: which dlopen mode keeps libffngen's LLVM apart from any other in the process */
#ifndef FFN_COMPILER_SCOPE_H
#define FFN_COMPILER_SCOPE_H

#include "ffn.h"

/* `libllvm` is the file of the LLVM that libffngen needs. UNSUPPORTED where no mode would. */
ffn_status compiler_scope_mode(const char *libllvm, int *mode, ffn_diag *diag);

#endif
