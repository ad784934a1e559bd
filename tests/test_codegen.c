/* test_codegen.c: what the generated code of every plan looks like: no spilled registers, the vector width that was
 * chosen, landing pads, and the same bytes each time */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <elf.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffngen.h"
#include "image.h"
#include "isa.h"
#include "plan_space.h"
#include "support_asm.h"

/* Specs that lead to different tiles: one chain with the activation in and out of the tile, gated, 2 and 4 chains. */
static const char *const specs[] = {"d768-f3072-relu-bias", "d1024-f4096-gelu_tanh-bias",
                                    "d896-f4864-swiglu",    "d64-f256-relu-bias",
                                    "d32-f48-gelu",         "d100-f300-swiglu-bias"};

static ffn_bytes emit_plan_of(const ffn_spec *spec, const ffn_plan *plan, ffngen_format format) {
    ffn_bytes out = {.data = NULL};
    ffn_diag diag = {.text = ""};
    cr_assert_eq(ffn_plan_check(spec, plan, &diag), FFN_OK, "%s", diag.text);
    cr_assert_eq(ffngen_emit(spec, plan, format, &out, &diag), FFN_OK, "%s", diag.text);
    return out;
}

static ffn_bytes emit(const char *text, ffn_isa isa, ffn_n_class n_class, ffngen_format format) {
    ffn_spec spec;
    ffn_machine machine;
    ffn_plan plan;
    ffn_diag diag = {.text = ""};
    cr_assert_eq(ffn_spec_parse(text, &spec, &diag), FFN_OK, "%s", diag.text);
    cr_assert_eq(ffn_machine_generic(isa, &machine, &diag), FFN_OK, "%s", diag.text);
    cr_assert_eq(ffn_plan_make(&spec, isa, n_class, &machine, &plan, &diag), FFN_OK, "%s", diag.text);
    return emit_plan_of(&spec, &plan, format);
}

typedef struct seen {
    const char *spec;
    ffn_isa isa;
    ffn_n_class n_class;
    int32_t vector_bits; /* of the plan */
    int tiles, spilled, wrong_width;
} seen;

