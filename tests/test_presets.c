/* The presets against the published configurations of their models, entered
 * here by hand from those. */
#include "ffn.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Architecture facts: `inner` is d_ff as published, or a multiple of the width
 * where the model class fixes that (GPT-2's n_inner is null: 4 n_embd). act is
 * the published word. */
static const struct {
    const char *name;
    int64_t width, inner;
    const char *act;
    bool gated, biases;
} published[] = {
    {"transformer-base", 512, 2048, "relu", false, true},
    {"transformer-big", 1024, 4096, "relu", false, true},
    {"bert-base", 768, 3072, "gelu", false, true},
    {"bert-large", 1024, 4096, "gelu", false, true},
    {"minilm-l6", 384, 1536, "gelu", false, true},
    {"gpt2", 768, 4 * 768, "gelu_new", false, true},
    {"gpt2-medium", 1024, 4 * 1024, "gelu_new", false, true},
    {"gpt2-large", 1280, 4 * 1280, "gelu_new", false, true},
    {"gpt2-xl", 1600, 4 * 1600, "gelu_new", false, true},
    {"vit-b16", 768, 3072, "gelu", false, true},
    {"vit-l16", 1024, 4096, "gelu", false, true},
    {"whisper-base", 512, 2048, "gelu", false, true},
    {"t5-base", 768, 3072, "relu", false, false},
    {"t5-v1_1-base", 768, 2048, "gelu_new", true, false},
    {"llama2-7b", 4096, 11008, "silu", true, false},
    {"llama3-8b", 4096, 14336, "silu", true, false},
    {"tinyllama", 2048, 5632, "silu", true, false},
    {"mistral-7b", 4096, 14336, "silu", true, false},
    {"qwen2.5-0.5b", 896, 4864, "silu", true, false},
    {"gemma-2b", 2048, 16384, "gelu_pytorch_tanh", true, false},
    {"phi-2", 2560, 10240, "gelu_new", false, true},
    {"mixtral-8x7b-expert", 4096, 14336, "silu", true, false},
    {"deepseek-v3-expert", 7168, 2048, "silu", true, false},
};
enum { PUBLISHED = sizeof published / sizeof *published };

/* What the published words of activations are called here. */
static const char *our_name(const char *act, bool gated) {
    static const struct {
        const char *act;
        bool gated;
        const char *ours;
    } rows[] = {
        {"relu", false, "relu"},          {"gelu", false, "gelu"},  {"gelu_new", false, "gelu_tanh"},
        {"gelu_new", true, "geglu_tanh"}, {"silu", true, "swiglu"}, {"gelu_pytorch_tanh", true, "geglu_tanh"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].gated == gated && strcmp(rows[i].act, act) == 0)
            return rows[i].ours;
    return "(no name)";
}

static bool is_small(const ffn_preset *preset) {
    return strncmp(preset->name, "small-", 6) == 0;
}

Test(presets, each_model_has_the_shape_it_was_published_with) {
    for (size_t i = 0; i < PUBLISHED; i++) {
        ffn_spec spec;
        ffn_diag diag;
        cr_assert_eq(ffn_spec_parse(published[i].name, &spec, &diag), FFN_OK, "%s: %s", published[i].name, diag.text);
        cr_expect_eq(spec.d_model, published[i].width, "%s", published[i].name);
        cr_expect_eq(spec.d_ff, published[i].inner, "%s", published[i].name);
        cr_expect_str_eq(spec.activation, our_name(published[i].act, published[i].gated), "%s", published[i].name);
        cr_expect_eq(ffn_spec_gated(&spec), published[i].gated, "%s", published[i].name);
        uint32_t biases =
            published[i].gated ? FFN_BIAS_UP | FFN_BIAS_GATE | FFN_BIAS_DOWN : FFN_BIAS_UP | FFN_BIAS_DOWN;
        cr_expect_eq(spec.bias, published[i].biases ? biases : 0, "%s", published[i].name);
    }
}

Test(presets, no_model_is_listed_without_published_figures) {
    for (size_t i = 0; ffn_preset_at(i); i++) {
        size_t j = 0;
        while (j < PUBLISHED && strcmp(published[j].name, ffn_preset_at(i)->name) != 0)
            j++;
        cr_expect(j < PUBLISHED || is_small(ffn_preset_at(i)), "%s", ffn_preset_at(i)->name);
    }
}

/* Numbers and the word of the activation stand in the note, so that a row can
 * be checked where it is read. */
Test(presets, the_source_names_the_figures) {
    for (size_t i = 0; i < PUBLISHED; i++) {
        size_t at = 0;
        while (ffn_preset_at(at) && strcmp(ffn_preset_at(at)->name, published[i].name) != 0)
            at++;
        cr_assert_not_null(ffn_preset_at(at), "%s", published[i].name);
        const char *source = ffn_preset_at(at)->source;
        char width[24], inner[24];
        snprintf(width, sizeof width, " %lld", (long long)published[i].width);
        snprintf(inner, sizeof inner, " %lld", (long long)published[i].inner);
        cr_expect(strstr(source, width), "%s: %s", published[i].name, source);
        cr_expect(strstr(source, inner) || strstr(source, "4 n_embd"), "%s: %s", published[i].name, source);
        cr_expect(strstr(source, published[i].act) || strstr(source, "max(0, x W1 + b1)"), "%s: %s", published[i].name,
                  source);
    }
}

Test(presets, small_shapes_are_there) {
    static const struct {
        const char *name;
        int64_t d_model, d_ff;
    } small[] = {{"small-64x256", 64, 256}, {"small-128x512", 128, 512}, {"small-256x1024", 256, 1024}};
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
        ffn_spec spec;
        cr_assert_eq(ffn_spec_parse(small[i].name, &spec, NULL), FFN_OK);
        cr_expect_eq(spec.d_model, small[i].d_model);
        cr_expect_eq(spec.d_ff, small[i].d_ff);
    }
}

