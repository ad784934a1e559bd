/* The built-in activations against MPFR over the whole f32 range, at their edges, and bit by bit against the record. */
#include "formula_ast.h"
#include "formula_count.h"
#include "support_formula.h"
#include "support_mpfr.h"
#include "support_record.h"

#include <float.h>
#include <stdio.h>

/* What each must keep: units of the last place (2 is the project's rule; a gated one's factor of g keeps it, and the
 * product with u rounds once more, which can make 4.5 of it; swish of other beta than 1 is measured on samples),
 * operations, and two digests: of the bits of its results on 107,000 arguments, and of the operations with their
 * constants, since the last digits of some coefficients show in few results. The bits are part of what a spec promises:
 * where a change of them is meant, docs/ says so. */
typedef struct activation_case {
    const char *text, *name;
    double parameters[EXACT_PARAMETERS_MAX];
    double ulps;
    int32_t operations; /* at most: they share the pipes of the products */
    uint64_t bits, graph;
} activation_case;

static const activation_case cases[] = {
#include "golden/activations.inc"
};

enum { CASES = sizeof cases / sizeof cases[0] };

/* ---- Samples ---- */

enum { SAMPLE_MAX = 120000 };

/* Every exponent of both signs; the range where activations bend; the tails where results go subnormal. */
static int32_t fill_sample(float *sample, int32_t per_exponent, int32_t bends, int32_t tails) {
    uint64_t state = 88172645463325252u;
    int32_t count = 0;
    for (uint32_t exponent = 0; exponent < 255; exponent++)
        for (int32_t i = 0; i < per_exponent; i++) {
            const uint32_t fraction = i == 0 ? 0 : i == 1 ? 0x7fffff : (uint32_t)(next_random(&state) & 0x7fffff);
            sample[count++] = float_of(exponent << 23 | fraction);
            sample[count++] = float_of(UINT32_C(0x80000000) | exponent << 23 | fraction);
        }
    for (int32_t i = 0; i < bends; i++)
        sample[count++] = (float)random_between(&state, -15, 9);
    for (int32_t i = 0; i < tails; i++)
        sample[count++] = (float)random_between(&state, -115, -75);
    return count;
}

/* The up value that takes the product's fraction to the end of its binade, where a relative error counts most units. */
static float hardest_up(float phi, uint64_t random) {
    int exponent;
    const double fraction = frexp(fabs((double)phi), &exponent);
    if (!(fraction >= 0.5))
        return 1.5f;
    const double wanted = 1 - 0x1p-10 * (double)(random & 0xff) / 256;
    return (float)((random & 0x100 ? -1 : 1) * wanted / fraction);
}

/* Within the bound: units of the last place, and where the value is subnormal its relative part and one smallest
 * subnormal. A gated product multiplies what its first factor lost to the smallest subnormal. */
static bool is_within(exact_error error, double ulps, double up) {
    if (error.wrong)
        return false;
    const double subnormal = 0x1p-126, amplified = fabs(up) > 1 ? fabs(up) + 1 : 1;
    if (isnan(error.value) || isinf(error.value) || error.ulps <= ulps)
        return true;
    const double value_units = ldexp(fabs(error.value), 149);
    return fabs(error.value) < subnormal * amplified * 32 && error.units <= ulps * value_units * 0x1p-23 + amplified;
}

typedef struct sweep {
    double worst; /* units of the last place, normal results */
    float at;
    int32_t outside;
    float outside_at;
} sweep;

