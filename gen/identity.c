/* identity.c: see identity.h
 *
 * The line is that of runtime/compiler_id.h, from what this library was built from and the libLLVM that it is bound to
 * in this process. */
#include "identity.h"

#include <llvm-c/Core.h>
#include <pthread.h>
#include <stdio.h>

#include "compiler_find.h"
#include "compiler_id.h"
#include "ffngen.h"

static char line[COMPILER_ID_BYTES];

static void make_line(void) {
    compiler_id id = {.generator = FFNGEN_GENERATOR_HASH};
    LLVMContextRef (*bound)(void) = LLVMContextCreate;
    snprintf(id.llvm, sizeof id.llvm, "%s", ffngen_llvm_version());
    if (!compiler_file_of(*(void **)&bound, id.libllvm) || !compiler_id_line(&id, line))
        line[0] = '\0';
}

const char *identity_line(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_line);
    return line[0] ? line : NULL;
}
