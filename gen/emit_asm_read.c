/* emit_asm_read.c: LLVM's assembly text -> functions and constants (emit_asm.h) */
#include <stdlib.h>
#include <string.h>

#include "diag.h"
#include "emit_asm.h"

typedef enum place { IN_TEXT, IN_CONSTANTS, IN_PROPERTIES, IN_NOTHING } place;

typedef struct reader {
    emit_source *source;
    ffn_arch arch;
    place place;
    size_t entry_bytes;   /* of the section, where all its constants have one size; 0: any */
    emit_item *item;      /* that lines or data go to; NULL: none */
    emit_slice aligned;   /* the alignment that waits for the next item, */
    int32_t align;        /* and its exponent */
    emit_slice global;    /* the name that was declared global last */
    text properties;      /* the property note */
    const emit_slice *at; /* the statement, for messages */
    ffn_diag *diag;
} reader;

/* ---- Slices ---- */

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

static emit_slice trimmed(const char *from, const char *to) {
    while (from < to && is_blank(*from))
        from++;
    while (to > from && is_blank(to[-1]))
        to--;
    return (emit_slice){from, (size_t)(to - from)};
}

bool emit_slice_is(emit_slice slice, const char *word) {
    return slice.bytes == strlen(word) && !memcmp(slice.at, word, slice.bytes);
}

static bool starts(emit_slice slice, const char *word) {
    return slice.bytes >= strlen(word) && !memcmp(slice.at, word, strlen(word));
}

emit_slice emit_slice_operand(emit_slice operands, int n) {
    const char *from = operands.at, *end = operands.at + operands.bytes;
    for (const char *at = from;; at++) {
        if (at < end && *at != ',')
            continue;
        if (n-- == 0)
            return trimmed(from, at);
        if (at == end)
            return (emit_slice){end, 0};
        from = at + 1;
    }
}

/* ---- Data ---- */

static ffn_status refuse(const reader *r, const char *why) {
    return diag_fail(r->diag, FFN_COMPILE_FAILED, "LLVM's assembly has a statement that %s: %.*s", why,
                     (int)(r->at->bytes < 120 ? r->at->bytes : 120), r->at->at);
}

/* Decimal or hexadecimal, maybe negative; nothing that names a symbol. */
static bool number_of(emit_slice word, uint64_t *value) {
    char digits[32];
    if (word.bytes == 0 || word.bytes >= sizeof digits)
        return false;
    memcpy(digits, word.at, word.bytes);
    digits[word.bytes] = '\0';
    char *end;
    *value = strtoull(digits, &end, 0);
    return *end == '\0';
}

/* Every datum of these is little-endian. */
static bool put_numbers(text *to, emit_slice operands, size_t size) {
    emit_slice word = emit_slice_operand(operands, 0);
    for (int i = 0; word.bytes; word = emit_slice_operand(operands, ++i)) {
        uint64_t value;
        if (!number_of(word, &value))
            return false;
        char bytes[8];
        for (size_t b = 0; b < sizeof bytes; b++)
            bytes[b] = (char)(unsigned char)(value >> (8 * b));
        text_add(to, bytes, size);
    }
    return true;
}

static bool put_fill(text *to, emit_slice operands) {
    uint64_t count, value = 0;
    emit_slice fill = emit_slice_operand(operands, 1);
    if (!number_of(emit_slice_operand(operands, 0), &count) || count > 1 << 20 ||
        (fill.bytes && !number_of(fill, &value)))
        return false;
    const char byte = (char)(unsigned char)value;
    for (uint64_t i = 0; i < count; i++)
        text_add(to, &byte, 1);
    return true;
}

static bool put_string(text *to, emit_slice quoted) {
    static const char escapes[][2] = {{'b', '\b'}, {'f', '\f'}, {'n', '\n'}, {'r', '\r'},
                                      {'t', '\t'}, {'"', '"'},  {'\\', '\\'}};
    if (quoted.bytes < 2 || quoted.at[0] != '"' || quoted.at[quoted.bytes - 1] != '"')
        return false;
    const char *at = quoted.at + 1, *end = quoted.at + quoted.bytes - 1;
    while (at < end) {
        char byte = *at++;
        if (byte == '\\' && at < end && *at >= '0' && *at <= '7') {
            int octal = 0;
            for (int digits = 0; digits < 3 && at < end && *at >= '0' && *at <= '7'; digits++)
                octal = octal * 8 + (*at++ - '0');
            byte = (char)(unsigned char)octal;
        } else if (byte == '\\') {
            size_t i = 0;
            while (i < sizeof escapes / sizeof *escapes && (at == end || escapes[i][0] != *at))
                i++;
            if (i == sizeof escapes / sizeof *escapes)
                return false;
            byte = escapes[i][1];
            at++;
        }
        text_add(to, &byte, 1);
    }
    return true;
}

