/* verify.c: code -> FFN_OK, or which of its outputs is wrong
 *
 * Runs the entries of an image on synthetic weights and compares every output bit for bit. Outputs, hidden values
 * and scratch are full of NaN before each call, and what lies beside them is checked after it. Which numbers of rows
 * are run follows from spec and plan alone, never from a clock: the same code always gets the same verdict. */
#define _POSIX_C_SOURCE 200809L
#include "verify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "diag.h"
#include "fallback.h"
#include "verify_product.h"
#include "verify_reference.h"

/* Modelled cost of the fused runs, at a speed most machines exceed; what does not fit is left out, last entries first.
 */
#define BUDGET_MS 14.0
#define MACS_PER_MS 35e6
#define BYTES_PER_MS 60e6
#define ROWS_MAX 1024
#define CANARY 0x7fc0beefu
#define CANARY_FLOATS 16
#define X_PADDING 3
#define Y_PADDING 5

typedef struct trial { /* one verification */
    const verify_subject *subject;
    const verify_block *block;
    verify_reference *reference;
    int64_t rows_max;
    float *x, *y;  /* [rows_max][d_model + padding], y with a row to spare at either end */
    float *hidden; /* [FFN_STAGE_ROWS_MAX][stride] */
    char *scratch;
    float *seen; /* [VERIFY_INPUTS][d_model]: what the code gave for each input */
    bool has[VERIFY_INPUTS];
    ffn_verify_report *report;
    ffn_diag *diag;
} trial;

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t ld_x(const trial *t) {
    return t->subject->shape->spec.d_model + X_PADDING;
}

static int64_t ld_y(const trial *t) {
    return t->subject->shape->spec.d_model + Y_PADDING;
}

static void fill(float *at, int64_t floats) {
    const uint32_t bits = CANARY;
    for (int64_t i = 0; i < floats; ++i) {
        memcpy(at + i, &bits, sizeof bits);
    }
}

static bool untouched(const float *at, int64_t floats) {
    for (int64_t i = 0; i < floats; ++i) {
        uint32_t bits;
        memcpy(&bits, at + i, sizeof bits);
        if (bits != CANARY) {
            return false;
        }
    }
    return true;
}

/* Equal bits, or NaN both: sign and payload of a NaN are not promised. */
static bool same(float a, float b) {
    uint32_t bits_a, bits_b;
    memcpy(&bits_a, &a, sizeof a);
    memcpy(&bits_b, &b, sizeof b);
    return bits_a == bits_b || (isnan(a) && isnan(b));
}

static void fill_scratch(const trial *t) {
    fill((float *)t->scratch, (int64_t)(t->subject->scratch_bytes / sizeof(float)) + CANARY_FLOATS);
}

static ffn_status check_scratch(const trial *t, const char *entry) {
    const float *end = (const float *)t->scratch + t->subject->scratch_bytes / sizeof(float);
    if (!untouched(end, CANARY_FLOATS)) {
        return diag_fail(t->diag, FFN_VERIFY_FAILED, "verification (a): %s writes past its %zu bytes of scratch", entry,
                         t->subject->scratch_bytes);
    }
    return FFN_OK;
}

static void call_fused(const trial *t, int64_t begin, int64_t end) {
    const kernel_shape *shape = t->subject->shape;
    if (t->subject->code != NULL) {
        t->subject->code->fused(t->x, ld_x(t), t->y, ld_y(t), t->block->packed, t->scratch, begin, end);
    } else {
        fallback_run(&shape->spec, &shape->layout, &shape->graph, t->x, ld_x(t), t->y, ld_y(t), t->block->packed,
                     t->scratch, begin, end);
    }
}

static void call_expand(const trial *t, int64_t n, int64_t begin, int64_t end) {
    const kernel_shape *shape = t->subject->shape;
    if (t->subject->code != NULL) {
        t->subject->code->expand(t->x, ld_x(t), t->block->packed, t->hidden, t->scratch, n, begin, end);
    } else {
        fallback_expand(&shape->spec, &shape->layout, &shape->graph, t->x, ld_x(t), t->block->packed, t->hidden,
                        t->scratch, n, begin, end);
    }
}

