/* header_layers.h: two layers with given weights and rows -> a digest of everything that kernels of theirs compute, by
 * every way of calling them. C99 and C++11: emitted headers are tried in both, and libffn's kernels against the same.
 */
#ifndef HEADER_LAYERS_H
#define HEADER_LAYERS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct layer {
    const char *spec;
    int d_model, d_ff, gated, biased;
} layer;

/* One with all that a spec can have: two matrices and their biases, chains of both kinds (2 in each stage where there
 * are at most 64 columns), columns that do not fill a panel; and one without, whose activation adds two products, which
 * nobody may fuse. */
enum { GATED, PLAIN, LAYERS };
static const layer layers[LAYERS] = {{"d40-f100-geglu-bias", 40, 100, 1, 1},
                                     {"d20-f70-act(x*tanh(x)+0.7*x)", 20, 70, 0, 0}};

typedef struct call { /* as the args structs have it */
    int64_t n;
    const float *x;
    int64_t ldx;
    float *y;
    int64_t ldy;
    const void *packed;
    void *scratch;
} call;

/* A kernel as somebody offers it. */
typedef struct kernel {
    const layer *of;
    size_t packed_bytes, scratch_bytes, hidden_bytes;
    int (*pack)(const float *up, const float *gate, const float *down, const float *const biases[3], void *packed);
    int (*run)(const call *c);
    int (*run_rows)(const call *c, int64_t begin, int64_t end);
    int (*expand)(const call *c, float *hidden, int64_t begin, int64_t end);
    int (*contract)(const call *c, const float *hidden, int64_t begin, int64_t end);
    int (*activate)(int64_t n, int64_t count, const float *g, const float *u, float *out);
} kernel;

enum { ROWS_MAX = 40, D_MAX = 40, F_MAX = 100, PAD_X = 3, PAD_Y = 1, ACTIVATED = 67 };

#define HEADER_REQUIRE(condition)                                          \
    do {                                                                   \
        if (!(condition)) {                                                \
            printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                       \
        }                                                                  \
    } while (0)

/* ---- Data ---- */

static inline float from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t to_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Exact multiples of 2^-12 in [-scale, scale). */
static inline void fill(float *to, int64_t count, uint32_t seed, float scale) {
    int64_t i;
    for (i = 0; i < count; i++) {
        seed = seed * 1664525U + 1013904223U;
        to[i] = (float)((int32_t)(seed >> 19) - 4096) / 4096.0F * scale;
    }
}

static inline void fill_bits(float *to, int64_t count, uint32_t bits) {
    int64_t i;
    for (i = 0; i < count; i++)
        to[i] = from_bits(bits);
}

/* FNV-1a over words; every NaN counts as 0x7fc00000. */
static inline uint64_t add_words(uint64_t digest, const void *words, size_t count) {
    size_t i;
    for (i = 0; i < count; i++) {
        uint32_t word;
        int byte;
        memcpy(&word, (const char *)words + 4 * i, sizeof word);
        if ((word & 0x7fffffffU) > 0x7f800000U)
            word = 0x7fc00000U;
        for (byte = 0; byte < 4; byte++)
            digest = (digest ^ (word >> 8 * byte & 0xffU)) * 0x100000001b3U;
    }
    return digest;
}

/* Aligned to a cache line, full of NaN. What malloc gave stands before it. */
static inline void *allocate_aligned(size_t bytes) {
    char *memory = (char *)malloc(bytes + 128), *aligned = memory + (128 - (uintptr_t)memory % 64);
    HEADER_REQUIRE(memory != NULL);
    memcpy(aligned - sizeof memory, &memory, sizeof memory);
    fill_bits((float *)(void *)aligned, (int64_t)(bytes / 4), 0x7fc0dead);
    return aligned;
}

static inline void release_aligned(void *aligned) {
    char *memory;
    memcpy(&memory, (char *)aligned - sizeof memory, sizeof memory);
    free(memory);
}

/* ---- Everything that a kernel computes ---- */

enum { CANARY = 0x4b1d4b1d };

/* y of n rows is written, no element beside it is. */
static inline void check_canaries(const float *y, int64_t n, int64_t d) {
    int64_t i, k;
    for (i = 0; i < n; i++)
        for (k = 0; k < d + PAD_Y; k++)
            HEADER_REQUIRE((to_bits(y[i * (d + PAD_Y) + k]) == (uint32_t)CANARY) == (k >= d));
    for (k = n * (d + PAD_Y); k < (n + 1) * (d + PAD_Y); k++)
        HEADER_REQUIRE(to_bits(y[k]) == (uint32_t)CANARY);
}

