/* fuzz_formula.c: any text as an activation: an error that says something, or a graph that is sound node by node, whose
 * canonical text gives the same graph, and that can be evaluated */
#include "formula.h"
#include "fuzz.h"

static const formula_type results[] = {
#define RESULT(ID, text, result, a, b, c) FORMULA_##result,
    FORMULA_OP_LIST(RESULT)
#undef RESULT
};
static const formula_type operands[][3] = {
#define OPERANDS(ID, text, result, a, b, c) {FORMULA_##a, FORMULA_##b, FORMULA_##c},
    FORMULA_OP_LIST(OPERANDS)
#undef OPERANDS
};

static void graph_check(const formula_graph *graph) {
    FUZZ_CHECK(graph->count >= 1 && graph->count <= FORMULA_NODES_MAX && graph->result == graph->count - 1);
    for (int32_t i = 0; i < graph->count; i++) {
        const formula_node *node = &graph->nodes[i];
        const uint16_t from[3] = {node->a, node->b, node->c};
        FUZZ_CHECK(node->op < FORMULA_OP_COUNT);
        for (int k = 0; k < 3; k++) {
            formula_type wanted = operands[node->op][k];
            FUZZ_CHECK(wanted == FORMULA_NONE ? from[k] == 0
                                              : from[k] < i && results[graph->nodes[from[k]].op] == wanted);
        }
        FUZZ_CHECK(node->op != FORMULA_OP_ARGUMENT || node->bits <= (graph->gated ? 1u : 0u));
        FUZZ_CHECK((node->op != FORMULA_OP_WSHL && node->op != FORMULA_OP_WSHR) || node->bits < 32);
    }
    FUZZ_CHECK(results[graph->nodes[graph->result].op] == FORMULA_FLOAT);
}

static bool same_graph(const formula_graph *a, const formula_graph *b) {
    return a->count == b->count && a->gated == b->gated &&
           memcmp(a->nodes, b->nodes, (size_t)a->count * sizeof *a->nodes) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static formula_graph graph, again;
    static char canonical[FFN_ACTIVATION_BYTES], second[FFN_ACTIVATION_BYTES];
    static const float g[5] = {0.0f, -1.5f, 88.0f, 1e30f, -1e-40f}, u[5] = {1.0f, -0.0f, -3e38f, 7.0f, 0.5f};
    char *text = fuzz_text(data, size);
    bool gated = false;
    float out[5];
    double value, bound;
    ffn_diag diag = {0};
    ffn_status status = formula_canonical(text, canonical, sizeof canonical, &gated, &diag);
    free(text);
    if (status != FFN_OK) {
        FUZZ_CHECK(diag.status == status && *diag.text);
        return 0;
    }
    FUZZ_CHECK(formula_build(canonical, FFN_ACCURATE, &graph, NULL) == FFN_OK && graph.gated == gated);
    graph_check(&graph);
    FUZZ_CHECK(formula_build(canonical, FFN_FAST, &again, NULL) == FFN_OK && again.gated == gated);
    graph_check(&again);
    FUZZ_CHECK(formula_canonical(canonical, second, sizeof second, &gated, NULL) == FFN_OK);
    FUZZ_CHECK(strcmp(canonical, second) == 0);
    FUZZ_CHECK(formula_build(second, FFN_ACCURATE, &again, NULL) == FFN_OK && same_graph(&graph, &again));
    formula_eval(&graph, 5, g, graph.gated ? u : NULL, out);
    FUZZ_CHECK(formula_reference(canonical, FFN_FAST, 0.75, -2.0, &value, &bound, NULL) == FFN_OK);
    FUZZ_CHECK(formula_reference(canonical, FFN_ACCURATE, 0.75, -2.0, &value, &bound, NULL) == FFN_OK);
    return 0;
}
