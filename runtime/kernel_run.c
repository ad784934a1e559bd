/* kernel_run.c: arguments -> checked arguments -> a call of the code that serves them
 *
 * Invariant: nothing is written before every argument has been checked, and the checks cost a few tens of
 * nanoseconds: they compare numbers and read the header of the packed weights, never the weights. */
#include "kernel_run.h"

#include <stdint.h>

#include "diag.h"
#include "fallback.h"

typedef struct span { /* bytes [begin, end) */
    uintptr_t begin, end;
} span;

static bool spans_meet(span a, span b) {
    return a.begin < b.end && b.begin < a.end;
}

static bool span_of(const void *data, uint64_t bytes, span *s) {
    s->begin = (uintptr_t)data;
    return !__builtin_add_overflow(s->begin, bytes, &s->end);
}

/* Bytes from the first element of n >= 1 rows to the end of the last. */
static ffn_status rows_span(const char *name, const float *data, int64_t ld, const ffn_args *args, int64_t width,
                            span *s, ffn_diag *diag) {
    if (data == NULL || (uintptr_t)data % _Alignof(float) != 0) {
        return diag_fail(diag, FFN_BAD_ARGUMENT, "%s is %p: it must be a float-aligned address", name,
                         (const void *)data);
    }
    if (ld < width) {
        return diag_fail(diag, FFN_BAD_ARGUMENT, "ld%s is %lld: it must be at least d_model, %lld", name, (long long)ld,
                         (long long)width);
    }
    int64_t elements;
    int64_t bytes;
    if (__builtin_mul_overflow(args->n - 1, ld, &elements) || __builtin_add_overflow(elements, width, &elements) ||
        __builtin_mul_overflow(elements, (int64_t)sizeof(float), &bytes) || !span_of(data, (uint64_t)bytes, s)) {
        return diag_fail(diag, FFN_BAD_ARGUMENT, "%s: %lld rows at stride %lld do not fit the address space", name,
                         (long long)args->n, (long long)ld);
    }
    return FFN_OK;
}

/* Rows of x and y may lie in one buffer if they share a stride and their columns stay apart in every row. */
static bool rows_apart(const ffn_args *args, span x, span y, int64_t width) {
    if (!spans_meet(x, y)) {
        return true;
    }
    if (args->ldx != args->ldy) {
        return false;
    }
    int64_t ld_bytes = args->ldx * (int64_t)sizeof(float);
    int64_t width_bytes = width * (int64_t)sizeof(float);
    int64_t shift = (int64_t)(y.begin - x.begin) % ld_bytes;
    shift += shift < 0 ? ld_bytes : 0;
    return shift >= width_bytes && shift + width_bytes <= ld_bytes;
}

static ffn_status check_scratch(const ffn_args *args, size_t need, const char *query, ffn_diag *diag) {
    if (args->scratch == NULL || (uintptr_t)args->scratch % FFN_SCRATCH_ALIGN != 0) {
        return diag_fail(diag, FFN_BAD_ARGUMENT, "scratch is %p: it must be aligned to %d bytes", args->scratch,
                         FFN_SCRATCH_ALIGN);
    }
    if (args->scratch_bytes < need) {
        return diag_fail(diag, FFN_BAD_ARGUMENT, "scratch has %zu bytes: %s now asks for %zu", args->scratch_bytes,
                         query, need);
    }
    return FFN_OK;
}

ffn_status kernel_run_check_call(const ffn_kernel *kernel, const ffn_args *args, ffn_diag *diag) {
    if (kernel == NULL || args == NULL) {
        return diag_fail(diag, FFN_BAD_ARGUMENT, "kernel and args must not be NULL");
    }
    if (args->n < 0) {
        return diag_fail(diag, FFN_BAD_ARGUMENT, "n is %lld: it must not be negative", (long long)args->n);
    }
    return FFN_OK;
}

/* What the code reads and writes, apart from rows: weights and scratch, neither of which `written` may touch. */
static ffn_status check_blocks(const ffn_kernel *kernel, const ffn_args *args, size_t need, const char *query,
                               span read, span written, ffn_diag *diag) {
    const kernel_shape *shape = &kernel->shape;
    ffn_status status = packed_header_check(&shape->spec, shape->spec_hash, args->packed, diag);
    if (status == FFN_OK) {
        status = check_scratch(args, need, query, diag);
    }
    if (status != FFN_OK) {
        return status;
    }
    span scratch, packed;
    if (!span_of(args->scratch, need, &scratch) ||
        !span_of(args->packed, (uint64_t)shape->layout.total_bytes, &packed)) {
        return diag_fail(diag, FFN_BAD_ARGUMENT, "packed or scratch does not fit the address space");
    }
    if (spans_meet(scratch, read) || spans_meet(scratch, written) || spans_meet(scratch, packed) ||
        spans_meet(packed, written)) {
        return diag_fail(diag, FFN_BAD_ARGUMENT, "scratch, packed, input and output must not overlap");
    }
    return FFN_OK;
}

