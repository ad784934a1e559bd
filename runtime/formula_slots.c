/* formula_slots.c: see formula_slots.h */
#include "formula_slots.h"

/* The node whose value a node stands for: itself, but for reinterpretations. */
static uint16_t root_of(const formula_graph *graph, uint16_t i) {
    while (graph->nodes[i].op == FORMULA_OP_BITS || graph->nodes[i].op == FORMULA_OP_FLOAT)
        i = graph->nodes[i].a;
    return i;
}

static bool is_lasting(const formula_node *node) {
    return node->op == FORMULA_OP_NUMBER || node->op == FORMULA_OP_WORD || node->op == FORMULA_OP_ARGUMENT;
}

void slots_assign(const formula_graph *graph, slot_map *map) {
    uint16_t last[FORMULA_NODES_MAX], spare[FORMULA_NODES_MAX];
    int32_t spares = 0;
    map->count = 0;
    for (int32_t i = 0; i < graph->count; i++) {
        const formula_node *const node = &graph->nodes[i];
        last[root_of(graph, node->a)] = last[root_of(graph, node->b)] = last[root_of(graph, node->c)] = (uint16_t)i;
        last[i] = (uint16_t)i;
        if (is_lasting(node))
            map->slot[i] = (uint16_t)map->count++;
    }
    last[root_of(graph, (uint16_t)graph->result)] = FORMULA_NODES_MAX;
    for (int32_t i = 0; i < graph->count; i++) {
        const formula_node *const node = &graph->nodes[i];
        const uint16_t root = root_of(graph, (uint16_t)i);
        if (root != i)
            map->slot[i] = map->slot[root];
        else if (!is_lasting(node))
            map->slot[i] = spares > 0 ? spare[--spares] : (uint16_t)map->count++;
        if (is_lasting(node))
            continue;
        const uint16_t operands[3] = {root_of(graph, node->a), root_of(graph, node->b), root_of(graph, node->c)};
        for (int32_t k = 0; k < 3; k++) {
            const uint16_t at = operands[k];
            if (last[at] != i || at == i || is_lasting(&graph->nodes[at]))
                continue;
            last[at] = 0; /* once, however often it is an operand */
            spare[spares++] = map->slot[at];
        }
    }
}
