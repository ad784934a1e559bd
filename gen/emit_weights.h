/* emit_weights.h: up to which size weights stand in a header, and how the file of larger ones is named there */
#ifndef FFN_EMIT_WEIGHTS_H
#define FFN_EMIT_WEIGHTS_H

#include "text.h"

/* Larger packed weights need --weights-out. At this size the header has 20 MB and compiles within a second or so;
 * figures in docs/packed.md. */
#define EMIT_WEIGHTS_INSIDE_MAX ((size_t)8 << 20)

/* A file's name -> what stands between the quotes of a C string that .incbin takes its name from. */
void emit_weights_name(const char *file, text *to);

#endif
