/* What the command says of activations: errors that `verify` measures, operations and times of `list` and `bench`. */
#include "cmd_verify_accuracy.h"
#include "formula_ast.h"
#include "formula_count.h"
#include "support_command.h"
#include "support_formula.h"
#include "support_json.h"
#include "support_mpfr.h"

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(command_activations, .timeout = 300);

/* ---- verify ---- */

/* What an activation means, and between which errors it has to be found. */
static const struct {
    const char *spec, *activation, *exact;
    double least, most;
} measured[] = {
    {"d3-f17-silu", "silu", "silu", 0.5, 2.5},
    {"d3-f17-relu", "relu", "relu", 0, 0},
    {"d3-f17-swiglu", "swiglu", "swiglu", 0.5, 4},
    /* Right near 0, wrong where exp(-x) overflows and the quotient is 0. */
    {"d3-f17-act(x/(1+exp(-x)))", "act(x/(1+exp(-x)))", "silu", 1e6, 0x1p24},
    /* Below 2^-25 nothing of expm1(x) is left. */
    {"d3-f17-act(exp(x)-1)", "act(exp(x)-1)", "expm1", 1e6, 0x1p24},
};

/* The error stands at the argument that is named, as MPFR has it; so it is that of the code, measured right. */
Test(command_activations, verify_tells_the_largest_error_and_where_it_is) {
    static const double none[EXACT_PARAMETERS_MAX];
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
        RUN("verify", measured[i].spec, "-n", "1", "--json");
        support_expect_status(0);
        cJSON *all = json_lines_of(support_result.out);
        const cJSON *line;
        cJSON_ArrayForEach(line, all) {
            const double ulp = json_number_of(line, "act_ulp");
            cr_expect(ulp >= measured[i].least && ulp <= measured[i].most, "%s: %g", measured[i].spec, ulp);
            cr_expect_eq(json_number_of(line, "act_nan"), 0);
            cr_expect_geq(json_number_of(line, "act_subnormal"), 0);
            if (ulp == 0)
                continue;
            const bool gated = cJSON_HasObjectItem(line, "act_ulp_at_up");
            const float g = (float)json_number_of(line, "act_ulp_at");
            const float u = gated ? (float)json_number_of(line, "act_ulp_at_up") : 1;
            const float got = eval_at(measured[i].activation, g, u);
            const exact_error error = exact_compare(measured[i].exact, none, g, u, got);
            cr_expect_float_eq(error.ulps, ulp, 1e-4 * ulp, "%s of %a: %g, not %g", measured[i].spec, (double)g, ulp,
                               error.ulps);
        }
        cJSON_Delete(all);
    }
    exact_cleanup();
}

Test(command_activations, verify_tells_the_absolute_error_of_a_fast_one) {
    static const double none[EXACT_PARAMETERS_MAX];
    RUN("verify", "d3-f17-silu-fast", "-n", "1", "--json");
    support_expect_status(0);
    cJSON *all = json_lines_of(support_result.out);
    const cJSON *line;
    cJSON_ArrayForEach(line, all) {
        const double error = json_number_of(line, "act_error");
        const float at = (float)json_number_of(line, "act_error_at");
        cr_expect(error > 1e-9 && error <= 1e-6, "%g", error);
        formula_graph *graph = graph_of_accuracy("silu", FFN_FAST);
        float got;
        formula_eval(graph, 1, &at, NULL, &got);
        free(graph);
        const double right = exact_compare("silu", none, at, 1, got).units * 0x1p-149 / fmax(1, fabs((double)at));
        cr_expect_float_eq(error, right, 1e-3 * right);
    }
    cJSON_Delete(all);
    exact_cleanup();
    RUN("verify", "d3-f17-silu-fast", "d3-f17-silu", "-n", "1");
    support_expect_status(0);
    cr_expect(strstr(support_result.out, "activation") && strstr(support_result.out, " ULP "), "%s",
              support_result.out);
}

/* In units of the bound that holds there: relu has no fast form, the bound of elu grows with alpha. */
Test(command_activations, verify_tells_a_fast_error_in_what_bounds_it) {
    RUN("verify", "d1-f1-relu2-fast", "d1-f1-leaky_relu(-3.4e38)-fast", "-n", "1", "--isa", "portable", "--json");
    support_expect_status(0);
    cJSON *all = json_lines_of(support_result.out);
    const cJSON *line;
    cJSON_ArrayForEach(line, all) cr_expect_leq(json_number_of(line, "act_ulp"), 0.5);
    cJSON_Delete(all);
    RUN("verify", "d1-f1-elu(-1e6)-fast", "-n", "1", "--isa", "portable", "--json");
    support_expect_status(0);
    all = json_lines_of(support_result.out);
    cr_expect_leq(json_number_of(cJSON_GetArrayItem(all, 0), "act_error"), 1e-6);
    cJSON_Delete(all);
}

