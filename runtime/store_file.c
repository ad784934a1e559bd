/* store_file.c: a name -> bytes nobody else could write; bytes -> a file that is there whole or not at all
 *
 * Writing: a temporary file in the same folder, on the disk before it is renamed. A writer holds a lock on its
 * temporary file that nobody ever waits for; it tells those who tidy up that the writer still lives, and ends with
 * it. Reading: what is checked is the descriptor that is read. */
#define _GNU_SOURCE
#include "store_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "diag.h"
#include "image.h"
#include "write.h"

#define FILE_MODE 0600
#define TEMPORARY ".tmp."
#define TEMPORARY_BYTES 64
#define TEMPORARY_TRIES 8
#define STALE_SECONDS 3600

/* Reads until `bytes` are there or the file ends. */
static bool read_all(int file, void *to, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        ssize_t part = read(file, (char *)to + done, bytes - done);
        if (part == 0 || (part < 0 && errno != EINTR))
            return false;
        done += part > 0 ? (size_t)part : 0;
    }
    return true;
}

static bool is_trusted(const struct stat *seen, const char *name, ffn_diag *problem) {
    if (!S_ISREG(seen->st_mode))
        diag_fail(problem, FFN_BAD_FILE, "entry %s is refused: not a file", name);
    else if (seen->st_uid != geteuid())
        diag_fail(problem, FFN_BAD_FILE, "entry %s is refused: belongs to user %lld, must belong to user %lld", name,
                  (long long)seen->st_uid, (long long)geteuid());
    else if ((seen->st_mode & (S_IWGRP | S_IWOTH)) != 0)
        diag_fail(problem, FFN_BAD_FILE, "entry %s is refused: others may write it (mode %04o), must be 0600", name,
                  (unsigned)seen->st_mode & 07777);
    else
        return true;
    return false;
}

/* Of an open file that is trusted. */
static bool read_parts(int from, uint64_t file_bytes, const char *begin, size_t begin_bytes, store_file *file,
                       ffn_diag *problem) {
    if (file_bytes < ENTRY_HEAD_BYTES + sizeof(image_header) || file_bytes > ENTRY_HEAD_BYTES + ENTRY_IMAGE_BYTES_MAX ||
        !read_all(from, file->head, sizeof file->head) || memcmp(file->head, begin, begin_bytes) != 0)
        return false;
    file->image_bytes = (size_t)file_bytes - ENTRY_HEAD_BYTES;
    file->image = malloc(file->image_bytes);
    if (!file->image) {
        diag_fail(problem, FFN_OUT_OF_MEMORY, "no memory for %zu bytes of an image", file->image_bytes);
        return false;
    }
    if (read_all(from, file->image, file->image_bytes))
        return true;
    free(file->image);
    file->image = NULL;
    return false;
}

bool store_file_read(int folder, const char *name, const char *begin, size_t begin_bytes, store_file *file,
                     ffn_diag *problem) {
    int from = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (from < 0) {
        if (errno == ELOOP)
            diag_fail(problem, FFN_BAD_FILE, "entry %s is refused: a symbolic link", name);
        else if (errno != ENOENT)
            diag_fail(problem, FFN_SYSTEM, "entry %s cannot be read: %s", name, strerrordesc_np(errno));
        return false;
    }
    struct stat seen;
    bool whole = false;
    if (fstat(from, &seen) != 0)
        diag_fail(problem, FFN_SYSTEM, "entry %s cannot be read: %s", name, strerrordesc_np(errno));
    else
        whole = is_trusted(&seen, name, problem) &&
                read_parts(from, (uint64_t)seen.st_size, begin, begin_bytes, file, problem);
    file->idle_seconds = whole ? (int64_t)time(NULL) - (int64_t)seen.st_mtime : 0;
    close(from);
    return whole;
}

void store_file_touch(int folder, const char *name) {
    (void)!utimensat(folder, name, NULL, AT_SYMLINK_NOFOLLOW); /* a read-only store serves all the same */
}

static uint64_t random_number(const void *here) {
    uint64_t number;
    if (getrandom(&number, sizeof number, GRND_NONBLOCK) == (ssize_t)sizeof number)
        return number;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return ((uint64_t)now.tv_sec << 30 ^ (uint64_t)now.tv_nsec) * UINT64_C(0x9e3779b97f4a7c15) ^
           (uint64_t)(uintptr_t)here;
}

static int temporary_make(int folder, char *name) {
    int file = -1;
    for (int i = 0; i < TEMPORARY_TRIES && file < 0; i++) {
        snprintf(name, TEMPORARY_BYTES, TEMPORARY "%lld.%016" PRIx64, (long long)getpid(), random_number(name));
        file = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);
        if (file < 0 && errno != EEXIST)
            return -1;
    }
    if (file >= 0)
        (void)!flock(file, LOCK_EX | LOCK_NB); /* some file systems have none: the age decides there */
    return file;
}

bool store_file_write(int folder, const char *name, const char *head, const void *code, size_t code_bytes,
                      ffn_diag *problem) {
    char temporary[TEMPORARY_BYTES];
    int file = temporary_make(folder, temporary);
    if (file < 0) {
        diag_fail(problem, FFN_SYSTEM, "no entry can be written: %s", strerrordesc_np(errno));
        return false;
    }
    /* The umask has had its say in openat. */
    bool kept = fchmod(file, FILE_MODE) == 0 && write_all(file, head, ENTRY_HEAD_BYTES, WRITE_HERE) &&
                write_all(file, code, code_bytes, WRITE_HERE) && fsync(file) == 0 &&
                renameat(folder, temporary, folder, name) == 0;
    if (kept) {
        fsync(folder); /* a folder that cannot be synced may forget the entry, never
                          tear it */
    } else {
        diag_fail(problem, FFN_SYSTEM, "entry %s cannot be written: %s", name, strerrordesc_np(errno));
        unlinkat(folder, temporary, 0);
    }
    close(file);
    return kept;
}

bool store_file_is_temporary(const char *name, int64_t *process) {
    const size_t skipped = sizeof TEMPORARY - 1;
    if (strncmp(name, TEMPORARY, skipped) != 0 || name[skipped] < '1' || name[skipped] > '9')
        return false;
    char *end;
    errno = 0;
    long long number = strtoll(name + skipped, &end, 10);
    if (errno || *end != '.' || strspn(end + 1, "0123456789abcdef") != 16 || end[17] != '\0')
        return false;
    *process = number;
    return true;
}

bool store_file_is_stale(int folder, const char *name, int64_t process, int64_t age_seconds) {
    bool gone = process != (pid_t)process || (kill((pid_t)process, 0) != 0 && errno == ESRCH);
    if (!gone && age_seconds < STALE_SECONDS)
        return false;
    /* In another container the process may live all the same. */
    int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0)
        return false;
    bool held = flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    close(file);
    return !held;
}
