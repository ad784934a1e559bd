/* packed_file.c: weights -> a file of packed weights; such a file -> memory that every process shares
 *
 * A file holds a block as it is in memory (docs/packed.md). Invariant: under its name stands a whole file or none. The
 * body is written first, in order and through one buffer, then the header in front of it, since that holds the
 * checksum; what a reader could take for a packed file exists only once all of it is there. */
#define _XOPEN_SOURCE 700 /* pread, pwrite */
#include "packed_file.h"

#include "diag.h"
#include "replace.h"
#include "write.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(sizeof(off_t) == 8, "a block may be larger than 2 GiB");

/* Pieces are gathered into blocks of this size, so that the system keeps the file in large pages: mapping it then takes
 * a third less time than of one that was written in small or crooked parts. */
enum { BLOCK_BYTES = 2 << 20, PIECE_BYTES = 4 << 20, BUFFER_BYTES = BLOCK_BYTES + PIECE_BYTES };
/* ---- Writing ----------------------------------------------------------------------------------------------- */

typedef struct packed_writer {
    pack_sink sink; /* first: a sink is its writer */
    replacement of;
    char *buffer;
    size_t used; /* of the buffer: less than a block */
    off_t at;    /* where its first byte goes in the file */
} packed_writer;

/* The first `bytes` of the buffer -> the file. */
static ffn_status writer_flush(packed_writer *writer, size_t bytes, ffn_diag *diag) {
    if (!write_all(writer->of.file, writer->buffer, bytes, writer->at))
        return replace_fail(writer->of.path, "written", errno, diag);
    writer->at += (off_t)bytes;
    writer->used -= bytes;
    memmove(writer->buffer, writer->buffer + bytes, writer->used);
    return FFN_OK;
}

static ffn_status writer_take(pack_sink *sink, int64_t floats, ffn_diag *diag) {
    packed_writer *writer = (packed_writer *)sink;
    writer->used += (size_t)floats * sizeof(float);
    const ffn_status status = writer_flush(writer, writer->used / BLOCK_BYTES * BLOCK_BYTES, diag);
    sink->room = (float *)(writer->buffer + writer->used);
    return status;
}

static ffn_status writer_open(const char *path, packed_writer *writer, ffn_diag *diag) {
    const ffn_status status = replace_open(path, &writer->of, diag);
    if (status != FFN_OK)
        return status;
    writer->buffer = malloc(BUFFER_BYTES);
    if (writer->buffer == NULL)
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory to write %s", replace_label(path));
    writer->used = sizeof(packed_header); /* its place, empty until the end */
    memset(writer->buffer, 0, writer->used);
    writer->sink = (pack_sink){.room = (float *)(writer->buffer + writer->used),
                               .floats_max = PIECE_BYTES / sizeof(float),
                               .take = writer_take};
    return FFN_OK;
}

/* The rest, then the header, then the name. */
static ffn_status writer_finish(packed_writer *writer, const packed_header *header, ffn_diag *diag) {
    const ffn_status status = writer_flush(writer, writer->used, diag);
    if (status != FFN_OK)
        return status;
    if (!write_all(writer->of.file, header, sizeof *header, 0))
        return replace_fail(writer->of.path, "written", errno, diag);
    return replace_finish(&writer->of, diag);
}

ffn_status packed_file_write(const ffn_spec *spec, const pack_weights *weights, const char *path, packed_header *header,
                             ffn_diag *diag) {
    pack_job job;
    ffn_status status = pack_prepare(spec, weights, &job, diag);
    if (status != FFN_OK)
        return status;
    packed_writer writer = {.buffer = NULL};
    status = writer_open(path, &writer, diag);
    if (status == FFN_OK)
        status = pack_body(&job, &writer.sink, diag);
    if (status == FFN_OK)
        status = writer_finish(&writer, &job.header, diag);
    replace_close(&writer.of);
    free(writer.buffer);
    if (status == FFN_OK && header != NULL)
        *header = job.header;
    return status;
}