/* ---- Directives ---- */

static ffn_status on_data(reader *r, emit_slice name, emit_slice operands) {
    text *to = r->place == IN_PROPERTIES ? &r->properties : &r->source->data;
    if (r->place == IN_NOTHING)
        return FFN_OK;
    if (r->place == IN_TEXT || (r->place == IN_CONSTANTS && !r->item))
        return refuse(r, "puts data where there is no constant");
    const size_t before = to->bytes, word = r->arch == FFN_ARCH_X86_64 ? 2 : 4;
    const struct {
        const char *name;
        size_t size;
    } sizes[] = {{".byte", 1}, {".short", 2}, {".hword", 2}, {".word", word},
                 {".long", 4}, {".quad", 8},  {".xword", 8}};
    bool put = false;
    if (emit_slice_is(name, ".zero")) {
        put = put_fill(to, operands);
    } else if (emit_slice_is(name, ".ascii") || emit_slice_is(name, ".asciz")) {
        put = put_string(to, operands);
        if (name.at[name.bytes - 1] == 'z')
            text_add(to, "", 1);
    } else {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            if (emit_slice_is(name, sizes[i].name))
                put = put_numbers(to, operands, sizes[i].size);
    }
    if (!put)
        return refuse(r, "is not understood");
    if (r->place == IN_CONSTANTS)
        r->item->count += to->bytes - before;
    return FFN_OK;
}

static void enter(reader *r, place into) {
    r->place = into;
    r->item = NULL;
    r->align = 0;
    r->aligned = (emit_slice){NULL, 0};
    r->entry_bytes = 0;
}

static ffn_status on_text(reader *r, emit_slice name, emit_slice operands) {
    (void)name;
    if (operands.bytes)
        return refuse(r, "is not understood");
    enter(r, IN_TEXT);
    return FFN_OK;
}

static ffn_status on_section(reader *r, emit_slice name, emit_slice operands) {
    (void)name;
    emit_slice section = emit_slice_operand(operands, 0), flags = emit_slice_operand(operands, 1);
    if (section.bytes > 2 && section.at[0] == '"')
        section = (emit_slice){section.at + 1, section.bytes - 2};
    uint64_t size = 0;
    if (emit_slice_is(section, ".note.GNU-stack") && emit_slice_is(flags, "\"\"")) {
        enter(r, IN_NOTHING);
    } else if (emit_slice_is(section, ".note.gnu.property")) {
        enter(r, IN_PROPERTIES);
    } else if (emit_slice_is(section, ".rodata") && emit_slice_is(flags, "\"a\"")) {
        enter(r, IN_CONSTANTS);
    } else if (starts(section, ".rodata.cst") && emit_slice_is(flags, "\"aM\"") &&
               number_of(emit_slice_operand(operands, 3), &size) && size && size <= 64) {
        enter(r, IN_CONSTANTS);
        r->entry_bytes = (size_t)size;
    } else {
        return refuse(r, "opens a section that a kernel must not have");
    }
    return FFN_OK;
}

static ffn_status on_align(reader *r, emit_slice name, emit_slice operands) {
    (void)name;
    uint64_t exponent;
    if (!number_of(emit_slice_operand(operands, 0), &exponent) || exponent > 6)
        return refuse(r, "is not understood");
    if (r->place == IN_TEXT && r->item) {
        r->source->lines[r->source->line_count++] = *r->at;
        r->item->count++;
        return FFN_OK;
    }
    r->align = (int32_t)exponent;
    r->aligned = *r->at;
    return FFN_OK;
}

static ffn_status on_global(reader *r, emit_slice name, emit_slice operands) {
    (void)name;
    r->global = operands;
    return FFN_OK;
}

/* LLVM ends a function with its size. */
static ffn_status on_size(reader *r, emit_slice name, emit_slice operands) {
    (void)name;
    (void)operands;
    if (r->place == IN_TEXT)
        r->item = NULL;
    return FFN_OK;
}

static ffn_status on_type(reader *r, emit_slice name, emit_slice operands) {
    (void)name;
    emit_slice type = emit_slice_operand(operands, 1);
    bool known = emit_slice_is(type, "@function") || emit_slice_is(type, "@object") ||
                 emit_slice_is(type, "%function") || emit_slice_is(type, "%object");
    return known ? FFN_OK : refuse(r, "is not understood");
}

/* About the file: that of the user's compiler says its own. */
static ffn_status on_dropped(reader *r, emit_slice name, emit_slice operands) {
    (void)r;
    (void)name;
    (void)operands;
    return FFN_OK;
}

