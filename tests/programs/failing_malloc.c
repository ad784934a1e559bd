/* failing_malloc.c: an allocator of the program's own, which can be told to fail */
#include "failing_malloc.h"

#include <errno.h>
#include <stdlib.h>

/* glibc's own, which a replacement can stand on. */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *old, size_t bytes);
extern void *__libc_memalign(size_t align, size_t bytes);

static long first_failing, seen; /* one thread allocates while they are in use */
static bool for_good;

long failing_malloc_begin(long first, bool all_later) {
    long before = seen;
    first_failing = first;
    for_good = all_later;
    seen = 0;
    return before;
}

static bool fails(void) {
    if (first_failing == 0)
        return false;
    seen++;
    if (for_good ? seen < first_failing : seen != first_failing)
        return false;
    errno = ENOMEM;
    return true;
}

void *malloc(size_t bytes) {
    return fails() ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes) {
    return fails() ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *old, size_t bytes) {
    return fails() ? NULL : __libc_realloc(old, bytes);
}

void *aligned_alloc(size_t align, size_t bytes) {
    return fails() ? NULL : __libc_memalign(align, bytes);
}
