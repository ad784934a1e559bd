/* cache.c: a table of entries that are built once each
 *
 * One mutex guards the table and the state of its entries. It is held for a lookup or a change of state, never while
 * something is built, so a hit never waits for a build. An entry's code is written by its builder alone, before the
 * state becomes READY, and is constant from then on: readers use it without the mutex. Entries are never removed
 * before the cache is destroyed, so a pointer to one stays good. */
#include "cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "diag.h"

typedef enum entry_state { ENTRY_BUILDING, ENTRY_READY, ENTRY_FAILED } entry_state;

typedef struct entry {
    struct entry *next;
    uint64_t hash;
    ffn_spec spec;
    ffn_plan plan;
    entry_state state;
    uint64_t attempt; /* of the build that runs or ran last */
    ffn_diag failure; /* of the last attempt that failed */
    kernel_code code;
} entry;

struct cache {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    entry **slots;
    size_t slot_count; /* a power of two */
    size_t entry_count;
};

#define CACHE_SLOTS_FIRST 64

cache *cache_create(void) {
    cache *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return NULL;
    }
    c->slot_count = CACHE_SLOTS_FIRST;
    c->slots = calloc(c->slot_count, sizeof *c->slots);
    if (c->slots == NULL) {
        free(c);
        return NULL;
    }
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->changed, NULL);
    return c;
}

void cache_destroy(cache *c) {
    if (c == NULL) {
        return;
    }
    for (size_t s = 0; s < c->slot_count; ++s) {
        for (entry *e = c->slots[s], *next; e != NULL; e = next) {
            next = e->next;
            image_unmap(&e->code.code);
            free(e);
        }
    }
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->mutex);
    free(c->slots);
    free(c);
}

/* Field by field: structs have padding that no one promises to be equal. */
static bool plan_equal(const ffn_plan *a, const ffn_plan *b) {
    if (a->isa != b->isa || a->n_class != b->n_class || a->m_block != b->m_block || a->f_block != b->f_block ||
        a->k_block != b->k_block || a->unroll != b->unroll || a->prefetch != b->prefetch ||
        a->tile_count != b->tile_count) {
        return false;
    }
    for (int32_t t = 0; t < a->tile_count; ++t) {
        if (a->tiles[t].mr != b->tiles[t].mr || a->tiles[t].panels != b->tiles[t].panels) {
            return false;
        }
    }
    return true;
}

static uint64_t key_hash(const ffn_spec *spec, const ffn_plan *plan) {
    const int64_t numbers[] = {spec->d_model, spec->d_ff,    spec->bias,    plan->isa,    plan->n_class,
                               plan->m_block, plan->f_block, plan->k_block, plan->unroll, plan->prefetch};
    return XXH3_64bits_withSeed(spec->activation, strlen(spec->activation), XXH3_64bits(numbers, sizeof numbers));
}

static entry *find(const cache *c, uint64_t hash, const ffn_spec *spec, const ffn_plan *plan) {
    for (entry *e = c->slots[hash & (c->slot_count - 1)]; e != NULL; e = e->next) {
        if (e->hash == hash && ffn_spec_equal(&e->spec, spec) && plan_equal(&e->plan, plan)) {
            return e;
        }
    }
    return NULL;
}

/* Without memory for a larger table the old one goes on serving, a little slower. */
static void grow(cache *c) {
    size_t slot_count = c->slot_count * 2;
    entry **slots = calloc(slot_count, sizeof(entry *));
    if (slots == NULL) {
        return;
    }
    for (size_t s = 0; s < c->slot_count; ++s) {
        for (entry *e = c->slots[s], *next; e != NULL; e = next) {
            next = e->next;
            e->next = slots[e->hash & (slot_count - 1)];
            slots[e->hash & (slot_count - 1)] = e;
        }
    }
    free(c->slots);
    c->slots = slots;
    c->slot_count = slot_count;
}

static entry *add(cache *c, uint64_t hash, const ffn_spec *spec, const ffn_plan *plan) {
    entry *e = calloc(1, sizeof *e);
    if (e == NULL) {
        return NULL;
    }
    if (c->entry_count >= c->slot_count) {
        grow(c);
    }
    e->hash = hash;
    e->spec = *spec;
    e->plan = *plan;
    e->state = ENTRY_FAILED; /* not built yet: the caller's turn to try */
    entry **slot = &c->slots[hash & (c->slot_count - 1)];
    e->next = *slot;
    *slot = e;
    ++c->entry_count;
    return e;
}

/* The mutex is held on entry and on return, and free while `how` builds. */
static ffn_status build(cache *c, entry *e, const cache_build *how) {
    e->state = ENTRY_BUILDING;
    ++e->attempt;
    pthread_mutex_unlock(&c->mutex);
    ffn_diag diag = {.status = FFN_OK};
    kernel_code code;
    ffn_status status = how->build(how->self, &e->spec, &e->plan, &code, &diag);
    pthread_mutex_lock(&c->mutex);
    if (status == FFN_OK) {
        e->code = code;
        e->state = ENTRY_READY;
    } else {
        e->failure = diag;
        e->failure.status = status;
        e->state = ENTRY_FAILED;
    }
    pthread_cond_broadcast(&c->changed);
    return status;
}

ffn_status cache_get(cache *c, const ffn_spec *spec, const ffn_plan *plan, const cache_build *how,
                     const kernel_code **code, bool *built, ffn_diag *diag) {
    uint64_t hash = key_hash(spec, plan);
    bool did_build = false;
    ffn_diag failure = {.status = FFN_OK};
    pthread_mutex_lock(&c->mutex);
    entry *e = find(c, hash, spec, plan);
    if (e == NULL) {
        e = add(c, hash, spec, plan);
    }
    if (e == NULL) {
        pthread_mutex_unlock(&c->mutex);
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "cache: %zu bytes for an entry", sizeof(entry));
    }
    if (e->state == ENTRY_FAILED && e->failure.status != FFN_UNSUPPORTED) {
        did_build = true;
        build(c, e, how);
    } else {
        /* A waiter takes the answer of the attempt it found running, even if another one has begun since. */
        for (uint64_t attempt = e->attempt; e->state == ENTRY_BUILDING && e->attempt == attempt;) {
            pthread_cond_wait(&c->changed, &c->mutex);
        }
    }
    bool ready = e->state == ENTRY_READY;
    if (!ready) {
        failure = e->failure;
    }
    pthread_mutex_unlock(&c->mutex);
    *built = did_build;
    if (ready) {
        *code = &e->code;
        return FFN_OK;
    }
    return diag_fail(diag, failure.status, "%s",
                     failure.text[0] != '\0' ? failure.text : ffn_status_text(failure.status));
}
