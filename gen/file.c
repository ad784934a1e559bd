/* file.c: paths -> bytes in memory; bytes -> files that are whole or not there
 *
 * Invariant: between open and commit only the temporary file changes, unless the target cannot be replaced by a rename
 * (a device or a FIFO), which then is written to as it is. */
#define _DEFAULT_SOURCE /* madvise, realpath, strdup */
#include "file.h"

#include "diag.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LABEL_BYTES_MAX = 120, TEMPORARY_TRIES = 100 };
enum { AROUND_BYTES = 64 << 10 }; /* one read of a mapped file brings in as much around it, on Linux */

const char *file_label(const char *path) {
    size_t length = strlen(path);
    return length <= LABEL_BYTES_MAX ? path : path + (length - LABEL_BYTES_MAX);
}

static const char *kind(mode_t mode) {
    return S_ISDIR(mode)    ? "a folder"
           : S_ISFIFO(mode) ? "a pipe"
           : S_ISSOCK(mode) ? "a socket"
           : S_ISLNK(mode)  ? "a symbolic link that leads nowhere"
                            : "a device";
}

/* ---- In ---------------------------------------------------------------------------------------------------- */

static ffn_status map_descriptor(int descriptor, const char *path, size_t max_bytes, file_map *map, ffn_diag *diag) {
    struct stat info;
    if (fstat(descriptor, &info) != 0)
        return diag_fail(diag, FFN_SYSTEM, "%s: %s", file_label(path), strerror(errno));
    if (!S_ISREG(info.st_mode))
        return diag_fail(diag, FFN_BAD_FILE, "%s is %s: a regular file is needed", file_label(path),
                         kind(info.st_mode));
    uintmax_t bytes = (uintmax_t)info.st_size;
    if (bytes > max_bytes || bytes > PTRDIFF_MAX)
        return diag_fail(diag, FFN_BAD_FILE, "%s is %ju bytes long: at most %zu can be read", file_label(path), bytes,
                         max_bytes);
    if (bytes == 0) { /* nothing to map, and mmap refuses to */
        *map = (file_map){"", 0};
        return FFN_OK;
    }
    void *data = mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (data == MAP_FAILED)
        return diag_fail(diag, FFN_SYSTEM, "%s cannot be mapped: %s", file_label(path), strerror(errno));
    *map = (file_map){data, (size_t)bytes};
    return FFN_OK;
}

ffn_status file_map_open(const char *path, size_t max_bytes, file_map *map, ffn_diag *diag) {
    /* O_NONBLOCK: opening a FIFO that nobody writes to would wait for ever. */
    int descriptor = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (descriptor < 0)
        return diag_fail(diag, FFN_SYSTEM, "%s cannot be opened: %s", file_label(path), strerror(errno));
    ffn_status status = map_descriptor(descriptor, path, max_bytes, map, diag);
    close(descriptor);
    return status;
}

void file_map_release(const file_map *map, const void *begin, const void *end) {
    const char *base = map->data;
    size_t first = (size_t)((const char *)begin - base), last = (size_t)((const char *)end - base) + AROUND_BYTES;
    first = first < AROUND_BYTES ? 0 : (first - AROUND_BYTES) / AROUND_BYTES * AROUND_BYTES; /* whole pages */
    last = last < map->bytes ? last : map->bytes;
    /* Nobody writes to the map, so what is dropped is what the file holds. A refusal costs memory alone. */
    if (first < last)
        madvise((void *)(uintptr_t)(base + first), last - first, MADV_DONTNEED);
}

void file_map_close(file_map *map) {
    if (map->bytes > 0)
        munmap((void *)(uintptr_t)map->data, map->bytes);
    *map = (file_map){NULL, 0};
}

/* ---- Out --------------------------------------------------------------------------------------------------- */

struct file_writer {
    FILE *stream;
    int error;       /* errno of the first failure */
    char *target;    /* with symbolic links followed */
    char *temporary; /* NULL where the target is written to directly */
};

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The folder that a path is in. */
static bool folder_of(const char *path, struct stat *folder) {
    char *name = strndup(path, (size_t)(base_name(path) - path));
    const bool found = name && stat(*name ? name : ".", folder) == 0;
    free(name);
    return found;
}

