/* test_emit_assembly.c: kernels of a spec as assembly, quoted in C, as an object and in a library: what they show to
 * linkers, and the bits that they compute */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emit.h"
#include "emit_archive.h"
#include "image.h"
#include "object.h"
#include "support_data.h"
#include "support_emit.h"
#include "support_files.h"
#include "support_kernel.h"

TestSuite(emit_assembly, .init = support_folder_make, .fini = support_folder_remove, .timeout = 300);

#define SPEC "d40-f72-gelu-bias"
#define SYMBOL "net_a"

static const ffn_isa x86[] = {FFN_ISA_AVX2, FFN_ISA_AVX512}, arm[] = {FFN_ISA_NEON};
static const char *const class_names[FFN_N_CLASSES] = {"n1", "n2", "n5", "n17"};
static const char *const parts[IMAGE_ENTRIES] = {"fused", "expand", "contract", "activate"};
static ffn_diag diag;

static emit_job job_of(const emit_kernel *kernels, int count, const ffn_isa *isas, int isa_count) {
    return (emit_job){.prefix = "net",
                      .file = "net.h",
                      .isas = isas,
                      .isa_count = isa_count,
                      .assembled = true,
                      .kernels = kernels,
                      .kernel_count = count};
}

static ffn_bytes object_of(const ffn_isa *isas, int count) {
    emit_kernel kernel;
    ffn_bytes object = {.data = NULL};
    support_emit_kernel(SPEC, SYMBOL, isas, count, &kernel);
    const emit_job job = job_of(&kernel, 1, isas, count);
    cr_assert_eq(emit_object(&job, &object, &diag), FFN_OK, "%s", diag.text);
    return object;
}

static text unit_of(const char *symbol, ffn_isa isa) {
    emit_kernel kernel;
    text unit = {.data = NULL};
    support_emit_kernel(SPEC, symbol, &isa, 1, &kernel);
    cr_assert_eq(emit_unit(&kernel, isa, &unit, &diag), FFN_OK, "%s", diag.text);
    return unit;
}

/* <S>_<isa>_<id> */
static void name_unit(const char *symbol, ffn_isa isa, char unit[EMIT_SYMBOL_BYTES]) {
    emit_kernel kernel;
    support_emit_kernel(SPEC, symbol, &isa, 1, &kernel);
    emit_unit_name(&kernel, isa, unit);
}

static bool begins(const char *name, const char *with) {
    return !strncmp(name, with, strlen(with));
}

/* ---- What linkers see ---- */

static void expect_symbols(const ffn_isa *isas, int count) {
    ffn_bytes object = object_of(isas, count);
    const support_elf elf = support_elf_of(&object);
    for (size_t i = 1; i < elf.symbol_count; i++) {
        const Elf64_Sym *s = &elf.symbols[i];
        const char *name = elf.symbol_names + s->st_name;
        if (!*name || name[0] == '$') /* sections, the file; "$x": AArch64's marks of code and data */
            continue;
        cr_expect(begins(name, SYMBOL "_"), "%s is not under the prefix", name);
        cr_expect(s->st_shndx != SHN_UNDEF, "%s is not defined", name);
    }
    for (int i = 0; i < count; i++)
        for (int c = 0; c < FFN_N_CLASSES; c++)
            for (int p = 0; p < IMAGE_ENTRIES; p++) {
                char unit[EMIT_SYMBOL_BYTES], name[EMIT_SYMBOL_BYTES + 32], section[EMIT_SYMBOL_BYTES + 8];
                name_unit(SYMBOL, isas[i], unit);
                snprintf(name, sizeof name, "%s_%s_%s", unit, class_names[c], parts[p]);
                snprintf(section, sizeof section, ".text.%s", unit);
                const Elf64_Sym *s = support_elf_symbol(&elf, name);
                cr_assert_not_null(s, "%s is missing", name);
                cr_expect_eq(ELF64_ST_BIND(s->st_info), STB_WEAK, "%s", name);
                cr_expect_eq(ELF64_ST_TYPE(s->st_info), STT_FUNC, "%s", name);
                cr_expect_eq(ELF64_ST_VISIBILITY(s->st_other), STV_HIDDEN, "%s", name);
                cr_expect(s->st_size > 0, "%s has no size", name);
                cr_expect_eq(s->st_shndx, support_elf_section(&elf, section), "%s", name);
            }
    free(object.data);
}

