/* support_emit.h: jobs for the emitters, and the ELF objects that they make, read without the project's own reader */
#ifndef SUPPORT_EMIT_H
#define SUPPORT_EMIT_H

#include <elf.h>

#include "emit.h"

/* A kernel with the plans that the ISAs' fixed machines get. */
void support_emit_kernel(const char *spec, const char *symbol, const ffn_isa *isas, int count, emit_kernel *kernel);

typedef struct support_elf {
    const unsigned char *bytes;
    const Elf64_Ehdr *header;
    const Elf64_Shdr *sections;
    const Elf64_Sym *symbols;
    size_t symbol_count;
    const char *symbol_names;
} support_elf;

/* `bytes` stay the caller's. */
support_elf support_elf_of(const ffn_bytes *bytes);
const char *support_elf_section_name(const support_elf *elf, size_t section);
/* 0 if there is none. */
size_t support_elf_section(const support_elf *elf, const char *name);
/* NULL if there is none. */
const Elf64_Sym *support_elf_symbol(const support_elf *elf, const char *name);

/* A shell command in the test's folder (support_files.h): its status; what it says goes to the file "said". */
#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
int support_shell(const char *format, ...);

#endif
