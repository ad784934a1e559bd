/* isa.h: the rows of templates/isas.def as a table */
#ifndef FFN_ISA_H
#define FFN_ISA_H

#include "cpu.h"
#include "ffn.h"

typedef struct isa_row {
    const char *name;
    ffn_arch arch;
    int32_t lanes, registers;
    const char *triple, *tune, *features;
    uint64_t needs;
    int64_t l1_kib, l2_kib, l3_kib;
} isa_row;

/* NULL for AUTO, PORTABLE and numbers that are no ISA. */
const isa_row *isa_row_of(ffn_isa isa);

#endif
