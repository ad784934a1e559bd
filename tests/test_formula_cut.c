/* Where formulas are cut in two halves: what a half takes, that both are shorter than the whole, and that the loop over
 * halves takes each vector once. */
#include "formula_cut.h"

#include "ffngen.h"
#include "formula_ast.h"
#include "support_formula.h"

#include <stdio.h>

typedef struct op_types {
    formula_type operands[3], result;
} op_types;

static const op_types types[] = {
#define OP_TYPES(ID, text, result, a, b, c) {{FORMULA_##a, FORMULA_##b, FORMULA_##c}, FORMULA_##result},
    FORMULA_OP_LIST(OP_TYPES)
#undef OP_TYPES
};

static bool constant(const formula_graph *graph, int32_t node) {
    return graph->nodes[node].op == FORMULA_OP_NUMBER || graph->nodes[node].op == FORMULA_OP_WORD;
}

static bool is_carried(const formula_cut *cut, int32_t node) {
    for (int32_t i = 0; i < cut->carried_count; i++)
        if (cut->carried[i] == node)
            return true;
    return false;
}

/* Operations one after the other in a half (2: in both together). */
static int32_t depth(const formula_graph *graph, const formula_cut *cut, int32_t half) {
    int32_t at[FORMULA_NODES_MAX] = {0}, deepest = 0;
    for (int32_t i = 0; i < graph->count; i++) {
        const formula_node *node = &graph->nodes[i];
        const int32_t from[3] = {node->a, node->b, node->c};
        if (half < 2 && cut->half[i] != half)
            continue;
        for (int32_t o = 0; o < 3; o++)
            if (types[node->op].operands[o] != FORMULA_NONE && at[from[o]] > at[i])
                at[i] = at[from[o]];
        at[i] +=
            types[node->op].operands[0] != FORMULA_NONE && node->op != FORMULA_OP_BITS && node->op != FORMULA_OP_FLOAT;
        deepest = at[i] > deepest ? at[i] : deepest;
    }
    return deepest;
}

static bool holds(const char *text, const formula_graph *graph, const formula_cut *cut) {
    bool taken[CUT_CARRIED_MAX] = {false};
    cr_assert(cut->carried_count > 0 && cut->carried_count <= CUT_CARRIED_MAX, "%s", text);
    cr_expect(cut->half[graph->result] == 1, "%s: the result is the second half's", text);
    for (int32_t i = 0; i < graph->count; i++) {
        const formula_node *node = &graph->nodes[i];
        const int32_t from[3] = {node->a, node->b, node->c};
        for (int32_t o = 0; o < 3; o++) {
            if (types[node->op].operands[o] == FORMULA_NONE || constant(graph, from[o]) ||
                cut->half[from[o]] == cut->half[i])
                continue;
            cr_expect(cut->half[from[o]] < cut->half[i], "%s: node %d of the first half takes one of the second", text,
                      i);
            cr_expect(is_carried(cut, from[o]), "%s: node %d takes %d, which is not carried", text, i, from[o]);
            cr_expect(types[graph->nodes[from[o]].op].result != FORMULA_BOOL, "%s: a comparison is carried", text);
            for (int32_t k = 0; k < cut->carried_count; k++)
                taken[k] = taken[k] || cut->carried[k] == from[o];
        }
    }
    for (int32_t k = 0; k < cut->carried_count; k++)
        cr_expect(taken[k], "%s: node %d is carried for nothing", text, cut->carried[k]);
    int32_t whole = depth(graph, cut, 2), first = depth(graph, cut, 0), second = depth(graph, cut, 1);
    cr_expect(first < whole && second < whole, "%s: %d operations deep, halves %d and %d", text, whole, first, second);
    return true;
}

/* Whether it was cut. */
static bool check(const char *text, uint32_t accuracy) {
    formula_graph *graph = graph_of_accuracy(text, accuracy);
    formula_cut cut;
    bool found = formula_cut_find(graph, &cut) && holds(text, graph, &cut);
    free(graph);
    return found;
}

Test(formula_cut, halves_of_every_activation_are_sound) {
    const activation_row *row;
    int32_t cuts = 0;
    for (size_t i = 0; (row = activation_row_at(i)); i++) {
        cuts += check(row->shown.name, FFN_ACCURATE);
        if (activation_fast(row))
            cuts += check(row->shown.name, FFN_FAST);
    }
    cr_expect_gt(cuts, 3);
    cr_expect(check("gelu", FFN_ACCURATE), "the longest of them is cut");
    cr_expect(!check("relu", FFN_ACCURATE), "the shortest is not");
}

