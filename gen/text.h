/* text.h: bytes that grow: what the emitters write into
 *
 * A failure to grow is remembered and reported once, by text_take, so that writers check nothing. */
#ifndef FFN_TEXT_H
#define FFN_TEXT_H

#include "ffn.h"

typedef struct text {
    char *data; /* NULL while empty */
    size_t bytes, room;
    bool failed;
} text;

void text_add(text *to, const char *data, size_t bytes);
void text_put(text *to, const char *string);
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void text_print(text *to, const char *format, ...);
/* The bytes, which leave the text; OUT_OF_MEMORY frees them. */
ffn_status text_take(text *from, ffn_bytes *bytes, ffn_diag *diag);
void text_free(text *of); /* an empty one is allowed */

#endif
