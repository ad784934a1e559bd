/* ffngen.h: the public API of libffngen, the compiler: spec and plan -> code, through LLVM
 *
 * The only library that needs LLVM. A program that loads images or emitted headers never needs it. Thread-safe: each
 * call uses an LLVM context of its own. */
#ifndef FFNGEN_H
#define FFNGEN_H

#include "ffn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The compiler as a source for ffn_context_create. Static; never released. */
FFN_API const ffn_source *ffngen_source(void);

typedef enum ffngen_format {
    FFNGEN_ASM,    /* assembly text */
    FFNGEN_IR,     /* LLVM IR text */
    FFNGEN_OBJECT, /* relocatable ELF object */
    FFNGEN_IMAGE,  /* what ffn_kernel_load takes */
    FFNGEN_FORMATS
} ffngen_format;

/* Spec and plan -> bytes in one format, for any ISA of templates/isas.def on any host: the bytes depend on the
 * arguments and on the version of LLVM alone. */
FFN_API ffn_status ffngen_emit(const ffn_spec *spec, const ffn_plan *plan, ffngen_format format, ffn_bytes *out,
                               ffn_diag *diag);

/* The FFN_VERSION of the headers that this library was built from: libffn uses it only if it has the same. */
FFN_API const char *ffngen_version(void);
/* "19.1.7" */
FFN_API const char *ffngen_llvm_version(void);

#ifdef __cplusplus
}
#endif
#endif
