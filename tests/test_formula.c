/* The formula language: what is refused and where, one text for one meaning, and what operations do to the bit. */
#include "fallback.h"
#include "formula_ast.h"
#include "formula_eval.h"

#include <criterion/criterion.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static formula_graph *build(const char *text) {
    formula_graph *const graph = malloc(sizeof *graph);
    ffn_diag diag = {FFN_OK, ""};
    cr_assert(graph && formula_build(text, graph, &diag) == FFN_OK, "%s: %s", text, diag.text);
    return graph;
}

static float eval_at(const char *text, float g, float u) {
    formula_graph *const graph = build(text);
    float out;
    formula_eval(graph, 1, &g, graph->gated ? &u : NULL, &out);
    free(graph);
    return out;
}

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static bool same_bits(float a, float b) {
    return (isnan(a) && isnan(b)) || bits_of(a) == bits_of(b);
}

static uint64_t random_state = 88172645463325252u;

static uint32_t next_random(void) {
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (uint32_t)((random_state * UINT64_C(0x2545f4914f6cdd1d)) >> 32);
}

static uint32_t random_below(uint32_t limit) {
    return next_random() % limit;
}

/* ---- What is refused ---- */

static void expect_refused(const char *text, const char *message) {
    ffn_diag diag = {FFN_OK, ""};
    char canonical[FFN_ACTIVATION_BYTES] = "untouched";
    bool gated = true;
    const ffn_status status = formula_canonical(text, canonical, sizeof canonical, &gated, &diag);
    cr_expect(status == FFN_BAD_SPEC, "%.60s: accepted", text);
    cr_expect(strncmp(diag.text, message, strlen(message)) == 0, "%.60s: \"%s\" and not \"%s\"", text, diag.text,
              message);
    cr_expect(strcmp(canonical, "untouched") == 0 && gated, "%.60s: outputs were touched", text);
    formula_graph *const graph = calloc(1, sizeof *graph);
    cr_assert(graph);
    cr_expect(formula_build(text, graph, NULL) == FFN_BAD_SPEC && graph->count == 0, "%.60s", text);
    free(graph);
}

Test(formula, points_at_the_column_of_a_mistake) {
    static const char *const mistakes[][2] = {
        {"act(x*sigmiod(x))", "column 7: unknown function \"sigmiod\": did you mean sigmoid?"},
        {"act(y)", "column 5: unknown name \"y\": this formula is one of x"},
        {"act(g*x)", "column 5: unknown name \"g\": this formula is one of x"},
        {"gated(g*x)", "column 9: unknown name \"x\": this formula is one of g,u"},
        {"act(clamp(x,1))", "column 10: clamp takes 3 arguments (value, low, high), not 2"},
        {"act(exp(x,x))", "column 8: exp takes 1 argument (x), not 2"},
        {"act(exp())", "column 8: exp takes 1 argument (x), not 0"},
        {"act(exp*x)", "column 8: exp needs its arguments, exp(x), not \"*\""},
        {"act(x<1)", "column 5: the formula needs a number, not a comparison"},
        {"act(x+(x<1))", "column 7: + needs a number, not a comparison"},
        {"act(select(x,1,2))", "column 12: select needs a comparison such as x < 0, not a number"},
        {"act(select(x<1,x<2,2))", "column 16: select needs a number, not a comparison"},
        {"act((x<1)<1)", "column 5: < needs a number, not a comparison"},
        {"act(-(x<1))", "column 6: a minus sign needs a number, not a comparison"},
        {"act(x+)", "column 7: expected a number, a name, \"(\" or \"-\", not the end of the formula"},
        {"act()", "column 5: expected a number, a name, \"(\" or \"-\", not the end of the formula"},
        {"act((x)", "column 7: expected \")\" for the \"(\" of column 5, not the end of the formula"},
        {"act(x))", "column 6: expected an operator or the end of the formula, not \")\""},
        {"act(x x)", "column 7: expected an operator or the end of the formula, not \"x\""},
        {"act(2x)", "column 6: a number such as 1.5 or 1e-3 cannot go on with \"x\""},
        {"act(1.2.3*x)", "column 8: a number such as 1.5 or 1e-3 cannot go on with"},
        {"act(0x10)", "column 6: a number such as"},
        {"act(1e39)", "column 5: the number is too large: f32 ends at 3.4028235e38"},
        {"act(inf)", "column 5: unknown name \"inf\""},
        {"act(bits(x))", "column 5: unknown function \"bits\""},
        {"act(silu(x))", "column 5: unknown function \"silu\""},
        {"act(let y = x; y)", "column 5: unknown name \"let\""},
        {"act(x|x)", "column 6: expected an operator or the end of the formula, not \"|\""},
        {"act(x", "column 6: expected \")\" at the end of act(...)"},
        {"act", "column 4: act is followed by a formula of x in parentheses"},
        {"gated", "column 6: gated is followed by a formula of g and u in parentheses"},
        {"geluu", "column 1: unknown activation \"geluu\": did you mean gelu"},
        {"", "column 1: unknown activation \"\""},
        {"gelu(1)", "column 6: gelu has no parameters"},
        {"leaky_relu(0.1,2)", "column 16: leaky_relu has only the parameters a=0.01"},
        {"leaky_relu(x)", "column 12: the parameter a of leaky_relu is a number, as in a=0.01"},
        {"leaky_relu()", "column 12: the parameter a of leaky_relu is a number"},
        {"leaky_relu(0.1", "column 15: expected \")\" or \",\" after a parameter of leaky_relu"},
        {"swish(0)", "column 7: the parameter beta of swish lies between 0.001 and 1000"},
        {"swish(-1)", "column 7: the parameter beta of swish lies between 0.001 and 1000"},
        {"swiglu_oai(1.702,1e40)", "column 18: the parameter limit of swiglu_oai is not a number f32 can hold"},
        {"relu+1", "column 5: \"+1\" after the activation relu"},
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++)
        expect_refused(mistakes[i][0], mistakes[i][1]);
}