static void call_contract(const trial *t, int64_t n, int64_t begin, int64_t end) {
    const kernel_shape *shape = t->subject->shape;
    if (t->subject->code != NULL) {
        t->subject->code->contract(t->hidden, t->block->packed, t->y, ld_y(t), t->scratch, n, begin, end);
    } else {
        fallback_contract(&shape->spec, &shape->layout, t->hidden, t->block->packed, t->y, ld_y(t), t->scratch, n,
                          begin, end);
    }
}

static ffn_status differs(const trial *t, const char *entry, int64_t n, int64_t row, const char *what, int64_t column,
                          float got, float right) {
    return diag_fail(
        t->diag, FFN_VERIFY_FAILED,
        "verification (a): %s, %lld rows, row %lld, %s %lld: the code gives %a (%.9g), the portable kernel "
        "%a (%.9g)",
        entry, (long long)n, (long long)row, what, (long long)column, (double)got, (double)got, (double)right,
        (double)right);
}

/* Columns begin .. end-1 of `rows` rows of y against the reference; all else in y must be as it was. */
static ffn_status check_y(const trial *t, const char *entry, int64_t first_row, int64_t rows, int64_t begin,
                          int64_t end) {
    const int64_t d_model = t->subject->shape->spec.d_model;
    for (int64_t i = 0; i < first_row + rows + 1; ++i) {
        const float *y = t->y + i * ld_y(t);
        bool outside = i < first_row || i >= first_row + rows;
        if (outside ? !untouched(y, ld_y(t)) : !untouched(y, begin) || !untouched(y + end, ld_y(t) - end)) {
            return diag_fail(t->diag, FFN_VERIFY_FAILED,
                             "verification (a): %s writes outside its rows or columns, in row %lld", entry,
                             (long long)(i - first_row));
        }
        const float *right = t->reference->y + verify_input_of(i - first_row) * d_model;
        for (int64_t j = begin; j < end && !outside; ++j) {
            if (!same(y[j], right[j])) {
                return differs(t, entry, rows, i - first_row, "column", j, y[j], right[j]);
            }
        }
    }
    t->report->compared += rows * (end - begin);
    return FFN_OK;
}

/* Row 0 of a run is the input of row `first_row` of the buffers. */
static void set_inputs(const trial *t, int64_t first_row, int64_t rows) {
    const int64_t d_model = t->subject->shape->spec.d_model;
    for (int64_t i = 0; i < rows; ++i) {
        memcpy(t->x + (first_row + i) * ld_x(t), t->reference->x + verify_input_of(i) * d_model,
               (size_t)d_model * sizeof(float));
    }
}

static ffn_status try_fused(trial *t, int64_t rows) {
    const int64_t d_model = t->subject->shape->spec.d_model;
    set_inputs(t, 1, rows);
    fill(t->y, (rows + 2) * ld_y(t));
    fill_scratch(t);
    call_fused(t, 1, 1 + rows);
    for (int64_t i = 0; i < least(rows, VERIFY_INPUTS); ++i) {
        memcpy(t->seen + i * d_model, t->y + (1 + i) * ld_y(t), (size_t)d_model * sizeof(float));
        t->has[i] = true;
    }
    ffn_status status = check_y(t, "fused", 1, rows, 0, d_model);
    return status == FFN_OK ? check_scratch(t, "fused") : status;
}

static const ffn_plan *plan_of(const trial *t) {
    static const ffn_plan portable = {.m_block = 96, .tile_count = 2, .tiles = {{4, 1}, {1, 1}}};
    return t->subject->code != NULL ? &t->subject->code->header->plan : &portable;
}

