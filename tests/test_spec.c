/* Spec text and spec values: the grammar, its limits, the words of its errors,
 * and the round trip. */
#include "ffn.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { UNGATED_BIAS = FFN_BIAS_UP | FFN_BIAS_DOWN, GATED_BIAS = FFN_BIAS_UP | FFN_BIAS_GATE | FFN_BIAS_DOWN };

/* ---- Text to spec and back ---- */

/* As people write it -> fields, canonical text. */
static const struct {
    const char *text;
    int64_t d_model, d_ff;
    const char *activation;
    uint32_t bias;
    const char *canonical;
} good[] = {
    {"d512-f2048-relu-bias", 512, 2048, "relu", UNGATED_BIAS, "d512-f2048-relu-bias"},
    {"d4096-f14336-swiglu", 4096, 14336, "swiglu", 0, "d4096-f14336-swiglu"},
    {"d64-f256-gelu-bias_up-bias_down", 64, 256, "gelu", UNGATED_BIAS, "d64-f256-gelu-bias"},
    {"d64-f256-gelu-bias_down", 64, 256, "gelu", FFN_BIAS_DOWN, "d64-f256-gelu-bias_down"},
    {"d64-f256-bias_up-gelu-f32", 64, 256, "gelu", FFN_BIAS_UP, "d64-f256-gelu-bias_up"},
    {"d64-f256-f32-bias-gelu_tanh", 64, 256, "gelu_tanh", UNGATED_BIAS, "d64-f256-gelu_tanh-bias"},
    {"d1-f1-swiglu-bias", 1, 1, "swiglu", GATED_BIAS, "d1-f1-swiglu-bias"},
    {"d1-f1-bias_gate-swiglu", 1, 1, "swiglu", FFN_BIAS_GATE, "d1-f1-swiglu-bias_gate"},
    {"d1-f1-bias_down-bias_gate-bias_up-swiglu", 1, 1, "swiglu", GATED_BIAS, "d1-f1-swiglu-bias"},
    {"d1-f1-bias_gate-bias_up-swiglu", 1, 1, "swiglu", FFN_BIAS_UP | FFN_BIAS_GATE, "d1-f1-swiglu-bias_up-bias_gate"},
    {"d007-f0064-relu", 7, 64, "relu", 0, "d7-f64-relu"},
    {"d16777216-f1-relu", 16777216, 1, "relu", 0, "d16777216-f1-relu"},
    {"d1-f16777216-relu", 1, 16777216, "relu", 0, "d1-f16777216-relu"},
    {"d32-f32-f32-relu", 32, 32, "relu", 0, "d32-f32-relu"},
    {"d8-f8-leaky_relu(0.25)-bias", 8, 8, "leaky_relu(0.25)", UNGATED_BIAS, "d8-f8-leaky_relu(0.25)-bias"},
    {"d8-f8-bias-leaky_relu(-0.25)", 8, 8, "leaky_relu(-0.25)", UNGATED_BIAS, "d8-f8-leaky_relu(-0.25)-bias"},
    {"d8-f8-leaky_relu(0.01)", 8, 8, "leaky_relu", 0, "d8-f8-leaky_relu"},
    {"d512-f2048-bias-act(x*sigmoid(1.702*x))", 512, 2048, "act(x*sigmoid(1.702*x))", UNGATED_BIAS,
     "d512-f2048-bias-act(x*sigmoid(1.702*x))"},
    {"d64-f256-gelu-fast", 64, 256, "gelu", 0, "d64-f256-gelu-fast"},
    {"d64-f256-fast-bias-f32-gelu", 64, 256, "gelu", UNGATED_BIAS, "d64-f256-gelu-bias-fast"},
    {"d64-f256-fast-relu", 64, 256, "relu", 0, "d64-f256-relu-fast"},
    {"d8-f8-fast-leaky_relu(0.25)-bias_up", 8, 8, "leaky_relu(0.25)", FFN_BIAS_UP,
     "d8-f8-leaky_relu(0.25)-bias_up-fast"},
    {"bert-base-fast", 768, 3072, "gelu", UNGATED_BIAS, "d768-f3072-gelu-bias-fast"},
    {"d8-f8-act( x - 1 )", 8, 8, "act(x-1)", 0, "d8-f8-act(x-1)"},
    {"d8-f8-bias_gate-gated(g*(u-1))", 8, 8, "gated(g*(u-1))", FFN_BIAS_GATE, "d8-f8-bias_gate-gated(g*(u-1))"},
    {"d8-f8-bias-gated(g*u)", 8, 8, "gated(g*u)", GATED_BIAS, "d8-f8-bias-gated(g*u)"},
};
enum { GOOD = sizeof good / sizeof *good };

