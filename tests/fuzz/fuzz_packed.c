/* fuzz_packed.c: any bytes as a file of packed weights, and the same bytes laid over a right one (exclusive or), so
 * that each field is tried with any value: an error that says something, or a map of the right size; and what the check
 * then passes is the right block, byte for byte where the checksum does not decide. */
#define _GNU_SOURCE
#include "fuzz.h"
#include "packed.h"

#include <sys/mman.h>
#include <unistd.h>

enum { D_MODEL = 2, D_FF = 3, BLOCK_BYTES = 1024 };

static void file_try(const ffn_spec *spec, const uint8_t *right, size_t right_bytes, const uint8_t *data, size_t size) {
    char path[64];
    ffn_diag diag = {0};
    const void *packed = NULL;
    size_t bytes = 0;
    const int file = memfd_create("packed", MFD_CLOEXEC);
    FUZZ_CHECK(file >= 0 && write(file, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    const ffn_status status = ffn_packed_map(spec, path, &packed, &bytes, &diag);
    close(file);
    if (status != FFN_OK) {
        FUZZ_CHECK((status == FFN_BAD_FILE || status == FFN_BAD_WEIGHTS) && diag.status == status && *diag.text);
        FUZZ_CHECK(packed == NULL && bytes == 0);
        return;
    }
    FUZZ_CHECK(size == right_bytes && bytes == size && memcmp(packed, data, size) == 0);
    if (ffn_packed_check(spec, packed, bytes, &diag) == FFN_OK) {
        packed_header header;
        memcpy(&header, packed, sizeof header);
        header.checksum = ((const packed_header *)(const void *)right)->checksum;
        header.finite = 1;
        FUZZ_CHECK(memcmp(&header, right, sizeof header) == 0);
    } else {
        FUZZ_CHECK(*diag.text);
    }
    ffn_packed_unmap(packed, bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static _Alignas(FFN_PACKED_ALIGN) uint8_t right[BLOCK_BYTES], laid[BLOCK_BYTES];
    static const float values[D_MODEL * D_FF] = {1, 2, 3, 4, 5, 6};
    static ffn_spec spec;
    static size_t bytes;
    if (bytes == 0) {
        const ffn_weights weights = {.up = {.data = values}, .down = {.data = values}};
        FUZZ_CHECK(ffn_spec_parse("d2-f3-relu", &spec, NULL) == FFN_OK);
        FUZZ_CHECK(ffn_packed_bytes(&spec, &bytes, NULL) == FFN_OK && bytes <= sizeof right);
        FUZZ_CHECK(ffn_pack(&spec, &weights, right, bytes, NULL) == FFN_OK);
    }
    file_try(&spec, right, bytes, data, size);
    memcpy(laid, right, bytes);
    for (size_t i = 0; i < size && i < bytes; i++)
        laid[i] ^= data[i];
    file_try(&spec, right, bytes, laid, bytes);
    return 0;
}
