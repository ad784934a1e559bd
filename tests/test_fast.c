/* The activations of "fast" against MPFR over the whole f32 range, at their limits, and bit by bit against the record.
 */
#include "formula_count.h"
#include "support_formula.h"
#include "support_mpfr.h"
#include "support_record.h"

#include <float.h>
#include <stdio.h>

typedef struct fast_case {
    const char *text, *name;
    double parameters[EXACT_PARAMETERS_MAX];
    int32_t operations; /* at most */
    uint64_t bits, graph;
} fast_case;

static const fast_case cases[] = {
#include "golden/fast.inc"
};

enum { CASES = sizeof cases / sizeof cases[0], OPERATIONS_MAX = 14, SAMPLE_MAX = 60000 };

/* Every exponent of both signs, the range where activations bend, and each neighbour of the clamps. */
static int32_t fill_sample(float *sample) {
    static const float clamps[] = {4.89999962f, 4.60000134f, 7.89999914f, 9.5f, 15, 16.5f, 17, 17.4f, 75.2f, 128};
    uint64_t state = 88172645463325252u;
    int32_t count = 0;
    for (uint32_t exponent = 0; exponent < 255; exponent++)
        for (int32_t i = 0; i < 12; i++) {
            const uint32_t fraction = i == 0 ? 0 : i == 1 ? 0x7fffff : random_word(&state) & 0x7fffff;
            sample[count++] = float_of(exponent << 23 | fraction);
            sample[count++] = float_of(UINT32_C(0x80000000) | exponent << 23 | fraction);
        }
    for (int32_t i = 0; i < 8000; i++)
        sample[count++] = (float)random_between(&state, i % 4 ? -5.5 : -19, i % 4 ? 5.5 : 19);
    for (size_t i = 0; i < sizeof clamps / sizeof clamps[0]; i++)
        for (uint32_t k = 0; k < 9; k++) {
            const float near = float_of(bits_of(clamps[i]) + k - 4);
            sample[count++] = near;
            sample[count++] = -near;
        }
    return count;
}

/* What the contract allows: 1e-6 max(1, |x|) times the up factor; elu: times its alpha. The product of a gated one
 * rounds. */
static double allowed(const fast_case *c, bool gated, float g, float u, double value) {
    const double scale = strcmp(c->name, "elu") == 0 ? fmax(1, fabs(c->parameters[0])) : 1;
    const double x = strcmp(c->name, "swiglu_oai") == 0 ? fmin((double)g, c->parameters[1]) : (double)g;
    const double up = !gated ? 1 : strcmp(c->name, "swiglu_oai") == 0 ? fabs((double)u) + 1 : fabs((double)u);
    return 1e-6 * fmax(1, fabs(x)) * scale * up + (gated ? fabs(value) * 0x1p-23 + 0x1p-149 : 0);
}

Test(fast, stays_within_its_bound_of_mpfr_over_the_whole_range) {
    float *const sample = malloc(SAMPLE_MAX * sizeof *sample), *const up = malloc(SAMPLE_MAX * sizeof *up),
                 *const out = malloc(SAMPLE_MAX * sizeof *out);
    cr_assert(sample && up && out);
    const int32_t count = fill_sample(sample);
    uint64_t state = 362436069;
    for (int32_t i = 0; i < count; i++)
        up[i] = (float)random_between(&state, -10, 10);
    for (int32_t i = 0; i < CASES; i++) {
        formula_graph *const graph = graph_of_accuracy(cases[i].text, FFN_FAST);
        formula_eval(graph, count, sample, up, out);
        double worst = 0;
        int32_t outside = 0, at = 0;
        for (int32_t k = 0; k < count; k++) {
            const exact_error error = exact_compare(cases[i].name, cases[i].parameters, sample[k], up[k], out[k]);
            if (isinf(error.value) || isnan(error.value)) {
                outside += error.wrong && fabs((double)out[k]) < 0x1.ffffp127;
                continue;
            }
            const double limit = allowed(&cases[i], graph->gated, sample[k], up[k], error.value);
            const double share = ldexp(error.units, -149) / limit;
            outside += error.wrong || !(share <= 1);
            if (share > worst) {
                worst = share;
                at = k;
            }
        }
        printf("  %-18s %2d operations, largest error %.2f of the bound, at %.9g\n", cases[i].text,
               formula_count_operations(graph), worst, (double)sample[at]);
        cr_expect(outside == 0, "%s: %d of %d results are off", cases[i].text, outside, count);
        free(graph);
    }
    free(out);
    free(up);
    free(sample);
    exact_cleanup();
}

Test(fast, costs_no_more_than_14_operations_and_the_gate) {
    for (int32_t i = 0; i < CASES; i++) {
        formula_graph *const graph = graph_of_accuracy(cases[i].text, FFN_FAST);
        const int32_t clamped = strcmp(cases[i].name, "swiglu_oai") == 0 ? 3 : 0; /* its clamps */
        const int32_t operations = formula_count_operations(graph);
        cr_expect(operations <= cases[i].operations, "%s: %d", cases[i].text, operations);
        cr_expect(operations - clamped <= OPERATIONS_MAX + graph->gated, "%s: %d", cases[i].text, operations);
        free(graph);
    }
}

