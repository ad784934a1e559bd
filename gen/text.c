/* text.c: see text.h */
#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diag.h"

static bool make_room(text *to, size_t more) {
    if (to->failed || more > PTRDIFF_MAX / 2 - to->bytes) {
        to->failed = true;
        return false;
    }
    if (to->bytes + more <= to->room)
        return true;
    const size_t room = 2 * (to->bytes + more) + 256;
    char *grown = realloc(to->data, room);
    if (!grown) {
        to->failed = true;
        return false;
    }
    to->data = grown;
    to->room = room;
    return true;
}

void text_add(text *to, const char *data, size_t bytes) {
    if (bytes == 0 || !make_room(to, bytes))
        return;
    memcpy(to->data + to->bytes, data, bytes);
    to->bytes += bytes;
}

void text_put(text *to, const char *string) {
    text_add(to, string, strlen(string));
}

void text_print(text *to, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    const int length = vsnprintf(NULL, 0, format, arguments);
    if (length < 0)
        to->failed = true;
    else if (make_room(to, (size_t)length + 1)) {
        vsnprintf(to->data + to->bytes, (size_t)length + 1, format, again);
        to->bytes += (size_t)length;
    }
    va_end(again);
    va_end(arguments);
}

ffn_status text_take(text *from, ffn_bytes *bytes, ffn_diag *diag) {
    if (from->failed) {
        text_free(from);
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for the text that is being written");
    }
    *bytes = (ffn_bytes){.data = from->data, .bytes = from->bytes, .release = free};
    *from = (text){0};
    return FFN_OK;
}

void text_free(text *of) {
    free(of->data);
    *of = (text){0};
}
