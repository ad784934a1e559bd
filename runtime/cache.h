/* cache.h: spec -> the one kernel of a context for it, held by whoever created it, evicted when nobody does
 *
 * A context has one ISA and one rule for plans, so within its cache the spec is the key of a kernel, and spec and n
 * class the key of a kernel's code. */
#ifndef FFN_CACHE_H
#define FFN_CACHE_H

#include <stdatomic.h>

#include "ffn.h"

/* Threads are dealt to stripes. A hit touches nothing but what its stripe owns: threads on different stripes do not
 * wait for each other, and no cache line travels between them. */
#define CACHE_STRIPES 16

typedef struct cache_stripe_use {
    _Alignas(64) _Atomic int64_t holders; /* may be negative: a kernel can be created by one thread and destroyed by
                                             another; the sum over the stripes counts */
    uint64_t used;                        /* when this stripe last created it */
} cache_stripe_use;

/* The part of a kernel that belongs to the cache. */
typedef struct cache_entry {
    struct cache_entry *next; /* of its slot; of the list that cache_trim returns */
    const ffn_spec *spec;     /* the kernel's own copy */
    uint64_t hash;
    size_t bytes;
    cache_stripe_use stripes[CACHE_STRIPES];
} cache_entry;

typedef struct cache cache;

/* NULL if out of memory. */
cache *cache_create(size_t limit_bytes);
/* Nobody may hold an entry any more. Returns all of them as a list, for the caller to free. */
cache_entry *cache_destroy(cache *c);

/* The entry of a spec, held once more; NULL if there is none. */
cache_entry *cache_find(cache *c, const ffn_spec *spec);
/* Adds an entry (spec and bytes filled, the rest zero) and holds it. Returns the one to use: another thread may have
 * been first, and then `made` was not taken. `over`: the cache is over its limit. */
cache_entry *cache_add(cache *c, cache_entry *made, bool *over);
/* Gives a hold back; the entry is the caller's no more. True if nobody holds it now and the cache is over its limit. */
bool cache_release(cache *c, cache_entry *entry);
/* A held entry needs so many bytes more. True if that takes the cache over its limit. */
bool cache_grow(cache *c, cache_entry *entry, size_t more_bytes);
/* Takes entries out that nobody holds, least recently used first, until the limit is met or none is left. Returns them
 * as a list, for the caller to free outside every lock; `count` is their number. */
cache_entry *cache_trim(cache *c, size_t *count);

/* The stripe of the calling thread. */
unsigned cache_stripe(void);

/* Around fork: every lock of the cache is taken before and released after, in the parent and in the child. */
void cache_lock_all(cache *c);
void cache_unlock_all(cache *c);
/* Every entry; the locks are held. */
void cache_each(cache *c, void (*visit)(cache_entry *entry));

#endif
