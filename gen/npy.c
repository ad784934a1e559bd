/* npy.c: .npy bytes <-> rows of f32
 *
 * The header is the text of a Python dictionary with three keys. Invariant: nothing is allocated before the header, the
 * product of its shape and the size of the file agree, so that no header can ask for more memory than the file is long
 * (twice as much for '<f2'). */
#include "npy.h"

#include "diag.h"
#include "file.h"
#include "half.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAGIC_BYTES = 6, HEADER_BYTES_MAX = 1 << 16, DESCR_BYTES_MAX = 64 };

static const char magic[MAGIC_BYTES + 1] = "\x93NUMPY";

/* ---- Header ------------------------------------------------------------------------------------------------ */

typedef struct header {
    char descr[DESCR_BYTES_MAX];
    bool fortran;
    int32_t rank;
    int64_t shape[NPY_RANK_MAX];
    const unsigned char *data;
    size_t data_bytes;
} header;

typedef struct cursor {
    const char *at, *end;
    const char *label;
    ffn_diag *diag;
} cursor;

static ffn_status expected(const cursor *c, const char *what) {
    return diag_fail(c->diag, FFN_BAD_FILE, "%s: the .npy header has no %s where one must stand", c->label, what);
}

static void spaces_skip(cursor *c) {
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t' || *c->at == '\r'))
        c->at++;
}

static bool take(cursor *c, char wanted) {
    spaces_skip(c);
    if (c->at >= c->end || *c->at != wanted)
        return false;
    c->at++;
    return true;
}

static bool take_word(cursor *c, const char *word) {
    size_t length = strlen(word);
    spaces_skip(c);
    if ((size_t)(c->end - c->at) < length || memcmp(c->at, word, length) != 0)
        return false;
    c->at += length;
    return true;
}

/* A quoted string without escapes; false if there is none or it is too long for `text`. */
static bool take_string(cursor *c, char *text, size_t text_bytes) {
    char quote = take(c, '\'') ? '\'' : take(c, '"') ? '"' : '\0';
    if (!quote)
        return false;
    size_t length = 0;
    for (; c->at < c->end && *c->at != quote; c->at++) {
        if (*c->at == '\\' || *c->at == '\0' || length + 1 >= text_bytes)
            return false;
        text[length++] = *c->at;
    }
    text[length] = '\0';
    return take(c, quote);
}

static ffn_status shape_parse(cursor *c, header *h) {
    if (!take(c, '('))
        return expected(c, "'(' of a shape");
    h->rank = 0;
    while (!take(c, ')')) {
        if (h->rank == NPY_RANK_MAX)
            return diag_fail(c->diag, FFN_BAD_FILE, "%s: more than %d dimensions", c->label, NPY_RANK_MAX);
        int64_t size = 0;
        const char *first = c->at;
        for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
            if (__builtin_mul_overflow(size, 10, &size) || __builtin_add_overflow(size, *c->at - '0', &size))
                return diag_fail(c->diag, FFN_BAD_FILE, "%s: a dimension is larger than 2^63", c->label);
        if (c->at == first)
            return expected(c, "number in the shape");
        take(c, 'L'); /* as Python 2 wrote it */
        h->shape[h->rank++] = size;
        if (!take(c, ',') && (c->at >= c->end || *c->at != ')'))
            return expected(c, "',' or ')' in the shape");
    }
    return FFN_OK;
}

static ffn_status value_parse(cursor *c, const char *key, header *h, unsigned *seen) {
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    unsigned which = 0;
    while (which < 3 && strcmp(key, keys[which]) != 0)
        which++;
    if (which == 3 || (*seen & 1u << which))
        return diag_fail(c->diag, FFN_BAD_FILE, "%s: the .npy header %s the key '%s'", c->label,
                         which == 3 ? "may not have" : "repeats", key);
    *seen |= 1u << which;
    if (which == 2)
        return shape_parse(c, h);
    if (which == 1) {
        h->fortran = take_word(c, "True");
        return h->fortran || take_word(c, "False") ? FFN_OK : expected(c, "True or False");
    }
    spaces_skip(c);
    if (c->at < c->end && *c->at == '[')
        return diag_fail(c->diag, FFN_BAD_FILE, "%s holds records: an array of '<f4' is needed", c->label);
    return take_string(c, h->descr, sizeof h->descr) ? FFN_OK : expected(c, "type such as '<f4'");
}

