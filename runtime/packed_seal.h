/* packed_seal.h: the body of a packed block, piece by piece in order -> its checksum, and whether all of it is finite
 *
 * Packing feeds each panel while it is still in the cache, checking feeds the finished block; the answers do not depend
 * on how the body was cut. Every piece is whole floats. */
#ifndef FFN_PACKED_SEAL_H
#define FFN_PACKED_SEAL_H

#include "packed.h"
#define XXH_INLINE_ALL
#include <xxhash.h>

typedef struct packed_seal {
    XXH3_state_t state;
    uint32_t carries; /* bit 31: adding one to an exponent of all ones carried, so something is infinite or NaN */
} packed_seal;

static inline void packed_seal_begin(packed_seal *seal) {
    XXH3_64bits_reset(&seal->state);
    seal->carries = 0;
}

/* By pieces of 16 KiB, so that the second look at a piece finds it in the L1 cache. */
static inline void packed_seal_add(packed_seal *seal, const float *values, int64_t count) {
    const int64_t piece = 4096;
    for (int64_t begin = 0; begin < count; begin += piece) {
        const int64_t end = begin + piece < count ? begin + piece : count;
        XXH3_64bits_update(&seal->state, values + begin, (size_t)(end - begin) * sizeof *values);
        uint32_t carries = seal->carries;
        for (int64_t i = begin; i < end; i++) {
            uint32_t bits;
            memcpy(&bits, values + i, sizeof bits);
            carries |= (bits & UINT32_C(0x7f800000)) + UINT32_C(0x00800000);
        }
        seal->carries = carries;
    }
}

static inline void packed_seal_end(const packed_seal *seal, packed_header *header) {
    header->checksum = XXH3_64bits_digest(&seal->state);
    header->finite = seal->carries >> 31 == 0;
}

static inline bool packed_gated(const packed_layout *layout) {
    return layout->expand_up != layout->expand;
}

/* The header of a block of this spec, all but what the seal fills in. */
ffn_status packed_header_make(const ffn_spec *spec, const packed_layout *layout, packed_header *header, ffn_diag *diag);

#endif
