/* verify_reference.c: a block and its inputs -> hidden values and outputs, by the portable kernel and through libm */
#include "verify_reference.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "diag.h"
#include "fallback.h"

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static float *carve(char **at, int64_t floats) {
    float *part = (float *)*at;
    *at += (size_t)(floats + FFN_PANEL - 1) / FFN_PANEL * FFN_PANEL * sizeof(float);
    return part;
}

ffn_status verify_reference_make(const kernel_shape *shape, verify_reference *reference, ffn_diag *diag) {
    const int64_t d_model = shape->spec.d_model;
    const int64_t stride = image_hidden_stride(&shape->spec);
    const int inputs = verify_inputs(shape);
    const size_t scratch_bytes =
        (fallback_scratch_bytes(&shape->spec) + FFN_PACKED_ALIGN - 1) / FFN_PACKED_ALIGN * FFN_PACKED_ALIGN;
    size_t bytes = (size_t)(2 * (d_model + FFN_PANEL) + 3 * stride) * (size_t)inputs * sizeof(float) + scratch_bytes;
    bytes = (bytes + FFN_PACKED_ALIGN - 1) / FFN_PACKED_ALIGN * FFN_PACKED_ALIGN;
    char *memory = aligned_alloc(FFN_PACKED_ALIGN, bytes);
    if (memory == NULL) {
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "verification: %zu bytes", bytes);
    }
    verify_reference made = {.inputs = inputs, .stride = stride, .scratch = memory};
    memory += scratch_bytes;
    made.x = carve(&memory, d_model * inputs);
    made.y = carve(&memory, d_model * inputs);
    made.up = carve(&memory, stride * inputs);
    made.gate = carve(&memory, stride * inputs);
    made.hidden = carve(&memory, stride * inputs);
    for (int r = 0; r < inputs; ++r) {
        verify_input(shape, r, made.x + r * d_model);
    }
    *reference = made;
    return FFN_OK;
}

void verify_reference_free(verify_reference *reference) {
    free(reference->scratch);
}

typedef struct chain_walk { /* one panel */
    const float *panel;
    verify_rows where;
    int64_t terms;
    int32_t chains;
    const float *inputs; /* [rows] at this stride */
    int rows;
    int64_t stride;
    const int64_t *nonfinite; /* [rows]: how many of each row's inputs are */
} chain_walk;

/* Sums of input[k] * weight[k][lane] for every input, chain by chain as the numeric contract says. Most weights are
 * zero, so each is looked at once; an infinite or NaN input that meets none but those makes the sum NaN. */
static void walk(const chain_walk *w, int64_t lane, float bias, float sums[VERIFY_INPUTS]) {
    float chain[VERIFY_INPUTS][4] = {{0}};
    int64_t met[VERIFY_INPUTS] = {0};
    for (int r = 0; r < w->rows; ++r) {
        chain[r][0] = bias;
    }
    for (int64_t c = 0; c < w->where.count; ++c) {
        int64_t begin = w->where.first + c * w->where.step;
        int64_t end = least(begin + w->where.rows, w->terms);
        for (int64_t k = begin; k < end; ++k) {
            float weight = w->panel[k * FFN_PANEL + lane];
            for (int r = 0; weight != 0 && r < w->rows; ++r) {
                float *sum = &chain[r][k % w->chains];
                float input = w->inputs[r * w->stride + k];
                *sum = softfma(input, weight, *sum);
                met[r] += !isfinite(input);
            }
        }
    }
    for (int r = 0; r < w->rows; ++r) {
        const float *s = chain[r];
        sums[r] = w->chains == 1 ? s[0] : w->chains == 2 ? s[0] + s[1] : (s[0] + s[1]) + (s[2] + s[3]);
        sums[r] = met[r] < w->nonfinite[r] ? NAN : sums[r];
    }
}

typedef verify_rows rows_of(const verify_block *block, int64_t panel);

/* Panels [from, result) are all full, all empty or all neither. */
static int64_t run_of_panels(const verify_block *block, rows_of *rows, int64_t from, int64_t panels) {
    const verify_rows first = rows(block, from);
    for (int64_t to = from + 1; to < panels; ++to) {
        const verify_rows where = rows(block, to);
        if (where.full != first.full || (where.count == 0) != (first.count == 0)) {
            return to;
        }
    }
    return panels;
}

static const int64_t none[VERIFY_INPUTS] = {0};

static void sparse_sums(const verify_reference *reference, const verify_block *block, bool gate, int64_t panel) {
    const kernel_shape *shape = block->shape;
    const int64_t d_model = shape->spec.d_model;
    const float *bias = (const float *)(block->packed + (gate ? shape->layout.bias_gate : shape->layout.bias_up));
    float *sums = gate ? reference->gate : reference->up;
    chain_walk w = {.panel = verify_block_up_panel(block, panel, gate),
                    .where = verify_block_up(block, panel),
                    .terms = d_model,
                    .chains = plan_chains(shape->spec.d_ff),
                    .inputs = reference->x,
                    .rows = reference->inputs,
                    .stride = d_model,
                    .nonfinite = none};
    int64_t begin = panel * FFN_PANEL;
    int64_t end = least(begin + FFN_PANEL, shape->spec.d_ff);
    for (int64_t f = begin; f < end; ++f) {
        float of[VERIFY_INPUTS];
        walk(&w, f - begin, bias[f], of);
        for (int r = 0; r < reference->inputs; ++r) {
            sums[r * reference->stride + f] = of[r];
        }
    }
}

