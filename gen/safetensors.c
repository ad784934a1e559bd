/* safetensors.c: bytes of a safetensors file -> its checked table of tensors
 *
 *     8 bytes: length of the header, little-endian | header: a JSON object | the elements of all tensors
 *
 * The header is scanned before the JSON parser sees it: what the parser is lax about (NUL bytes that would cut a name
 * short, nesting, the number of values and so the memory it takes) is refused there. Then each tensor is checked by
 * itself, and last all of them together: by name for duplicates, by offset for overlaps and gaps. */
#include "safetensors.h"

#include "diag.h"
#include "file.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LENGTH_BYTES = 8,
    DEPTH_MAX = 8,         /* the format needs 3 */
    VALUES_MAX = 4 << 20,  /* about 500 000 tensors, 400 MB of parsed JSON */
    NAME_BYTES_MAX = 4096, /* longer than any path of modules */
};

struct safetensors {
    file_map map; /* zeros where the caller owns the bytes */
    cJSON *header;
    safetensors_tensor *tensors; /* by name */
    size_t count;
};

/* ---- The header as text ------------------------------------------------------------------------------------ */

/* Refuses what the JSON parser would take and should not. */
static ffn_status text_check(const char *text, size_t length, const char *label, ffn_diag *diag) {
    int depth = 0;
    size_t values = 0;
    bool quoted = false;
    if (memchr(text, '\0', length))
        return diag_fail(diag, FFN_BAD_FILE, "%s: a NUL byte in the header", label);
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (quoted) {
            if (c == '\\') {
                if (length - i >= 6 && memcmp(text + i, "\\u0000", 6) == 0)
                    return diag_fail(diag, FFN_BAD_FILE, "%s: a NUL character in a string of the header", label);
                i++;
            } else if (c == '"') {
                quoted = false;
            }
            continue;
        }
        quoted = c == '"';
        depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        values += c == ',' || c == '[' || c == '{';
        if (depth > DEPTH_MAX)
            return diag_fail(diag, FFN_BAD_FILE, "%s: the header is nested more than %d deep", label, DEPTH_MAX);
        if (values > VALUES_MAX)
            return diag_fail(diag, FFN_BAD_FILE, "%s: the header holds more than %d values", label, VALUES_MAX);
    }
    return FFN_OK;
}

static ffn_status header_parse(const unsigned char *bytes, size_t size, const char *label, cJSON **header,
                               size_t *data_offset, ffn_diag *diag) {
    if (size < LENGTH_BYTES)
        return diag_fail(diag, FFN_BAD_FILE, "%s: %zu bytes are too few for a safetensors file", label, size);
    uint64_t length = 0;
    for (int i = LENGTH_BYTES - 1; i >= 0; i--)
        length = length << 8 | bytes[i];
    if (length > SAFETENSORS_HEADER_BYTES_MAX)
        return diag_fail(diag, FFN_BAD_FILE,
                         "%s is not a safetensors file: its first 8 bytes give a header of %llu bytes, at most %d are "
                         "allowed",
                         label, (unsigned long long)length, SAFETENSORS_HEADER_BYTES_MAX);
    if (length > size - LENGTH_BYTES)
        return diag_fail(diag, FFN_BAD_FILE, "%s is truncated: a header of %llu bytes, %zu are there", label,
                         (unsigned long long)length, size - LENGTH_BYTES);
    const char *text = (const char *)bytes + LENGTH_BYTES;
    if (length == 0 || text[0] != '{')
        return diag_fail(diag, FFN_BAD_FILE, "%s is not a safetensors file: the header does not begin with '{'", label);
    ffn_status status = text_check(text, (size_t)length, label, diag);
    if (status != FFN_OK)
        return status;

    const char *end = NULL;
    cJSON *json = cJSON_ParseWithLengthOpts(text, (size_t)length, &end, 0);
    while (json && end < text + length && (*end == ' ' || *end == '\n' || *end == '\t' || *end == '\r'))
        end++;
    if (!json || end != text + length) {
        size_t at = end ? (size_t)(end - text) : 0;
        cJSON_Delete(json);
        return diag_fail(diag, FFN_BAD_FILE, "%s: the header is not valid JSON at its byte %zu", label, at);
    }
    *header = json;
    *data_offset = LENGTH_BYTES + (size_t)length;
    return FFN_OK;
}

