/* oracle.c: which rows, their products in blocks of the widened weights, and the comparison */
#include "oracle.h"

#include "diag.h"
#include "formula.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FLOPS_MAX 2e10      /* of all products: about a second */
#define ACTIVATIONS_MAX 5e5 /* about a second of libm */
#define ROWS_MIN 16
#define BLOCK_BYTES ((int64_t)32 << 20) /* of widened weights */

/* ---- Which rows ---- */

static int ascending(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

static int64_t affordable(const bench_layer *layer) {
    double product = (double)layer->spec.d_model * (double)layer->spec.d_ff;
    double rows = fmin(FLOPS_MAX / (product * (layer->gated ? 6 : 4)), ACTIVATIONS_MAX / (double)layer->spec.d_ff);
    return rows > ROWS_MIN ? (int64_t)rows : ROWS_MIN;
}

/* Rows below `end`, into rows[]; returns how many. The last two of each n come first, then the first rows; what is left
 * of `limit` is spread, one row in each of so many equal ranges, at a place that jumps about. */
static int64_t choose(const int64_t *n, int n_count, int64_t end, int64_t limit, int64_t *rows) {
    int64_t count = 0;
    for (int i = 0; i < n_count; i++) {
        for (int64_t back = 1; back <= 2 && back <= n[i]; back++)
            rows[count++] = n[i] - back;
    }
    bool all = end <= limit;
    int64_t first = all ? end : limit / 2;
    for (int64_t row = 0; row < first; row++)
        rows[count++] = row;
    int64_t step = all ? end : (end - first) / (limit - first) + 1;
    for (int64_t base = first; base < end; base += step) {
        uint64_t mixed = (uint64_t)base * UINT64_C(0x9E3779B97F4A7C15);
        mixed = (mixed ^ (mixed >> 29)) * UINT64_C(0xBF58476D1CE4E5B9);
        int64_t row = base + (int64_t)(mixed >> 33) % step;
        if (row < end)
            rows[count++] = row;
    }
    qsort(rows, (size_t)count, sizeof *rows, ascending);
    int64_t distinct = 0;
    for (int64_t i = 0; i < count; i++) {
        if (distinct == 0 || rows[i] != rows[distinct - 1])
            rows[distinct++] = rows[i];
    }
    return distinct;
}

/* ---- Their products ---- */

/* to[count][out] = bias + from[count][in] times the matrix, of which a block of columns is widened at a time. */
static bool multiply(const bench_layer *layer, bench_product product, int64_t count, const double *from, double *to) {
    bool down = product == BENCH_DOWN;
    int64_t in = down ? layer->spec.d_ff : layer->spec.d_model, out = down ? layer->spec.d_model : layer->spec.d_ff;
    const float *block = (const float *)(const void *)layer->plain.base;
    const float *matrix = block + layer->matrix[product][FFN_OUT_IN], *bias = block + layer->bias[product];
    int64_t width = BLOCK_BYTES / 8 / in;
    width = width < 1 ? 1 : width > out ? out : width;
    double *wide = malloc((size_t)(width * in) * sizeof *wide);
    if (!wide)
        return false;
    for (int64_t row = 0; row < count; row++) {
        for (int64_t column = 0; column < out; column++)
            to[row * out + column] = (double)bias[column];
    }
    for (int64_t first = 0; first < out; first += width) {
        int64_t columns = out - first < width ? out - first : width;
        for (int64_t i = 0; i < columns * in; i++)
            wide[i] = (double)matrix[first * in + i];
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)count, (blasint)columns, (blasint)in, 1, from,
                    (blasint)in, wide, (blasint)in, 1, to + first, (blasint)out);
    }
    free(wide);
    return true;
}

static ffn_status activate(const bench_layer *layer, int64_t count, const double *gate, double *up, ffn_diag *diag) {
    for (int64_t i = 0; i < count * layer->spec.d_ff; i++) {
        ffn_status status =
            formula_reference(layer->spec.activation, layer->spec.accuracy, gate[i], up[i], &up[i], NULL, diag);
        if (status)
            return status;
    }
    return FFN_OK;
}

