/* stack.c: see stack.h */
#define _GNU_SOURCE
#include "stack.h"

#include <pthread.h>
#include <stdint.h>

bool stack_has(size_t bytes, size_t *left) {
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0)
        return true;
    void *lowest;
    size_t size, guard;
    int failed = pthread_attr_getstack(&attributes, &lowest, &size) | pthread_attr_getguardsize(&attributes, &guard);
    pthread_attr_destroy(&attributes);
    uintptr_t here = (uintptr_t)__builtin_frame_address(0), low = (uintptr_t)lowest;
    if (failed || here < low || here > low + size)
        return true;
    size_t found = here - low;
    if (found >= bytes)
        return true;
    if (left)
        *left = found;
    return false;
}