static double fused_ms(const trial *t, int64_t rows) {
    const kernel_shape *shape = t->subject->shape;
    double weights = (double)shape->spec.d_model * (double)shape->spec.d_ff * (shape->graph.gated ? 3 : 2);
    int32_t tallest = plan_of(t)->tiles[0].mr;
    double passes = (double)((rows + tallest - 1) / tallest);
    return fmax((double)rows * weights / MACS_PER_MS, passes * weights * sizeof(float) / BYTES_PER_MS);
}

/* Most rows that fit the budget, at least one, at most `rows`. */
static int64_t affordable(const trial *t, int64_t rows) {
    while (rows > 1 && fused_ms(t, rows) > BUDGET_MS) {
        --rows;
    }
    return rows;
}

/* A full tile and what is left; more than a block of rows; every height that can be left. */
static ffn_status try_fused_all(trial *t, int64_t n) {
    const ffn_plan *plan = plan_of(t);
    const int64_t tallest = plan->tiles[0].mr;
    int64_t first = affordable(t, least(tallest + 1, t->rows_max));
    double spent = fused_ms(t, first);
    ffn_status status = try_fused(t, first);
    if (status == FFN_OK && n > 0 && n != first) { /* asked for: whatever it costs */
        status = try_fused(t, least(n, t->rows_max));
    }
    const int64_t runs = 2 * tallest + 2;
    for (int64_t i = 1; i <= runs && status == FFN_OK; ++i) {
        int64_t rows = i < runs ? i : least(plan->m_block + 1, t->rows_max);
        if (rows != first && spent + fused_ms(t, rows) <= BUDGET_MS) {
            spent += fused_ms(t, rows);
            status = try_fused(t, rows);
        }
    }
    return status;
}

static ffn_status try_expand(trial *t, int64_t rows, int64_t begin, int64_t end) {
    const int64_t stride = t->reference->stride;
    fill(t->hidden, stride * FFN_STAGE_ROWS_MAX);
    fill_scratch(t);
    call_expand(t, rows, begin, end);
    for (int64_t i = 0; i < FFN_STAGE_ROWS_MAX; ++i) {
        const float *got = t->hidden + i * stride;
        const float *right = t->reference->hidden + verify_input_of(i) * stride;
        for (int64_t f = begin; f < end && i < rows; ++f) {
            if (!same(got[f], right[f])) {
                return differs(t, "expand", rows, i, "hidden", f, got[f], right[f]);
            }
        }
        int64_t written = i < rows ? (end + FFN_PANEL - 1) / FFN_PANEL * FFN_PANEL : begin;
        if (!untouched(got, begin) || !untouched(got + written, stride - written)) {
            return diag_fail(t->diag, FFN_VERIFY_FAILED,
                             "verification (a): expand writes outside its rows or columns, in row %lld", (long long)i);
        }
    }
    t->report->compared += rows * (end - begin);
    return check_scratch(t, "expand");
}

static ffn_status try_contract(trial *t, int64_t rows, int64_t begin, int64_t end) {
    const int64_t stride = t->reference->stride;
    for (int64_t i = 0; i < rows; ++i) {
        memcpy(t->hidden + i * stride, t->reference->hidden + verify_input_of(i) * stride,
               (size_t)stride * sizeof(float));
    }
    fill(t->y, (rows + 1) * ld_y(t));
    fill_scratch(t);
    call_contract(t, rows, begin, end);
    ffn_status status = check_y(t, "contract", 0, rows, begin, end);
    return status == FFN_OK ? check_scratch(t, "contract") : status;
}

/* Both ends of a stage's columns, a tile and a panel wide, for one number of rows. */
static ffn_status try_stage_edges(trial *t, ffn_status (*stage)(trial *, int64_t, int64_t, int64_t), int64_t rows,
                                  int64_t columns) {
    const ffn_plan *plan = plan_of(t);
    int64_t panels = 1;
    for (int32_t i = 0; i < plan->tile_count; ++i) {
        panels = plan->tiles[i].panels > panels ? plan->tiles[i].panels : panels;
    }
    int64_t edge = (panels + 1) * FFN_PANEL;
    if (columns <= 2 * edge) {
        return stage(t, rows, 0, columns);
    }
    ffn_status status = stage(t, rows, 0, edge);
    int64_t last = (columns - 1) / FFN_PANEL * FFN_PANEL;
    return status == FFN_OK ? stage(t, rows, last - panels * FFN_PANEL, columns) : status;
}

