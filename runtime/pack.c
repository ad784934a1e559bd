/* pack.c: checked views of the weights -> a packed block, piece by piece in its order
 *
 * Each piece is written once, and hashed and searched for infinities and NaN while it is in the cache. Invariant: the
 * pieces, one after the other, are the body of the block, however large the sink lets them be. */
#include "pack.h"

#include "diag.h"

#include <string.h>

/* Panels written side by side: a row of an [in, out] matrix is taken 16 cache lines at a time, not one on each of
 * thousands of pages. An [out, in] matrix is best read along 16 rows and no more. */
enum { GROUP = 16 };

/* A matrix with a reader is read in rectangles of this many terms by the columns of one panel, which lie up to STEP_MAX
 * apart. */
enum { READ_TERMS = 128, STEP_MAX = 2, READ_FLOATS_MAX = READ_TERMS * FFN_PANEL * STEP_MAX };

typedef struct writer {
    pack_sink *sink;
    packed_seal seal;
    ffn_diag *diag;
} writer;

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static ffn_status piece_done(writer *to, int64_t floats) {
    packed_seal_add(&to->seal, to->sink->room, floats);
    return to->sink->take(to->sink, floats, to->diag);
}

/* `count` values at a stride, or none, then +0 up to whole panels. */
static ffn_status bias_write(writer *to, const float *bias, int64_t stride, int64_t count, int64_t panels) {
    const int64_t floats = panels * FFN_PANEL, most = to->sink->floats_max;
    for (int64_t begin = 0; begin < floats; begin += most) {
        const int64_t end = smaller(begin + smaller(most, floats), floats);
        float *values = to->sink->room;
        for (int64_t i = begin; i < end; i++)
            *values++ = bias != NULL && i < count ? bias[i * stride] : 0.0f;
        const ffn_status status = piece_done(to, end - begin);
        if (status != FFN_OK)
            return status;
    }
    return FFN_OK;
}

/* Columns first .. first + width - 1 of terms k_begin .. k_end - 1 -> rows[k_end - k_begin][FFN_PANEL]. The nearest
 * elements of the source are taken one after the other: along a row of an [in, out] matrix, in squares of cache lines
 * across an [out, in] one. */
static void rows_write(const pack_view *from, int64_t first, int64_t width, int64_t k_begin, int64_t k_end,
                       float *rows) {
    const int64_t k_stride = from->k_stride, column_stride = from->column_stride, terms = k_end - k_begin;
    const float *source = from->data + first * column_stride + k_begin * k_stride;
    if (width < FFN_PANEL)
        memset(rows, 0, (size_t)terms * FFN_PANEL * sizeof *rows);
    if (column_stride == 1 && width == FFN_PANEL) {
        for (int64_t k = 0; k < terms; k++)
            memcpy(rows + k * FFN_PANEL, source + k * k_stride, FFN_PANEL * sizeof *rows);
    } else if (k_stride == 1) {
        for (int64_t c = 0; c < width; c++)
            for (int64_t k = 0; k < terms; k++)
                rows[k * FFN_PANEL + c] = source[c * column_stride + k];
    } else {
        for (int64_t k = 0; k < terms; k++)
            for (int64_t c = 0; c < width; c++)
                rows[k * FFN_PANEL + c] = source[k * k_stride + c * column_stride];
    }
}

/* The same from a matrix that is read, at most READ_TERMS terms: the rectangle that holds them, then its view. */
static void rows_read(const pack_view *from, int64_t first, int64_t width, int64_t k_begin, int64_t k_end,
                      float *rows) {
    float rectangle[READ_FLOATS_MAX];
    const pack_reader *reader = from->reader;
    const int64_t terms = k_end - k_begin, step = from->step;
    const int64_t column = from->first + step * first, columns = step * (width - 1) + 1;
    pack_view read = {.data = rectangle};
    if (from->layout == FFN_OUT_IN) {
        reader->read(reader->self, column, columns, k_begin, terms, rectangle);
        read.k_stride = 1;
        read.column_stride = step * terms;
    } else {
        reader->read(reader->self, k_begin, terms, column, columns, rectangle);
        read.k_stride = columns;
        read.column_stride = step;
    }
    rows_write(&read, 0, width, 0, terms, rows);
}

