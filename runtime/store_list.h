/* store_list.h: what stands in the folder of a store, and what of it goes */
#ifndef FFN_STORE_LIST_H
#define FFN_STORE_LIST_H

#include "store_entry.h"

typedef struct store_listed {
    char name[ENTRY_NAME_BYTES];
    uint64_t bytes;
    int64_t used_seconds, used_nanoseconds; /* when it was last used, since the epoch */
    bool is_file;                           /* else something else stands under the name of an entry */
} store_listed;

typedef struct store_listing {
    store_listed *rows; /* the least recently used first */
    size_t count, room;
    uint64_t bytes; /* of all rows */
} store_listing;

/* Everything that has the name of an entry. Rows go with store_listing_free,
 * also after a failure. */
bool store_list(int folder, store_listing *listing, ffn_diag *problem);
void store_listing_free(store_listing *listing);

/* Removes temporary files whose writers are gone; how many. */
size_t store_sweep(int folder);
/* Removes the least recently used entries until the sum of all is at most the
 * limit. `stays` is not among them. */
void store_shrink(int folder, uint64_t limit_bytes, const char *stays);
/* Removes the entry if it is a file. */
bool store_remove(int folder, const char *name);

#endif
