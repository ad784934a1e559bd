/* The meaning of formulas by other ways: random ones as C computes them, and all within the bound of their reference.
 */
#include "support_formula.h"

#include <float.h>
#include <stdio.h>

static uint64_t random_state = 88172645463325252u;

/* ---- Random formulas: text, meaning in C, and reference in one walk ---- */

typedef struct sentence {
    char text[900];
    size_t used;
    float g, u;
} sentence;

static void say(sentence *s, const char *text) {
    for (uint32_t i = random_below(&random_state, 6); i == 0; i = random_below(&random_state, 3))
        s->used += (size_t)snprintf(s->text + s->used, sizeof s->text - s->used, " ");
    s->used += (size_t)snprintf(s->text + s->used, sizeof s->text - s->used, "%s", text);
}

static float say_tree(sentence *s, int32_t depth);

static float say_operator(sentence *s, int32_t depth) {
    static const char *const signs[] = {"+", "-", "*", "/"};
    const uint32_t which = random_below(&random_state, 4);
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
    const uint32_t which = random_below(&random_state, 7);
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
    const uint32_t kind = depth == 0 ? random_below(&random_state, 3) : random_below(&random_state, 8);
    char number[32];
    switch (kind) {
    case 0:
        say(s, "g");
        return s->g;
    case 1:
        say(s, "u");
        return s->u;
    case 2:
        snprintf(number, sizeof number, "%.*g", (int)random_below(&random_state, 9) + 1,
                 random_below(&random_state, 3) ? (double)random_below(&random_state, 9) / 4
                                                : (double)random_word(&random_state) * 1e-7);
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

Test(formula_reference, means_what_c_means_for_random_formulas) {
    int32_t tried = 0;
    while (tried < 3000) {
        sentence s = {.g = float_of(random_word(&random_state)),
                      .u = (float)((double)random_word(&random_state) * 0x1p-30 - 2)};
        if (random_below(&random_state, 2))
            s.g = (float)((double)random_word(&random_state) * 0x1p-30 - 2);
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
        formula_graph *const graph = graph_of(canonical);
        cr_assert(graph_is_sound(graph), "%s", canonical);
        free(graph);
        const float got = eval_at(canonical, s.g, s.u);
        cr_assert(got == wanted || same_bits(got, wanted), "%s at %a, %a: %a, not %a", s.text, (double)s.g, (double)s.u,
                  (double)got, (double)wanted);
        double value, bound;
        cr_assert(formula_reference(canonical, FFN_ACCURATE, (double)s.g, (double)s.u, &value, &bound, NULL) == FFN_OK);
        cr_assert((isnan(got) && isnan(value)) || (double)got == value || isinf(bound) ||
                      fabs((double)got - value) <= bound,
                  "%s at %a, %a: %a, not %a +- %a", s.text, (double)s.g, (double)s.u, (double)got, value, bound);
    }
}

/* ---- The reference ---- */

enum { VALUES = 509 };

Test(formula_reference, keeps_within_the_bound_of_its_reference) {
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
        formula_graph *const graph = graph_of(texts[i]);
        float g[VALUES], u[VALUES], out[VALUES];
        fill_values(&random_state, g, VALUES);
        fill_values(&random_state, u, VALUES);
        formula_eval(graph, VALUES, g, u, out);
        int32_t judged = 0, tight = 0;
        for (int32_t k = 0; k < VALUES; k++) {
            double value, bound;
            cr_assert(formula_reference(texts[i], FFN_ACCURATE, (double)g[k], (double)u[k], &value, &bound, NULL) ==
                      FFN_OK);
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

Test(formula_reference, bound_covers_both_sides_of_a_jump_that_rounding_decides) {
    static const char *const text = "act(select(x*3<=1,0,100))";
    const float third = 0x1.555556p-2f; /* three times that is above 1 and rounds to it */
    double value, bound;
    cr_assert(formula_reference(text, FFN_ACCURATE, (double)third, 0, &value, &bound, NULL) == FFN_OK);
    cr_expect(value == 100 && eval_at(text, third, 0) == 0 && bound >= 100 && bound < 101);
    cr_assert(formula_reference(text, FFN_ACCURATE, 0.25, 0, &value, &bound, NULL) == FFN_OK);
    cr_expect(value == 0 && bound == 0);
    cr_assert(formula_reference("act(select(sigmoid(x)<0.5,0,100))", FFN_ACCURATE, 0, 0, &value, &bound, NULL) ==
              FFN_OK);
    cr_expect(value == 100 && bound >= 100 && bound < 101); /* sigmoid may be a unit off */
}

Test(formula_reference, bound_tells_tanh_from_erf) {
    double erf_form, tanh_form, bound;
    cr_assert(formula_reference("gelu", FFN_ACCURATE, 2.0, 0, &erf_form, &bound, NULL) == FFN_OK);
    cr_assert(formula_reference("gelu_tanh", FFN_ACCURATE, 2.0, 0, &tanh_form, NULL, NULL) == FFN_OK);
    cr_expect(fabs(erf_form - tanh_form) > 100 * bound);
    cr_expect(fabs(erf_form - 1.9544997361036416) < 1e-15); /* 2 Phi(2) */
    cr_assert(formula_reference("relu2", FFN_ACCURATE, 1e30, 0, &erf_form, &bound, NULL) == FFN_OK);
    cr_expect(isinf(erf_form) && bound == 0);
    cr_assert(formula_reference("swiglu", FFN_ACCURATE, 0, INFINITY, &erf_form, &bound, NULL) == FFN_OK);
    cr_expect(isnan(erf_form));
    ffn_diag diag = {FFN_OK, ""};
    double untouched = 7;
    cr_expect(formula_reference("act(x", FFN_ACCURATE, 0, 0, &untouched, NULL, &diag) == FFN_BAD_SPEC &&
              untouched == 7);
}
