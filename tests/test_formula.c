/* The formula language: what is refused and where, one text for one meaning, numbers to the last bit. */
#include "formula_ast.h"
#include "support_formula.h"

#include <locale.h>
#include <stdio.h>

static uint64_t random_state = 88172645463325252u;

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
    cr_expect(formula_build(text, FFN_ACCURATE, graph, NULL) == FFN_BAD_SPEC && graph->count == 0, "%.60s", text);
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
        {"swish(1001)", "column 7: the parameter beta of swish lies between 0.001 and 1000"},
        {"swish(-1)", "column 7: the parameter beta of swish lies between 0.001 and 1000"},
        {"swiglu_oai(1.702,1e40)", "column 18: the parameter limit of swiglu_oai is not a number f32 can hold"},
        {"relu+1", "column 5: \"+\" after the activation relu"},
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
        const uint32_t bits = random_word(&random_state) & 0x7fffffff;
        if (bits >= 0x7f800000)
            continue;
        const double value = (double)float_of(bits), next = (double)float_of(bits + 1);
        switch (i % 4) {
        case 0:
            snprintf(text, sizeof text, "%.*e", (int)random_below(&random_state, 20), value);
            break;
        case 1: /* between two neighbours, as near to the middle as 25 digits get */
            snprintf(text, sizeof text, "%.25e", isinf(next) ? value : (value + next) / 2);
            break;
        case 2:
            snprintf(text, sizeof text, "%u.%ue%d", random_below(&random_state, 100000), random_word(&random_state),
                     (int)random_below(&random_state, 90) - 45);
            break;
        default:
            snprintf(text, sizeof text, "%.12f",
                     ldexp((double)random_word(&random_state), -(int)random_below(&random_state, 40)));
        }
        expect_number(text);
    }
}

Test(formula, writes_the_shortest_number_that_reads_back) {
    for (int32_t i = 0; i < 20000; i++) {
        const uint32_t bits = i < 300 ? (uint32_t)i : random_word(&random_state);
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