Test(formula_cut, halves_of_users_formulas_are_sound) {
    static const char *const inner[] = {"x",      "x*x",      "exp(x)",    "tanh(x)",     "erf(x)",
                                        "abs(x)", "min(x,2)", "1/(1+x*x)", "sqrt(abs(x))"};
    static const char *const outer[] = {"exp(%s)",        "tanh(%s)*x",     "log(1+abs(%s))", "select(%s<x,x,exp(x))",
                                        "clamp(%s,-3,3)", "erf(%s)+erfc(x)"};
    int32_t cuts = 0;
    for (size_t i = 0; i < sizeof inner / sizeof *inner; i++)
        for (size_t o = 0; o < sizeof outer / sizeof *outer; o++) {
            char text[FFN_ACTIVATION_BYTES], body[FFN_ACTIVATION_BYTES];
            snprintf(body, sizeof body, outer[o], inner[i]);
            snprintf(text, sizeof text, "act(%.200s)", body);
            cuts += check(text, FFN_ACCURATE);
        }
    cr_expect_gt(cuts, 10);
    /* One comparison that both halves would take. */
    check("act(select(x<0,tanh(exp(select(x<0,x,0.5*x))),x))", FFN_ACCURATE);
    check("act(select(x<0,erf(exp(select(x<0,x,0.5*x))),erfc(select(x<0,2*x,x))))", FFN_ACCURATE);
}

/* ---- The loop over halves ---- */

enum { VALUES = 3 * 16 + 7, GUARD = 16 };

/* `count` results in the place of an argument: those of plain C, and nothing behind them. */
static void check_in_place(const ffn_kernel *kernel, const formula_graph *graph, int64_t n, int32_t count,
                           bool over_u) {
    uint64_t random_state = 88172645463325252u + (uint64_t)count;
    float g[VALUES + GUARD], u[VALUES + GUARD], want[VALUES + GUARD];
    fill_values(&random_state, g, VALUES + GUARD);
    fill_values(&random_state, u, VALUES + GUARD);
    float *out = over_u ? u : g;
    memcpy(want, out, sizeof want);
    formula_eval(graph, count, g, graph->gated ? u : NULL, want);
    cr_assert_eq(ffn_kernel_activate(kernel, n, count, g, graph->gated ? u : NULL, out, NULL), FFN_OK);
    for (int32_t i = 0; i < VALUES + GUARD; i++)
        cr_expect(same_bits(out[i], want[i]), "%d of %d over %s: %a, not %a", i, count, over_u ? "u" : "g",
                  (double)out[i], (double)want[i]);
}

Test(formula_cut, results_may_take_the_place_of_arguments, .timeout = 60) {
    static const char *const specs[] = {"d80-f80-gelu", "d80-f80-softplus", "d80-f80-geglu_tanh", "d80-f80-relu",
                                        "d80-f80-bilinear"};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        const ffn_options options = {.source = ffngen_source(), .store = "", .tuned = "", .verify = FFN_VERIFY_NEVER};
        ffn_spec spec;
        ffn_context *context;
        ffn_kernel *kernel;
        ffn_diag diag = {FFN_OK, ""};
        cr_assert_eq(ffn_spec_parse(specs[i], &spec, &diag), FFN_OK, "%s", diag.text);
        cr_assert_eq(ffn_context_create(&options, &context, &diag), FFN_OK, "%s", diag.text);
        cr_assert_eq(ffn_kernel_create(context, &spec, &kernel, &diag), FFN_OK, "%s", diag.text);
        formula_graph *graph = graph_of(spec.activation);
        for (int64_t n = 1; n <= 64; n *= 8) {
            cr_assert_eq(ffn_kernel_prepare(kernel, n, &diag), FFN_OK, "%s", diag.text);
            for (int32_t count = 0; count <= VALUES; count++)
                for (int over_u = 0; over_u <= (graph->gated ? 1 : 0); over_u++)
                    check_in_place(kernel, graph, n, count, over_u);
        }
        free(graph);
        ffn_kernel_destroy(kernel);
        ffn_context_destroy(context);
    }
}
