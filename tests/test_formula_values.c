/* What formulas compute: each operation to the bit, and a block as one element after the other. */
#include "formula_eval.h"
#include "support_formula.h"

#include <float.h>
#include <stdio.h>

static uint64_t random_state = 88172645463325252u;

/* ---- What operations do ---- */

Test(formula_values, propagates_nan_through_min_max_and_clamp) {
    static const struct {
        const char *text;
        float g, u, out;
    } rows[] = {
        {"act(max(x,0))", NAN, 0, NAN},
        {"act(max(0,x))", NAN, 0, NAN},
        {"act(min(x,0))", NAN, 0, NAN},
        {"act(min(0,x))", NAN, 0, NAN},
        {"gated(max(g,u))", NAN, 1, NAN},
        {"gated(max(g,u))", 1, NAN, NAN},
        {"gated(min(g,u))", NAN, 1, NAN},
        {"gated(min(g,u))", 1, NAN, NAN},
        {"act(clamp(x,-1,1))", NAN, 0, NAN},
        {"gated(clamp(g,u,1))", 0, NAN, NAN},
        {"gated(clamp(g,-1,u))", 0, NAN, NAN},
        {"act(abs(x))", NAN, 0, NAN},
        {"act(clamp(x,-1,1))", -3, 0, -1},
        {"act(clamp(x,-1,1))", 0.5f, 0, 0.5f},
        {"act(clamp(x,-1,1))", INFINITY, 0, 1},
        {"act(max(x,0))", -0.0f, 0, -0.0f},
        {"act(max(0,x))", -0.0f, 0, -0.0f},
        {"act(min(x,0))", -0.0f, 0, -0.0f},
        {"act(max(x,0))", -1, 0, 0},
        {"act(max(x,0))", 2, 0, 2},
        {"act(min(x,0))", -1, 0, -1},
        {"gated(max(g,u))", 1, 2, 2},
        {"gated(min(g,u))", 1, 2, 1},
        {"gated(max(g,u))", -INFINITY, 2, 2},
        {"gated(max(g,u))", 0.0f, -0.0f, -0.0f},
        {"gated(min(g,u))", -0.0f, 0.0f, 0.0f},
        {"act(abs(x))", -0.0f, 0, 0},
        {"act(-x)", 0, 0, -0.0f},
        {"act(select(x<0,1,2))", NAN, 0, 2},
        {"act(select(x>=0,1,2))", NAN, 0, 2},
        {"act(select(x!=x,1,2))", NAN, 0, 1},
        {"act(select(x==x,1,2))", NAN, 0, 2},
        {"act(x*1)", -0.0f, 0, -0.0f},
        {"act(x+0)", -0.0f, 0, 0.0f},
        {"act(x-0)", -0.0f, 0, -0.0f},
        {"act(0-x)", 0, 0, 0},
        {"act(1/0*x)", 2, 0, INFINITY},
        {"act(0/0+x)", 2, 0, NAN},
        {"act(sqrt(x))", -1, 0, NAN},
        {"act(sqrt(x))", 2, 0, 0x1.6a09e6p0f},
        {"act(fma(x,x,-1))", 0x1.000002p0f, 0, 0x1.000001p-22f},
        {"act(x*x-1)", 0x1.000002p0f, 0, 0x1p-22f},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        cr_expect(same_bits(eval_at(rows[i].text, rows[i].g, rows[i].u), rows[i].out), "%s at %a, %a: %a", rows[i].text,
                  (double)rows[i].g, (double)rows[i].u, (double)eval_at(rows[i].text, rows[i].g, rows[i].u));
}

static void expect_shape(const char *text, int32_t nodes, int32_t operations) {
    formula_graph *const graph = graph_of(text);
    int32_t count = 0;
    for (int32_t i = 0; i < graph->count; i++)
        count += graph->nodes[i].op > FORMULA_OP_ARGUMENT;
    cr_expect(graph->count == nodes && count == operations, "%s: %d nodes, %d operations", text, graph->count, count);
    free(graph);
}

Test(formula_values, folds_constants_and_shares_equal_parts) {
    expect_shape("act(x*1)", 1, 0);
    expect_shape("act(x/1-0)", 1, 0);
    expect_shape("act(--x)", 1, 0);
    expect_shape("act(x+0)", 3, 1);
    expect_shape("act(2*3+1)", 1, 0);
    expect_shape("act(exp(0)*x)", 1, 0);
    expect_shape("act((x+1)*(x+1))", 4, 2);
    expect_shape("act((x+1)*(1+x))", 4, 2);
    expect_shape("act(select(1<2,x,exp(x)))", 1, 0);
    expect_shape("act(select(x<2,x,x))", 1, 0);
    expect_shape("act(x/8)", 3, 1);
    expect_shape("act(max(x,0))", 4, 2);
    expect_shape("act(min(max(x,0),6))", 7, 4);
    expect_shape("gated(max(g,u))", 6, 4);
    formula_graph *const eighth = graph_of("act(x/8)");
    cr_expect(eighth->nodes[eighth->result].op == FORMULA_OP_MUL);
    free(eighth);
    formula_graph *const third = graph_of("act(x/3)");
    cr_expect(third->nodes[third->result].op == FORMULA_OP_DIV);
    free(third);
    formula_graph *const nan = graph_of("act(select(x<0,0/0,x))"); /* the same NaN on every host */
    bool same_nan = false;
    for (int32_t i = 0; i < nan->count; i++)
        same_nan = same_nan || (nan->nodes[i].op == FORMULA_OP_NUMBER && nan->nodes[i].bits == 0x7fc00000);
    cr_expect(same_nan);
    free(nan);
    formula_graph *const relu = graph_of("act(max(x,0))"); /* 0 > x ? 0 : x: one instruction, and a NaN comes through */
    const formula_node *const chosen = &relu->nodes[relu->result], *const test = &relu->nodes[chosen->a];
    cr_expect(chosen->op == FORMULA_OP_SELECT && test->op == FORMULA_OP_LT);
    cr_expect(relu->nodes[chosen->b].op == FORMULA_OP_NUMBER && relu->nodes[chosen->c].op == FORMULA_OP_ARGUMENT);
    cr_expect(test->a == chosen->c && test->b == chosen->b);
    free(relu);
}

/* ---- Evaluation ---- */

/* One element, one node after the other, with the C library's fma. */
static float eval_scalar(const formula_graph *graph, float g, float u) {
    uint32_t w[FORMULA_NODES_MAX];
    for (int32_t i = 0; i < graph->count; i++) {
        const formula_node *const n = &graph->nodes[i];
        const uint32_t a = w[n->a], b = w[n->b], c = w[n->c];
        const float x = float_of(a), y = float_of(b), z = float_of(c);
        volatile float r = 0; /* one rounding an operation, whatever the compiler would fuse */
        switch ((formula_op)n->op) {
        case FORMULA_OP_NUMBER:
        case FORMULA_OP_WORD:
            w[i] = n->bits;
            continue;
        case FORMULA_OP_ARGUMENT:
            w[i] = bits_of(n->bits == 0 ? g : u);
            continue;
        case FORMULA_OP_ADD:
            r = x + y;
            break;
        case FORMULA_OP_SUB:
            r = x - y;
            break;
        case FORMULA_OP_MUL:
            r = x * y;
            break;
        case FORMULA_OP_DIV:
            r = x / y;
            break;
        case FORMULA_OP_FMA:
            r = fmaf(x, y, z);
            break;
        case FORMULA_OP_SQRT:
            r = sqrtf(x);
            break;
        case FORMULA_OP_NEG:
            w[i] = a ^ UINT32_C(0x80000000);
            continue;
        case FORMULA_OP_LT:
            w[i] = x < y;
            continue;
        case FORMULA_OP_LE:
            w[i] = x <= y;
            continue;
        case FORMULA_OP_EQ:
            w[i] = x == y;
            continue;
        case FORMULA_OP_NE:
            w[i] = x != y;
            continue;
        case FORMULA_OP_SELECT:
        case FORMULA_OP_WSELECT:
            w[i] = a ? b : c;
            continue;
        case FORMULA_OP_BITS:
        case FORMULA_OP_FLOAT:
            w[i] = a;
            continue;
        case FORMULA_OP_WADD:
            w[i] = a + b;
            continue;
        case FORMULA_OP_WSUB:
            w[i] = a - b;
            continue;
        case FORMULA_OP_WAND:
            w[i] = a & b;
            continue;
        case FORMULA_OP_WOR:
            w[i] = a | b;
            continue;
        case FORMULA_OP_WXOR:
            w[i] = a ^ b;
            continue;
        case FORMULA_OP_WSHL:
            w[i] = a << n->bits;
            continue;
        case FORMULA_OP_WSHR:
            w[i] = a >> n->bits;
            continue;
        case FORMULA_OP_COUNT:
            break;
        }
        w[i] = bits_of(r);
    }
    return float_of(w[graph->result]);
}

enum { VALUES = 509 };

static void expect_equal_ways(const char *text) {
    formula_graph *const graph = graph_of(text);
    cr_assert(graph_is_sound(graph), "%s", text);
    float g[VALUES], u[VALUES], out[VALUES + 1];
    fill_values(&random_state, g, VALUES);
    fill_values(&random_state, u, VALUES);
    for (int32_t i = VALUES - 1; i > 0; i--) { /* shuffled, so that special values meet */
        const uint32_t k = random_below(&random_state, (uint32_t)i + 1);
        const float swap = u[i];
        u[i] = u[k];
        u[k] = swap;
    }
    const int32_t counts[] = {VALUES, 0, 1, 7, 8, 9, 63, 64, 65, 130};
    for (int32_t way = EVAL_SOFT; way <= (eval_has_unit() ? EVAL_UNIT : EVAL_SOFT); way++)
        for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++)
            for (int32_t in_place = 0; in_place < 2; in_place++) {
                memcpy(out, g, sizeof g);
                out[counts[k]] = 12345;
                formula_eval_by((eval_fma)way, graph, counts[k], in_place ? out : g, graph->gated ? u : NULL, out);
                cr_assert(out[counts[k]] == 12345, "%s: wrote past the end", text);
                for (int32_t i = 0; i < counts[k]; i++)
                    cr_assert(same_bits(out[i], eval_scalar(graph, g[i], u[i])), "%s at %a, %a: %a, not %a", text,
                              (double)g[i], (double)u[i], (double)out[i], (double)eval_scalar(graph, g[i], u[i]));
            }
    free(graph);
}

Test(formula_values, evaluates_as_one_operation_after_the_other) {
    for (size_t i = 0; ffn_activation_at(i); i++)
        expect_equal_ways(ffn_activation_at(i)->name);
    static const char *const texts[] = {"act(exp(x))",
                                        "act(expm1(x))",
                                        "act(log(x))",
                                        "act(log1p(x))",
                                        "act(erf(x))",
                                        "act(erfc(x))",
                                        "act(tanh(x))",
                                        "act(sigmoid(x))",
                                        "act(softplus(x))",
                                        "act(sqrt(abs(x)))",
                                        "act(x*sigmoid(1.702*x))",
                                        "act(3)",
                                        "gated(max(g,u)/min(g,u))",
                                        "gated(u)",
                                        "gated(select(g!=u,g-u,fma(g,u,1)))",
                                        "leaky_relu(3)",
                                        "elu(-2)",
                                        "gated(select(g==u,g,select(g<=u,erf(g),softplus(u))))"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        expect_equal_ways(texts[i]);
}
