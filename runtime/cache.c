/* cache.c: a hash table behind one lock a stripe
 *
 * A reader takes the lock of its own stripe; whoever changes the table takes them all, in order. So a hit costs one
 * uncontended lock, needs no atomic operation on anything shared, and never waits for more than the few microseconds
 * of a change: nothing is built, mapped or freed under these locks. Counts of holders and times of use are kept a
 * stripe for the same reason, and summed by who has all locks. */
#define _GNU_SOURCE /* CLOCK_MONOTONIC_COARSE */
#include "cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

typedef struct stripe_lock {
    _Alignas(64) pthread_mutex_t lock;
    uint32_t turn; /* hits of this stripe: the finer part of a time of use */
} stripe_lock;

struct cache {
    stripe_lock stripes[CACHE_STRIPES];
    cache_entry **slots;
    size_t slot_count; /* a power of two */
    size_t entry_count;
    size_t limit_bytes;
    _Atomic size_t bytes; /* changed under all locks; read by anyone */
    atomic_bool all_held; /* the last search found nothing to evict, and nothing has been let go since */
};

#define CACHE_SLOTS_FIRST 64

unsigned cache_stripe(void) {
    static atomic_uint threads;
    static _Thread_local unsigned own; /* number of the stripe + 1 */
    if (own == 0) {
        own = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) % CACHE_STRIPES + 1;
    }
    return own - 1;
}

cache *cache_create(size_t limit_bytes) {
    cache *c = aligned_alloc(_Alignof(cache), sizeof *c);
    if (c == NULL) {
        return NULL;
    }
    memset(c, 0, sizeof *c);
    c->limit_bytes = limit_bytes;
    c->slot_count = CACHE_SLOTS_FIRST;
    c->slots = calloc(c->slot_count, sizeof *c->slots);
    if (c->slots == NULL) {
        free(c);
        return NULL;
    }
    for (int s = 0; s < CACHE_STRIPES; ++s) {
        pthread_mutex_init(&c->stripes[s].lock, NULL);
    }
    return c;
}

cache_entry *cache_destroy(cache *c) {
    cache_entry *all = NULL;
    for (size_t s = 0; s < c->slot_count; ++s) {
        for (cache_entry *e = c->slots[s], *next; e != NULL; e = next) {
            next = e->next;
            e->next = all;
            all = e;
        }
    }
    for (int s = 0; s < CACHE_STRIPES; ++s) {
        pthread_mutex_destroy(&c->stripes[s].lock);
    }
    free(c->slots);
    free(c);
    return all;
}

void cache_lock_all(cache *c) {
    for (int s = 0; s < CACHE_STRIPES; ++s) {
        pthread_mutex_lock(&c->stripes[s].lock);
    }
}

void cache_unlock_all(cache *c) {
    for (int s = CACHE_STRIPES - 1; s >= 0; --s) {
        pthread_mutex_unlock(&c->stripes[s].lock);
    }
}

/* Bounded: a spec may come from a caller that has not checked it. */
static uint64_t spec_hash(const ffn_spec *spec) {
    const uint64_t numbers =
        (uint64_t)spec->d_model << 32 ^ (uint64_t)spec->d_ff << 4 ^ spec->bias << 1 ^ spec->accuracy;
    return XXH3_64bits_withSeed(spec->activation, strnlen(spec->activation, sizeof spec->activation), numbers);
}

static cache_entry *find(const cache *c, uint64_t hash, const ffn_spec *spec) {
    for (cache_entry *e = c->slots[hash & (c->slot_count - 1)]; e != NULL; e = e->next) {
        if (e->hash == hash && ffn_spec_equal(e->spec, spec)) {
            return e;
        }
    }
    return NULL;
}

/* Milliseconds of a clock that all threads share, and below them the stripe's own count: uses by one thread are told
 * apart however close they are, those of two threads by the steps of the clock. */
static uint64_t time_of_use(stripe_lock *stripe) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    uint64_t ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    return ms << 22 | (++stripe->turn & 0x3fffff);
}

/* The lock of `stripe` is held. */
static void hold(cache *c, cache_entry *e, unsigned stripe) {
    atomic_fetch_add_explicit(&e->stripes[stripe].holders, 1, memory_order_relaxed);
    e->stripes[stripe].used = time_of_use(&c->stripes[stripe]);
}

/* A lock of any stripe is held, so that the entry stays. */
static bool is_free(const cache_entry *e) {
    int64_t holders = 0;
    for (int s = 0; s < CACHE_STRIPES; ++s) {
        holders += atomic_load(&e->stripes[s].holders);
    }
    return holders == 0;
}