/* ---- One tensor -------------------------------------------------------------------------------------------- */

typedef struct source {
    const unsigned char *data;
    int64_t bytes;
    const char *label;
    ffn_diag *diag;
} source;

/* A whole number that a double holds exactly. */
static bool whole_number(const cJSON *item, int64_t *value) {
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble <= 0x1p53))
        return false;
    *value = (int64_t)item->valuedouble;
    return (double)*value == item->valuedouble;
}

static bool printable(const char *name) {
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return false;
    return true;
}

static ffn_status fields_find(const source *s, const cJSON *entry, const cJSON *fields[3]) {
    static const char *const names[] = {"dtype", "shape", "data_offsets"};
    const cJSON *field;
    cJSON_ArrayForEach(field, entry) {
        int which = 0;
        while (which < 3 && strcmp(field->string, names[which]) != 0)
            which++;
        if (which == 3 || fields[which])
            return diag_fail(s->diag, FFN_BAD_FILE, "%s: tensor '%s' %s the field '%s'", s->label, entry->string,
                             which == 3 ? "may not have" : "repeats", field->string);
        fields[which] = field;
    }
    for (int i = 0; i < 3; i++)
        if (!fields[i])
            return diag_fail(s->diag, FFN_BAD_FILE, "%s: tensor '%s' has no '%s'", s->label, entry->string, names[i]);
    return FFN_OK;
}

static ffn_status dtype_parse(const source *s, const cJSON *field, safetensors_tensor *tensor) {
    for (int i = 0; cJSON_IsString(field) && i < SAFETENSORS_DTYPES; i++)
        if (strcmp(field->valuestring, safetensors_dtype_name((safetensors_dtype)i)) == 0) {
            tensor->dtype = (safetensors_dtype)i;
            return FFN_OK;
        }
    return diag_fail(s->diag, FFN_BAD_FILE, "%s: tensor '%s' has dtype '%.32s', which the format does not have",
                     s->label, tensor->name, cJSON_IsString(field) ? field->valuestring : "(not a string)");
}

static ffn_status shape_parse(const source *s, const cJSON *field, safetensors_tensor *tensor) {
    const cJSON *item;
    tensor->elements = 1;
    bool wraps = false, empty = false;
    if (!cJSON_IsArray(field))
        return diag_fail(s->diag, FFN_BAD_FILE, "%s: the shape of '%s' is not a list", s->label, tensor->name);
    cJSON_ArrayForEach(item, field) {
        if (tensor->rank == SAFETENSORS_RANK_MAX)
            return diag_fail(s->diag, FFN_BAD_FILE, "%s: '%s' has more than %d dimensions", s->label, tensor->name,
                             SAFETENSORS_RANK_MAX);
        int64_t size;
        if (!whole_number(item, &size))
            return diag_fail(s->diag, FFN_BAD_FILE, "%s: dimension %d of '%s' is not a whole number from 0 to 2^53",
                             s->label, tensor->rank, tensor->name);
        tensor->shape[tensor->rank++] = size;
        empty |= size == 0;
        wraps |= __builtin_mul_overflow(tensor->elements, size, &tensor->elements);
    }
    int64_t bits = 0;
    wraps |= __builtin_mul_overflow(tensor->elements, safetensors_dtype_bits(tensor->dtype), &bits);
    if (empty) {
        tensor->elements = bits = 0;
    } else if (wraps) {
        return diag_fail(s->diag, FFN_BAD_FILE, "%s: the shape of '%s' overflows", s->label, tensor->name);
    }
    if (bits % 8 != 0)
        return diag_fail(s->diag, FFN_BAD_FILE, "%s: '%s' does not fill whole bytes", s->label, tensor->name);
    tensor->bytes = bits / 8;
    return FFN_OK;
}

