/* store_entry.c: key -> file name and lines of text; lines and image -> a head under one checksum
 *
 * Invariant: two keys have the same text only if they are the same key, and a file is an entry of a key only if its
 * head is, byte for byte, the one that would be written for this key and the image found behind it. */
#include "store_entry.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "diag.h"
#include "image.h"
#include "isa.h"
#include "packed.h"

#define ENTRY_SUFFIX ".ffn"
#define HASH_DIGITS 16
#define PLAN_TEXT_BYTES 512
#define TAIL_BYTES 96 /* image_bytes and checksum, the lines that are not of the key */

static bool is_one_line(const char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return false;
    return true;
}

static ffn_status write_text(const store_key *key, const isa_row *isa, entry *e, ffn_diag *diag) {
    char spec[FFN_SPEC_TEXT_BYTES], plan[PLAN_TEXT_BYTES], needs[192];
    ffn_status status = ffn_spec_format(key->spec, spec, sizeof spec, diag);
    status = status ? status : ffn_plan_format(key->plan, plan, sizeof plan, diag);
    if (status)
        return status;
    cpu_features_format(isa->needs, needs, sizeof needs);
    int length = snprintf(e->text, sizeof e->text,
                          "ffngen store entry %d\nspec: %s\nisa: %s\nn: %s\nplan: %s\nneeds: %s\ngenerator: %s\n"
                          "packed: %d\nimage: %d\n",
                          ENTRY_VERSION, spec, isa->name, ffn_n_class_name(key->plan->n_class), plan, needs,
                          key->identity, PACKED_VERSION, IMAGE_VERSION);
    if (length < 0 || (size_t)length > ENTRY_HEAD_BYTES - TAIL_BYTES)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "the generator's identity is too long: %zu bytes",
                         strlen(key->identity));
    e->text_bytes = (size_t)length;
    return FFN_OK;
}

ffn_status entry_of_key(const store_key *key, entry *e, ffn_diag *diag) {
    const isa_row *isa = isa_row_of(key->plan->isa);
    if (!isa || !ffn_n_class_name(key->plan->n_class))
        return diag_fail(diag, FFN_BAD_ARGUMENT, "the plan names no ISA or no class of row counts");
    if (!key->identity || !*key->identity || !is_one_line(key->identity))
        return diag_fail(diag, FFN_BAD_ARGUMENT, "the generator's identity must be one line of text");
    char spec[FFN_SPEC_NAME_BYTES];
    ffn_status status = write_text(key, isa, e, diag);
    status = status ? status : ffn_spec_name(key->spec, false, spec, sizeof spec, diag);
    if (!status)
        snprintf(e->name, sizeof e->name, "%s.%s.%s.%016" PRIx64 ENTRY_SUFFIX, spec, isa->name,
                 ffn_n_class_name(key->plan->n_class), (uint64_t)XXH3_64bits(e->text, e->text_bytes));
    return status;
}

void entry_head(const entry *e, const void *code, size_t code_bytes, char *head) {
    char tail[TAIL_BYTES], digits[HASH_DIGITS + 1];
    int tail_bytes = snprintf(tail, sizeof tail, "image_bytes: %zu\nchecksum: %0*d\n", code_bytes, HASH_DIGITS, 0);
    memset(head, ' ', ENTRY_HEAD_BYTES);
    head[ENTRY_HEAD_BYTES - 1] = '\n';
    memcpy(head, e->text, e->text_bytes);
    memcpy(head + e->text_bytes, tail, (size_t)tail_bytes);
    XXH3_state_t state; /* of everything, the digits being zeros */
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, head, ENTRY_HEAD_BYTES);
    XXH3_64bits_update(&state, code, code_bytes);
    snprintf(digits, sizeof digits, "%016" PRIx64, (uint64_t)XXH3_64bits_digest(&state));
    memcpy(head + e->text_bytes + (size_t)tail_bytes - 1 - HASH_DIGITS, digits, HASH_DIGITS);
}

bool entry_is_name(const char *name) {
    const size_t tail = 1 + HASH_DIGITS + sizeof ENTRY_SUFFIX - 1;
    size_t length = strlen(name);
    if (length <= tail || length >= ENTRY_NAME_BYTES || *name == '.')
        return false;
    const char *hash = name + length - tail;
    return *hash == '.' && strspn(hash + 1, "0123456789abcdef") == HASH_DIGITS &&
           !strcmp(hash + 1 + HASH_DIGITS, ENTRY_SUFFIX);
}

/* The rest of the line that begins with `field`, as a string. */
static bool take_line(const char *head, const char *field, char *value) {
    const char *end = head + ENTRY_HEAD_BYTES;
    for (const char *line = head; line < end;) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        if (!stop)
            return false;
        size_t length = (size_t)(stop - line), skipped = strlen(field);
        if (length >= skipped && !memcmp(line, field, skipped)) {
            memcpy(value, line + skipped, length - skipped);
            value[length - skipped] = '\0';
            return true;
        }
        line = stop + 1;
    }
    return false;
}

/* The key is in the image, all but the identity, which is in the head: enough
 * to write the head again. */
typedef struct rewritten { /* 15 KiB: not on the stack */
    char identity[ENTRY_HEAD_BYTES], head[ENTRY_HEAD_BYTES];
    image_header header;
    entry entry;
} rewritten;

static ffn_status check_head(rewritten *made, const char *name, const char *head, const void *code, size_t code_bytes,
                             ffn_diag *diag) {
    if (!take_line(head, "generator: ", made->identity))
        return diag_fail(diag, FFN_BAD_FILE, "its head names no generator");
    memcpy(&made->header, code, sizeof made->header);
    const store_key key = {.spec = &made->header.spec, .plan = &made->header.plan, .identity = made->identity};
    ffn_diag why = {.status = FFN_OK};
    ffn_status status = entry_of_key(&key, &made->entry, &why);
    if (status)
        return diag_fail(diag, status == FFN_OUT_OF_MEMORY ? status : FFN_BAD_FILE, "%s", why.text);
    if (memcmp(head, made->entry.text, made->entry.text_bytes) != 0)
        return diag_fail(diag, FFN_BAD_FILE, "its head is not that of its image, or of another version");
    entry_head(&made->entry, code, code_bytes, made->head);
    if (memcmp(head, made->head, sizeof made->head) != 0)
        return diag_fail(diag, FFN_BAD_FILE, "checksum does not match: the bytes were damaged");
    if (strcmp(name, made->entry.name) != 0)
        return diag_fail(diag, FFN_BAD_FILE, "stands under the name of another entry");
    return FFN_OK;
}

ffn_status entry_check(const char *name, const char *head, const void *code, size_t code_bytes, char *identity,
                       ffn_diag *diag) {
    ffn_diag why = {.status = FFN_OK};
    ffn_status runs = image_check(code, code_bytes, &why);
    if (runs != FFN_OK && runs != FFN_UNSUPPORTED)
        return diag_fail(diag, runs == FFN_OUT_OF_MEMORY ? runs : FFN_BAD_FILE, "%s", why.text);
    rewritten *made = malloc(sizeof *made);
    if (!made)
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory to check an entry");
    ffn_status status = check_head(made, name, head, code, code_bytes, diag);
    if (status == FFN_OK && identity)
        memcpy(identity, made->identity, strlen(made->identity) + 1);
    free(made);
    return status || runs == FFN_OK ? status : diag_fail(diag, runs, "%s", why.text);
}