Test(spec_text, says_what_it_says_in_any_order_of_fields) {
    for (size_t i = 0; i < GOOD; i++) {
        ffn_spec spec;
        ffn_diag diag;
        char text[FFN_SPEC_TEXT_BYTES];
        cr_assert_eq(ffn_spec_parse(good[i].text, &spec, &diag), FFN_OK, "%s: %s", good[i].text, diag.text);
        cr_expect_eq(spec.d_model, good[i].d_model, "%s", good[i].text);
        cr_expect_eq(spec.d_ff, good[i].d_ff, "%s", good[i].text);
        cr_expect_eq(spec.bias, good[i].bias, "%s", good[i].text);
        cr_expect_eq(spec.accuracy, strstr(good[i].canonical, "-fast") ? FFN_FAST : FFN_ACCURATE, "%s", good[i].text);
        cr_expect_str_eq(spec.activation, good[i].activation);
        for (size_t j = strlen(spec.activation); j < sizeof spec.activation; j++)
            cr_expect_eq(spec.activation[j], 0, "%s: byte %zu is left over", good[i].text, j); /* specs go into files */
        cr_assert_eq(ffn_spec_format(&spec, text, sizeof text, &diag), FFN_OK, "%s: %s", good[i].text, diag.text);
        cr_expect_str_eq(text, good[i].canonical);
    }
}

static uint64_t random_state = 20240607;

static uint64_t random_below(uint64_t limit) { /* xorshift64*: the same specs on every machine */
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * UINT64_C(0x2545f4914f6cdd1d) % limit;
}

/* Any size from 1 to 2^20, small ones as often as large ones. */
static int64_t random_dimension(void) {
    int64_t bits = (int64_t)random_below(21);
    return INT64_C(1) + (int64_t)random_below(UINT64_C(1) << bits);
}

/* A formula of the language's arithmetic over `arguments` ("x" or "gu"), nested
 * to `depth`. */
static void random_formula(char *text, size_t bytes, const char *arguments, int depth) {
    char a[256], b[256];
    size_t used = strlen(text);
    if (depth == 0) {
        static const char *const numbers[] = {"0.5", "2", "1.702", "0.044715"};
        if (random_below(3))
            snprintf(text + used, bytes - used, "%c", arguments[random_below(strlen(arguments))]);
        else
            snprintf(text + used, bytes - used, "%s", numbers[random_below(4)]);
        return;
    }
    a[0] = b[0] = '\0';
    random_formula(a, sizeof a, arguments, depth - 1);
    random_formula(b, sizeof b, arguments, depth - 1);
    static const char *const shapes[][3] = {{"(", "+", ")"},    {"(", "-", ")"},    {"(", "*", ")"},
                                            {"min(", ",", ")"}, {"max(", ",", ")"}, {"(", "-tanh(", "))"}};
    const char *const *shape = shapes[random_below(6)];
    snprintf(text + used, bytes - used, "%s%s%s%s%s", shape[0], a, shape[1], b, shape[2]);
}

