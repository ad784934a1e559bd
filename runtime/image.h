/* image.h: the bytes of a compiled kernel, and their way into executable memory without LLVM
 *
 * An image is position-independent code with its constants, relocated when it was built: [header][text][rodata]. What
 * the runtime maps, a disk store keeps and a deployment ships are the same bytes. Layout: docs/image.md. */
#ifndef FFN_IMAGE_H
#define FFN_IMAGE_H

#include "ffn.h"

#define IMAGE_MAGIC "FFNIMAGE"
#define IMAGE_VERSION 4
#define IMAGE_ALIGN 4096
#define IMAGE_SCRATCH_BYTES_MAX (UINT64_C(1) << 40) /* more cannot be meant */

/* Entry points (C calling convention of the platform). `packed` and `scratch` as in ffn_args. Rows of y may be written
 * more than once before an entry returns, but only inside [row][0 .. d_model-1]. */
typedef void (*image_fused)(const float *x, int64_t ldx, float *y, int64_t ldy, const void *packed, void *scratch,
                            int64_t row_begin, int64_t row_end);
/* hidden: [n][image hidden stride]; columns col_begin .. col_end-1 of d_ff, a multiple of 16 or the whole width. */
typedef void (*image_expand)(const float *x, int64_t ldx, const void *packed, float *hidden, void *scratch, int64_t n,
                             int64_t col_begin, int64_t col_end);
typedef void (*image_contract)(const float *hidden, const void *packed, float *y, int64_t ldy, void *scratch, int64_t n,
                               int64_t col_begin, int64_t col_end);
typedef void (*image_activate)(int64_t count, const float *g, const float *u, float *out);

typedef enum image_entry { IMAGE_FUSED, IMAGE_EXPAND, IMAGE_CONTRACT, IMAGE_ACTIVATE, IMAGE_ENTRIES } image_entry;

/* Stride in floats of the hidden buffer of the two stages, for every ISA and plan: d_ff padded to panels. */
static inline int64_t image_hidden_stride(const ffn_spec *spec) {
    return (spec->d_ff + FFN_PANEL - 1) / FFN_PANEL * FFN_PANEL;
}

typedef struct image_header { /* little-endian; the text section starts at IMAGE_ALIGN */
    char magic[8];
    uint32_t version;
    uint32_t header_bytes;
    uint64_t total_bytes;
    uint64_t checksum; /* XXH3 of the whole image with this field zero */
    uint64_t generator_hash;
    char llvm_version[16];
    uint32_t isa;
    uint32_t verified;  /* 1 once verification passed */
    uint64_t cpu_needs; /* FFN_CPU_* bits */
    uint64_t scratch_bytes;
    uint64_t text_offset, text_bytes;     /* text_offset is a multiple of IMAGE_ALIGN */
    uint64_t rodata_offset, rodata_bytes; /* rodata starts on a page of its own */
    uint64_t entries[IMAGE_ENTRIES];      /* offsets from the start of the image */
    ffn_plan plan;
    ffn_spec spec;
} image_header;

typedef struct image {            /* a mapped image, or code that was there already; immutable */
    const image_header *header;   /* the mapped copy, read-only */
    image_header *header_on_heap; /* the same, of code that is part of the program; else NULL */
    void *base;                   /* NULL for code that is part of the program */
    size_t mapped_bytes;          /* memory that it takes */
    image_fused fused;
    image_expand expand;
    image_contract contract;
    image_activate activate;
} image;

/* Bytes -> header checked against everything that can be checked without running: size, magic, version, checksum,
 * offsets, ISA known, needed CPU features present. BAD_IMAGE, UNSUPPORTED or, where it could not be checked,
 * OUT_OF_MEMORY. */
ffn_status image_check(const void *bytes, size_t size, ffn_diag *diag);
/* Checks, copies to anonymous memory, then protects read+execute (text) and read (the rest). Never writable and
 * executable at once. SYSTEM if memory may not be made executable. */
ffn_status image_map(const void *bytes, size_t size, image *mapped, ffn_diag *diag);
/* Code that is part of the program as an image without a mapping; the CPU, the plan and the scratch are checked.
 * UNSUPPORTED, BAD_IMAGE or OUT_OF_MEMORY. */
ffn_status image_of_native(const ffn_spec *spec, const ffn_native *native, image *made, ffn_diag *diag);
/* Of either kind; NULL is allowed. */
void image_unmap(image *mapped);
/* Sets `verified` in a caller's copy of the bytes and renews the checksum. */
void image_mark_verified(void *bytes, size_t size);
/* Checksum as stored in the header. */
uint64_t image_checksum(const void *bytes, size_t size);

#endif
