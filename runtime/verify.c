/* verify.c: code -> FFN_OK, or which of its outputs is wrong
 *
 * Chooses what is run. The choice follows from spec and plan alone, never from a clock: the same code always gets
 * the same verdict. Every height of tile the plan has is run through the stages; through the fused nest as many as
 * the modelled cost allows, the tallest first. */
#define _POSIX_C_SOURCE 200809L
#include "verify.h"

#include <math.h>
#include <time.h>

#include "default_state.h"
#include "diag.h"
#include "fallback.h"
#include "plan.h"
#include "verify_product.h"
#include "verify_trial.h"

/* Cost of a row tile's way through the weights: by its multiply-adds, but at least by reading them. Slower than most
 * machines, so that the budget of a first use (docs/verification.md) holds on them. */
#define MACS_PER_MS 28e6
#define WEIGHTS_PER_MS 10e6
#define FIRST_MS 26.0               /* of the first fused run */
#define FUSED_MS 12.0               /* of all fused runs; the first may exceed it */
#define ONE_ROW_MS 250.0            /* a row of more than this is not run: no fused run, no edge of a stage */
#define DIMS_MAX (INT64_C(1) << 21) /* of d_model + d_ff; beyond, inputs and outputs alone cost too much */
#define ROWS_MAX 1024
#define FEW_ROWS 4
#define PASSES_MS 10e3 /* modelled, of all passes over a block too large to fill */
#define PASS_MS 15.0   /* of one, beside its fused run */

typedef struct row_counts {
    int count;
    int64_t rows[FFN_TILES_MAX + 2];
} row_counts;

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static const ffn_plan *plan_of(const verify_subject *subject) {
    static const ffn_plan portable = {.m_block = 96, .tile_count = 2, .tiles = {{4, 1}, {1, 1}}};
    return subject->code != NULL ? &subject->code->header->plan : &portable;
}

/* The heights of the plan's tiles, tallest first; then numbers of rows that take a tall tile and what is left. */
static row_counts row_counts_of(const ffn_plan *plan) {
    row_counts counts = {0};
    for (int32_t i = 0; i < plan->tile_count; ++i) {
        if (counts.count == 0 || counts.rows[counts.count - 1] != plan->tiles[i].mr) {
            counts.rows[counts.count++] = plan->tiles[i].mr;
        }
    }
    counts.rows[counts.count++] = plan->tiles[0].mr + 1;
    counts.rows[counts.count++] = 2 * plan->tiles[0].mr + 1;
    return counts;
}

static double tile_ms(const verify_subject *subject, int64_t height) {
    const ffn_spec *spec = &subject->shape->spec;
    double weights = (double)spec->d_model * (double)spec->d_ff * (subject->shape->graph.gated ? 3 : 2);
    double read = (double)subject->shape->layout.total_bytes / sizeof(float);
    return fmax((double)height * weights / MACS_PER_MS, read / WEIGHTS_PER_MS);
}

static double fused_ms(const verify_subject *subject, int64_t rows) {
    const ffn_plan *plan = plan_of(subject);
    double ms = 0;
    while (rows > 0) {
        int64_t height = subject->code != NULL ? plan_next_height(plan, rows) : least(rows, plan->tiles[0].mr);
        ms += tile_ms(subject, height);
        rows -= height;
    }
    return ms;
}

/* All of it, or with `once` the first affordable number of rows only. */
static ffn_status try_fused(verify_trial *t, int64_t n, bool once) {
    const ffn_plan *plan = plan_of(t->subject);
    const row_counts counts = row_counts_of(plan);
    int64_t first = 1;
    n = least(n, t->rows_max);
    for (int i = counts.count - 3; i >= 0; --i) {
        first = fused_ms(t->subject, counts.rows[i]) <= FIRST_MS ? counts.rows[i] : first;
    }
    double spent = fused_ms(t->subject, first);
    if (n == 0 && spent > ONE_ROW_MS) {
        return FFN_OK;
    }
    ffn_status status = verify_trial_fused(t, first);
    if (status == FFN_OK && n > 0 && n != first) { /* asked for: whatever it costs */
        status = verify_trial_fused(t, n);
    }
    for (int i = 0; i <= counts.count && status == FFN_OK && !once; ++i) {
        int64_t rows = least(i < counts.count ? counts.rows[i] : plan->m_block + 1, t->rows_max);
        double ms = fused_ms(t->subject, rows);
        if (rows != first && spent + ms <= FUSED_MS) {
            spent += ms;
            status = verify_trial_fused(t, rows);
        }
    }
    return status;
}