cache_entry *cache_find(cache *c, const ffn_spec *spec) {
    uint64_t hash = spec_hash(spec);
    unsigned stripe = cache_stripe();
    pthread_mutex_lock(&c->stripes[stripe].lock);
    cache_entry *e = find(c, hash, spec);
    if (e != NULL) {
        hold(c, e, stripe);
    }
    pthread_mutex_unlock(&c->stripes[stripe].lock);
    return e;
}

/* Without memory for a larger table the old one goes on serving, a little slower. */
static void widen(cache *c) {
    size_t slot_count = c->slot_count * 2;
    cache_entry **slots = calloc(slot_count, sizeof(cache_entry *));
    if (slots == NULL) {
        return;
    }
    for (size_t s = 0; s < c->slot_count; ++s) {
        for (cache_entry *e = c->slots[s], *next; e != NULL; e = next) {
            next = e->next;
            e->next = slots[e->hash & (slot_count - 1)];
            slots[e->hash & (slot_count - 1)] = e;
        }
    }
    free(c->slots);
    c->slots = slots;
    c->slot_count = slot_count;
}

static bool over_limit(const cache *c) {
    return atomic_load_explicit(&c->bytes, memory_order_relaxed) > c->limit_bytes;
}

cache_entry *cache_add(cache *c, cache_entry *made, bool *over) {
    uint64_t hash = spec_hash(made->spec);
    unsigned stripe = cache_stripe();
    cache_lock_all(c);
    cache_entry *e = find(c, hash, made->spec);
    if (e == NULL) {
        if (c->entry_count >= c->slot_count) {
            widen(c);
        }
        e = made;
        e->hash = hash;
        e->next = c->slots[hash & (c->slot_count - 1)];
        c->slots[hash & (c->slot_count - 1)] = e;
        c->entry_count++;
        atomic_fetch_add_explicit(&c->bytes, e->bytes, memory_order_relaxed);
    }
    hold(c, e, stripe);
    cache_unlock_all(c);
    *over = over_limit(c) && !atomic_load_explicit(&c->all_held, memory_order_relaxed);
    return e;
}

bool cache_release(cache *c, cache_entry *entry) {
    unsigned stripe = cache_stripe();
    pthread_mutex_lock(&c->stripes[stripe].lock);
    /* Sequentially consistent, here and in is_free: of the last holders, if they let go at once, one sees the others.
     */
    atomic_fetch_sub(&entry->stripes[stripe].holders, 1);
    bool trims = over_limit(c) && is_free(entry);
    if (trims) {
        atomic_store_explicit(&c->all_held, false, memory_order_relaxed);
    }
    pthread_mutex_unlock(&c->stripes[stripe].lock);
    return trims;
}

bool cache_grow(cache *c, cache_entry *entry, size_t more_bytes) {
    cache_lock_all(c);
    entry->bytes += more_bytes;
    atomic_fetch_add_explicit(&c->bytes, more_bytes, memory_order_relaxed);
    cache_unlock_all(c);
    return over_limit(c) && !atomic_load_explicit(&c->all_held, memory_order_relaxed);
}

/* The place in the table of the entry that has been free for longest; NULL if every one is held. */
static cache_entry **oldest_free(cache *c) {
    cache_entry **oldest = NULL;
    uint64_t oldest_used = 0;
    for (size_t s = 0; s < c->slot_count; ++s) {
        for (cache_entry **at = &c->slots[s]; *at != NULL; at = &(*at)->next) {
            uint64_t used = 0;
            for (int i = 0; i < CACHE_STRIPES; ++i) {
                used = (*at)->stripes[i].used > used ? (*at)->stripes[i].used : used;
            }
            if (is_free(*at) && (oldest == NULL || used < oldest_used)) {
                oldest = at;
                oldest_used = used;
            }
        }
    }
    return oldest;
}

cache_entry *cache_trim(cache *c, size_t *count) {
    cache_entry *out = NULL;
    *count = 0;
    cache_lock_all(c);
    while (over_limit(c)) {
        cache_entry **at = oldest_free(c);
        if (at == NULL) {
            atomic_store_explicit(&c->all_held, true, memory_order_relaxed);
            break;
        }
        cache_entry *e = *at;
        *at = e->next;
        e->next = out;
        out = e;
        ++*count;
        c->entry_count--;
        atomic_fetch_sub_explicit(&c->bytes, e->bytes, memory_order_relaxed);
    }
    cache_unlock_all(c);
    return out;
}

void cache_each(cache *c, void (*visit)(cache_entry *entry)) {
    for (size_t s = 0; s < c->slot_count; ++s) {
        for (cache_entry *e = c->slots[s]; e != NULL; e = e->next) {
            visit(e);
        }
    }
}
