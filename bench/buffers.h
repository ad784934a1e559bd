/* buffers.h: large buffers for measuring, and seeded values to fill them
 *
 * Buffers start on a 2 MiB boundary and ask for huge pages, for the kernel and its peers alike, so that neither is
 * measured through the TLB misses of the other's allocator. */
#ifndef BENCH_BUFFERS_H
#define BENCH_BUFFERS_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed memory, or NULL. */
void *bench_alloc(size_t bytes);
void bench_free(void *memory);

/* Uniform values in [-scale, scale], the same for the same seed on every machine. */
void bench_fill(float *values, int64_t count, float scale, uint64_t seed);

/* Equal blocks that are used in turn: more of them than the caches hold keep the weights cold. */
typedef struct bench_copies {
    char *base;
    size_t stride; /* bytes from one copy to the next */
    int64_t count, next;
} bench_copies;

/* Room for `count` copies of `bytes`; 0 if the memory is there, else -1. */
int bench_copies_alloc(bench_copies *copies, size_t bytes, int64_t count);
/* Makes every copy equal to the first. */
void bench_copies_spread(bench_copies *copies);
void *bench_copies_turn(bench_copies *copies);
void bench_copies_free(bench_copies *copies);

#endif