Test(spec_text, random_specs_survive_the_round_trip) {
    size_t activations = 0;
    while (ffn_activation_at(activations))
        activations++;
    cr_assert_gt(activations, 0);
    for (int round = 0; round < 3000; round++) {
        char activation[600] = "";
        bool formula = random_below(3) == 0, gated;
        if (formula) {
            gated = random_below(2);
            strcpy(activation, gated ? "gated(" : "act(");
            random_formula(activation, sizeof activation - 1, gated ? "gu" : "x", (int)random_below(4));
            strcat(activation, ")");
        } else {
            const ffn_activation *row = ffn_activation_at(random_below(activations));
            strcpy(activation, row->name);
            gated = row->gated;
        }
        const uint32_t bias = (uint32_t)random_below(8) & (gated ? GATED_BIAS : UNGATED_BIAS);
        const int64_t d_model = random_dimension(), d_ff = random_dimension();

        /* the fields in an order of chance, a formula last */
        char fields[6][640] = {""};
        size_t count = 0;
        if (!formula)
            strcpy(fields[count++], activation);
        if (bias == (gated ? GATED_BIAS : UNGATED_BIAS) && random_below(2)) {
            strcpy(fields[count++], "bias");
        } else {
            if (bias & FFN_BIAS_UP)
                strcpy(fields[count++], "bias_up");
            if (bias & FFN_BIAS_GATE)
                strcpy(fields[count++], "bias_gate");
            if (bias & FFN_BIAS_DOWN)
                strcpy(fields[count++], "bias_down");
        }
        if (random_below(2))
            strcpy(fields[count++], "f32");
        if (!formula && random_below(2))
            strcpy(fields[count++], "fast");
        char text[4096];
        int used = snprintf(text, sizeof text, "d%" PRId64 "-f%" PRId64, d_model, d_ff);
        while (count > 0) {
            size_t pick = random_below(count--);
            used += snprintf(text + used, sizeof text - (size_t)used, "-%s", fields[pick]);
            if (pick != count)
                memcpy(fields[pick], fields[count], sizeof fields[pick]);
        }
        if (formula)
            snprintf(text + used, sizeof text - (size_t)used, "-%s", activation);

        ffn_spec spec, again;
        ffn_diag diag;
        char canonical[FFN_SPEC_TEXT_BYTES], canonical_again[FFN_SPEC_TEXT_BYTES];
        cr_assert_eq(ffn_spec_parse(text, &spec, &diag), FFN_OK, "%s: %s", text, diag.text);
        cr_assert(spec.d_model == d_model && spec.d_ff == d_ff && spec.bias == bias, "%s", text);
        cr_assert_eq(ffn_spec_gated(&spec), gated, "%s", text);
        cr_assert_eq(ffn_spec_format(&spec, canonical, sizeof canonical, &diag), FFN_OK, "%s: %s", text, diag.text);
        cr_assert_eq(ffn_spec_parse(canonical, &again, &diag), FFN_OK, "%s: %s", canonical, diag.text);
        cr_assert(ffn_spec_equal(&spec, &again), "%s -> %s", text, canonical);
        cr_assert_eq(memcmp(&spec, &again, sizeof spec), 0, "%s: bytes that stand for nothing differ", text);
        cr_assert_eq(ffn_spec_format(&again, canonical_again, sizeof canonical_again, &diag), FFN_OK);
        cr_assert_str_eq(canonical_again, canonical);
    }
}

/* ---- Errors ---- */