ffn_status kernel_run_check(const ffn_kernel *kernel, const ffn_args *args, size_t scratch_bytes, const char *query,
                            ffn_diag *diag) {
    const int64_t width = kernel->shape.spec.d_model;
    span x, y;
    ffn_status status = rows_span("x", args->x, args->ldx, args, width, &x, diag);
    if (status == FFN_OK) {
        status = rows_span("y", args->y, args->ldy, args, width, &y, diag);
    }
    if (status != FFN_OK) {
        return status;
    }
    if (!rows_apart(args, x, y, width)) {
        return diag_fail(diag, FFN_BAD_ARGUMENT,
                         "x and y overlap: they may share a buffer only as columns that stay "
                         "apart, at one stride");
    }
    return check_blocks(kernel, args, scratch_bytes, query, x, y, diag);
}

ffn_status ffn_kernel_run_rows(const ffn_kernel *kernel, const ffn_args *args, int64_t row_begin, int64_t row_end,
                               ffn_diag *diag) {
    ffn_status status = kernel_run_check_call(kernel, args, diag);
    if (status != FFN_OK) {
        return status;
    }
    if (row_begin < 0 || row_begin > row_end || row_end > args->n) {
        return diag_fail(diag, FFN_BAD_ARGUMENT, "rows %lld to %lld: must be a range of 0 to n, %lld",
                         (long long)row_begin, (long long)row_end, (long long)args->n);
    }
    if (row_begin == row_end) {
        return FFN_OK;
    }
    const kernel_slot *slot = kernel_serving(kernel, row_end - row_begin);
    status = kernel_run_check(kernel, args, kernel_run_scratch_bytes(kernel, slot), "ffn_kernel_scratch_bytes", diag);
    if (status != FFN_OK) {
        return status;
    }
    if (slot != NULL) {
        slot->code.code.fused(args->x, args->ldx, args->y, args->ldy, args->packed, args->scratch, row_begin, row_end);
    } else {
        const kernel_shape *shape = &kernel->shape;
        fallback_run(&shape->spec, &shape->layout, &shape->graph, args->x, args->ldx, args->y, args->ldy, args->packed,
                     args->scratch, row_begin, row_end);
    }
    return FFN_OK;
}

ffn_status ffn_kernel_run(const ffn_kernel *kernel, const ffn_args *args, ffn_diag *diag) {
    return ffn_kernel_run_rows(kernel, args, 0, args != NULL && args->n > 0 ? args->n : 0, diag);
}

/* A stage's arguments; `rows` is x of the expand stage or y of the contract stage. `*idle` if there is nothing to
 * do. */
static ffn_status check_stage(const ffn_kernel *kernel, const ffn_args *args, bool expand, const float *hidden,
                              int64_t col_begin, int64_t col_end, const kernel_slot **serving, bool *idle,
                              ffn_diag *diag) {
    ffn_status status = kernel_run_check_call(kernel, args, diag);
    if (status != FFN_OK) {
        return status;
    }
    const ffn_spec *spec = &kernel->shape.spec;
    const int64_t columns = expand ? spec->d_ff : spec->d_model;
    if (args->n > FFN_STAGE_ROWS_MAX) {
        return diag_fail(diag, FFN_BAD_ARGUMENT, "n is %lld: a stage takes at most %d rows", (long long)args->n,
                         FFN_STAGE_ROWS_MAX);
    }
    if (col_begin < 0 || col_begin > col_end || col_end > columns ||
        (col_begin % FFN_PANEL != 0 && col_begin < columns) || (col_end % FFN_PANEL != 0 && col_end != columns)) {
        return diag_fail(diag, FFN_BAD_ARGUMENT,
                         "columns %lld to %lld: must be a range of 0 to %lld whose ends are "
                         "multiples of %d or the width",
                         (long long)col_begin, (long long)col_end, (long long)columns, FFN_PANEL);
    }
    *idle = args->n == 0 || col_begin == col_end;
    if (*idle) {
        return FFN_OK;
    }
    if (hidden == NULL || (uintptr_t)hidden % FFN_SCRATCH_ALIGN != 0) {
        return diag_fail(diag, FFN_BAD_ARGUMENT, "hidden is %p: it must be aligned to %d bytes", (const void *)hidden,
                         FFN_SCRATCH_ALIGN);
    }
    span rows, shared;
    status = expand ? rows_span("x", args->x, args->ldx, args, spec->d_model, &rows, diag)
                    : rows_span("y", args->y, args->ldy, args, spec->d_model, &rows, diag);
    if (status != FFN_OK) {
        return status;
    }
    uint64_t hidden_bytes = (uint64_t)(image_hidden_stride(spec) * args->n) * sizeof(float);
    if (!span_of(hidden, hidden_bytes, &shared) || spans_meet(rows, shared)) {
        return diag_fail(diag, FFN_BAD_ARGUMENT, "hidden overlaps %s or does not fit the address space",
                         expand ? "x" : "y");
    }
    *serving = kernel_serving(kernel, args->n);
    return check_blocks(kernel, args, kernel_run_scratch_bytes(kernel, *serving), "ffn_kernel_scratch_bytes",
                        expand ? rows : shared, expand ? shared : rows, diag);
}

