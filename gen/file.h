/* file.h: files in and out, whole or not at all
 *
 * In: a regular file -> read-only bytes in memory. Anything else (a folder, a FIFO, a device) is an error and never
 * waited on. Out: bytes -> a temporary file in the same folder, renamed over the target only when all of it is there,
 * so that a reader sees the old file or the new one and a failure leaves the old one. */
#ifndef FFN_FILE_H
#define FFN_FILE_H

#include "ffn.h"

typedef struct file_map {
    const void *data; /* never NULL once open; page-aligned unless empty */
    size_t bytes;
} file_map;

/* BAD_FILE if it is not a regular file or is longer than max_bytes; SYSTEM if it cannot be opened or mapped. Whoever
 * shortens a file while it is mapped makes its reader stop with SIGBUS, as with every mapped file. */
ffn_status file_map_open(const char *path, size_t max_bytes, file_map *map, ffn_diag *diag);
/* The pages around begin .. end - 1 of the map leave memory; read again, they come back from the file. */
void file_map_release(const file_map *map, const void *begin, const void *end);
/* A map of zeros, or one already closed, is allowed. */
void file_map_close(file_map *map);

/* Whether two paths name one file, or would if they were written to. */
bool file_same(const char *a, const char *b);
/* The end of a path, short enough for an error message. */
const char *file_label(const char *path);

typedef struct file_writer file_writer;

/* The target stays as it is until commit. A symbolic link is followed and stays a link; an existing target keeps its
 * mode. A device or FIFO (/dev/null, /dev/stdout) cannot be replaced and is written to directly. */
ffn_status file_writer_open(const char *path, file_writer **writer, ffn_diag *diag);
/* After a failure the rest is ignored and commit reports it, so that callers check once. */
void file_writer_add(file_writer *writer, const void *data, size_t bytes);
/* All that was added is on the disk under the temporary name, so that commit has nothing left to fail for but the
 * renaming: for files that belong together. */
ffn_status file_writer_flush(file_writer *writer, ffn_diag *diag);
/* Flushes to the disk, renames, frees the writer. On failure the temporary file is gone and the target untouched. */
ffn_status file_writer_commit(file_writer *writer, ffn_diag *diag);
/* Frees the writer and leaves the target as it was. NULL is allowed. */
void file_writer_abandon(file_writer *writer);

/* The three steps above for bytes that are all there. */
ffn_status file_write(const char *path, const void *data, size_t bytes, ffn_diag *diag);

#endif
