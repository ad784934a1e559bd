/* failing_malloc.h: memory that runs out at the k-th allocation */
#ifndef FAILING_MALLOC_H
#define FAILING_MALLOC_H

#include <stdbool.h>

/* From now on the allocation number `first` fails, and with `all_later` those after it; 0: none does. Returns how many
 * were counted since the last call. */
long failing_malloc_begin(long first, bool all_later) __attribute__((weak));

#endif
