/* emit_values.c: lists of values for templates; see emit_template.h */
#include "emit_template.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void emit_values_take(emit_values *values, const char *name, text *value) {
    text_add(value, "", 1);
    if (value->failed || values->count == VALUES_MAX) {
        values->failed = true;
        text_free(value);
        return;
    }
    values->at[values->count] = (emit_value){name, value->data};
    values->owned[values->count++] = value->data;
    *value = (text){0};
}

void emit_values_print(emit_values *values, const char *name, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    const int length = vsnprintf(NULL, 0, format, arguments);
    char *made = length >= 0 ? malloc((size_t)length + 1) : NULL;
    text value = {.failed = made == NULL};
    if (made != NULL) {
        vsnprintf(made, (size_t)length + 1, format, again);
        value = (text){.data = made, .bytes = (size_t)length, .room = (size_t)length + 1};
    }
    va_end(again);
    va_end(arguments);
    emit_values_take(values, name, &value);
}

void emit_values_cut(emit_values *values, size_t count) {
    while (values->count > count)
        free(values->owned[--values->count]);
}
