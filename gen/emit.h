/* emit.h: specs, ISAs, plans and weights -> what a deployment build takes: a header, or assembly or an object beside
 * one
 *
 * Names. P is the prefix of a file; S, the prefix of one spec, is P where the file holds a single spec without a name,
 * else P_<name>. Functions and types are <P>_x or <S>_x, macros the same in capitals. Kernels are
 * <S>_<isa>_<id>_n<least n of the class>_<fused|expand|contract|activate>, weights <S>_packed_<id>; labels of the
 * assembler are .L<S>_... or numbers. An id is 8 hex digits of a hash of what it stands for: two files of one program
 * that have a prefix in common, or a header and the object of another one, are never mixed up by a linker.
 *
 * Reproducible: the text depends on the job and the versions of the generator and of LLVM alone. */
#ifndef FFN_EMIT_H
#define FFN_EMIT_H

#include "ffn.h"
#include "text.h"

#define EMIT_NAME_BYTES 192
#define EMIT_SYMBOL_BYTES (EMIT_NAME_BYTES + 48)
#define EMIT_SPECS_MAX 64

/* Code of one architecture; FFN_ISA_PORTABLE is not among `isas`. */
typedef struct emit_kernel {
    ffn_spec spec;
    char symbol[EMIT_NAME_BYTES];                 /* S */
    ffn_plan plans[FFN_ISA_COUNT][FFN_N_CLASSES]; /* of the job's ISAs */
    const void *weights;                          /* packed, to stand inside; NULL: none */
    size_t weights_bytes;
    uint64_t weights_checksum; /* of their header */
    const char *weights_file;  /* to be brought in by the assembler or loaded when run; NULL: none */
} emit_kernel;

typedef struct emit_job {
    const char *prefix; /* P: a C identifier */
    const char *file;   /* the name of the header itself, without folders, for its own words */
    const ffn_isa *isas;
    int32_t isa_count;
    bool portable;  /* the C kernel as well */
    bool is_static; /* functions static, so that every file may hold the implementation */
    bool assembled; /* the kernels come from an object: no assembly in the header */
    const emit_kernel *kernels;
    int32_t kernel_count;
} emit_job;

/* The C header, whole. */
ffn_status emit_header(const emit_job *job, ffn_bytes *header, ffn_diag *diag);
/* The kernels of all specs and ISAs of the job as one assembly file, and that file as an object. All ISAs are of one
 * architecture. */
ffn_status emit_assembly(const emit_job *job, ffn_bytes *assembly, ffn_diag *diag);
ffn_status emit_object(const emit_job *job, ffn_bytes *object, ffn_diag *diag);
/* A static library: an object for each spec, so that a program links those it uses. */
ffn_status emit_library(const emit_job *job, ffn_bytes *library, ffn_diag *diag);

/* ---- Parts ---- */

/* <S>_<isa>_<id>: how the kernels of a unit begin; the id follows from spec, plans, generator and LLVM. */
void emit_unit_name(const emit_kernel *kernel, ffn_isa isa, char name[EMIT_SYMBOL_BYTES]);
/* <S>_packed_<id>; the id is of the checksum. */
void emit_weights_symbol(const emit_kernel *kernel, char name[EMIT_SYMBOL_BYTES]);

/* All n classes of one spec on one ISA -> GNU assembly text: one section group, guarded against a second copy in the
 * same file; what classes have in common stands once. */
ffn_status emit_unit(const emit_kernel *kernel, ffn_isa isa, text *to, ffn_diag *diag);
/* Assembly text -> C: file-scope asm statements, each short enough for C99. */
void emit_quoted(const char *assembly, size_t bytes, text *to);
/* The graph of an activation as the statements of a C function body over `x` (or `g` and `u`), ending in a return;
 * helpers it calls are <prefix>__... of templates/header/numbers.in. */
struct formula_graph;
void emit_formula(const struct formula_graph *graph, const char *prefix, text *to);
/* The lines that put packed weights into .rodata under <S>_packed: as data, or by .incbin of the file. */
void emit_weights(const emit_kernel *kernel, text *to);

/* A skeleton of templates/header -> text: @NAME@ is replaced; between lines "@if NAME" (or "@if !NAME"), "@else" and
 * "@end" lines stand only where the value is neither empty nor "0". Names that have no value are an error. */
typedef struct emit_value {
    const char *name, *value;
} emit_value;
ffn_status emit_template(const char *file, const emit_value *values, size_t count, text *to, ffn_diag *diag);

#endif
