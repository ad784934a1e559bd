/* kernel.c: a spec -> a handle; a handle -> the code of each n class, published once it may be run
 *
 * What `run` reads of a handle never changes but for `serving`, one atomic pointer a class to a slot that is
 * constant once published. A class without code of its own is served by the nearest that has some, and by the
 * portable kernel where none has. Slots live until the handle is destroyed, so a running thread never loses its
 * code. */
#include "kernel_handle.h"

#include <stdlib.h>
#include <string.h>

#include "cache.h"
#include "diag.h"
#include "fallback.h"
#include "plan.h"
#include "verify.h"

/* Who serves a class, in order of preference: a class for more rows has tiles for fewer, the other way round it
 * reads the weights more often. */
static const ffn_n_class served_by[FFN_N_CLASSES][FFN_N_CLASSES] = {
    [FFN_N_1] = {FFN_N_1, FFN_N_2_4, FFN_N_5_16, FFN_N_17_UP},
    [FFN_N_2_4] = {FFN_N_2_4, FFN_N_5_16, FFN_N_1, FFN_N_17_UP},
    [FFN_N_5_16] = {FFN_N_5_16, FFN_N_17_UP, FFN_N_2_4, FFN_N_1},
    [FFN_N_17_UP] = {FFN_N_17_UP, FFN_N_5_16, FFN_N_2_4, FFN_N_1},
};

/* Scratch that serves the portable kernel and every class as planned; a class the planner has no plan for adds
 * nothing. */
static size_t planned_scratch_bytes(const ffn_context *context, const ffn_spec *spec) {
    size_t bytes = fallback_scratch_bytes(spec);
    for (int c = 0; c < FFN_N_CLASSES; ++c) {
        ffn_plan plan;
        if (context_plan(context, spec, (ffn_n_class)c, &plan, NULL) == FFN_OK) {
            size_t need = (size_t)plan_scratch_bytes(spec, &plan);
            bytes = need > bytes ? need : bytes;
        }
    }
    return bytes;
}

static ffn_status shape_make(const ffn_spec *spec, kernel_shape *shape, ffn_diag *diag) {
    ffn_status status = ffn_spec_check(spec, diag);
    if (status == FFN_OK) {
        status = packed_layout_of(spec, &shape->layout, diag);
    }
    if (status == FFN_OK) {
        status = formula_build(spec->activation, &shape->graph, diag);
    }
    shape->spec = *spec;
    shape->spec_hash = status == FFN_OK ? packed_spec_hash(spec) : 0;
    return status;
}

ffn_status ffn_kernel_create(ffn_context *context, const ffn_spec *spec, ffn_kernel **kernel, ffn_diag *diag) {
    if (context == NULL || spec == NULL || kernel == NULL) {
        return diag_fail(diag, FFN_BAD_ARGUMENT, "context, spec and kernel must not be NULL");
    }
    ffn_kernel *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "kernel: %zu bytes", sizeof *made);
    }
    ffn_status status = shape_make(spec, &made->shape, diag);
    if (status == FFN_OK && context->has_plan) {
        status = ffn_plan_check(spec, &context->plan, diag);
    }
    if (status != FFN_OK) {
        free(made);
        return status;
    }
    made->context = context;
    made->planned_scratch_bytes = planned_scratch_bytes(context, spec);
    atomic_init(&made->scratch_bytes, made->planned_scratch_bytes);
    pthread_mutex_init(&made->publishing, NULL);
    *kernel = made;
    return FFN_OK;
}

void ffn_kernel_destroy(ffn_kernel *kernel) {
    if (kernel == NULL) {
        return;
    }
    for (kernel_slot *slot = kernel->slots, *next; slot != NULL; slot = next) {
        next = slot->next;
        if (slot->origin == FFN_FROM_IMAGE) {
            image_unmap(&slot->code.code);
        }
        free(slot);
    }
    pthread_mutex_destroy(&kernel->publishing);
    free(kernel);
}

/* `slot` becomes the code of a class. Scratch is raised first: whoever sees the slot checks against its own need. */
static void publish(ffn_kernel *kernel, ffn_n_class n_class, kernel_slot *slot) {
    pthread_mutex_lock(&kernel->publishing);
    slot->next = kernel->slots;
    kernel->slots = slot;
    kernel->own[n_class] = slot;
    size_t scratch = atomic_load_explicit(&kernel->scratch_bytes, memory_order_relaxed);
    if (slot->scratch_bytes > scratch) {
        atomic_store_explicit(&kernel->scratch_bytes, slot->scratch_bytes, memory_order_release);
    }
    for (int c = 0; c < FFN_N_CLASSES; ++c) {
        kernel_slot *best = NULL;
        for (int k = FFN_N_CLASSES - 1; k >= 0; --k) {
            kernel_slot *own = kernel->own[served_by[c][k]];
            best = own != NULL ? own : best;
        }
        atomic_store_explicit(&kernel->serving[c], best, memory_order_release);
    }
    pthread_mutex_unlock(&kernel->publishing);
}

static ffn_status publish_code(ffn_kernel *kernel, ffn_n_class n_class, const kernel_code *code, ffn_origin origin,
                               ffn_diag *diag) {
    kernel_slot *slot = calloc(1, sizeof *slot);
    if (slot == NULL) {
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "kernel: %zu bytes", sizeof *slot);
    }
    size_t need = (size_t)code->code.header->scratch_bytes;
    slot->code = *code;
    slot->origin = origin;
    slot->scratch_bytes = need > kernel->planned_scratch_bytes ? need : kernel->planned_scratch_bytes;
    publish(kernel, n_class, slot);
    return FFN_OK;
}

