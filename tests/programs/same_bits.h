/* same_bits.h: one set of specs, weights and rows -> a digest a row, by every way of calling a kernel; the same code in
 * the program that links libffn, in one for another machine, and in those of emitted headers
 *
 * A row's digest must be the one that the file of rows says, wherever the row stands among others and however many
 * there are. Values are made of bits, not by arithmetic: no compiler and no CPU can make others of them. Needs the C
 * library alone. */
#ifndef SAME_BITS_H
#define SAME_BITS_H

#include "header_layers.h"

enum { SAME_ROWS = 70, SAME_ROWS_LARGE = 24, SAME_ROWS_FEW = 9, SAME_D = 520, SAME_F = 300 };

/* Name, spec, d_model, d_ff, gated, biases (1 up, 2 gate, 4 down). Chains 1, 2 and 4 in either stage, ragged sizes,
 * gated and not, users' formulas, one unit alone, and sums long enough for blocks of either stage. Headers have those
 * of the first list. */
#define SAME_HEADER_SPECS(ROW)                                \
    ROW(s0, S0, "d100-f300-gelu-bias", 100, 300, 0, 5)        \
    ROW(s1, S1, "d30-f70-swiglu-bias", 30, 70, 1, 7)          \
    ROW(s2, S2, "d40-f90-act(x*tanh(x)+0.7*x)", 40, 90, 0, 0) \
    ROW(s3, S3, "d520-f272-silu", 520, 272, 0, 0)             \
    ROW(s4, S4, "d50-f64-tanh-bias_up", 50, 64, 0, 1)         \
    ROW(s5, S5, "d70-f130-gelu-bias-fast", 70, 130, 0, 5)
#define SAME_SPECS(ROW)                                                                            \
    SAME_HEADER_SPECS(ROW)                                                                         \
    ROW(s6, S6, "d96-f160-relu-bias", 96, 160, 0, 5)                                               \
    ROW(s7, S7, "d17-f33-gelu_tanh", 17, 33, 0, 0)                                                 \
    ROW(s8, S8, "d200-f24-geglu-bias_gate-bias_down", 200, 24, 1, 6)                               \
    ROW(s9, S9, "d24-f48-gated(min(g,7)*sigmoid(1.702*min(g,7))*(clamp(u,-7,7)+1))", 24, 48, 1, 0) \
    ROW(s10, S10, "d1-f1-mish-bias", 1, 1, 0, 5)

#define SAME_LAYER(NAME, UPPER, TEXT, D, F, GATED, BIASES) {TEXT, D, F, GATED, BIASES},
static const layer same_layers[] = {SAME_SPECS(SAME_LAYER)};
#define SAME_ONE(...) +1
enum { SAME_IN_HEADER = SAME_HEADER_SPECS(SAME_ONE), SAME_COUNT = SAME_SPECS(SAME_ONE) };

/* Digests of the rows of a spec, then of its activation alone. */
typedef struct same_rows {
    uint64_t of[SAME_ROWS + 1];
} same_rows;

static inline int same_row_count(const layer *of) {
    return of->d_model * of->d_ff > 100000 ? SAME_ROWS_LARGE : SAME_ROWS;
}

static inline uint64_t same_digest(const float *values, int64_t count) {
    return add_words(0xcbf29ce484222325U, values, (size_t)count);
}

/* The one digest of a spec. */
static inline uint64_t same_of_spec(const layer *of, const same_rows *rows) {
    uint64_t digest = 0xcbf29ce484222325U;
    int r;
    for (r = 0; r <= same_row_count(of); r++)
        digest = (digest ^ rows->of[r]) * 0x100000001b3U;
    return digest;
}

/* ---- Values ---- */

static inline uint32_t same_next(uint32_t *state) {
    uint32_t z = *state += 0x9e3779b9U;
    z = (z ^ z >> 16) * 0x21f0aaadU;
    z = (z ^ z >> 15) * 0x735a2d97U;
    return z ^ z >> 15;
}

/* Either sign, 2^low <= |value| < 2^(high + 1). */
static inline float same_value(uint32_t *state, int low, int high) {
    const uint32_t bits = same_next(state),
                   exponent = (uint32_t)(127 + low) + same_next(state) % (uint32_t)(high - low + 1);
    return from_bits((bits & 0x807fffffU) | exponent << 23);
}

