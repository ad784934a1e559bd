/* stack.h: how much of the calling thread's stack is left, so that deep work is refused instead of overflowing it */
#ifndef FFN_STACK_H
#define FFN_STACK_H

#include <stdbool.h>
#include <stddef.h>

/* What LLVM is given. It takes 108 KiB at most for the presets, all ISAs, classes and formats (docs/compiler.md);
 * ffn.h asks callers for 1 MiB. */
#define STACK_NEEDED_BYTES ((size_t)512 << 10)

/* False if less than `bytes` are left; `left` (may be NULL) is then what there is. True where it cannot be known: on a
 * stack that is not the thread's own, say a coroutine's. */
bool stack_has(size_t bytes, size_t *left);

#endif
