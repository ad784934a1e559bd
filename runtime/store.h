/* store.h: the disk store: (spec, plan, generator) -> the bytes of a verified image, kept between processes
 *
 * One file an entry, written beside its name and renamed when whole: a reader sees an entry whole or not at all, and
 * nobody waits for anybody. An entry that is not exactly what its key says is a miss. A store that cannot be used is
 * one that never hits: the reason is remarked once. docs/store.md has the format and the checks. Thread-safe. */
#ifndef FFN_STORE_H
#define FFN_STORE_H

#include "ffn.h"

typedef struct store store;

/* `folder` NULL: $XDG_CACHE_HOME/ffngen, else $HOME/.cache/ffngen. Touches no file. NULL if out of memory. */
store *store_create(const char *folder, size_t limit_bytes);
/* NULL is allowed. Closes what is open; the entries stay. */
void store_destroy(store *s);

typedef struct store_key {
    const ffn_spec *spec;
    const ffn_plan *plan;
    const char *identity; /* of the source */
} store_key;

/* True with the image of a key, which image->release frees. `remark` (may be NULL) is filled the first time that the
 * store cannot be used, else left alone. */
bool store_find(store *s, const store_key *key, ffn_bytes *image, ffn_diag *remark);
/* Keeps an image, or does not: a full disk is no failure of the caller's. Old entries go where the limit asks for it.
 */
void store_keep(store *s, const store_key *key, const void *image, size_t image_bytes, ffn_diag *remark);

#endif