static ffn_status try_stages(trial *t) {
    const ffn_spec *spec = &t->subject->shape->spec;
    const int64_t tallest = least(plan_of(t)->tiles[0].mr + 1, FFN_STAGE_ROWS_MAX);
    ffn_status status = FFN_OK;
    set_inputs(t, 0, tallest);
    for (int64_t rows = 1; rows <= tallest && status == FFN_OK; ++rows) {
        status = try_stage_edges(t, try_expand, rows, spec->d_ff);
        if (status == FFN_OK) {
            status = try_stage_edges(t, try_contract, rows, spec->d_model);
        }
    }
    return status;
}

#define ACTIVATE_VALUES 1031

/* Ordinary, huge, tiny and special values, at every length of a tail. */
static ffn_status try_activate(const trial *t) {
    static const float specials[] = {0,         -0.0f,      INFINITY,        -INFINITY, NAN,
                                     0x1p-149f, -0x1p-126f, 0x1.fffffep127f, -1e30f};
    enum { SPECIALS = sizeof specials / sizeof *specials };
    const formula_graph *graph = &t->subject->shape->graph;
    float g[ACTIVATE_VALUES], u[ACTIVATE_VALUES], right[ACTIVATE_VALUES], got[ACTIVATE_VALUES + 1];
    for (int i = 0; i < ACTIVATE_VALUES; ++i) {
        g[i] = i % 7 == 3 ? specials[i / 7 % SPECIALS] : ldexpf(verify_noise((uint64_t)i), i % 9 - 2);
        u[i] = i % 11 == 3 ? specials[i / 11 % SPECIALS] : ldexpf(verify_noise((uint64_t)i + 5000), i % 5 - 1);
    }
    formula_eval(graph, ACTIVATE_VALUES, g, u, right);
    for (int count = ACTIVATE_VALUES; count > 0; count = count > 67 ? 67 : count - 1) {
        int from = ACTIVATE_VALUES - count;
        fill(got, ACTIVATE_VALUES + 1);
        if (t->subject->code != NULL) {
            t->subject->code->activate(count, g + from, u + from, got);
        } else {
            formula_eval(graph, count, g + from, u + from, got);
        }
        for (int i = 0; i < count; ++i) {
            if (!same(got[i], right[from + i])) {
                return diag_fail(t->diag, FFN_VERIFY_FAILED,
                                 "verification (a): activation of %a, %a, element %d of %d: the code gives %a, the "
                                 "portable kernel %a",
                                 (double)g[from + i], (double)u[from + i], i, count, (double)got[i],
                                 (double)right[from + i]);
            }
        }
        if (!untouched(got + count, 1)) {
            return diag_fail(t->diag, FFN_VERIFY_FAILED, "verification (a): activate writes past %d elements", count);
        }
    }
    t->report->compared += ACTIVATE_VALUES;
    return FFN_OK;
}

/* Check (c) on what the code gave; after a failure of (a) as well, to name the side that is wrong. */
static ffn_status try_product(const trial *t, const ffn_product *product, ffn_status status) {
    if (product == NULL || (status != FFN_OK && status != FFN_VERIFY_FAILED)) {
        return status;
    }
    verify_outputs outputs = {.code = t->seen, .has = t->has, .portable = t->subject->code == NULL};
    return verify_product_check(t->reference, t->block, &outputs, product, status, t->report, t->diag);
}