/* A kernel with another activation than the sample: near, but not within the bound. */
Test(command_activations, an_activation_beyond_its_bound_is_a_failure) {
    static const char *const pairs[][2] = {{"d1-f1-gelu", "d1-f1-gelu_tanh"},
                                           {"d1-f1-silu", "d1-f1-silu-fast"},
                                           {"d1-f1-relu", "d1-f1-leaky_relu"},
                                           {"d1-f1-swiglu", "d1-f1-geglu"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        for (int k = 0; k < 2; k++) {
            const ffn_options options = {.isa = FFN_ISA_PORTABLE, .store = ""};
            ffn_spec spec, other;
            ffn_context *context;
            ffn_kernel *kernel;
            accuracy_sample sample;
            accuracy_found found;
            ffn_diag diag = {.text = ""};
            cr_assert_eq(ffn_spec_parse(pairs[i][0], &spec, NULL), FFN_OK);
            cr_assert_eq(ffn_spec_parse(pairs[i][k], &other, NULL), FFN_OK);
            cr_assert_eq(ffn_context_create(&options, &context, NULL), FFN_OK);
            cr_assert_eq(ffn_kernel_create(context, &other, &kernel, NULL), FFN_OK);
            cr_assert_eq(accuracy_sample_make(&spec, &sample, NULL), FFN_OK);
            const ffn_status status = accuracy_measure(&sample, kernel, 1, &found, &diag);
            cr_expect_eq(status, k ? FFN_VERIFY_FAILED : FFN_OK, "%s by %s: %s", pairs[i][0], pairs[i][k], diag.text);
            cr_expect(!k || strstr(diag.text, "allows"), "%s", diag.text);
            accuracy_sample_free(&sample);
            ffn_kernel_destroy(kernel);
            ffn_context_destroy(context);
        }
}

/* ---- list and bench ---- */

/* Counted by hand from the formulas. */
Test(command_activations, operations_are_those_of_the_vector) {
    static const struct {
        const char *activation;
        int operations;
    } rows[] = {{"identity", 0},
                {"relu", 1},
                {"relu2", 2},
                {"act(x*x+x)", 2},
                {"act(fma(x,x,-x))", 1},
                {"act(-x)", 1},
                {"act(clamp(x,-1,1))", 2},
                {"bilinear", 1},
                {"act(select(x<0,-1,1))", 2}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        formula_graph *graph = graph_of(rows[i].activation);
        cr_expect_eq(formula_count_operations(graph), rows[i].operations, "%s: %d", rows[i].activation,
                     formula_count_operations(graph));
        free(graph);
    }
}

static double operations_of(const cJSON *list, const char *activation, const char *key) {
    const cJSON *line;
    cJSON_ArrayForEach(line, list) if (!strcmp(json_text_of(line, "activation"), activation)) return json_number_of(
        line, key);
    cr_assert_fail("%s is not in the list", activation);
    return 0;
}

/* What a way of working does not look at is refused, given with its default value too. */
Test(command_activations, bench_refuses_what_it_would_not_heed) {
    static const char *const rows[][6] = {
        {"--activations", "--n", "3"},
        {"--activations", "--cold"},
        {"--activations", "--contract"},
        {"--activations", "--stages"},
        {"--regimes", "memory", "--n", "1"},
        {"--regimes", "memory", "--threads", "2"},
        {"--activations", "--store", "off"},
        {"--activations", "--tools", "perf"},
        {"--suite", "--n", "1,16,128"},
        {"--suite", "--contract"},
        {"--suite", "--json"},
        {"--suite", "--seconds", "0.5"},
        {"--suite", "--page", "bench.json"},
        {"--page", "bench.json", "--output", "bench.html", "--json"},
        {"--page", "bench.json", "--output", "bench.html", "--vs", "all"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *arguments[8] = {"bench"};
        for (size_t k = 0; k < 6 && rows[i][k]; k++)
            arguments[k + 1] = rows[i][k];
        support_run(FFN_COMMAND, -1, arguments);
        support_expect_status(2);
        cr_expect(strstr(support_result.err, "would not be heeded"), "%s %s: %s", rows[i][0], rows[i][1],
                  support_result.err);
    }
    RUN("bench", "d1-f1-relu", "--contract", "--isa", "portable");
    support_expect_status(2);
    cr_expect(strstr(support_result.err, "--contract"), "%s", support_result.err);
}

Test(command_activations, bench_times_all_that_the_list_has_in_both_accuracies) {
    RUN("list", "activations", "--json");
    support_expect_status(0);
    cJSON *list = json_lines_of(support_result.out);
    cr_expect_eq(operations_of(list, "relu", "operations"), 1);
    cr_expect_eq(operations_of(list, "relu2", "operations_fast"), 2);
    RUN("bench", "--activations", "--seconds", "0.05", "--json");
    support_expect_status(0);
    cJSON *timed = json_lines_of(support_result.out);
    const cJSON *line;
    int accurate = 0, fast = 0, forms = 0;
    cJSON_ArrayForEach(line, timed) {
        const bool is_fast = !strcmp(json_text_of(line, "accuracy"), "fast");
        accurate += !is_fast;
        fast += is_fast;
        cr_expect_eq(json_number_of(line, "operations"),
                     operations_of(list, json_text_of(line, "activation"), is_fast ? "operations_fast" : "operations"));
        cr_expect_gt(json_number_of(line, "act_ns_per_vector"), 0);
        cr_expect_geq(json_number_of(line, "act_ns_per_vector_median"), json_number_of(line, "act_ns_per_vector"));
        json_text_of(line, "isa");
    }
    for (size_t i = 0; activation_row_at(i); i++)
        forms += activation_fast(activation_row_at(i)) != NULL;
    cr_expect_eq(accurate, cJSON_GetArraySize(list));
    cr_expect_eq(fast, forms);
    cJSON_Delete(list);
    cJSON_Delete(timed);
    RUN("bench", "--activations", "--seconds", "0.05", "--isa", "portable");
    support_expect_status(0);
    cr_expect(!strstr(support_result.err, "portable kernel serves"), "it was asked for: %s", support_result.err);
    cr_expect(strstr(support_result.out, "operations") && strstr(support_result.out, "portable: a vector is 1 value"),
              "%s", support_result.out);
}
