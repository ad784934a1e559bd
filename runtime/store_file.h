/* store_file.h: the bytes of one file of the store, in and out, by name inside
 * an opened folder */
#ifndef FFN_STORE_FILE_H
#define FFN_STORE_FILE_H

#include "store_entry.h"

typedef struct store_file {
    char head[ENTRY_HEAD_BYTES];
    void *image; /* free() */
    size_t image_bytes;
    int64_t idle_seconds; /* since it was last used; negative where the clock went
                             back */
} store_file;

/* Reads a file that only this user can have written and whose head begins with
 * `begin`. False: `problem` says why, or is untouched where there is no such
 * file or it is another one's. Never waits, whatever stands under the name. */
bool store_file_read(int folder, const char *name, const char *begin, size_t begin_bytes, store_file *file,
                     ffn_diag *problem);
/* Whole under its name and on the disk, or not at all. */
bool store_file_write(int folder, const char *name, const char *head, const void *code, size_t code_bytes,
                      ffn_diag *problem);
/* It was used now. */
void store_file_touch(int folder, const char *name);

/* True for the names that store_file_write writes under, and the process that
 * does. */
bool store_file_is_temporary(const char *name, int64_t *process);
/* True if nobody writes the temporary file any more. */
bool store_file_is_stale(int folder, const char *name, int64_t process, int64_t age_seconds);

#endif
