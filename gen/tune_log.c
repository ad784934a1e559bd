/* tune_log.c: lock, torn end, lines */
#define _DEFAULT_SOURCE /* flock, strdup */
#include "tune_log.h"

#include "diag.h"
#include "file.h"
#include "text_file.h"
#include "user_path.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOG_BYTES_MAX ((size_t)1 << 30)

struct tune_log {
    char *path;
    int file;
    off_t length; /* whole lines */
    tune_record *records;
    size_t count, room;
};

static ffn_status system_fail(const char *path, const char *what, ffn_diag *diag) {
    return diag_fail(diag, FFN_SYSTEM, "%s %s: %s", file_label(path), what, strerror(errno));
}

static ffn_status open_locked(tune_log *log, ffn_diag *diag) {
    log->file = open(log->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    struct stat is;
    if (log->file < 0 || fstat(log->file, &is))
        return system_fail(log->path, "cannot be opened for adding", diag);
    if (!S_ISREG(is.st_mode))
        return diag_fail(diag, FFN_BAD_FILE, "%s is no regular file", file_label(log->path));
    if (flock(log->file, LOCK_EX | LOCK_NB))
        return errno == EWOULDBLOCK ? diag_fail(diag, FFN_SYSTEM,
                                                "%s: another ffngen tune is adding to it; --log names "
                                                "another file",
                                                file_label(log->path))
                                    : system_fail(log->path, "cannot be locked", diag);
    log->length = is.st_size;
    return FFN_OK;
}

/* Back to the last end of a line. */
static ffn_status cut_torn(tune_log *log, bool *torn, ffn_diag *diag) {
    char block[4096];
    off_t end = log->length;
    while (end > 0) {
        size_t bytes = end < (off_t)sizeof block ? (size_t)end : sizeof block;
        if (pread(log->file, block, bytes, end - (off_t)bytes) != (ssize_t)bytes)
            return system_fail(log->path, "cannot be read", diag);
        while (bytes > 0 && block[bytes - 1] != '\n')
            bytes--, end--;
        if (bytes > 0)
            break;
    }
    *torn = end < log->length;
    if (*torn && ftruncate(log->file, end))
        return system_fail(log->path, "ends in a torn line that cannot be cut off", diag);
    log->length = end;
    return FFN_OK;
}

static ffn_status keep(tune_log *log, const char *line, long number, ffn_diag *diag) {
    if (log->count == log->room) {
        size_t room = log->room ? 2 * log->room : 256;
        tune_record *records = realloc(log->records, room * sizeof *records);
        if (!records)
            return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for the %zu lines of a log", room);
        log->records = records;
        log->room = room;
    }
    ffn_diag problem;
    if (tune_record_parse(line, &log->records[log->count], &problem))
        return diag_fail(diag, FFN_BAD_FILE, "%s:%ld: %.300s", file_label(log->path), number, problem.text);
    log->count++;
    return FFN_OK;
}

static ffn_status read_all(tune_log *log, ffn_diag *diag) {
    char *text, *rest;
    bool ended;
    ffn_status status = text_file_read(log->path, LOG_BYTES_MAX, &text, NULL, diag);
    if (status)
        return status;
    rest = text;
    for (long number = 1; rest && *rest && !status; number++)
        status = keep(log, text_file_line(&rest, &ended), number, diag);
    free(text);
    return status;
}

ffn_status tune_log_open(const char *path, bool read, tune_log **log, bool *torn, ffn_diag *diag) {
    tune_log *made = calloc(1, sizeof *made);
    if (made)
        made->file = -1;
    ffn_status status = made && (made->path = strdup(path)) != NULL
                            ? open_locked(made, diag)
                            : diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for a log");
    if (!status)
        status = cut_torn(made, torn, diag);
    if (!status && read)
        status = read_all(made, diag);
    if (status)
        tune_log_close(made);
    else
        *log = made;
    return status;
}

void tune_log_close(tune_log *log) {
    if (!log)
        return;
    if (log->file >= 0)
        close(log->file);
    free(log->path);
    free(log->records);
    free(log);
}

const tune_record *tune_log_at(const tune_log *log, size_t i) {
    return i < log->count ? &log->records[i] : NULL;
}

ffn_status tune_log_append(tune_log *log, const tune_record *record, ffn_diag *diag) {
    json_line line = tune_record_line(record);
    char *text = line.complete ? cJSON_PrintUnformatted(line.object) : NULL;
    size_t bytes = text ? strlen(text) + 1 : 0;
    char *whole = text ? malloc(bytes) : NULL;
    ffn_status status = FFN_OK;
    if (whole) {
        memcpy(whole, text, bytes - 1);
        whole[bytes - 1] = '\n';
        errno = EIO; /* of a write that was cut short */
        if (pwrite(log->file, whole, bytes, log->length) != (ssize_t)bytes || fdatasync(log->file)) {
            status = system_fail(log->path, "cannot be added to", diag);
            if (ftruncate(log->file, log->length))
                status = system_fail(log->path, "cannot be added to", diag);
        } else {
            log->length += (off_t)bytes;
        }
    } else {
        status = diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for a line of a log");
    }
    free(whole);
    cJSON_free(text);
    cJSON_Delete(line.object);
    return status;
}

char *tune_log_default(ffn_diag *diag) {
    static const user_place state = {"XDG_STATE_HOME", ".local/state"};
    char *path = user_path_of(&state, "tune.jsonl", diag);
    for (char *slash = path ? strchr(path + 1, '/') : NULL; slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        struct stat is;
        bool there = !stat(path, &is) || !mkdir(path, 0700) || errno == EEXIST;
        if (!there) {
            system_fail(path, "cannot be made", diag);
            free(path);
            return NULL;
        }
        *slash = '/';
    }
    return path;
}
