/* cache.h: (spec, plan) -> kernel_code, built at most once
 *
 * A plan names its ISA and n class, so spec and plan are the whole key. Entries live as long as the cache. */
#ifndef FFN_CACHE_H
#define FFN_CACHE_H

#include "kernel_code.h"

typedef struct cache cache;

/* NULL if out of memory. */
cache *cache_create(void);
/* Unmaps every code; no other thread may use the cache or its codes any more. */
void cache_destroy(cache *c);

typedef struct cache_build {
    ffn_status (*build)(void *self, const ffn_spec *spec, const ffn_plan *plan, kernel_code *code, ffn_diag *diag);
    void *self;
} cache_build;

/* The code of a key. The first thread that asks builds it, outside every lock; the others wait and get the same
 * answer. After a failure the next thread that asks builds again, except after UNSUPPORTED, which no second try can
 * change. `built` tells whether this call ran `build`. */
ffn_status cache_get(cache *c, const ffn_spec *spec, const ffn_plan *plan, const cache_build *how,
                     const kernel_code **code, bool *built, ffn_diag *diag);

#endif
