/* emit_quoted.c: assembly text -> file-scope asm statements of C (emit.h)
 *
 *     __asm__("movq %rdi,%rax;retq\n"
 *     "...");
 *
 * Statements share lines of COLUMNS at most; a string literal stays under the 4095 bytes that C99 promises. */
#include <string.h>

#include "emit.h"

#define COLUMNS 120
#define LITERAL_MAX 3900 /* of a literal; with the quotes of its lines the statement stays below 4095 as well */

/* The bytes of `statement` in a literal. */
static size_t quoted_bytes(const char *statement, size_t bytes) {
    size_t more = 0;
    for (size_t i = 0; i < bytes; i++)
        more += statement[i] == '"' || statement[i] == '\\';
    return bytes + more;
}

static void put_quoted(const char *statement, size_t bytes, text *to) {
    for (size_t i = 0; i < bytes; i++) {
        if (statement[i] == '"' || statement[i] == '\\')
            text_put(to, "\\");
        text_add(to, &statement[i], 1);
    }
}

/* Assemblers that pass over a part, or read a macro, look for these at the start of a line. */
static bool is_condition(const char *statement, size_t bytes) {
    static const char *const words[] = {".if", ".else", ".endif", ".macro", ".endm"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (bytes >= strlen(words[i]) && !memcmp(statement, words[i], strlen(words[i])))
            return true;
    return false;
}

void emit_quoted(const char *assembly, size_t bytes, text *to) {
    static const char open[] = "__asm__(\"", next[] = "\\n\"\n\"", close[] = "\\n\");\n";
    size_t literal = 0, column = 0; /* bytes in the open literal, columns in its open line; 0: none is open */
    bool alone = false;             /* the last statement wants its line for itself */
    const char *end = assembly + bytes;
    for (const char *at = assembly, *stop; at < end; at = stop + 1) {
        stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop ? stop : end;
        const size_t length = (size_t)(stop - at), room = quoted_bytes(at, length);
        if (length == 0)
            continue;
        const bool condition = is_condition(at, length);
        if (literal && literal + room + sizeof next > LITERAL_MAX) {
            text_put(to, close);
            literal = 0;
        }
        if (literal == 0) {
            text_put(to, open);
            column = sizeof open - 1;
        } else if (column + 1 + room + sizeof close > COLUMNS || condition || alone) {
            text_put(to, next);
            literal += 2;
            column = 1;
        } else {
            text_put(to, ";");
            literal++;
            column++;
        }
        put_quoted(at, length, to);
        literal += room;
        column += room;
        alone = condition;
    }
    if (literal)
        text_put(to, close);
}
