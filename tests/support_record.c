/* support_record.c: graph -> digests that change with any bit of it */
#include "support_record.h"
#include "support_formula.h"

/* FNV-1a, so that the record depends on nothing of the library. */
static uint64_t hash_word(uint64_t hash, uint32_t word) {
    for (int32_t byte = 0; byte < 4; byte++)
        hash = (hash ^ (word >> 8 * byte & 0xff)) * UINT64_C(0x100000001b3);
    return hash;
}

static const uint64_t hash_start = UINT64_C(0xcbf29ce484222325);

uint64_t hash_bits(const formula_graph *graph) {
    enum { BLOCK = 4096 };
    static float g[BLOCK], u[BLOCK], out[BLOCK];
    uint64_t hash = hash_start, state = 1234567, next = 0;
    while (next <= UINT32_MAX) {
        int32_t count = 0;
        for (; count < BLOCK && next <= UINT32_MAX; count++, next += 40009) {
            /* the whole range, and twice as often the part of it where activations bend */
            g[count] = count % 3 == 0 ? float_of((uint32_t)next) : (float)random_between(&state, -15, 9);
            u[count] = (float)random_between(&state, -8, 8);
        }
        formula_eval(graph, count, g, u, out);
        for (int32_t i = 0; i < count; i++)
            hash = hash_word(hash, isnan(out[i]) ? UINT32_C(0x7fc00000) : bits_of(out[i]));
    }
    return hash;
}

uint64_t hash_graph(const formula_graph *graph) {
    uint64_t hash = hash_start;
    for (int32_t i = 0; i < graph->count; i++) {
        const formula_node *const node = &graph->nodes[i];
        hash = hash_word(hash, (uint32_t)node->op << 16 | node->a);
        hash = hash_word(hash, (uint32_t)node->b << 16 | node->c);
        hash = hash_word(hash, node->bits);
    }
    return hash;
}
