/* verify_memory.h: memory for blocks that are read in full and written in few places */
#ifndef FFN_VERIFY_MEMORY_H
#define FFN_VERIFY_MEMORY_H

#include <stddef.h>

#include "ffn.h"

typedef enum verify_background {
    VERIFY_PRIVATE,   /* pages of its own wherever something is read or written */
    VERIFY_HUGE_ZERO, /* the kernel's huge zero page */
    VERIFY_SHARED     /* one piece of memory, mapped again and again and copied where something is written */
} verify_background;

typedef struct verify_memory {
    char *begin; /* at a huge page's boundary */
    size_t bytes;
    verify_background background;
    char *settled; /* no page below is written to for the first time any more */
    void *mapping;
    size_t mapping_bytes;
} verify_memory;

/* Zeros. Where they are `sparse`, reading them takes no memory to speak of, as far as this kernel can do that.
 * OUT_OF_MEMORY. */
ffn_status verify_memory_make(size_t bytes, bool sparse, verify_memory *memory, ffn_diag *diag);
void verify_memory_free(verify_memory *memory);

/* Come before writing to [at, at + bytes) of sparse memory, here and there or all over, in the order of addresses. What
 * was written before stays. Writing without them is right, but costs a huge page. */
void verify_memory_dot(verify_memory *memory, const void *at, size_t bytes);
void verify_memory_fill(verify_memory *memory, const void *at, size_t bytes);

/* Makes the background of memory that nothing was written to VERIFY_SHARED; verify_memory_make does, where reading
 * costs memory. OUT_OF_MEMORY: the memory is gone. OK otherwise, whether it could or not. */
ffn_status verify_memory_share(verify_memory *memory, ffn_diag *diag);

#endif
