/* kernel_handle.h: a handle as its two files see it: kernel.c publishes code, kernel_run.c runs it */
#ifndef FFN_KERNEL_HANDLE_H
#define FFN_KERNEL_HANDLE_H

#include <pthread.h>

#include "kernel_code.h"

typedef struct kernel_slot { /* constant once published */
    kernel_code code;        /* the cache's, or the slot's own if it came from ffn_kernel_load */
    ffn_origin origin;
    size_t scratch_bytes; /* what a run through this slot needs */
    struct kernel_slot *next;
} kernel_slot;

struct ffn_kernel {
    ffn_context *context;
    kernel_shape shape;
    size_t planned_scratch_bytes;
    _Atomic size_t scratch_bytes; /* grows only when an image is loaded that needs
                                     more than was planned */
    _Atomic(kernel_slot *) serving[FFN_N_CLASSES];
    pthread_mutex_t publishing; /* guards what follows */
    kernel_slot *own[FFN_N_CLASSES];
    kernel_slot *slots; /* all that were ever published */
};

/* Code that serves n rows; NULL: the portable kernel. */
static inline const kernel_slot *kernel_serving(const ffn_kernel *kernel, int64_t n) {
    return atomic_load_explicit(&kernel->serving[ffn_n_class_of(n)], memory_order_acquire);
}

#endif
