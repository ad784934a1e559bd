/* emit_asm.h: LLVM's assembly text -> items -> one unit for a spec and an ISA
 *
 * Only statements that are known here come through; any other is an error that names it, so that what a later LLVM
 * writes cannot slip into a header. */
#ifndef FFN_EMIT_ASM_H
#define FFN_EMIT_ASM_H

#include "emit.h"
#include "isa.h"

typedef struct emit_slice {
    const char *at;
    size_t bytes;
} emit_slice;

bool emit_slice_is(emit_slice slice, const char *word);
/* The n-th operand, from 0 on, without the blanks around it; empty if there is none. */
emit_slice emit_slice_operand(emit_slice operands, int n);

/* ---- One text of LLVM's ---- */

typedef struct emit_item {
    emit_slice name;
    bool is_function, is_entry;
    int32_t align;       /* a power of two's exponent */
    emit_slice aligned;  /* function: the statement that aligns it; may be empty */
    size_t first, count; /* function: lines of the source; constant: bytes of its data */
} emit_item;

/* Slices point into the text. Lines are instructions, labels ("x:") and alignments of functions. */
typedef struct emit_source {
    emit_item *items;
    size_t item_count;
    emit_slice *lines;
    size_t line_count;
    text data;
    uint32_t features; /* GNU_PROPERTY_<arch>_FEATURE_1_AND of its property note; 0 without one */
} emit_source;

ffn_status emit_source_read(emit_slice assembly, ffn_arch arch, emit_source *source, ffn_diag *diag);
void emit_source_free(emit_source *source);

/* ---- The unit: what the texts of all classes hold, once ---- */

#define EMIT_ENTRIES_MAX 16 /* a kernel's, in all classes */

typedef struct emit_function {
    char *name;                            /* under the prefix */
    const char *entries[EMIT_ENTRIES_MAX]; /* that this is; `name` may be the first */
    int32_t entry_count;
    text body;        /* a statement a line; labels are numbers from 1 on, "7:", with "7b" and "7f" to them */
    emit_slice align; /* a statement of the first text it stood in; may be empty */
    size_t macro;     /* the number of the one that holds the body, from 1 on; 0: it stands in this function alone */
    text arguments;   /* of the macro */
} emit_function;

/* The body that several functions have, with "\\a", "\\b" .. where they differ. */
#define EMIT_PARAMETERS_MAX 26
typedef struct emit_macro {
    text body;
    size_t parameter_count;
} emit_macro;

typedef struct emit_constant {
    unsigned char *bytes;
    size_t count;
    int32_t align;
} emit_constant;

typedef struct emit_folded {
    const char *prefix; /* S_<isa> */
    ffn_arch arch;
    emit_function *functions;
    size_t function_count;
    emit_constant *constants;
    size_t constant_count;
    emit_macro *macros;
    size_t macro_count;
    uint32_t features; /* what all texts have */
    bool any;
} emit_folded;

/* What LLVM calls an entry, and what the unit does. */
typedef struct emit_entry {
    const char *from, *to;
} emit_entry;

/* Adds a text. `entries` are by image_entry; all must be there. The text and the names must stay as long as `to`. */
ffn_status emit_fold(emit_folded *to, emit_slice assembly, const emit_entry *entries, ffn_diag *diag);
/* Finds functions that differ in a few operands alone; call it once all texts are in. False: no memory. */
bool emit_fold_macros(emit_folded *unit);
/* The unit as text, without what asks for the dialect of the file around it. */
void emit_folded_write(const emit_folded *unit, text *to);
void emit_folded_free(emit_folded *unit);

/* emit_unit, but for the dialect. `features` loses the bits that its code does not have. */
ffn_status emit_unit_bare(const emit_kernel *kernel, ffn_isa isa, text *to, uint32_t *features, ffn_diag *diag);

#endif