Test(emit_assembly, entries_are_weak_hidden_functions_and_all_symbols_are_under_the_prefix) {
    expect_symbols(x86, 2);
    expect_symbols(arm, 1);
}

static void expect_sections(const ffn_isa *isas, int count, uint32_t property, uint32_t features) {
    ffn_bytes object = object_of(isas, count);
    const support_elf elf = support_elf_of(&object);
    int groups = 0, notes = 0;
    for (size_t i = 1; i < elf.header->e_shnum; i++) {
        const Elf64_Shdr *s = &elf.sections[i];
        const char *name = support_elf_section_name(&elf, i);
        cr_expect(!(s->sh_flags & SHF_WRITE), "%s is writable", name);
        cr_expect_neq(s->sh_type, SHT_NOBITS, "%s", name);
        groups += s->sh_type == SHT_GROUP;
        notes += s->sh_type == SHT_NOTE;
        if (s->sh_type == SHT_RELA) /* a text relocation is one that is not relative to the place it stands at */
            for (size_t r = 0; r < s->sh_size / sizeof(Elf64_Rela); r++) {
                const Elf64_Rela *rela = (const Elf64_Rela *)(const void *)(elf.bytes + s->sh_offset) + r;
                const uint64_t type = ELF64_R_TYPE(rela->r_info);
                const bool relative =
                    elf.header->e_machine == EM_X86_64
                        ? type == R_X86_64_PC32 || type == R_X86_64_PLT32
                        : type == R_AARCH64_CALL26 || type == R_AARCH64_JUMP26 || type == R_AARCH64_ADR_PREL_PG_HI21 ||
                              type == R_AARCH64_ADD_ABS_LO12_NC ||
                              (type >= R_AARCH64_LDST8_ABS_LO12_NC && type <= R_AARCH64_LDST64_ABS_LO12_NC) ||
                              type == R_AARCH64_LDST128_ABS_LO12_NC;
                cr_expect(relative, "relocation %d in %s", (int)type, name);
            }
        if (!(s->sh_flags & SHF_ALLOC) || s->sh_size == 0 || s->sh_type == SHT_NOTE)
            continue;
        const bool code = s->sh_flags & SHF_EXECINSTR;
        cr_expect(begins(name, code ? ".text." SYMBOL "_" : ".rodata." SYMBOL "_"), "%s", name);
        cr_expect(s->sh_flags & SHF_GROUP, "%s is in no group", name);
    }
    cr_expect_eq(groups, count);
    for (size_t i = 1; i < elf.header->e_shnum; i++)
        if (elf.sections[i].sh_type == SHT_GROUP) {
            const char *signature = elf.symbol_names + elf.symbols[elf.sections[i].sh_info].st_name;
            cr_expect(begins(signature, SYMBOL "_"), "%s", signature);
            cr_expect_eq(*(const uint32_t *)(const void *)(elf.bytes + elf.sections[i].sh_offset), GRP_COMDAT);
        }
    const size_t stack = support_elf_section(&elf, ".note.GNU-stack"),
                 note = support_elf_section(&elf, ".note.gnu.property");
    cr_assert(stack && note);
    cr_expect(!(elf.sections[stack].sh_flags & SHF_EXECINSTR));
    cr_expect_eq(notes, 1);
    const uint32_t want[] = {4, 16, 5, 0x00554e47, property, 4, features, 0};
    cr_assert_eq(elf.sections[note].sh_size, sizeof want);
    cr_expect_eq(elf.sections[note].sh_addralign, 8);
    cr_expect_arr_eq(elf.bytes + elf.sections[note].sh_offset, want, sizeof want);
    free(object.data);
}

