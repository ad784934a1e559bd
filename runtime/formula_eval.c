/* formula_eval.c: a graph over an array in plain C, bit for bit what generated code computes
 *
 * Elements go through the graph in blocks: each slot (formula_slots.h) holds a block's width of one value, on the
 * stack. A graph with many values alive gets narrower blocks, so the stack stays below 32 KiB. */
#include "formula_eval.h"

#include <math.h>
#include <string.h>

#include "cpu.h"
#include "fallback_softfma.h"
#include "formula_slots.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__FAST_MATH__)
#error "formula_eval needs IEEE arithmetic: compile without -ffast-math"
#endif

#define LANES 8
typedef float lanes_float __attribute__((vector_size(LANES * 4)));
typedef uint32_t lanes_word __attribute__((vector_size(LANES * 4)));

#define WIDTH_MAX 8 /* vectors of LANES elements in a block */

static void lanes_sqrt(lanes_word *to, const lanes_word *a) {
    float values[LANES];
    memcpy(values, a, sizeof values);
    for (int32_t i = 0; i < LANES; i++)
        values[i] = sqrtf(values[i]);
    memcpy(to, values, sizeof values);
}

static void lanes_fma(lanes_word *to, const lanes_word *a, const lanes_word *b, const lanes_word *c) {
    float x[LANES], y[LANES], z[LANES];
    memcpy(x, a, sizeof x);
    memcpy(y, b, sizeof y);
    memcpy(z, c, sizeof z);
    for (int32_t i = 0; i < LANES; i++)
#if defined(__aarch64__)
        x[i] = __builtin_fmaf(x[i], y[i], z[i]); /* an instruction of the baseline */
#else
        x[i] = fallback_softfma(x[i], y[i], z[i]);
#endif
    memcpy(to, x, sizeof x);
}

#define LANES_NAME eval_portable
#define LANES_TARGET
#define LANES_FMA lanes_fma
#include "formula_lanes.h"

#if defined(__x86_64__)
#define LANES_NAME eval_unit
#define LANES_TARGET __attribute__((target("avx2,fma")))
#define LANES_FMA(to, a, b, c) (*(to) = (lanes_word)_mm256_fmadd_ps((__m256) * (a), (__m256) * (b), (__m256) * (c)))
#include "formula_lanes.h"
#else
#define eval_unit eval_portable
#endif

bool eval_has_unit(void) {
#if defined(__x86_64__)
    const uint64_t needed = FFN_CPU_AVX2 | FFN_CPU_FMA | FFN_CPU_YMM_STATE;
    return (cpu_features() & needed) == needed;
#else
    return true;
#endif
}

static void fill_constants(const formula_graph *graph, const slot_map *map, lanes_word *memory, int32_t width) {
    for (int32_t i = 0; i < graph->count; i++) {
        const formula_node *const node = &graph->nodes[i];
        if (node->op == FORMULA_OP_NUMBER || node->op == FORMULA_OP_WORD)
            for (int32_t k = 0; k < width; k++)
                memory[map->slot[i] * width + k] = node->bits | (lanes_word){0};
    }
}

void formula_eval_by(eval_fma fma, const formula_graph *graph, int64_t count, const float *g, const float *u,
                     float *out) {
    slot_map map;
    lanes_word memory[SLOTS_MAX];
    slots_assign(graph, &map);
    const int32_t width = SLOTS_MAX / map.count < WIDTH_MAX ? SLOTS_MAX / map.count : WIDTH_MAX;
    fill_constants(graph, &map, memory, width);
    const float *const sources[2] = {g, u};
    lanes_word *arguments[2] = {NULL, NULL};
    for (int32_t i = 0; i < graph->count; i++)
        if (graph->nodes[i].op == FORMULA_OP_ARGUMENT)
            arguments[graph->nodes[i].bits] = memory + map.slot[i] * width;
    for (int32_t i = 0; i < 2; i++) /* lanes past the end are computed too */
        if (arguments[i])
            memset(arguments[i], 0, (size_t)width * sizeof *arguments[i]);
    const lanes_word *const result = memory + map.slot[graph->result] * width;

    const int64_t block = (int64_t)width * LANES;
    for (int64_t begin = 0; begin < count; begin += block) {
        const int64_t elements = count - begin < block ? count - begin : block;
        const int32_t used = (int32_t)((elements + LANES - 1) / LANES);
        for (int32_t i = 0; i < 2; i++)
            if (arguments[i])
                memcpy(arguments[i], sources[i] + begin, (size_t)elements * sizeof(float));
        if (fma == EVAL_UNIT)
            eval_unit(graph, &map, memory, width, used);
        else
            eval_portable(graph, &map, memory, width, used);
        memcpy(out + begin, result, (size_t)elements * sizeof(float));
    }
}

void formula_eval(const formula_graph *graph, int64_t count, const float *g, const float *u, float *out) {
    formula_eval_by(eval_has_unit() ? EVAL_UNIT : EVAL_SOFT, graph, count, g, u, out);
}