static char *repeated(const char *before, const char *piece, size_t count, const char *after) {
    const size_t length = strlen(piece);
    char *const text = malloc(strlen(before) + length * count + strlen(after) + 1);
    cr_assert(text);
    char *at = text + sprintf(text, "%s", before);
    for (size_t i = 0; i < count; i++, at += length)
        memcpy(at, piece, length);
    strcpy(at, after);
    return text;
}

Test(formula, refuses_what_is_too_deep_too_long_or_too_large) {
    static const struct {
        const char *before, *piece;
        size_t count;
        const char *after, *message;
    } hostile[] = {
        {"act(", "(", 1 << 20, "", "column 1048581: expected \")\""},
        {"act(", "(", 1 << 20, ")", "column 69: nested more than 64 deep"},
        {"act(", "-", 1 << 20, "x)", "column 69: nested more than 64 deep"},
        {"act(", "exp(", 1 << 18, ")", "column 261: nested more than 64 deep"},
        {"act(", "1+", 1 << 19, "x)", "column "},
        {"act(", "1", 1 << 20, ")", "column 5: the number has too many digits"},
        {"act(1e", "9", 1 << 20, ")", "column 5: the number is too large"},
        {"act(x*0.", "0", 1 << 20, "1;)", "column 1048586: expected an operator"},
        {"act(", "exp(x+", 60, "x", "column 366: expected \")\""},
        {"act(x", "+exp(x*x*", 1, "", "column 15: expected \")\""},
        {"", "gelu", 1 << 18, "", "column 1: unknown activation"},
        {"leaky_relu(", "1", 1 << 20, ")", "column 12: the parameter a of leaky_relu is not a number f32 can hold"},
    };
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
        char *const text = repeated(hostile[i].before, hostile[i].piece, hostile[i].count, hostile[i].after);
        expect_refused(text, hostile[i].message);
        free(text);
    }
    char *const sum = repeated("act(x", "+x", 520, ")"), canonical[FFN_ACTIVATION_BYTES];
    ffn_diag diag = {FFN_OK, ""};
    cr_expect(formula_canonical(sum, canonical, sizeof canonical, NULL, &diag) == FFN_BAD_SPEC);
    cr_expect_str_eq(diag.text, "the formula is too long: its canonical text has room for 1023 characters");
    free(sum);
    char text[1024], *at = text + sprintf(text, "act(x");
    for (int i = 2; at - text < 980; i++)
        at += sprintf(at, "+erf(x*%d)", i);
    strcpy(at, ")");
    expect_refused(text, "the formula is too long: it comes to more than 1024 operations");
}