Test(emit_assembly, sections_are_groups_read_only_and_say_what_the_code_is_safe_for) {
    expect_sections(x86, 2, GNU_PROPERTY_X86_FEATURE_1_AND,
                    GNU_PROPERTY_X86_FEATURE_1_IBT | GNU_PROPERTY_X86_FEATURE_1_SHSTK);
    expect_sections(arm, 1, GNU_PROPERTY_AARCH64_FEATURE_1_AND,
                    GNU_PROPERTY_AARCH64_FEATURE_1_BTI | GNU_PROPERTY_AARCH64_FEATURE_1_PAC);
}

/* endbr64; bti c, or paciasp, which is a landing pad as well. */
static void expect_landing_pads(const ffn_isa *isas, int count) {
    ffn_bytes object = object_of(isas, count);
    const support_elf elf = support_elf_of(&object);
    for (size_t i = 1; i < elf.symbol_count; i++) {
        const Elf64_Sym *s = &elf.symbols[i];
        if (ELF64_ST_BIND(s->st_info) != STB_WEAK || ELF64_ST_TYPE(s->st_info) != STT_FUNC)
            continue;
        uint32_t first;
        memcpy(&first, elf.bytes + elf.sections[s->st_shndx].sh_offset + s->st_value, sizeof first);
        cr_expect(elf.header->e_machine == EM_X86_64 ? first == 0xfa1e0ff3 : first == 0xd503245f || first == 0xd503233f,
                  "%s begins with %08x", elf.symbol_names + s->st_name, first);
    }
    free(object.data);
}

Test(emit_assembly, entries_begin_with_a_landing_pad) {
    expect_landing_pads(x86, 2);
    expect_landing_pads(arm, 1);
}

/* ---- What is refused ---- */

Test(emit_assembly, assembly_that_is_wrong_is_refused_with_the_assemblers_words) {
    static const char assembly[] = "\tnop\n\tno_such_instruction %rax\n";
    ffn_bytes object = {.data = NULL};
    cr_expect_eq(object_assemble(FFN_ARCH_X86_64, assembly, strlen(assembly), &object, &diag), FFN_COMPILE_FAILED);
    cr_expect(strstr(diag.text, "invalid instruction mnemonic"), "%s", diag.text);
    cr_expect_null(object.data);
}

Test(emit_assembly, a_file_holds_one_architecture) {
    static const ffn_isa mixed[] = {FFN_ISA_AVX2, FFN_ISA_NEON}, portable[] = {FFN_ISA_PORTABLE};
    ffn_bytes out = {.data = NULL};
    emit_job job = job_of(NULL, 0, mixed, 2);
    cr_expect_eq(emit_assembly(&job, &out, &diag), FFN_BAD_ARGUMENT);
    cr_expect(strstr(diag.text, "avx2 and neon"), "%s", diag.text);
    job = job_of(NULL, 0, portable, 1);
    cr_expect_eq(emit_object(&job, &out, &diag), FFN_BAD_ARGUMENT);
    cr_expect(strstr(diag.text, "portable"), "%s", diag.text);
}

/* ---- What it computes ---- */

/* A library for dlopen with a table of the entries of one ISA: by class, by part. */
static void write_glue(const char *unit) {
    text glue = {.data = NULL};
    for (int pass = 0; pass < 2; pass++)
        for (int c = 0; c < FFN_N_CLASSES; c++)
            for (int p = 0; p < IMAGE_ENTRIES; p++)
                text_print(&glue, pass ? "%s%s_%s_%s" : "%sextern void %s_%s_%s(void);\n",
                           !pass    ? ""
                           : c || p ? ", "
                                    : "void (*const table[])(void) = {",
                           unit, class_names[c], parts[p]);
    text_put(&glue, "};\n");
    support_file_write(support_path("glue.c"), glue.data, glue.bytes);
    text_free(&glue);
}

