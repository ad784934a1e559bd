/* support_emit.c: see support_emit.h */
#include "support_emit.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support_data.h"
#include "support_files.h"

void support_emit_kernel(const char *spec, const char *symbol, const ffn_isa *isas, int count, emit_kernel *kernel) {
    ffn_diag diag = {.text = ""};
    *kernel = (emit_kernel){.spec = support_spec(spec)};
    snprintf(kernel->symbol, sizeof kernel->symbol, "%s", symbol);
    for (int i = 0; i < count; i++) {
        ffn_machine machine;
        cr_assert_eq(ffn_machine_generic(isas[i], &machine, &diag), FFN_OK, "%s", diag.text);
        for (int c = 0; c < FFN_N_CLASSES; c++)
            cr_assert_eq(
                ffn_plan_make(&kernel->spec, isas[i], (ffn_n_class)c, &machine, &kernel->plans[isas[i]][c], &diag),
                FFN_OK, "%s", diag.text);
    }
}

support_elf support_elf_of(const ffn_bytes *bytes) {
    support_elf elf = {.bytes = bytes->data, .header = bytes->data};
    cr_assert(bytes->bytes > sizeof *elf.header && !memcmp(elf.bytes, ELFMAG, SELFMAG), "no ELF file");
    elf.sections = (const Elf64_Shdr *)(const void *)(elf.bytes + elf.header->e_shoff);
    for (size_t i = 0; i < elf.header->e_shnum; i++)
        if (elf.sections[i].sh_type == SHT_SYMTAB) {
            elf.symbols = (const Elf64_Sym *)(const void *)(elf.bytes + elf.sections[i].sh_offset);
            elf.symbol_count = elf.sections[i].sh_size / sizeof(Elf64_Sym);
            elf.symbol_names = (const char *)(elf.bytes + elf.sections[elf.sections[i].sh_link].sh_offset);
        }
    cr_assert_not_null(elf.symbols, "no symbols");
    return elf;
}

const char *support_elf_section_name(const support_elf *elf, size_t section) {
    return (const char *)elf->bytes + elf->sections[elf->header->e_shstrndx].sh_offset + elf->sections[section].sh_name;
}

size_t support_elf_section(const support_elf *elf, const char *name) {
    for (size_t i = 1; i < elf->header->e_shnum; i++)
        if (!strcmp(support_elf_section_name(elf, i), name))
            return i;
    return 0;
}

const Elf64_Sym *support_elf_symbol(const support_elf *elf, const char *name) {
    for (size_t i = 1; i < elf->symbol_count; i++)
        if (!strcmp(elf->symbol_names + elf->symbols[i].st_name, name))
            return &elf->symbols[i];
    return NULL;
}

int support_shell(const char *format, ...) {
    char command[4096];
    const char *inside = support_path("x");
    int used = snprintf(command, sizeof command, "cd '%.*s' && { ", (int)strlen(inside) - 2, inside);
    va_list arguments;
    va_start(arguments, format);
    used += vsnprintf(command + used, sizeof command - (size_t)used, format, arguments);
    va_end(arguments);
    snprintf(command + used, sizeof command - (size_t)used, "; } > said 2>&1");
    return system(command);
}