static sweep sweep_case(const activation_case *c, const float *sample, int32_t count) {
    formula_graph *const graph = graph_of(c->text);
    float *const up = malloc((size_t)count * sizeof *up), *const out = malloc((size_t)count * sizeof *out);
    cr_assert(up && out);
    uint64_t state = 362436069;
    for (int32_t i = 0; i < count; i++)
        up[i] = 1;
    if (graph->gated && strcmp(c->name, "swiglu_oai") != 0) {
        formula_eval(graph, count, sample, up, out);
        for (int32_t i = 0; i < count; i++)
            up[i] = hardest_up(out[i], next_random(&state));
    } else if (graph->gated) {
        for (int32_t i = 0; i < count; i++)
            up[i] = (float)random_between(&state, -10, 10);
    }
    formula_eval(graph, count, sample, graph->gated ? up : NULL, out);
    sweep result = {0, 0, 0, 0};
    for (int32_t i = 0; i < count; i++) {
        const exact_error error = exact_compare(c->name, c->parameters, sample[i], up[i], out[i]);
        if (!is_within(error, c->ulps, graph->gated ? (double)up[i] : 1)) {
            result.outside++;
            result.outside_at = sample[i];
        }
        if (fabs(error.value) >= 0x1p-126 && !isinf(error.value) && error.ulps > result.worst && !error.wrong) {
            result.worst = error.ulps;
            result.at = sample[i];
        }
    }
    printf("  %-20s %2d operations, largest error %.2f ULP at %.9g\n", c->text, formula_count_operations(graph),
           result.worst, (double)result.at);
    free(out);
    free(up);
    free(graph);
    return result;
}

Test(activations, stay_within_their_units_of_mpfr_over_the_whole_range) {
    float *const sample = malloc(SAMPLE_MAX * sizeof *sample);
    cr_assert(sample);
    for (int32_t i = 0; i < CASES; i++) {
        const int32_t count = fill_sample(sample, 24, 14000, 6000);
        const sweep result = sweep_case(&cases[i], sample, count);
        cr_expect(result.outside == 0, "%s: %d of %d results are off, one at %a", cases[i].text, result.outside, count,
                  (double)result.outside_at);
        cr_expect(result.worst <= cases[i].ulps, "%s: %.3f ULP at %a", cases[i].text, result.worst, (double)result.at);
        cr_expect(cases[i].ulps <=
                  (formula_gated(cases[i].text)                                                             ? 4.5
                   : (strncmp(cases[i].text, "swish(", 6) == 0 || strcmp(cases[i].text, "gelu_quick") == 0) ? 2.5
                                                                                                            : 2));
    }
    free(sample);
    exact_cleanup();
}

Test(activations, cost_no_more_operations_than_the_record) {
    for (int32_t i = 0; i < CASES; i++) {
        formula_graph *const graph = graph_of(cases[i].text);
        cr_expect(formula_count_operations(graph) <= cases[i].operations, "%s: %d", cases[i].text,
                  formula_count_operations(graph));
        free(graph);
    }
}

/* ---- Edges ---- */

static const float edges[] = {
    0.0f,      -0.0f,      INFINITY,  -INFINITY,  FLT_MAX,     -FLT_MAX, 1e30f,     -1e30f,     FLT_MIN,   -FLT_MIN,
    0x1p-149f, -0x1p-149f, 0x1p-127f, -0x1p-127f, 0x1.8p-128f, -3e-39f,  88.72284f, -88.72284f, 87.33654f, -87.33655f,
    88.8f,     -88.8f,     -103.97f,  -103.98f,   -104.0f,     -104.1f,  -105.0f,   -108.6f,    -109.0f,   -110.0f,
    9.01f,     -9.01f,     9.02f,     -9.02f,     -9.5f,       -10.3f,   -10.7f,    -10.9f,     -11.0f,    -13.0f,
    -13.2f,    -14.35f,    -14.4f,    -14.5f,     14.4f,       17.4f,    -17.4f,    25.0f,      25.1f,     6.0f,
    6.1f,      3.0f,       -3.0f,     2.9999998f, -2.9999998f, 0x1p-24f, -0x1p-24f, 1e-10f,     -1e-10f,   10.0f,
    10.1f,     -16.7f,     1e10f,     -1e10f,     1e20f,       -1e20f,   -1.0f,     1.0f,       0.9f,      -0.9f,
};
enum { EDGES = sizeof edges / sizeof edges[0] };

