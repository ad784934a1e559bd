/* link.c: see link.h
 *
 * Layout: [header][text sections][constant sections], text and constants each starting on a page. Kernels consist of
 * one text section and a few sections of constants; what refers from one to the other is relative to the code. */
#include "link.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "diag.h"
#include "image.h"
#include "plan.h"
#include "symbol.h"

/* Changes when the generator does; the build passes a hash of its sources. */
#ifndef FFNGEN_GENERATOR_HASH
#define FFNGEN_GENERATOR_HASH FFN_VERSION
#endif

#define SECTIONS_MAX 256

typedef struct object {
    const unsigned char *bytes;
    const Elf64_Shdr *sections;
    uint64_t section_count;
    const char *section_names;
    const Elf64_Sym *symbols;
    uint64_t symbol_count;
    const char *symbol_names;
    uint64_t placed[SECTIONS_MAX]; /* offset in the image; 0: not in it */
} object;

static ffn_status fail(ffn_diag *diag, const char *what, const char *name) {
    return diag_fail(diag, FFN_COMPILE_FAILED, "generated object: %s%s%s", what, *name ? ": " : "", name);
}

static uint64_t align_up(uint64_t value, uint64_t align) {
    return align ? (value + align - 1) / align * align : value;
}

static ffn_status open_object(const ffn_bytes *bytes, object *o, ffn_diag *diag) {
    const Elf64_Ehdr *header = bytes->data;
    if (bytes->bytes < sizeof *header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_type != ET_REL || header->e_shnum > SECTIONS_MAX)
        return fail(diag, "not a 64-bit relocatable ELF file", "");
    memset(o, 0, sizeof *o);
    o->bytes = bytes->data;
    o->sections = (const Elf64_Shdr *)(const void *)(o->bytes + header->e_shoff);
    o->section_count = header->e_shnum;
    o->section_names = (const char *)(o->bytes + o->sections[header->e_shstrndx].sh_offset);
    for (uint64_t i = 0; i < o->section_count; i++)
        if (o->sections[i].sh_type == SHT_SYMTAB) {
            o->symbols = (const Elf64_Sym *)(const void *)(o->bytes + o->sections[i].sh_offset);
            o->symbol_count = o->sections[i].sh_size / sizeof(Elf64_Sym);
            o->symbol_names = (const char *)(o->bytes + o->sections[o->sections[i].sh_link].sh_offset);
        }
    return o->symbols ? FFN_OK : fail(diag, "no symbols", "");
}

/* Gives every loaded section of one kind its place, from *at on. Notes and unwind tables stay out. */
static ffn_status place_sections(object *o, bool executable, uint64_t *at, ffn_diag *diag) {
    for (uint64_t i = 0; i < o->section_count; i++) {
        const Elf64_Shdr *s = &o->sections[i];
        const char *name = o->section_names + s->sh_name;
        bool runs = s->sh_flags & SHF_EXECINSTR;
        if (!(s->sh_flags & SHF_ALLOC) || s->sh_size == 0 || s->sh_type == SHT_NOTE || runs != executable)
            continue;
        if (s->sh_flags & SHF_WRITE || s->sh_type != SHT_PROGBITS)
            return fail(diag, "a section that a kernel must not have", name);
        *at = align_up(*at, s->sh_addralign);
        o->placed[i] = *at;
        *at += s->sh_size;
    }
    return FFN_OK;
}

/* Puts `bits` of `value` from bit `shift` of an instruction word on. */
static void patch(unsigned char *where, uint64_t value, uint32_t bits, uint32_t shift) {
    uint32_t word, mask = (UINT32_C(1) << bits) - 1;
    memcpy(&word, where, sizeof word);
    word = (word & ~(mask << shift)) | (((uint32_t)value & mask) << shift);
    memcpy(where, &word, sizeof word);
}

/* `to` and `at` are offsets in the image, which is mapped at the start of a page. */
static bool relocate(uint32_t machine, uint64_t type, unsigned char *where, int64_t to, int64_t at) {
    int64_t distance = to - at;
    if (machine == EM_X86_64) {
        if (type != R_X86_64_PC32 && type != R_X86_64_PLT32)
            return false;
        int32_t word = (int32_t)distance;
        memcpy(where, &word, sizeof word);
        return true;
    }
    static const struct {
        uint32_t type, bytes;
    } low_parts[] = {{R_AARCH64_ADD_ABS_LO12_NC, 1},    {R_AARCH64_LDST8_ABS_LO12_NC, 1},
                     {R_AARCH64_LDST16_ABS_LO12_NC, 2}, {R_AARCH64_LDST32_ABS_LO12_NC, 4},
                     {R_AARCH64_LDST64_ABS_LO12_NC, 8}, {R_AARCH64_LDST128_ABS_LO12_NC, 16}};
    for (size_t i = 0; i < sizeof low_parts / sizeof *low_parts; i++)
        if (type == low_parts[i].type) {
            patch(where, (uint64_t)(to & 0xfff) / low_parts[i].bytes, 12, 10);
            return true;
        }
    if (type == R_AARCH64_ADR_PREL_PG_HI21) {
        uint64_t pages = (uint64_t)((to >> 12) - (at >> 12));
        patch(where, pages & 3, 2, 29);
        patch(where, pages >> 2, 19, 5);
        return true;
    }
    if (type == R_AARCH64_CALL26 || type == R_AARCH64_JUMP26) {
        patch(where, (uint64_t)distance >> 2, 26, 0);
        return true;
    }
    return false;
}

