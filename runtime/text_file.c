/* text_file.c: see text_file.h
 *
 * Invariant: between open and rename only the temporary file changes, and it is gone after a failure. */
#define _XOPEN_SOURCE 700 /* realpath, strdup */
#include "text_file.h"

#include "diag.h"
#include "write.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LABEL_BYTES_MAX = 120, TEMPORARY_TRIES = 16, TEMPORARY_NAME_BYTES = 32 };

const char *text_file_label(const char *path) {
    const size_t length = strlen(path);
    return length <= LABEL_BYTES_MAX ? path : path + (length - LABEL_BYTES_MAX);
}

static ffn_status system_fail(ffn_diag *diag, const char *path, const char *what, int error) {
    return diag_fail(diag, FFN_SYSTEM, "%s cannot be %s: %s", text_file_label(path), what, strerror(error));
}

/* ---- Reading ----------------------------------------------------------------------------------------------- */

/* One byte more than the file says is asked for, so that one that grows meanwhile is noticed. */
static ffn_status read_open(int file, const char *path, size_t bytes_max, char **text, ffn_diag *diag) {
    struct stat info;
    if (fstat(file, &info) != 0)
        return system_fail(diag, path, "read", errno);
    if (!S_ISREG(info.st_mode))
        return diag_fail(diag, FFN_BAD_FILE, "%s is no regular file", text_file_label(path));
    if ((uintmax_t)info.st_size > bytes_max)
        return diag_fail(diag, FFN_BAD_FILE, "%s is %ju bytes long: at most %zu can be read", text_file_label(path),
                         (uintmax_t)info.st_size, bytes_max);
    const size_t bytes = (size_t)info.st_size;
    char *data = malloc(bytes + 1);
    if (data == NULL)
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory to read %s", text_file_label(path));
    size_t have = 0;
    ssize_t part = 1;
    while (have <= bytes && (part = read(file, data + have, bytes + 1 - have)) != 0)
        if (part > 0)
            have += (size_t)part;
        else if (errno != EINTR)
            break;
    ffn_status status = FFN_OK;
    if (part < 0)
        status = system_fail(diag, path, "read", errno);
    else if (have != bytes)
        status = diag_fail(diag, FFN_BAD_FILE, "%s changed while it was read", text_file_label(path));
    else if (memchr(data, 0, bytes) != NULL)
        status = diag_fail(diag, FFN_BAD_FILE, "%s is no text: it holds a zero byte", text_file_label(path));
    if (status != FFN_OK) {
        free(data);
        return status;
    }
    data[bytes] = '\0';
    *text = data;
    return FFN_OK;
}

ffn_status text_file_read(const char *path, size_t bytes_max, char **text, bool *missing, ffn_diag *diag) {
    /* O_NONBLOCK: opening a FIFO that nobody writes to would wait for ever. */
    const int file = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (missing != NULL)
        *missing = file < 0 && errno == ENOENT;
    if (file < 0)
        return system_fail(diag, path, "opened", errno);
    const ffn_status status = read_open(file, path, bytes_max, text, diag);
    close(file);
    return status;
}

/* ---- Writing ----------------------------------------------------------------------------------------------- */

/* Where the file goes: a link is followed, since a rename would replace the link and not what it names. */
static ffn_status target_find(const char *path, char **target, ffn_diag *diag) {
    struct stat info;
    if (stat(path, &info) == 0) {
        if (!S_ISREG(info.st_mode))
            return diag_fail(diag, FFN_BAD_ARGUMENT, "%s is no regular file: the name of a file is needed",
                             text_file_label(path));
        *target = realpath(path, NULL);
    } else if (errno != ENOENT) {
        return system_fail(diag, path, "written", errno);
    } else if (lstat(path, &info) == 0) {
        return diag_fail(diag, FFN_BAD_ARGUMENT, "%s is a symbolic link that leads nowhere", text_file_label(path));
    } else {
        *target = strdup(path);
    }
    return *target != NULL ? FFN_OK : system_fail(diag, path, "written", errno);
}