Test(activations, are_right_at_their_edges) {
    for (int32_t i = 0; i < CASES; i++) {
        formula_graph *const graph = graph_of(cases[i].text);
        const int32_t ups = graph->gated ? EDGES : 1;
        for (int32_t k = 0; k < EDGES * ups; k++) {
            const float g = edges[k % EDGES], u = graph->gated ? edges[k / EDGES] : 1;
            float out;
            formula_eval(graph, 1, &g, &u, &out);
            /* 0 or infinity, by whether a factor that underflows is rounded before the product: IEEE's product is. */
            const double factor = exact_compare(cases[i].name, cases[i].parameters, g, 1, 0).value;
            if (graph->gated && isinf(u) && fabs(factor) < 0x1p-147 && isnan(out))
                continue;
            const exact_error error = exact_compare(cases[i].name, cases[i].parameters, g, u, out);
            const bool near_overflow = !isnan(error.value) && fabs(error.value) > 0x1.fffff0p127;
            cr_expect(near_overflow || is_within(error, cases[i].ulps, graph->gated ? (double)u : 1),
                      "%s of %a, %a: %a, not %a", cases[i].text, (double)g, (double)u, (double)out, error.value);
        }
        free(graph);
    }
    exact_cleanup();
}

Test(activations, give_nan_for_nan_and_only_for_nan) {
    static const uint32_t nans[] = {0x7fc00000, 0xffc00000, 0x7f800001, 0xff812345, 0x7fffffff};
    for (int32_t i = 0; i < CASES; i++) {
        formula_graph *const graph = graph_of(cases[i].text);
        for (size_t k = 0; k < sizeof nans / sizeof nans[0]; k++) {
            const float nan = float_of(nans[k]), one = 1;
            float out = 0;
            formula_eval(graph, 1, &nan, &one, &out);
            cr_expect(isnan(out), "%s(NaN) = %a", cases[i].text, (double)out);
            if (!graph->gated)
                continue;
            formula_eval(graph, 1, &one, &nan, &out);
            cr_expect(isnan(out), "%s(1, NaN) = %a", cases[i].text, (double)out);
        }
        for (int32_t k = 0; k < EDGES; k++) {
            const float one = 1;
            float out = 0;
            formula_eval(graph, 1, &edges[k], &one, &out);
            const bool defined = !isnan(exact_compare(cases[i].name, cases[i].parameters, edges[k], 1, 0).value);
            cr_expect(isnan(out) != defined, "%s(%a) = %a", cases[i].text, (double)edges[k], (double)out);
        }
        free(graph);
    }
}

Test(activations, follow_ieee_in_their_products) {
    static const struct {
        const char *text;
        float g, u, out;
    } products[] = {{"relu2", 1e30f, 0, INFINITY},   {"reglu", -1, INFINITY, NAN},   {"swiglu", 0, INFINITY, NAN},
                    {"swiglu", -INFINITY, 5, -0.0f}, {"bilinear", 0, INFINITY, NAN}, {"geglu", 1e30f, 1e30f, INFINITY},
                    {"relu", -0.0f, 0, -0.0f},       {"tanh", -0.0f, 0, -0.0f},      {"gelu", -0.0f, 0, 0.0f}};
    for (size_t i = 0; i < sizeof products / sizeof products[0]; i++) {
        formula_graph *const graph = graph_of(products[i].text);
        float out;
        formula_eval(graph, 1, &products[i].g, &products[i].u, &out);
        cr_expect(isnan(products[i].out) ? isnan(out) : bits_of(out) == bits_of(products[i].out), "%s(%a, %a) = %a",
                  products[i].text, (double)products[i].g, (double)products[i].u, (double)out);
        free(graph);
    }
}

/* ---- Bits ---- */

Test(activations, keep_the_bits_of_the_record) {
    for (int32_t i = 0; i < CASES; i++) {
        formula_graph *const graph = graph_of(cases[i].text);
        const uint64_t bits = hash_bits(graph), operations = hash_graph(graph);
        cr_expect(bits == cases[i].bits && operations == cases[i].graph, "%s: 0x%016llx, 0x%016llx", cases[i].text,
                  (unsigned long long)bits, (unsigned long long)operations);
        free(graph);
    }
}

/* ---- The table itself ---- */

