/* test_emit_unit.c: texts as LLVM writes them -> what stands once in a unit, where constants lie, what is refused */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emit_asm.h"
#include "image.h"
#include "object.h"
#include "support_emit.h"

TestSuite(emit_unit, .timeout = 60);

static const char *const class_names[FFN_N_CLASSES] = {"n1", "n2", "n5", "n17"};
static const char *const parts[IMAGE_ENTRIES] = {"fused", "expand", "contract", "activate"};
static ffn_diag diag;

/* ---- Texts and their units ---- */

static const char *const four_entries =
    "\t.globl\tk_fused\n\t.type\tk_fused,@function\nk_fused:\n\tretq\n.Lfunc_end8:\n\t.size\tk_fused, .-k_fused\n"
    "\t.globl\tk_expand\n\t.type\tk_expand,@function\nk_expand:\n\tcallq\tinner\n\tretq\n\t.size\tk_expand, 6\n"
    "\t.globl\tk_contract\n\t.type\tk_contract,@function\nk_contract:\n\tcallq\tinner\n\tnop\n\tretq\n"
    "\t.size\tk_contract, 7\n"
    "\t.globl\tk_activate\n\t.type\tk_activate,@function\nk_activate:\n\tnop\n\tretq\n\t.size\tk_activate, 2\n"
    "\t.p2align\t4, 0x90\n\t.type\tinner,@function\ninner:\n";

/* A text as LLVM would write it for a class -> into the unit. */
static ffn_status fold(emit_folded *unit, const char *assembly, int n_class) {
    static char names[FFN_N_CLASSES][IMAGE_ENTRIES][32];
    static const char *const from[] = {"k_fused", "k_expand", "k_contract", "k_activate"};
    emit_entry entries[IMAGE_ENTRIES];
    for (int e = 0; e < IMAGE_ENTRIES; e++) {
        snprintf(names[n_class][e], sizeof names[n_class][e], "p_avx2_%s_%s", class_names[n_class], parts[e]);
        entries[e] = (emit_entry){from[e], names[n_class][e]};
    }
    return emit_fold(unit, (emit_slice){assembly, strlen(assembly)}, entries, &diag);
}

static char *with_inner(const char *inner, const char *after) {
    char *all = NULL;
    cr_assert(asprintf(&all, "\t.text\n%s%s\tretq\n.Lfunc_end9:\n\t.size\tinner, .Lfunc_end9-inner\n%s", four_entries,
                       inner, after) > 0);
    return all;
}

static ffn_bytes assembled(const emit_folded *unit) {
    text to = {.data = NULL};
    ffn_bytes object = {.data = NULL};
    emit_folded_write(unit, &to);
    cr_assert_eq(object_assemble(FFN_ARCH_X86_64, to.data, to.bytes, &object, &diag), FFN_OK, "%s", diag.text);
    text_free(&to);
    return object;
}

Test(emit_unit, constants_lie_aligned_in_rodata_with_the_bytes_they_had) {
    char *assembly =
        with_inner("\tvaddps\t.LCPI0_1(%rip), %ymm0, %ymm0\n\tvaddps\t.LCPI0_2(%rip), %ymm0, %ymm0\n"
                   "\tvaddss\t.LCPI0_0(%rip), %xmm0, %xmm0\n\tleaq\theights(%rip), %rax\n",
                   "\t.section\t.rodata.cst4,\"aM\",@progbits,4\n\t.p2align\t2, 0x0\n.LCPI0_0:\n"
                   "\t.long\t0x3f800000\n"
                   "\t.section\t.rodata.cst32,\"aM\",@progbits,32\n\t.p2align\t5, 0x0\n.LCPI0_1:\n\t.zero\t32\n"
                   ".LCPI0_2:\n\t.quad\t1, -1, 0x10\n\t.long\t2\n\t.short\t3\n\t.byte\t4,5\n"
                   "\t.type\theights,@object\n\t.section\t.rodata,\"a\",@progbits\nheights:\n"
                   "\t.ascii\t\"\\101\\\"\\\\x\\n\"\n\t.size\theights, 5\n");
    emit_folded unit = {.prefix = "p_avx2", .arch = FFN_ARCH_X86_64};
    cr_assert_eq(fold(&unit, assembly, 0), FFN_OK, "%s", diag.text);
    ffn_bytes object = assembled(&unit);
    const support_elf elf = support_elf_of(&object);
    const size_t section = support_elf_section(&elf, ".rodata.p_avx2");
    cr_assert(section);
    cr_expect_eq(elf.sections[section].sh_addralign, 32);
    /* Largest alignment first: zeros, the mixed one, the float, the string. */
    static const unsigned char want[] = {
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,    0,    0,    0,    0,    0,    0,    0,    0,    0,
        0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x10, 0,
        0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3, 0, 4, 5, 0, 0,    0x80, 0x3f, 'A',  '"',  '\\', 'x',  '\n'};
    cr_assert_eq(elf.sections[section].sh_size, sizeof want);
    cr_expect_arr_eq(elf.bytes + elf.sections[section].sh_offset, want, sizeof want);
    free(object.data);
    emit_folded_free(&unit);
    free(assembly);
}

