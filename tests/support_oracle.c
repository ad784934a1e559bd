/* support_oracle.c: see support_oracle.h */
#include "support_oracle.h"

#include "formula.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Element (k, j) of a product's matrix, its bias (NULL for none): as the user gives them. */
typedef struct part {
    const float *data, *bias;
    int64_t k_stride, j_stride, bias_stride;
    int64_t inputs, outputs;
} part;

typedef struct parts {
    part up, gate, down;
    bool gated;
} parts;

static part part_of(const ffn_matrix *matrix, const float *bias, int64_t inputs, int64_t outputs) {
    const int64_t ld = matrix->ld != 0 ? matrix->ld : matrix->layout == FFN_IN_OUT ? outputs : inputs;
    const bool in_out = matrix->layout == FFN_IN_OUT;
    return (part){matrix->data, bias, in_out ? ld : 1, in_out ? 1 : ld, 1, inputs, outputs};
}

/* Every step-th output from `first` on. */
static part part_from(part whole, int64_t first, int64_t step) {
    whole.data += first * whole.j_stride;
    whole.j_stride *= step;
    if (whole.bias != NULL)
        whole.bias += first;
    whole.bias_stride = step;
    whole.outputs /= 2;
    return whole;
}

static parts parts_of(const ffn_spec *spec, const ffn_weights *w) {
    const int64_t d_model = spec->d_model, d_ff = spec->d_ff;
    parts made = {.gated = ffn_spec_gated(spec), .down = part_of(&w->down, w->bias_down, d_ff, d_model)};
    const part fused = part_of(&w->up, w->bias_up, d_model, 2 * d_ff);
    switch (w->gate_order) {
    case FFN_GATE_SEPARATE:
        made.up = part_of(&w->up, w->bias_up, d_model, d_ff);
        made.gate = part_of(&w->gate, w->bias_gate, d_model, d_ff);
        break;
    case FFN_GATE_FIRST:
        made.gate = part_from(fused, 0, 1);
        made.up = part_from(fused, d_ff, 1);
        break;
    case FFN_UP_FIRST:
        made.up = part_from(fused, 0, 1);
        made.gate = part_from(fused, d_ff, 1);
        break;
    case FFN_GATE_INTERLEAVED:
        made.gate = part_from(fused, 0, 2);
        made.up = part_from(fused, 1, 2);
        break;
    }
    return made;
}

static void *need(size_t bytes) {
    void *memory = malloc(bytes);
    if (memory == NULL) {
        fprintf(stderr, "oracle: no memory for %zu bytes\n", bytes);
        abort();
    }
    return memory;
}

static float weight(const part *of, int64_t k, int64_t j) {
    return of->data[k * of->k_stride + j * of->j_stride];
}

static float bias(const part *of, int64_t j) {
    return of->bias != NULL ? of->bias[j * of->bias_stride] : 0.0f;
}

/* How many interleaved chains a stage has is part of the contract, written down here a second time. */
static int64_t chain_count(int64_t outputs) {
    return outputs > 64 ? 1 : outputs > 32 ? 2 : 4;
}

/* One row through one product. error[k] bounds the error of in[k] (NULL: none). out_error[j] bounds that of an f32
 * chain: 2^-24 of each partial sum, what comes in through the terms, 2^-150 a step where sums are subnormal. The one
 * percent on top pays for the second order (partial sums shifted by errors so far) and for double's own rounding. */
static void product_row(const part *of, const double *in, const double *in_error, double *out, double *out_error) {
    const int64_t outputs = of->outputs, chains = chain_count(outputs);
    double *sum = need((size_t)(chains * outputs) * sizeof *sum);
    for (int64_t j = 0; j < outputs; j++) {
        out_error[j] = 0.0;
        for (int64_t c = 0; c < chains; c++)
            sum[c * outputs + j] = c == 0 ? (double)bias(of, j) : 0.0;
    }
    for (int64_t k = 0; k < of->inputs; k++) {
        double *chain = sum + k % chains * outputs;
        const double term = in[k], error = in_error != NULL ? in_error[k] : 0.0;
        for (int64_t j = 0; j < outputs; j++) {
            const double w = (double)weight(of, k, j);
            chain[j] += term * w;
            out_error[j] += 0x1p-24 * fabs(chain[j]) + error * fabs(w) + 0x1p-150;
        }
    }
    for (int64_t j = 0; j < outputs; j++) {
        const double *s = sum + j;
        out[j] = s[0];
        if (chains == 2)
            out[j] = s[0] + s[outputs];
        if (chains == 4) {
            const double low = s[0] + s[outputs], high = s[2 * outputs] + s[3 * outputs];
            out[j] = low + high;
            out_error[j] += 0x1p-24 * (fabs(low) + fabs(high));
        }
        if (chains > 1)
            out_error[j] += 0x1p-24 * fabs(out[j]);
        out_error[j] *= 1.01;
    }
    free(sum);
}

static double activation(const ffn_spec *spec, double g, double u, double *bound) {
    double value;
    ffn_diag diag;
    if (formula_reference(spec->activation, spec->accuracy, g, u, &value, bound, &diag) != FFN_OK) {
        fprintf(stderr, "oracle: %s: %s\n", spec->activation, diag.text);
        abort();
    }
    return value;
}

