/* diag.h: fills a caller's ffn_diag and returns the status, so that a failure is one return statement */
#ifndef FFN_DIAG_H
#define FFN_DIAG_H

#include "ffn.h"

#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
ffn_status
diag_fail(ffn_diag *diag, ffn_status status, const char *format, ...);

/* Control characters become '?': what a user or a file put into a text cannot move a terminal's cursor or split a line.
 */
void diag_printable(char *text);

/* Writes into `text` the names that are near to `word`, as ": did you mean a, b?" or "". `name_at` returns NULL past
 * the end. For error messages that offer what would be right. */
void diag_near_names(const char *word, const char *(*name_at)(size_t i), char *text, size_t text_bytes);

#endif
