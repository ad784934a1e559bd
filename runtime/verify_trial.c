/* verify_trial.c: inputs in, one call, outputs compared bit for bit */
#include "verify_trial.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "diag.h"
#include "fallback.h"
#include "plan.h"

#define CANARY 0x7fc0beefu /* a NaN that no arithmetic makes */
#define CANARY_FLOATS 16
#define X_PADDING 3
#define Y_PADDING 5

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t ld_x(const verify_trial *t) {
    return t->subject->shape->spec.d_model + X_PADDING;
}

static int64_t ld_y(const verify_trial *t) {
    return t->subject->shape->spec.d_model + Y_PADDING;
}

static uint32_t bits_of(float a) {
    uint32_t bits;
    memcpy(&bits, &a, sizeof bits);
    return bits;
}

static void fill(float *at, int64_t floats) {
    const uint32_t bits = CANARY;
    for (int64_t i = 0; i < floats; ++i) {
        memcpy(at + i, &bits, sizeof bits);
    }
}

static bool untouched(const float *at, int64_t floats) {
    for (int64_t i = 0; i < floats; ++i) {
        if (bits_of(at[i]) != CANARY) {
            return false;
        }
    }
    return true;
}

/* Equal bits, or NaN both: sign and payload of a NaN are not promised. */
static bool same(float a, float b) {
    return bits_of(a) == bits_of(b) || (isnan(a) && isnan(b));
}

static void fill_scratch(const verify_trial *t) {
    fill((float *)t->scratch, (int64_t)(t->subject->scratch_bytes / sizeof(float)) + CANARY_FLOATS);
}

static ffn_status check_scratch(const verify_trial *t, const char *entry) {
    const float *end = (const float *)t->scratch + t->subject->scratch_bytes / sizeof(float);
    if (!untouched(end, CANARY_FLOATS)) {
        return diag_fail(t->diag, FFN_VERIFY_FAILED, "verification (a): %s writes past its %zu bytes of scratch", entry,
                         t->subject->scratch_bytes);
    }
    return FFN_OK;
}

static void call_fused(const verify_trial *t, int64_t begin, int64_t end) {
    const kernel_shape *shape = t->subject->shape;
    if (t->subject->code != NULL) {
        t->subject->code->fused(t->x, ld_x(t), t->y, ld_y(t), t->block->packed, t->scratch, begin, end);
    } else {
        fallback_run(&shape->spec, &shape->layout, &shape->graph, t->x, ld_x(t), t->y, ld_y(t), t->block->packed,
                     t->scratch, begin, end);
    }
}

static void call_expand(const verify_trial *t, int64_t n, int64_t begin, int64_t end) {
    const kernel_shape *shape = t->subject->shape;
    if (t->subject->code != NULL) {
        t->subject->code->expand(t->x, ld_x(t), t->block->packed, t->hidden, t->scratch, n, begin, end);
    } else {
        fallback_expand(&shape->spec, &shape->layout, &shape->graph, t->x, ld_x(t), t->block->packed, t->hidden,
                        t->scratch, n, begin, end);
    }
}

static void call_contract(const verify_trial *t, int64_t n, int64_t begin, int64_t end) {
    const kernel_shape *shape = t->subject->shape;
    if (t->subject->code != NULL) {
        t->subject->code->contract(t->hidden, t->block->packed, t->y, ld_y(t), t->scratch, n, begin, end);
    } else {
        fallback_contract(&shape->spec, &shape->layout, t->hidden, t->block->packed, t->y, ld_y(t), t->scratch, n,
                          begin, end);
    }
}

static ffn_status differs(const verify_trial *t, const char *entry, int64_t n, int64_t row, const char *what,
                          int64_t column, float got, float right) {
    return diag_fail(t->diag, FFN_VERIFY_FAILED,
                     "verification (a): %s, %lld rows, row %lld, %s %lld: the code gives %.9g (bits %08" PRIx32
                     "), the portable kernel %.9g (bits %08" PRIx32 ")",
                     entry, (long long)n, (long long)row, what, (long long)column, (double)got, bits_of(got),
                     (double)right, bits_of(right));
}