static inline float same_subnormal(uint32_t *state) {
    return from_bits((same_next(state) & 0x807fffffU) | 1U);
}

/* Rows of eight kinds in turn, the second time milder. */
static inline void same_fill_row(float *to, const layer *of, int which, int row) {
    uint32_t state = 7919U * (uint32_t)which + 104729U * (uint32_t)row;
    const int64_t d = of->d_model, place = same_next(&state) % (uint32_t)d;
    const int mild = row / 8 % 2;
    int64_t k;
    for (k = 0; k < d; k++)
        switch (row % 8) {
        case 1: /* subnormal numbers, or some between others */
            to[k] = mild && k % 2 == 0 ? same_value(&state, -2, 0) : same_subnormal(&state);
            break;
        case 2: /* zeros of both signs between numbers */
            to[k] = k % 2 == 0 ? from_bits(same_next(&state) & 0x80000000U) : same_value(&state, -2, 0);
            break;
        case 5: /* sums that overflow, or huge ones */
            to[k] = mild ? same_value(&state, 50, 60) : same_value(&state, 110, 127);
            break;
        case 6: /* 80 powers of two: what is added last may cancel or vanish */
            to[k] = same_value(&state, -60, 20);
            break;
        case 7: /* products or hidden values at the edge of the subnormal numbers */
            to[k] = mild ? same_value(&state, -62, -20) : same_value(&state, -126, -118);
            break;
        default:
            to[k] = same_value(&state, -3, 0);
        }
    if (row % 8 == 3)
        to[place] = from_bits(0x7f800000U | (same_next(&state) & 0x80000000U));
    if (row % 8 == 4)
        to[place] = from_bits(0x7fc01234U | (same_next(&state) & 0x80000000U));
}

/* Some for sums of `terms` of about 1; among them zeros, subnormal and very small ones. */
static inline void same_fill_weights(float *to, int64_t count, int64_t terms, uint32_t seed) {
    int scale = -1;
    uint32_t state = seed;
    int64_t i;
    for (i = terms; i > 1; i /= 4)
        scale--;
    for (i = 0; i < count; i++)
        switch (same_next(&state) % 32) {
        case 0:
            to[i] = from_bits(same_next(&state) & 0x80000000U);
            break;
        case 1:
            to[i] = same_subnormal(&state);
            break;
        case 2:
            to[i] = same_value(&state, -120, -20);
            break;
        default:
            to[i] = same_value(&state, scale - 2, scale);
        }
}

typedef struct same_weights { /* dense, [in][out] */
    float *up, *gate, *down, *bias[3];
    const float *biases[3]; /* NULL where the spec has none */
} same_weights;

/* Spec 4 has weights that are not finite: an infinity and a NaN in W_down. Column 11 of the relu, and the single unit,
 * have sums that are -0 before the last addition. */
static inline same_weights same_weights_make(int which) {
    const layer *of = &same_layers[which];
    const int64_t d = of->d_model, f = of->d_ff;
    const uint32_t seed = 1000003U * (uint32_t)(which + 1);
    same_weights w;
    int b;
    w.up = (float *)allocate_aligned((size_t)(d * f) * sizeof(float));
    w.gate = (float *)allocate_aligned((size_t)(d * f) * sizeof(float));
    w.down = (float *)allocate_aligned((size_t)(d * f) * sizeof(float));
    same_fill_weights(w.up, d * f, d, seed + 1);
    same_fill_weights(w.gate, d * f, d, seed + 2);
    same_fill_weights(w.down, d * f, f, seed + 3);
    if (which == 4) {
        w.down[5 * d + 3] = from_bits(0x7f800000U);
        w.down[7 * d + 6] = from_bits(0x7fc00000U);
    }
    for (b = 0; b < 3; b++) {
        const int64_t count = b == 2 ? d : f;
        w.bias[b] = (float *)allocate_aligned((size_t)count * sizeof(float));
        same_fill_weights(w.bias[b], count, 4, seed + 4 + (uint32_t)b);
        w.biases[b] = of->biased >> b & 1 ? w.bias[b] : NULL;
    }
    for (b = 0; which == 6 && b <= f; b++)
        *(b < f ? &w.down[b * d + 11] : &w.bias[2][11]) = from_bits(0x80000000U);
    if (d * f == 1) {
        w.down[0] = from_bits(0x8d800000U); /* -2^-100 */
        w.bias[0][0] = w.bias[2][0] = from_bits(0x80000000U);
    }
    return w;
}

