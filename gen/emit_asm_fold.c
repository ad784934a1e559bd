/* emit_asm_fold.c: the items of all classes of a spec -> a unit in which equal ones stand once (emit_asm.h)
 *
 * Bottom-up: an item is compared under the names its callees and constants have in the unit, so that sweeps that call
 * equal tiles are equal as well. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diag.h"
#include "emit_asm.h"
#include "image.h"

/* One text on its way into the unit. */
typedef struct fold {
    emit_folded *to;
    const emit_source *source;
    const emit_entry *entries;
    size_t *placed; /* by item: its number in the unit + 1; BEING_PLACED, or 0 before */
    ffn_diag *diag;
} fold;

#define BEING_PLACED SIZE_MAX

static bool same(emit_slice a, emit_slice b) {
    return a.bytes == b.bytes && (a.bytes == 0 || !memcmp(a.at, b.at, a.bytes));
}

static ffn_status no_memory(ffn_diag *diag) {
    return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for the assembly of a unit");
}

/* Room for one more; NULL if there is none. */
static void *grown(void *array, size_t count, size_t size) {
    if (count & (count - 1)) /* full at every power of two */
        return array;
    return realloc(array, (count ? 2 * count : 1) * size);
}

/* ---- Constants ---- */

static ffn_status place_constant(fold *f, const emit_item *item, size_t *placed) {
    emit_folded *to = f->to;
    const char *bytes = f->source->data.data + item->first;
    for (size_t i = 0; i < to->constant_count; i++) {
        emit_constant *c = &to->constants[i];
        if (c->count == item->count && !memcmp(c->bytes, bytes, c->count)) {
            c->align = c->align > item->align ? c->align : item->align;
            *placed = i + 1;
            return FFN_OK;
        }
    }
    emit_constant *room = grown(to->constants, to->constant_count, sizeof *room);
    if (!room)
        return no_memory(f->diag);
    to->constants = room;
    emit_constant *made = &room[to->constant_count];
    *made = (emit_constant){.bytes = malloc(item->count), .count = item->count, .align = item->align};
    if (!made->bytes)
        return no_memory(f->diag);
    memcpy(made->bytes, bytes, item->count);
    *placed = ++to->constant_count;
    return FFN_OK;
}

/* ---- Functions ---- */

static ffn_status place(fold *f, size_t item);

static bool is_name_start(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.';
}

static bool is_name(char c) {
    return is_name_start(c) || (c >= '0' && c <= '9');
}

/* Labels inside a function are numbers. Those of noughts and ones alone are left out: clang 19 reads "10b" as a binary
 * number under -masm=intel. */
enum { FIRST_LABEL = 2 };

static bool looks_binary(int label) {
    for (; label > 0; label /= 10)
        if (label % 10 > 1)
            return false;
    return true;
}

static int next_label(int label) {
    do
        label++;
    while (looks_binary(label));
    return label;
}

/* A name in the operands of a function -> what it is called in the unit. False if nothing in the text has it. */
static ffn_status put_symbol(fold *f, const emit_item *function, emit_slice name, text *to, bool *found) {
    int label = FIRST_LABEL;
    *found = true;
    for (size_t i = function->first; i < function->first + function->count; i++) {
        const emit_slice line = f->source->lines[i];
        if (line.at[line.bytes - 1] != ':')
            continue;
        if (same(name, (emit_slice){line.at, line.bytes - 1})) {
            text_print(to, "%d%c", label, line.at < name.at ? 'b' : 'f');
            return FFN_OK;
        }
        label = next_label(label);
    }
    for (size_t i = 0; i < f->source->item_count; i++) {
        const emit_item *item = &f->source->items[i];
        if (!same(name, item->name))
            continue;
        ffn_status status = place(f, i);
        if (status)
            return status;
        if (item->is_function)
            text_put(to, f->to->functions[f->placed[i] - 1].name);
        else
            text_print(to, ".L%s_c%zu", f->to->prefix, f->placed[i] - 1);
        return FFN_OK;
    }
    *found = false;
    return FFN_OK;
}

/* Operands of AArch64 name registers, shifts and prefetches without a mark; what must be a symbol is the last operand
 * of these, and what follows a ":lo12:". */