static void *open_table(void (*const **table)(void)) {
    cr_assert_eq(
        support_shell("gcc -shared -fPIC -Wl,-z,text,--fatal-warnings,--no-undefined glue.c kernels.o -o k.so"), 0);
    void *library = dlopen(support_path("k.so"), RTLD_NOW);
    cr_assert_not_null(library, "%s", dlerror());
    *table = (void (*const *)(void))dlsym(library, "table");
    cr_assert_not_null(*table);
    return library;
}

static void expect_bits(const float *got, const float *want, int64_t count, const char *what, ffn_isa isa,
                        int n_class) {
    cr_expect(!memcmp(got, want, (size_t)count * sizeof *got), "%s of %s %s differs from the image's", what,
              ffn_isa_name(isa), class_names[n_class]);
}

/* All four entries of a class against the image of the same plan. */
static void expect_class(const emit_kernel *k, ffn_isa isa, int n_class, void (*const *entries)(void)) {
    static const int64_t rows[FFN_N_CLASSES] = {1, 3, 11, 37};
    const int64_t n = rows[n_class], stride = image_hidden_stride(&k->spec), d = k->spec.d_model;
    const size_t y_bytes = (size_t)(n * d) * sizeof(float), h_bytes = (size_t)(n * stride) * sizeof(float);
    support_kernel made;
    support_kernel_build(&k->spec, &k->plans[isa][n_class], &made);
    support_weights *weights = support_random_weights(&k->spec, SUPPORT_NORMAL, 3);
    void *packed = support_packed(&k->spec, &weights->weights);
    void *scratch = support_aligned((size_t)made.scratch_bytes);
    float *x = support_aligned(y_bytes), *y[2], *h[2];
    support_fill_x(x, n, d, d, SUPPORT_NORMAL, 5);
    const image_fused fused[] = {made.code.fused, (image_fused)entries[IMAGE_FUSED]};
    const image_expand expand[] = {made.code.expand, (image_expand)entries[IMAGE_EXPAND]};
    const image_contract contract[] = {made.code.contract, (image_contract)entries[IMAGE_CONTRACT]};
    const image_activate activate[] = {made.code.activate, (image_activate)entries[IMAGE_ACTIVATE]};
    for (int i = 0; i < 2; i++) {
        y[i] = support_aligned(y_bytes);
        h[i] = support_aligned(h_bytes);
        memset(h[i], 0xff, h_bytes);
        memset(scratch, 0xff, (size_t)made.scratch_bytes);
        fused[i](x, d, y[i], d, packed, scratch, 0, n);
    }
    expect_bits(y[1], y[0], n * d, "fused", isa, n_class);
    for (int i = 0; i < 2; i++) {
        memset(y[i], 0xff, y_bytes);
        expand[i](x, d, packed, h[i], scratch, n, 0, k->spec.d_ff);
        contract[i](h[i], packed, y[i], d, scratch, n, 0, d);
    }
    expect_bits(h[1], h[0], n * stride, "expand", isa, n_class);
    expect_bits(y[1], y[0], n * d, "contract", isa, n_class);
    for (int i = 0; i < 2; i++)
        activate[i](n * d, x, x, y[i]);
    expect_bits(y[1], y[0], n * d, "activate", isa, n_class);
    for (int i = 0; i < 2; i++) {
        free(y[i]);
        free(h[i]);
    }
    free(x);
    free(scratch);
    free(packed);
    support_weights_free(weights);
    support_kernel_free(&made);
}