static inline void same_weights_free(same_weights *w) {
    int b;
    release_aligned(w->up);
    release_aligned(w->gate);
    release_aligned(w->down);
    for (b = 0; b < 3; b++)
        release_aligned(w->bias[b]);
}

/* Arguments of the activation alone. */
static inline void same_fill_values(float g[ACTIVATED], float u[ACTIVATED]) {
    static const uint32_t edges[] = {0,          0x80000000, 1,          0x80000001, 0x00800000,
                                     0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000,
                                     0xffc12345, 0x3f800000, 0xc2b00000, 0x42b17218};
    enum { EDGES = sizeof edges / sizeof *edges };
    uint32_t state = 3;
    int i;
    for (i = 0; i < ACTIVATED; i++) {
        g[i] = i % 3 == 0 ? from_bits(edges[i / 3 % EDGES]) : same_value(&state, -6, 6);
        u[i] = i % 5 == 0 ? from_bits(edges[i / 5 % EDGES]) : same_value(&state, -6, 6);
    }
}

/* ---- The file of rows: "SPEC DIGEST..." a line ---- */

static inline void same_read_rows(const char *path, same_rows *rows) {
    FILE *file = fopen(path, "r");
    int s, r;
    HEADER_REQUIRE(file != NULL);
    for (s = 0; s < SAME_COUNT; s++) {
        char text[128];
        HEADER_REQUIRE(fscanf(file, "%127s", text) == 1 && strcmp(text, same_layers[s].spec) == 0);
        for (r = 0; r <= same_row_count(&same_layers[s]); r++) {
            unsigned long long digest;
            HEADER_REQUIRE(fscanf(file, "%llx", &digest) == 1);
            rows[s].of[r] = digest;
        }
    }
    fclose(file);
}

/* ---- Calls ---- */

typedef enum same_way { SAME_RUN, SAME_PARTS, SAME_STAGES } same_way;

/* Which rows a call has: `n` from `first` on, `step` apart (modulo the number there are), at strides wider than rows by
 * `pad`. */
typedef struct same_pattern {
    const char *name;
    int first, n, step, pad;
    same_way way;
} same_pattern;

/* The order is that of a row's life: alone, among few, among many. n 0: as many as there are. */
static const same_pattern same_patterns[] = {{"all rows", 0, 0, 1, 0, SAME_RUN},
                                             {"row 7 of 23", 0, 23, 1, 0, SAME_RUN},
                                             {"backwards", -1, 0, -1, 0, SAME_RUN},
                                             {"two", 5, 2, 3, 0, SAME_RUN},
                                             {"three", 2, 3, 5, 2, SAME_RUN},
                                             {"four", 4, 4, 1, 1, SAME_RUN},
                                             {"five", 3, 5, 7, 0, SAME_RUN},
                                             {"16 rows", 1, 16, 1, 5, SAME_RUN},
                                             {"17 rows", 6, 17, 3, 3, SAME_RUN},
                                             {"one row, 16 times", 6, 16, 0, 1, SAME_RUN},
                                             {"rows in parts", 0, 23, 1, 1, SAME_PARTS},
                                             {"stages", 0, 13, 1, 2, SAME_STAGES},
                                             {"one row in stages", 2, 1, 1, 0, SAME_STAGES}};
enum { SAME_PATTERNS = sizeof same_patterns / sizeof *same_patterns };

typedef struct same_job {
    int which;       /* spec */
    const kernel *k; /* of it */
    const char *who; /* for the message of a difference */
    const void *packed;
    const same_rows *want;
    int few;      /* rows and patterns for an emulator */
    int combined; /* so many combinations went well */
} same_job;

static inline void same_expect(const same_job *job, const same_pattern *at, int n, int position, int row,
                               uint64_t got) {
    const uint64_t want = job->want->of[row];
    if (got == want)
        return;
    printf("OTHER BITS: %s, by %s, %s: row %d as row %d of %d, %d floats of padding: digest %016llx, not %016llx\n",
           same_layers[job->which].spec, job->who, at->name, row, position, n, at->pad, (unsigned long long)got,
           (unsigned long long)want);
    exit(1);
}

