/* emit_header.c: job -> the header, part after part
 *
 * Everything that specs share stands once, under the prefix of the file; a spec adds data, its activation and thin
 * functions. The identity in the guard is a hash of all the rest, so two headers are the same if and only if it is. */
#include "emit_parts.h"

#include "diag.h"
#include "isa.h"

#include <inttypes.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

typedef struct writer {
    emit_view view;
    emit_values values;
    size_t shared_values; /* the first of them are the job's */
    text to;
    ffn_diag *diag;
    ffn_status status;
} writer;

static void put(writer *w, const char *file) {
    if (w->status == FFN_OK && w->values.failed)
        w->status = diag_fail(w->diag, FFN_OUT_OF_MEMORY, "no memory for the header");
    if (w->status == FFN_OK)
        w->status = emit_template(file, w->values.at, w->values.count, &w->to, w->diag);
}

static void use_spec(writer *w, const emit_kernel *kernel) {
    emit_values_cut(&w->values, w->shared_values);
    if (w->status == FFN_OK)
        w->status = emit_spec_values(&w->view, kernel, &w->values, w->diag);
}

static void put_functions(writer *w) {
    const emit_job *job = w->view.job;
    put(w, "shared_functions.in");
    for (int32_t i = 0; i < job->kernel_count; i++) {
        use_spec(w, &job->kernels[i]);
        put(w, "spec_functions.in");
        put(w, "loader_functions.in");
    }
    put(w, "source_function.in");
    put(w, "close_cpp.in");
}

static void put_declarations(writer *w) {
    const emit_job *job = w->view.job;
    put(w, "types.in");
    for (int32_t i = 0; i < job->kernel_count; i++) {
        use_spec(w, &job->kernels[i]);
        put(w, "sizes.in");
    }
    if (!job->is_static) /* a static function that is declared must be defined, which not every file does */
        put_functions(w);
    put(w, "close_declarations.in");
}

static void put_assembly(writer *w, const emit_kernel *kernel) {
    text assembly = {0};
    for (int32_t v = 0; v < w->view.isa_count && w->status == FFN_OK; v++)
        w->status = emit_unit(kernel, w->view.isas[v], &assembly, w->diag);
    if (kernel->weights_file == NULL) /* a file is named by loader_code.in */
        emit_weights(kernel, &assembly);
    w->to.failed |= assembly.failed;
    if (w->status == FFN_OK && assembly.bytes > 0)
        emit_quoted(assembly.data, assembly.bytes, &w->to);
    text_free(&assembly);
}

static void put_implementation(writer *w) {
    static const char *const shared[] = {"checksum.in", "packed.in", "pack.in", "select.in"};
    const emit_job *job = w->view.job;
    put(w, "implementation.in");
    if (job->is_static)
        put_functions(w);
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
        put(w, shared[i]);
    if (job->portable) {
        put(w, "numbers.in");
        put(w, "portable.in");
    }
    put(w, "run.in");
    put(w, "loader.in");
    for (int32_t i = 0; i < job->kernel_count; i++) {
        use_spec(w, &job->kernels[i]);
        if (!job->assembled)
            put_assembly(w, &job->kernels[i]);
        put(w, "spec_code.in");
        put(w, "loader_code.in");
    }
    put(w, "source.in");
    put(w, "close.in");
}

/* The widest first. */
static ffn_status view_of(const emit_job *job, emit_view *view, ffn_diag *diag) {
    *view = (emit_view){.job = job};
    for (int32_t i = 0; i < job->isa_count; i++) {
        const isa_row *row = isa_row_of(job->isas[i]);
        if (row == NULL || view->isa_count == FFN_ISA_COUNT)
            return diag_fail(diag, FFN_BAD_ARGUMENT, "ISA %d of the job has no generated code", i);
        if (row->arch != isa_row_of(job->isas[0])->arch)
            return diag_fail(diag, FFN_BAD_ARGUMENT, "%s and %s are of two architectures: one header is for one",
                             ffn_isa_name(job->isas[0]), ffn_isa_name(job->isas[i]));
        int32_t at = view->isa_count++;
        for (; at > 0 && isa_row_of(view->isas[at - 1])->lanes < row->lanes; at--)
            view->isas[at] = view->isas[at - 1];
        view->isas[at] = job->isas[i];
    }
    if (job->kernel_count < 1 || (view->isa_count == 0 && !job->portable))
        return diag_fail(diag, FFN_BAD_ARGUMENT, "a header needs a spec and an ISA, portable or another");
    emit_upper(job->prefix, view->prefix_upper);
    return FFN_OK;
}

static void put_all(writer *w) {
    text opening, body;
    emit_job_values(&w->view, &w->values);
    w->shared_values = w->values.count;

    use_spec(w, &w->view.job->kernels[0]);
    if (w->status == FFN_OK)
        w->status = emit_opening_values(&w->view, &w->values, w->diag);
    put(w, "opening.in");
    opening = w->to;
    w->to = (text){0};

    put_declarations(w);
    put_implementation(w);
    body = w->to;
    w->to = opening;

    if (w->status == FFN_OK && !body.failed && !opening.failed) {
        emit_values_print(&w->values, "ID", "0x%016" PRIx64 "u",
                          XXH3_64bits_withSeed(body.data, body.bytes, XXH3_64bits(opening.data, opening.bytes)));
        put(w, "guard.in");
        text_add(&w->to, body.data, body.bytes);
    }
    w->to.failed |= body.failed;
    text_free(&body);
}

ffn_status emit_header(const emit_job *job, ffn_bytes *header, ffn_diag *diag) {
    writer w = {.diag = diag};
    w.status = view_of(job, &w.view, diag);
    if (w.status == FFN_OK)
        put_all(&w);
    emit_values_cut(&w.values, 0);
    if (w.status == FFN_OK)
        return text_take(&w.to, header, diag);
    text_free(&w.to);
    return w.status;
}