static void expect_kernels(const char *spec) {
    for (size_t i = 0; i < sizeof x86 / sizeof *x86; i++) {
        if (!ffn_isa_supported(x86[i])) {
            printf("%s: not on this CPU, so its kernels are not run\n", ffn_isa_name(x86[i]));
            continue;
        }
        emit_kernel kernel;
        ffn_bytes object = {.data = NULL};
        support_emit_kernel(spec, SYMBOL, &x86[i], 1, &kernel);
        const emit_job job = job_of(&kernel, 1, &x86[i], 1);
        cr_assert_eq(emit_object(&job, &object, &diag), FFN_OK, "%s", diag.text);
        support_file_write(support_path("kernels.o"), object.data, object.bytes);
        char unit[EMIT_SYMBOL_BYTES];
        emit_unit_name(&kernel, x86[i], unit);
        write_glue(unit);
        void (*const *table)(void);
        void *library = open_table(&table);
        for (int c = 0; c < FFN_N_CLASSES; c++)
            expect_class(&kernel, x86[i], c, table + c * IMAGE_ENTRIES);
        dlclose(library);
        free(object.data);
    }
}

Test(emit_assembly, kernels_have_the_bits_of_images) {
    expect_kernels(SPEC);
    expect_kernels("d33-f65-swiglu-bias");
    expect_kernels("d96-f288-relu");
}

/* ---- Other assemblers, C compilers ---- */

static void write_assembly(const ffn_isa *isas, int count, const char *name) {
    emit_kernel kernel;
    ffn_bytes assembly = {.data = NULL};
    support_emit_kernel(SPEC, SYMBOL, isas, count, &kernel);
    const emit_job job = job_of(&kernel, 1, isas, count);
    cr_assert_eq(emit_assembly(&job, &assembly, &diag), FFN_OK, "%s", diag.text);
    support_file_write(support_path(name), assembly.data, assembly.bytes);
    free(assembly.data);
}

/* The instructions of both, without the padding, which every assembler chooses for itself, and without the places that
 * follow from it. */
#define LISTING                                                                                               \
    "%s -d --no-show-raw-insn %s | sed -E 's/^ *[0-9a-f]+:\\t//; s/^[0-9a-f]+ //; s/\\+0x[0-9a-f]+>/>/; "     \
    "s/[0-9a-f]+ +<[^>]*>//; s/# [0-9a-f]+//' | grep -vE '^(nop|cs nop|data16|xchg +%%ax,%%ax)|file format' " \
    "> %s"

static void expect_same_instructions(const char *assembler, const char *objdump, const ffn_isa *isas, int count) {
    ffn_bytes object = object_of(isas, count);
    support_file_write(support_path("llvm.o"), object.data, object.bytes);
    free(object.data);
    write_assembly(isas, count, "k.s");
    cr_assert_eq(support_shell("%s k.s -o other.o", assembler), 0, "%s", assembler);
    cr_assert_eq(support_shell(LISTING, objdump, "llvm.o", "llvm.txt"), 0);
    cr_assert_eq(support_shell(LISTING, objdump, "other.o", "other.txt"), 0);
    cr_expect_eq(support_shell("test $(wc -l < llvm.txt) -gt 2000 && cmp llvm.txt other.txt"), 0, "%s", assembler);
}

static bool has(const char *program) {
    return support_shell("command -v %s", program) == 0;
}

Test(emit_assembly, other_assemblers_make_the_same_instructions) {
    expect_same_instructions("as", "objdump", x86, 2);
    if (has("clang"))
        expect_same_instructions("clang -c", "objdump", x86, 2);
    if (has("aarch64-linux-gnu-as"))
        expect_same_instructions("aarch64-linux-gnu-as", "aarch64-linux-gnu-objdump", arm, 1);
    if (has("clang") && has("aarch64-linux-gnu-objdump"))
        expect_same_instructions("clang --target=aarch64-linux-gnu -c", "aarch64-linux-gnu-objdump", arm, 1);
}

