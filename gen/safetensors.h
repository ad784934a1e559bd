/* safetensors.h: a safetensors file -> a checked table of its tensors, pointing into the mapped file
 *
 * Once open, every tensor holds: offsets inside the file, bytes equal to shape times element size, no overlap with
 * another and no bytes that belong to none, a name that is unique and printable. A header that claims anything else is
 * BAD_FILE and says what it claims. */
#ifndef FFN_SAFETENSORS_H
#define FFN_SAFETENSORS_H

#include "ffn.h"

#define SAFETENSORS_RANK_MAX 8
#define SAFETENSORS_HEADER_BYTES_MAX (100 * 1000 * 1000)

/*   name, bits of an element (the format's list; only F32, F16 and BF16 are turned into numbers here) */
#define SAFETENSORS_DTYPE_LIST(X) \
    X(F32, 32)                    \
    X(F16, 16)                    \
    X(BF16, 16)                   \
    X(F64, 64)                    \
    X(C64, 64)                    \
    X(F8_E4M3, 8)                 \
    X(F8_E5M2, 8)                 \
    X(F8_E8M0, 8)                 \
    X(F6_E2M3, 6)                 \
    X(F6_E3M2, 6)                 \
    X(F4, 4)                      \
    X(BOOL, 8)                    \
    X(I8, 8)                      \
    X(U8, 8)                      \
    X(I16, 16)                    \
    X(U16, 16)                    \
    X(I32, 32)                    \
    X(U32, 32)                    \
    X(I64, 64)                    \
    X(U64, 64)

typedef enum safetensors_dtype {
#define SAFETENSORS_DTYPE_ENUM(name, bits) SAFETENSORS_##name,
    SAFETENSORS_DTYPE_LIST(SAFETENSORS_DTYPE_ENUM)
#undef SAFETENSORS_DTYPE_ENUM
        SAFETENSORS_DTYPES
} safetensors_dtype;

typedef struct safetensors_tensor {
    const char *name;
    safetensors_dtype dtype;
    int32_t rank;
    int64_t shape[SAFETENSORS_RANK_MAX];
    int64_t elements;
    const void *data; /* little-endian, any alignment */
    int64_t bytes;
} safetensors_tensor;

typedef struct safetensors safetensors;

ffn_status safetensors_open(const char *path, safetensors **file, ffn_diag *diag);
/* The same from memory, which must outlive `file`; `label` stands for the file in messages. */
ffn_status safetensors_parse(const void *bytes, size_t size, const char *label, safetensors **file, ffn_diag *diag);
void safetensors_close(safetensors *file); /* NULL is allowed */

/* NULL if there is none of that name. Tensors live until close. */
const safetensors_tensor *safetensors_find(const safetensors *file, const char *name);
/* The i-th in the order of names, or NULL past the end. */
const safetensors_tensor *safetensors_at(const safetensors *file, size_t i);
/* A string of the file's __metadata__, or NULL. */
const char *safetensors_metadata(const safetensors *file, const char *key);

const char *safetensors_dtype_name(safetensors_dtype dtype);
int64_t safetensors_dtype_bits(safetensors_dtype dtype); /* of one element */
/* "[512, 1536]" */
void safetensors_shape_format(const safetensors_tensor *tensor, char *text, size_t text_bytes);

/* BAD_FILE for types that the next two do not turn into numbers. */
ffn_status safetensors_float_check(const safetensors_tensor *tensor, ffn_diag *diag);
/* Elements first .. first + count - 1 as f32, of a tensor that passed that check. */
void safetensors_read(const safetensors_tensor *tensor, int64_t first, int64_t count, float *to);
/* Bytes of a tensor that are not needed soon: they leave memory, and come back from the file when read. Does nothing
 * for a file that was parsed from memory. */
void safetensors_release(const safetensors *file, const void *begin, const void *end);

/* All elements as f32. `data` points into the file where that is F32 and aligned; else at `*owned`, a widened copy for
 * the caller to free() (NULL where nothing was copied). BAD_FILE for other types. */
ffn_status safetensors_floats(const safetensors_tensor *tensor, const float **data, float **owned, ffn_diag *diag);

#endif
