/* support_formula.c: see support_formula.h */
#include "support_formula.h"

#include <float.h>

static const formula_type types[][4] = {
#define OP_TYPES(ID, text, result, a, b, c) {FORMULA_##a, FORMULA_##b, FORMULA_##c, FORMULA_##result},
    FORMULA_OP_LIST(OP_TYPES)
#undef OP_TYPES
};

enum { RESULT = 3 };

bool graph_is_sound(const formula_graph *graph) {
    bool needed[FORMULA_NODES_MAX] = {false};
    if (graph->count < 1 || graph->count > FORMULA_NODES_MAX || graph->result != graph->count - 1)
        return false;
    needed[graph->result] = true;
    for (int32_t i = graph->count - 1; i >= 0; i--) {
        const formula_node *const node = &graph->nodes[i];
        if (node->op >= FORMULA_OP_COUNT || !needed[i])
            return false;
        const uint16_t operands[3] = {node->a, node->b, node->c};
        for (int32_t k = 0; k < 3; k++) {
            const formula_type wanted = types[node->op][k];
            if (wanted == FORMULA_NONE && operands[k] == 0)
                continue;
            if (wanted == FORMULA_NONE || operands[k] >= i || types[graph->nodes[operands[k]].op][RESULT] != wanted)
                return false;
            needed[operands[k]] = true;
        }
        for (int32_t k = 0; k < i; k++)
            if (memcmp(node, &graph->nodes[k], sizeof *node) == 0)
                return false;
    }
    return types[graph->nodes[graph->result].op][RESULT] == FORMULA_FLOAT;
}

void fill_values(uint64_t *state, float *values, int32_t count) {
    static const float special[] = {0.0f,    -0.0f,    INFINITY,  -INFINITY,  NAN,   1.0f,    -1.0f, FLT_MAX, -FLT_MAX,
                                    FLT_MIN, -FLT_MIN, 0x1p-149f, -0x1p-149f, 88.8f, -104.5f, 0.5f,  -9.5f,   -13.2f};
    enum { SPECIAL = sizeof special / sizeof special[0] };
    for (int32_t i = 0; i < count; i++)
        values[i] = i < SPECIAL              ? special[i]
                    : random_below(state, 2) ? float_of(random_word(state))
                                             : (float)random_between(state, -15, 15);
}