static const struct {
    const char *name;
    ffn_status (*act)(reader *r, emit_slice name, emit_slice operands);
} directives[] = {
    {".text", on_text},    {".section", on_section}, {".p2align", on_align},   {".globl", on_global},
    {".size", on_size},    {".type", on_type},       {".byte", on_data},       {".short", on_data},
    {".hword", on_data},   {".word", on_data},       {".long", on_data},       {".quad", on_data},
    {".xword", on_data},   {".zero", on_data},       {".ascii", on_data},      {".asciz", on_data},
    {".file", on_dropped}, {".ident", on_dropped},   {".addrsig", on_dropped}, {".addrsig_sym", on_dropped},
};

/* ---- Lines ---- */

static ffn_status on_label(reader *r, emit_slice label) {
    emit_source *s = r->source;
    const emit_slice name = {label.at, label.bytes - 1};
    if (r->place == IN_PROPERTIES || r->place == IN_NOTHING)
        return FFN_OK;
    if (r->place == IN_TEXT && starts(name, ".L")) {
        if (r->item) { /* else an end, which nothing but a size asks for */
            s->lines[s->line_count++] = label;
            r->item->count++;
        }
        return FFN_OK;
    }
    if (r->place == IN_TEXT && r->item)
        return refuse(r, "stands inside a function");
    r->item = &s->items[s->item_count++];
    *r->item = (emit_item){.name = name, .is_function = r->place == IN_TEXT, .align = r->align};
    if (r->item->is_function) {
        r->item->is_entry = r->global.bytes == name.bytes && !memcmp(r->global.at, name.at, name.bytes);
        r->item->aligned = r->aligned;
        r->item->first = s->line_count;
    } else {
        r->item->first = s->data.bytes;
    }
    if (!r->entry_bytes) { /* where all are of one size, the first one's alignment holds for all */
        r->align = 0;
        r->aligned = (emit_slice){NULL, 0};
    }
    return FFN_OK;
}

static ffn_status on_line(reader *r, emit_slice line) {
    r->at = &line;
    if (line.at[line.bytes - 1] == ':')
        return on_label(r, line);
    size_t length = 0;
    while (length < line.bytes && !is_blank(line.at[length]))
        length++;
    const emit_slice name = {line.at, length};
    if (line.at[0] == '.') {
        const emit_slice operands = trimmed(line.at + length, line.at + line.bytes);
        for (size_t i = 0; i < sizeof directives / sizeof *directives; i++)
            if (emit_slice_is(name, directives[i].name))
                return directives[i].act(r, name, operands);
        return refuse(r, "is not one kernels may have");
    }
    if (r->place != IN_TEXT || !r->item)
        return refuse(r, "stands in no function");
    r->source->lines[r->source->line_count++] = line;
    r->item->count++;
    return FFN_OK;
}

/* The line without blanks around it and without a comment. */
static emit_slice statement_of(const char *from, const char *to, ffn_arch arch) {
    bool quoted = false;
    for (const char *at = from; at < to; at++) {
        quoted ^= *at == '"' && (at == from || at[-1] != '\\');
        const bool slashes = *at == '/' && at + 1 < to && at[1] == '/';
        if (!quoted && (arch == FFN_ARCH_X86_64 ? *at == '#' : slashes))
            to = at;
    }
    return trimmed(from, to);
}

/* An item without anything in it would share its place with the next one, which folding may move. */
static ffn_status check_items(const reader *r) {
    for (size_t i = 0; i < r->source->item_count; i++) {
        const emit_item *item = &r->source->items[i];
        if (item->count == 0)
            return diag_fail(r->diag, FFN_COMPILE_FAILED, "LLVM's assembly: nothing stands under %.*s",
                             (int)item->name.bytes, item->name.at);
    }
    return FFN_OK;
}

ffn_status emit_source_read(emit_slice assembly, ffn_arch arch, emit_source *source, ffn_diag *diag) {
    const char *at = assembly.at, *end = at + assembly.bytes;
    size_t lines = 1;
    for (const char *c = at; c < end; c++)
        lines += *c == '\n';
    *source =
        (emit_source){.items = calloc(lines, sizeof *source->items), .lines = calloc(lines, sizeof *source->lines)};
    if (!source->items || !source->lines)
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for the lines of LLVM's assembly");
    reader r = {.source = source, .arch = arch, .diag = diag};
    ffn_status status = FFN_OK;
    while (at < end && !status) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop ? stop : end;
        const emit_slice line = statement_of(at, stop, arch);
        if (line.bytes)
            status = on_line(&r, line);
        at = stop + 1;
    }
    status = status ? status : check_items(&r);
    if (!status && (source->data.failed || r.properties.failed))
        status = diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for the constants of LLVM's assembly");
    if (!status && r.properties.bytes >= 28) /* two sizes, a type, "GNU"; a property's type, its size, its bits */
        memcpy(&source->features, r.properties.data + 24, sizeof source->features);
    text_free(&r.properties);
    return status;
}

void emit_source_free(emit_source *source) {
    free(source->items);
    free(source->lines);
    text_free(&source->data);
    *source = (emit_source){0};
}
