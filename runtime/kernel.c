/* kernel.c: a spec -> the kernel that the context has for it, made when it is first asked for
 *
 * Finding a kernel costs a hash, a lock that no other thread wants, and a comparison: an engine may do it for every
 * call. Making one checks the spec, builds the activation's graph and plans every class. */
#include "kernel_handle.h"

#include <stdlib.h>
#include <string.h>

#include "diag.h"
#include "fallback.h"
#include "plan.h"
#include "verify.h"

/* Scratch that serves the portable kernel and every class as planned; a class the planner has no plan for adds
 * nothing. How columns are cut for threads goes by the plans too. */
static ffn_status plan_classes(ffn_context *context, ffn_kernel *kernel, ffn_diag *diag) {
    const ffn_spec *spec = &kernel->shape.spec;
    size_t bytes = fallback_scratch_bytes(spec);
    for (int c = 0; c < FFN_N_CLASSES; ++c) {
        plan_choice choice;
        kernel->planned_panels[c] = kernel->planned_unit[c] = 1;
        const ffn_status status = context_plan(context, spec, context->isa, (ffn_n_class)c, &choice, NULL);
        if (status == FFN_OUT_OF_MEMORY) {
            return diag_fail(diag, status, "kernel: no memory to plan it");
        }
        if (status == FFN_OK) {
            size_t need = (size_t)plan_scratch_bytes(spec, &choice.plan);
            bytes = need > bytes ? need : bytes;
            kernel->planned_panels[c] = plan_group(&choice.plan);
            kernel->planned_unit[c] = plan_unit(&choice.plan);
        }
    }
    kernel->planned_scratch_bytes = bytes;
    atomic_init(&kernel->scratch_bytes, bytes);
    return FFN_OK;
}

static ffn_status shape_make(const ffn_spec *spec, kernel_shape *shape, ffn_diag *diag) {
    ffn_status status = ffn_spec_check(spec, diag);
    if (status == FFN_OK) {
        status = packed_layout_of(spec, &shape->layout, diag);
    }
    if (status == FFN_OK) {
        status = formula_build(spec->activation, spec->accuracy, &shape->graph, diag);
    }
    shape->spec = *spec;
    shape->spec_hash = status == FFN_OK ? packed_spec_hash(spec) : 0;
    return status;
}

void kernel_free_list(cache_entry *list) {
    for (cache_entry *entry = list, *next; entry != NULL; entry = next) {
        next = entry->next;
        ffn_kernel *kernel = (ffn_kernel *)entry;
        for (kernel_slot *slot = kernel->slots, *older; slot != NULL; slot = older) {
            older = slot->older;
            kernel_code_free(&slot->code);
            free(slot);
        }
        free(kernel);
    }
}

static ffn_status kernel_make(ffn_context *context, const ffn_spec *spec, ffn_kernel **kernel, ffn_diag *diag) {
    ffn_kernel *made = aligned_alloc(_Alignof(ffn_kernel), sizeof *made);
    if (made == NULL) {
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "kernel: %zu bytes", sizeof *made);
    }
    memset(made, 0, sizeof *made);
    ffn_status status = shape_make(spec, &made->shape, diag);
    if (status == FFN_OK && context->has_plan) {
        status = ffn_plan_check(spec, &context->plan, diag);
    }
    if (status == FFN_OK) {
        status = plan_classes(context, made, diag);
    }
    if (status != FFN_OK) {
        free(made);
        return status;
    }
    made->entry.spec = &made->shape.spec;
    made->entry.bytes = sizeof *made;
    made->context = context;
    *kernel = made;
    return FFN_OK;
}

ffn_status ffn_kernel_create(ffn_context *context, const ffn_spec *spec, ffn_kernel **kernel, ffn_diag *diag) {
    if (context == NULL || spec == NULL || kernel == NULL) {
        return diag_fail(diag, FFN_BAD_ARGUMENT, "context, spec and kernel must not be NULL");
    }
    cache_entry *entry = cache_find(context->kernels, spec);
    if (entry == NULL) {
        ffn_kernel *made = NULL;
        ffn_status status = kernel_make(context, spec, &made, diag);
        if (status != FFN_OK) {
            return status;
        }
        bool over;
        entry = cache_add(context->kernels, &made->entry, &over);
        if (entry != &made->entry) {
            free(made);
        }
        if (over) {
            context_trim(context);
        }
    }
    *kernel = (ffn_kernel *)entry;
    return FFN_OK;
}

void ffn_kernel_destroy(ffn_kernel *kernel) {
    if (kernel != NULL) {
        ffn_context *context = kernel->context;
        if (cache_release(context->kernels, &kernel->entry)) {
            context_trim(context);
        }
    }
}

void context_trim(ffn_context *context) {
    size_t count;
    cache_entry *out = cache_trim(context->kernels, &count);
    atomic_fetch_add_explicit(&context->counts[CONTEXT_EVICTED], count, memory_order_relaxed);
    kernel_free_list(out);
}

const ffn_spec *ffn_kernel_spec(const ffn_kernel *kernel) {
    return kernel == NULL ? NULL : &kernel->shape.spec;
}

void ffn_kernel_inspect(const ffn_kernel *kernel, int64_t n, ffn_kernel_info *info) {
    if (info == NULL) {
        return;
    }
    const kernel_slot *slot = kernel != NULL ? kernel_serving(kernel, n) : NULL;
    if (slot == NULL) {
        *info = (ffn_kernel_info){.isa = FFN_ISA_PORTABLE, .source = FFN_FROM_FALLBACK, .plan.isa = FFN_ISA_PORTABLE};
        return;
    }
    const image_header *header = slot->code.code.header;
    *info = (ffn_kernel_info){.isa = (ffn_isa)header->isa,
                              .source = slot->code.origin,
                              .plan = header->plan,
                              .plan_from = slot->code.plan_from,
                              .verified = slot->code.verified,
                              .compile_ms = slot->code.compile_ms,
                              .verify_ms = slot->code.verify_ms,
                              .load_ms = slot->code.load_ms,
                              .image_bytes = slot->code.image_bytes,
                              .code_bytes = (size_t)header->text_bytes};
}

size_t ffn_kernel_scratch_bytes(const ffn_kernel *kernel) {
    return kernel == NULL ? 0 : atomic_load_explicit(&kernel->scratch_bytes, memory_order_acquire);
}

size_t ffn_kernel_hidden_bytes(const ffn_kernel *kernel) {
    return kernel == NULL ? 0 : (size_t)image_hidden_stride(&kernel->shape.spec) * FFN_STAGE_ROWS_MAX * sizeof(float);
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
