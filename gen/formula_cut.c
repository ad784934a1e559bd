/* formula_cut.c: see formula_cut.h
 *
 * Invariant: the users of a node of the second half are all of the second half, and no comparison's answer is carried
 * (some ISAs keep it in a register of another kind). */
#include "formula_cut.h"

/* Cycles of a chain below which a core looks far enough ahead by itself. */
enum { CHAIN_MIN = 68 };

static int32_t latency(formula_op op) {
    switch (op) {
    case FORMULA_OP_NUMBER:
    case FORMULA_OP_WORD:
    case FORMULA_OP_ARGUMENT:
    case FORMULA_OP_BITS:
    case FORMULA_OP_FLOAT:
        return 0;
    case FORMULA_OP_ADD:
    case FORMULA_OP_SUB:
    case FORMULA_OP_MUL:
    case FORMULA_OP_FMA:
        return 4;
    case FORMULA_OP_DIV:
    case FORMULA_OP_SQRT:
        return 13;
    default:
        return 1;
    }
}

static bool constant(const formula_node *node) {
    return node->op == FORMULA_OP_NUMBER || node->op == FORMULA_OP_WORD;
}

static int32_t operands(const formula_node *node) {
    static const uint8_t count[FORMULA_OP_COUNT] = {
#define FORMULA_OP_OPERANDS(ID, text, result, a, b, c) \
    [FORMULA_OP_##ID] = (FORMULA_##a != FORMULA_NONE) + (FORMULA_##b != FORMULA_NONE) + (FORMULA_##c != FORMULA_NONE),
        FORMULA_OP_LIST(FORMULA_OP_OPERANDS)
#undef FORMULA_OP_OPERANDS
    };
    return count[node->op];
}

static int32_t operand(const formula_node *node, int32_t i) {
    return i == 0 ? node->a : i == 1 ? node->b : node->c;
}

static bool answer(const formula_node *node) {
    return node->op >= FORMULA_OP_LT && node->op <= FORMULA_OP_NE;
}

/* When each node is ready, in cycles from the arguments on. */
static void find_ready(const formula_graph *graph, int32_t *ready) {
    for (int32_t i = 0; i < graph->count; i++) {
        const formula_node *node = &graph->nodes[i];
        ready[i] = 0;
        for (int32_t o = 0; o < operands(node); o++)
            ready[i] = ready[i] > ready[operand(node, o)] ? ready[i] : ready[operand(node, o)];
        ready[i] += latency(node->op);
    }
}

/* The half before `time`, and what goes over. False: more than fits, or a comparison that both halves take. */
static bool cut_at(const formula_graph *graph, const int32_t *ready, int32_t time, formula_cut *cut) {
    bool carried[FORMULA_NODES_MAX] = {false};
    for (int32_t i = 0; i < graph->count; i++)
        cut->half[i] = ready[i] > time && !constant(&graph->nodes[i]);
    for (int32_t i = graph->count - 1; i >= 0; i--)
        for (int32_t o = 0; cut->half[i] && o < operands(&graph->nodes[i]); o++) {
            int32_t from = operand(&graph->nodes[i], o);
            if (answer(&graph->nodes[from]))
                cut->half[from] = 1; /* it stands before i: its turn is still to come */
            carried[from] = !constant(&graph->nodes[from]);
        }
    for (int32_t i = 0; i < graph->count; i++)
        for (int32_t o = 0; !cut->half[i] && o < operands(&graph->nodes[i]); o++)
            if (cut->half[operand(&graph->nodes[i], o)])
                return false;
    cut->carried_count = 0;
    for (int32_t i = 0; i < graph->count; i++)
        if (carried[i] && !cut->half[i]) {
            if (cut->carried_count == CUT_CARRIED_MAX)
                return false;
            cut->carried[cut->carried_count++] = i;
        }
    return true;
}

bool formula_cut_find(const formula_graph *graph, formula_cut *cut) {
    int32_t ready[FORMULA_NODES_MAX] = {0}, best = INT32_MAX;
    find_ready(graph, ready);
    const int32_t whole = ready[graph->result];
    if (whole < CHAIN_MIN)
        return false;
    for (int32_t i = 0; i < graph->count; i++) {
        /* A half that is longer by a tenth costs as much as a value more between them. */
        int32_t longer = 2 * ready[i] > whole ? ready[i] : whole - ready[i];
        formula_cut here;
        if (4 * longer > 3 * whole || !cut_at(graph, ready, ready[i], &here))
            continue;
        int32_t price = here.carried_count * whole + 20 * (longer - whole / 2);
        if (price < best) {
            best = price;
            *cut = here;
        }
    }
    return best < INT32_MAX;
}