/* Two units, one of them twice, and another prefix, in one file. */
static void write_quoted(const char *name) {
    text c = {.data = NULL};
    static const struct {
        const char *symbol;
        ffn_isa isa;
    } units[] = {{SYMBOL, FFN_ISA_AVX2}, {SYMBOL, FFN_ISA_AVX512}, {SYMBOL, FFN_ISA_AVX2}, {"net_b", FFN_ISA_AVX2}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        text unit = unit_of(units[i].symbol, units[i].isa);
        emit_quoted(unit.data, unit.bytes, &c);
        text_free(&unit);
    }
    text_put(&c, "\nextern int after(int a);\nint after(int a) { return a + 1; }\n");
    support_file_write(support_path(name), c.data, c.bytes);
    text_free(&c);
}

Test(emit_assembly, quoted_units_compile_in_every_dialect_and_do_not_clash) {
    static const char *const builds[] = {
        "gcc -std=c99", "gcc -O2 -g",        "gcc -O2 -masm=intel",     "gcc -x c++ -std=c++11", "clang -std=c99",
        "clang -O2 -g", "clang -masm=intel", "clang -x c++ -std=c++11", "clang-19 -std=c99"};
    ffn_bytes object = object_of(x86, 2);
    support_file_write(support_path("llvm.o"), object.data, object.bytes);
    free(object.data);
    write_quoted("k.c");
    for (size_t i = 0; i < sizeof builds / sizeof *builds; i++) {
        char compiler[16];
        sscanf(builds[i], "%15s", compiler);
        if (!has(compiler))
            continue;
        cr_expect_eq(support_shell("%s -Wall -Wextra -Wpedantic -Werror -c k.c -o k.o", builds[i]), 0, "%s", builds[i]);
        ffn_bytes made = {.data = NULL};
        made.data = support_file_read(support_path("k.o"), &made.bytes);
        const support_elf elf = support_elf_of(&made);
        char a[EMIT_SYMBOL_BYTES], b[EMIT_SYMBOL_BYTES];
        name_unit("net_a", FFN_ISA_AVX512, a);
        name_unit("net_b", FFN_ISA_AVX2, b);
        cr_expect(support_elf_symbol(&elf, strcat(a, "_n17_fused")) &&
                  support_elf_symbol(&elf, strcat(b, "_n1_fused")));
        for (size_t s = 1; s < elf.symbol_count; s++) {
            const char *name = elf.symbol_names + elf.symbols[s].st_name;
            const int type = ELF64_ST_TYPE(elf.symbols[s].st_info);
            cr_expect(begins(name, "net_") || type == STT_SECTION || type == STT_FILE || strstr(name, "after"),
                      "%s: %s is left behind", builds[i], name);
        }
        free(made.data);
    }
}