/* ---- One text for one meaning ---- */

Test(formula, has_one_canonical_text) {
    static const char *const texts[][2] = {
        {"relu", "relu"},
        {"  relu ", "relu"},
        {"leaky_relu(0.01)", "leaky_relu"},
        {"leaky_relu( 0.20 )", "leaky_relu(0.2)"},
        {"leaky_relu(-2e-1)", "leaky_relu(-0.2)"},
        {"elu(1.0)", "elu"},
        {"swish(1)", "swish"},
        {"swish(2)", "swish(2)"},
        {"swiglu_oai(1.702,7)", "swiglu_oai"},
        {"swiglu_oai(1.702)", "swiglu_oai"},
        {"swiglu_oai(1.5)", "swiglu_oai(1.5)"},
        {"swiglu_oai(1.702,8)", "swiglu_oai(1.702,8)"},
        {"act( x * sigmoid( 1.702 * x ) )", "act(x*sigmoid(1.702*x))"},
        {"act((((x))))", "act(x)"},
        {"act((x*x)*x)", "act(x*x*x)"},
        {"act(x*(x*x))", "act(x*(x*x))"},
        {"act(x-(x-1))", "act(x-(x-1))"},
        {"act((x-x)-1)", "act(x-x-1)"},
        {"act(x/(x*2))", "act(x/(x*2))"},
        {"act((-x)*x)", "act(-x*x)"},
        {"act(-(x*x))", "act(-(x*x))"},
        {"act(x*(-x))", "act(x*-x)"},
        {"act(- -x)", "act(--x)"},
        {"act((x+1)*2)", "act((x+1)*2)"},
        {"act(select((x<0),(1),x+1))", "act(select(x<0,1,x+1))"},
        {"act(select(x >= 0,x,0))", "act(select(x>=0,x,0))"},
        {"act(1e0*x+1000000*x+0.00001*x)", "act(1*x+1000000*x+0.00001*x)"},
        {"act(1e-10+1e20+16777216+0.1)", "act(1e-10+1e20+16777216+0.1)"},
        {"act(0.10000000149011612*x)", "act(0.1*x)"},
        {"act(3.4028235e38*x)", "act(3.4028235e38*x)"},
        {"act(1e-45*x)", "act(1e-45*x)"},
        {"act(.5*x+5.)", "act(0.5*x+5)"},
        {"gated( g *(u+1))", "gated(g*(u+1))"},
        {"gated(min(g,7)*sigmoid(1.702*min(g,7))*(clamp(u,-7,7)+1))",
         "gated(min(g,7)*sigmoid(1.702*min(g,7))*(clamp(u,-7,7)+1))"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char once[FFN_ACTIVATION_BYTES], twice[FFN_ACTIVATION_BYTES];
        ffn_diag diag = {FFN_OK, ""};
        bool gated;
        cr_assert(formula_canonical(texts[i][0], once, sizeof once, &gated, &diag) == FFN_OK, "%s: %s", texts[i][0],
                  diag.text);
        cr_expect_str_eq(once, texts[i][1]);
        cr_expect(gated == (once[0] == 'g' || strncmp(once, "swiglu", 6) == 0));
        cr_assert(formula_canonical(once, twice, sizeof twice, NULL, &diag) == FFN_OK);
        cr_expect_str_eq(twice, once);
        const size_t fits = strlen(once) + 1;
        cr_expect(formula_canonical(once, twice, fits, NULL, NULL) == FFN_OK);
        cr_expect(formula_canonical(once, twice, fits - 1, NULL, NULL) == FFN_BAD_SPEC);
    }
}

/* ---- Numbers ---- */

static void expect_number(const char *text) {
    double value = 0;
    const number_answer answer = number_parse(text, strlen(text), &value);
    const float wanted = strtof(text, NULL); /* the C locale: correctly rounded in glibc */
    cr_expect(isinf(wanted) ? answer == NUMBER_TOO_LARGE : answer == NUMBER_OK && (float)value == wanted,
              "%s: %a, not %a", text, value, (double)wanted);
}

Test(formula, rounds_numbers_correctly) {
    static const char *const texts[] = {"0",
                                        "0.0e99",
                                        "1",
                                        "16777217",
                                        "16777219",
                                        "16777217.0000000000000000001",
                                        "33554431.5",
                                        "1e-45",
                                        "7e-46",
                                        "7.0064923216240853546186479164495e-46",
                                        "7.0064923216240853546186479164496e-46",
                                        "7.0064923216240862e-46",
                                        "1.1754943508222875e-38",
                                        "1.1754942807573643e-38",
                                        "3.4028235677973366e38",
                                        "3.4028235677973365e38",
                                        "3.4028236e38",
                                        "340282346638528859811704183484516925440",
                                        "1e38",
                                        "1e-60",
                                        "0.1",
                                        "1e10",
                                        "9007199254740993",
                                        "00000000000000000000000000000000000000000000000001.5",
                                        "1e+5",
                                        "1E5",
                                        "5.",
                                        ".5e-3",
                                        "2.00000011920928955078125",
                                        "2.000000119209289550781250000000000000000000000000000000001",
                                        "1e-400",
                                        "1e400"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        expect_number(texts[i]);
    for (int32_t i = 0; i < 40000; i++) {
        char text[64];
        const uint32_t bits = next_random() & 0x7fffffff;
        if (bits >= 0x7f800000)
            continue;
        const double value = (double)float_of(bits), next = (double)float_of(bits + 1);
        switch (i % 4) {
        case 0:
            snprintf(text, sizeof text, "%.*e", (int)random_below(20), value);
            break;
        case 1: /* between two neighbours, as near to the middle as 25 digits get */
            snprintf(text, sizeof text, "%.25e", isinf(next) ? value : (value + next) / 2);
            break;
        case 2:
            snprintf(text, sizeof text, "%u.%ue%d", random_below(100000), next_random(), (int)random_below(90) - 45);
            break;
        default:
            snprintf(text, sizeof text, "%.12f", ldexp((double)next_random(), -(int)random_below(40)));
        }
        expect_number(text);
    }
}

Test(formula, writes_the_shortest_number_that_reads_back) {
    for (int32_t i = 0; i < 20000; i++) {
        const uint32_t bits = i < 300 ? (uint32_t)i : next_random();
        const float value = float_of(bits);
        if (!isfinite(value))
            continue;
        char text[NUMBER_TEXT_BYTES], shorter[64];
        number_format(value, text);
        double back = 0;
        const bool minus = text[0] == '-';
        cr_assert(number_length(text + minus, text + strlen(text)) == strlen(text) - minus, "%s", text);
        cr_assert(number_parse(text + minus, strlen(text) - minus, &back) == NUMBER_OK);
        cr_assert(bits_of(minus ? -(float)back : (float)back) == bits, "%s", text);
        int digits = 0; /* significant ones: one less does not read back */
        for (const char *at = text; *at && *at != 'e'; at++)
            digits += *at >= '0' && *at <= '9' && (digits > 0 || *at != '0');
        if (digits > 1 && strchr(text, '.')) {
            snprintf(shorter, sizeof shorter, "%.*e", digits - 2, (double)value);
            cr_assert(strtof(shorter, NULL) != value, "%s for %s", text, shorter);
        }
    }
}

Test(formula, does_not_depend_on_the_locale) {
    static const char *const locales[] = {"de_DE.UTF-8", "de_DE", "fr_FR.UTF-8", "pl_PL.UTF-8", "ps_AF"};
    for (size_t i = 0; i < sizeof locales / sizeof locales[0]; i++)
        if (setlocale(LC_ALL, locales[i]))
            break;
    char canonical[64];
    cr_expect(formula_canonical("act(1.50*x)", canonical, sizeof canonical, NULL, NULL) == FFN_OK);
    cr_expect_str_eq(canonical, "act(1.5*x)");
    setlocale(LC_ALL, "C");
}

/* ---- What operations do ---- */

Test(formula, propagates_nan_through_min_max_and_clamp) {
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
    formula_graph *const graph = build(text);
    int32_t count = 0;
    for (int32_t i = 0; i < graph->count; i++)
        count += graph->nodes[i].op > FORMULA_OP_ARGUMENT;
    cr_expect(graph->count == nodes && count == operations, "%s: %d nodes, %d operations", text, graph->count, count);
    free(graph);
}

Test(formula, folds_constants_and_shares_equal_parts) {
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
    formula_graph *const eighth = build("act(x/8)");
    cr_expect(eighth->nodes[eighth->result].op == FORMULA_OP_MUL);
    free(eighth);
    formula_graph *const third = build("act(x/3)");
    cr_expect(third->nodes[third->result].op == FORMULA_OP_DIV);
    free(third);
    formula_graph *const relu = build("act(max(x,0))"); /* 0 > x ? 0 : x: one instruction, and a NaN comes through */
    const formula_node *const chosen = &relu->nodes[relu->result], *const test = &relu->nodes[chosen->a];
    cr_expect(chosen->op == FORMULA_OP_SELECT && test->op == FORMULA_OP_LT);
    cr_expect(relu->nodes[chosen->b].op == FORMULA_OP_NUMBER && relu->nodes[chosen->c].op == FORMULA_OP_ARGUMENT);
    cr_expect(test->a == chosen->c && test->b == chosen->b);
    free(relu);
}

static formula_type result_type(uint16_t op) {
    static const formula_type types[] = {
#define RESULT_TYPE(ID, text, result, a, b, c) FORMULA_##result,
        FORMULA_OP_LIST(RESULT_TYPE)
#undef RESULT_TYPE
    };
    return types[op];
}

/* Operands before users and of the right type, no two nodes equal, none that the result does not need. */
static void expect_sound(const char *text, const formula_graph *graph) {
    static const formula_type wanted[][3] = {
#define OPERAND_TYPES(ID, text_, result, a, b, c) {FORMULA_##a, FORMULA_##b, FORMULA_##c},
        FORMULA_OP_LIST(OPERAND_TYPES)
#undef OPERAND_TYPES
    };
    bool needed[FORMULA_NODES_MAX] = {false};
    cr_assert(graph->count > 0 && graph->result == graph->count - 1, "%s", text);
    needed[graph->result] = true;
    for (int32_t i = graph->count - 1; i >= 0; i--) {
        const formula_node *const node = &graph->nodes[i];
        cr_assert(node->op < FORMULA_OP_COUNT && needed[i], "%s: node %d", text, i);
        const uint16_t operands[3] = {node->a, node->b, node->c};
        for (int32_t k = 0; k < 3; k++) {
            if (wanted[node->op][k] == FORMULA_NONE) {
                cr_assert(operands[k] == 0, "%s", text);
                continue;
            }
            cr_assert(operands[k] < i && result_type(graph->nodes[operands[k]].op) == wanted[node->op][k],
                      "%s: node %d", text, i);
            needed[operands[k]] = true;
        }
        for (int32_t k = 0; k < i; k++)
            cr_assert(memcmp(node, &graph->nodes[k], sizeof *node) != 0, "%s: %d and %d", text, i, k);
    }
    cr_assert(result_type(graph->nodes[graph->result].op) == FORMULA_FLOAT);
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

static void fill_values(float *values) {
    static const float special[] = {0.0f,    -0.0f,    INFINITY,  -INFINITY,  NAN,   1.0f,    -1.0f, FLT_MAX, -FLT_MAX,
                                    FLT_MIN, -FLT_MIN, 0x1p-149f, -0x1p-149f, 88.8f, -104.5f, 0.5f,  -9.5f,   -13.2f};
    enum { SPECIAL = sizeof special / sizeof special[0] };
    for (int32_t i = 0; i < VALUES; i++)
        values[i] = i < SPECIAL       ? special[i]
                    : random_below(2) ? float_of(next_random())
                                      : (float)((double)next_random() * 0x1p-32 * 30 - 15);
}

static void expect_equal_ways(const char *text) {
    formula_graph *const graph = build(text);
    expect_sound(text, graph);
    float g[VALUES], u[VALUES], out[VALUES + 1];
    fill_values(g);
    fill_values(u);
    for (int32_t i = VALUES - 1; i > 0; i--) { /* shuffled, so that special values meet */
        const uint32_t k = random_below((uint32_t)i + 1);
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

Test(formula, evaluates_as_one_operation_after_the_other) {
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

/* ---- Random formulas: text, meaning in C, and reference in one walk ---- */

typedef struct sentence {
    char text[900];
    size_t used;
    float g, u;
} sentence;

static void say(sentence *s, const char *text) {
    for (uint32_t i = random_below(6); i == 0; i = random_below(3))
        s->used += (size_t)snprintf(s->text + s->used, sizeof s->text - s->used, " ");
    s->used += (size_t)snprintf(s->text + s->used, sizeof s->text - s->used, "%s", text);
}

static float say_tree(sentence *s, int32_t depth);

static float say_operator(sentence *s, int32_t depth) {
    static const char *const signs[] = {"+", "-", "*", "/"};
    const uint32_t which = random_below(4);
    say(s, "(");
    const float a = say_tree(s, depth - 1);
    say(s, signs[which]);
    const float b = say_tree(s, depth - 1);
    say(s, ")");
    volatile float r = which == 0 ? a + b : which == 1 ? a - b : which == 2 ? a * b : a / b;
    return r;
}

static float least_of(float a, float b, bool smaller) {
    return isnan(a) || isnan(b) ? NAN : (smaller ? a < b : a > b) ? a : b;
}

static float say_call(sentence *s, int32_t depth) {
    const uint32_t which = random_below(7);
    static const char *const names[] = {"min(", "max(", "abs(", "fma(", "select(", "clamp(", "-("};
    say(s, names[which]);
    const float a = say_tree(s, depth - 1);
    float b = 0, c = 0, d = 0;
    if (which != 2 && which != 6) {
        say(s, which == 4 ? "<" : ",");
        b = say_tree(s, depth - 1);
    }
    if (which >= 3 && which <= 5) {
        say(s, ",");
        c = say_tree(s, depth - 1);
    }
    if (which == 4) {
        say(s, ",");
        d = say_tree(s, depth - 1);
    }
    say(s, ")");
    switch (which) {
    case 0:
    case 1:
        return least_of(a, b, which == 0);
    case 2:
        return fabsf(a);
    case 3:
        return fmaf(a, b, c);
    case 4:
        return a < b ? c : d;
    case 5:
        return least_of(least_of(a, b, false), c, true);
    default:
        return -a;
    }
}

static float say_tree(sentence *s, int32_t depth) {
    const uint32_t kind = depth == 0 ? random_below(3) : random_below(8);
    char number[32];
    switch (kind) {
    case 0:
        say(s, "g");
        return s->g;
    case 1:
        say(s, "u");
        return s->u;
    case 2:
        snprintf(number, sizeof number, "%.*g", (int)random_below(9) + 1,
                 random_below(3) ? (double)random_below(9) / 4 : (double)next_random() * 1e-7);
        say(s, number);
        return strtof(number, NULL);
    case 3:
    case 4:
    case 5:
        return say_operator(s, depth);
    default:
        return say_call(s, depth);
    }
}

Test(formula, means_what_c_means_for_random_formulas) {
    int32_t tried = 0;
    while (tried < 3000) {
        sentence s = {.g = float_of(next_random()), .u = (float)((double)next_random() * 0x1p-30 - 2)};
        if (random_below(2))
            s.g = (float)((double)next_random() * 0x1p-30 - 2);
        s.used = (size_t)snprintf(s.text, sizeof s.text, "gated(");
        const float wanted = say_tree(&s, 4);
        say(&s, ")");
        if (s.used >= sizeof s.text)
            continue;
        tried++;
        char canonical[FFN_ACTIVATION_BYTES], again[FFN_ACTIVATION_BYTES];
        ffn_diag diag = {FFN_OK, ""};
        cr_assert(formula_canonical(s.text, canonical, sizeof canonical, NULL, &diag) == FFN_OK, "%s: %s", s.text,
                  diag.text);
        cr_assert(formula_canonical(canonical, again, sizeof again, NULL, &diag) == FFN_OK && !strcmp(canonical, again),
                  "%s, %s", canonical, again);
        formula_graph *const graph = build(canonical);
        expect_sound(canonical, graph);
        free(graph);
        const float got = eval_at(canonical, s.g, s.u);
        cr_assert(got == wanted || same_bits(got, wanted), "%s at %a, %a: %a, not %a", s.text, (double)s.g, (double)s.u,
                  (double)got, (double)wanted);
        double value, bound;
        cr_assert(formula_reference(canonical, (double)s.g, (double)s.u, &value, &bound, NULL) == FFN_OK);
        cr_assert((isnan(got) && isnan(value)) || (double)got == value || isinf(bound) ||
                      fabs((double)got - value) <= bound,
                  "%s at %a, %a: %a, not %a +- %a", s.text, (double)s.g, (double)s.u, (double)got, value, bound);
    }
}

/* ---- The reference ---- */

Test(formula, keeps_within_the_bound_of_its_reference) {
    static const char *const texts[] = {"act(x*sigmoid(1.702*x))",
                                        "act(0.5*x*(1+erf(x*0.70710678)))",
                                        "act(0.5*x*(1+tanh(0.79788456*(x+0.044715*x*x*x))))",
                                        "act(x*tanh(log1p(exp(x))))",
                                        "act(x/(1+exp(-x)))",
                                        "act(log(1+exp(x)))",
                                        "act(sqrt(x*x+1)-1)",
                                        "act(select(x<0,0.1*expm1(x),x))",
                                        "act(1/(x*x-2))",
                                        "act(erfc(abs(x))*softplus(x))",
                                        "gated(min(g,7)*sigmoid(1.702*min(g,7))*(clamp(u,-7,7)+1))",
                                        "gated(g*g-u*u)"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        formula_graph *const graph = build(texts[i]);
        float g[VALUES], u[VALUES], out[VALUES];
        fill_values(g);
        fill_values(u);
        formula_eval(graph, VALUES, g, u, out);
        int32_t judged = 0, tight = 0;
        for (int32_t k = 0; k < VALUES; k++) {
            double value, bound;
            cr_assert(formula_reference(texts[i], (double)g[k], (double)u[k], &value, &bound, NULL) == FFN_OK);
            const bool equal = (double)out[k] == value || (isnan(out[k]) && isnan(value));
            cr_expect(equal || isinf(bound) || fabs((double)out[k] - value) <= bound, "%s at %a, %a: %a, not %a +- %a",
                      texts[i], (double)g[k], (double)u[k], (double)out[k], value, bound);
            judged += fabsf(g[k]) < 15 && fabsf(g[k]) > 1e-3f;
            tight += fabsf(g[k]) < 15 && fabsf(g[k]) > 1e-3f && bound <= 1e-5 * (fabs(value) + 1);
        }
        cr_expect(judged > 200 && tight > judged * 9 / 10, "%s: %d of %d bounds are tight", texts[i], tight, judged);
        free(graph);
    }
}

Test(formula, bound_tells_tanh_from_erf) {
    double erf_form, tanh_form, bound;
    cr_assert(formula_reference("gelu", 2.0, 0, &erf_form, &bound, NULL) == FFN_OK);
    cr_assert(formula_reference("gelu_tanh", 2.0, 0, &tanh_form, NULL, NULL) == FFN_OK);
    cr_expect(fabs(erf_form - tanh_form) > 100 * bound);
    cr_expect(fabs(erf_form - 1.9544997361036416) < 1e-15); /* 2 Phi(2) */
    cr_assert(formula_reference("relu2", 1e30, 0, &erf_form, &bound, NULL) == FFN_OK);
    cr_expect(isinf(erf_form) && bound == 0);
    cr_assert(formula_reference("swiglu", 0, INFINITY, &erf_form, &bound, NULL) == FFN_OK);
    cr_expect(isnan(erf_form));
    ffn_diag diag = {FFN_OK, ""};
    double untouched = 7;
    cr_expect(formula_reference("act(x", 0, 0, &untouched, NULL, &diag) == FFN_BAD_SPEC && untouched == 7);
}