Test(activations, are_all_in_the_record) {
    for (size_t i = 0; ffn_activation_at(i); i++) {
        bool found = false;
        for (int32_t k = 0; k < CASES; k++)
            found = found || strcmp(cases[k].name, ffn_activation_at(i)->name) == 0;
        cr_expect(found, "%s", ffn_activation_at(i)->name);
        cr_expect(exact_knows(ffn_activation_at(i)->name), "%s", ffn_activation_at(i)->name);
    }
    for (int32_t k = 0; k < CASES; k++) {
        const activation_row *row = NULL;
        for (size_t i = 0; activation_row_at(i); i++)
            if (strcmp(activation_row_at(i)->shown.name, cases[k].name) == 0)
                row = activation_row_at(i);
        if (row) /* what formula_reference promises is what this suite found to hold */
            cr_expect(row->ulps >= cases[k].ulps && row->ulps <= (row->shown.gated ? 5.5 : 2), "%s", cases[k].text);
    }
}

/* Replaces the parameter names of a definition by their defaults. */
static void write_definition(const ffn_activation *activation, char *text, size_t bytes) {
    size_t used = (size_t)snprintf(text, bytes, "%s(", activation->gated ? "gated" : "act");
    for (const char *at = activation->formula; *at;) {
        const size_t word = strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789_.");
        const char *value = NULL;
        for (const char *p = activation->parameters; *p && word > 0;) {
            const size_t length = strcspn(p, "=");
            if (length == word && memcmp(p, at, word) == 0)
                value = p + length + 1;
            p += strcspn(p, ",");
            p += *p == ',';
        }
        const size_t length = word > 0 ? word : 1;
        if (value)
            used += (size_t)snprintf(text + used, bytes - used, "%.*s", (int)strcspn(value, ","), value);
        else
            used += (size_t)snprintf(text + used, bytes - used, "%.*s", (int)length, at);
        at += length;
    }
    snprintf(text + used, bytes - used, ")");
}

Test(activations, mean_what_their_definitions_say) {
    for (size_t i = 0; ffn_activation_at(i); i++) {
        const ffn_activation *const activation = ffn_activation_at(i);
        char text[512];
        write_definition(activation, text, sizeof text);
        for (double g = -6; g <= 6; g += 0.37)
            for (double u = -9; u <= 9; u += 4.5) {
                ffn_diag diag = {FFN_OK, ""};
                double value, defined;
                cr_assert(formula_reference(activation->name, FFN_ACCURATE, g, u, &value, NULL, &diag) == FFN_OK, "%s",
                          diag.text);
                cr_assert(formula_reference(text, FFN_ACCURATE, g, u, &defined, NULL, &diag) == FFN_OK, "%s: %s", text,
                          diag.text);
                cr_assert(fabs(value - defined) <= 1e-5 * fabs(value) + 1e-8, "%s(%g, %g): %g, defined %g",
                          activation->name, g, u, value, defined);
            }
    }
}

Test(activations, agree_with_their_reference_within_its_bound) {
    float *const sample = malloc(SAMPLE_MAX * sizeof *sample);
    cr_assert(sample);
    const int32_t count = fill_sample(sample, 8, 2000, 500);
    for (int32_t i = 0; i < CASES; i++) {
        formula_graph *const graph = graph_of(cases[i].text);
        for (int32_t k = 0; k < count; k++) {
            const float u = 0.7f;
            float out;
            double value, bound;
            formula_eval(graph, 1, &sample[k], &u, &out);
            cr_assert(formula_reference(cases[i].text, FFN_ACCURATE, (double)sample[k], (double)u, &value, &bound,
                                        NULL) == FFN_OK);
            const exact_error error = exact_compare(cases[i].name, cases[i].parameters, sample[k], u, (float)value);
            cr_assert(!error.wrong && error.ulps <= 0.51, "%s reference of %a: %a", cases[i].text, (double)sample[k],
                      value);
            const bool same = (double)out == value || (isnan(out) && isnan(value));
            cr_assert(same || fabs((double)out - value) <= bound, "%s(%a) = %a, not %a +- %a", cases[i].text,
                      (double)sample[k], (double)out, value, bound);
        }
        free(graph);
    }
    free(sample);
    exact_cleanup();
}
