/* text_file.c: see text_file.h */
#define _POSIX_C_SOURCE 200809L
#include "text_file.h"

#include "diag.h"
#include "replace.h"
#include "write.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Reading ----------------------------------------------------------------------------------------------- */

/* One byte more than the file says is asked for, so that one that grows meanwhile is noticed. */
static ffn_status read_open(int file, const char *path, size_t bytes_max, char **text, ffn_diag *diag) {
    struct stat info;
    if (fstat(file, &info) != 0)
        return replace_fail(path, "read", errno, diag);
    if (!S_ISREG(info.st_mode))
        return diag_fail(diag, FFN_BAD_FILE, "%s is no regular file", replace_label(path));
    if ((uintmax_t)info.st_size > bytes_max)
        return diag_fail(diag, FFN_BAD_FILE, "%s is %ju bytes long: at most %zu can be read", replace_label(path),
                         (uintmax_t)info.st_size, bytes_max);
    const size_t bytes = (size_t)info.st_size;
    char *data = malloc(bytes + 1);
    if (data == NULL)
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory to read %s", replace_label(path));
    size_t have = 0;
    ssize_t part = 1;
    while (have <= bytes && (part = read(file, data + have, bytes + 1 - have)) != 0)
        if (part > 0)
            have += (size_t)part;
        else if (errno != EINTR)
            break;
    ffn_status status = FFN_OK;
    if (part < 0)
        status = replace_fail(path, "read", errno, diag);
    else if (have != bytes)
        status = diag_fail(diag, FFN_BAD_FILE, "%s changed while it was read", replace_label(path));
    else if (memchr(data, 0, bytes) != NULL)
        status = diag_fail(diag, FFN_BAD_FILE, "%s is no text: it holds a zero byte", replace_label(path));
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
        return replace_fail(path, "opened", errno, diag);
    const ffn_status status = read_open(file, path, bytes_max, text, diag);
    close(file);
    return status;
}

/* ---- Writing ----------------------------------------------------------------------------------------------- */

ffn_status text_file_write(const char *path, const char *text, size_t bytes, ffn_diag *diag) {
    replacement of;
    ffn_status status = replace_open(path, &of, diag);
    if (status == FFN_OK && !write_all(of.file, text, bytes, WRITE_HERE))
        status = replace_fail(path, "written", errno, diag);
    if (status == FFN_OK)
        status = replace_finish(&of, diag);
    replace_close(&of);
    return status;
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