ffn_status ffn_pack_file(const ffn_spec *spec, const ffn_weights *weights, const char *path, ffn_diag *diag) {
    if (spec == NULL || weights == NULL || path == NULL)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "%s is NULL", !spec ? "spec" : !weights ? "weights" : "path");
    const pack_weights in_memory = {.weights = *weights};
    return packed_file_write(spec, &in_memory, path, NULL, diag);
}

/* ---- Mapping ----------------------------------------------------------------------------------------------- */

/* The first `bytes` of a file, fewer where it ends before; -1 with errno. */
static ssize_t read_start(int descriptor, void *to, size_t bytes) {
    size_t have = 0;
    while (have < bytes) {
        const ssize_t got = pread(descriptor, (char *)to + have, bytes - have, (off_t)have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        have += (size_t)got;
    }
    return (ssize_t)have;
}

/* The header comes first: of two specs the better message is which one the file is for, not that their sizes differ. */
static ffn_status file_check(int descriptor, const ffn_spec *spec, const char *path, size_t needed, ffn_diag *diag) {
    struct stat info;
    if (fstat(descriptor, &info) != 0)
        return replace_fail(path, "read", errno, diag);
    if (!S_ISREG(info.st_mode))
        return diag_fail(diag, FFN_BAD_FILE, "%s is %s: a regular file is needed", replace_label(path),
                         replace_kind(info.st_mode));
    _Alignas(FFN_PACKED_ALIGN) packed_header header = {.version = 0};
    const ssize_t have = read_start(descriptor, &header, sizeof header);
    if (have < 0)
        return replace_fail(path, "read", errno, diag);
    if (memcmp(header.magic, PACKED_MAGIC, sizeof PACKED_MAGIC) != 0)
        return diag_fail(diag, FFN_BAD_FILE, "%s is no file of packed weights: it does not start with %s",
                         replace_label(path), PACKED_MAGIC);
    ffn_diag detail;
    if ((size_t)have == sizeof header) {
        const ffn_status status = packed_header_check(spec, packed_spec_hash(spec), &header, &detail);
        if (status != FFN_OK)
            return diag_fail(diag, status, "%s: %s", replace_label(path), detail.text);
    }
    if ((uintmax_t)info.st_size != needed)
        return diag_fail(diag, FFN_BAD_FILE, "%s is %ju bytes long, where the weights of this spec take %zu: it is %s",
                         replace_label(path), (uintmax_t)info.st_size, needed,
                         (uintmax_t)info.st_size < needed ? "cut short" : "not that file alone");
    return FFN_OK;
}

ffn_status ffn_packed_map(const ffn_spec *spec, const char *path, const void **packed, size_t *packed_bytes,
                          ffn_diag *diag) {
    if (spec == NULL || path == NULL || packed == NULL || packed_bytes == NULL)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "%s is NULL",
                         !spec     ? "spec"
                         : !path   ? "path"
                         : !packed ? "packed"
                                   : "packed_bytes");
    size_t needed;
    ffn_status status = ffn_packed_bytes(spec, &needed, diag);
    if (status != FFN_OK)
        return status;
    /* O_NONBLOCK: opening a FIFO that nobody writes to would wait for ever. */
    const int descriptor = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (descriptor < 0)
        return replace_fail(path, "opened", errno, diag);
    status = file_check(descriptor, spec, path, needed, diag);
    if (status == FFN_OK) {
        void *block = mmap(NULL, needed, PROT_READ, MAP_SHARED, descriptor, 0);
        if (block == MAP_FAILED) {
            status = replace_fail(path, "mapped", errno, diag);
        } else {
            *packed = block;
            *packed_bytes = needed;
        }
    }
    close(descriptor);
    return status;
}

void ffn_packed_unmap(const void *packed, size_t packed_bytes) {
    if (packed != NULL)
        munmap((void *)(uintptr_t)packed, packed_bytes);
}
