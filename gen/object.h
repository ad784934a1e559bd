/* object.h: module -> machine code: checks it, then writes an object, assembly or IR text; assembly -> object */
#ifndef FFNGEN_OBJECT_H
#define FFNGEN_OBJECT_H

#include "ffngen.h"
#include "ir.h"

/* Checks the module and writes it. `format` is FFNGEN_ASM, FFNGEN_IR or FFNGEN_OBJECT. */
ffn_status object_write(ir *g, ffngen_format format, ffn_bytes *out, ffn_diag *diag);

/* Assembly text, that of any ISA of an architecture -> an ELF object. Guarded as a build is (guard.h). COMPILE_FAILED
 * with the assembler's first complaint. */
ffn_status object_assemble(ffn_arch arch, const char *assembly, size_t bytes, ffn_bytes *object, ffn_diag *diag);

#endif
