/* object.h: module -> machine code: optimises, then writes an object, assembly or IR text */
#ifndef FFNGEN_OBJECT_H
#define FFNGEN_OBJECT_H

#include "ffngen.h"
#include "ir.h"

/* Optimises the module in place and writes it. `format` is FFNGEN_ASM, FFNGEN_IR or FFNGEN_OBJECT. */
ffn_status object_write(ir *g, ffngen_format format, ffn_bytes *out, ffn_diag *diag);

#endif