static ffn_status offsets_parse(const source *s, const cJSON *field, safetensors_tensor *tensor) {
    int64_t begin, end;
    if (!cJSON_IsArray(field) || cJSON_GetArraySize(field) != 2 || !whole_number(field->child, &begin) ||
        !whole_number(field->child->next, &end) || begin > end)
        return diag_fail(s->diag, FFN_BAD_FILE, "%s: the data_offsets of '%s' are not [begin, end], begin <= end",
                         s->label, tensor->name);
    if (end > s->bytes)
        return diag_fail(
            s->diag, FFN_BAD_FILE,
            "%s: '%s' ends at byte %lld of the data, but the file ends at %lld: truncated or a wrong header", s->label,
            tensor->name, (long long)end, (long long)s->bytes);
    if (end - begin != tensor->bytes) {
        char shape[96];
        safetensors_shape_format(tensor, shape, sizeof shape);
        return diag_fail(s->diag, FFN_BAD_FILE, "%s: '%s' is %s %s and needs %lld bytes, its data_offsets give %lld",
                         s->label, tensor->name, safetensors_dtype_name(tensor->dtype), shape, (long long)tensor->bytes,
                         (long long)(end - begin));
    }
    tensor->data = s->data + begin;
    return FFN_OK;
}

static ffn_status tensor_parse(const source *s, const cJSON *entry, safetensors_tensor *tensor) {
    size_t name_bytes = strlen(entry->string);
    if (name_bytes == 0 || name_bytes > NAME_BYTES_MAX || !printable(entry->string))
        return diag_fail(s->diag, FFN_BAD_FILE,
                         "%s: a tensor's name is empty, longer than %d bytes or holds control characters", s->label,
                         NAME_BYTES_MAX);
    if (!cJSON_IsObject(entry))
        return diag_fail(s->diag, FFN_BAD_FILE, "%s: '%s' is not described by an object", s->label, entry->string);
    *tensor = (safetensors_tensor){.name = entry->string};
    const cJSON *fields[3] = {NULL, NULL, NULL};
    ffn_status status = fields_find(s, entry, fields);
    if (status == FFN_OK)
        status = dtype_parse(s, fields[0], tensor);
    if (status == FFN_OK)
        status = shape_parse(s, fields[1], tensor);
    if (status == FFN_OK)
        status = offsets_parse(s, fields[2], tensor);
    return status;
}

static ffn_status metadata_check(const source *s, const cJSON *entry) {
    bool strings = cJSON_IsObject(entry);
    const cJSON *item;
    cJSON_ArrayForEach(item, entry) strings &= cJSON_IsString(item);
    return strings ? FFN_OK
                   : diag_fail(s->diag, FFN_BAD_FILE, "%s: __metadata__ is not an object of strings", s->label);
}

/* ---- All tensors ------------------------------------------------------------------------------------------- */

static int by_offset(const void *left, const void *right) {
    const safetensors_tensor *a = left, *b = right;
    uintptr_t x = (uintptr_t)a->data, y = (uintptr_t)b->data;
    if (x != y)
        return x < y ? -1 : 1;
    return a->bytes < b->bytes ? -1 : a->bytes > b->bytes; /* an empty one does not overlap what starts there */
}

static int by_name(const void *left, const void *right) {
    const safetensors_tensor *a = left, *b = right;
    return strcmp(a->name, b->name);
}