static bool has_own(ffn_kernel *kernel, ffn_n_class n_class) {
    pthread_mutex_lock(&kernel->publishing);
    bool has = kernel->own[n_class] != NULL;
    pthread_mutex_unlock(&kernel->publishing);
    return has;
}

static ffn_status build_for_cache(void *self, const ffn_spec *spec, const ffn_plan *plan, kernel_code *code,
                                  ffn_diag *diag) {
    (void)spec; /* equal to the handle's own */
    ffn_kernel *kernel = self;
    ffn_status status = kernel_code_build(kernel->context, &kernel->shape, plan, code, diag);
    if (status == FFN_OK) {
        context_count_one(kernel->context, CONTEXT_COMPILED);
    } else if (status != FFN_UNSUPPORTED) {
        context_count_one(kernel->context, CONTEXT_FAILED);
    }
    return status;
}

static ffn_status prepare(ffn_kernel *kernel, ffn_n_class n_class, ffn_diag *diag) {
    ffn_context *context = kernel->context;
    if (context->source == NULL) {
        return diag_fail(diag, FFN_UNSUPPORTED, "the context has no source of code: the portable kernel serves");
    }
    ffn_plan plan;
    ffn_status status = context_plan(context, &kernel->shape.spec, n_class, &plan, diag);
    if (status != FFN_OK) {
        return status;
    }
    const kernel_code *code;
    bool built;
    cache_build how = {.build = build_for_cache, .self = kernel};
    status = cache_get(context->cache, &kernel->shape.spec, &plan, &how, &code, &built, diag);
    if (status != FFN_OK) {
        return status;
    }
    if (!built) {
        context_count_one(context, CONTEXT_HIT);
    }
    return publish_code(kernel, n_class, code, FFN_FROM_COMPILER, diag);
}

ffn_status ffn_kernel_prepare(ffn_kernel *kernel, int64_t n, ffn_diag *diag) {
    if (kernel == NULL || n < 0) {
        return diag_fail(diag, FFN_BAD_ARGUMENT, "kernel must not be NULL and n not be negative");
    }
    ffn_n_class n_class = ffn_n_class_of(n);
    if (has_own(kernel, n_class)) {
        context_count_one(kernel->context, CONTEXT_HIT);
        return FFN_OK;
    }
    ffn_status status = prepare(kernel, n_class, diag);
    if (status != FFN_OK) {
        context_count_one(kernel->context, CONTEXT_FELL_BACK);
    }
    return status;
}

ffn_status ffn_kernel_load(ffn_kernel *kernel, const void *bytes, size_t image_bytes, ffn_diag *diag) {
    if (kernel == NULL || bytes == NULL) {
        return diag_fail(diag, FFN_BAD_ARGUMENT, "kernel and image must not be NULL");
    }
    kernel_code code;
    ffn_status status = kernel_code_load(kernel->context, &kernel->shape, bytes, image_bytes, &code, diag);
    if (status == FFN_OK) {
        status = publish_code(kernel, code.code.header->plan.n_class, &code, FFN_FROM_IMAGE, diag);
        if (status != FFN_OK) {
            image_unmap(&code.code);
        }
    }
    if (status == FFN_OK) {
        context_count_one(kernel->context, CONTEXT_LOADED);
    } else if (status != FFN_UNSUPPORTED) {
        context_count_one(kernel->context, CONTEXT_FAILED);
    }
    return status;
}

const ffn_spec *ffn_kernel_spec(const ffn_kernel *kernel) {
    return &kernel->shape.spec;
}

void ffn_kernel_inspect(const ffn_kernel *kernel, int64_t n, ffn_kernel_info *info) {
    const kernel_slot *slot = kernel_serving(kernel, n);
    if (slot == NULL) {
        *info = (ffn_kernel_info){.isa = FFN_ISA_PORTABLE, .source = FFN_FROM_FALLBACK, .plan.isa = FFN_ISA_PORTABLE};
        return;
    }
    const image_header *header = slot->code.code.header;
    *info = (ffn_kernel_info){.isa = (ffn_isa)header->isa,
                              .source = slot->origin,
                              .plan = header->plan,
                              .verified = slot->code.verified,
                              .compile_ms = slot->code.compile_ms,
                              .verify_ms = slot->code.verify_ms,
                              .load_ms = slot->code.load_ms,
                              .image_bytes = slot->code.image_bytes,
                              .code_bytes = (size_t)header->text_bytes};
}

size_t ffn_kernel_scratch_bytes(const ffn_kernel *kernel) {
    return atomic_load_explicit(&kernel->scratch_bytes, memory_order_acquire);
}

size_t ffn_kernel_hidden_bytes(const ffn_kernel *kernel) {
    return (size_t)image_hidden_stride(&kernel->shape.spec) * FFN_STAGE_ROWS_MAX * sizeof(float);
}

ffn_status ffn_kernel_verify(const ffn_kernel *kernel, int64_t n, const ffn_product *product, ffn_verify_report *report,
                             ffn_diag *diag) {
    if (kernel == NULL || n < 0) {
        return diag_fail(diag, FFN_BAD_ARGUMENT, "kernel must not be NULL and n not be negative");
    }
    const kernel_slot *slot = kernel_serving(kernel, n);
    verify_subject subject = {.shape = &kernel->shape,
                              .code = slot != NULL ? &slot->code.code : NULL,
                              .scratch_bytes = slot != NULL ? (size_t)slot->code.code.header->scratch_bytes
                                                            : fallback_scratch_bytes(&kernel->shape.spec)};
    return verify_run(&subject, n, product, report, diag);
}