static ffn_status compute(const bench_layer *layer, const float *x, bench_oracle *oracle, ffn_diag *diag) {
    int64_t count = oracle->count, d_model = layer->spec.d_model;
    size_t hidden_bytes = (size_t)(count * layer->spec.d_ff) * sizeof(double);
    double *wide = malloc((size_t)(count * d_model) * sizeof *wide);
    double *up = malloc(hidden_bytes), *gate = layer->gated ? malloc(hidden_bytes) : NULL;
    bool held = wide && up && (gate || !layer->gated);
    for (int64_t i = 0; held && i < count; i++) {
        for (int64_t k = 0; k < d_model; k++)
            wide[i * d_model + k] = (double)x[oracle->rows[i] * d_model + k];
    }
    held =
        held && multiply(layer, BENCH_UP, count, wide, up) && (!gate || multiply(layer, BENCH_GATE, count, wide, gate));
    ffn_status status = held ? activate(layer, count, gate ? gate : up, up, diag) : FFN_OUT_OF_MEMORY;
    held = held && (status || multiply(layer, BENCH_DOWN, count, up, oracle->y));
    free(wide);
    free(up);
    free(gate);
    return held ? status : diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for %lld rows in double", (long long)count);
}

/* Nothing can be compared with what is not a number. */
static ffn_status check_finite(const bench_oracle *oracle, ffn_diag *diag) {
    for (int64_t i = 0; i < oracle->count * oracle->d_model; i++)
        if (!isfinite(oracle->y[i]))
            return diag_fail(diag, FFN_VERIFY_FAILED,
                             "row %lld column %lld of y is %g in double too, so there is nothing to compare: weights, "
                             "rows and what the activation makes of them must be finite",
                             (long long)oracle->rows[i / oracle->d_model], (long long)(i % oracle->d_model),
                             oracle->y[i]);
    return FFN_OK;
}

ffn_status bench_oracle_create(const bench_layer *layer, const float *x, const int64_t *n, int n_count,
                               bench_oracle *oracle, ffn_diag *diag) {
    int64_t end = 0, limit = affordable(layer);
    for (int i = 0; i < n_count; i++)
        end = n[i] > end ? n[i] : end;
    int64_t most = (end < limit ? end : 2 * limit) + 2 * n_count;
    *oracle = (bench_oracle){.d_model = layer->spec.d_model, .rows = malloc((size_t)most * sizeof(int64_t))};
    if (oracle->rows) {
        oracle->count = choose(n, n_count, end, limit, oracle->rows);
        oracle->y = malloc((size_t)(oracle->count * oracle->d_model) * sizeof(double));
    }
    ffn_status status = oracle->y
                            ? compute(layer, x, oracle, diag)
                            : diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for %lld rows in double", (long long)most);
    status = status ? status : check_finite(oracle, diag);
    if (status)
        bench_oracle_destroy(oracle);
    return status;
}

void bench_oracle_destroy(bench_oracle *oracle) {
    free(oracle->rows);
    free(oracle->y);
    *oracle = (bench_oracle){0};
}

double bench_oracle_error(const bench_oracle *oracle, const float *y, int64_t n) {
    double largest = 0, furthest = 0;
    for (int64_t i = 0; i < oracle->count && oracle->rows[i] < n; i++) {
        const float *got = y + oracle->rows[i] * oracle->d_model;
        const double *want = oracle->y + i * oracle->d_model;
        for (int64_t k = 0; k < oracle->d_model; k++) {
            double off = fabs((double)got[k] - want[k]);
            largest = fmax(largest, fabs(want[k]));
            furthest = off <= furthest ? furthest : off; /* a NaN stays */
        }
    }
    return largest > 0 ? furthest / largest : furthest;
}
