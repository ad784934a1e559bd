/* compiler_find.h: ffn_options.compiler -> the file of libffngen's shared library */
#ifndef FFN_COMPILER_FIND_H
#define FFN_COMPILER_FIND_H

#include <limits.h>
#include <stdbool.h>

/* `path` as in ffn_options.compiler. True with an absolute name free of links; false with the first name that was
 * tried, for the message. */
bool compiler_find(const char *path, char file[PATH_MAX]);

#endif