/* Columns begin .. end-1 of `rows` rows of y against the reference; all else in y must be as it was. */
static ffn_status check_y(const verify_trial *t, const char *entry, int64_t first_row, int64_t rows, int64_t begin,
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
static void set_inputs(const verify_trial *t, int64_t first_row, int64_t rows) {
    const int64_t d_model = t->subject->shape->spec.d_model;
    for (int64_t i = 0; i < rows; ++i) {
        memcpy(t->x + (first_row + i) * ld_x(t), t->reference->x + verify_input_of(i) * d_model,
               (size_t)d_model * sizeof(float));
    }
}

ffn_status verify_trial_fused(verify_trial *t, int64_t rows) {
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

/* What a stage may not write is watched on both sides of its columns, and in the row after the last. */
#define WATCHED (4 * FFN_PANEL)

ffn_status verify_trial_expand(verify_trial *t, int64_t rows, int64_t begin, int64_t end) {
    const int64_t stride = t->reference->stride;
    const int64_t written = (end + FFN_PANEL - 1) / FFN_PANEL * FFN_PANEL;
    const int64_t from = begin > WATCHED ? begin - WATCHED : 0;
    const int64_t to = least(written + WATCHED, stride);
    set_inputs(t, 0, rows);
    for (int64_t i = 0; i <= rows; ++i) {
        fill(t->hidden + i * stride + from, to - from);
    }
    fill_scratch(t);
    call_expand(t, rows, begin, end);
    for (int64_t i = 0; i <= rows; ++i) {
        const float *got = t->hidden + i * stride;
        const float *right = t->reference->hidden + verify_input_of(i) * stride;
        for (int64_t f = begin; f < end && i < rows; ++f) {
            if (!same(got[f], right[f])) {
                return differs(t, "expand", rows, i, "hidden", f, got[f], right[f]);
            }
        }
        int64_t rest = i < rows ? written : from;
        if ((i < rows && !untouched(got + from, begin - from)) || !untouched(got + rest, to - rest)) {
            return diag_fail(t->diag, FFN_VERIFY_FAILED,
                             "verification (a): expand writes outside its rows or columns, in row %lld", (long long)i);
        }
    }
    t->report->compared += rows * (end - begin);
    return check_scratch(t, "expand");
}

ffn_status verify_trial_contract(verify_trial *t, int64_t rows, int64_t begin, int64_t end) {
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

/* Hidden values whose sum in column j is -0: zeros whose products are -0, and in each chain one of the smallest float,
 * whose product rounds to -0 where the chain had come from +0. Other sums are not zero, so that the last addition of +0
 * is seen nowhere else. */
static void make_minus_zero(const verify_trial *t, int64_t j, float *hidden) {
    const ffn_spec *spec = &t->subject->shape->spec;
    const float *weights = verify_block_down_panel(t->block, j / FFN_PANEL) + j % FFN_PANEL;
    const int32_t chains = plan_chains(spec->d_model);
    int32_t made = 0; /* bits of chains */
    for (int64_t f = 0; f < spec->d_ff; ++f) {
        const float weight = weights[f * FFN_PANEL];
        const int32_t chain = 1 << f % chains;
        const bool smallest = (made & chain) == 0 && weight != 0 && fabsf(weight) < 0.5f;
        hidden[f] = copysignf(smallest ? 0x1p-149f : 0, -weight);
        made |= smallest ? chain : 0;
    }
}

ffn_status verify_trial_minus_zero(verify_trial *t, int64_t rows, int64_t begin, int64_t end) {
    const kernel_shape *shape = t->subject->shape;
    const int64_t stride = t->reference->stride;
    float *right = t->x;
    for (int64_t i = 0; i < rows; ++i) {
        make_minus_zero(t, end - 1, t->hidden + i * stride);
    }
    fill_scratch(t);
    verify_block_bias_down(t->block, begin, end, true);
    call_contract(t, rows, begin, end);
    fallback_contract(&shape->spec, &shape->layout, t->hidden, t->block->packed, right, shape->spec.d_model,
                      t->reference->scratch, 1, begin, end);
    verify_block_bias_down(t->block, begin, end, false);
    for (int64_t i = 0; i < rows; ++i) {
        const float *got = t->y + i * ld_y(t);
        for (int64_t j = begin; j < end; ++j) {
            if (!same(got[j], right[j])) {
                return differs(t, "contract of zeros", rows, i, "column", j, got[j], right[j]);
            }
        }
    }
    t->report->compared += rows * (end - begin);
    return FFN_OK;
}

/* One column in about eight, the last one among them, and each in some of the rows; a third row is all zeros, of both
 * signs. */
static void make_few(const verify_trial *t, int64_t row, float *hidden) {
    const int64_t d_ff = t->subject->shape->spec.d_ff;
    for (int64_t f = 0; f < d_ff; ++f) {
        const float draw = verify_noise((uint64_t)f + (UINT64_C(1) << 56));
        const bool here = row != 2 && f % 3 != row % 3 && fabsf(draw) < 0.125f;
        const bool few = here || (row == 0 && f == d_ff - 1);
        hidden[f] = few ? verify_noise((uint64_t)(f + row * d_ff) + (UINT64_C(1) << 55)) : copysignf(0, draw);
    }
}

ffn_status verify_trial_few(verify_trial *t, int64_t rows, int64_t begin, int64_t end) {
    const kernel_shape *shape = t->subject->shape;
    const int64_t stride = t->reference->stride;
    float *right = t->x;
    for (int64_t i = 0; i < rows; ++i) {
        make_few(t, i, t->hidden + i * stride);
    }
    fill(t->y, (rows + 1) * ld_y(t));
    fill_scratch(t);
    call_contract(t, rows, begin, end);
    for (int64_t i = 0; i < rows; ++i) {
        const float *got = t->y + i * ld_y(t);
        fallback_contract(&shape->spec, &shape->layout, t->hidden + i * stride, t->block->packed, right,
                          shape->spec.d_model, t->reference->scratch, 1, begin, end);
        for (int64_t j = begin; j < end; ++j) {
            if (!same(got[j], right[j])) {
                return differs(t, "contract of few", rows, i, "column", j, got[j], right[j]);
            }
        }
        if (!untouched(got, begin) || !untouched(got + end, ld_y(t) - end)) {
            return diag_fail(t->diag, FFN_VERIFY_FAILED,
                             "verification (a): contract of few writes outside its columns, in row %lld", (long long)i);
        }
    }
    t->report->compared += rows * (end - begin);
    return check_scratch(t, "contract of few");
}

#define ACTIVATE_VALUES 1031

ffn_status verify_trial_activate(const verify_trial *t) {
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
                                 "verification (a): activation of %a, %a, element %d of %d: the code gives %.9g (bits "
                                 "%08" PRIx32 "), the portable kernel %.9g (bits %08" PRIx32 ")",
                                 (double)g[from + i], (double)u[from + i], i, count, (double)got[i], bits_of(got[i]),
                                 (double)right[from + i], bits_of(right[from + i]));
            }
        }
        if (!untouched(got + count, 1)) {
            return diag_fail(t->diag, FFN_VERIFY_FAILED, "verification (a): activate writes past %d elements", count);
        }
    }
    t->report->compared += ACTIVATE_VALUES;
    return FFN_OK;
}

