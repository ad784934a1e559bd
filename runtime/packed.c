/* packed.c: spec -> where each part of a packed block stands; block -> whether it belongs to a spec and is undamaged
 *
 * Invariant: nothing here depends on anything but d_model, d_ff, the biases and the canonical activation text. The
 * accuracy takes no part: one block serves the fast spec and the accurate one. */
#include "packed_seal.h"

#include "diag.h"
#include "spec_text.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

_Static_assert(sizeof(packed_header) == 256, "the header's size is part of the file format");
_Static_assert(sizeof(packed_header) % FFN_PACKED_ALIGN == 0, "what follows the header is aligned as the block is");
_Static_assert(FFN_PACKED_BYTES_MAX <= SIZE_MAX, "a block's size fits a size_t");

enum { PANEL_ROW_BYTES = FFN_PANEL * sizeof(float) };

/* With both sizes at most FFN_DIM_MAX = 2^24 no sum below passes 2^53. */
static packed_layout layout_from(int64_t d_model, int64_t d_ff, bool gated) {
    const int64_t up_panels = (d_ff + FFN_PANEL - 1) / FFN_PANEL;
    const int64_t down_panels = (d_model + FFN_PANEL - 1) / FFN_PANEL;
    const int64_t halves = gated ? 2 : 1;
    packed_layout at = {.up_panels = up_panels, .down_panels = down_panels};
    at.expand_panel_bytes = d_model * PANEL_ROW_BYTES;
    at.expand_panel_stride = halves * at.expand_panel_bytes;
    at.contract_panel_bytes = d_ff * PANEL_ROW_BYTES;

    at.bias_up = sizeof(packed_header);
    at.bias_gate = at.bias_up + up_panels * PANEL_ROW_BYTES;
    at.bias_down = at.bias_gate + (halves - 1) * up_panels * PANEL_ROW_BYTES;
    at.expand = at.bias_down + down_panels * PANEL_ROW_BYTES;
    at.expand_up = at.expand + (halves - 1) * at.expand_panel_bytes;
    at.contract = at.expand + up_panels * at.expand_panel_stride;
    at.total_bytes = at.contract + down_panels * at.contract_panel_bytes;
    if (!gated)
        at.bias_gate = at.bias_up; /* an ungated block has none: never read */
    return at;
}

static bool dim_ok(int64_t dim) {
    return dim >= 1 && dim <= FFN_DIM_MAX;
}

ffn_status packed_layout_of(const ffn_spec *spec, packed_layout *layout, ffn_diag *diag) {
    if (!dim_ok(spec->d_model) || !dim_ok(spec->d_ff))
        return diag_fail(diag, FFN_BAD_SPEC, "d_model %" PRId64 ", d_ff %" PRId64 ": each must be 1 to %" PRId64,
                         spec->d_model, spec->d_ff, FFN_DIM_MAX);
    const packed_layout at = layout_from(spec->d_model, spec->d_ff, ffn_spec_gated(spec));
    if (at.total_bytes > FFN_PACKED_BYTES_MAX)
        return diag_fail(diag, FFN_BAD_SPEC,
                         "d_model %" PRId64 " with d_ff %" PRId64 " needs %" PRId64
                         " bytes of packed weights; at most %" PRId64 " are possible",
                         spec->d_model, spec->d_ff, at.total_bytes, FFN_PACKED_BYTES_MAX);
    *layout = at;
    return FFN_OK;
}

/* Weights are packed the same for every accuracy. */
static ffn_spec without_accuracy(const ffn_spec *spec) {
    ffn_spec weights = *spec;
    weights.accuracy = FFN_ACCURATE;
    return weights;
}

uint64_t packed_spec_hash(const ffn_spec *spec) {
    char text[FFN_SPEC_TEXT_BYTES];
    const ffn_spec weights = without_accuracy(spec);
    spec_text_of(&weights, text);
    return XXH3_64bits(text, strlen(text));
}

ffn_status packed_header_make(const ffn_spec *spec, const packed_layout *layout, packed_header *header,
                              ffn_diag *diag) {
    packed_header made = {.version = PACKED_VERSION,
                          .header_bytes = sizeof made,
                          .d_model = spec->d_model,
                          .d_ff = spec->d_ff,
                          .bias = spec->bias,
                          .gated = packed_gated(layout),
                          .total_bytes = (uint64_t)layout->total_bytes,
                          .spec_hash = packed_spec_hash(spec)};
    memcpy(made.magic, PACKED_MAGIC, sizeof PACKED_MAGIC);
    const ffn_spec weights = without_accuracy(spec);
    const ffn_status status = ffn_spec_name(&weights, false, made.spec_name, sizeof made.spec_name, diag);
    if (status == FFN_OK)
        *header = made;
    return status;
}

