/* support_files.h: a folder of a test's own, whole files in and out of memory, safetensors files with random numbers
 *
 * What cannot be had ends the test with a message. */
#ifndef SUPPORT_FILES_H
#define SUPPORT_FILES_H

#include "ffn.h"

/* .init and .fini of a test: a new folder in $TMPDIR or /tmp; away with all that is in it. */
void support_folder_make(void);
void support_folder_remove(void);
/* The path of a name in that folder; good until the eighth call after. */
const char *support_path(const char *name);
/* How many names the folder holds. */
int support_folder_count(void);

void support_file_write(const char *path, const void *data, size_t bytes);
/* The whole file, 64-byte aligned; free() it. */
void *support_file_read(const char *path, size_t *bytes);
/* Fails the test if the file is not exactly these bytes. */
void support_file_expect(const char *path, const void *want, size_t want_bytes, const char *what);

/* Tensors of one type with random values, the parts that the spec has: w1, wg, w2, b1, bg, b2; a fused matrix stands in
 * w1 and its biases in b1. `pad` bytes of the header decide how the elements lie. */
typedef struct support_tensors {
    const char *dtype; /* "F32", "F16" or "BF16" */
    ffn_layout layout; /* of every matrix */
    ffn_gate_order order;
    int pad;
    bool zeros; /* holes in the file, for large ones */
} support_tensors;
void support_safetensors_write(const char *path, const ffn_spec *spec, const support_tensors *tensors, uint64_t seed);

#endif
