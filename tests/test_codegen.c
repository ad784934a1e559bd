/* test_codegen.c: what the generated code of every plan looks like: no spilled registers, the vector width that was
 * chosen, landing pads, and the same bytes each time */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffngen.h"
#include "isa.h"
#include "support_asm.h"

/* Specs that lead to different tiles: one chain with the activation in and out of the tile, gated, 2 and 4 chains. */
static const char *const specs[] = {"d768-f3072-relu-bias", "d1024-f4096-gelu_tanh-bias",
                                    "d896-f4864-swiglu",    "d64-f256-relu-bias",
                                    "d32-f48-gelu",         "d100-f300-swiglu-bias"};

static ffn_bytes emit(const char *text, ffn_isa isa, ffn_n_class n_class, ffngen_format format) {
    ffn_spec spec;
    ffn_machine machine;
    ffn_plan plan;
    ffn_bytes out = {.data = NULL};
    ffn_diag diag = {.text = ""};
    cr_assert_eq(ffn_spec_parse(text, &spec, &diag), FFN_OK, "%s", diag.text);
    cr_assert_eq(ffn_machine_generic(isa, &machine, &diag), FFN_OK, "%s", diag.text);
    cr_assert_eq(ffn_plan_make(&spec, isa, n_class, &machine, &plan, &diag), FFN_OK, "%s", diag.text);
    cr_assert_eq(ffn_plan_check(&spec, &plan, &diag), FFN_OK, "%s", diag.text);
    cr_assert_eq(ffngen_emit(&spec, &plan, format, &out, &diag), FFN_OK, "%s", diag.text);
    return out;
}

typedef struct seen {
    const char *spec;
    ffn_isa isa;
    ffn_n_class n_class;
    int tiles, spilled, wrong_width;
} seen;

static void look(const asm_loop *loop, void *self) {
    seen *s = self;
    bool tile = strstr(loop->function, "_tile_") != NULL;
    s->tiles += tile;
    /* LLVM 16 to 18 hoist the activation's constants out of its loop and reload them from the stack. */
    bool judged = tile || atoi(ffngen_llvm_version()) >= 19;
    if (loop->stack && judged) {
        s->spilled++;
        fprintf(stderr, "%s %s %s: a loop of %s has %d FMAs and %d stack accesses\n", s->spec, ffn_isa_name(s->isa),
                ffn_n_class_name(s->n_class), loop->function, loop->fmas, loop->stack);
    }
    if (tile && s->isa == FFN_ISA_AVX512 && (!loop->zmm || loop->ymm))
        s->wrong_width++;
    if (tile && s->isa == FFN_ISA_AVX2 && (!loop->ymm || loop->zmm))
        s->wrong_width++;
}

static void check_every_plan(ffn_isa isa) {
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        for (ffn_n_class c = 0; c < FFN_N_CLASSES; c++) {
            ffn_bytes code = emit(specs[i], isa, c, FFNGEN_ASM);
            seen s = {.spec = specs[i], .isa = isa, .n_class = c};
            int loops = asm_loops(code.data, code.bytes, look, &s);
            cr_expect_gt(loops, 0);
            cr_expect_gt(s.tiles, 1, "%s: tiles of both stages have hot loops", specs[i]);
            cr_expect_eq(s.spilled, 0, "%s %s: %d hot loops spill registers", specs[i], ffn_isa_name(isa), s.spilled);
            cr_expect_eq(s.wrong_width, 0, "%s %s: %d hot loops use another vector width", specs[i], ffn_isa_name(isa),
                         s.wrong_width);
            code.release(code.data);
        }
}

Test(codegen, avx2_hot_loops_never_spill, .timeout = 300) {
    check_every_plan(FFN_ISA_AVX2);
}

Test(codegen, avx512_hot_loops_never_spill_and_use_zmm, .timeout = 300) {
    check_every_plan(FFN_ISA_AVX512);
}

Test(codegen, neon_hot_loops_never_spill, .timeout = 300) {
    check_every_plan(FFN_ISA_NEON);
}

Test(codegen, a_spilling_plan_is_refused) {
    ffn_spec spec;
    ffn_machine machine;
    ffn_plan plan;
    ffn_diag diag = {.text = ""};
    ffn_bytes out = {.data = NULL};
    cr_assert_eq(ffn_spec_parse("d768-f3072-relu", &spec, &diag), FFN_OK);
    cr_assert_eq(ffn_machine_generic(FFN_ISA_AVX2, &machine, &diag), FFN_OK);
    cr_assert_eq(ffn_plan_make(&spec, FFN_ISA_AVX2, FFN_N_17_UP, &machine, &plan, &diag), FFN_OK);
    plan.tiles[0].mr = 8; /* 16 accumulators in 16 registers */
    cr_assert_eq(ffngen_emit(&spec, &plan, FFNGEN_ASM, &out, &diag), FFN_BAD_ARGUMENT);
    cr_assert(strstr(diag.text, "8x1") && strstr(diag.text, "registers"), "%s", diag.text);
    cr_assert_null(out.data);
}

Test(codegen, entries_start_with_a_landing_pad) {
    ffn_bytes x86 = emit("d64-f256-relu", FFN_ISA_AVX2, FFN_N_1, FFNGEN_ASM);
    ffn_bytes arm = emit("d64-f256-relu", FFN_ISA_NEON, FFN_N_1, FFNGEN_ASM);
    cr_expect(memmem(x86.data, x86.bytes, "endbr64", 7));
    cr_expect(memmem(arm.data, arm.bytes, "bti\tc", 5) || memmem(arm.data, arm.bytes, "hint\t#34", 8));
    x86.release(x86.data);
    arm.release(arm.data);
}

Test(codegen, the_same_spec_and_plan_give_the_same_bytes) {
    for (ffngen_format f = 0; f < FFNGEN_FORMATS; f++) {
        ffn_bytes a = emit("d100-f300-gelu-bias", FFN_ISA_AVX512, FFN_N_5_16, f);
        ffn_bytes b = emit("d100-f300-gelu-bias", FFN_ISA_AVX512, FFN_N_5_16, f);
        cr_expect_eq(a.bytes, b.bytes);
        cr_expect(!memcmp(a.data, b.data, a.bytes), "format %d", (int)f);
        a.release(a.data);
        b.release(b.data);
    }
}

Test(codegen, objects_hold_no_call_out_and_no_writable_data) {
    /* The image builder refuses undefined symbols, writable sections and unknown relocations: every ISA must pass it.
     */
    for (ffn_isa isa = FFN_ISA_PORTABLE + 1; isa < FFN_ISA_COUNT; isa++)
        for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
            ffn_bytes image = emit(specs[i], isa, FFN_N_17_UP, FFNGEN_IMAGE);
            cr_expect_lt(image.bytes, 128 * 1024);
            image.release(image.data);
        }
}