ffn_status packed_header_check(const ffn_spec *spec, uint64_t spec_hash, const void *packed, ffn_diag *diag) {
    if (packed == NULL)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "packed is NULL: it must be what ffn_pack filled");
    if ((uintptr_t)packed % FFN_PACKED_ALIGN != 0)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "packed is at %p: its address must be a multiple of %d", packed,
                         FFN_PACKED_ALIGN);
    const packed_header *header = packed;
    if (memcmp(header->magic, PACKED_MAGIC, sizeof PACKED_MAGIC) != 0)
        return diag_fail(diag, FFN_BAD_WEIGHTS, "packed does not start with %s: it is not what ffn_pack filled",
                         PACKED_MAGIC);
    if (header->version == __builtin_bswap32(PACKED_VERSION))
        return diag_fail(diag, FFN_BAD_WEIGHTS,
                         "packed is in the other byte order: packed weights are little-endian, pack the weights again");
    if (header->version != PACKED_VERSION || header->header_bytes != sizeof *header)
        return diag_fail(diag, FFN_BAD_WEIGHTS,
                         "packed has layout version %" PRIu32 " with a header of %" PRIu32
                         " bytes; this library reads version %d: pack the weights again",
                         header->version, header->header_bytes, PACKED_VERSION);
    if (header->d_model != spec->d_model || header->d_ff != spec->d_ff)
        return diag_fail(diag, FFN_BAD_WEIGHTS,
                         "packed holds d_model %" PRId64 ", d_ff %" PRId64 "; the spec has d_model %" PRId64
                         ", d_ff %" PRId64,
                         header->d_model, header->d_ff, spec->d_model, spec->d_ff);
    if (header->bias != spec->bias)
        return diag_fail(diag, FFN_BAD_WEIGHTS,
                         "packed holds the biases %#" PRIx32 ", the spec has %#" PRIx32 " (FFN_BIAS_* bits)",
                         header->bias, spec->bias);
    if (header->spec_hash != spec_hash)
        return diag_fail(diag, FFN_BAD_WEIGHTS, "packed was filled for %.*s, the spec's activation is %s",
                         (int)sizeof header->spec_name - 1, header->spec_name, spec->activation);
    const packed_layout at = layout_from(spec->d_model, spec->d_ff, header->gated == 1);
    if (header->gated > 1 || header->total_bytes != (uint64_t)at.total_bytes)
        return diag_fail(diag, FFN_BAD_WEIGHTS, "packed says it is %" PRIu64 " bytes long where %" PRId64 " are right",
                         header->total_bytes, at.total_bytes);
    return FFN_OK;
}

ffn_status ffn_packed_bytes(const ffn_spec *spec, size_t *bytes, ffn_diag *diag) {
    if (spec == NULL || bytes == NULL)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "%s is NULL", spec == NULL ? "spec" : "bytes");
    packed_layout layout;
    ffn_status status = ffn_spec_check(spec, diag);
    if (status == FFN_OK)
        status = packed_layout_of(spec, &layout, diag);
    if (status == FFN_OK)
        *bytes = (size_t)layout.total_bytes;
    return status;
}

ffn_status ffn_packed_check(const ffn_spec *spec, const void *packed, size_t packed_bytes, ffn_diag *diag) {
    packed_layout layout;
    ffn_status status = ffn_spec_check(spec, diag);
    if (status == FFN_OK)
        status = packed_layout_of(spec, &layout, diag);
    if (status != FFN_OK)
        return status;
    const size_t needed = (size_t)layout.total_bytes;
    if (packed != NULL && packed_bytes < sizeof(packed_header))
        return diag_fail(diag, FFN_BAD_WEIGHTS, "packed is %zu bytes long, the header alone is %zu", packed_bytes,
                         sizeof(packed_header));
    status = packed_header_check(spec, packed_spec_hash(spec), packed, diag);
    if (status != FFN_OK)
        return status;
    if (packed_bytes < needed)
        return diag_fail(diag, FFN_BAD_WEIGHTS, "packed is cut short: %zu bytes of %zu", packed_bytes, needed);

    packed_header right;
    status = packed_header_make(spec, &layout, &right, diag);
    if (status != FFN_OK)
        return status;
    packed_seal seal;
    packed_seal_begin(&seal);
    const float *body = (const float *)((const char *)packed + sizeof right);
    packed_seal_add(&seal, body, (layout.total_bytes - (int64_t)sizeof right) / (int64_t)sizeof *body);
    packed_seal_end(&seal, &right);

    const packed_header *header = packed;
    if (header->checksum != right.checksum)
        return diag_fail(diag, FFN_BAD_WEIGHTS,
                         "the checksum of packed is %016" PRIx64 ", its header says %016" PRIx64 ": it is damaged",
                         right.checksum, header->checksum);
    if (memcmp(header, &right, sizeof right) != 0)
        return diag_fail(diag, FFN_BAD_WEIGHTS, "the header of packed is damaged");
    return FFN_OK;
}
