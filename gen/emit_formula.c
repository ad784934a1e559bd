/* emit_formula.c: graph of an activation -> C statements, one for each operation that is not a constant
 *
 * The values are v<number of the node>. Each operation rounds once: products go through <prefix>__mul, which no
 * compiler fuses with a sum; constants are written in decimal with nine digits, which read back as the same f32, or as
 * their bits where C has no number for them. */
#include "emit.h"
#include "formula.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct writer {
    const formula_graph *graph;
    const char *prefix;
    text *to;
} writer;

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void put_number(const writer *w, uint32_t bits) {
    const float value = float_of(bits);
    if (!isnormal(value) && bits != 0) {
        text_print(w->to, "%s__float(0x%08xu)", w->prefix, bits);
        return;
    }
    char digits[32];
    snprintf(digits, sizeof digits, "%.9g", (double)value);
    text_print(w->to, "%s%sf", digits, strpbrk(digits, ".e") != NULL ? "" : ".0");
}

/* A constant where it is used, a name for all else. */
static void put_value(const writer *w, uint16_t node) {
    const formula_node *n = &w->graph->nodes[node];
    if (n->op == FORMULA_OP_NUMBER)
        put_number(w, n->bits);
    else if (n->op == FORMULA_OP_WORD)
        text_print(w->to, "0x%xu", n->bits);
    else if (n->op == FORMULA_OP_ARGUMENT)
        text_put(w->to, !w->graph->gated ? "x" : n->bits == 0 ? "g" : "u");
    else
        text_print(w->to, "v%u", (unsigned)node);
}

/* `pattern` with a, b, c for the operands, P for the prefix, # for the constant of the node. */
static void put_pattern(const writer *w, const formula_node *n, const char *pattern) {
    for (const char *at = pattern; *at != '\0'; at++)
        switch (*at) {
        case 'A':
            put_value(w, n->a);
            break;
        case 'B':
            put_value(w, n->b);
            break;
        case 'C':
            put_value(w, n->c);
            break;
        case 'P':
            text_put(w->to, w->prefix);
            break;
        case '#':
            text_print(w->to, "%u", n->bits);
            break;
        default:
            text_add(w->to, at, 1);
        }
}

static const char *const patterns[FORMULA_OP_COUNT] = {
    [FORMULA_OP_ADD] = "P__add(A, B)",
    [FORMULA_OP_SUB] = "P__sub(A, B)",
    [FORMULA_OP_MUL] = "P__mul(A, B)",
    [FORMULA_OP_DIV] = "P__div(A, B)",
    [FORMULA_OP_FMA] = "P__fma(A, B, C)",
    [FORMULA_OP_SQRT] = "P__sqrt(A)",
    [FORMULA_OP_NEG] = "P__neg(A)",
    [FORMULA_OP_LT] = "P__less(A, B)",
    [FORMULA_OP_LE] = "P__less_or_equal(A, B)",
    [FORMULA_OP_EQ] = "P__equal(A, B)",
    [FORMULA_OP_NE] = "!P__equal(A, B)",
    [FORMULA_OP_SELECT] = "A ? B : C",
    [FORMULA_OP_WSELECT] = "A ? B : C",
    [FORMULA_OP_BITS] = "P__bits(A)",
    [FORMULA_OP_FLOAT] = "P__float(A)",
    [FORMULA_OP_WADD] = "A + B",
    [FORMULA_OP_WSUB] = "A - B",
    [FORMULA_OP_WAND] = "A & B",
    [FORMULA_OP_WOR] = "A | B",
    [FORMULA_OP_WXOR] = "A ^ B",
    [FORMULA_OP_WSHL] = "A << #",
    [FORMULA_OP_WSHR] = "A >> #",
};

static const char *const types[] = {
#define TYPE_OF(ID, text, result, a, b, c) [FORMULA_OP_##ID] = #result,
    FORMULA_OP_LIST(TYPE_OF)
#undef TYPE_OF
};

static const char *type_of(uint16_t op) {
    return types[op][0] == 'F' ? "float" : types[op][0] == 'W' ? "uint32_t" : "int";
}

void emit_formula(const formula_graph *graph, const char *prefix, text *to) {
    const writer w = {graph, prefix, to};
    text_put(to, graph->gated ? "    (void)g;\n    (void)u;\n" : "    (void)x;\n"); /* a formula need not use them */
    for (int32_t i = 0; i < graph->count; i++) {
        const formula_node *n = &graph->nodes[i];
        if (patterns[n->op] == NULL)
            continue;
        text_print(to, "    const %s v%d = ", type_of(n->op), i);
        put_pattern(&w, n, patterns[n->op]);
        text_put(to, ";\n");
    }
    text_put(to, "    return ");
    put_value(&w, (uint16_t)graph->result);
    text_put(to, ";\n");
}
