/* tools_elf.c: see tools_elf.h */
#include "tools_elf.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static Elf64_Half machine_of(ffn_arch arch) {
    static const Elf64_Half machines[] = {
        [FFN_ARCH_X86_64] = EM_X86_64, [FFN_ARCH_AARCH64] = EM_AARCH64, [FFN_ARCH_OTHER] = EM_NONE};
    return machines[arch];
}

void tools_elf_fill(const tools_code *code, tools_elf *file) {
    static const char section_names[TOOLS_ELF_SECTIONS][16] = {[TOOLS_ELF_TEXT] = ".text",
                                                               [TOOLS_ELF_SYMTAB] = ".symtab",
                                                               [TOOLS_ELF_STRTAB] = ".strtab",
                                                               [TOOLS_ELF_SHSTRTAB] = ".shstrtab"};
    memset(file, 0, sizeof *file); /* padding too: the bytes are a file */
    file->header = (Elf64_Ehdr){
        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT, ELFOSABI_SYSV},
        .e_type = ET_EXEC, /* addresses are final */
        .e_machine = machine_of(code->arch),
        .e_version = EV_CURRENT,
        .e_shoff = offsetof(tools_elf, sections),
        .e_ehsize = sizeof(Elf64_Ehdr),
        .e_shentsize = sizeof(Elf64_Shdr),
        .e_shnum = TOOLS_ELF_SECTIONS,
        .e_shstrndx = TOOLS_ELF_SHSTRTAB};
    file->sections[TOOLS_ELF_TEXT] = (Elf64_Shdr){.sh_type = SHT_NOBITS,
                                                  .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
                                                  .sh_addr = code->address,
                                                  .sh_offset = sizeof *file,
                                                  .sh_size = code->bytes,
                                                  .sh_addralign = 16};
    file->sections[TOOLS_ELF_SYMTAB] = (Elf64_Shdr){.sh_type = SHT_SYMTAB,
                                                    .sh_offset = offsetof(tools_elf, symbols),
                                                    .sh_size = (Elf64_Xword)(1 + code->count) * sizeof(Elf64_Sym),
                                                    .sh_link = TOOLS_ELF_STRTAB,
                                                    .sh_info = 1, /* the first global symbol */
                                                    .sh_addralign = _Alignof(Elf64_Sym),
                                                    .sh_entsize = sizeof(Elf64_Sym)};
    file->sections[TOOLS_ELF_STRTAB] = (Elf64_Shdr){.sh_type = SHT_STRTAB,
                                                    .sh_offset = offsetof(tools_elf, names),
                                                    .sh_size = sizeof file->names,
                                                    .sh_addralign = 1};
    file->sections[TOOLS_ELF_SHSTRTAB] = (Elf64_Shdr){.sh_type = SHT_STRTAB,
                                                      .sh_offset = offsetof(tools_elf, section_names),
                                                      .sh_size = sizeof file->section_names,
                                                      .sh_addralign = 1};
    memcpy(file->section_names, section_names, sizeof section_names);
    for (int s = TOOLS_ELF_TEXT; s < TOOLS_ELF_SECTIONS; s++)
        file->sections[s].sh_name = (Elf64_Word)((size_t)s * sizeof section_names[0]);
    for (int p = 0; p < code->count; p++) {
        const tools_part *part = &code->parts[p];
        memcpy(file->names[1 + p], part->name, SYMBOL_BYTES);
        file->symbols[1 + p] = (Elf64_Sym){.st_name = (Elf64_Word)((size_t)(1 + p) * SYMBOL_BYTES),
                                           .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                                           .st_shndx = TOOLS_ELF_TEXT,
                                           .st_value = part->address,
                                           .st_size = part->bytes};
    }
}
