/* formula_cursor.h: a place in a formula's text: what stands there, and messages that name its column
 *
 * Private to runtime/formula*.c and activation.c. */
#ifndef FFN_FORMULA_CURSOR_H
#define FFN_FORMULA_CURSOR_H

#include "ffn.h"

typedef struct cursor {
    const char *at, *end;
    const char *line; /* column 1 */
    ffn_status status;
    ffn_diag *diag;
} cursor;

#define CURSOR_SEEN_BYTES 34

void cursor_skip_spaces(cursor *c);
/* After spaces: does `symbol` stand here? And if so, step over it. */
bool cursor_is_at(cursor *c, const char *symbol);
bool cursor_accept(cursor *c, const char *symbol);
bool cursor_is_letter(char letter);
/* Length of the name that stands here: a letter or '_', then letters, digits, '_'. 0 if none does. */
size_t cursor_word(const cursor *c);
/* What stands here, quoted, for messages. */
const char *cursor_seen(cursor *c, char text[CURSOR_SEEN_BYTES]);
int32_t cursor_column(const cursor *c, const char *at);
/* BAD_SPEC, "column N: ..." for the place `at`. The first failure is kept, later ones are its consequences. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
ffn_status
cursor_fail(cursor *c, const char *at, const char *format, ...);

#endif
