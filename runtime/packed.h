/* packed.h: where each part of a packed weight block stands, from the spec alone
 *
 * A block is a header, the biases (each padded to panels with +0, all zero where the spec has none), the panels of the
 * expand stage and the panels of the contract stage. Panel p of a matrix with K rows holds columns 16p .. 16p+15 as
 * [K][16] floats, padded with +0. A gated expand stage alternates: gate panel 0, up panel 0, gate panel 1, ...
 * Every part is 64-byte aligned. The layout is a function of d_model, d_ff and gatedness, so it never changes with
 * plan, ISA or n. */
#ifndef FFN_PACKED_H
#define FFN_PACKED_H

#include "ffn.h"

#define PACKED_MAGIC "FFNPACK"
#define PACKED_VERSION 1

typedef struct packed_header { /* 256 bytes, little-endian */
    char magic[8];
    uint32_t version;
    uint32_t header_bytes;
    int64_t d_model, d_ff;
    uint32_t bias;
    uint32_t gated;
    uint64_t total_bytes;
    uint64_t spec_hash; /* XXH3 of the canonical spec text, FFN_ACCURATE */
    uint64_t checksum;  /* XXH3 of everything after the header */
    uint32_t finite;    /* 1 if every weight and bias is finite */
    uint32_t reserved;
    char spec_name[184]; /* ffn_spec_name, for people */
} packed_header;

/* Byte offsets from the start of the block. */
typedef struct packed_layout {
    int64_t up_panels;   /* panels of d_ff: ceil(d_ff / 16) */
    int64_t down_panels; /* panels of d_model */
    int64_t bias_up, bias_gate, bias_down;
    int64_t expand;              /* first panel of the expand stage */
    int64_t expand_panel_bytes;  /* d_model * 64 */
    int64_t expand_panel_stride; /* bytes from up panel p to up panel p + 1: twice the above if gated */
    int64_t expand_up;           /* first up panel: == expand, or one panel on if gated */
    int64_t contract;
    int64_t contract_panel_bytes; /* d_ff * 64 */
    int64_t total_bytes;
} packed_layout;

/* BAD_SPEC if the products overflow FFN_PACKED_BYTES_MAX. */
ffn_status packed_layout_of(const ffn_spec *spec, packed_layout *layout, ffn_diag *diag);

/* Header against spec, cheap enough for every run: BAD_WEIGHTS names what differs. `spec_hash` is packed_spec_hash of
 * the spec, which is valid; computed once by the caller. */
uint64_t packed_spec_hash(const ffn_spec *spec);
ffn_status packed_header_check(const ffn_spec *spec, uint64_t spec_hash, const void *packed, ffn_diag *diag);

#endif