/* Units begin .. end-1 from their sums. Those of panels without weights or biases are one value. */
static void activate_units(const verify_reference *reference, const verify_block *block, int64_t begin, int64_t end) {
    const kernel_shape *shape = block->shape;
    const bool uniform = verify_block_up(block, begin / FFN_PANEL).count == 0 && shape->spec.bias == 0;
    for (int r = 0; r < reference->inputs; ++r) {
        const float *up = reference->up + r * reference->stride + begin;
        const float *gate = shape->graph.gated ? reference->gate + r * reference->stride + begin : up;
        float *hidden = reference->hidden + r * reference->stride + begin;
        formula_eval(&shape->graph, uniform ? 1 : end - begin, gate, up, hidden);
        for (int64_t i = 1; uniform && i < end - begin; ++i) {
            hidden[i] = hidden[0];
        }
    }
}

static void run_expand(const verify_reference *reference, const verify_block *block) {
    const kernel_shape *shape = block->shape;
    const ffn_spec *spec = &shape->spec;
    for (int64_t p = 0, to; p < shape->layout.up_panels; p = to) {
        to = run_of_panels(block, verify_block_up, p, shape->layout.up_panels);
        int64_t begin = p * FFN_PANEL;
        int64_t end = least(to * FFN_PANEL, spec->d_ff);
        if (verify_block_up(block, p).full) {
            fallback_expand(spec, &shape->layout, &shape->graph, reference->x, spec->d_model, block->packed,
                            reference->hidden, reference->scratch, reference->inputs, begin, end);
            continue;
        }
        for (int64_t q = p; q < to; ++q) {
            sparse_sums(reference, block, false, q);
            if (shape->graph.gated) {
                sparse_sums(reference, block, true, q);
            }
        }
        activate_units(reference, block, begin, end);
    }
}

int64_t verify_reference_nonfinite(const verify_reference *reference, const kernel_shape *shape, int input) {
    const float *hidden = reference->hidden + input * reference->stride;
    int64_t count = 0;
    for (int64_t f = 0; f < shape->spec.d_ff; ++f) {
        count += !isfinite(hidden[f]);
    }
    return count;
}

static void run_contract(const verify_reference *reference, const verify_block *block) {
    const kernel_shape *shape = block->shape;
    const ffn_spec *spec = &shape->spec;
    const float *bias = (const float *)(block->packed + shape->layout.bias_down);
    int64_t nonfinite[VERIFY_INPUTS];
    for (int r = 0; r < reference->inputs; ++r) {
        nonfinite[r] = verify_reference_nonfinite(reference, shape, r);
    }
    for (int64_t p = 0, to; p < shape->layout.down_panels; p = to) {
        to = run_of_panels(block, verify_block_down, p, shape->layout.down_panels);
        int64_t begin = p * FFN_PANEL;
        int64_t end = least(to * FFN_PANEL, spec->d_model);
        if (verify_block_down(block, p).full) {
            fallback_contract(spec, &shape->layout, reference->hidden, block->packed, reference->y, spec->d_model,
                              reference->scratch, reference->inputs, begin, end);
            continue;
        }
        for (int64_t j = begin; j < end; ++j) {
            chain_walk w = {.panel = verify_block_down_panel(block, j / FFN_PANEL),
                            .where = verify_block_down(block, j / FFN_PANEL),
                            .terms = spec->d_ff,
                            .chains = plan_chains(spec->d_model),
                            .inputs = reference->hidden,
                            .rows = reference->inputs,
                            .stride = reference->stride,
                            .nonfinite = nonfinite};
            float of[VERIFY_INPUTS];
            walk(&w, j % FFN_PANEL, bias[j], of);
            for (int r = 0; r < reference->inputs; ++r) {
                reference->y[r * spec->d_model + j] = of[r] + 0.0f;
            }
        }
    }
}

void verify_reference_run(verify_reference *reference, const verify_block *block) {
    /* The stages write columns below d_ff alone; what pads them must not be taken for a value. */
    for (int64_t i = 0; i < reference->stride * reference->inputs; ++i) {
        reference->hidden[i] = NAN;
    }
    run_expand(reference, block);
    run_contract(reference, block);
}

typedef struct unit_value { /* a hidden unit as check (b) knows it */
    double value, bound;
    bool finite; /* in the portable kernel */
} unit_value;