static const struct {
    const char *text;
    ffn_status status;
    const char *says[3];
} bad[] = {
    /* sizes */
    {"d0-f2048-relu", FFN_BAD_SPEC, {"d_model", "d0", "1 to 16777216"}},
    {"d512-f0-relu", FFN_BAD_SPEC, {"d_ff", "f0", "1 to 16777216"}},
    {"d16777217-f4-relu", FFN_BAD_SPEC, {"d_model: \"d16777217\"", "1 to 16777216", "d512-f2048-relu-bias"}},
    {"d4-f16777217-relu", FFN_BAD_SPEC, {"d_ff: \"f16777217\"", "1 to 16777216", "d512-f2048-relu-bias"}},
    {"d4294967297-f4-relu", FFN_BAD_SPEC, {"d_model", "1 to 16777216"}},
    {"d18446744073709551617-f4-relu", FFN_BAD_SPEC, {"d_model", "1 to 16777216"}},
    {"d99999999999999999999999999999999999999999999999999-f4-relu", FFN_BAD_SPEC, {"d_model", "1 to 16777216"}},
    {"d-512-f2048-relu", FFN_BAD_SPEC, {"d_model", "d512-f2048-relu-bias"}},
    {"d+512-f2048-relu", FFN_BAD_SPEC, {"d_model", "d+512"}},
    {"d5.5-f2048-relu", FFN_BAD_SPEC, {"d_model", "d5.5"}},
    {"d0x20-f2048-relu", FFN_BAD_SPEC, {"d_model", "d0x20"}},
    {"d 512-f2048-relu", FFN_BAD_SPEC, {"d_model", "d 512"}},
    {"d1e3-f2048-relu", FFN_BAD_SPEC, {"d_model", "d1e3"}},
    {"d", FFN_BAD_SPEC, {"d_model"}},
    {"d512", FFN_BAD_SPEC, {"d_ff is missing", "d512-f2048-relu-bias"}},
    {"d512-", FFN_BAD_SPEC, {"d_ff is missing"}},
    {"d512-relu", FFN_BAD_SPEC, {"d_ff", "\"relu\""}},
    {"d512-relu-f2048", FFN_BAD_SPEC, {"d_ff", "\"relu\""}},
    {"d512-f-relu", FFN_BAD_SPEC, {"d_ff", "\"f\""}},
    {"d16777216-f16777216-relu", FFN_BAD_SPEC, {"d_model", "d_ff", "70368744177664"}},
    /* fields */
    {"d512-f2048", FFN_BAD_SPEC, {"activation is missing", "d512-f2048-relu-bias"}},
    {"d512-f2048-bias", FFN_BAD_SPEC, {"activation is missing"}},
    {"d512-f2048-", FFN_BAD_SPEC, {"empty field"}},
    {"d512-f2048-relu-", FFN_BAD_SPEC, {"empty field"}},
    {"d512-f2048--relu", FFN_BAD_SPEC, {"empty field"}},
    {"d512-f2048-relu-relu", FFN_BAD_SPEC, {"two activations"}},
    {"d512-f2048-relu-gelu", FFN_BAD_SPEC, {"two activations", "relu", "gelu"}},
    {"d512-f2048-relu-act(x)", FFN_BAD_SPEC, {"two activations", "relu", "act(x)"}},
    {"d512-f2048-relu-bias-bias", FFN_BAD_SPEC, {"bias is given twice"}},
    {"d512-f2048-bias_up-relu-bias_up", FFN_BAD_SPEC, {"bias_up is given twice"}},
    {"d512-f2048-relu-f32-f32", FFN_BAD_SPEC, {"f32 is given twice"}},
    {"d512-f2048-relu-bias-bias_up", FFN_BAD_SPEC, {"bias", "every product", "single"}},
    {"d512-f2048-relu-bias_down-bias", FFN_BAD_SPEC, {"bias", "every product", "single"}},
    {"d512-f2048-relu-bias_gate", FFN_BAD_SPEC, {"bias_gate", "relu", "not gated"}},
    {"d512-f2048-bias_gate-act(x)", FFN_BAD_SPEC, {"bias_gate", "not gated"}},
    {"d512-f2048-act(x)-bias", FFN_BAD_SPEC, {"\"bias\"", "formula is the last field"}},
    {"d512-f2048-act(x)-relu", FFN_BAD_SPEC, {"\"relu\"", "formula is the last field"}},
    /* names: near ones are offered */
    {"d512-f2048-rleu", FFN_BAD_SPEC, {"unknown field \"rleu\"", "relu"}},
    {"d512-f2048-GELU", FFN_BAD_SPEC, {"unknown field \"GELU\"", "gelu"}},
    {"d512-f2048-gelu-tanh", FFN_BAD_SPEC, {"two activations", "gelu", "tanh"}},
    {"d512-f2048-gelutanh", FFN_BAD_SPEC, {"unknown field", "gelu_tanh"}},
    {"d512-f2048-swigl", FFN_BAD_SPEC, {"unknown field", "swiglu"}},
    {"d512-f2048-relu-biass", FFN_BAD_SPEC, {"unknown field \"biass\"", "bias"}},
    {"d512-f2048-relu-bias-up", FFN_BAD_SPEC, {"unknown field \"up\""}},
    {"d512-f2048-relu-bias2", FFN_BAD_SPEC, {"unknown field \"bias2\"", "bias"}},
    {"bert-bas", FFN_BAD_SPEC, {"\"bert-bas\"", "did you mean bert-base"}},
    {"bert_large", FFN_BAD_SPEC, {"did you mean bert-large?"}},
    {"llama3", FFN_BAD_SPEC, {"did you mean llama3-8b"}},
    {"gpt2-xxl", FFN_BAD_SPEC, {"did you mean gpt2-xl"}},
    {"bert-base-f32", FFN_BAD_SPEC, {"bert-base"}},
    {"D512-f2048-relu", FFN_BAD_SPEC, {"neither a preset nor a spec", "d512-f2048-relu-bias"}},
    {"", FFN_BAD_SPEC, {"neither a preset nor a spec", "d512-f2048-relu-bias"}},
    {"-", FFN_BAD_SPEC, {"neither a preset nor a spec"}},
    /* words kept for later */
    {"d512-f2048-relu-f16", FFN_UNSUPPORTED, {"f16", "f32"}},
    {"d512-f2048-relu-bf16", FFN_UNSUPPORTED, {"bf16", "f32"}},
    {"d512-f2048-int8-relu", FFN_UNSUPPORTED, {"int8", "f32"}},
    {"d512-f2048-relu-int4", FFN_UNSUPPORTED, {"int4", "f32"}},
    {"d512-f2048-gelu-fast-fast", FFN_BAD_SPEC, {"fast is given twice"}},
    {"d512-f2048-gelu-fats", FFN_BAD_SPEC, {"did you mean fast"}},
    {"d512-f2048-fast-act(x)", FFN_BAD_SPEC, {"fast", "formula", "built-in"}},
    {"d512-f2048-act(x)-fast", FFN_BAD_SPEC, {"formula is the last field"}},
    {"bert-base-fast-fast", FFN_BAD_SPEC, {"neither a preset nor a spec"}},
    /* formulas: the column is told by the formula's own suite */
    {"d512-f2048-act(", FFN_BAD_SPEC, {"activation"}},
    {"d512-f2048-act()", FFN_BAD_SPEC, {"activation"}},
    {"d512-f2048-act(x))", FFN_BAD_SPEC, {"activation"}},
    {"d512-f2048-act(x-bias", FFN_BAD_SPEC, {"activation"}},
    {"d512-f2048-act", FFN_BAD_SPEC, {"activation"}},
    {"d512-f2048-act(g*u)", FFN_BAD_SPEC, {"activation"}},
    {"d512-f2048-gated(x)", FFN_BAD_SPEC, {"activation"}},
    {"d512-f2048-leaky_relu(1,2,3)", FFN_BAD_SPEC, {"activation"}},
    {"d512-f2048-relu(1)", FFN_BAD_SPEC, {"activation"}},
};
enum { BAD = sizeof bad / sizeof *bad };