Test(emit_assembly, quoted_statements_are_as_short_as_c99_asks) {
    text unit = unit_of(SYMBOL, FFN_ISA_AVX2), c = {.data = NULL};
    emit_quoted(unit.data, unit.bytes, &c);
    text_add(&c, "", 1);
    size_t statement = 0, statements = 0;
    char *rest = NULL;
    for (char *line = strtok_r(c.data, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        /* 120 and what ends an asm statement; one instruction or call of a macro can't be cut. */
        cr_expect(strlen(line) <= 124 || (!strchr(line, ';') && strlen(line) < 400), "%s", line);
        statement = begins(line, "__asm__(") ? 0 : statement;
        statements += begins(line, "__asm__(");
        statement += strlen(line);
        cr_expect(statement < 4095);
    }
    cr_expect(statements > 5);
    text_free(&unit);
    text_free(&c);

    static const char odd[] =
        ".ascii \"a\\\\\"\n\nnop"; /* a quote, a backslash, an empty line, no newline at the end */
    text to = {.data = NULL};
    emit_quoted(odd, strlen(odd), &to);
    text_add(&to, "", 1);
    cr_expect_str_eq(to.data, "__asm__(\".ascii \\\"a\\\\\\\\\\\";nop\\n\");\n");
    text_free(&to);
}

/* ---- Files ---- */

Test(emit_assembly, a_header_of_two_isas_has_room_for_its_c) {
    emit_kernel kernel;
    text c = {.data = NULL};
    support_emit_kernel("d768-f3072-gelu-bias", "bert", x86, 2, &kernel);
    for (int i = 0; i < 2; i++) {
        text unit = {.data = NULL};
        cr_assert_eq(emit_unit(&kernel, x86[i], &unit, &diag), FFN_OK, "%s", diag.text);
        emit_quoted(unit.data, unit.bytes, &c);
        text_free(&unit);
    }
    cr_expect(c.bytes < 340 * 1024, "%zu bytes", c.bytes);
    text_free(&c);
}

Test(emit_assembly, the_same_job_has_the_same_bytes) {
    ffn_bytes one = object_of(x86, 2), two = object_of(x86, 2);
    cr_assert_eq(one.bytes, two.bytes);
    cr_expect_arr_eq(one.data, two.data, one.bytes);
    free(one.data);
    free(two.data);
}

/* GNU ar is the measure. */
Test(emit_assembly, a_library_is_what_ar_makes_of_the_objects) {
    static const char *const symbols[] = {"net_a", "net_with_a_long_name", "net_c", "net_another_long_name"};
    enum { COUNT = sizeof symbols / sizeof *symbols };
    emit_kernel kernels[COUNT];
    for (int i = 0; i < COUNT; i++) {
        support_emit_kernel(i % 2 ? "d16-f16-relu" : "d7-f5-silu", symbols[i], x86, 1, &kernels[i]);
        ffn_bytes object = {.data = NULL};
        const emit_job one = job_of(&kernels[i], 1, x86, 1);
        cr_assert_eq(emit_object(&one, &object, &diag), FFN_OK, "%s", diag.text);
        char name[64];
        snprintf(name, sizeof name, "%s.o", symbols[i]);
        support_file_write(support_path(name), object.data, object.bytes);
        free(object.data);
    }
    ffn_bytes library = {.data = NULL};
    const emit_job job = job_of(kernels, COUNT, x86, 1);
    cr_assert_eq(emit_library(&job, &library, &diag), FFN_OK, "%s", diag.text);
    cr_assert_eq(support_shell("chmod 644 *.o && ar rcsD want.a net_a.o net_with_a_long_name.o net_c.o "
                               "net_another_long_name.o"),
                 0);
    support_file_expect(support_path("want.a"), library.data, library.bytes, "the library");
    free(library.data);
}

Test(emit_assembly, a_library_takes_odd_sizes_and_refuses_what_is_no_object) {
    ffn_bytes object = object_of(x86, 1), library = {.data = NULL};
    char *odd = malloc(object.bytes + 1);
    cr_assert_not_null(odd);
    memcpy(odd, object.data, object.bytes);
    odd[object.bytes] = 'x';
    const size_t longer = object.bytes | 1;
    emit_member members[] = {{"fifteen_bytes.o", {.data = odd, .bytes = longer}},
                             {"sixteen__bytes.o", {.data = object.data, .bytes = object.bytes}}};
    cr_assert_eq(emit_archive(members, 2, &library, &diag), FFN_OK, "%s", diag.text);
    support_file_write(support_path("fifteen_bytes.o"), odd, longer);
    support_file_write(support_path("sixteen__bytes.o"), object.data, object.bytes);
    cr_assert_eq(support_shell("chmod 644 *.o && ar rcsD want.a fifteen_bytes.o sixteen__bytes.o"), 0);
    support_file_expect(support_path("want.a"), library.data, library.bytes, "the library");
    free(library.data);
    members[1].object = (ffn_bytes){.data = odd + 1, .bytes = 100};
    cr_expect_eq(emit_archive(members, 2, &library, &diag), FFN_BAD_ARGUMENT);
    cr_expect(strstr(diag.text, "sixteen__bytes.o"), "%s", diag.text);
    members[1] = (emit_member){"a/b.o", object};
    cr_expect_eq(emit_archive(members, 2, &library, &diag), FFN_BAD_ARGUMENT);
    free(odd);
    free(object.data);
}
