/* formula_cursor.c: see formula_cursor.h */
#include "formula_cursor.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "diag.h"
#include "formula_ast.h"

void cursor_skip_spaces(cursor *c) {
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t'))
        c->at++;
}

bool cursor_is_at(cursor *c, const char *symbol) {
    cursor_skip_spaces(c);
    const size_t length = strlen(symbol);
    return (size_t)(c->end - c->at) >= length && memcmp(c->at, symbol, length) == 0;
}

bool cursor_accept(cursor *c, const char *symbol) {
    if (!cursor_is_at(c, symbol))
        return false;
    c->at += strlen(symbol);
    return true;
}

bool cursor_is_letter(char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || letter == '_';
}

size_t cursor_word(const cursor *c) {
    const char *at = c->at;
    if (at < c->end && cursor_is_letter(*at))
        for (at++; at < c->end && (cursor_is_letter(*at) || (*at >= '0' && *at <= '9'));)
            at++;
    return (size_t)(at - c->at);
}

const char *cursor_seen(cursor *c, char text[CURSOR_SEEN_BYTES]) {
    cursor_skip_spaces(c);
    if (c->at >= c->end)
        return "the end of the formula";
    const size_t word = cursor_word(c), number = number_length(c->at, c->end), most = CURSOR_SEEN_BYTES - 3;
    const size_t length = word > 0 ? word : number > 0 ? number : 1;
    snprintf(text, CURSOR_SEEN_BYTES, "\"%.*s\"", (int)(length < most ? length : most), c->at);
    return text;
}

int32_t cursor_column(const cursor *c, const char *at) {
    return (int32_t)(at - c->line) + 1;
}

ffn_status cursor_fail(cursor *c, const char *at, const char *format, ...) {
    if (c->status != FFN_OK)
        return c->status;
    char what[FFN_DIAG_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    c->status = diag_fail(c->diag, FFN_BAD_SPEC, "column %d: %s", (int)cursor_column(c, at), what);
    return c->status;
}
