/* replace.c: see replace.h */
#define _XOPEN_SOURCE 700 /* realpath, strdup */
#include "replace.h"

#include "diag.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEMPORARY_TRIES = 16, TEMPORARY_NAME_BYTES = 32, LABEL_BYTES_MAX = 120 };

const char *replace_label(const char *path) {
    const size_t length = strlen(path);
    return length <= LABEL_BYTES_MAX ? path : path + (length - LABEL_BYTES_MAX);
}

ffn_status replace_fail(const char *path, const char *what, int error, ffn_diag *diag) {
    return diag_fail(diag, FFN_SYSTEM, "%s cannot be %s: %s", replace_label(path), what, strerror(error));
}

const char *replace_kind(mode_t mode) {
    return S_ISDIR(mode) ? "a folder" : S_ISFIFO(mode) ? "a pipe" : S_ISSOCK(mode) ? "a socket" : "a device";
}

/* Where the file goes: a link is followed, since a rename would replace the link and not what it names. */
static ffn_status target_find(replacement *of, ffn_diag *diag) {
    struct stat info;
    if (stat(of->path, &info) == 0) {
        if (!S_ISREG(info.st_mode))
            return diag_fail(diag, FFN_BAD_ARGUMENT, "%s is %s: the name of a file is needed", replace_label(of->path),
                             replace_kind(info.st_mode));
        of->target = realpath(of->path, NULL);
    } else if (errno != ENOENT) {
        return replace_fail(of->path, "written", errno, diag);
    } else if (lstat(of->path, &info) == 0) {
        return diag_fail(diag, FFN_BAD_ARGUMENT, "%s is a symbolic link that leads nowhere", replace_label(of->path));
    } else {
        of->target = strdup(of->path);
    }
    return of->target != NULL ? FFN_OK : replace_fail(of->path, "written", errno, diag);
}

static size_t folder_bytes(const replacement *of) {
    const char *slash = strrchr(of->target, '/');
    return slash != NULL ? (size_t)(slash + 1 - of->target) : 0;
}

/* A name that nobody can have prepared, and the mode that the umask gives a new file (mkstemp would make it 0600). */
static ffn_status temporary_open(replacement *of, ffn_diag *diag) {
    const size_t folder = folder_bytes(of), bytes = folder + TEMPORARY_NAME_BYTES;
    of->temporary = malloc(bytes);
    if (of->temporary == NULL)
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory to write %s", replace_label(of->path));
    for (int i = 0; i < TEMPORARY_TRIES && of->file < 0; i++) {
        uint64_t number;
        if (getrandom(&number, sizeof number, 0) != sizeof number)
            break;
        snprintf(of->temporary, bytes, "%.*s.ffn-%016" PRIx64 ".tmp", (int)folder, of->target, number);
        of->file = open(of->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (of->file < 0 && errno != EEXIST)
            break;
    }
    if (of->file >= 0)
        return FFN_OK;
    const int error = errno;
    free(of->temporary); /* nothing of that name is ours */
    of->temporary = NULL;
    return replace_fail(of->path, "written", error, diag);
}

ffn_status replace_open(const char *path, replacement *of, ffn_diag *diag) {
    *of = (replacement){.path = path, .file = -1};
    const ffn_status status = target_find(of, diag);
    return status != FFN_OK ? status : temporary_open(of, diag);
}

ffn_status replace_check(const char *path, ffn_diag *diag) {
    replacement file;
    const ffn_status status = replace_open(path, &file, diag);
    replace_close(&file);
    return status;
}

/* The name outlives a power cut only once its folder is on the disk too. Not every file system lets a folder be
 * flushed, and the file is whole either way. */
static void folder_flush(replacement *of) {
    strcpy(of->temporary + folder_bytes(of), ".");
    const int folder = open(of->temporary, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0) {
        fsync(folder);
        close(folder);
    }
}

ffn_status replace_finish(replacement *of, ffn_diag *diag) {
    if (fsync(of->file) != 0)
        return replace_fail(of->path, "written", errno, diag);
    const int closed = close(of->file); /* a network's file system may report here what it could not write */
    of->file = -1;
    if (closed != 0 || rename(of->temporary, of->target) != 0)
        return replace_fail(of->path, "written", errno, diag);
    folder_flush(of);
    free(of->temporary);
    of->temporary = NULL;
    return FFN_OK;
}

void replace_close(replacement *of) {
    if (of->file >= 0)
        close(of->file);
    if (of->temporary != NULL)
        unlink(of->temporary);
    free(of->temporary);
    free(of->target);
}
