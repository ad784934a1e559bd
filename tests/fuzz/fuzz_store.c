/* fuzz_store.c: any bytes as the head of an entry, any header behind it: an error that says something. The same header,
 * where it is that of a whole image, as the entry that is made of it: whole, and no longer after any change.
 *
 * Input: the length of the head's text (2 bytes), the text, the header of the image. */
#include "fuzz.h"
#include "image.h"
#include "store_entry.h"

enum { IMAGE_BYTES = 3 * IMAGE_ALIGN };

static _Alignas(64) uint8_t sealed[IMAGE_BYTES];

static void seal(const uint8_t *data, size_t size) {
    image_header header = {0};
    memcpy(&header, data, size < sizeof header ? size : sizeof header);
    memcpy(header.magic, IMAGE_MAGIC, sizeof header.magic);
    header.version = IMAGE_VERSION;
    header.header_bytes = sizeof header;
    header.total_bytes = IMAGE_BYTES;
    memcpy(sealed, &header, sizeof header);
    header.checksum = image_checksum(sealed, sizeof sealed);
    memcpy(sealed, &header, sizeof header);
}

static void expect_bad(const char *name, const char *head) {
    char identity[ENTRY_HEAD_BYTES] = "untouched";
    ffn_diag diag = {0};
    FUZZ_CHECK(entry_check(name, head, sealed, sizeof sealed, identity, &diag) == FFN_BAD_FILE);
    FUZZ_CHECK(diag.status == FFN_BAD_FILE && *diag.text && !strcmp(identity, "untouched"));
}

/* `at` chooses the bit that is changed. */
static void made_try(const char *wanted, size_t at) {
    image_header header;
    entry e;
    ffn_diag diag = {0};
    char head[ENTRY_HEAD_BYTES], identity[ENTRY_HEAD_BYTES];
    ffn_status runs = image_check(sealed, sizeof sealed, NULL);
    memcpy(&header, sealed, sizeof header);
    if (runs != FFN_OK && runs != FFN_UNSUPPORTED)
        return;
    const store_key key = {.spec = &header.spec, .plan = &header.plan, .identity = wanted};
    if (entry_of_key(&key, &e, &diag)) {
        FUZZ_CHECK(*diag.text);
        return;
    }
    FUZZ_CHECK(entry_is_name(e.name) && strlen(e.name) < 160 && !strchr(e.name, '/'));
    entry_head(&e, sealed, sizeof sealed, head);
    FUZZ_CHECK(entry_check(e.name, head, sealed, sizeof sealed, identity, NULL) == runs);
    FUZZ_CHECK(!strcmp(identity, wanted));
    head[at / 8 % sizeof head] = (char)(head[at / 8 % sizeof head] ^ 1 << at % 8);
    expect_bad(e.name, head);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char head[ENTRY_HEAD_BYTES];
    if (size < 2)
        return 0;
    size_t length = (size_t)data[0] | (size_t)data[1] << 8, at = length * 7919 + size;
    data += 2;
    size -= 2;
    length = length < size ? length : size;
    memset(head, ' ', sizeof head);
    memcpy(head, data, length < sizeof head ? length : sizeof head);
    seal(data + length, size - length);
    expect_bad("d8-f16-relu.avx2.1.0123456789abcdef.ffn", head);
    char *text = fuzz_text(data, length);
    made_try(text, at);
    entry_is_name(text);
    free(text);
    return 0;
}
