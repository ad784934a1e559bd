/* buffers.c: huge-page buffers, seeded values, copies used in turn */
#define _GNU_SOURCE
#include "buffers.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE_BYTES ((size_t)2 << 20)

void *bench_alloc(size_t bytes) {
    if (bytes > SIZE_MAX - HUGE_PAGE_BYTES)
        return NULL;
    size_t alignment = bytes >= HUGE_PAGE_BYTES ? HUGE_PAGE_BYTES : 4096;
    size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    void *memory = aligned_alloc(alignment, rounded ? rounded : alignment);
    if (!memory)
        return NULL;
    madvise(memory, rounded, MADV_HUGEPAGE); /* a wish: without it only the speed changes */
    memset(memory, 0, rounded);
    return memory;
}

void bench_free(void *memory) {
    free(memory);
}

/* splitmix64: its state is a counter, so any seed is as good as another. */
static uint64_t splitmix(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

void bench_fill(float *values, int64_t count, float scale, uint64_t seed) {
    uint64_t state = seed, word = 0;
    for (int64_t i = 0; i < count; i++) {
        word = i % 2 ? word >> 32 : splitmix(&state);
        int32_t centred = (int32_t)((word >> 8) & 0xFFFFFF) - (1 << 23); /* 24 bits: exact as a float */
        values[i] = (float)centred * (scale / (float)(1 << 23));
    }
}

int bench_copies_alloc(bench_copies *copies, size_t bytes, int64_t count) {
    /* One line more than the round size: copies 2^k apart would meet in the same sets of the cache. */
    size_t stride = (bytes + 63) / 64 * 64 + 64;
    *copies = (bench_copies){.stride = stride, .count = count};
    if (count < 1 || stride > SIZE_MAX / (size_t)count)
        return -1;
    copies->base = bench_alloc(stride * (size_t)count);
    return copies->base ? 0 : -1;
}

void bench_copies_spread(bench_copies *copies) {
    for (int64_t i = 1; i < copies->count; i++)
        memcpy(copies->base + (size_t)i * copies->stride, copies->base, copies->stride);
}

void *bench_copies_turn(bench_copies *copies) {
    int64_t turn = copies->next;
    copies->next = turn + 1 < copies->count ? turn + 1 : 0;
    return copies->base + (size_t)turn * copies->stride;
}

void bench_copies_free(bench_copies *copies) {
    bench_free(copies->base);
    *copies = (bench_copies){0};
}