ffn_status ffn_kernel_expand(const ffn_kernel *kernel, const ffn_args *args, float *hidden, int64_t col_begin,
                             int64_t col_end, ffn_diag *diag) {
    bool idle = true;
    const kernel_slot *slot = NULL;
    ffn_status status = check_stage(kernel, args, true, hidden, col_begin, col_end, &slot, &idle, diag);
    if (status != FFN_OK || idle) {
        return status;
    }
    const kernel_shape *shape = &kernel->shape;
    if (slot != NULL) {
        slot->code.code.expand(args->x, args->ldx, args->packed, hidden, args->scratch, args->n, col_begin, col_end);
    } else {
        fallback_expand(&shape->spec, &shape->layout, &shape->graph, args->x, args->ldx, args->packed, hidden,
                        args->scratch, args->n, col_begin, col_end);
    }
    return FFN_OK;
}

ffn_status ffn_kernel_contract(const ffn_kernel *kernel, const ffn_args *args, const float *hidden, int64_t col_begin,
                               int64_t col_end, ffn_diag *diag) {
    bool idle = true;
    const kernel_slot *slot = NULL;
    ffn_status status = check_stage(kernel, args, false, hidden, col_begin, col_end, &slot, &idle, diag);
    if (status != FFN_OK || idle) {
        return status;
    }
    const kernel_shape *shape = &kernel->shape;
    if (slot != NULL) {
        slot->code.code.contract(hidden, args->packed, args->y, args->ldy, args->scratch, args->n, col_begin, col_end);
    } else {
        fallback_contract(&shape->spec, &shape->layout, hidden, args->packed, args->y, args->ldy, args->scratch,
                          args->n, col_begin, col_end);
    }
    return FFN_OK;
}

/* The vector loop reads ahead of what it writes: the whole array or nothing of it may be written in place. */
static bool array_usable(const float *in, const float *out, int64_t count) {
    uintptr_t a = (uintptr_t)in, b = (uintptr_t)out, bytes = (uintptr_t)count * sizeof(float);
    if ((uint64_t)count > PTRDIFF_MAX / sizeof(float) || a % _Alignof(float) || b % _Alignof(float)) {
        return false;
    }
    return a == b || (a < b ? b - a : a - b) >= bytes;
}

ffn_status ffn_kernel_activate(const ffn_kernel *kernel, int64_t n_rows, int64_t count, const float *g, const float *u,
                               float *out, ffn_diag *diag) {
    if (kernel == NULL || n_rows < 0 || count < 0) {
        return diag_fail(diag, FFN_BAD_ARGUMENT, "kernel must not be NULL, n_rows and count not be negative");
    }
    if (count == 0) {
        return FFN_OK;
    }
    const formula_graph *graph = &kernel->shape.graph;
    if (g == NULL || out == NULL || (graph->gated && u == NULL)) {
        return diag_fail(diag, FFN_BAD_ARGUMENT, "g, out and for a gated activation u must not be NULL");
    }
    if (!array_usable(g, out, count) || (graph->gated && !array_usable(u, out, count))) {
        return diag_fail(diag, FFN_BAD_ARGUMENT,
                         "g, u and out must be aligned to float, fit the address space, and out may be g or u but not "
                         "overlap them in part");
    }
    const kernel_slot *slot = kernel_serving(kernel, n_rows);
    if (slot != NULL) {
        slot->code.code.activate(count, g, u, out);
    } else {
        formula_eval(graph, count, g, u, out);
    }
    return FFN_OK;
}