/* |act| over the corners and edge middles of the box [g +- g_error] x [u +- u_error], against its middle. */
static double change(const ffn_spec *spec, bool gated, double g, double u, double g_error, double u_error,
                     double value) {
    double most = 0.0;
    for (int s = -1; s <= 1; s++)
        for (int t = gated ? -1 : 0; t <= (gated ? 1 : 0); t++)
            if (s != 0 || t != 0)
                most = fmax(most, fabs(activation(spec, g + s * g_error, u + t * u_error, NULL) - value));
    return most;
}

static void oracle_row(const ffn_spec *spec, const parts *from, const float *x, double *y, double *bound) {
    const int64_t d_model = spec->d_model, d_ff = spec->d_ff;
    double *memory = need((size_t)(2 * d_model + 6 * d_ff) * sizeof *memory);
    double *in = memory, *y_error = in + d_model, *g = y_error + d_model, *g_error = g + d_ff, *u = g_error + d_ff,
           *u_error = u + d_ff, *h = u_error + d_ff, *h_error = h + d_ff;
    for (int64_t k = 0; k < d_model; k++)
        in[k] = (double)x[k];
    product_row(from->gated ? &from->gate : &from->up, in, NULL, g, g_error);
    if (from->gated)
        product_row(&from->up, in, NULL, u, u_error);
    for (int64_t f = 0; f < d_ff; f++) {
        const double uf = from->gated ? u[f] : 0.0, uf_error = from->gated ? u_error[f] : 0.0;
        double own = 0.0;
        h[f] = activation(spec, g[f], uf, &own);
        h_error[f] = 0.0;
        if (bound != NULL)
            h_error[f] = own + change(spec, from->gated, g[f], uf, g_error[f], uf_error, h[f]);
    }
    product_row(&from->down, h, h_error, y, bound != NULL ? bound : y_error);
    free(memory);
}

void oracle_ffn(const ffn_spec *spec, const ffn_weights *weights, const float *x, int64_t ldx, int64_t n, double *y,
                double *bound) {
    const parts from = parts_of(spec, weights);
    for (int64_t r = 0; r < n; r++)
        oracle_row(spec, &from, x + r * ldx, y + r * spec->d_model, bound != NULL ? bound + r * spec->d_model : NULL);
}

/* ---- The contract ---- */

static float contract_sum(const part *of, const float *in, int64_t j) {
    const int64_t chains = chain_count(of->outputs);
    float sum[4] = {bias(of, j), 0.0f, 0.0f, 0.0f};
    for (int64_t k = 0; k < of->inputs; k++)
        sum[k % chains] = fmaf(in[k], weight(of, k, j), sum[k % chains]);
    switch (chains) {
    case 4:
        return (sum[0] + sum[1]) + (sum[2] + sum[3]);
    case 2:
        return sum[0] + sum[1];
    default:
        return sum[0];
    }
}

void oracle_contract(const ffn_spec *spec, const ffn_weights *weights, const float *x, int64_t ldx, int64_t n,
                     float *y) {
    const parts from = parts_of(spec, weights);
    const int64_t d_ff = spec->d_ff;
    formula_graph *graph = need(sizeof *graph);
    float *g = need((size_t)(3 * d_ff) * sizeof *g), *u = g + d_ff, *h = u + d_ff;
    ffn_diag diag;
    if (formula_build(spec->activation, spec->accuracy, graph, &diag) != FFN_OK) {
        fprintf(stderr, "oracle: %s: %s\n", spec->activation, diag.text);
        abort();
    }
    for (int64_t r = 0; r < n; r++) {
        for (int64_t f = 0; f < d_ff; f++) {
            u[f] = contract_sum(&from.up, x + r * ldx, f);
            g[f] = from.gated ? contract_sum(&from.gate, x + r * ldx, f) : u[f];
        }
        formula_eval(graph, d_ff, g, from.gated ? u : NULL, h);
        for (int64_t j = 0; j < spec->d_model; j++)
            y[r * spec->d_model + j] = contract_sum(&from.down, h, j) + 0.0f;
    }
    free(g);
    free(graph);
}

/* ---- Comparing ---- */

bool oracle_within(float got, double want, double bound) {
    const double value = (double)got;
    if (isnan(want))
        return isnan(value);
    if (isinf(want))
        return value == want;
    if (fabs(want) + bound > (double)FLT_MAX && isinf(value))
        return signbit(value) == signbit(want) || fabs(want) < bound;
    return fabs(value - want) <= bound;
}

int64_t oracle_first_outside(const ffn_spec *spec, const float *got, int64_t ld, int64_t n, const double *y,
                             const double *bound) {
    for (int64_t r = 0; r < n; r++)
        for (int64_t j = 0; j < spec->d_model; j++) {
            const int64_t at = r * spec->d_model + j;
            if (!oracle_within(got[r * ld + j], y[at], bound[at]))
                return at;
        }
    return -1;
}

static uint32_t canonical_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return isnan(value) ? UINT32_C(0x7fc00000) : bits;
}

int64_t oracle_first_unequal(const ffn_spec *spec, const float *a, int64_t lda, const float *b, int64_t ldb,
                             int64_t n) {
    for (int64_t r = 0; r < n; r++)
        for (int64_t j = 0; j < spec->d_model; j++)
            if (canonical_bits(a[r * lda + j]) != canonical_bits(b[r * ldb + j]))
                return r * spec->d_model + j;
    return -1;
}