static void *lines(size_t floats) {
    size_t bytes = (floats * sizeof(float) + FFN_SCRATCH_ALIGN - 1) / FFN_SCRATCH_ALIGN * FFN_SCRATCH_ALIGN;
    return aligned_alloc(FFN_SCRATCH_ALIGN, bytes);
}

ffn_status verify_trial_allocate(verify_trial *t) {
    const int64_t d_model = t->subject->shape->spec.d_model;
    t->x = lines((size_t)((t->rows_max + 2) * ld_x(t)));
    t->y = lines((size_t)((t->rows_max + 2) * ld_y(t)));
    t->hidden = lines((size_t)(t->reference->stride * (FFN_STAGE_ROWS_MAX + 1)));
    t->scratch = lines(t->subject->scratch_bytes / sizeof(float) + CANARY_FLOATS);
    t->seen = lines((size_t)(d_model * VERIFY_INPUTS));
    if (t->x == NULL || t->y == NULL || t->hidden == NULL || t->scratch == NULL || t->seen == NULL) {
        verify_trial_free(t);
        return diag_fail(t->diag, FFN_OUT_OF_MEMORY, "verification: %lld rows of %lld", (long long)t->rows_max,
                         (long long)d_model);
    }
    return FFN_OK;
}

void verify_trial_free(verify_trial *t) {
    free(t->x);
    free(t->y);
    free(t->hidden);
    free(t->scratch);
    free(t->seen);
}
