/* emit_unit.c: a spec on an ISA -> assembly text with the kernels of all n classes (emit.h)
 *
 *     .ifndef .L<unit>                      a second copy in one file is passed over
 *     .pushsection .rodata.<unit>, group    constants, those with the largest alignment first
 *     .pushsection .text.<unit>, group      tiles first, entries last
 *     .endif
 *
 * Copies in several files are one at the end: entries are weak and hidden, in a group that the linker keeps once. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "diag.h"
#include "emit_asm.h"
#include "ffngen.h"
#include "image.h"
#include "link.h"
#include "symbol.h"

/* ---- Folded items -> text ---- */

static void write_constant(const emit_folded *unit, size_t at, text *to) {
    const emit_constant *c = &unit->constants[at];
    text_print(to, ".L%s_c%zu:\n", unit->prefix, at);
    bool zero = true;
    for (size_t i = 0; i < c->count; i++)
        zero = zero && !c->bytes[i];
    if (zero) {
        text_print(to, ".zero %zu\n", c->count);
        return;
    }
    const size_t size = c->count % 4 ? 1 : 4;
    for (size_t i = 0; i < c->count; i += size) {
        text_put(to, i ? "," : size == 4 ? ".long " : ".byte ");
        if (size == 1) {
            text_print(to, "%d", c->bytes[i]);
        } else {
            uint32_t word;
            memcpy(&word, c->bytes + i, sizeof word);
            text_print(to, "0x%x", (unsigned)word);
        }
    }
    text_put(to, "\n");
}

static void write_constants(const emit_folded *unit, text *to) {
    text_print(to, ".pushsection .rodata.%s,\"aG\",@progbits,%s,comdat\n", unit->prefix, unit->prefix);
    for (int32_t align = 6; align >= 0; align--) {
        bool first = true;
        for (size_t i = 0; i < unit->constant_count; i++) {
            const emit_constant *c = &unit->constants[i];
            if (c->align != align)
                continue;
            const bool odd = c->count % ((size_t)1 << align); /* the one behind it would not lie well */
            if (first)
                text_print(to, ".p2align %d\n", align);
            write_constant(unit, i, to);
            first = odd;
        }
    }
    text_put(to, ".popsection\n");
}

/* A statement without the blanks that nobody needs: "\t.p2align\t5, , 16" -> ".p2align 5,,16". */
static void write_compact(emit_slice statement, text *to) {
    bool blank = false, comma = false;
    for (size_t i = 0; i < statement.bytes; i++) {
        const char c = statement.at[i];
        if (c == ' ' || c == '\t') {
            blank = true;
            continue;
        }
        if (blank && !comma && c != ',')
            text_put(to, " ");
        text_add(to, &c, 1);
        blank = false;
        comma = c == ',';
    }
    if (statement.bytes)
        text_put(to, "\n");
}

/* The text of a macro stands in front of the first function that is it. */
static void write_body(const emit_folded *unit, const emit_function *f, text *to) {
    if (f->macro)
        text_print(to, "%s_m%zu%.*s\n", unit->prefix, f->macro, (int)f->arguments.bytes, f->arguments.data);
    else
        text_add(to, f->body.data, f->body.bytes);
}

static void write_macro(const emit_folded *unit, size_t number, text *to) {
    const emit_macro *m = &unit->macros[number - 1];
    text_print(to, ".macro %s_m%zu", unit->prefix, number);
    for (size_t p = 0; p < m->parameter_count; p++)
        text_print(to, "%c%c", p ? ',' : ' ', 'a' + (int)p);
    text_put(to, "\n");
    text_add(to, m->body.data, m->body.bytes);
    text_put(to, ".endm\n");
}

static void write_symbol(const char *name, text *to) {
    text_print(to, ".type %s,@function\n%s:\n", name, name);
}

static void write_function(const emit_folded *unit, const emit_function *f, text *to) {
    const bool inner = !f->entry_count || strcmp(f->name, f->entries[0]) != 0;
    write_compact(f->align, to);
    for (int32_t e = 0; e < f->entry_count; e++) {
        text_print(to, ".weak %s\n.hidden %s\n", f->entries[e], f->entries[e]);
        write_symbol(f->entries[e], to);
    }
    if (inner)
        write_symbol(f->name, to);
    write_body(unit, f, to);
    for (int32_t e = 0; e < f->entry_count; e++)
        text_print(to, ".size %s,.-%s\n", f->entries[e], f->entries[e]);
    if (inner)
        text_print(to, ".size %s,.-%s\n", f->name, f->name);
}

void emit_folded_write(const emit_folded *unit, text *to) {
    text_print(to, ".ifndef .L%s\n.set .L%s,0\n", unit->prefix, unit->prefix);
    if (unit->constant_count)
        write_constants(unit, to);
    text_print(to, ".pushsection .text.%s,\"axG\",@progbits,%s,comdat\n", unit->prefix, unit->prefix);
    size_t macros = 0; /* that stand already: they are met in their order */
    for (size_t i = 0; i < unit->function_count; i++) {
        if (unit->functions[i].macro > macros)
            write_macro(unit, ++macros, to);
        write_function(unit, &unit->functions[i], to);
    }
    for (size_t m = 1; m <= macros; m++)
        text_print(to, ".purgem %s_m%zu\n", unit->prefix, m);
    text_put(to, ".popsection\n.endif\n");
}