/* A name that nobody can have prepared, and the mode that the umask gives a new file; -1 with errno. */
static int temporary_open(const char *target, int folder_bytes, char *name, size_t name_bytes) {
    int file = -1;
    for (int i = 0; i < TEMPORARY_TRIES && file < 0; i++) {
        uint64_t number;
        if (getrandom(&number, sizeof number, 0) != sizeof number)
            break;
        snprintf(name, name_bytes, "%.*s.ffn-%016" PRIx64 ".tmp", folder_bytes, target, number);
        file = open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (file < 0 && errno != EEXIST)
            break;
    }
    return file;
}

/* The name outlives a power cut only once its folder is on the disk too; not every file system can do that. */
static void folder_flush(char *name, size_t folder_bytes) {
    strcpy(name + folder_bytes, ".");
    const int folder = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0) {
        fsync(folder);
        close(folder);
    }
}

ffn_status text_file_write(const char *path, const char *text, size_t bytes, ffn_diag *diag) {
    char *target = NULL;
    ffn_status status = target_find(path, &target, diag);
    if (status != FFN_OK)
        return status;
    const char *slash = strrchr(target, '/');
    const size_t folder_bytes = slash != NULL ? (size_t)(slash + 1 - target) : 0;
    const size_t name_bytes = folder_bytes + TEMPORARY_NAME_BYTES;
    char *name = malloc(name_bytes);
    if (name == NULL) {
        free(target);
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory to write %s", text_file_label(path));
    }
    const int file = temporary_open(target, (int)folder_bytes, name, name_bytes);
    bool written = file >= 0 && write_all(file, text, bytes, WRITE_HERE) && fsync(file) == 0;
    int error = errno;
    if (file >= 0 && close(file) != 0 && written) { /* a network's file system may report here what it could not do */
        error = errno;
        written = false;
    }
    if (written && rename(name, target) != 0) {
        error = errno;
        written = false;
    }
    if (written)
        folder_flush(name, folder_bytes);
    else if (file >= 0)
        unlink(name);
    free(name);
    free(target);
    return written ? FFN_OK : system_fail(diag, path, "written", error);
}

/* ---- Lines and numbers ------------------------------------------------------------------------------------- */

char *text_file_line(char **text, bool *ended) {
    char *line = *text, *end = strchr(line, '\n');
    *ended = end != NULL;
    *text = end != NULL && end[1] != '\0' ? end + 1 : NULL;
    if (end == NULL)
        return line;
    *end = '\0';
    if (end > line && end[-1] == '\r')
        end[-1] = '\0';
    return line;
}

bool text_fixed_parse(const char *text, int decimals, int64_t most, int64_t *number) {
    int64_t value = 0;
    int digits = 0, behind = -1; /* the point: none yet */
    for (; *text; text++) {
        if (*text == '.' && behind < 0 && digits > 0) {
            behind = 0;
            continue;
        }
        const int digit = *text - '0';
        if (digit < 0 || digit > 9 || (behind >= 0 && ++behind > decimals) || value > (most - digit) / 10)
            return false;
        value = 10 * value + digit;
        digits++;
    }
    if (digits == 0 || behind == 0)
        return false;
    for (int i = behind < 0 ? 0 : behind; i < decimals; i++) {
        if (value > most / 10)
            return false;
        value *= 10;
    }
    *number = value;
    return true;
}

void text_fixed_format(int64_t number, int decimals, char text[TEXT_FIXED_BYTES]) {
    int64_t unit = 1;
    for (int i = 0; i < decimals; i++)
        unit *= 10;
    int length = snprintf(text, TEXT_FIXED_BYTES, "%" PRId64, number / unit);
    if (number % unit == 0)
        return;
    length += snprintf(text + length, TEXT_FIXED_BYTES - (size_t)length, ".%0*" PRId64, decimals, number % unit);
    while (text[length - 1] == '0')
        text[--length] = '\0';
}