static inline int same_do(const same_job *job, same_way way, const call *c) {
    const kernel *k = job->k;
    const int64_t d = k->of->d_model, f = k->of->d_ff, third = c->n / 3, half_f = f / 32 * 16, half_d = d / 32 * 16;
    float *hidden;
    int status;
    if (way == SAME_RUN)
        return k->run(c);
    if (way == SAME_PARTS)
        return k->run_rows(c, third, c->n) != 0 || k->run_rows(c, 0, third) != 0;
    hidden = (float *)allocate_aligned(k->hidden_bytes);
    status = k->expand(c, hidden, half_f, f) != 0 || (half_f > 0 && k->expand(c, hidden, 0, half_f) != 0);
    status = status || k->contract(c, hidden, half_d, d) != 0 || (half_d > 0 && k->contract(c, hidden, 0, half_d) != 0);
    release_aligned(hidden);
    return status;
}

/* One call; what is beside the rows of y stays. */
static inline void same_call(same_job *job, const same_pattern *at, int first, int n) {
    const layer *of = job->k->of;
    const int64_t d = of->d_model, ld = d + at->pad;
    const int rows = same_row_count(of);
    float *x = (float *)allocate_aligned((size_t)(n * ld) * sizeof(float));
    float *y = (float *)allocate_aligned((size_t)((n + 1) * ld) * sizeof(float));
    void *scratch = allocate_aligned(job->k->scratch_bytes);
    int i, k, row;
    call c;
    for (i = 0, row = (first + rows) % rows; i < n; i++, row = (row + at->step + rows) % rows)
        same_fill_row(x + i * ld, of, job->which, row);
    fill_bits(y, (n + 1) * ld, (uint32_t)CANARY);
    c.n = n;
    c.x = x;
    c.ldx = ld;
    c.y = y;
    c.ldy = ld;
    c.packed = job->packed;
    c.scratch = scratch;
    HEADER_REQUIRE(same_do(job, at->way, &c) == 0);
    for (i = 0, row = (first + rows) % rows; i < n; i++, row = (row + at->step + rows) % rows) {
        same_expect(job, at, n, i, row, same_digest(y + i * ld, d));
        for (k = 0; k < at->pad; k++)
            HEADER_REQUIRE(to_bits(y[i * ld + d + k]) == (uint32_t)CANARY);
    }
    for (k = 0; k < ld; k++)
        HEADER_REQUIRE(to_bits(y[n * ld + k]) == (uint32_t)CANARY);
    release_aligned(x);
    release_aligned(y);
    release_aligned(scratch);
}

static inline void same_values(same_job *job) {
    static const same_pattern alone = {"the activation alone", 0, 0, 0, 0, SAME_RUN};
    static const int64_t counts[] = {1, 2, 5, 17};
    float g[ACTIVATED], u[ACTIVATED], out[ACTIVATED];
    size_t i;
    same_fill_values(g, u);
    for (i = 0; i < sizeof counts / sizeof *counts; i++) {
        HEADER_REQUIRE(job->k->activate(counts[i], ACTIVATED, g, job->k->of->gated ? u : NULL, out) == 0);
        same_expect(job, &alone, ACTIVATED, 0, same_row_count(job->k->of), same_digest(out, ACTIVATED));
    }
    job->combined++;
}

/* All patterns; n that this way of calling cannot have are left out. */
static inline void same_check(same_job *job) {
    static const same_pattern alone = {"alone", 0, 1, 1, 0, SAME_RUN}, few = {"nine rows", 0, 9, 1, 1, SAME_RUN};
    const int rows = same_row_count(job->k->of);
    int p, row;
    for (row = 0; row < (job->few ? SAME_ROWS_FEW : rows); row++)
        same_call(job, &alone, row, 1);
    job->combined++;
    if (job->few) {
        same_call(job, &few, 0, SAME_ROWS_FEW);
        job->combined++;
    }
    for (p = job->few ? 3 : 0; p < SAME_PATTERNS; p++) {
        const same_pattern *at = &same_patterns[p];
        if (job->few && at->n > 5)
            continue;
        if (at->n == 23) { /* every row comes to stand at place 7 */
            for (row = 7; row < rows; row += 23)
                same_call(job, at, row - 7, 23 < rows ? 23 : rows);
        } else
            same_call(job, at, at->first, at->n == 0 || at->n > rows ? rows : at->n);
        job->combined++;
    }
    same_values(job);
}

/* Of a kind of combinations, for the table of the script. */
static inline void same_print(const char *kind, int combined) {
    printf("combinations %d %s\n", combined, kind);
}

#endif
