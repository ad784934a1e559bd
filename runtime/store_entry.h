/* store_entry.h: a key and an image <-> the text that stands before the image
 * in a file of the store
 *
 * A file is a head of ENTRY_HEAD_BYTES readable bytes, one field a line, then
 * the image. The head is a function of key and image, so checking a file is
 * writing its head again and comparing. No file is touched here. */
#ifndef FFN_STORE_ENTRY_H
#define FFN_STORE_ENTRY_H

#include "store.h"

#define ENTRY_VERSION 1
#define ENTRY_HEAD_BYTES 4096
#define ENTRY_NAME_BYTES 256 /* NAME_MAX and the end */
#define ENTRY_IMAGE_BYTES_MAX ((size_t)1 << 28)

typedef struct entry {
    char name[ENTRY_NAME_BYTES]; /* of the file */
    char text[ENTRY_HEAD_BYTES]; /* what the head begins with: a line for each
                                    field of the key */
    size_t text_bytes;
} entry;

/* BAD_ARGUMENT where a key cannot be written: a generator without an identity,
 * or one of several lines. */
ffn_status entry_of_key(const store_key *key, entry *e, ffn_diag *diag);
/* The whole head of ENTRY_HEAD_BYTES. */
void entry_head(const entry *e, const void *code, size_t code_bytes, char *head);
/* True for names as entry_of_key makes them. */
bool entry_is_name(const char *name);

/* Head and image of a file that was found under the name: OK if both are whole
 * and belong to each other and to the name; UNSUPPORTED if they are, but this
 * CPU does not run them; OUT_OF_MEMORY; else BAD_FILE. `identity` (ENTRY_HEAD_BYTES, may be
 * NULL) gets the generator's. */
ffn_status entry_check(const char *name, const char *head, const void *code, size_t image_bytes, char *identity,
                       ffn_diag *diag);

#endif
