/* compiler.h: the compiler library, found and loaded when something must be compiled
 *
 * libffn links no LLVM. It knows where libffngen stands and, from a small text file beside it, what its images would be
 * named by (`identity`), so that a warm start needs the library itself for nothing. Once loaded it is never unloaded.
 * Thread-safe. */
#ifndef FFN_COMPILER_H
#define FFN_COMPILER_H

#include "ffn.h"

typedef struct compiler compiler;

/* `path` as in ffn_options.compiler; a relative one is meant from the current folder of now. Touches no file. NULL if
 * out of memory. */
compiler *compiler_create(const char *path);
/* NULL is allowed. The library stays loaded. */
void compiler_destroy(compiler *c);

/* What ffn_source.identity of the library will be, without loading it; NULL where it cannot be told. The first time
 * that a library which is there has none, `remark` (may be NULL) says why. Owned by `c`. */
const char *compiler_identity(compiler *c, ffn_diag *remark);
/* The library's source, loading it at the first call. UNSUPPORTED where there is none, SYSTEM where it cannot be
 * loaded: both name the file. */
ffn_status compiler_load(compiler *c, const ffn_source **source, ffn_diag *diag);

#endif
