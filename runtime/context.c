/* context.c: options -> a context; an image's bytes -> code that may be published
 *
 * Invariant: code leaves this file only if it is mapped, belongs to the spec and the context's ISA, and has passed
 * the verification that the options ask for. */
#define _POSIX_C_SOURCE 200809L
#include "kernel_code.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cache.h"
#include "diag.h"
#include "plan.h"
#include "verify.h"

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* The ISA of a context: the one asked for, else the plan's, else the best of this CPU. */
static ffn_status resolve_isa(const ffn_options *options, ffn_isa *isa, ffn_diag *diag) {
    ffn_isa asked = options->isa;
    if (options->plan != NULL) {
        if (asked != FFN_ISA_AUTO && asked != options->plan->isa) {
            return diag_fail(diag, FFN_BAD_ARGUMENT, "options: isa and plan->isa differ: leave isa at FFN_ISA_AUTO");
        }
        asked = options->plan->isa;
    }
    if (asked == FFN_ISA_AUTO) {
        *isa = ffn_isa_best();
        return FFN_OK;
    }
    const char *name = ffn_isa_name(asked);
    if (name == NULL) {
        return diag_fail(diag, FFN_BAD_ARGUMENT, "options: isa %d is not one of enum ffn_isa", (int)asked);
    }
    if (asked != FFN_ISA_PORTABLE && !ffn_isa_supported(asked)) {
        return diag_fail(diag, FFN_UNSUPPORTED,
                         "options: this CPU or its operating system does not support %s; %s is "
                         "its best",
                         name, ffn_isa_name(ffn_isa_best()));
    }
    *isa = asked;
    return FFN_OK;
}

ffn_status ffn_context_create(const ffn_options *options, ffn_context **context, ffn_diag *diag) {
    static const ffn_options defaults;
    if (context == NULL) {
        return diag_fail(diag, FFN_BAD_ARGUMENT, "context is NULL: it must say where the new context goes");
    }
    if (options == NULL) {
        options = &defaults;
    }
    if ((unsigned)options->verify > FFN_VERIFY_NEVER) {
        return diag_fail(diag, FFN_BAD_ARGUMENT, "options: verify %d is not one of enum ffn_verify_mode",
                         (int)options->verify);
    }
    if ((options->source != NULL && options->source->build == NULL) ||
        (options->product != NULL && options->product->multiply == NULL)) {
        return diag_fail(diag, FFN_BAD_ARGUMENT, "options: a source needs its build, a product its multiply");
    }
    ffn_isa isa = FFN_ISA_PORTABLE;
    ffn_status status = resolve_isa(options, &isa, diag);
    if (status != FFN_OK) {
        return status;
    }
    ffn_context *made = calloc(1, sizeof *made);
    struct cache *codes = cache_create();
    if (made == NULL || codes == NULL) {
        free(made);
        cache_destroy(codes);
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "context: %zu bytes", sizeof *made);
    }
    made->isa = isa;
    made->any_isa = options->isa == FFN_ISA_AUTO && options->plan == NULL;
    made->verify = options->verify;
    made->source = options->source;
    made->product = options->product;
    made->cache = codes;
    if (options->machine != NULL) {
        made->machine = *options->machine;
    } else {
        ffn_machine_read(&made->machine);
    }
    if (options->plan != NULL) {
        made->has_plan = true;
        made->plan = *options->plan;
    }
    *context = made;
    return FFN_OK;
}

void ffn_context_destroy(ffn_context *context) {
    if (context != NULL) {
        cache_destroy(context->cache);
        free(context);
    }
}

void ffn_context_counters(ffn_context *context, ffn_counters *counters) {
    uint64_t counts[CONTEXT_COUNTS];
    for (int c = 0; c < CONTEXT_COUNTS; ++c) {
        counts[c] = atomic_load_explicit(&context->counts[c], memory_order_relaxed);
    }
    *counters = (ffn_counters){.compiled = counts[CONTEXT_COMPILED],
                               .loaded = counts[CONTEXT_LOADED],
                               .hit = counts[CONTEXT_HIT],
                               .fell_back = counts[CONTEXT_FELL_BACK],
                               .failed = counts[CONTEXT_FAILED]};
}

ffn_status context_plan(const ffn_context *context, const ffn_spec *spec, ffn_n_class n_class, ffn_plan *plan,
                        ffn_diag *diag) {
    if (context->has_plan) {
        *plan = context->plan;
        return ffn_plan_check(spec, plan, diag);
    }
    return ffn_plan_make(spec, context->isa, n_class, &context->machine, plan, diag);
}

/* An image from anywhere may be whole and still be another spec's, or another ISA's than was asked for. */
static ffn_status check_match(const ffn_context *context, const ffn_spec *spec, const image_header *header,
                              ffn_diag *diag) {
    if (!ffn_spec_equal(&header->spec, spec)) {
        char text[FFN_SPEC_NAME_BYTES];
        if (ffn_spec_name(&header->spec, false, text, sizeof text, NULL) != FFN_OK) {
            text[0] = '\0';
        }
        return diag_fail(diag, FFN_BAD_IMAGE, "image: made for another spec: %s", text);
    }
    if (!context->any_isa && (ffn_isa)header->isa != context->isa) {
        return diag_fail(diag, FFN_BAD_IMAGE, "image: made for %s where the context's ISA is %s",
                         ffn_isa_name((ffn_isa)header->isa), ffn_isa_name(context->isa));
    }
    return FFN_OK;
}

static ffn_status verify_code(const ffn_context *context, const kernel_shape *shape, kernel_code *code,
                              ffn_diag *diag) {
    const image_header *header = code->code.header;
    code->verified = header->verified != 0;
    if (context->verify == FFN_VERIFY_NEVER || (context->verify == FFN_VERIFY_FIRST_USE && code->verified)) {
        return FFN_OK;
    }
    verify_subject subject = {.shape = shape, .code = &code->code, .scratch_bytes = (size_t)header->scratch_bytes};
    ffn_verify_report report;
    ffn_status status = verify_run(&subject, 0, context->product, &report, diag);
    code->verified = status == FFN_OK;
    code->verify_ms = status == FFN_OK ? report.ms : 0;
    return status;
}

ffn_status kernel_code_load(const ffn_context *context, const kernel_shape *shape, const void *bytes, size_t size,
                            kernel_code *code, ffn_diag *diag) {
    double start = now_ms();
    kernel_code loaded = {.image_bytes = size};
    ffn_status status = image_map(bytes, size, &loaded.code, diag);
    if (status != FFN_OK) {
        return status;
    }
    loaded.load_ms = now_ms() - start;
    status = check_match(context, &shape->spec, loaded.code.header, diag);
    if (status == FFN_OK) {
        status = verify_code(context, shape, &loaded, diag);
    }
    if (status != FFN_OK) {
        image_unmap(&loaded.code);
        return status;
    }
    *code = loaded;
    return FFN_OK;
}

ffn_status kernel_code_build(const ffn_context *context, const kernel_shape *shape, const ffn_plan *plan,
                             kernel_code *code, ffn_diag *diag) {
    double start = now_ms();
    ffn_bytes bytes = {0};
    ffn_status status = context->source->build(context->source->self, &shape->spec, plan, &bytes, diag);
    if (status != FFN_OK) {
        return status;
    }
    double compile_ms = now_ms() - start;
    status = kernel_code_load(context, shape, bytes.data, bytes.bytes, code, diag);
    if (status == FFN_OK) {
        code->compile_ms = compile_ms;
    }
    if (bytes.release != NULL) {
        bytes.release(bytes.data);
    }
    return status;
}