/* ---- What stands once ---- */

Test(emit_unit, functions_that_are_equal_but_for_names_stand_once) {
    char *one = with_inner("\tvaddss\t.LCPI0_0(%rip), %xmm0, %xmm0\n\tjmp\t.LBB4_2\n.LBB4_2:\n",
                           "\t.section\t.rodata.cst4,\"aM\",@progbits,4\n\t.p2align\t2\n.LCPI0_0:\n\t.long\t7\n");
    char *same = with_inner("\tvaddss\t.LCPI3_1(%rip), %xmm0, %xmm0\n\tjmp\t.LBB7_9\n.LBB7_9:\n",
                            "\t.section\t.rodata.cst4,\"aM\",@progbits,4\n\t.p2align\t2\n.LCPI3_0:\n\t.long\t8\n"
                            ".LCPI3_1:\n\t.long\t0x7\n");
    char *other = with_inner("\tvaddss\t.LCPI3_0(%rip), %xmm0, %xmm0\n\tjmp\t.LBB7_9\n.LBB7_9:\n",
                             "\t.section\t.rodata.cst4,\"aM\",@progbits,4\n\t.p2align\t2\n.LCPI3_0:\n\t.long\t8\n");
    emit_folded unit = {.prefix = "p_avx2", .arch = FFN_ARCH_X86_64};
    cr_assert_eq(fold(&unit, one, 0), FFN_OK, "%s", diag.text);
    cr_expect_eq(unit.function_count, 5);
    cr_assert_eq(fold(&unit, same, 1), FFN_OK, "%s", diag.text);
    cr_expect_eq(unit.function_count, 5, "callers of equal functions are equal");
    cr_expect_eq(unit.constant_count, 1, "a constant that nobody needs is left out");
    cr_assert_eq(fold(&unit, other, 2), FFN_OK, "%s", diag.text);
    cr_expect_eq(unit.function_count, 8, "what calls another function is another function");
    ffn_bytes object = assembled(&unit);
    const support_elf elf = support_elf_of(&object);
    const Elf64_Sym *first = support_elf_symbol(&elf, "p_avx2_n1_expand"),
                    *second = support_elf_symbol(&elf, "p_avx2_n2_expand"),
                    *third = support_elf_symbol(&elf, "p_avx2_n5_expand");
    cr_assert(first && second && third);
    cr_expect_eq(first->st_value, second->st_value);
    cr_expect_neq(first->st_value, third->st_value);
    cr_expect_eq(first->st_size, 6);
    cr_expect_eq(second->st_size, 6);
    cr_expect_not_null(support_elf_symbol(&elf, "p_avx2_inner_2"), "of two bodies with a name one has a number");
    free(object.data);
    emit_folded_free(&unit);
    free(one);
    free(same);
    free(other);
}