Test(spec_text, errors_name_the_field_and_what_would_be_right) {
    for (size_t i = 0; i < BAD; i++) {
        ffn_spec spec, before;
        memset(&spec, 0xab, sizeof spec);
        memcpy(&before, &spec, sizeof spec);
        ffn_diag diag = {FFN_OK, ""};
        const ffn_status status = ffn_spec_parse(bad[i].text, &spec, &diag);
        cr_expect_eq(status, bad[i].status, "%s: %s (%s)", bad[i].text, ffn_status_text(status), diag.text);
        cr_expect_eq(diag.status, status, "%s", bad[i].text);
        for (size_t j = 0; j < 3 && bad[i].says[j]; j++)
            cr_expect(strstr(diag.text, bad[i].says[j]), "%s: \"%s\" does not say \"%s\"", bad[i].text, diag.text,
                      bad[i].says[j]);
        cr_expect_eq(memcmp(&spec, &before, sizeof spec), 0, "%s changed the output", bad[i].text);
        cr_expect_eq(ffn_spec_parse(bad[i].text, &spec, NULL), bad[i].status, "%s without a diag", bad[i].text);
    }
    ffn_spec spec;
    cr_expect_eq(ffn_spec_parse(NULL, &spec, NULL), FFN_BAD_ARGUMENT);
    cr_expect_eq(ffn_spec_parse("bert-base", NULL, NULL), FFN_BAD_ARGUMENT);
}