/* The data is a row of tensors without gap or overlap; leaves them in the order of names. */
static ffn_status together_check(const source *s, safetensors *file) {
    int64_t at = 0;
    const char *before = NULL;
    qsort(file->tensors, file->count, sizeof *file->tensors, by_offset);
    for (size_t i = 0; i < file->count; i++) {
        const safetensors_tensor *t = &file->tensors[i];
        int64_t begin = (const unsigned char *)t->data - s->data;
        if (begin < at)
            return diag_fail(s->diag, FFN_BAD_FILE, "%s: the bytes of '%s' and '%s' overlap", s->label, before,
                             t->name);
        if (begin > at)
            return diag_fail(s->diag, FFN_BAD_FILE, "%s: %lld bytes before '%s' belong to no tensor", s->label,
                             (long long)(begin - at), t->name);
        at = begin + t->bytes;
        before = t->name;
    }
    if (at != s->bytes)
        return diag_fail(s->diag, FFN_BAD_FILE, "%s: the last %lld bytes belong to no tensor", s->label,
                         (long long)(s->bytes - at));
    qsort(file->tensors, file->count, sizeof *file->tensors, by_name);
    for (size_t i = 1; i < file->count; i++)
        if (strcmp(file->tensors[i - 1].name, file->tensors[i].name) == 0)
            return diag_fail(s->diag, FFN_BAD_FILE, "%s: two tensors are named '%s'", s->label, file->tensors[i].name);
    return FFN_OK;
}

static ffn_status tensors_parse(const source *s, safetensors *file) {
    size_t entries = 0;
    bool metadata = false;
    const cJSON *entry;
    cJSON_ArrayForEach(entry, file->header) entries++;
    file->tensors = calloc(entries + 1, sizeof *file->tensors);
    if (!file->tensors)
        return diag_fail(s->diag, FFN_OUT_OF_MEMORY, "no memory for the %zu tensors of %s", entries, s->label);
    cJSON_ArrayForEach(entry, file->header) {
        ffn_status status;
        if (strcmp(entry->string, "__metadata__") != 0) {
            status = tensor_parse(s, entry, &file->tensors[file->count++]);
        } else if (metadata) {
            status = diag_fail(s->diag, FFN_BAD_FILE, "%s: __metadata__ is there twice", s->label);
        } else {
            metadata = true;
            status = metadata_check(s, entry);
        }
        if (status != FFN_OK)
            return status;
    }
    return together_check(s, file);
}

ffn_status safetensors_parse(const void *bytes, size_t size, const char *label, safetensors **out, ffn_diag *diag) {
    size_t data_offset = 0;
    cJSON *header = NULL;
    ffn_status status = header_parse(bytes, size, label, &header, &data_offset, diag);
    if (status != FFN_OK)
        return status;
    safetensors *file = calloc(1, sizeof *file);
    if (!file) {
        cJSON_Delete(header);
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory to read %s", label);
    }
    file->header = header;
    source s = {(const unsigned char *)bytes + data_offset, (int64_t)(size - data_offset), label, diag};
    status = tensors_parse(&s, file);
    if (status != FFN_OK) {
        safetensors_close(file);
        return status;
    }
    *out = file;
    return FFN_OK;
}

ffn_status safetensors_open(const char *path, safetensors **out, ffn_diag *diag) {
    file_map map;
    safetensors *file;
    ffn_status status = file_map_open(path, PTRDIFF_MAX, &map, diag);
    if (status != FFN_OK)
        return status;
    status = safetensors_parse(map.data, map.bytes, file_label(path), &file, diag);
    if (status != FFN_OK) {
        file_map_close(&map);
        return status;
    }
    file->map = map;
    *out = file;
    return FFN_OK;
}

void safetensors_close(safetensors *file) {
    if (!file)
        return;
    file_map_close(&file->map);
    cJSON_Delete(file->header);
    free(file->tensors);
    free(file);
}

void safetensors_release(const safetensors *file, const void *begin, const void *end) {
    if (file->map.bytes > 0)
        file_map_release(&file->map, begin, end);
}

/* ---- Use --------------------------------------------------------------------------------------------------- */

const safetensors_tensor *safetensors_find(const safetensors *file, const char *name) {
    safetensors_tensor key = {.name = name};
    return file->count ? bsearch(&key, file->tensors, file->count, sizeof *file->tensors, by_name) : NULL;
}

const safetensors_tensor *safetensors_at(const safetensors *file, size_t i) {
    return i < file->count ? &file->tensors[i] : NULL;
}

const char *safetensors_metadata(const safetensors *file, const char *key) {
    const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(file->header, "__metadata__");
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(metadata, key));
}