static void look(const asm_loop *loop, void *self) {
    seen *s = self;
    bool tile = strstr(loop->function, "_tile_") != NULL;
    s->tiles += tile;
    /* An activation alone: constants that find no register (NEON, gelu: three of thirty) are loaded again, which costs
     * what x86 code pays for all of them. LLVM 16 to 18 hoist more of them. */
    const int allowed = tile ? 0 : atoi(ffngen_llvm_version()) >= 19 ? 4 : INT_MAX;
    if (loop->stack > allowed) {
        s->spilled++;
        fprintf(stderr, "%s %s %s: a loop of %s has %d FMAs and %d stack accesses\n", s->spec, ffn_isa_name(s->isa),
                ffn_n_class_name(s->n_class), loop->function, loop->fmas, loop->stack);
    }
    bool zmm = s->isa == FFN_ISA_AVX512 && s->vector_bits == 0, ymm = s->isa != FFN_ISA_NEON && !zmm;
    s->wrong_width += tile && ((zmm && (!loop->zmm || loop->ymm)) || (ymm && (!loop->ymm || loop->zmm)));
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

/* Plans that differ in code other than the sizes of blocks. */
static bool same_tiles(const ffn_plan *a, const ffn_plan *b) {
    return a->vector_bits == b->vector_bits && a->unroll == b->unroll && a->prefetch == b->prefetch &&
           !a->ahead == !b->ahead && a->group == b->group && !a->chunk == !b->chunk && a->copy_x == b->copy_x &&
           a->tile_count == b->tile_count && memcmp(a->tiles, b->tiles, (size_t)a->tile_count * sizeof *a->tiles) == 0;
}

Test(codegen, no_tile_of_the_space_of_plans_spills_and_the_width_is_the_one_asked_for, .timeout = 600) {
    static ffn_plan plans[PLAN_GRID_MAX];
    static const char text[] = "d768-f3072-gelu-bias";
    ffn_spec spec;
    cr_assert_eq(ffn_spec_parse(text, &spec, NULL), FFN_OK);
    for (ffn_isa isa = FFN_ISA_PORTABLE + 1; isa < FFN_ISA_COUNT; isa++)
        for (ffn_n_class c = 0; c < FFN_N_CLASSES; c++) {
            const size_t count = plan_space_grid(&spec, isa, c, plans);
            for (size_t i = 0; i < count; i++) {
                size_t before = 0;
                while (!same_tiles(&plans[before], &plans[i]))
                    before++;
                if (before < i)
                    continue;
                char what[256] = "";
                ffn_plan_format(&plans[i], what, sizeof what, NULL);
                ffn_bytes code = emit_plan_of(&spec, &plans[i], FFNGEN_ASM);
                seen s = {.spec = text, .isa = isa, .n_class = c, .vector_bits = plans[i].vector_bits};
                cr_expect_gt(asm_loops(code.data, code.bytes, look, &s), 0);
                cr_expect_eq(s.spilled, 0, "%s: %d hot loops spill registers", what, s.spilled);
                cr_expect_eq(s.wrong_width, 0, "%s: %d hot loops use another vector width", what, s.wrong_width);
                code.release(code.data);
            }
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

/* ---- What a CPU can check of the control flow ---- */

typedef struct function {
    char name[96];
    bool global, pad, stores_x30, is_signed;
    int exits, authenticated; /* ways out, and those right before which the signature of x30 is checked */
} function;

/* As GNU assembly names it with and without the extension: both are the same no-operation on an older CPU. */
static bool is_either(const char *line, const char *name, const char *hint) {
    return strncmp(line, name, strlen(name)) == 0 || strncmp(line, hint, strlen(hint)) == 0;
}

/* A return, or a jump to another function that returns in this one's place. */
static bool is_exit(const char *instruction) {
    return strncmp(instruction, "ret", 3) == 0 ||
           ((strncmp(instruction, "jmp\t", 4) == 0 || strncmp(instruction, "b\t", 2) == 0) &&
            strstr(instruction, "\t.L") == NULL);
}

static int functions_of(const ffn_bytes *code, function *functions, int most) {
    int count = 0;
    char *text = strndup(code->data, code->bytes), *rest = NULL;
    cr_assert_not_null(text);
    bool first = false, authenticated = false;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        function *f = count > 0 ? &functions[count - 1] : NULL;
        char name[96];
        if (sscanf(line, "\t.type\t%95[^,]", name) == 1 &&
            strstr(line, "function") != NULL) { /* what follows is its code */
            char globl[128];
            cr_assert_lt(count, most);
            functions[count] = (function){.pad = false};
            snprintf(functions[count].name, sizeof functions[0].name, "%s", name);
            snprintf(globl, sizeof globl, "\t.globl\t%s\n", name);
            functions[count].global = memmem(code->data, code->bytes, globl, strlen(globl)) != NULL;
            first = true;
            count++;
        } else if (f != NULL && line[0] == '\t' && line[1] != '.' && line[1] != '/' && line[1] != '#') {
            const char *instruction = line + 1;
            if (first) {
                f->pad = is_either(instruction, "paciasp", "hint\t#25") || strncmp(instruction, "endbr64", 7) == 0 ||
                         is_either(instruction, "bti\tc", "hint\t#34");
            }
            first = false;
            f->is_signed |=
                is_either(instruction, "paciasp", "hint\t#25"); /* maybe after a way out that needs no frame */
            f->stores_x30 |= strncmp(instruction, "st", 2) == 0 && strstr(instruction, "x30") != NULL;
            f->exits += is_exit(instruction);
            f->authenticated += authenticated && is_exit(instruction);
            authenticated = is_either(instruction, "autiasp", "hint\t#29");
        }
    }
    free(text);
    return count;
}

static void check_functions(ffn_isa isa, const char *spec, ffn_n_class n_class) {
    static function functions[64];
    ffn_bytes code = emit(spec, isa, n_class, FFNGEN_ASM);
    const int count = functions_of(&code, functions, (int)(sizeof functions / sizeof *functions));
    int entries = 0, signing = 0;
    for (int i = 0; i < count; i++) {
        const function *f = &functions[i];
        entries += f->global;
        signing += f->is_signed;
        cr_expect(f->pad || !f->global, "%s %s: %s has no landing pad", spec, ffn_isa_name(isa), f->name);
        cr_expect_eq(f->is_signed, f->stores_x30, "%s %s: %s: x30 is signed where it is stored, and nowhere else", spec,
                     ffn_isa_name(isa), f->name);
        cr_expect_gt(f->exits, 0, "%s", f->name);
        cr_expect_eq(f->authenticated, f->is_signed ? f->exits : 0, "%s %s: %s", spec, ffn_isa_name(isa), f->name);
    }
    cr_expect_eq(entries, 4);
    cr_expect_eq(signing > 0, isa == FFN_ISA_NEON, "%s: %d functions sign x30", ffn_isa_name(isa), signing);
    code.release(code.data);
}

Test(codegen, entries_have_landing_pads_and_x30_is_signed_where_it_is_stored, .timeout = 120) {
    for (ffn_isa isa = FFN_ISA_PORTABLE + 1; isa < FFN_ISA_COUNT; isa++)
        for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
            check_functions(isa, specs[i], (ffn_n_class)(i % FFN_N_CLASSES));
}

/* The and of the features that the code works with: pr_data of the property, as the psABIs define it. */
static uint32_t noted_features(const ffn_bytes *object, uint32_t property) {
    const unsigned char *bytes = object->data;
    Elf64_Ehdr header;
    memcpy(&header, bytes, sizeof header);
    for (int i = 0; i < header.e_shnum; i++) {
        Elf64_Shdr section;
        memcpy(&section, bytes + header.e_shoff + (size_t)i * sizeof section, sizeof section);
        uint32_t words[8]; /* namesz, descsz, type, "GNU", property, its size, its value, padding */
        if (section.sh_type != SHT_NOTE || section.sh_size != sizeof words)
            continue;
        memcpy(words, bytes + section.sh_offset, sizeof words);
        if (words[2] == NT_GNU_PROPERTY_TYPE_0 && memcmp(&words[3], "GNU", 4) == 0 && words[4] == property)
            return words[6];
    }
    return 0;
}

Test(codegen, objects_say_that_landing_pads_and_returns_can_be_checked) {
    for (ffn_isa isa = FFN_ISA_PORTABLE + 1; isa < FFN_ISA_COUNT; isa++) {
        ffn_bytes object = emit("d64-f256-relu", isa, FFN_N_1, FFNGEN_OBJECT);
        bool arm = isa_row_of(isa)->arch == FFN_ARCH_AARCH64;
        /* GNU_PROPERTY_AARCH64_FEATURE_1_AND: BTI 1, PAC 2; GNU_PROPERTY_X86_FEATURE_1_AND: IBT 1, SHSTK 2 */
        cr_expect_eq(noted_features(&object, arm ? 0xc0000000 : 0xc0000002), 3, "%s", ffn_isa_name(isa));
        object.release(object.data);
    }
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

/* What an engine that serves every n keeps in its caches: the longest presets. */
Test(codegen, code_and_constants_of_all_classes_together_stay_under_64_kib, .timeout = 120) {
    static const char *const longest[] = {"d1024-f4096-gelu-bias", "d4096-f14336-swiglu", "d64-f256-relu-bias"};
    for (ffn_isa isa = FFN_ISA_PORTABLE + 1; isa < FFN_ISA_COUNT; isa++)
        for (size_t i = 0; i < sizeof longest / sizeof *longest; i++) {
            uint64_t together = 0;
            for (ffn_n_class c = 0; c < FFN_N_CLASSES; c++) {
                ffn_bytes image = emit(longest[i], isa, c, FFNGEN_IMAGE);
                image_header header;
                memcpy(&header, image.data, sizeof header);
                together += header.text_bytes + header.rodata_bytes;
                image.release(image.data);
            }
            cr_expect_lt(together, 64 * 1024, "%s %s: %llu bytes", longest[i], ffn_isa_name(isa),
                         (unsigned long long)together);
        }
}