/* Whatever the bytes: a clean answer, and what is accepted has a canonical
 * text. */
static void expect_clean(const char *text) {
    ffn_spec spec;
    ffn_diag diag = {FFN_OK, ""};
    char canonical[FFN_SPEC_TEXT_BYTES];
    const ffn_status status = ffn_spec_parse(text, &spec, &diag);
    if (status == FFN_OK)
        cr_assert_eq(ffn_spec_format(&spec, canonical, sizeof canonical, &diag), FFN_OK, "%s", text);
    else
        cr_assert((status == FFN_BAD_SPEC || status == FFN_UNSUPPORTED) && diag.text[0], "%s: %d", text, status);
}

Test(spec_text, damaged_text_gives_a_clean_answer) {
    for (size_t i = 0; i < GOOD; i++) {
        char text[256];
        const size_t length = strlen(good[i].text);
        for (size_t cut = 0; cut <= length; cut++) {
            memcpy(text, good[i].text, cut);
            text[cut] = '\0';
            expect_clean(text);
        }
        for (size_t at = 0; at < length; at++)
            for (int byte = 1; byte < 256; byte += 5) {
                strcpy(text, good[i].text);
                text[at] = (char)byte;
                expect_clean(text);
            }
    }
}

Test(spec_text, enormous_text_gives_a_clean_answer) {
    enum { LENGTH = 1 << 20 };
    static const char *const starts[] = {
        "", "d", "d512-f", "d512-f2048-", "d512-f2048-relu-", "d512-f2048-act(", "d5-f5-gated("};
    char *text = malloc(LENGTH + 32);
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        for (const char *fill = "1-(x+ ,a)"; *fill; fill++) {
            strcpy(text, starts[i]);
            memset(text + strlen(starts[i]), *fill, LENGTH);
            text[strlen(starts[i]) + LENGTH] = '\0';
            expect_clean(text);
        }
    free(text);
}

Test(spec_text, the_longest_activation_has_room_in_every_buffer) {
    ffn_spec spec;
    ffn_diag diag;
    char text[2 * FFN_ACTIVATION_BYTES] = "d16777216-f262144-bias_up-bias_gate-gated(u";
    const char *activation = strstr(text, "gated(");
    while (strlen(activation) < FFN_ACTIVATION_BYTES - 3)
        strcat(text, "+g");
    strcat(text, ")");
    cr_assert_eq(strlen(activation), FFN_ACTIVATION_BYTES - 2); /* the longest of this form */
    ffn_status status = ffn_spec_parse(text, &spec, &diag);
    cr_assert_eq(status, FFN_OK, "%s", diag.text);
    char canonical[FFN_SPEC_TEXT_BYTES], name[FFN_SPEC_NAME_BYTES];
    cr_assert_eq(ffn_spec_format(&spec, canonical, sizeof canonical, &diag), FFN_OK, "%s", diag.text);
    cr_expect_str_eq(canonical, text);
    cr_expect_eq(ffn_spec_name(&spec, false, name, sizeof name, &diag), FFN_OK, "%s", diag.text);

    text[strlen(text) - 1] = '\0';
    strcat(text, "+g)");
    cr_expect_eq(ffn_spec_parse(text, &spec, &diag), FFN_BAD_SPEC);
}

