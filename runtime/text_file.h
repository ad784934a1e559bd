/* text_file.h: a path -> a small text, whole; a text -> a file that is there whole or not at all; text -> its lines */
#ifndef FFN_TEXT_FILE_H
#define FFN_TEXT_FILE_H

#include "ffn.h"

/* *text becomes the file's bytes and a 0 after them; free() it. BAD_FILE for what is no regular file, longer than
 * bytes_max or holds a 0; SYSTEM, with *missing (NULL is allowed) true where there is no such file. */
ffn_status text_file_read(const char *path, size_t bytes_max, char **text, bool *missing, ffn_diag *diag);
/* By replace.h. */
ffn_status text_file_write(const char *path, const char *text, size_t bytes, ffn_diag *diag);

/* The line at *text, its end cut off in place (a carriage return before it too); *text goes to the next line, or to
 * NULL after the last. A last line without an end is a line like the others: *ended tells. */
char *text_file_line(char **text, bool *ended);

/* Digits, and after a point at most `decimals` more -> the number times 10^decimals, the same in every locale. False
 * for anything else and for what is above `most`. */
bool text_fixed_parse(const char *text, int decimals, int64_t most, int64_t *number);
/* The other way, without zeros at the end of a fraction. */
#define TEXT_FIXED_BYTES 32
void text_fixed_format(int64_t number, int decimals, char text[TEXT_FIXED_BYTES]);

#endif