typedef ffn_status stage(verify_trial *t, int64_t rows, int64_t begin, int64_t end);

/* Both ends of a stage's columns, a tile and a panel wide. */
static ffn_status try_edges(verify_trial *t, stage *run, int64_t rows, int64_t terms, int64_t columns) {
    const ffn_plan *plan = plan_of(t->subject);
    int64_t panels = 1;
    for (int32_t i = 0; i < plan->tile_count; ++i) {
        panels = plan->tiles[i].panels > panels ? plan->tiles[i].panels : panels;
    }
    int64_t edge = (panels + 1) * FFN_PANEL;
    if (2 * (double)edge * (double)terms / WEIGHTS_PER_MS > ONE_ROW_MS && columns > FFN_PANEL) {
        return FFN_OK;
    }
    if (columns <= 2 * edge) {
        return run(t, rows, 0, columns);
    }
    ffn_status status = run(t, rows, 0, edge);
    int64_t last = (columns - 1) / FFN_PANEL * FFN_PANEL;
    return status == FFN_OK ? run(t, rows, last - panels * FFN_PANEL, columns) : status;
}

/* Every number of rows for which a kernel may pass over zeros. */
static ffn_status try_few(verify_trial *t) {
    const ffn_spec *spec = &t->subject->shape->spec;
    ffn_status status = FFN_OK;
    for (int64_t rows = 1; rows <= least(FEW_ROWS, t->rows_max) && status == FFN_OK; ++rows) {
        status = try_edges(t, verify_trial_few, rows, spec->d_ff, spec->d_model);
    }
    return status;
}

static ffn_status try_stages(verify_trial *t, bool once) {
    const ffn_spec *spec = &t->subject->shape->spec;
    const row_counts counts = row_counts_of(plan_of(t->subject));
    ffn_status status = FFN_OK;
    for (int i = 0; i < (once ? 1 : counts.count - 1) && status == FFN_OK; ++i) {
        int64_t rows = least(least(counts.rows[i], FFN_STAGE_ROWS_MAX), t->rows_max);
        status = try_edges(t, verify_trial_expand, rows, spec->d_model, spec->d_ff);
        if (status == FFN_OK) {
            status = try_edges(t, verify_trial_contract, rows, spec->d_ff, spec->d_model);
        }
    }
    if (status == FFN_OK && !once && t->subject->code != NULL && plan_lists_columns(spec, plan_of(t->subject))) {
        status = try_few(t);
    }
    const int64_t last = (spec->d_model - 1) / FFN_PANEL * FFN_PANEL;
    if (status == FFN_OK && !once && 2.0 * FFN_PANEL * (double)spec->d_ff / WEIGHTS_PER_MS <= ONE_ROW_MS) {
        const int64_t rows = least(least(counts.rows[0], FFN_STAGE_ROWS_MAX), t->rows_max);
        status = verify_trial_minus_zero(t, rows, last, spec->d_model);
    }
    return status;
}

/* Check (c) on what the code gave; after a failure of (a) as well, to name the side that is wrong. */
static ffn_status try_product(const verify_trial *t, const ffn_product *product, ffn_status status) {
    if (product == NULL || t->reference->inputs < VERIFY_INPUTS || (status != FFN_OK && status != FFN_VERIFY_FAILED)) {
        return status;
    }
    verify_outputs outputs = {.code = t->seen, .has = t->has, .portable = t->subject->code == NULL};
    return verify_product_check(t->reference, t->block, &outputs, product, status, t->report, t->diag);
}

/* Check (b). A sampled block has units of both signs for one input. */
static ffn_status try_probes(verify_trial *t) {
    const int64_t d_model = t->subject->shape->spec.d_model;
    ffn_status status = FFN_OK;
    for (int r = 0; r < (t->block->sampled ? 1 : 2) && status == FFN_OK; ++r) {
        if (t->has[r]) {
            status =
                verify_reference_check(t->reference, t->block, r, t->seen + r * d_model, &t->report->compared, t->diag);
        }
    }
    return status;
}

static ffn_status try_block(verify_trial *t, const ffn_product *product, int64_t n, bool once) {
    verify_reference_run(t->reference, t->block);
    for (int r = 0; r < VERIFY_INPUTS; ++r) {
        t->has[r] = false;
    }
    ffn_status status = try_fused(t, n, once);
    if (status == FFN_OK) {
        status = try_stages(t, once);
    }
    status = try_product(t, product, status);
    return status == FFN_OK ? try_probes(t) : status;
}