static ffn_status dictionary_parse(cursor *c, header *h) {
    unsigned seen = 0;
    if (!take(c, '{'))
        return expected(c, "'{'");
    while (!take(c, '}')) {
        char key[32];
        if (!take_string(c, key, sizeof key) || !take(c, ':'))
            return expected(c, "key");
        spaces_skip(c);
        ffn_status status = value_parse(c, key, h, &seen);
        if (status != FFN_OK)
            return status;
        if (!take(c, ',')) {
            if (!take(c, '}'))
                return expected(c, "',' or '}'");
            break;
        }
    }
    if (seen != 7)
        return diag_fail(c->diag, FFN_BAD_FILE, "%s: the .npy header lacks 'descr', 'fortran_order' or 'shape'",
                         c->label);
    spaces_skip(c);
    return c->at == c->end ? FFN_OK : expected(c, "end");
}

static ffn_status header_parse(const unsigned char *bytes, size_t size, const char *label, header *h, ffn_diag *diag) {
    if (size < MAGIC_BYTES + 4 || memcmp(bytes, magic, MAGIC_BYTES) != 0)
        return diag_fail(diag, FFN_BAD_FILE, "%s is not a .npy file: it does not begin with \\x93NUMPY", label);
    unsigned major = bytes[6], minor = bytes[7];
    if (major < 1 || major > 3 || minor != 0)
        return diag_fail(diag, FFN_BAD_FILE, "%s: .npy version %u.%u; versions 1.0, 2.0 and 3.0 can be read", label,
                         major, minor);
    size_t start = major == 1 ? 10 : 12;
    if (size < start)
        return diag_fail(diag, FFN_BAD_FILE, "%s is truncated inside its .npy header", label);
    size_t length = (size_t)bytes[8] | (size_t)bytes[9] << 8;
    if (major > 1)
        length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    if (length > HEADER_BYTES_MAX)
        return diag_fail(diag, FFN_BAD_FILE, "%s: a .npy header of %zu bytes; at most %d are read", label, length,
                         HEADER_BYTES_MAX);
    if (length > size - start)
        return diag_fail(diag, FFN_BAD_FILE, "%s is truncated inside its .npy header: %zu bytes of %zu are there",
                         label, size - start, length);
    h->data = bytes + start + length;
    h->data_bytes = size - start - length;
    const char *text = (const char *)bytes + start;
    return dictionary_parse(&(cursor){text, text + length, label, diag}, h);
}

/* ---- Elements ---------------------------------------------------------------------------------------------- */

static bool f2_read(const unsigned char *at, float *value) {
    uint16_t bits;
    memcpy(&bits, at, sizeof bits);
    *value = half_f16_widen(bits);
    return true;
}

static bool f4_read(const unsigned char *at, float *value) {
    memcpy(value, at, sizeof *value);
    return true;
}

static bool f8_read(const unsigned char *at, float *value) {
    double wide;
    memcpy(&wide, at, sizeof wide);
    *value = (float)wide;
    return !isfinite(wide) || isfinite(*value);
}

typedef struct element_type {
    const char *descr;
    size_t bytes;
    bool (*read)(const unsigned char *at, float *value); /* false if it does not fit f32 */
} element_type;

static const element_type element_types[] = {{"<f4", 4, f4_read}, {"<f2", 2, f2_read}, {"<f8", 8, f8_read}};

static ffn_status type_find(const header *h, const char *label, const element_type **type, ffn_diag *diag) {
    for (size_t i = 0; i < sizeof element_types / sizeof *element_types; i++)
        if (strcmp(h->descr, element_types[i].descr) == 0) {
            *type = &element_types[i];
            return FFN_OK;
        }
    return diag_fail(diag, FFN_BAD_FILE, "%s holds '%s': '<f4' is needed ('<f2' and '<f8' are converted)", label,
                     h->descr);
}

/* n x d of the shape, and the check that the file is as long as they say. */
static ffn_status extent_find(const header *h, const element_type *type, const char *label, int64_t *n, int64_t *d,
                              ffn_diag *diag) {
    if (h->rank == 0)
        return diag_fail(diag, FFN_BAD_FILE, "%s is a single number: an array [n, d] is needed", label);
    int64_t rows = 1, columns = h->shape[h->rank - 1];
    bool wraps = false;
    for (int32_t i = 0; i < h->rank - 1; i++)
        wraps |= __builtin_mul_overflow(rows, h->shape[i], &rows);
    if (columns == 0)
        return diag_fail(diag, FFN_BAD_FILE, "%s: the last dimension is 0", label);
    int64_t bytes = 0;
    wraps |= __builtin_mul_overflow(rows, columns, &bytes);
    wraps |= __builtin_mul_overflow(bytes, (int64_t)type->bytes, &bytes);
    if (wraps)
        return diag_fail(diag, FFN_BAD_FILE, "%s: the product of the dimensions is larger than 2^63", label);
    if ((uint64_t)bytes != h->data_bytes)
        return diag_fail(diag, FFN_BAD_FILE, "%s %s: its header says %lld bytes of data, %zu are there", label,
                         (uint64_t)bytes > h->data_bytes ? "is truncated" : "has bytes past its end", (long long)bytes,
                         h->data_bytes);
    *n = rows;
    *d = columns;
    return FFN_OK;
}

