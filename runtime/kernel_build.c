/* kernel_build.c: a class of a kernel -> code of its own, obtained once and published
 *
 * The first thread that prepares a class obtains its code, outside every lock; others wait and get the same answer.
 * What is published is never taken back while the kernel is held: a running thread keeps its code. A class without code
 * is served by the nearest that has some, and by the portable kernel where none has. */
#include <stdlib.h>
#include <string.h>

#include "diag.h"
#include "kernel_handle.h"

/* Who serves a class, in order of preference: a class for more rows has tiles for fewer, the other way round it
 * reads the weights more often. */
static const ffn_n_class served_by[FFN_N_CLASSES][FFN_N_CLASSES] = {
    [FFN_N_1] = {FFN_N_1, FFN_N_2_4, FFN_N_5_16, FFN_N_17_UP},
    [FFN_N_2_4] = {FFN_N_2_4, FFN_N_5_16, FFN_N_1, FFN_N_17_UP},
    [FFN_N_5_16] = {FFN_N_5_16, FFN_N_17_UP, FFN_N_2_4, FFN_N_1},
    [FFN_N_17_UP] = {FFN_N_17_UP, FFN_N_5_16, FFN_N_2_4, FFN_N_1},
};

/* `slot` becomes the code of a class. Scratch is raised first: whoever sees the slot checks against its own need. `own`
 * comes last: whoever sees that the class has code of its own is served by it. The context's `builds` is held. */
static void publish(ffn_kernel *kernel, ffn_n_class n_class, kernel_slot *slot) {
    if (slot->scratch_bytes > atomic_load_explicit(&kernel->scratch_bytes, memory_order_relaxed)) {
        atomic_store_explicit(&kernel->scratch_bytes, slot->scratch_bytes, memory_order_release);
    }
    for (int c = 0; c < FFN_N_CLASSES; ++c) {
        kernel_slot *best = NULL;
        for (int k = FFN_N_CLASSES - 1; k >= 0; --k) {
            ffn_n_class other = served_by[c][k];
            kernel_slot *own =
                other == n_class ? slot : atomic_load_explicit(&kernel->own[other], memory_order_relaxed);
            best = own != NULL ? own : best;
        }
        atomic_store_explicit(&kernel->serving[c], best, memory_order_release);
    }
    atomic_store_explicit(&kernel->own[n_class], slot, memory_order_release);
}

static kernel_slot *make_slot(const ffn_kernel *kernel, const kernel_code *code) {
    kernel_slot *slot = calloc(1, sizeof *slot);
    if (slot != NULL) {
        size_t need = (size_t)code->code.header->scratch_bytes;
        slot->code = *code;
        slot->scratch_bytes = need > kernel->planned_scratch_bytes ? need : kernel->planned_scratch_bytes;
    }
    return slot;
}

/* A slot that has the same image, so that what is loaded again and again is mapped once. `builds` is held. */
static kernel_slot *find_image(const ffn_kernel *kernel, const kernel_code *code) {
    kernel_slot *slot = kernel->slots;
    while (slot != NULL && slot->code.code.header->checksum != code->code.header->checksum) {
        slot = slot->older;
    }
    return slot;
}

/* Takes the code, whatever comes of it. The context's `builds` is not held. */
static ffn_status publish_code(ffn_kernel *kernel, ffn_n_class n_class, kernel_code *code, ffn_diag *diag) {
    ffn_context *context = kernel->context;
    kernel_slot *slot = make_slot(kernel, code);
    if (slot == NULL) {
        kernel_code_free(code);
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "kernel: %zu bytes", sizeof *slot);
    }
    pthread_mutex_lock(&context->builds);
    kernel_slot *known = find_image(kernel, code);
    if (known == NULL) {
        slot->older = kernel->slots;
        kernel->slots = slot;
    }
    publish(kernel, n_class, known != NULL ? known : slot);
    pthread_mutex_unlock(&context->builds);
    if (known != NULL) {
        kernel_code_free(code);
        free(slot);
    } else if (cache_grow(context->kernels, &kernel->entry, sizeof *slot + code->code.mapped_bytes)) {
        context_trim(context);
    }
    return FFN_OK;
}

static const kernel_slot *own_code(const ffn_kernel *kernel, ffn_n_class n_class) {
    return atomic_load_explicit(&kernel->own[n_class], memory_order_acquire);
}

/* One attempt to get the code of a class. */
static ffn_status attempt(ffn_kernel *kernel, ffn_n_class n_class, const plan_choice *choice, ffn_diag *remark,
                          ffn_diag *diag) {
    kernel_code code;
    ffn_status status = kernel_code_obtain(kernel->context, &kernel->shape, choice, &code, remark, diag);
    if (status == FFN_OK) {
        status = publish_code(kernel, n_class, &code, diag);
    }
    if (status != FFN_OK && status != FFN_UNSUPPORTED) {
        context_count_one(kernel->context, CONTEXT_FAILED);
    }
    return status;
}