bool file_same(const char *a, const char *b) {
    struct stat of_a, of_b;
    const bool a_exists = stat(a, &of_a) == 0, b_exists = stat(b, &of_b) == 0;
    if (a_exists != b_exists)
        return false;
    if (!a_exists && (strcmp(base_name(a), base_name(b)) != 0 || !folder_of(a, &of_a) || !folder_of(b, &of_b)))
        return false;
    return of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

static void writer_free(file_writer *writer) {
    free(writer->target);
    free(writer->temporary);
    free(writer);
}

/* A new file beside the target, with the mode the umask gives. mkstemp would make it 0600. */
static int temporary_open(file_writer *writer) {
    static atomic_uint serial;
    const char *slash = strrchr(writer->target, '/');
    int folder_bytes = slash ? (int)(slash - writer->target) + 1 : 0;
    size_t bytes = (size_t)folder_bytes + 64;
    writer->temporary = malloc(bytes);
    if (!writer->temporary) {
        errno = ENOMEM;
        return -1;
    }
    for (int i = 0; i < TEMPORARY_TRIES; i++) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        snprintf(writer->temporary, bytes, "%.*s.ffngen-%ld-%u-%lx.tmp", folder_bytes, writer->target, (long)getpid(),
                 atomic_fetch_add(&serial, 1), (unsigned long)now.tv_nsec);
        int descriptor = open(writer->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (descriptor >= 0 || errno != EEXIST)
            return descriptor;
    }
    return -1;
}

/* The descriptor to write to, or -1 with errno. */
static int target_open(file_writer *writer, const char *path, const struct stat *existing) {
    /* A link is followed by hand: a rename would replace the link, not what it names. */
    writer->target = existing ? realpath(path, NULL) : strdup(path);
    if (existing && !writer->target && errno == ENOENT)
        writer->target = strdup(path); /* a path of /proc that names no file: a pipe on standard output */
    if (!writer->target)
        return -1;
    if (existing && !S_ISREG(existing->st_mode))
        return open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    int descriptor = temporary_open(writer);
    if (descriptor >= 0 && existing && fchmod(descriptor, existing->st_mode & 0777) != 0) {
        int error = errno;
        close(descriptor);
        unlink(writer->temporary);
        errno = error;
        return -1;
    }
    return descriptor;
}

ffn_status file_writer_open(const char *path, file_writer **out, ffn_diag *diag) {
    struct stat info, link;
    bool exists = stat(path, &info) == 0;
    if (!exists && lstat(path, &link) == 0)
        return diag_fail(diag, FFN_SYSTEM, "%s is %s", file_label(path), kind(link.st_mode));
    if (exists && S_ISDIR(info.st_mode))
        return diag_fail(diag, FFN_BAD_ARGUMENT, "%s is a folder: the name of a file is needed", file_label(path));

    file_writer *writer = calloc(1, sizeof *writer);
    if (!writer)
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory to write %s", file_label(path));
    int descriptor = target_open(writer, path, exists ? &info : NULL);
    if (descriptor >= 0 && exists && !S_ISREG(info.st_mode)) { /* O_NONBLOCK was for the opening alone */
        int flags = fcntl(descriptor, F_GETFL);
        fcntl(descriptor, F_SETFL, flags & ~O_NONBLOCK);
    }
    writer->stream = descriptor >= 0 ? fdopen(descriptor, "wb") : NULL;
    if (!writer->stream) {
        int error = errno;
        if (descriptor >= 0) {
            close(descriptor);
            if (writer->temporary)
                unlink(writer->temporary);
        }
        writer_free(writer);
        return diag_fail(diag, FFN_SYSTEM, "%s cannot be written: %s", file_label(path), strerror(error));
    }
    *out = writer;
    return FFN_OK;
}

void file_writer_add(file_writer *writer, const void *data, size_t bytes) {
    if (writer->error || bytes == 0)
        return;
    errno = 0;
    if (fwrite(data, 1, bytes, writer->stream) != bytes)
        writer->error = errno ? errno : EIO;
}

static ffn_status cannot_write(const file_writer *writer, int error, ffn_diag *diag) {
    return diag_fail(diag, FFN_SYSTEM, "%s cannot be written: %s", file_label(writer->target), strerror(error));
}

ffn_status file_writer_flush(file_writer *writer, ffn_diag *diag) {
    if (!writer->error && fflush(writer->stream) != 0)
        writer->error = errno;
    if (!writer->error && writer->temporary && fsync(fileno(writer->stream)) != 0)
        writer->error = errno;
    return writer->error ? cannot_write(writer, writer->error, diag) : FFN_OK;
}

ffn_status file_writer_commit(file_writer *writer, ffn_diag *diag) {
    file_writer_flush(writer, NULL);
    int error = writer->error;
    if (fclose(writer->stream) != 0 && !error)
        error = errno;
    if (!error && writer->temporary && rename(writer->temporary, writer->target) != 0)
        error = errno;
    if (error && writer->temporary)
        unlink(writer->temporary);
    ffn_status status = FFN_OK;
    if (error)
        status = cannot_write(writer, error, diag);
    writer_free(writer);
    return status;
}

void file_writer_abandon(file_writer *writer) {
    if (!writer)
        return;
    fclose(writer->stream);
    if (writer->temporary)
        unlink(writer->temporary);
    writer_free(writer);
}

ffn_status file_write(const char *path, const void *data, size_t bytes, ffn_diag *diag) {
    file_writer *writer;
    ffn_status status = file_writer_open(path, &writer, diag);
    if (status != FFN_OK)
        return status;
    file_writer_add(writer, data, bytes);
    return file_writer_commit(writer, diag);
}