Test(presets, every_row_is_canonical_and_round_trips) {
    size_t count = 0;
    for (const ffn_preset *preset; (preset = ffn_preset_at(count)) != NULL; count++) {
        ffn_spec by_name, by_text;
        ffn_diag diag;
        char text[FFN_SPEC_TEXT_BYTES], name[FFN_SPEC_NAME_BYTES];
        cr_assert_eq(ffn_spec_parse(preset->name, &by_name, &diag), FFN_OK, "%s: %s", preset->name, diag.text);
        cr_assert_eq(ffn_spec_format(&by_name, text, sizeof text, &diag), FFN_OK, "%s: %s", preset->name, diag.text);
        cr_expect_str_eq(text, preset->spec);
        cr_assert_eq(ffn_spec_parse(text, &by_text, &diag), FFN_OK, "%s: %s", preset->name, diag.text);
        cr_expect(ffn_spec_equal(&by_name, &by_text), "%s", preset->name);
        cr_expect_eq(ffn_spec_check(&by_name, NULL), FFN_OK);
        cr_expect_eq(ffn_spec_name(&by_name, false, name, sizeof name, NULL), FFN_OK);
        cr_expect_str_eq(name, preset->spec); /* no formula among them */
    }
    cr_expect_geq(count, PUBLISHED + 2);
    cr_expect_null(ffn_preset_at(count));
    cr_expect_null(ffn_preset_at(SIZE_MAX));
}

Test(presets, no_name_is_used_twice_or_could_be_a_spec) {
    for (size_t i = 0; ffn_preset_at(i); i++) {
        const char *name = ffn_preset_at(i)->name;
        cr_expect_not(name[0] == 'd' && !isalpha((unsigned char)name[1]), "%s", name);
        for (size_t j = 0; j < i; j++)
            cr_expect_str_neq(name, ffn_preset_at(j)->name);
        cr_expect_not_null(ffn_preset_at(i)->source);
    }
}
