/* formula_text.c: the text of an activation -> its canonical text, one text for one meaning
 *
 * Invariant: a canonical text reads back as the same operations and is its own canonical text. So parentheses stay
 * where they decide the order of operations, which decides the bits, and nowhere else. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "default_state.h"
#include "diag.h"
#include "formula_ast.h"

typedef struct writer {
    char *text;
    size_t bytes, used;
    bool full;
    struct written *from; /* NULL where the text has no formula */
    bool gated;
} writer;

/* What a formula is written from; 34 KiB: never on the stack. */
typedef struct written {
    ast_arena arena;
    uint16_t spine[AST_TEXT_NODES_MAX]; /* operations whose left operand is being written, of all put_node */
    bool parens[AST_TEXT_NODES_MAX];
    int32_t spine_count;
} written;

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static void
put(writer *w, const char *format, ...) {
    if (w->full)
        return;
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(w->text + w->used, w->bytes - w->used, format, args);
    va_end(args);
    w->full = length < 0 || (size_t)length >= w->bytes - w->used;
    w->used += w->full ? 0 : (size_t)length;
}

/* How an operation is written: between its operands at a level of precedence, or as a call (level 0). */
typedef struct form {
    int32_t kind, level, operands;
    const char *text;
} form;

enum { LEVEL_COMPARE = 1, LEVEL_SUM = 6, LEVEL_PRODUCT = 7, LEVEL_UNARY = 8 };

static const form forms[] = {
    {FORMULA_OP_ADD, LEVEL_SUM, 2, "+"},
    {FORMULA_OP_SUB, LEVEL_SUM, 2, "-"},
    {FORMULA_OP_MUL, LEVEL_PRODUCT, 2, "*"},
    {FORMULA_OP_DIV, LEVEL_PRODUCT, 2, "/"},
    {FORMULA_OP_LT, LEVEL_COMPARE, 2, "<"},
    {FORMULA_OP_LE, LEVEL_COMPARE, 2, "<="},
    {AST_GT, LEVEL_COMPARE, 2, ">"},
    {AST_GE, LEVEL_COMPARE, 2, ">="},
    {FORMULA_OP_EQ, LEVEL_COMPARE, 2, "=="},
    {FORMULA_OP_NE, LEVEL_COMPARE, 2, "!="},
    {FORMULA_OP_NEG, LEVEL_UNARY, 1, "-"},
    {FORMULA_OP_SELECT, 0, 3, "select"},
    {AST_MIN, 0, 2, "min"},
    {AST_MAX, 0, 2, "max"},
    {AST_CLAMP, 0, 3, "clamp"},
    {AST_ABS, 0, 1, "abs"},
    {FORMULA_OP_SQRT, 0, 1, "sqrt"},
    {FORMULA_OP_FMA, 0, 3, "fma"},
};

static form form_of(const ast_node *node) {
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        if (forms[i].kind == node->kind)
            return forms[i];
    const ast_function *const function = ast_function_at(node->as.index); /* nothing else is in a user's formula */
    return (form){AST_CALL, 0, function->arity, function->name};
}

static void put_node(writer *w, int32_t index, int32_t level);

/* Anything but an operation between two operands. */
static void put_operand(writer *w, int32_t index, int32_t level) {
    const ast_node *const node = &w->from->arena.nodes[index];
    if (node->kind == FORMULA_OP_NUMBER) {
        char number[NUMBER_TEXT_BYTES];
        number_format((float)node->as.number, number);
        put(w, "%s", number);
        return;
    }
    if (node->kind == FORMULA_OP_ARGUMENT) {
        put(w, "%s", !w->gated ? "x" : node->as.index == 0 ? "g" : "u");
        return;
    }
    const form shape = form_of(node);
    const uint16_t operands[3] = {node->a, node->b, node->c};
    if (shape.level == 0) {
        put(w, "%s(", shape.text);
        for (int32_t i = 0; i < shape.operands; i++) {
            put(w, "%s", i > 0 ? "," : "");
            put_node(w, operands[i], LEVEL_COMPARE);
        }
        put(w, ")");
        return;
    }
    const bool parens = shape.level < level;
    put(w, "%s%s", parens ? "(" : "", shape.text);
    put_node(w, node->a, shape.level);
    put(w, "%s", parens ? ")" : "");
}

