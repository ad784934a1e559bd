/* tools_elf.h: named parts -> the smallest ELF file that a debugger takes symbols from */
#ifndef FFN_TOOLS_ELF_H
#define FFN_TOOLS_ELF_H

#include <elf.h>

#include "tools_code.h"

enum { TOOLS_ELF_NULL, TOOLS_ELF_TEXT, TOOLS_ELF_SYMTAB, TOOLS_ELF_STRTAB, TOOLS_ELF_SHSTRTAB, TOOLS_ELF_SECTIONS };

/* The bytes of the file. It holds no code: .text says where the code is in memory. */
typedef struct tools_elf {
    Elf64_Ehdr header;
    Elf64_Shdr sections[TOOLS_ELF_SECTIONS];
    Elf64_Sym symbols[1 + SYMBOL_PARTS];
    char names[1 + SYMBOL_PARTS][SYMBOL_BYTES];
    char section_names[TOOLS_ELF_SECTIONS][16];
} tools_elf;

void tools_elf_fill(const tools_code *code, tools_elf *file);

#endif
