/* npy.h: NumPy's .npy arrays <-> rows of f32
 *
 * In: format versions 1.0, 2.0 and 3.0, C or Fortran order. '<f4' is taken as it is, '<f2' widens exactly, '<f8' is
 * rounded to nearest (a finite value beyond f32 is an error); every other type is an error. The last dimension is d,
 * all dimensions before it together are n: (d,) is one row, (1, n, d) is n rows. The file must be as long as its header
 * says, to the byte. Out: '<f4', C order, version 1.0, the data 64-byte aligned in the file. */
#ifndef FFN_NPY_H
#define FFN_NPY_H

#include "ffn.h"

#define NPY_RANK_MAX 8

/* data: [n][d], dense, the caller's to free(); not NULL even if n is 0. */
ffn_status npy_read(const char *path, float **data, int64_t *n, int64_t *d, ffn_diag *diag);
/* The same from memory; `label` stands for the file in messages. */
ffn_status npy_parse(const void *bytes, size_t size, const char *label, float **data, int64_t *n, int64_t *d,
                     ffn_diag *diag);

/* data: [n][d] at a stride of ld elements, ld >= d. Atomic (file.h). */
ffn_status npy_write(const char *path, const float *data, int64_t n, int64_t d, int64_t ld, ffn_diag *diag);

#endif
