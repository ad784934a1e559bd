/* emit_template.c: skeleton and values -> text, in one pass
 *
 * Lines that begin with "@if ", "@else" or "@end" decide which lines stand; @NAME@ in the others is replaced, once:
 * what a value brings is not looked at again. An @ that begins no name stands for itself. */
#include "emit_template.h"

#include "diag.h"

#include <string.h>

enum { NESTING_MAX = 16 };

typedef struct expansion {
    const char *file;
    int32_t line;
    const emit_value *values;
    size_t count;
    ffn_diag *diag;
    text *to;
    /* Of each open @if: whether its lines stand (all that enclose it counted), and whether @else was met. */
    bool stands[NESTING_MAX + 1], turned[NESTING_MAX + 1];
    int32_t depth;
} expansion;

static ffn_status mistake(const expansion *in, const char *what, const char *word, size_t bytes) {
    return diag_fail(in->diag, FFN_BAD_FILE, "template %s, line %d: %s%.*s", in->file, in->line, what,
                     (int)(bytes < 64 ? bytes : 64), word);
}

static bool is_name(char c) {
    return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static const char *value_of(const expansion *in, const char *name, size_t bytes) {
    for (size_t i = 0; i < in->count; i++)
        if (strlen(in->values[i].name) == bytes && memcmp(in->values[i].name, name, bytes) == 0)
            return in->values[i].value;
    return NULL;
}

static ffn_status begin_if(expansion *in, const char *condition, size_t bytes) {
    const bool negated = bytes > 0 && condition[0] == '!';
    const char *const value = value_of(in, condition + negated, bytes - negated);
    if (value == NULL)
        return mistake(in, "no value for ", condition + negated, bytes - negated);
    if (in->depth == NESTING_MAX)
        return mistake(in, "@if is nested too deep", "", 0);
    const bool holds = value[0] != '\0' && strcmp(value, "0") != 0;
    in->stands[in->depth + 1] = in->stands[in->depth] && holds != negated;
    in->turned[++in->depth] = false;
    return FFN_OK;
}

static ffn_status turn_else(expansion *in) {
    if (in->depth == 0 || in->turned[in->depth])
        return mistake(in, "@else without @if", "", 0);
    in->turned[in->depth] = true;
    in->stands[in->depth] = in->stands[in->depth - 1] && !in->stands[in->depth];
    return FFN_OK;
}

static ffn_status put_line(expansion *in, const char *line, size_t bytes) {
    for (size_t at = 0; at < bytes;) {
        size_t end = at + 1;
        if (line[at] == '@')
            while (end < bytes && is_name(line[end]))
                end++;
        if (line[at] != '@' || end == bytes || line[end] != '@' || end == at + 1) {
            text_add(in->to, line + at, end - at);
            at = end;
            continue;
        }
        const char *const value = value_of(in, line + at + 1, end - at - 1);
        if (value == NULL)
            return mistake(in, "no value for ", line + at + 1, end - at - 1);
        text_put(in->to, value);
        at = end + 1;
    }
    text_put(in->to, "\n");
    return FFN_OK;
}

static ffn_status take_line(expansion *in, const char *line, size_t bytes) {
    if (bytes > 4 && memcmp(line, "@if ", 4) == 0)
        return begin_if(in, line + 4, bytes - 4);
    if (bytes == 5 && memcmp(line, "@else", 5) == 0)
        return turn_else(in);
    if (bytes == 4 && memcmp(line, "@end", 4) == 0) {
        if (in->depth == 0)
            return mistake(in, "@end without @if", "", 0);
        in->depth--;
        return FFN_OK;
    }
    return in->stands[in->depth] ? put_line(in, line, bytes) : FFN_OK;
}

ffn_status emit_template_text(const char *name, const char *data, size_t bytes, const emit_value *values, size_t count,
                              text *to, ffn_diag *diag) {
    expansion in = {.file = name, .values = values, .count = count, .diag = diag, .to = to, .stands = {true}};
    ffn_status status = FFN_OK;
    for (size_t at = 0; at < bytes && status == FFN_OK;) {
        const char *const end = memchr(data + at, '\n', bytes - at);
        const size_t length = end != NULL ? (size_t)(end - (data + at)) : bytes - at;
        in.line++;
        status = take_line(&in, data + at, length);
        at += length + 1;
    }
    if (status == FFN_OK && in.depth != 0)
        status = mistake(&in, "@if without @end", "", 0);
    return status;
}

ffn_status emit_template(const char *file, const emit_value *values, size_t count, text *to, ffn_diag *diag) {
    for (size_t i = 0; i < template_file_count; i++)
        if (strcmp(template_files[i].name, file) == 0)
            return emit_template_text(file, template_files[i].text, template_files[i].bytes, values, count, to, diag);
    return diag_fail(diag, FFN_BAD_FILE, "no template is called %s", file);
}