static ffn_status relocate_section(const object *o, const Elf64_Shdr *relocations, unsigned char *to_image,
                                   ffn_diag *diag) {
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)(const void *)o->bytes;
    uint64_t target = o->placed[relocations->sh_info];
    if (!target)
        return FFN_OK; /* of a section that stays out */
    const Elf64_Rela *r = (const Elf64_Rela *)(const void *)(o->bytes + relocations->sh_offset);
    for (uint64_t i = 0; i < relocations->sh_size / sizeof *r; i++) {
        const Elf64_Sym *symbol = &o->symbols[ELF64_R_SYM(r[i].r_info)];
        if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx >= o->section_count || !o->placed[symbol->st_shndx])
            return fail(diag, "a symbol that is not defined in the kernel", o->symbol_names + symbol->st_name);
        int64_t to = (int64_t)(o->placed[symbol->st_shndx] + symbol->st_value) + r[i].r_addend;
        uint64_t at = target + r[i].r_offset;
        if (!relocate(header->e_machine, ELF64_R_TYPE(r[i].r_info), to_image + at, to, (int64_t)at))
            return diag_fail(diag, FFN_COMPILE_FAILED,
                             "generated object: relocation type %llu is not one kernels may have",
                             (unsigned long long)ELF64_R_TYPE(r[i].r_info));
    }
    return FFN_OK;
}

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && !strcmp(text + length - tail, end);
}

/* The entries are the only global symbols of a kernel; they end in what they are. */
static ffn_status find_entries(const object *o, image_header *header, ffn_diag *diag) {
    for (int32_t e = 0; e < IMAGE_ENTRIES; e++) {
        for (uint64_t i = 0; i < o->symbol_count; i++)
            if (ELF64_ST_BIND(o->symbols[i].st_info) == STB_GLOBAL && o->symbols[i].st_shndx != SHN_UNDEF &&
                o->symbols[i].st_shndx < o->section_count &&
                ends_with(o->symbol_names + o->symbols[i].st_name, symbol_endings[e]))
                header->entries[e] = o->placed[o->symbols[i].st_shndx] + o->symbols[i].st_value;
        if (!header->entries[e])
            return fail(diag, "entry point missing", symbol_endings[e]);
    }
    return FFN_OK;
}

uint64_t link_generator_hash(void) {
    return XXH3_64bits(FFNGEN_GENERATOR_HASH, strlen(FFNGEN_GENERATOR_HASH));
}

static void fill_header(image_header *header, const ffn_spec *spec, const ffn_plan *plan, const isa_row *isa) {
    memcpy(header->magic, IMAGE_MAGIC, sizeof header->magic);
    header->version = IMAGE_VERSION;
    header->header_bytes = sizeof *header;
    header->generator_hash = link_generator_hash();
    strncpy(header->llvm_version, ffngen_llvm_version(), sizeof header->llvm_version - 1);
    header->isa = (uint32_t)plan->isa;
    header->cpu_needs = isa->needs;
    header->scratch_bytes = (uint64_t)plan_scratch_bytes(spec, plan);
    header->plan = *plan;
    for (int32_t i = plan->tile_count; i < FFN_TILES_MAX; i++)
        header->plan.tiles[i] = (ffn_tile){0, 0}; /* a caller need not have set them */
    header->spec.d_model = spec->d_model;
    header->spec.d_ff = spec->d_ff;
    header->spec.bias = spec->bias;
    header->spec.accuracy = spec->accuracy;
    memcpy(header->spec.activation, spec->activation, strlen(spec->activation));
}

ffn_status link_image(const ffn_bytes *bytes, const ffn_spec *spec, const ffn_plan *plan, const isa_row *isa,
                      ffn_bytes *out, ffn_diag *diag) {
    object o;
    image_header header = {.version = 0};
    fill_header(&header, spec, plan, isa);
    ffn_status status = open_object(bytes, &o, diag);
    uint64_t at = header.text_offset = align_up(sizeof header, IMAGE_ALIGN);
    status = status ? status : place_sections(&o, true, &at, diag);
    header.text_bytes = at - header.text_offset;
    at = header.rodata_offset = align_up(at, IMAGE_ALIGN);
    status = status ? status : place_sections(&o, false, &at, diag);
    header.rodata_bytes = at - header.rodata_offset;
    header.total_bytes = align_up(at, IMAGE_ALIGN);
    status = status ? status : find_entries(&o, &header, diag);
    if (status)
        return status;

    unsigned char *made = calloc(1, header.total_bytes);
    if (!made)
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for an image of %llu bytes",
                         (unsigned long long)header.total_bytes);
    memcpy(made, &header, sizeof header);
    for (uint64_t i = 0; i < o.section_count; i++)
        if (o.placed[i])
            memcpy(made + o.placed[i], o.bytes + o.sections[i].sh_offset, o.sections[i].sh_size);
    for (uint64_t i = 0; i < o.section_count && !status; i++)
        if (o.sections[i].sh_type == SHT_RELA)
            status = relocate_section(&o, &o.sections[i], made, diag);
    if (status) {
        free(made);
        return status;
    }
    uint64_t checksum = image_checksum(made, header.total_bytes);
    memcpy(made + offsetof(image_header, checksum), &checksum, sizeof checksum);
    *out = (ffn_bytes){.data = made, .bytes = header.total_bytes, .release = free};
    return FFN_OK;
}
