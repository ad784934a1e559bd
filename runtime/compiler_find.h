/* compiler_find.h: ffn_options.compiler -> the file of libffngen's shared library
 *
 * Names are those of files at the time they were given or loaded: a later chdir() changes nothing. */
#ifndef FFN_COMPILER_FIND_H
#define FFN_COMPILER_FIND_H

#include <limits.h>
#include <stdbool.h>

/* `path`: absolute, or NULL for the library beside libffn. True with an absolute name free of links; false with the
 * first name that was tried, for the message. */
bool compiler_find(const char *path, char file[PATH_MAX]);
/* The file, absolute and free of links, of the program or library that `address` is in. */
bool compiler_file_of(const void *address, char file[PATH_MAX]);

#endif
