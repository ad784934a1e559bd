/* image_native.c: code that is part of the program -> what a mapped image is to everyone else
 *
 * Nothing is mapped: the base is NULL, so that offsets of entries are addresses, and the header stands on the heap. It
 * says of the code what the header of an image would, but for what only bytes in a file have. */
#define XXH_INLINE_ALL
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "diag.h"
#include "image.h"
#include "isa.h"
#include "plan.h"

static ffn_status check(const ffn_spec *spec, const ffn_native *native, ffn_diag *diag) {
    if (native->fused == NULL || native->expand == NULL || native->contract == NULL || native->activate == NULL) {
        return diag_fail(diag, FFN_BAD_IMAGE, "native code: one of its four entries is NULL");
    }
    const isa_row *row = isa_row_of(native->plan.isa);
    if (row == NULL) {
        return diag_fail(diag, FFN_BAD_IMAGE, "native code: ISA number %d is not one of this library",
                         (int)native->plan.isa);
    }
    if (!ffn_isa_supported(native->plan.isa)) {
        return diag_fail(diag, FFN_UNSUPPORTED, "native code: built for %s, which this CPU lacks", row->name);
    }
    ffn_diag why = {.status = FFN_OK};
    ffn_status status = ffn_plan_check(spec, &native->plan, &why);
    if (status != FFN_OK) {
        status = status == FFN_OUT_OF_MEMORY ? status : FFN_BAD_IMAGE; /* a check without memory says nothing */
        return diag_fail(diag, status, "native code: its plan is not valid: %.300s", why.text);
    }
    size_t need = (size_t)plan_scratch_bytes(spec, &native->plan);
    if (native->scratch_bytes < need || native->scratch_bytes > IMAGE_SCRATCH_BYTES_MAX) {
        return diag_fail(diag, FFN_BAD_IMAGE, "native code: says %zu bytes of scratch, where its plan uses %zu",
                         native->scratch_bytes, need);
    }
    return FFN_OK;
}

/* Two codes are the same if their entries and all that is said of them are. */
static uint64_t hash(const image_header *header) {
    struct {
        char plan[FFN_DESCRIBE_BYTES];
        uint64_t entries[IMAGE_ENTRIES], scratch_bytes;
    } known;
    memset(&known, 0, sizeof known);
    ffn_plan_format(&header->plan, known.plan, sizeof known.plan, NULL);
    memcpy(known.entries, header->entries, sizeof known.entries);
    known.scratch_bytes = header->scratch_bytes;
    return XXH3_64bits(&known, sizeof known);
}

ffn_status image_of_native(const ffn_spec *spec, const ffn_native *native, image *made, ffn_diag *diag) {
    ffn_status status = check(spec, native, diag);
    if (status != FFN_OK) {
        return status;
    }
    image_header *header = calloc(1, sizeof *header);
    if (header == NULL) {
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "native code: %zu bytes", sizeof *header);
    }
    memcpy(header->magic, IMAGE_MAGIC, sizeof header->magic);
    header->version = IMAGE_VERSION;
    header->header_bytes = sizeof *header;
    header->isa = (uint32_t)native->plan.isa;
    header->cpu_needs = isa_row_of(native->plan.isa)->needs;
    header->scratch_bytes = native->scratch_bytes;
    header->plan = native->plan;
    header->spec = *spec;
    image result = {.header = header,
                    .header_on_heap = header,
                    .mapped_bytes = sizeof *header,
                    .fused = native->fused,
                    .expand = native->expand,
                    .contract = native->contract,
                    .activate = native->activate};
    memcpy(&header->entries[IMAGE_FUSED], &native->fused, sizeof native->fused);
    memcpy(&header->entries[IMAGE_EXPAND], &native->expand, sizeof native->expand);
    memcpy(&header->entries[IMAGE_CONTRACT], &native->contract, sizeof native->contract);
    memcpy(&header->entries[IMAGE_ACTIVATE], &native->activate, sizeof native->activate);
    header->checksum = hash(header);
    *made = result;
    return FFN_OK;
}