/* -0 and +0 are one limit. swiglu_oai has none where the gate is large: it clamps it. */
Test(fast, returns_the_limits_exactly) {
    static const float beyond[] = {INFINITY, -INFINITY, FLT_MAX, -FLT_MAX, 1e30f, -1e30f, 200000, -200000};
    for (int32_t i = 0; i < CASES; i++) {
        formula_graph *const graph = graph_of_accuracy(cases[i].text, FFN_FAST);
        const bool clamped = strcmp(cases[i].name, "swiglu_oai") == 0;
        for (size_t k = 0; k < sizeof beyond / sizeof beyond[0]; k++) {
            if (clamped && beyond[k] > 0)
                continue;
            const float one = 1;
            float out;
            formula_eval(graph, 1, &beyond[k], &one, &out);
            const exact_error error = exact_compare(cases[i].name, cases[i].parameters, beyond[k], one, out);
            const bool rounds = strcmp(cases[i].name, "selu") == 0; /* its factor does, and the product */
            cr_expect(!error.wrong && (out == (float)error.value || (rounds && error.ulps <= 1.5)),
                      "%s(%a) = %a, not %a", cases[i].text, (double)beyond[k], (double)out, error.value);
        }
        free(graph);
    }
    exact_cleanup();
}

Test(fast, gives_nan_for_nan_and_only_for_nan) {
    static const uint32_t nans[] = {0x7fc00000, 0xffc00000, 0x7f800001, 0xff812345, 0x7fffffff};
    float *const sample = malloc(SAMPLE_MAX * sizeof *sample), *const out = malloc(SAMPLE_MAX * sizeof *out),
                 *const up = malloc(SAMPLE_MAX * sizeof *up);
    cr_assert(sample && out && up);
    const int32_t count = fill_sample(sample);
    for (int32_t k = 0; k < count; k++)
        up[k] = 1;
    for (int32_t i = 0; i < CASES; i++) {
        formula_graph *const graph = graph_of_accuracy(cases[i].text, FFN_FAST);
        formula_eval(graph, count, sample, up, out);
        for (int32_t k = 0; k < count; k++)
            cr_assert(!isnan(out[k]), "%s(%a)", cases[i].text, (double)sample[k]);
        for (size_t k = 0; k < sizeof nans / sizeof nans[0]; k++) {
            const float nan = float_of(nans[k]), one = 1;
            float answer = 0;
            formula_eval(graph, 1, &nan, &one, &answer);
            cr_expect(isnan(answer), "%s(NaN) = %a", cases[i].text, (double)answer);
            if (!graph->gated)
                continue;
            formula_eval(graph, 1, &one, &nan, &answer);
            cr_expect(isnan(answer), "%s(1, NaN) = %a", cases[i].text, (double)answer);
        }
        free(graph);
    }
    free(up);
    free(out);
    free(sample);
}

Test(fast, keeps_the_bits_of_the_record) {
    for (int32_t i = 0; i < CASES; i++) {
        formula_graph *const graph = graph_of_accuracy(cases[i].text, FFN_FAST);
        const uint64_t bits = hash_bits(graph), operations = hash_graph(graph);
        cr_expect(bits == cases[i].bits && operations == cases[i].graph, "%s: %d, 0x%016llx, 0x%016llx", cases[i].text,
                  formula_count_operations(graph), (unsigned long long)bits, (unsigned long long)operations);
        formula_graph *const accurate = graph_of(cases[i].text);
        cr_expect(hash_bits(accurate) != bits && formula_count_operations(accurate) > formula_count_operations(graph),
                  "%s", cases[i].text);
        free(accurate);
        free(graph);
    }
}

/* No activation is left with an accurate form that costs more than the aim. */
Test(fast, has_a_form_for_every_activation_that_needs_one) {
    for (size_t i = 0; ffn_activation_at(i); i++) {
        const ffn_activation *const activation = ffn_activation_at(i);
        formula_graph *const graph = graph_of_accuracy(activation->name, FFN_FAST), *const accurate =
                                                                                        graph_of(activation->name);
        bool recorded = false;
        for (int32_t k = 0; k < CASES; k++)
            recorded = recorded || strcmp(cases[k].name, activation->name) == 0;
        cr_expect(recorded || formula_count_operations(accurate) <= OPERATIONS_MAX, "%s", activation->name);
        cr_expect(recorded || hash_graph(accurate) == hash_graph(graph), "%s", activation->name);
        free(accurate);
        free(graph);
    }
}

Test(fast, agrees_with_its_reference_within_the_bound_that_it_states) {
    float *const sample = malloc(SAMPLE_MAX * sizeof *sample);
    cr_assert(sample);
    const int32_t count = fill_sample(sample);
    for (int32_t i = 0; i < CASES; i++) {
        formula_graph *const graph = graph_of_accuracy(cases[i].text, FFN_FAST);
        for (int32_t k = 0; k < count; k += 5) {
            const float u = 0.7f;
            float out;
            double value, bound, accurate;
            formula_eval(graph, 1, &sample[k], &u, &out);
            cr_assert(formula_reference(cases[i].text, FFN_FAST, (double)sample[k], (double)u, &value, &bound, NULL) ==
                      FFN_OK);
            cr_assert(formula_reference(cases[i].text, FFN_ACCURATE, (double)sample[k], (double)u, &accurate, NULL,
                                        NULL) == FFN_OK);
            cr_assert(value == accurate);
            cr_assert((double)out == value || fabs((double)out - value) <= bound, "%s(%a) = %a, not %a +- %a",
                      cases[i].text, (double)sample[k], (double)out, value, bound);
        }
        free(graph);
    }
    free(sample);
}

Test(fast, round_trips_in_the_text_of_a_spec) {
    for (int32_t i = 0; i < CASES; i++) {
        char text[256], again[FFN_SPEC_TEXT_BYTES];
        ffn_spec spec;
        snprintf(text, sizeof text, "d64-f256-%s-bias-fast", cases[i].text);
        cr_assert(ffn_spec_parse(text, &spec, NULL) == FFN_OK, "%s", text);
        cr_expect(spec.accuracy == FFN_FAST);
        cr_assert(ffn_spec_format(&spec, again, sizeof again, NULL) == FFN_OK);
        cr_expect(strcmp(text, again) == 0, "%s came back as %s", text, again);
    }
}