/* Terms k_begin .. k_end - 1 of panels begin .. end - 1, each as [k_end - k_begin][FFN_PANEL]; the views take turns. */
static void panels_write(const pack_view *views, int64_t turns, int64_t columns, int64_t begin, int64_t end,
                         int64_t k_begin, int64_t k_end, float *to) {
    const int64_t panel_floats = (k_end - k_begin) * FFN_PANEL;
    const int64_t terms = views->reader != NULL ? READ_TERMS : FFN_PANEL;
    for (int64_t k = k_begin; k < k_end; k += terms)
        for (int64_t p = begin; p < end; p++) {
            const pack_view *from = &views[p % turns];
            const int64_t first = p / turns * FFN_PANEL, width = smaller(columns - first, FFN_PANEL);
            float *rows = to + (p - begin) * panel_floats + (k - k_begin) * FFN_PANEL;
            (from->reader != NULL ? rows_read : rows_write)(from, first, width, k, smaller(k + terms, k_end), rows);
        }
}

/* All panels of one stage; with two views they take turns: gate panel 0, up panel 0, gate panel 1, ... A piece is
 * several panels, or where the sink has no room for one, some of its terms. */
static ffn_status stage_write(writer *to, const pack_view *views, int64_t turns, int64_t terms, int64_t columns) {
    const int64_t panels = turns * ((columns + FFN_PANEL - 1) / FFN_PANEL);
    const int64_t fitting_terms = to->sink->floats_max / FFN_PANEL;
    const int64_t piece_terms = smaller(terms, fitting_terms);
    const int64_t wanted = turns * (views->layout == FFN_OUT_IN ? 1 : GROUP);
    const int64_t together = fitting_terms < terms ? 1 : smaller(wanted, fitting_terms / terms);
    for (int64_t p = 0; p < panels; p += together) {
        const int64_t p_end = smaller(p + together, panels);
        for (int64_t k = 0; k < terms; k += piece_terms) {
            const int64_t k_end = smaller(k + piece_terms, terms);
            panels_write(views, turns, columns, p, p_end, k, k_end, to->sink->room);
            const ffn_status status = piece_done(to, (p_end - p) * (k_end - k) * FFN_PANEL);
            if (status != FFN_OK)
                return status;
        }
    }
    return FFN_OK;
}

ffn_status pack_body(pack_job *job, pack_sink *sink, ffn_diag *diag) {
    const int64_t d_model = job->header.d_model, d_ff = job->header.d_ff;
    const bool gated = packed_gated(&job->at);
    const pack_view expand[] = {job->gate, job->up};
    writer to = {.sink = sink, .diag = diag};
    packed_seal_begin(&to.seal);
    ffn_status status = bias_write(&to, job->bias_up, job->bias_stride, d_ff, job->at.up_panels);
    if (status == FFN_OK && gated)
        status = bias_write(&to, job->bias_gate, job->bias_stride, d_ff, job->at.up_panels);
    if (status == FFN_OK)
        status = bias_write(&to, job->bias_down, 1, d_model, job->at.down_panels);
    if (status == FFN_OK)
        status = stage_write(&to, gated ? expand : &expand[1], gated ? 2 : 1, d_model, d_ff);
    if (status == FFN_OK)
        status = stage_write(&to, &job->down, 1, d_ff, d_model);
    if (status == FFN_OK)
        packed_seal_end(&to.seal, &job->header);
    return status;
}

/* ---- Into memory: pieces are made where they belong ---- */

static ffn_status memory_take(pack_sink *sink, int64_t floats, ffn_diag *diag) {
    (void)diag;
    sink->room += floats;
    sink->floats_max -= floats;
    return FFN_OK;
}

ffn_status ffn_pack(const ffn_spec *spec, const ffn_weights *weights, void *packed, size_t packed_bytes,
                    ffn_diag *diag) {
    size_t needed;
    ffn_status status = ffn_packed_bytes(spec, &needed, diag);
    if (status != FFN_OK)
        return status;
    if (weights == NULL || packed == NULL)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "%s is NULL", weights == NULL ? "weights" : "packed");
    if ((uintptr_t)packed % FFN_PACKED_ALIGN != 0)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "packed is at %p: its address must be a multiple of %d", packed,
                         FFN_PACKED_ALIGN);
    if (packed_bytes < needed)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "packed_bytes is %zu: this spec needs %zu (ffn_packed_bytes)",
                         packed_bytes, needed);
    const pack_weights in_memory = {.weights = *weights};
    pack_job job;
    status = pack_prepare(spec, &in_memory, &job, diag);
    if (status != FFN_OK)
        return status;
    const size_t body_bytes = needed - sizeof job.header;
    pack_sink sink = {.room = (float *)((char *)packed + sizeof job.header),
                      .floats_max = (int64_t)(body_bytes / sizeof(float)),
                      .take = memory_take};
    status = pack_body(&job, &sink, diag);
    if (status == FFN_OK)
        memcpy(packed, &job.header, sizeof job.header);
    return status;
}
