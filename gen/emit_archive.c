/* emit_archive.c: see emit_archive.h
 *
 *     !<arch>\n
 *     [/]    how many symbols, where the member of each stands, their names   (big-endian)
 *     [//]   names of more than 15 bytes, each with "/\n" behind it
 *     [name/ or /offset of the name]  the members, each at an even place */
#include "emit_archive.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>

#include "diag.h"
#include "text.h"

#define NAME_BYTES 16 /* of a header's field; the '/' that ends a name is in it */
#define HEADER_BYTES 60

static void put_header(const char *name, bool is_member, size_t bytes, text *to) {
    if (is_member) /* time, owner and group are 0, as with ar's D */
        text_print(to, "%-16s%-12d%-6d%-6d%-8o%-10zu`\n", name, 0, 0, 0, 0644, bytes);
    else if (!strcmp(name, "/"))
        text_print(to, "%-16s%-12d%-6d%-6d%-8d%-10zu`\n", name, 0, 0, 0, 0, bytes);
    else
        text_print(to, "%-48s%-10zu`\n", name, bytes);
}

static size_t even(size_t bytes) {
    return bytes + (bytes & 1);
}

static void put_big_endian(size_t value, text *to) {
    const char bytes[] = {(char)(value >> 24 & 0xff), (char)(value >> 16 & 0xff), (char)(value >> 8 & 0xff),
                          (char)(value & 0xff)};
    text_add(to, bytes, sizeof bytes);
}

/* The names of the global symbols that a member defines, a NUL behind each. False if it is no object. */
static bool put_symbols(const ffn_bytes *object, text *names, size_t *count) {
    const unsigned char *bytes = object->data;
    Elf64_Ehdr header;
    if (object->bytes < sizeof header)
        return false;
    memcpy(&header, bytes, sizeof header);
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_type != ET_REL || header.e_shoff > object->bytes ||
        header.e_shnum > (object->bytes - header.e_shoff) / sizeof(Elf64_Shdr))
        return false;
    for (size_t i = 0; i < header.e_shnum; i++) {
        Elf64_Shdr table, strings;
        memcpy(&table, bytes + header.e_shoff + i * sizeof table, sizeof table);
        if (table.sh_type != SHT_SYMTAB)
            continue;
        if (table.sh_link >= header.e_shnum || table.sh_offset > object->bytes ||
            table.sh_size > object->bytes - table.sh_offset)
            return false;
        memcpy(&strings, bytes + header.e_shoff + table.sh_link * sizeof strings, sizeof strings);
        if (strings.sh_offset > object->bytes || strings.sh_size > object->bytes - strings.sh_offset ||
            strings.sh_size == 0 || bytes[strings.sh_offset + strings.sh_size - 1] != '\0')
            return false;
        for (size_t s = 0; s < table.sh_size / sizeof(Elf64_Sym); s++) {
            Elf64_Sym symbol;
            memcpy(&symbol, bytes + table.sh_offset + s * sizeof symbol, sizeof symbol);
            const bool global = ELF64_ST_BIND(symbol.st_info) != STB_LOCAL;
            if (!global || symbol.st_shndx == SHN_UNDEF)
                continue;
            if (symbol.st_name >= strings.sh_size)
                return false;
            const char *name = (const char *)bytes + strings.sh_offset + symbol.st_name;
            text_add(names, name, strlen(name) + 1);
            (*count)++;
        }
    }
    return true;
}

/* The symbols of all members, and where the name of each stands in the table of long names. */
typedef struct contents {
    text symbols, long_names;
    size_t symbol_count;
} contents;

static ffn_status collect(const emit_member *members, size_t count, contents *c, ffn_diag *diag) {
    for (size_t i = 0; i < count; i++) {
        const char *name = members[i].name;
        if (!*name || strchr(name, '/') || strchr(name, '\n'))
            return diag_fail(diag, FFN_BAD_ARGUMENT, "'%s' is no name for an object in a library", name);
        if (!put_symbols(&members[i].object, &c->symbols, &c->symbol_count))
            return diag_fail(diag, FFN_BAD_ARGUMENT, "%s: not a relocatable 64-bit ELF file", name);
        if (strlen(name) + 1 > NAME_BYTES)
            text_print(&c->long_names, "%s/\n", name);
    }
    if (c->long_names.bytes & 1)
        text_put(&c->long_names, "\n");
    return FFN_OK;
}

static ffn_status write_archive(const emit_member *members, size_t count, const contents *c, ffn_bytes *archive,
                                ffn_diag *diag) {
    text to = {.data = NULL};
    const size_t index = even(4 + 4 * c->symbol_count + c->symbols.bytes);
    size_t first = strlen("!<arch>\n") + (c->symbol_count ? HEADER_BYTES + index : 0);
    first += c->long_names.bytes ? HEADER_BYTES + c->long_names.bytes : 0;
    text_put(&to, "!<arch>\n");
    if (c->symbol_count) {
        put_header("/", false, index, &to);
        put_big_endian(c->symbol_count, &to);
        size_t at = first;
        for (size_t i = 0; i < count; i++) {
            text none = {.data = NULL};
            size_t symbols = 0;
            put_symbols(&members[i].object, &none, &symbols);
            text_free(&none);
            for (size_t s = 0; s < symbols; s++)
                put_big_endian(at, &to);
            at += HEADER_BYTES + even(members[i].object.bytes);
        }
        if (at > UINT32_MAX) {
            text_free(&to);
            return diag_fail(diag, FFN_BAD_ARGUMENT, "a library of %zu bytes: its index reaches 4 GiB", at);
        }
        text_add(&to, c->symbols.data, c->symbols.bytes);
        text_add(&to, "", index - (4 + 4 * c->symbol_count + c->symbols.bytes));
    }
    if (c->long_names.bytes) {
        put_header("//", false, c->long_names.bytes, &to);
        text_add(&to, c->long_names.data, c->long_names.bytes);
    }
    for (size_t i = 0, long_at = 0; i < count; i++) {
        char name[NAME_BYTES + 16];
        const size_t length = strlen(members[i].name);
        if (length + 1 > NAME_BYTES) {
            snprintf(name, sizeof name, "/%zu", long_at);
            long_at += length + 2;
        } else {
            snprintf(name, sizeof name, "%s/", members[i].name);
        }
        put_header(name, true, members[i].object.bytes, &to);
        text_add(&to, members[i].object.data, members[i].object.bytes);
        text_add(&to, "\n", members[i].object.bytes & 1);
    }
    return text_take(&to, archive, diag);
}

ffn_status emit_archive(const emit_member *members, size_t count, ffn_bytes *archive, ffn_diag *diag) {
    contents c = {.symbol_count = 0};
    ffn_status status = collect(members, count, &c, diag);
    if (!status && (c.symbols.failed || c.long_names.failed))
        status = diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for the index of a library");
    status = status ? status : write_archive(members, count, &c, archive, diag);
    text_free(&c.symbols);
    text_free(&c.long_names);
    return status;
}