static bool goes_to_symbol(emit_slice mnemonic) {
    static const char *const names[] = {"b", "bl", "cbz", "cbnz", "tbz", "tbnz", "adr", "adrp"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (emit_slice_is(mnemonic, names[i]))
            return true;
    return mnemonic.bytes > 2 && mnemonic.at[0] == 'b' && mnemonic.at[1] == '.';
}

/* Operands, compact, under the names of the unit. */
static ffn_status put_operands(fold *f, const emit_item *function, emit_slice mnemonic, emit_slice operands, text *to) {
    const bool x86 = f->to->arch == FFN_ARCH_X86_64, branches = !x86 && goes_to_symbol(mnemonic);
    const char *at = operands.at, *end = at + operands.bytes;
    const char *last = end;
    while (last > at && last[-1] != ',' && last[-1] != ' ')
        last--;
    bool braces = false, relocated = false;
    while (at < end) {
        const char *from = at;
        if (*at == ' ' || *at == '\t') { /* one between words, none after a comma */
            while (at < end && (*at == ' ' || *at == '\t'))
                at++;
            if (from[-1] != ',')
                text_put(to, " ");
            continue;
        }
        if (!is_name(*at)) {
            braces = *at == '{' || (braces && *at != '}');
            if (x86 && *at == '%')
                at++;
            else if (!x86 && *at == ':') {
                const char *close = memchr(at + 1, ':', (size_t)(end - at - 1));
                at = close ? close : at;
                relocated = true;
                text_add(to, from, (size_t)(at + 1 - from));
                at++;
                continue;
            }
            const bool is_register = at != from;
            at += !is_register;
            while (is_register && at < end && is_name(*at))
                at++;
            text_add(to, from, (size_t)(at - from));
            continue;
        }
        while (at < end && is_name(*at))
            at++;
        const emit_slice word = {from, (size_t)(at - from)};
        const bool local = word.bytes > 2 && word.at[0] == '.' && word.at[1] == 'L';
        const bool symbol =
            is_name_start(*from) && !braces && (x86 || local || relocated || (branches && from == last));
        relocated = false;
        if (!symbol) {
            text_add(to, word.at, word.bytes);
            continue;
        }
        bool found;
        ffn_status status = put_symbol(f, function, word, to, &found);
        if (!status && !found)
            status = diag_fail(f->diag, FFN_COMPILE_FAILED,
                               "LLVM's assembly: '%.*s' refers to %.*s, which is not in the kernel",
                               (int)(end - mnemonic.at), mnemonic.at, (int)word.bytes, word.at);
        if (status)
            return status;
    }
    return FFN_OK;
}

static ffn_status put_body(fold *f, const emit_item *function, text *to) {
    int label = FIRST_LABEL;
    for (size_t i = function->first; i < function->first + function->count; i++) {
        const emit_slice line = f->source->lines[i];
        if (line.at[line.bytes - 1] == ':') {
            text_print(to, "%d:\n", label);
            label = next_label(label);
            continue;
        }
        size_t length = 0;
        while (length < line.bytes && line.at[length] != ' ' && line.at[length] != '\t')
            length++;
        text_add(to, line.at, length);
        const emit_slice mnemonic = {line.at, length};
        emit_slice operands = {line.at + length, line.bytes - length};
        while (operands.bytes && (*operands.at == ' ' || *operands.at == '\t'))
            operands = (emit_slice){operands.at + 1, operands.bytes - 1};
        if (operands.bytes) {
            text_put(to, " ");
            ffn_status status = put_operands(f, function, mnemonic, operands, to);
            if (status)
                return status;
        }
        text_put(to, "\n");
    }
    return to->failed ? no_memory(f->diag) : FFN_OK;
}

static bool is_taken(const emit_folded *to, const char *name) {
    for (size_t i = 0; i < to->function_count; i++)
        if (!strcmp(to->functions[i].name, name))
            return true;
    return false;
}

/* <prefix>_<LLVM's name>, with a number behind it where another function of the unit has that name. */
static char *new_name(const emit_folded *to, emit_slice name) {
    const size_t room = strlen(to->prefix) + name.bytes + 16;
    char *made = malloc(room);
    if (!made)
        return NULL;
    snprintf(made, room, "%s_%.*s", to->prefix, (int)name.bytes, name.at);
    const size_t end = strlen(made);
    for (int number = 2; is_taken(to, made); number++)
        snprintf(made + end, room - end, "_%d", number);
    return made;
}

static const char *entry_name(const fold *f, emit_slice name) {
    for (int e = 0; e < IMAGE_ENTRIES; e++)
        if (emit_slice_is(name, f->entries[e].from))
            return f->entries[e].to;
    return NULL;
}

static ffn_status place_function(fold *f, const emit_item *item, size_t *placed) {
    const char *entry = item->is_entry ? entry_name(f, item->name) : NULL;
    if (item->is_entry && !entry)
        return diag_fail(f->diag, FFN_COMPILE_FAILED, "LLVM's assembly: %.*s is global and no entry of a kernel",
                         (int)item->name.bytes, item->name.at);
    emit_function made = {.align = item->aligned};
    ffn_status status = put_body(f, item, &made.body);
    if (status) {
        text_free(&made.body);
        return status;
    }
    emit_folded *to = f->to;
    size_t i = 0;
    while (i < to->function_count &&
           !(same(to->functions[i].align, made.align) && to->functions[i].body.bytes == made.body.bytes &&
             !memcmp(to->functions[i].body.data, made.body.data, made.body.bytes)))
        i++;
    if (i < to->function_count) {
        text_free(&made.body);
    } else {
        emit_function *room = grown(to->functions, i, sizeof *room);
        if (room)
            to->functions = room;
        made.name = room ? entry ? strdup(entry) : new_name(to, item->name) : NULL;
        if (!made.name) {
            text_free(&made.body);
            return no_memory(f->diag);
        }
        to->functions[to->function_count++] = made;
    }
    if (entry) {
        emit_function *function = &to->functions[i];
        if (function->entry_count == EMIT_ENTRIES_MAX)
            return diag_fail(f->diag, FFN_COMPILE_FAILED, "LLVM's assembly: more entries than a kernel has");
        function->entries[function->entry_count++] = entry;
    }
    *placed = i + 1;
    return FFN_OK;
}

static ffn_status place(fold *f, size_t item) {
    size_t *placed = &f->placed[item];
    const emit_item *of = &f->source->items[item];
    if (*placed == BEING_PLACED)
        return diag_fail(f->diag, FFN_COMPILE_FAILED, "LLVM's assembly: %.*s calls itself", (int)of->name.bytes,
                         of->name.at);
    if (*placed)
        return FFN_OK;
    *placed = BEING_PLACED;
    return of->is_function ? place_function(f, of, placed) : place_constant(f, of, placed);
}

ffn_status emit_fold(emit_folded *to, emit_slice assembly, const emit_entry *entries, ffn_diag *diag) {
    emit_source source;
    ffn_status status = emit_source_read(assembly, to->arch, &source, diag);
    fold f = {.to = to, .source = &source, .entries = entries, .diag = diag};
    if (!status) {
        f.placed = calloc(source.item_count + 1, sizeof *f.placed);
        status = f.placed ? FFN_OK : no_memory(diag);
    }
    for (size_t i = 0; i < source.item_count && !status; i++)
        if (source.items[i].is_function)
            status = place(&f, i);
    for (int e = 0; e < IMAGE_ENTRIES && !status; e++) {
        bool there = false;
        for (size_t i = 0; i < source.item_count; i++)
            there |= source.items[i].is_entry && emit_slice_is(source.items[i].name, entries[e].from);
        if (!there)
            status = diag_fail(diag, FFN_COMPILE_FAILED, "LLVM's assembly: the entry %s is missing", entries[e].from);
    }
    if (!status) {
        to->features = to->any ? to->features & source.features : source.features;
        to->any = true;
    }
    free(f.placed);
    emit_source_free(&source);
    return status;
}

void emit_folded_free(emit_folded *unit) {
    for (size_t i = 0; i < unit->function_count; i++) {
        free(unit->functions[i].name);
        text_free(&unit->functions[i].body);
        text_free(&unit->functions[i].arguments);
    }
    for (size_t i = 0; i < unit->macro_count; i++)
        text_free(&unit->macros[i].body);
    for (size_t i = 0; i < unit->constant_count; i++)
        free(unit->constants[i].bytes);
    free(unit->functions);
    free(unit->constants);
    free(unit->macros);
    *unit = (emit_folded){0};
}