static inline uint64_t digest_rows(uint64_t digest, const kernel *k, const void *packed) {
    static const int64_t counts[] = {0, 1, 2, 3, 4, 5, 16, 17, 40};
    static float x[ROWS_MAX * (D_MAX + PAD_X)], y[(ROWS_MAX + 1) * (D_MAX + PAD_Y)], again[ROWS_MAX * (D_MAX + PAD_Y)];
    const int64_t d = k->of->d_model, f = k->of->d_ff;
    char *scratch = (char *)allocate_aligned(k->scratch_bytes);
    float *hidden = (float *)allocate_aligned(k->hidden_bytes);
    size_t i;
    fill(x, ROWS_MAX * (d + PAD_X), 11, 2);
    for (i = 0; i < (size_t)ROWS_MAX; i++)
        fill_bits(x + (int64_t)i * (d + PAD_X) + d, PAD_X, 0x7fc0beef);
    x[0] = from_bits(0x80000000); /* -0 */
    for (i = 0; i < sizeof counts / sizeof *counts; i++) {
        const int64_t n = counts[i], third = n / 3, bytes = n * (d + PAD_Y);
        call c;
        c.n = n;
        c.x = x;
        c.ldx = d + PAD_X;
        c.y = y;
        c.ldy = d + PAD_Y;
        c.packed = packed;
        c.scratch = scratch;

        fill_bits(y, (n + 1) * (d + PAD_Y), (uint32_t)CANARY);
        HEADER_REQUIRE(k->run(&c) == 0);
        check_canaries(y, n, d);
        digest = add_words(digest, y, (size_t)bytes);
        memcpy(again, y, (size_t)bytes * sizeof(float));

        fill_bits(y, (n + 1) * (d + PAD_Y), (uint32_t)CANARY);
        HEADER_REQUIRE(k->run_rows(&c, third, n) == 0 && k->run_rows(&c, 0, third) == 0);
        check_canaries(y, n, d);
        HEADER_REQUIRE(memcmp(again, y, (size_t)bytes * sizeof(float)) == 0);

        if (n > 16)
            continue;
        fill_bits(y, (n + 1) * (d + PAD_Y), (uint32_t)CANARY);
        HEADER_REQUIRE(k->expand(&c, hidden, 32, f) == 0 && k->expand(&c, hidden, 0, 32) == 0);
        HEADER_REQUIRE(k->contract(&c, hidden, 16, d) == 0 && k->contract(&c, hidden, 0, 16) == 0);
        check_canaries(y, n, d);
        HEADER_REQUIRE(memcmp(again, y, (size_t)bytes * sizeof(float)) == 0);
    }
    release_aligned(scratch);
    release_aligned(hidden);
    return digest;
}

static inline uint64_t digest_activation(uint64_t digest, const kernel *k) {
    static const uint32_t edges[] = {0,          0x80000000, 1,          0x80000001, 0x00800000,
                                     0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000,
                                     0xffc12345, 0x3f800000, 0xc2b00000, 0x42b17218};
    static float g[ACTIVATED], u[ACTIVATED], out[ACTIVATED];
    static const int64_t counts[] = {1, 2, 5, 17};
    size_t i;
    fill(g, ACTIVATED, 21, 12);
    fill(u, ACTIVATED, 22, 3);
    for (i = 0; i < sizeof edges / sizeof *edges; i++)
        g[3 * i + 1] = u[5 * i % ACTIVATED] = from_bits(edges[i]);
    for (i = 0; i < sizeof counts / sizeof *counts; i++) {
        fill_bits(out, ACTIVATED, 0x7fc0dead);
        HEADER_REQUIRE(k->activate(counts[i], ACTIVATED, g, k->of->gated ? u : NULL, out) == 0);
        digest = add_words(digest, out, ACTIVATED);
    }
    return digest;
}

static inline uint64_t digest_kernel(uint64_t digest, const kernel *k) {
    static float up[D_MAX * F_MAX], gate[D_MAX * F_MAX], down[D_MAX * F_MAX], bias[3][F_MAX];
    const float *biases[3] = {NULL, NULL, NULL};
    const int64_t d = k->of->d_model, f = k->of->d_ff;
    void *packed = allocate_aligned(k->packed_bytes);
    uint32_t i;
    fill(up, d * f, 1, 0.5F);
    fill(gate, d * f, 2, 0.5F);
    fill(down, d * f, 3, 0.25F);
    for (i = 0; i < 3 && k->of->biased; i++) {
        fill(bias[i], F_MAX, 4 + i, 1);
        biases[i] = bias[i];
    }
    HEADER_REQUIRE(k->pack(up, k->of->gated ? gate : NULL, down, biases, packed) == 0);
    digest = add_words(digest, packed, k->packed_bytes / 4);
    digest = digest_rows(digest, k, packed);
    release_aligned(packed);
    return digest_activation(digest, k);
}

#endif
