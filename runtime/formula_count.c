/* formula_count.c: see formula_count.h */
#include "formula_count.h"

/* True if fused multiply-adds take the node, and nothing else does. */
static bool folds(const formula_graph *graph, int32_t node) {
    if (node == graph->result)
        return false;
    for (int32_t i = node + 1; i < graph->count; i++) {
        const formula_node *const user = &graph->nodes[i];
        if (user->op != FORMULA_OP_FMA && (user->a == node || user->b == node || user->c == node))
            return false;
    }
    return true;
}

int32_t formula_count_operations(const formula_graph *graph) {
    int32_t count = 0;
    for (int32_t i = 0; i < graph->count; i++) {
        const formula_node *const node = &graph->nodes[i];
        const formula_node *const test = &graph->nodes[node->a];
        switch ((formula_op)node->op) {
        case FORMULA_OP_NUMBER:
        case FORMULA_OP_WORD:
        case FORMULA_OP_ARGUMENT:
        case FORMULA_OP_BITS:
        case FORMULA_OP_FLOAT:
            break;
        case FORMULA_OP_SELECT:
            count += !(test->op == FORMULA_OP_LT &&
                       ((test->a == node->b && test->b == node->c) || (test->a == node->c && test->b == node->b)));
            break;
        case FORMULA_OP_NEG:
            count += !folds(graph, i);
            break;
        default:
            count++;
        }
    }
    return count;
}