static ffn_status try_block(trial *t, verify_block *block, const ffn_product *product, int64_t n) {
    verify_reference_run(t->reference, block);
    memset(t->has, 0, sizeof t->has);
    ffn_status status = try_fused_all(t, n);
    if (status == FFN_OK) {
        status = try_stages(t);
    }
    status = try_product(t, product, status);
    for (int r = 0; r < 2 && status == FFN_OK; ++r) {
        if (t->has[r]) {
            status = verify_reference_check(t->reference, block, r, t->seen + r * t->subject->shape->spec.d_model,
                                            &t->report->compared, t->diag);
        }
    }
    return status;
}

static ffn_status try_all(trial *t, verify_block *block, const ffn_product *product, int64_t n) {
    ffn_status status = try_block(t, block, product, n);
    if (status == FFN_OK) {
        const int64_t d_model = t->subject->shape->spec.d_model;
        t->report->bits = ffn_digest(t->reference->y, VERIFY_INPUTS, d_model, d_model);
        status = try_activate(t);
    }
    if (status == FFN_OK && !block->sampled) {
        verify_block_probe(block);
        status = try_block(t, block, NULL, 0);
    }
    return status;
}

static void *lines(size_t floats) {
    return aligned_alloc(FFN_SCRATCH_ALIGN,
                         (floats * sizeof(float) + FFN_SCRATCH_ALIGN - 1) / FFN_SCRATCH_ALIGN * FFN_SCRATCH_ALIGN);
}

static ffn_status try_memory(trial *t, verify_block *block, const ffn_product *product, int64_t n) {
    const int64_t d_model = t->subject->shape->spec.d_model;
    const ffn_plan *plan = plan_of(t);
    const int64_t tallest = 2 * plan->tiles[0].mr + 1;
    const int64_t wanted = n > plan->m_block + 1 ? n : plan->m_block + 1;
    t->rows_max = least(wanted, ROWS_MAX);
    /* Blocks of rows are crossed where that is cheap: a wide row costs memory and time. */
    while (t->rows_max > tallest && t->rows_max > n && fused_ms(t, t->rows_max) > BUDGET_MS) {
        t->rows_max = t->rows_max / 2;
    }
    t->rows_max = t->rows_max > tallest ? t->rows_max : tallest;
    t->x = lines((size_t)((t->rows_max + 2) * ld_x(t)));
    t->y = lines((size_t)((t->rows_max + 2) * ld_y(t)));
    t->hidden = lines((size_t)(t->reference->stride * FFN_STAGE_ROWS_MAX));
    t->scratch = lines(t->subject->scratch_bytes / sizeof(float) + CANARY_FLOATS);
    t->seen = lines((size_t)(d_model * VERIFY_INPUTS));
    ffn_status status = FFN_OK;
    if (t->x == NULL || t->y == NULL || t->hidden == NULL || t->scratch == NULL || t->seen == NULL) {
        status = diag_fail(t->diag, FFN_OUT_OF_MEMORY, "verification: %lld rows of %lld", (long long)t->rows_max,
                           (long long)d_model);
    } else {
        status = try_all(t, block, product, n);
    }
    free(t->x);
    free(t->y);
    free(t->hidden);
    free(t->scratch);
    free(t->seen);
    return status;
}

static double now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

ffn_status verify_run(const verify_subject *subject, int64_t n, const ffn_product *product, ffn_verify_report *report,
                      ffn_diag *diag) {
    double start = now_ms();
    verify_block block;
    verify_reference reference;
    ffn_verify_report made = {0};
    ffn_status status = verify_block_make(subject->shape, &block, diag);
    if (status != FFN_OK) {
        return status;
    }
    status = verify_reference_make(subject->shape, &reference, diag);
    if (status == FFN_OK) {
        trial t = {.subject = subject, .block = &block, .reference = &reference, .report = &made, .diag = diag};
        status = try_memory(&t, &block, product, n);
        verify_reference_free(&reference);
    }
    verify_block_free(&block);
    made.ms = now_ms() - start;
    if (report != NULL && (status == FFN_OK || status == FFN_VERIFY_FAILED)) {
        *report = made;
    }
    return status;
}
