/* Spec values made by hand: what makes one valid, equal, gated. */
#include "ffn.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* All the biases there can be. */
enum { UNGATED_BIAS = FFN_BIAS_UP | FFN_BIAS_DOWN, GATED_BIAS = FFN_BIAS_UP | FFN_BIAS_GATE | FFN_BIAS_DOWN };

static ffn_spec make_spec(int64_t d_model, int64_t d_ff, const char *activation, uint32_t bias) {
    ffn_spec spec = {.d_model = d_model, .d_ff = d_ff, .bias = bias};
    snprintf(spec.activation, sizeof spec.activation, "%s", activation);
    return spec;
}

Test(spec_check, refuses_each_field_that_cannot_be) {
    const struct {
        ffn_spec spec;
        ffn_status status;
        const char *says[2];
    } rows[] = {
        {make_spec(512, 2048, "relu", UNGATED_BIAS), FFN_OK, {NULL}},
        {make_spec(0, 2048, "relu", 0), FFN_BAD_SPEC, {"d_model is 0", "1 to 16777216"}},
        {make_spec(-1, 2048, "relu", 0), FFN_BAD_SPEC, {"d_model is -1", "1 to 16777216"}},
        {make_spec(INT64_MIN, 2048, "relu", 0), FFN_BAD_SPEC, {"d_model"}},
        {make_spec(INT64_MAX, INT64_MAX, "relu", 0), FFN_BAD_SPEC, {"d_model"}},
        {make_spec(512, 0, "relu", 0), FFN_BAD_SPEC, {"d_ff is 0"}},
        {make_spec(512, FFN_DIM_MAX + 1, "relu", 0), FFN_BAD_SPEC, {"d_ff is 16777217"}},
        {make_spec(FFN_DIM_MAX, FFN_DIM_MAX, "relu", 0), FFN_BAD_SPEC, {"70368744177664"}},
        {make_spec(512, 2048, "", 0), FFN_BAD_SPEC, {"activation is empty"}},
        {make_spec(512, 2048, "rleu", 0), FFN_BAD_SPEC, {"activation"}},
        {make_spec(512, 2048, "act( x )", 0), FFN_BAD_SPEC, {"canonical", "\"act(x)\""}},
        {make_spec(512, 2048, "leaky_relu(0.01)", 0), FFN_BAD_SPEC, {"canonical", "\"leaky_relu\""}},
        {make_spec(512, 2048, "relu", 8), FFN_BAD_SPEC, {"bias is 0x8"}},
        {make_spec(512, 2048, "relu", GATED_BIAS), FFN_BAD_SPEC, {"bias_gate", "not gated"}},
        {make_spec(512, 2048, "swiglu", GATED_BIAS), FFN_OK, {NULL}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ffn_diag diag = {FFN_OK, ""};
        char text[FFN_SPEC_TEXT_BYTES], name[FFN_SPEC_NAME_BYTES];
        cr_expect_eq(ffn_spec_check(&rows[i].spec, &diag), rows[i].status, "row %zu: %s", i, diag.text);
        for (size_t j = 0; j < 2 && rows[i].says[j]; j++)
            cr_expect(strstr(diag.text, rows[i].says[j]), "row %zu: \"%s\" does not say \"%s\"", i, diag.text,
                      rows[i].says[j]);
        cr_expect_eq(ffn_spec_format(&rows[i].spec, text, sizeof text, NULL), rows[i].status, "row %zu", i);
        cr_expect_eq(ffn_spec_name(&rows[i].spec, false, name, sizeof name, NULL), rows[i].status, "row %zu", i);
    }
    cr_expect_eq(ffn_spec_check(NULL, NULL), FFN_BAD_ARGUMENT);
}

Test(spec_check, takes_the_two_accuracies_and_fast_for_built_in_activations_alone) {
    ffn_diag diag = {FFN_OK, ""};
    ffn_spec spec = make_spec(512, 2048, "gelu", 0);
    spec.accuracy = FFN_FAST;
    cr_expect_eq(ffn_spec_check(&spec, &diag), FFN_OK, "%s", diag.text);
    spec.accuracy = 2;
    cr_expect_eq(ffn_spec_check(&spec, &diag), FFN_BAD_SPEC);
    cr_expect(strstr(diag.text, "accuracy is 2") && strstr(diag.text, "FFN_FAST"), "%s", diag.text);
    spec = make_spec(512, 2048, "act(x)", 0);
    spec.accuracy = FFN_FAST;
    cr_expect_eq(ffn_spec_check(&spec, &diag), FFN_BAD_SPEC);
    cr_expect(strstr(diag.text, "formula") && strstr(diag.text, "built-in"), "%s", diag.text);
}

Test(spec_check, an_activation_without_end_is_not_read_past) {
    ffn_spec *spec = malloc(sizeof *spec); /* its end is the end of the
                                              allocation, for the sanitizers */
    *spec = make_spec(512, 2048, "relu", 0);
    memset(spec->activation, 'r', sizeof spec->activation);
    ffn_diag diag;
    cr_expect_eq(ffn_spec_check(spec, &diag), FFN_BAD_SPEC);
    cr_expect(strstr(diag.text, "no end"), "%s", diag.text);
    cr_expect_not(ffn_spec_gated(spec));
    cr_expect(ffn_spec_equal(spec, spec));
    free(spec);
}

Test(spec_check, the_limit_of_the_packed_size_is_sharp) {
    /* two matrices of f32, rows padded to 16 columns: 8 d_model d_ff bytes, 12
     * where gated, and less than 256 MiB more */
    const int64_t d_ff = INT64_C(1) << 20;
    const int64_t room = FFN_PACKED_BYTES_MAX - (INT64_C(1) << 28);
    const int64_t plain = room / (8 * d_ff) / 16 * 16, gated = room / (12 * d_ff) / 16 * 16;
    const struct {
        int64_t d_model;
        const char *activation;
        ffn_status status;
    } rows[] = {
        {plain, "relu", FFN_OK},
        {FFN_PACKED_BYTES_MAX / (8 * d_ff), "relu", FFN_BAD_SPEC},
        {gated, "swiglu", FFN_OK},
        {FFN_PACKED_BYTES_MAX / (12 * d_ff) + 1, "swiglu", FFN_BAD_SPEC},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const ffn_spec spec = make_spec(rows[i].d_model, d_ff, rows[i].activation, 0);
        cr_expect_eq(ffn_spec_check(&spec, NULL), rows[i].status, "d_model %" PRId64 " %s", rows[i].d_model,
                     rows[i].activation);
    }
}

Test(spec_value, equal_means_every_field) {
    const ffn_spec spec = make_spec(512, 2048, "relu", FFN_BIAS_UP);
    ffn_spec other = spec;
    cr_expect(ffn_spec_equal(&spec, &other));
    other.activation[100] = 'x'; /* after the end of the string: not part of the value */
    cr_expect(ffn_spec_equal(&spec, &other));
    const ffn_spec others[] = {make_spec(513, 2048, "relu", FFN_BIAS_UP), make_spec(512, 2049, "relu", FFN_BIAS_UP),
                               make_spec(512, 2048, "gelu", FFN_BIAS_UP), make_spec(512, 2048, "relu", FFN_BIAS_DOWN),
                               make_spec(2048, 512, "relu", FFN_BIAS_UP), make_spec(512, 2048, "relu2", FFN_BIAS_UP)};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        cr_expect_not(ffn_spec_equal(&spec, &others[i]), "row %zu", i);
    ffn_spec fast = spec;
    fast.accuracy = FFN_FAST;
    cr_expect_not(ffn_spec_equal(&spec, &fast));
    cr_expect_not(ffn_spec_equal(&spec, NULL));
    cr_expect_not(ffn_spec_equal(NULL, NULL));
}

Test(spec_value, gated_is_known_for_every_activation_and_false_for_what_is_invalid) {
    size_t count = 0;
    for (const ffn_activation *row; (row = ffn_activation_at(count)) != NULL; count++) {
        const ffn_spec spec = make_spec(16, 16, row->name, 0);
        cr_expect_eq(ffn_spec_gated(&spec), row->gated, "%s", row->name);
    }
    cr_expect_null(ffn_activation_at(count));
    const ffn_spec formulas[] = {make_spec(16, 16, "gated(g*u)", 0), make_spec(16, 16, "act(x)", 0),
                                 make_spec(0, 16, "swiglu", 0), make_spec(16, 16, "swiglu-", 0)};
    cr_expect(ffn_spec_gated(&formulas[0]));
    for (size_t i = 1; i < 4; i++)
        cr_expect_not(ffn_spec_gated(&formulas[i]), "row %zu", i);
    cr_expect_not(ffn_spec_gated(NULL));
}