/* ---- Writing ---- */

Test(spec_text, a_buffer_too_small_is_refused_and_left_alone) {
    const ffn_spec spec = {512, 2048, UNGATED_BIAS, FFN_ACCURATE, "relu"};
    const char expected[] = "d512-f2048-relu-bias";
    for (size_t bytes = 0; bytes <= sizeof expected + 1; bytes++) {
        char text[64], name[64];
        memset(text, 'A', sizeof text);
        memset(name, 'A', sizeof name);
        ffn_diag diag;
        const ffn_status status = ffn_spec_format(&spec, text, bytes, &diag);
        cr_expect_eq(status, bytes < sizeof expected ? FFN_BAD_ARGUMENT : FFN_OK, "%zu bytes", bytes);
        cr_expect_eq(ffn_spec_name(&spec, true, name, bytes, NULL), status, "%zu bytes", bytes);
        for (size_t i = status == FFN_OK ? sizeof expected : 0; i < sizeof text; i++)
            cr_expect(text[i] == 'A' && name[i] == 'A', "%zu bytes: byte %zu was written", bytes, i);
        if (status != FFN_OK)
            cr_expect(strstr(diag.text, "needs 21 bytes"), "%s", diag.text);
    }
    cr_expect_eq(ffn_spec_format(&spec, NULL, 64, NULL), FFN_BAD_ARGUMENT);
    cr_expect_eq(ffn_spec_name(&spec, false, NULL, 64, NULL), FFN_BAD_ARGUMENT);
    cr_expect_eq(ffn_spec_format(NULL, (char[64]){""}, 64, NULL), FFN_BAD_ARGUMENT);
}

Test(spec_name, a_formula_stands_as_fx_and_the_hash_of_its_canonical_text) {
    static const struct {
        const char *text, *hashed, *before, *after;
    } rows[] = {
        {"d8-f8-bias-act( x - 1 )", "act(x-1)", "d8-f8-bias-fx", ""},
        {"d8-f8-gated(g*u)", "gated(g*u)", "d8-f8-fx", ""},
        {"d8-f8-leaky_relu(0.25)-bias_up", "leaky_relu(0.25)", "d8-f8-fx", "-bias_up"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ffn_spec spec;
        char name[FFN_SPEC_NAME_BYTES], expected[FFN_SPEC_NAME_BYTES];
        cr_assert_eq(ffn_spec_parse(rows[i].text, &spec, NULL), FFN_OK);
        cr_assert_eq(ffn_spec_name(&spec, false, name, sizeof name, NULL), FFN_OK);
        snprintf(expected, sizeof expected, "%s%016" PRIx64 "%s", rows[i].before,
                 (uint64_t)XXH3_64bits(rows[i].hashed, strlen(rows[i].hashed)), rows[i].after);
        cr_expect_str_eq(name, expected);
    }
}

Test(spec_name, a_symbol_is_a_c_identifier_and_differs_for_different_specs) {
    char seen[GOOD][FFN_SPEC_NAME_BYTES];
    for (size_t i = 0; i < GOOD; i++) {
        ffn_spec spec;
        cr_assert_eq(ffn_spec_parse(good[i].text, &spec, NULL), FFN_OK);
        cr_assert_eq(ffn_spec_name(&spec, true, seen[i], sizeof seen[i], NULL), FFN_OK);
        cr_expect_eq(strspn(seen[i], "abcdefghijklmnopqrstuvwxyz0123456789_"), strlen(seen[i]), "%s", seen[i]);
        cr_expect_eq(seen[i][0], 'd');
        for (size_t j = 0; j < i; j++)
            cr_expect_eq(strcmp(seen[i], seen[j]) == 0, strcmp(good[i].canonical, good[j].canonical) == 0, "%s and %s",
                         good[i].canonical, good[j].canonical);
    }
}
