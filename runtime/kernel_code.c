/* kernel_code.c: (spec, plan) -> code that may be published: what the program holds, else the store, else the compiler
 *
 * Invariant: code leaves this file only if it can be called, belongs to the spec and the context's ISA, and has passed
 * the verification that the options ask for. */
#define _POSIX_C_SOURCE 200809L
#include "kernel_code.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "diag.h"
#include "isa.h"
#include "verify.h"

/* What a source that is not ours answers: its words may have no end, its status may be none. */
static ffn_status answer(ffn_status status, ffn_diag *diag) {
    if (diag != NULL) {
        diag->text[FFN_DIAG_BYTES - 1] = '\0';
    }
    if (status < FFN_OK || status > FFN_VERIFY_FAILED) {
        return diag_fail(diag, FFN_COMPILE_FAILED, "the source of code answers %d, which is no status", (int)status);
    }
    return status;
}

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
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
        return diag_fail(diag, FFN_BAD_IMAGE, "code made for %s where the context's ISA is %s",
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

/* Code that must not be published is gone afterwards. */
static ffn_status check_code(const ffn_context *context, const kernel_shape *shape, kernel_code *code, ffn_diag *diag) {
    ffn_status status = check_match(context, &shape->spec, code->code.header, diag);
    if (status == FFN_OK) {
        status = verify_code(context, shape, code, diag);
    }
    if (status != FFN_OK) {
        image_unmap(&code->code);
    }
    return status;
}

ffn_status kernel_code_load(const ffn_context *context, const kernel_shape *shape, const void *bytes, size_t size,
                            kernel_code *code, ffn_diag *diag) {
    double start = now_ms();
    kernel_code loaded = {.origin = FFN_FROM_IMAGE, .plan_from = FFN_PLAN_GIVEN, .image_bytes = size};
    ffn_status status = image_map(bytes, size, &loaded.code, diag);
    if (status != FFN_OK) {
        return status;
    }
    loaded.load_ms = now_ms() - start;
    status = check_code(context, shape, &loaded, diag);
    if (status != FFN_OK) {
        return status;
    }
    loaded.note = tools_register(context->tools, &loaded.code);
    *code = loaded;
    return FFN_OK;
}

static bool has_plan(const image_header *header, const ffn_plan *plan) {
    char made[FFN_DESCRIBE_BYTES], asked[FFN_DESCRIBE_BYTES];
    return ffn_plan_format(&header->plan, made, sizeof made, NULL) == FFN_OK &&
           ffn_plan_format(plan, asked, sizeof asked, NULL) == FFN_OK && strcmp(made, asked) == 0;
}

/* A source may answer with another plan than was asked for: that one is its own. */
static ffn_plan_origin plan_origin(const kernel_code *code, const plan_choice *choice) {
    return has_plan(code->code.header, &choice->plan) ? choice->from : FFN_PLAN_GIVEN;
}

/* UNSUPPORTED where the program holds none; any other failure is an answer too: code that is wrong is not passed over
 * in silence. No tool is told: the program's own symbols name it. */
static ffn_status obtain_native(ffn_context *context, const kernel_shape *shape, const plan_choice *choice,
                                kernel_code *code, ffn_diag *diag) {
    double start = now_ms();
    ffn_native native = {.scratch_bytes = 0};
    ffn_status status = context->source->find(context->source->self, &shape->spec, &choice->plan, &native, diag);
    status = answer(status, diag);
    if (status != FFN_OK) {
        return status;
    }
    kernel_code found = {.origin = FFN_FROM_NATIVE};
    status = image_of_native(&shape->spec, &native, &found.code, diag);
    if (status != FFN_OK) {
        return status;
    }
    found.load_ms = now_ms() - start;
    status = check_code(context, shape, &found, diag);
    if (status != FFN_OK) {
        return status;
    }
    found.plan_from = plan_origin(&found, choice);
    context_count_one(context, CONTEXT_LOADED);
    *code = found;
    return FFN_OK;
}

void kernel_code_free(kernel_code *code) {
    tools_unregister(code->note);
    image_unmap(&code->code);
}

static void release(ffn_bytes *bytes) {
    if (bytes->release != NULL) {
        bytes->release(bytes->data);
    }
}

/* Keeps an image as what it is now: verified, if it has just been. Works on a copy, for the source's bytes may be
 * constants. One with another plan than was asked for, as a source with a fixed set of images may give, is not kept: it
 * would never be found. */
static void keep(ffn_context *context, const store_key *key, const ffn_bytes *bytes, const kernel_code *code,
                 ffn_diag *remark) {
    void *copy = has_plan(code->code.header, key->plan) ? malloc(bytes->bytes) : NULL;
    if (copy == NULL) {
        return;
    }
    memcpy(copy, bytes->data, bytes->bytes);
    if (code->verified) {
        image_mark_verified(copy, bytes->bytes);
    }
    store_keep(context->store, key, copy, bytes->bytes, remark);
    free(copy);
}

/* True if the store settled it, well or ill; false if the image must be built: there is none, or one that cannot be
 * trusted and will be replaced. */
static bool obtain_stored(ffn_context *context, const kernel_shape *shape, const store_key *key, kernel_code *code,
                          ffn_status *status, ffn_diag *remark, ffn_diag *diag) {
    ffn_bytes bytes;
    if (!store_find(context->store, key, &bytes, remark)) {
        return false;
    }
    ffn_diag failure;
    *status = kernel_code_load(context, shape, bytes.data, bytes.bytes, code, &failure);
    if (*status == FFN_OK) {
        code->origin = FFN_FROM_STORE;
        context_count_one(context, CONTEXT_LOADED);
        if (code->verified && code->code.header->verified == 0) {
            keep(context, key, &bytes, code, remark);
        }
    } else {
        diag_fail(diag, *status, "%s", failure.text);
    }
    release(&bytes);
    return *status != FFN_BAD_IMAGE && *status != FFN_VERIFY_FAILED;
}

/* The source to build with: the program's, else the compiler library's. */
static ffn_status find_source(ffn_context *context, const ffn_source **source, ffn_diag *diag) {
    if (context->source != NULL) {
        *source = context->source;
        return context->source->build != NULL
                   ? FFN_OK
                   : diag_fail(
                         diag, FFN_UNSUPPORTED,
                         "the context's source has no code for this, and builds none: the portable kernel serves");
    }
    if (context->compiler == NULL) {
        return diag_fail(diag, FFN_UNSUPPORTED, "the context has no source of code: the portable kernel serves");
    }
    return compiler_load(context->compiler, source, diag);
}

/* From the store, else built. */
static ffn_status obtain_image(ffn_context *context, const kernel_shape *shape, const plan_choice *choice,
                               kernel_code *code, ffn_diag *remark, ffn_diag *diag) {
    const char *identity = NULL;
    if (context->source != NULL) {
        identity = context->source->identity;
    } else if (context->compiler != NULL) {
        identity = compiler_identity(context->compiler, context->store != NULL ? remark : NULL);
    }
    const store_key key = {.spec = &shape->spec, .plan = &choice->plan, .identity = identity};
    bool stored = context->store != NULL && identity != NULL;
    ffn_status status = FFN_OK;
    if (stored && obtain_stored(context, shape, &key, code, &status, remark, diag)) {
        code->plan_from = choice->from; /* it was found by its plan */
        return status;
    }
    const ffn_source *source = NULL;
    status = find_source(context, &source, diag);
    if (status != FFN_OK) {
        return status;
    }
    double start = now_ms();
    ffn_bytes bytes = {0};
    status = source->build(source->self, &shape->spec, &choice->plan, &bytes, diag);
    status = answer(status, diag);
    if (status != FFN_OK) {
        return status;
    }
    double compile_ms = now_ms() - start;
    status = kernel_code_load(context, shape, bytes.data, bytes.bytes, code, diag);
    if (status == FFN_OK) {
        code->origin = FFN_FROM_COMPILER;
        code->plan_from = plan_origin(code, choice);
        code->compile_ms = compile_ms;
        context_count_one(context, CONTEXT_COMPILED);
        if (stored) {
            keep(context, &key, &bytes, code, remark);
        }
    }
    release(&bytes);
    return status;
}

/* What the program holds for other ISAs of this CPU, the widest first: for a context that may have any, where there is
 * no code of the best. */
static ffn_status obtain_lesser(ffn_context *context, const kernel_shape *shape, const ffn_plan *plan,
                                kernel_code *code, ffn_diag *diag) {
    ffn_status status = FFN_UNSUPPORTED;
    for (int32_t lanes = isa_row_of(plan->isa)->lanes / 2; lanes > 1; lanes /= 2) {
        for (ffn_isa isa = FFN_ISA_PORTABLE + 1; isa < FFN_ISA_COUNT && status == FFN_UNSUPPORTED; ++isa) {
            plan_choice lesser;
            if (isa_row_of(isa)->lanes == lanes && ffn_isa_supported(isa) &&
                context_plan(context, &shape->spec, isa, plan->n_class, &lesser, NULL) == FFN_OK) {
                status = obtain_native(context, shape, &lesser, code, diag);
            }
        }
    }
    return status;
}

ffn_status kernel_code_obtain(ffn_context *context, const kernel_shape *shape, const plan_choice *choice,
                              kernel_code *code, ffn_diag *remark, ffn_diag *diag) {
    if (context->source == NULL || context->source->find == NULL) {
        return obtain_image(context, shape, choice, code, remark, diag);
    }
    ffn_status status = obtain_native(context, shape, choice, code, diag);
    if (status != FFN_UNSUPPORTED) {
        return status;
    }
    ffn_diag failure = {.status = FFN_OK};
    status = obtain_image(context, shape, choice, code, remark, &failure);
    if (status == FFN_UNSUPPORTED && context->any_isa) {
        status = obtain_lesser(context, shape, &choice->plan, code, &failure);
    }
    return status == FFN_OK ? status : diag_fail(diag, status, "%s", failure.text);
}
