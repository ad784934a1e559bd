/* emit_template.h: the files of templates/header as they stand in the command (cmake/EmbedTemplates.cmake), and lists
 * of values for them */
#ifndef FFN_EMIT_TEMPLATE_H
#define FFN_EMIT_TEMPLATE_H

#include "emit.h"

typedef struct template_file {
    const char *name, *text;
    size_t bytes;
} template_file;

extern const template_file template_files[];
extern const size_t template_file_count;

#define VALUES_MAX 64

/* Values that are made one after the other. A failure to make one is remembered, like that of a text. */
typedef struct emit_values {
    emit_value at[VALUES_MAX];
    char *owned[VALUES_MAX]; /* the values themselves */
    size_t count;
    bool failed;
} emit_values;

#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
void emit_values_print(emit_values *values, const char *name, const char *format, ...);
/* The text becomes the value and is empty afterwards. */
void emit_values_take(emit_values *values, const char *name, text *value);
/* Values from the first `count` on are forgotten. */
void emit_values_cut(emit_values *values, size_t count);

/* emit_template on text that is no file of the table; `name` is for messages. */
ffn_status emit_template_text(const char *name, const char *data, size_t bytes, const emit_value *values, size_t count,
                              text *to, ffn_diag *diag);

#endif