/* The answer for a class that has no code yet: this thread's attempt, or the one under way in another. UNSUPPORTED is
 * an answer for good; after any other failure the next thread that asks tries again. */
static ffn_status prepare(ffn_kernel *kernel, ffn_n_class n_class, const plan_choice *choice, ffn_diag *remark,
                          ffn_diag *diag) {
    ffn_context *context = kernel->context;
    kernel_build *build = &kernel->builds[n_class];
    pthread_mutex_lock(&context->builds);
    bool waits = build->running;
    for (uint64_t seen = build->attempts; build->running && build->attempts == seen;) {
        pthread_cond_wait(&context->built, &context->builds);
    }
    bool found = own_code(kernel, n_class) != NULL;
    if (found || waits || build->failure.status == FFN_UNSUPPORTED) {
        ffn_diag failure = build->failure;
        pthread_mutex_unlock(&context->builds);
        if (found) {
            context_count_hit(context);
            return FFN_OK;
        }
        return diag_fail(diag, failure.status, "%s", failure.text);
    }
    build->running = true;
    build->attempts++;
    pthread_mutex_unlock(&context->builds);

    ffn_diag failure = {.status = FFN_OK};
    ffn_status status = attempt(kernel, n_class, choice, remark, &failure);
    if (status != FFN_OK) {
        diag_fail(&failure, status, "%s", failure.text[0] != '\0' ? failure.text : ffn_status_text(status));
        diag_fail(diag, status, "%s", failure.text);
    }
    pthread_mutex_lock(&context->builds);
    build->running = false;
    build->failure = failure;
    pthread_cond_broadcast(&context->built);
    pthread_mutex_unlock(&context->builds);
    return status;
}

/* The way of a class that has no code yet; kept apart, for a hit should not pay for its diags. A thread that is
 * cancelled on the way would leave others waiting for its build. */
__attribute__((noinline)) static ffn_status prepare_cold(ffn_kernel *kernel, ffn_n_class n_class, ffn_diag *diag) {
    ffn_context *context = kernel->context;
    ffn_diag remark = {.status = FFN_OK};
    plan_choice choice;
    int cancelled;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelled);
    ffn_status status = context_plan(context, &kernel->shape.spec, context->isa, n_class, &choice, diag);
    if (status == FFN_OK) {
        status = prepare(kernel, n_class, &choice, &remark, diag);
    }
    if (status != FFN_OK) {
        context_count_one(context, CONTEXT_FELL_BACK);
    }
    context_leave_remark(context, &remark);
    pthread_setcancelstate(cancelled, NULL);
    return status;
}

ffn_status ffn_kernel_prepare(ffn_kernel *kernel, int64_t n, ffn_diag *diag) {
    if (kernel == NULL || n < 0) {
        return diag_fail(diag, FFN_BAD_ARGUMENT, "kernel must not be NULL and n not be negative");
    }
    ffn_context *context = kernel->context;
    ffn_n_class n_class = context->has_plan ? context->plan.n_class : ffn_n_class_of(n);
    ffn_status status = FFN_OK;
    if (own_code(kernel, n_class) != NULL) {
        context_count_hit(context);
    } else {
        status = prepare_cold(kernel, n_class, diag);
    }
    if (status == FFN_OK && diag != NULL) {
        diag->status = FFN_OK;
        diag->text[0] = '\0';
        if (atomic_load_explicit(&context->remark_count, memory_order_relaxed) > 0) {
            context_take_remarks(context, diag);
        }
    }
    return status;
}

ffn_status ffn_kernel_load(ffn_kernel *kernel, const void *bytes, size_t image_bytes, ffn_diag *diag) {
    if (kernel == NULL || bytes == NULL) {
        return diag_fail(diag, FFN_BAD_ARGUMENT, "kernel and image must not be NULL");
    }
    ffn_context *context = kernel->context;
    kernel_code code;
    int cancelled;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelled);
    ffn_status status = kernel_code_load(context, &kernel->shape, bytes, image_bytes, &code, diag);
    if (status == FFN_OK) {
        status = publish_code(kernel, code.code.header->plan.n_class, &code, diag);
    }
    if (status == FFN_OK) {
        context_count_one(context, CONTEXT_LOADED);
    } else if (status != FFN_UNSUPPORTED) {
        context_count_one(context, CONTEXT_FAILED);
    }
    pthread_setcancelstate(cancelled, NULL);
    return status;
}