static bool is_between(const ast_node *node) {
    return node->kind != FORMULA_OP_NUMBER && node->kind != FORMULA_OP_ARGUMENT && form_of(node).operands == 2 &&
           form_of(node).level > 0;
}

/* A sum of a thousand terms is an operation on an operation and so on, always on the left: that way there is no
 * recursion. All others the parser bounds, by AST_DEPTH_MAX. */
static void put_node(writer *w, int32_t index, int32_t level) {
    written *const from = w->from;
    const int32_t begin = from->spine_count;
    for (; is_between(&from->arena.nodes[index]); index = from->arena.nodes[index].a) {
        const form shape = form_of(&from->arena.nodes[index]);
        from->spine[from->spine_count] = (uint16_t)index;
        from->parens[from->spine_count++] = shape.level < level;
        put(w, "%s", shape.level < level ? "(" : "");
        level = shape.level;
    }
    put_operand(w, index, level);
    while (from->spine_count > begin) {
        const int32_t top = --from->spine_count;
        const ast_node *const node = &from->arena.nodes[from->spine[top]];
        const form shape = form_of(node);
        const bool parens = from->parens[top]; /* its place is free now */
        put(w, "%s", shape.text);
        put_node(w, node->b, shape.level + 1);
        put(w, "%s", parens ? ")" : "");
    }
}

static ffn_status put_formula(writer *w, const activation_text *parsed, ffn_diag *diag) {
    written *const from = malloc(sizeof *from);
    if (from == NULL)
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "formula: %zu bytes", sizeof *from);
    from->arena.count = 0;
    from->spine_count = 0;
    ast_body body;
    const ast_rules rules = {parsed->gated ? "g,u" : "x", false};
    const ffn_status status = ast_parse(parsed->formula, &rules, &from->arena, &body, diag);
    if (status == FFN_OK) {
        w->from = from;
        put(w, "%s(", parsed->gated ? "gated" : "act");
        put_node(w, body.result, LEVEL_COMPARE);
        put(w, ")");
        w->from = NULL;
    }
    free(from);
    return status;
}

/* Parameters up to the last one that is not the default. */
static void put_row(writer *w, const activation_text *parsed) {
    int32_t count = 0;
    char name[AST_WORD_BYTES], number[NUMBER_TEXT_BYTES];
    float preset;
    for (int32_t i = 0; activation_parameter_at(parsed->row, i, name, &preset); i++)
        if (parsed->parameters[i] != preset)
            count = i + 1;
    put(w, "%s", parsed->row->shown.name);
    for (int32_t i = 0; i < count; i++) {
        number_format(parsed->parameters[i], number);
        put(w, "%s%s", i == 0 ? "(" : ",", number);
    }
    put(w, "%s", count > 0 ? ")" : "");
}

DEFAULT_STATE_WORK ffn_status make_canonical(const char *text, char *canonical, size_t canonical_bytes, bool *gated,
                                             ffn_diag *diag) {
    activation_text parsed;
    ffn_status status = activation_parse(text, &parsed, diag);
    if (status != FFN_OK)
        return status;
    char made[FFN_ACTIVATION_BYTES];
    writer w = {
        .text = made, .bytes = sizeof made < canonical_bytes ? sizeof made : canonical_bytes, .gated = parsed.gated};
    w.full = w.bytes == 0;
    if (parsed.row)
        put_row(&w, &parsed);
    else
        status = put_formula(&w, &parsed, diag);
    if (status != FFN_OK)
        return status;
    if (w.full)
        return diag_fail(diag, FFN_BAD_SPEC, "the formula is too long: its canonical text has room for %zu characters",
                         w.bytes > 0 ? w.bytes - 1 : 0);
    status = formula_build(made, FFN_ACCURATE, NULL, diag);
    if (status != FFN_OK)
        return status;
    memcpy(canonical, made, w.used + 1);
    if (gated)
        *gated = parsed.gated;
    return FFN_OK;
}

/* A text means the same number, and a number the same text, whatever state the caller's floating-point unit is in. */
ffn_status formula_canonical(const char *text, char *canonical, size_t canonical_bytes, bool *gated, ffn_diag *diag) {
    fenv_t callers;
    default_state_begin(&callers);
    const ffn_status status = make_canonical(text, canonical, canonical_bytes, gated, diag);
    default_state_end(&callers);
    return status;
}