/* Distance in elements between neighbours of each dimension, as stored. */
static void strides_of(const header *h, size_t strides[NPY_RANK_MAX]) {
    size_t stride = 1;
    for (int32_t i = 0; i < h->rank; i++) {
        int32_t dimension = h->fortran ? i : h->rank - 1 - i;
        strides[dimension] = stride;
        stride *= (size_t)h->shape[dimension];
    }
}

/* Elements in C order -> out; the number of those done before one that does not fit f32. */
static size_t elements_read(const header *h, const element_type *type, size_t count, float *out) {
    size_t strides[NPY_RANK_MAX];
    int64_t index[NPY_RANK_MAX] = {0};
    strides_of(h, strides);
    size_t offset = 0;
    for (size_t i = 0; i < count; i++) {
        if (!type->read(h->data + offset * type->bytes, &out[i]))
            return i;
        int32_t dimension = h->rank - 1;
        offset += strides[dimension];
        while (++index[dimension] == h->shape[dimension] && dimension > 0) {
            offset -= strides[dimension] * (size_t)h->shape[dimension];
            index[dimension] = 0;
            dimension--;
            offset += strides[dimension];
        }
    }
    return count;
}

ffn_status npy_parse(const void *bytes, size_t size, const char *label, float **data, int64_t *n, int64_t *d,
                     ffn_diag *diag) {
    header h = {0};
    const element_type *type = NULL;
    int64_t rows = 0, columns = 0;
    ffn_status status = header_parse(bytes, size, label, &h, diag);
    if (status == FFN_OK)
        status = type_find(&h, label, &type, diag);
    if (status == FFN_OK)
        status = extent_find(&h, type, label, &rows, &columns, diag);
    if (status != FFN_OK)
        return status;

    size_t count = h.data_bytes / type->bytes;
    float *values = malloc(count > 0 ? count * sizeof *values : 1);
    if (!values)
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for the %zu values of %s", count, label);
    size_t done = elements_read(&h, type, count, values);
    if (done < count) {
        free(values);
        return diag_fail(diag, FFN_BAD_FILE, "%s: value %zu (counted from 0) is too large for f32", label, done);
    }
    *data = values;
    *n = rows;
    *d = columns;
    return FFN_OK;
}

ffn_status npy_read(const char *path, float **data, int64_t *n, int64_t *d, ffn_diag *diag) {
    file_map map;
    ffn_status status = file_map_open(path, SIZE_MAX / sizeof(float), &map, diag);
    if (status != FFN_OK)
        return status;
    status = npy_parse(map.data, map.bytes, file_label(path), data, n, d, diag);
    file_map_close(&map);
    return status;
}

/* ---- Out --------------------------------------------------------------------------------------------------- */

ffn_status npy_write(const char *path, const float *data, int64_t n, int64_t d, int64_t ld, ffn_diag *diag) {
    if (n < 0 || d < 1 || ld < d)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "npy_write: n = %lld, d = %lld, ld = %lld: n >= 0, d >= 1, ld >= d",
                         (long long)n, (long long)d, (long long)ld);
    enum { HEADER_BYTES = 128, PREFIX_BYTES = 10 }; /* longest: 82 bytes of dictionary; 128 = 2 x 64 */
    char text[HEADER_BYTES + 1];
    memcpy(text, magic, MAGIC_BYTES);
    memcpy(text + MAGIC_BYTES, (char[]){1, 0, HEADER_BYTES - PREFIX_BYTES, 0}, 4);
    snprintf(text + PREFIX_BYTES, sizeof text - PREFIX_BYTES,
             "{'descr': '<f4', 'fortran_order': False, 'shape': (%lld, %lld), }", (long long)n, (long long)d);
    size_t length = PREFIX_BYTES + strlen(text + PREFIX_BYTES);
    memset(text + length, ' ', HEADER_BYTES - 1 - length);
    text[HEADER_BYTES - 1] = '\n';

    file_writer *writer;
    ffn_status status = file_writer_open(path, &writer, diag);
    if (status != FFN_OK)
        return status;
    file_writer_add(writer, text, HEADER_BYTES);
    for (int64_t i = 0; i < n; i++)
        file_writer_add(writer, data + i * ld, (size_t)d * sizeof *data);
    return file_writer_commit(writer, diag);
}
