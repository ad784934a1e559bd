/* tools_perf.c: named parts -> lines of /tmp/perf-<pid>.map, where perf looks for the names of generated code
 *
 *     START SIZE name        both hexadecimal, without 0x
 *
 * perf prescribes the place, a folder that everyone may write to; so the file is taken only if it is a plain file of
 * this user's own, with one name, that nobody else may write: never through a link, never a pipe. Other generators in
 * this process may write to it too: it is appended to, one write for each image. A file that was last written before
 * this process began belongs to an earlier one that had the same number, and is emptied first.
 *
 * Lines are never taken back: perf reads them when the process may long be gone. */
#define _GNU_SOURCE
#include "tools_code.h"

#include "write.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES (SYMBOL_BYTES + 40)

/* Seconds since the epoch at which this process began, from field 22 of /proc/self/stat; 0 if that cannot be read. */
static double process_begin(void) {
    char text[1024];
    int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t length = file >= 0 ? read(file, text, sizeof text - 1) : -1;
    if (file >= 0)
        close(file);
    if (length <= 0)
        return 0;
    text[length] = '\0';
    const char *at = strrchr(text, ')'); /* field 2, the name, may hold anything */
    for (int field = 2; at != NULL && field < 22; field++)
        at = strchr(at + 1, ' ');
    unsigned long long ticks;
    if (at == NULL || sscanf(at, "%llu", &ticks) != 1)
        return 0;
    struct timespec now, since_boot;
    clock_gettime(CLOCK_REALTIME, &now);
    clock_gettime(CLOCK_BOOTTIME, &since_boot);
    double boot = (double)(now.tv_sec - since_boot.tv_sec) + (double)(now.tv_nsec - since_boot.tv_nsec) * 1e-9;
    return boot + (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

static bool is_ours(const struct stat *info) {
    return S_ISREG(info->st_mode) && info->st_uid == geteuid() && info->st_nlink == 1 &&
           (info->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* The second is for clocks that were set and for coarse time stamps. */
static bool is_older_than_process(const struct stat *info) {
    return (double)info->st_mtim.tv_sec + (double)info->st_mtim.tv_nsec * 1e-9 < process_begin() - 1;
}

bool tools_perf_write(const tools_code *code) {
    char path[64], lines[SYMBOL_PARTS * LINE_BYTES];
    size_t bytes = 0;
    for (int p = 0; p < code->count; p++) {
        const tools_part *part = &code->parts[p];
        bytes += (size_t)snprintf(lines + bytes, sizeof lines - bytes, "%llx %llx %s\n",
                                  (unsigned long long)part->address, (unsigned long long)part->bytes, part->name);
    }
    snprintf(path, sizeof path, "/tmp/perf-%ld.map", (long)getpid());
    int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (file < 0)
        return false;
    struct stat info;
    bool good = fstat(file, &info) == 0 && is_ours(&info);
    if (good && is_older_than_process(&info))
        good = ftruncate(file, 0) == 0;
    good = good && write_all(file, lines, bytes, WRITE_HERE);
    return close(file) == 0 && good;
}
