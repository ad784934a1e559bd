/* replace.h: bytes -> a file that is there whole or not at all
 *
 * They go to a new file beside the target, which is renamed once it is on the disk: a reader sees the old file or the
 * new one. Between open and finish only the new file changes, and it is gone after a failure. */
#ifndef FFN_REPLACE_H
#define FFN_REPLACE_H

#include <sys/types.h>

#include "ffn.h"

/* All zero but `file`, which is -1, before it is opened. */
typedef struct replacement {
    const char *path;
    char *target;    /* `path` with symbolic links followed */
    char *temporary; /* beside it */
    int file;        /* where the bytes go */
} replacement;

/* The end of a path: it names the file, and leaves room for what is wrong with it. */
const char *replace_label(const char *path);
/* What is no regular file: "a folder", ... */
const char *replace_kind(mode_t mode);
/* "... cannot be written: ..." */
ffn_status replace_fail(const char *path, const char *what, int error, ffn_diag *diag);

/* A symbolic link is followed; only a regular file is replaced. After a failure close is still called. */
ffn_status replace_open(const char *path, replacement *of, ffn_diag *diag);
/* Fails before the work is done where its result could not be written afterwards. */
ffn_status replace_check(const char *path, ffn_diag *diag);
/* Everything to the disk, and only then the name. */
ffn_status replace_finish(replacement *of, ffn_diag *diag);
/* Leaves nothing behind but a file that was finished. */
void replace_close(replacement *of);

#endif