static ffn_status try_all(verify_trial *t, verify_block *block, const ffn_product *product, int64_t n) {
    ffn_status status = try_block(t, product, n, false);
    if (status == FFN_OK) {
        const int64_t d_model = t->subject->shape->spec.d_model;
        t->report->bits = ffn_digest(t->reference->y, t->reference->inputs, d_model, d_model);
        status = verify_trial_activate(t);
    }
    if (status == FFN_OK && !block->sampled) {
        verify_block_probe(block);
        status = try_block(t, NULL, 0, true);
    }
    return status;
}

/* Blocks of rows are crossed where that is cheap: rows cost memory as well as time. */
static int64_t rows_max_of(const verify_subject *subject, int64_t n) {
    if (verify_inputs(subject->shape) == 1) {
        return 1;
    }
    const ffn_plan *plan = plan_of(subject);
    const int64_t crossing = least(plan->m_block + 1, ROWS_MAX);
    int64_t rows = 2 * plan->tiles[0].mr + 1;
    rows = crossing > rows && fused_ms(subject, crossing) <= FUSED_MS ? crossing : rows;
    return n > rows ? least(n, ROWS_MAX) : rows;
}

/* Panels that held no weights have some in another pass. Asked for with n alone: it takes many times a first use. */
static ffn_status try_passes(verify_trial *t, int64_t n) {
    const kernel_shape *shape = t->subject->shape;
    const int64_t passes = verify_block_passes(shape);
    const int64_t rows = least(least(n, t->rows_max), 2 * plan_of(t->subject)->tiles[0].mr + 1);
    const int64_t most = (int64_t)(PASSES_MS / (fused_ms(t->subject, rows) + PASS_MS));
    const int64_t count = least(passes, most > 1 ? most : 1);
    verify_block *first = t->block;
    ffn_status status = FFN_OK;
    for (int64_t i = 1; i < count && status == FFN_OK; ++i) {
        verify_block block;
        status = verify_block_make(shape, i * passes / count, &block, t->diag);
        if (status == FFN_OK) {
            t->block = &block;
            verify_reference_run(t->reference, &block);
            status = verify_trial_fused(t, rows);
            status = status == FFN_OK ? try_probes(t) : status;
            t->block = first;
            verify_block_free(&block);
        }
    }
    return status;
}

static double now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

DEFAULT_STATE_WORK ffn_status run(const verify_subject *subject, int64_t n, const ffn_product *product,
                                  ffn_verify_report *report, ffn_diag *diag) {
    double start = now_ms();
    verify_block block;
    verify_reference reference;
    ffn_verify_report made = {0};
    if (n == 0 && subject->shape->spec.d_model + subject->shape->spec.d_ff > DIMS_MAX) {
        const verify_trial t = {.subject = subject, .report = &made, .diag = diag};
        ffn_status only = verify_trial_activate(&t);
        made.ms = now_ms() - start;
        if (report != NULL) {
            *report = made;
        }
        return only;
    }
    ffn_status status = verify_block_make(subject->shape, 0, &block, diag);
    if (status != FFN_OK) {
        return status;
    }
    status = verify_reference_make(subject->shape, &reference, diag);
    if (status == FFN_OK) {
        verify_trial t = {.subject = subject,
                          .block = &block,
                          .reference = &reference,
                          .rows_max = rows_max_of(subject, n),
                          .report = &made,
                          .diag = diag};
        status = verify_trial_allocate(&t);
        if (status == FFN_OK) {
            status = try_all(&t, &block, product, n);
            status = status == FFN_OK && n > 0 ? try_passes(&t, n) : status;
            verify_trial_free(&t);
        }
        verify_reference_free(&reference);
    }
    verify_block_free(&block);
    made.ms = now_ms() - start;
    if (report != NULL && (status == FFN_OK || status == FFN_VERIFY_FAILED)) {
        *report = made;
    }
    return status;
}

/* Bits are promised for rounding to nearest without flushing to zero, whatever the caller has set. */
ffn_status verify_run(const verify_subject *subject, int64_t n, const ffn_product *product, ffn_verify_report *report,
                      ffn_diag *diag) {
    fenv_t callers;
    default_state_begin(&callers);
    ffn_status status = run(subject, n, product, report, diag);
    default_state_end(&callers);
    return status;
}