/* A macro's text is as long as it is; the code that comes of it is that of the text it stands for. */
Test(emit_unit, functions_that_differ_in_operands_are_assembled_as_if_they_were_written_out) {
    emit_folded unit = {.prefix = "p_avx2", .arch = FFN_ARCH_X86_64};
    char *texts[3];
    static const int values[] = {64, -8, 4096};
    for (int c = 0; c < 3; c++) {
        char inner[2048] = "";
        for (int i = 0; i < 30; i++)
            snprintf(inner + strlen(inner), sizeof inner - strlen(inner), "\tmovl\t$%d, %d(%%rdi,%%rsi,4)\n%s",
                     i == 7 || i == 9 ? values[c] : i, i == 12 ? 2 * values[c] : 400,
                     i == 3    ? ".LBB0_1:\n"
                     : i == 20 ? "\tjne\t.LBB0_1\n\tje\t.LBB0_2\n"
                     : i == 25 ? ".LBB0_2:\n"
                               : "");
        texts[c] = with_inner(inner, "");
        cr_assert_eq(fold(&unit, texts[c], c), FFN_OK, "%s", diag.text);
    }
    ffn_bytes plain = assembled(&unit);
    cr_assert(emit_fold_macros(&unit));
    cr_expect_eq(unit.macro_count, 1);
    cr_expect_eq(unit.macros[0].parameter_count, 2, "equal operands are one parameter");
    ffn_bytes made = assembled(&unit);
    cr_assert_eq(made.bytes, plain.bytes);
    cr_expect_arr_eq(made.data, plain.data, made.bytes);
    free(plain.data);
    free(made.data);
    emit_folded_free(&unit);
    for (int c = 0; c < 3; c++)
        free(texts[c]);
}

/* ---- What is refused ---- */

Test(emit_unit, statements_that_nobody_knows_are_refused_by_name) {
    static const struct {
        const char *inner, *after, *word;
    } cases[] = {
        {"\t.cfi_startproc\n", "", ".cfi_startproc"},
        {"\t.set\tx, 1\n", "", ".set"},
        {"\t.quad\t1\n", "", ".quad"},
        {"\tcallq\tmemcpy@PLT\n", "", "memcpy"},
        {"\tleaq\telsewhere(%rip), %rax\n", "", "elsewhere"},
        {"\tjmp\t.LBB9_9\n", "", ".LBB9_9"},
        {"\tcallq\tinner\n", "", "inner calls itself"},
        {"", "\t.data\n", ".data"},
        {"", "\t.section\t.data.rel.ro,\"aw\",@progbits\n", ".data.rel.ro"},
        {"", "\t.section\t.rodata,\"aw\",@progbits\n", ".rodata,\"aw\""},
        {"", "\t.comm\tx,8,8\n", ".comm"},
        {"", "\t.section\t.rodata,\"a\",@progbits\nt:\n\t.long\t.LBB0_1-t\n", ".LBB0_1-t"},
        {"", "\t.section\t.rodata,\"a\",@progbits\nt:\nu:\n\t.long\t1\n", "nothing stands under t"},
        {"", "\t.section\t.rodata,\"a\",@progbits\nt:\n\tnop\n", "nop"},
        {"", "\t.text\n\t.globl\tk_more\nk_more:\n\tretq\n", "k_more"},
        {"", "\t.p2align\tx\n", ".p2align"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *assembly = with_inner(cases[i].inner, cases[i].after);
        emit_folded unit = {.prefix = "p_avx2", .arch = FFN_ARCH_X86_64};
        diag = (ffn_diag){.text = ""};
        cr_expect_eq(fold(&unit, assembly, 0), FFN_COMPILE_FAILED, "%s", cases[i].word);
        cr_expect(strstr(diag.text, cases[i].word), "%s: not in: %s", cases[i].word, diag.text);
        emit_folded_free(&unit);
        free(assembly);
    }
    emit_folded unit = {.prefix = "p_avx2", .arch = FFN_ARCH_X86_64};
    cr_expect_eq(fold(&unit, "\t.text\n", 0), FFN_COMPILE_FAILED);
    cr_expect(strstr(diag.text, "k_fused is missing"), "%s", diag.text);
    emit_folded_free(&unit);
}

Test(emit_unit, arm_operands_that_are_symbols_are_told_from_those_that_are_not) {
    static const char assembly[] = "\t.globl\tk_fused\nk_fused:\n\tb\tx0\n\t.size\tk_fused, 4\n";
    emit_folded unit = {.prefix = "p_neon", .arch = FFN_ARCH_AARCH64};
    cr_expect_eq(fold(&unit, assembly, 0), FFN_COMPILE_FAILED);
    cr_expect(strstr(diag.text, "refers to x0"), "%s", diag.text);
    emit_folded_free(&unit);
}
