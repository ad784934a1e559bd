/* kernel_handle.h: a kernel as its files see it: kernel.c makes it, kernel_build.c publishes code, kernel_run.c runs it
 */
#ifndef FFN_KERNEL_HANDLE_H
#define FFN_KERNEL_HANDLE_H

#include <stdatomic.h>

#include "cache.h"
#include "kernel_code.h"

typedef struct kernel_slot { /* constant once published, but for `older` */
    kernel_code code;
    size_t scratch_bytes; /* what a run through this slot needs */
    struct kernel_slot *older;
} kernel_slot;

/* The builds of one class; the context's mutex `builds` guards it. */
typedef struct kernel_build {
    bool running;
    uint64_t attempts;
    ffn_diag failure; /* of the last attempt, if that failed */
} kernel_build;

struct ffn_kernel {
    cache_entry entry; /* first: an entry is its kernel */
    ffn_context *context;
    kernel_shape shape;
    size_t planned_scratch_bytes;
    int32_t planned_panels[FFN_N_CLASSES]; /* of the widest tile; 1 where no code is planned */
    int32_t planned_unit[FFN_N_CLASSES];   /* plan_unit; 1 likewise */
    _Atomic size_t scratch_bytes;          /* grows only when an image is loaded that needs more than was planned */
    _Atomic(kernel_slot *) serving[FFN_N_CLASSES];
    _Atomic(kernel_slot *) own[FFN_N_CLASSES]; /* code of the class itself */
    kernel_slot *slots;                        /* all that were ever published; guarded as `builds` is */
    kernel_build builds[FFN_N_CLASSES];
};

/* Code that serves n rows; NULL: the portable kernel. */
static inline const kernel_slot *kernel_serving(const ffn_kernel *kernel, int64_t n) {
    return atomic_load_explicit(&kernel->serving[ffn_n_class_of(n)], memory_order_acquire);
}

/* Frees entries that have left the cache, and what they own. */
void kernel_free_list(cache_entry *list);
/* Kernels that nobody holds go until the cache meets its limit; freed outside every lock. */
void context_trim(ffn_context *context);

#endif
