/* formula_graph.c: see formula_graph.h
 *
 * Every rewrite keeps the bits of every result, signs of zeros included, for all operands (but the payload of a NaN).
 * So x * 1 and x - 0 go, x + 0 stays (-0 + 0 is +0), and a sum is never reordered. */
#include "formula_graph.h"

#include <math.h>
#include <string.h>

#include "fallback.h"

#if defined(__FAST_MATH__)
#error "constant folding needs IEEE arithmetic: compile without -ffast-math"
#endif

enum { BITS_ZERO = 0, BITS_ONE = 0x3f800000 };
static const uint32_t bits_minus_zero = 0x80000000, bits_minus_one = 0xbf800000, bits_nan = 0x7fc00000;

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of(float value) {
    uint32_t bits;
    if (isnan(value)) /* a constant must not depend on the sign of the host's NaN */
        return bits_nan;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static const formula_node *node_at(const graph_builder *builder, uint16_t i) {
    return &builder->graph->nodes[i];
}

static bool is_number(const graph_builder *builder, uint16_t i, uint32_t bits) {
    return node_at(builder, i)->op == FORMULA_OP_NUMBER && node_at(builder, i)->bits == bits;
}

static bool is_constant(const graph_builder *builder, uint16_t i) {
    return node_at(builder, i)->op == FORMULA_OP_NUMBER || node_at(builder, i)->op == FORMULA_OP_WORD;
}

/* A number that is not NaN. */
static bool is_ordered(const graph_builder *builder, uint16_t i) {
    return node_at(builder, i)->op == FORMULA_OP_NUMBER && !isnan(float_of(node_at(builder, i)->bits));
}

static int32_t operand_count(formula_op op) {
    static const int32_t counts[] = {
#define OPERAND_COUNT(ID, text, result, a, b, c) \
    (FORMULA_##a != FORMULA_NONE) + (FORMULA_##b != FORMULA_NONE) + (FORMULA_##c != FORMULA_NONE),
        FORMULA_OP_LIST(OPERAND_COUNT)
#undef OPERAND_COUNT
    };
    return counts[op];
}

static uint16_t append(graph_builder *builder, formula_node node) {
    formula_graph *const graph = builder->graph;
    for (int32_t i = 0; i < graph->count; i++)
        if (memcmp(&graph->nodes[i], &node, sizeof node) == 0)
            return (uint16_t)i;
    if (graph->count == FORMULA_NODES_MAX) {
        builder->full = true;
        return 0;
    }
    graph->nodes[graph->count] = node;
    return (uint16_t)graph->count++;
}

uint16_t graph_number(graph_builder *builder, float value) {
    return append(builder, (formula_node){.op = FORMULA_OP_NUMBER, .bits = bits_of(value)});
}

static uint16_t graph_word(graph_builder *builder, uint32_t bits) {
    return append(builder, (formula_node){.op = FORMULA_OP_WORD, .bits = bits});
}

/* All operands are constants of the graph; comparisons have no constant form and are folded by their select. */
static uint16_t fold(graph_builder *builder, formula_op op, uint32_t a, uint32_t b, uint32_t c, uint32_t distance) {
    const float x = float_of(a), y = float_of(b), z = float_of(c);
    switch (op) {
    case FORMULA_OP_ADD:
        return graph_number(builder, x + y);
    case FORMULA_OP_SUB:
        return graph_number(builder, x - y);
    case FORMULA_OP_MUL:
        return graph_number(builder, x * y);
    case FORMULA_OP_DIV:
        return graph_number(builder, x / y);
    case FORMULA_OP_FMA:
        return graph_number(builder, softfma(x, y, z));
    case FORMULA_OP_SQRT:
        return graph_number(builder, sqrtf(x));
    case FORMULA_OP_NEG:
        return graph_number(builder, -x);
    case FORMULA_OP_FLOAT:
        return graph_number(builder, x);
    case FORMULA_OP_BITS:
        return graph_word(builder, a);
    case FORMULA_OP_WADD:
        return graph_word(builder, a + b);
    case FORMULA_OP_WSUB:
        return graph_word(builder, a - b);
    case FORMULA_OP_WAND:
        return graph_word(builder, a & b);
    case FORMULA_OP_WOR:
        return graph_word(builder, a | b);
    case FORMULA_OP_WXOR:
        return graph_word(builder, a ^ b);
    case FORMULA_OP_WSHL:
        return graph_word(builder, a << distance);
    default: /* WSHR */
        return graph_word(builder, a >> distance);
    }
}

/* True where the comparison at node `i` is between constants; its answer into `answer`. */
static bool known_answer(const graph_builder *builder, uint16_t i, bool *answer) {
    const formula_node *const test = node_at(builder, i);
    if (!is_constant(builder, test->a) || !is_constant(builder, test->b))
        return false;
    const float a = float_of(node_at(builder, test->a)->bits), b = float_of(node_at(builder, test->b)->bits);
    *answer = test->op == FORMULA_OP_LT   ? a < b
              : test->op == FORMULA_OP_LE ? a <= b
              : test->op == FORMULA_OP_EQ ? a == b
                                          : a != b;
    return true;
}

/* A power of two whose reciprocal is a normal number: dividing by it is multiplying by that. */
static bool has_exact_reciprocal(uint32_t bits) {
    const uint32_t exponent = bits >> 23 & 0xff;
    return (bits & 0x7fffff) == 0 && exponent >= 1 && exponent <= 253;
}

/* The node the operation comes to where it changes nothing. */
static bool find_identity(graph_builder *builder, formula_op op, uint16_t a, uint16_t b, uint16_t c, uint16_t *same) {
    const uint16_t operands[2] = {a, b};
    bool answer;
    switch (op) {
    case FORMULA_OP_ADD:
    case FORMULA_OP_MUL:
        for (int32_t i = 0; i < 2; i++)
            if (is_number(builder, operands[1 - i], op == FORMULA_OP_ADD ? bits_minus_zero : BITS_ONE)) {
                *same = operands[i];
                return true;
            }
        return false;
    case FORMULA_OP_SUB:
        *same = a;
        return is_number(builder, b, BITS_ZERO);
    case FORMULA_OP_DIV:
        *same = a;
        return is_number(builder, b, BITS_ONE);
    case FORMULA_OP_NEG:
        *same = node_at(builder, a)->a;
        return node_at(builder, a)->op == FORMULA_OP_NEG;
    case FORMULA_OP_BITS:
        *same = node_at(builder, a)->a;
        return node_at(builder, a)->op == FORMULA_OP_FLOAT;
    case FORMULA_OP_FLOAT:
        *same = node_at(builder, a)->a;
        return node_at(builder, a)->op == FORMULA_OP_BITS;
    case FORMULA_OP_SELECT:
    case FORMULA_OP_WSELECT:
        if (b == c) {
            *same = b;
            return true;
        }
        if (!known_answer(builder, a, &answer))
            return false;
        *same = answer ? b : c;
        return true;
    default:
        return false;
    }
}

uint16_t graph_add(graph_builder *builder, formula_op op, uint16_t a, uint16_t b, uint16_t c, uint32_t bits) {
    if (builder->full)
        return 0;
    const int32_t count = operand_count(op);
    a = count > 0 ? a : 0;
    b = count > 1 ? b : 0;
    c = count > 2 ? c : 0;
    uint16_t same;
    if (find_identity(builder, op, a, b, c, &same))
        return same;

    const uint16_t operands[3] = {a, b, c};
    bool constant = count > 0 && (op < FORMULA_OP_LT || op > FORMULA_OP_WSELECT);
    for (int32_t i = 0; i < count; i++)
        constant = constant && is_constant(builder, operands[i]);
    if (constant)
        return fold(builder, op, node_at(builder, a)->bits, node_at(builder, b)->bits, node_at(builder, c)->bits, bits);

    if (op == FORMULA_OP_FMA) { /* one operand less where a constant makes the other operation exact */
        for (int32_t i = 0; i < 2; i++)
            if (is_number(builder, operands[1 - i], BITS_ONE))
                return graph_add(builder, FORMULA_OP_ADD, operands[i], c, 0, 0);
        if (is_number(builder, c, bits_minus_zero))
            return graph_add(builder, FORMULA_OP_MUL, a, b, 0, 0);
    }
    if (op == FORMULA_OP_DIV && is_constant(builder, b) && has_exact_reciprocal(node_at(builder, b)->bits))
        return graph_add(builder, FORMULA_OP_MUL, a, graph_number(builder, 1 / float_of(node_at(builder, b)->bits)), 0,
                         0);
    if (op == FORMULA_OP_MUL)
        for (int32_t i = 0; i < 2; i++)
            if (is_number(builder, operands[1 - i], bits_minus_one))
                return graph_add(builder, FORMULA_OP_NEG, operands[i], 0, 0, 0);

    const bool commutes = op == FORMULA_OP_ADD || op == FORMULA_OP_MUL || op == FORMULA_OP_FMA || op == FORMULA_OP_EQ ||
                          op == FORMULA_OP_NE || op == FORMULA_OP_WADD || op == FORMULA_OP_WAND ||
                          op == FORMULA_OP_WOR || op == FORMULA_OP_WXOR;
    if (commutes && a > b) {
        const uint16_t swap = a;
        a = b;
        b = swap;
    }
    return append(builder, (formula_node){.op = (uint16_t)op, .a = a, .b = b, .c = c, .bits = bits});
}

uint16_t graph_abs(graph_builder *builder, uint16_t a) {
    const uint16_t word = graph_add(builder, FORMULA_OP_BITS, a, 0, 0, 0);
    const uint16_t kept = graph_add(builder, FORMULA_OP_WAND, word, graph_word(builder, 0x7fffffff), 0, 0);
    return graph_add(builder, FORMULA_OP_FLOAT, kept, 0, 0, 0);
}

/* The operand that compares `smaller` (or larger), in forms that a single min or max instruction computes: those
 * return their second operand where the comparison is false, so a NaN has to stand there. */
static uint16_t extreme(graph_builder *builder, uint16_t a, uint16_t b, bool smaller) {
    if (is_ordered(builder, b)) {
        const uint16_t swap = a;
        a = b;
        b = swap;
    }
    const uint16_t test =
        smaller ? graph_add(builder, FORMULA_OP_LT, a, b, 0, 0) : graph_add(builder, FORMULA_OP_LT, b, a, 0, 0);
    const uint16_t chosen = graph_add(builder, FORMULA_OP_SELECT, test, a, b, 0);
    if (is_ordered(builder, a))
        return chosen;
    const uint16_t nan = graph_add(builder, FORMULA_OP_NE, a, a, 0, 0);
    return graph_add(builder, FORMULA_OP_SELECT, nan, a, chosen, 0);
}

uint16_t graph_min(graph_builder *builder, uint16_t a, uint16_t b) {
    return extreme(builder, a, b, true);
}

uint16_t graph_max(graph_builder *builder, uint16_t a, uint16_t b) {
    return extreme(builder, a, b, false);
}

void graph_finish(graph_builder *builder, uint16_t result) {
    formula_graph *const graph = builder->graph;
    bool needed[FORMULA_NODES_MAX] = {false};
    uint16_t moved[FORMULA_NODES_MAX];
    needed[result] = true;
    for (int32_t i = result; i >= 0; i--) {
        const formula_node *const node = &graph->nodes[i];
        const uint16_t operands[3] = {node->a, node->b, node->c};
        for (int32_t k = 0; needed[i] && k < operand_count((formula_op)node->op); k++)
            needed[operands[k]] = true;
    }
    int32_t count = 0;
    for (int32_t i = 0; i <= result; i++) {
        if (!needed[i])
            continue;
        formula_node node = graph->nodes[i];
        uint16_t *const operands[3] = {&node.a, &node.b, &node.c};
        for (int32_t k = 0; k < operand_count((formula_op)node.op); k++)
            *operands[k] = moved[*operands[k]];
        moved[i] = (uint16_t)count;
        graph->nodes[count++] = node;
    }
    graph->count = count;
    graph->result = count - 1;
}
