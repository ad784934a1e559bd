/* formula.c: activation text -> graph, functions of templates/functions.def inlined
 *
 * The functions are ordered so that each calls earlier ones only, so inlining ends; a call whose arguments are equal
 * nodes costs nothing, since equal nodes stand once. */
#include "formula.h"

#include <stdlib.h>
#include <string.h>

#include "default_state.h"
#include "diag.h"
#include "formula_ast.h"
#include "formula_graph.h"
#include "formula_slots.h"

typedef struct inliner { /* 52 KiB: never on the stack */
    ast_arena arena;
    uint16_t values[AST_NODES_MAX]; /* graph node of each arena node */
    graph_builder builder;
    formula_graph graph;
    slot_map slots;
    ffn_diag *diag;
} inliner;

static ffn_status inline_text(inliner *in, ast_text text, const ast_rules *rules, const uint16_t *arguments,
                              int32_t function_limit, uint16_t *result);

static ffn_status inline_call(inliner *in, int32_t index, const uint16_t arguments[3], int32_t function_limit,
                              uint16_t *result) {
    const ast_function *const function = ast_function_at((size_t)index);
    if (index >= function_limit)
        return diag_fail(in->diag, FFN_BAD_SPEC, "functions.def: %s is called before it is defined", function->name);
    const ast_text text = {function->body, function->body + strlen(function->body), function->body};
    const ast_rules rules = {function->parameters, true};
    ffn_diag inner;
    inner.text[0] = '\0';
    ffn_diag *const outer = in->diag;
    in->diag = &inner;
    const ffn_status status = inline_text(in, text, &rules, arguments, index, result);
    in->diag = outer;
    return status == FFN_OK ? status
                            : diag_fail(outer, status, "functions.def: %s: %.400s", function->name, inner.text);
}

static ffn_status inline_node(inliner *in, const ast_node *node, const uint16_t *arguments, int32_t function_limit,
                              uint16_t *result) {
    graph_builder *const to = &in->builder;
    const uint16_t a = in->values[node->a], b = in->values[node->b], c = in->values[node->c];
    switch ((int32_t)node->kind) {
    case AST_CALL:
        return inline_call(in, (int32_t)node->as.index, (const uint16_t[3]){a, b, c}, function_limit, result);
    case FORMULA_OP_ARGUMENT:
        *result = arguments[node->as.index];
        return FFN_OK;
    case FORMULA_OP_NUMBER:
        *result = graph_number(to, (float)node->as.number);
        return FFN_OK;
    case AST_GT:
        *result = graph_add(to, FORMULA_OP_LT, b, a, 0, 0);
        return FFN_OK;
    case AST_GE:
        *result = graph_add(to, FORMULA_OP_LE, b, a, 0, 0);
        return FFN_OK;
    case AST_MIN:
        *result = graph_min(to, a, b);
        return FFN_OK;
    case AST_MAX:
        *result = graph_max(to, a, b);
        return FFN_OK;
    case AST_CLAMP:
        *result = graph_min(to, graph_max(to, a, b), c);
        return FFN_OK;
    case AST_ABS:
        *result = graph_abs(to, a);
        return FFN_OK;
    default: {
        const bool has_bits =
            node->kind == FORMULA_OP_WORD || node->kind == FORMULA_OP_WSHL || node->kind == FORMULA_OP_WSHR;
        *result = graph_add(to, (formula_op)node->kind, a, b, c, has_bits ? node->as.bits : 0);
        return FFN_OK;
    }
    }
}

/* Operands that an operation does not have are 0 in the list, whose value is some node: the graph ignores them too. */
static ffn_status inline_text(inliner *in, ast_text text, const ast_rules *rules, const uint16_t *arguments,
                              int32_t function_limit, uint16_t *result) {
    ast_body body = {0};
    ffn_status status = ast_parse(text, rules, &in->arena, &body, in->diag);
    for (int32_t i = body.first; status == FFN_OK && i < body.end; i++)
        status = inline_node(in, &in->arena.nodes[i], arguments, function_limit, &in->values[i]);
    if (status != FFN_OK)
        return status;
    *result = in->values[body.result];
    in->arena.count = body.first;
    return FFN_OK;
}

static ffn_status build(inliner *in, const activation_text *parsed, uint32_t accuracy) {
    in->graph.count = 0;
    in->graph.gated = parsed->gated;
    in->arena.count = 0;
    in->builder = (graph_builder){.graph = &in->graph};
    uint16_t arguments[2 + ACTIVATION_PARAMETERS_MAX];
    int32_t count = 0;
    for (uint32_t i = 0; i < (parsed->gated ? 2 : 1); i++)
        arguments[count++] = graph_add(&in->builder, FORMULA_OP_ARGUMENT, 0, 0, 0, i);
    for (int32_t i = 0; i < parsed->parameter_count; i++)
        arguments[count++] = graph_number(&in->builder, parsed->parameters[i]);

    char names[ACTIVATION_NAMES_BYTES];
    activation_names(parsed, names);
    uint16_t result = 0;
    const ast_rules rules = {names, parsed->row != NULL};
    const ffn_status status =
        inline_text(in, activation_formula(parsed, accuracy), &rules, arguments, INT32_MAX, &result);
    if (status != FFN_OK)
        return status;
    if (in->builder.full)
        return diag_fail(in->diag, FFN_BAD_SPEC, "the formula is too long: it comes to more than %d operations",
                         FORMULA_NODES_MAX);
    graph_finish(&in->builder, result);
    slots_assign(&in->graph, &in->slots);
    if (in->slots.count > SLOTS_MAX)
        return diag_fail(in->diag, FFN_BAD_SPEC, "the formula keeps more than %d values at once", SLOTS_MAX);
    return FFN_OK;
}

DEFAULT_STATE_WORK ffn_status build_graph(const char *activation, uint32_t accuracy, formula_graph *graph,
                                          ffn_diag *diag) {
    activation_text parsed;
    ffn_status status = activation_parse(activation, &parsed, diag);
    if (status != FFN_OK)
        return status;
    inliner *in = malloc(sizeof *in);
    if (in == NULL)
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "formula: %zu bytes", sizeof *in);
    in->diag = diag;
    status = build(in, &parsed, accuracy);
    if (status == FFN_OK && graph != NULL)
        *graph = in->graph;
    free(in);
    return status;
}

ffn_status formula_build(const char *activation, uint32_t accuracy, formula_graph *graph, ffn_diag *diag) {
    fenv_t callers;
    default_state_begin(&callers);
    const ffn_status status = build_graph(activation, accuracy, graph, diag);
    default_state_end(&callers);
    return status;
}

bool formula_gated(const char *activation) {
    activation_text parsed;
    return activation_parse(activation, &parsed, NULL) == FFN_OK && parsed.gated;
}

bool formula_is_own(const char *activation) {
    return strncmp(activation, "act(", 4) == 0 || strncmp(activation, "gated(", 6) == 0;
}
