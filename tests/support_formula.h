/* support_formula.h: what the suites on formulas share: graphs of texts, bits of floats, random numbers */
#ifndef SUPPORT_FORMULA_H
#define SUPPORT_FORMULA_H

#include "formula.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The caller frees it. */
static inline formula_graph *graph_of_accuracy(const char *text, uint32_t accuracy) {
    formula_graph *const graph = malloc(sizeof *graph);
    ffn_diag diag = {FFN_OK, ""};
    cr_assert(graph && formula_build(text, accuracy, graph, &diag) == FFN_OK, "%s: %s", text, diag.text);
    return graph;
}

static inline formula_graph *graph_of(const char *text) {
    return graph_of_accuracy(text, FFN_ACCURATE);
}

static inline float eval_at(const char *text, float g, float u) {
    formula_graph *const graph = graph_of(text);
    float out;
    formula_eval(graph, 1, &g, graph->gated ? &u : NULL, &out);
    free(graph);
    return out;
}

static inline uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Every NaN equals every NaN. */
static inline bool same_bits(float a, float b) {
    return (isnan(a) && isnan(b)) || bits_of(a) == bits_of(b);
}

static inline uint64_t next_random(uint64_t *state) { /* xorshift64* */
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545f4914f6cdd1d);
}

static inline uint32_t random_word(uint64_t *state) {
    return (uint32_t)(next_random(state) >> 32);
}

static inline uint32_t random_below(uint64_t *state, uint32_t limit) {
    return random_word(state) % limit;
}

static inline double random_between(uint64_t *state, double low, double high) {
    return low + (double)(next_random(state) >> 11) * 0x1p-53 * (high - low);
}

/* Operands before users and of the right type, no two nodes equal, none that the result does not need. */
bool graph_is_sound(const formula_graph *graph);

/* Zeros, infinities, NaN, limits and bends first, then numbers of all sizes. */
void fill_values(uint64_t *state, float *values, int32_t count);

#endif
