/* fuzz_image.c: any bytes as an image, and the same bytes as the header of an image with a right seal (magic, sizes,
 * checksum), so that every field is tried with any value: an error that says something, or an image whose parts and
 * entries lie inside it. Nothing of it is run. */
#include "fuzz.h"
#include "image.h"

enum { SEALED_BYTES = 3 * IMAGE_ALIGN };

static void parts_check(const image *mapped, size_t size) {
    const image_header *header = mapped->header;
    FUZZ_CHECK(header->text_offset < size && header->text_bytes <= size - header->text_offset);
    FUZZ_CHECK(header->rodata_bytes == 0 ||
               (header->rodata_offset < size && header->rodata_bytes <= size - header->rodata_offset));
    for (int i = 0; i < IMAGE_ENTRIES; i++)
        FUZZ_CHECK(header->entries[i] >= header->text_offset &&
                   header->entries[i] < header->text_offset + header->text_bytes);
}

static void image_try(const void *bytes, size_t size) {
    ffn_diag diag = {0};
    image mapped = {0};
    ffn_status status = image_check(bytes, size, &diag);
    if (status != FFN_OK)
        FUZZ_CHECK(diag.status == status && *diag.text);
    FUZZ_CHECK(image_map(bytes, size, &mapped, NULL) == status);
    if (status != FFN_OK) {
        FUZZ_CHECK(!mapped.base);
        return;
    }
    parts_check(&mapped, size);
    image_unmap(&mapped);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static _Alignas(64) uint8_t sealed[SEALED_BYTES];
    image_header header = {0};
    image_try(data, size);
    memcpy(&header, data, size < sizeof header ? size : sizeof header);
    memcpy(header.magic, IMAGE_MAGIC, sizeof header.magic);
    header.version = IMAGE_VERSION;
    header.header_bytes = sizeof header;
    header.total_bytes = SEALED_BYTES;
    memcpy(sealed, &header, sizeof header);
    header.checksum = image_checksum(sealed, sizeof sealed);
    memcpy(sealed, &header, sizeof header);
    image_try(sealed, sizeof sealed);
    return 0;
}