static int64_t probed_units(const verify_block *block) {
    const kernel_shape *shape = block->shape;
    int64_t units = 0;
    for (int64_t p = 0; p < shape->layout.up_panels; ++p) {
        verify_rows where = verify_block_up(block, p);
        if (where.count > 0 && !where.full) {
            units += least(FFN_PANEL, shape->spec.d_ff - p * FFN_PANEL);
        }
    }
    return units;
}

/* Units through libm at even distances, their sums being rounded once; the others keep the portable kernel's value. */
static ffn_status libm_units(const verify_reference *reference, const verify_block *block, int input, unit_value *units,
                             int64_t *compared, ffn_diag *diag) {
    const kernel_shape *shape = block->shape;
    const float *up = reference->up + input * reference->stride;
    const float *gate = shape->graph.gated ? reference->gate + input * reference->stride : up;
    const float *hidden = reference->hidden + input * reference->stride;
    const int64_t every = probed_units(block) / VERIFY_LIBM_UNITS + 1;
    int64_t probed = 0;
    verify_rows where = {0};
    for (int64_t f = 0; f < shape->spec.d_ff; ++f) {
        units[f] = (unit_value){.value = (double)hidden[f], .finite = isfinite(hidden[f])};
        if (f % FFN_PANEL == 0) {
            where = verify_block_up(block, f / FFN_PANEL);
        }
        if (where.count == 0 || where.full || probed++ % every != 0) {
            continue;
        }
        double value, bound;
        ffn_status status = formula_reference(shape->spec.activation, shape->spec.accuracy, (double)gate[f],
                                              (double)up[f], &value, &bound, diag);
        if (status != FFN_OK) {
            return status;
        }
        if (isinf(bound)) {
            continue; /* infinities or an undecided comparison on the way: nothing is promised */
        }
        ++*compared;
        bool equal = fabs((double)hidden[f] - value) <= bound || (double)hidden[f] == value ||
                     (isnan(value) && isnan(hidden[f]));
        if (!equal) {
            return diag_fail(diag, FFN_VERIFY_FAILED,
                             "verification (b): hidden unit %lld of the portable kernel is %.9g, through libm %.17g "
                             "+- %.3g: the portable kernel is wrong",
                             (long long)f, (double)hidden[f], value, bound);
        }
        units[f].value = value;
        units[f].bound = bound;
    }
    return FFN_OK;
}

/* One output column from its few terms: the units' bounds, and 2 ULP of the terms for the roundings of their sum. It is
 * NaN if one of the `nonfinite` units is not among them; other sums that are or may become infinite are check (a)'s. */
static ffn_status check_column(const verify_block *block, const unit_value *units, int64_t nonfinite, int64_t j,
                               double y, ffn_diag *diag) {
    const kernel_shape *shape = block->shape;
    const float *panel = verify_block_down_panel(block, j / FFN_PANEL);
    const verify_rows where = verify_block_down(block, j / FFN_PANEL);
    double value = (double)((const float *)(block->packed + shape->layout.bias_down))[j];
    double size = fabs(value);
    double bound = 0;
    int64_t terms = 0, met = 0;
    for (int64_t c = 0; c < where.count; ++c) {
        int64_t begin = where.first + c * where.step;
        int64_t end = least(begin + where.rows, shape->spec.d_ff);
        for (int64_t f = begin; f < end; ++f) {
            double weight = (double)panel[f * FFN_PANEL + j % FFN_PANEL];
            if (weight != 0) {
                value += weight * units[f].value;
                size += fabs(weight * units[f].value);
                bound += fabs(weight) * units[f].bound;
                met += !units[f].finite;
                ++terms;
            }
        }
    }
    value = met < nonfinite ? NAN : value;
    bound += size * 0x1p-23 * fmax(1, sqrt((double)terms)) + 0x1p-140;
    bool open = !isnan(value) && (met > 0 || !(size <= (double)FLT_MAX));
    if (fabs(y - value) <= bound || (isnan(y) && isnan(value)) || open) {
        return FFN_OK;
    }
    return diag_fail(diag, FFN_VERIFY_FAILED,
                     "verification (b): column %lld of y is %.9g; its %lld terms through libm give %.17g +- %.3g",
                     (long long)j, y, (long long)terms, value, bound);
}

ffn_status verify_reference_check(const verify_reference *reference, const verify_block *block, int input,
                                  const float *y, int64_t *compared, ffn_diag *diag) {
    const ffn_spec *spec = &block->shape->spec;
    unit_value *units = malloc((size_t)spec->d_ff * sizeof *units);
    if (units == NULL) {
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "verification: %zu bytes", (size_t)spec->d_ff * sizeof *units);
    }
    ffn_status status = libm_units(reference, block, input, units, compared, diag);
    const int64_t nonfinite = verify_reference_nonfinite(reference, block->shape, input);
    for (int64_t j = 0; j < spec->d_model && status == FFN_OK; ++j) {
        if (!verify_block_down(block, j / FFN_PANEL).full) {
            status = check_column(block, units, nonfinite, j, (double)y[j], diag);
            ++*compared;
        }
    }
    free(units);
    return status;
}