/* ---- Spec and ISA -> unit ---- */

void emit_unit_name(const emit_kernel *kernel, ffn_isa isa, char name[EMIT_SYMBOL_BYTES]) {
    text all = {.data = NULL};
    char plan[256] = "", spec[FFN_SPEC_TEXT_BYTES] = "";
    ffn_spec_format(&kernel->spec, spec, sizeof spec, NULL);
    text_print(&all, "%s %016" PRIx64 " %s", spec, link_generator_hash(), ffngen_llvm_version());
    for (int c = 0; c < FFN_N_CLASSES; c++) {
        ffn_plan_format(&kernel->plans[isa][c], plan, sizeof plan, NULL);
        text_print(&all, " %s", plan);
    }
    const unsigned id = (unsigned)XXH3_64bits(all.data, all.bytes); /* without memory one that nothing else gives */
    text_free(&all);
    snprintf(name, EMIT_SYMBOL_BYTES, "%s_%s_%08x", kernel->symbol, ffn_isa_name(isa), id);
}

typedef struct class_names {
    char from[IMAGE_ENTRIES][SYMBOL_BYTES], to[IMAGE_ENTRIES][EMIT_SYMBOL_BYTES + SYMBOL_BYTES];
} class_names;

/* The ends of LLVM's names, "_n17_fused", are those of ours. */
static void name_entries(const emit_kernel *kernel, const ffn_plan *plan, const char *prefix, class_names *names) {
    for (int e = 0; e < IMAGE_ENTRIES; e++) {
        symbol_name(&kernel->spec, plan, e, names->from[e]);
        const char *n_class = names->from[e] + strlen(names->from[e]) - strlen(symbol_endings[e]);
        while (*n_class != '_' || n_class[1] != 'n')
            n_class--;
        snprintf(names->to[e], sizeof names->to[e], "%s%s", prefix, n_class);
    }
}

static ffn_status fold_class(const emit_kernel *kernel, const ffn_plan *plan, class_names *names, ffn_bytes *assembly,
                             emit_folded *unit, ffn_diag *diag) {
    name_entries(kernel, plan, unit->prefix, names);
    emit_entry entries[IMAGE_ENTRIES];
    for (int e = 0; e < IMAGE_ENTRIES; e++)
        entries[e] = (emit_entry){names->from[e], names->to[e]};
    ffn_status status = ffngen_emit(&kernel->spec, plan, FFNGEN_ASM, assembly, diag);
    return status ? status : emit_fold(unit, (emit_slice){assembly->data, assembly->bytes}, entries, diag);
}

ffn_status emit_unit_bare(const emit_kernel *kernel, ffn_isa isa, text *to, uint32_t *features, ffn_diag *diag) {
    const isa_row *row = isa_row_of(isa);
    if (!row)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "no assembly is generated for the ISA %s", ffn_isa_name(isa));
    char prefix[EMIT_SYMBOL_BYTES];
    emit_unit_name(kernel, isa, prefix);
    emit_folded unit = {.prefix = prefix, .arch = row->arch};
    ffn_bytes assembly[FFN_N_CLASSES] = {{.data = NULL}};
    class_names *names = malloc(FFN_N_CLASSES * sizeof *names);
    ffn_status status = names ? FFN_OK : diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for the names of kernels");
    for (int c = 0; c < FFN_N_CLASSES && !status; c++)
        status = fold_class(kernel, &kernel->plans[isa][c], &names[c], &assembly[c], &unit, diag);
    if (!status && !emit_fold_macros(&unit))
        status = diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for the assembly of a unit");
    if (!status) {
        emit_folded_write(&unit, to);
        *features &= unit.features;
    }
    emit_folded_free(&unit);
    for (int c = 0; c < FFN_N_CLASSES; c++)
        free(assembly[c].data);
    free(names);
    return status;
}

/* gcc -masm=intel assembles the whole file in Intel syntax, where "rax" is the register and not this symbol. Asked once
 * a file, of whichever header comes first; a weak reference leaves nothing behind. */
static void write_dialect_probe(const emit_kernel *kernel, ffn_isa isa, text *to) {
    char unit[EMIT_SYMBOL_BYTES];
    emit_unit_name(kernel, isa, unit);
    text_print(to,
               ".ifndef .Lffngen_intel\n.weakref rax,%s_n1%s\n.set .Lffngen_probe,rax\n.ifdef .Lffngen_probe\n"
               ".set .Lffngen_intel,0\n.else\n.set .Lffngen_intel,1\n.endif\n.endif\n.att_syntax prefix\n",
               unit, symbol_endings[IMAGE_FUSED]);
}

ffn_status emit_unit(const emit_kernel *kernel, ffn_isa isa, text *to, ffn_diag *diag) {
    const isa_row *row = isa_row_of(isa);
    const bool x86 = row && row->arch == FFN_ARCH_X86_64;
    uint32_t features = UINT32_MAX;
    if (x86)
        write_dialect_probe(kernel, isa, to);
    ffn_status status = emit_unit_bare(kernel, isa, to, &features, diag);
    if (x86)
        text_put(to, ".if .Lffngen_intel\n.intel_syntax noprefix\n.endif\n");
    return status;
}
