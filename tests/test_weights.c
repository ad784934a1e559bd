/* Weights from a safetensors file: the tensors each model family stores are found and lie as that family stores them;
 * what does not fit the spec, or leaves a doubt, is an error that names it; a real layer gives its stored outputs. */
#include "weights.h"
#include "weights_names.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Files in memory. Every value of a tensor is its place in the list, counted from 1. ---- */

typedef struct entry {
    const char *name;
    int rows, columns; /* columns 0: a vector */
    const char *dtype; /* NULL: F32 */
} entry;

enum { FILE_BYTES = 1 << 16 };
static _Alignas(16) unsigned char bytes[FILE_BYTES];

static safetensors *build(const entry *entries, const char *orientation) {
    static unsigned char data[FILE_BYTES / 2];
    static char json[FILE_BYTES / 2];
    size_t used = 0, length = (size_t)sprintf(json, "{\"__metadata__\":{\"orientation\":\"%s\"}", orientation);
    for (int i = 0; entries[i].name; i++) {
        const entry *e = &entries[i];
        int count = e->rows * (e->columns ? e->columns : 1);
        const char *dtype = e->dtype ? e->dtype : "F32";
        float value = (float)(i + 1);
        uint32_t bits;
        memcpy(&bits, &value, 4);
        size_t size = strcmp(dtype, "F32") == 0 ? 4 : 2;
        cr_assert(i < 8 || size == 4); /* 1 .. 8 are the values below */
        static const uint16_t halves[] = {0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700, 0x4800};
        uint16_t half = strcmp(dtype, "F16") == 0 ? halves[i & 7] : (uint16_t)(bits >> 16);
        char columns[16] = "";
        if (e->columns)
            sprintf(columns, ",%d", e->columns);
        length +=
            (size_t)sprintf(json + length, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%d%s],\"data_offsets\":[%zu,%zu]}",
                            e->name, dtype, e->rows, columns, used, used + size * (size_t)count);
        for (int k = 0; k < count; k++, used += size)
            memcpy(data + used, size == 4 ? (void *)&bits : (void *)&half, size);
        cr_assert(used < sizeof data && length + 512 < sizeof json);
    }
    json[length++] = '}';
    while (length % 8)
        json[length++] = ' ';
    memcpy(bytes, &(uint64_t){length}, 8);
    memcpy(bytes + 8, json, length);
    memcpy(bytes + 8 + length, data, used);
    safetensors *file;
    ffn_diag diag;
    cr_assert_eq(safetensors_parse(bytes, 8 + length + used, "m", &file, &diag), FFN_OK, "%s", diag.text);
    return file;
}

static ffn_spec spec_of(const char *text) {
    ffn_spec spec;
    ffn_diag diag;
    cr_assert_eq(ffn_spec_parse(text, &spec, &diag), FFN_OK, "%s", diag.text);
    return spec;
}

static weights_file *find(const char *spec_text, const entry *entries, const weights_options *options) {
    ffn_spec spec = spec_of(spec_text);
    weights_file *file = NULL;
    ffn_diag diag = {0};
    cr_assert_eq(weights_find(&spec, build(entries, ""), "m", options, &file, &diag), FFN_OK, "%s: %s", spec_text,
                 diag.text);
    return file;
}

static void refuse_from(const char *spec_text, safetensors *tensors, const weights_options *options, ffn_status status,
                        const char *words) {
    ffn_spec spec = spec_of(spec_text);
    weights_file *file = NULL;
    ffn_diag diag = {0};
    cr_expect_eq(weights_find(&spec, tensors, "m", options, &file, &diag), status, "%s", diag.text);
    cr_expect_null(file);
    cr_expect_not_null(strstr(diag.text, words), "'%s' lacks '%s'", diag.text, words);
    safetensors_close(tensors);
}

static void refuse(const char *spec_text, const entry *entries, const weights_options *options, const char *words) {
    refuse_from(spec_text, build(entries, ""), options, FFN_BAD_FILE, words);
}

/* Which tensor a pointer stands for, by its value; 0 for NULL. */
static int place(const float *data) {
    return data ? (int)data[0] : 0;
}

/* ---- Families: names as their published files have them; d_model 4, d_ff 6, layer 1 (and expert 2) wanted ---- */

enum { D = 4, F = 6, FAMILY_TENSORS = 7 };

typedef struct family {
    const char *spec;
    ffn_layout layout;
    ffn_gate_order gate_order;
    int places[WEIGHT_ROLES]; /* of up, gate, down and their biases in the list */
    entry entries[FAMILY_TENSORS];
} family;

static const family families[] = {
    {"d4-f6-gelu-bias",
     FFN_OUT_IN,
     FFN_GATE_SEPARATE,
     {2, 0, 4, 3, 0, 5},
     {{"bert.encoder.layer.0.intermediate.dense.weight", F, D, NULL},
      {"bert.encoder.layer.1.intermediate.dense.weight", F, D, NULL},
      {"bert.encoder.layer.1.intermediate.dense.bias", F, 0, NULL},
      {"bert.encoder.layer.1.output.dense.weight", D, F, NULL},
      {"bert.encoder.layer.1.output.dense.bias", D, 0, NULL},
      {"bert.encoder.layer.1.attention.output.dense.weight", D, D, NULL}}},
    {"d4-f6-gelu-bias",
     FFN_OUT_IN,
     FFN_GATE_SEPARATE,
     {1, 0, 3, 2, 0, 4},
     {{"vit.encoder.layer.1.intermediate.dense.weight", F, D, "BF16"},
      {"vit.encoder.layer.1.intermediate.dense.bias", F, 0, "BF16"},
      {"vit.encoder.layer.1.output.dense.weight", D, F, "BF16"},
      {"vit.encoder.layer.1.output.dense.bias", D, 0, "BF16"}}},
    {"d4-f6-gelu_tanh-bias",
     FFN_IN_OUT,
     FFN_GATE_SEPARATE,
     {2, 0, 4, 1, 0, 3},
     {{"h.1.mlp.c_fc.bias", F, 0, NULL},
      {"h.1.mlp.c_fc.weight", D, F, NULL},
      {"h.1.mlp.c_proj.bias", D, 0, NULL},
      {"h.1.mlp.c_proj.weight", F, D, NULL},
      {"h.11.mlp.c_fc.weight", D, F, NULL}}},
    {"d4-f6-relu",
     FFN_OUT_IN,
     FFN_GATE_SEPARATE,
     {1, 0, 2, 0, 0, 0},
     {{"encoder.block.1.layer.1.DenseReluDense.wi.weight", F, D, NULL},
      {"encoder.block.1.layer.1.DenseReluDense.wo.weight", D, F, NULL}}},
    {"d4-f6-geglu_tanh",
     FFN_OUT_IN,
     FFN_GATE_SEPARATE,
     {2, 1, 3, 0, 0, 0},
     {{"encoder.block.1.layer.1.DenseReluDense.wi_0.weight", F, D, NULL},
      {"encoder.block.1.layer.1.DenseReluDense.wi_1.weight", F, D, NULL},
      {"encoder.block.1.layer.1.DenseReluDense.wo.weight", D, F, NULL}}},
    {"d4-f6-swiglu",
     FFN_OUT_IN,
     FFN_GATE_SEPARATE,
     {3, 2, 1, 0, 0, 0},
     {{"model.layers.1.mlp.down_proj.weight", D, F, "BF16"},
      {"model.layers.1.mlp.gate_proj.weight", F, D, "F16"},
      {"model.layers.1.mlp.up_proj.weight", F, D, NULL}}},
    {"d4-f6-swiglu",
     FFN_OUT_IN,
     FFN_GATE_FIRST,
     {2, 0, 1, 0, 0, 0},
     {{"model.layers.1.mlp.down_proj.weight", D, F, NULL}, {"model.layers.1.mlp.gate_up_proj.weight", 2 * F, D, NULL}}},
    {"d4-f6-gelu_tanh-bias",
     FFN_OUT_IN,
     FFN_GATE_SEPARATE,
     {2, 0, 4, 1, 0, 3},
     {{"model.layers.1.mlp.fc1.bias", F, 0, NULL},
      {"model.layers.1.mlp.fc1.weight", F, D, NULL},
      {"model.layers.1.mlp.fc2.bias", D, 0, NULL},
      {"model.layers.1.mlp.fc2.weight", D, F, NULL}}},
    {"d4-f6-gelu-bias",
     FFN_OUT_IN,
     FFN_GATE_SEPARATE,
     {2, 0, 4, 1, 0, 3},
     {{"model.encoder.layers.1.fc1.bias", F, 0, NULL},
      {"model.encoder.layers.1.fc1.weight", F, D, NULL},
      {"model.encoder.layers.1.fc2.bias", D, 0, NULL},
      {"model.encoder.layers.1.fc2.weight", D, F, NULL}}},
    {"d4-f6-swiglu",
     FFN_OUT_IN,
     FFN_GATE_SEPARATE,
     {4, 2, 3, 0, 0, 0},
     {{"model.layers.1.block_sparse_moe.experts.1.w1.weight", F, D, NULL},
      {"model.layers.1.block_sparse_moe.experts.2.w1.weight", F, D, NULL},
      {"model.layers.1.block_sparse_moe.experts.2.w2.weight", D, F, NULL},
      {"model.layers.1.block_sparse_moe.experts.2.w3.weight", F, D, NULL}}},
};

Test(weights, of_each_family_are_found_as_it_stores_them) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const family *m = &families[i];
        bool mixture = strstr(m->entries[0].name, "experts") != NULL;
        weights_file *file = find(m->spec, m->entries, &(weights_options){.layer = 1, .expert = mixture ? 2 : 0});
        const ffn_weights *w = weights_of(file);
        const float *parts[WEIGHT_ROLES] = {w->up.data, w->gate.data, w->down.data,
                                            w->bias_up, w->bias_gate, w->bias_down};
        for (int role = 0; role < WEIGHT_ROLES; role++)
            cr_expect_eq(place(parts[role]), m->places[role], "%s: part %d is tensor %d", m->entries[0].name, role,
                         place(parts[role]));
        cr_expect(w->up.layout == m->layout && w->down.layout == m->layout && w->up.ld == 0);
        cr_expect(!w->gate.data || w->gate.layout == m->layout);
        cr_expect_eq(w->gate_order, m->gate_order);
        cr_expect_not_null(strstr(weights_summary(file), m->entries[m->places[WEIGHT_UP] - 1].name));
        weights_close(file);
    }
}

static const entry plain[] = {{"w1", D, F, NULL}, {"b1", F, 0, NULL}, {"w2", F, D, NULL},
                              {"b2", D, 0, NULL}, {"x", 3, D, NULL},  {0}};

Test(weights, under_plain_names_lie_as_their_shapes_tell) {
    static const entry turned[] = {{"w1", F, D, NULL}, {"w2", D, F, NULL}, {"wg", F, D, NULL}, {0}};
    weights_file *file = find("d4-f6-relu-bias", plain, NULL);
    const ffn_weights *w = weights_of(file);
    cr_expect(place(w->up.data) == 1 && place(w->bias_up) == 2 && place(w->down.data) == 3 && place(w->bias_down) == 4);
    cr_expect(w->up.layout == FFN_IN_OUT && w->down.layout == FFN_IN_OUT);
    cr_expect((const unsigned char *)w->up.data > bytes && (const unsigned char *)w->up.data < bytes + FILE_BYTES,
              "F32 is used where it lies");
    cr_expect_eq(weights_tensor(file, "x")->rank, 2);
    cr_expect_null(weights_tensor(file, "y"));
    const float *x;
    int64_t n, d;
    ffn_diag diag;
    cr_assert_eq(weights_rows(file, "x", &x, &n, &d, NULL), FFN_OK);
    cr_expect(n == 3 && d == D && x[11] == 5.0f);
    cr_expect_eq(weights_rows(file, "y", &x, &n, &d, &diag), FFN_BAD_FILE);
    weights_close(file);

    file = find("d4-f6-swiglu", turned, NULL);
    cr_expect(weights_of(file)->gate.layout == FFN_OUT_IN && place(weights_of(file)->gate.data) == 3);
    weights_close(file);
}

Test(weights, that_are_square_need_to_be_told_how_they_lie) {
    static const entry square[] = {{"w1", D, D, NULL}, {"w2", D, D, NULL}, {0}};
    static const entry linear[] = {{"layers.0.fc1.weight", D, D, NULL}, {"layers.0.fc2.weight", D, D, NULL}, {0}};
    refuse("d4-f4-relu", square, NULL, "'w1' is square, so its shape does not tell how it lies: say --layout");
    for (int turned = 0; turned < 2; turned++) {
        const char *layout = turned ? "out_in" : "in_out";
        weights_file *file = find("d4-f4-relu", square, &(weights_options){.layout = layout});
        cr_expect_eq(weights_of(file)->up.layout, turned ? FFN_OUT_IN : FFN_IN_OUT);
        weights_close(file);
        ffn_spec spec = spec_of("d4-f4-relu");
        cr_assert_eq(weights_find(&spec, build(square, layout), "m", NULL, &file, NULL), FFN_OK);
        cr_expect_eq(weights_of(file)->down.layout, turned ? FFN_OUT_IN : FFN_IN_OUT);
        weights_close(file);
    }
    weights_file *file = find("d4-f4-relu", linear, NULL);
    cr_expect_eq(weights_of(file)->up.layout, FFN_OUT_IN);
    weights_close(file);
}

Test(weights, that_lie_otherwise_than_said_are_refused) {
    refuse("d4-f6-relu-bias", plain, &(weights_options){.layout = "out_in"},
           "'w1' is [4, 6], which is in_out, but --layout says out_in");
    refuse_from("d4-f6-relu-bias", build(plain, "out_in"), NULL, FFN_BAD_FILE, "the file's metadata says out_in");
    static const entry linear_gpt2[] = {
        {"h.0.mlp.c_fc.weight", F, D, NULL}, {"h.0.mlp.c_proj.weight", D, F, NULL}, {0}};
    refuse("d4-f6-relu", linear_gpt2, NULL, "which is out_in, but gpt2 says in_out: --layout says otherwise");
    weights_file *file = find("d4-f6-relu", linear_gpt2, &(weights_options){.layout = "out_in"});
    cr_expect_eq(weights_of(file)->up.layout, FFN_OUT_IN);
    weights_close(file);
    refuse_from("d4-f6-relu-bias", build(plain, ""), &(weights_options){.layout = "sideways"}, FFN_BAD_ARGUMENT,
                "layout 'sideways': in_out or out_in");
}

Test(weights, that_do_not_fit_the_spec_are_refused_by_name) {
    refuse("d4-f7-relu-bias", plain, NULL, "'w1' is [4, 6]: the spec needs [4, 7] (in_out) or [7, 4]");
    refuse("d4-f6-relu", plain, NULL, "it has the bias 'b1', but the spec does not (add -bias_up)");
    refuse("d4-f6-relu-bias_up", plain, NULL, "it has the bias 'b2'");
    refuse("d4-f6-swiglu-bias_up-bias_down", plain, NULL, "there is no 'wg' for the gate matrix");
    static const entry no_bias[] = {{"w1", D, F, NULL}, {"w2", F, D, NULL}, {0}};
    refuse("d4-f6-relu-bias", no_bias, NULL, "there is no 'b1' for the bias of up");
    static const entry gate[] = {{"up", D, F, NULL}, {"gate", D, F, NULL}, {"down", F, D, NULL}, {0}};
    refuse("d4-f6-relu", gate, NULL, "it has the gate 'gate', but the activation of the spec is not gated");
    static const entry no_down[] = {{"m.layers.0.fc1.weight", F, D, NULL}, {"m.layers.1.fc2.weight", D, F, NULL}, {0}};
    refuse("d4-f6-relu", no_down, NULL,
           "there is no 'm.layers.0.fc2.weight' for the down matrix of the spec; near names: m.layers.0.fc1.weight, "
           "m.layers.1.fc2");
    static const entry long_bias[] = {{"w1", D, F, NULL}, {"w2", F, D, NULL}, {"b1", F + 1, 0, NULL}, {0}};
    refuse("d4-f6-relu-bias_up", long_bias, NULL, "the bias 'b1' is [7]: the spec needs [6]");
    static const entry two_biases[] = {{"w1", D, F, NULL}, {"w2", F, D, NULL}, {"b1", 2, F, NULL}, {0}};
    refuse("d4-f6-relu-bias_up", two_biases, NULL, "the bias 'b1' is [2, 6]");
    static const entry vector[] = {{"w1", D * F, 0, NULL}, {"w2", F, D, NULL}, {0}};
    refuse("d4-f6-relu", vector, NULL, "'w1' is [24]");
    static const entry integers[] = {{"w1", D, F, "I16"}, {"w2", F, D, NULL}, {0}};
    refuse("d4-f6-relu", integers, NULL, "'w1' is I16: F32 is needed");
    static const entry bert[] = {{"encoder.layer.0.intermediate.dense.weight", F, D, NULL},
                                 {"encoder.layer.0.output.dense.weight", D, F, NULL},
                                 {0}};
    refuse("d4-f6-swiglu", bert, NULL, "the spec has a gate matrix, but");
    static const entry fused[] = {{"layers.0.mlp.gate_up_proj.weight", 2 * F, D, NULL},
                                  {"layers.0.mlp.gate_up_proj.bias", 2 * F, 0, NULL},
                                  {"layers.0.mlp.down_proj.weight", D, F, NULL},
                                  {0}};
    refuse("d4-f6-relu", fused, NULL, "holds gate and up, but the activation of the spec is not gated");
    refuse("d4-f6-swiglu-bias_up", fused, NULL, "both of bias_up and bias_gate, or neither");
    refuse("d4-f6-swiglu", fused, NULL, "it has the bias 'layers.0.mlp.gate_up_proj.bias'");
    weights_file *file = find("d4-f6-swiglu-bias_up-bias_gate", fused, NULL);
    cr_expect(place(weights_of(file)->bias_up) == 2 && !weights_of(file)->bias_gate);
    weights_close(file);
}

Test(weights, that_are_not_there_are_an_error_that_says_what_was_sought) {
    static const entry others[] = {{"ffn.a", F, D, NULL}, {"ffn.b", D, F, NULL}, {"emb", 9, D, NULL}, {0}};
    refuse("d4-f6-relu", others, NULL, "looked for w1, up, encoder.layer.0.intermediate.dense.weight");
    refuse("d4-f6-relu", others, NULL, "tensors of a fitting shape: ffn.a, ffn.b");
    refuse("d4-f6-relu", (const entry[]){{0}}, NULL, "no FFN under a known name");
    refuse("d4-f6-gelu-bias", families[0].entries, &(weights_options){.layer = 2},
           "there is no layer 2: the names of bert, roberta, vit go up to layer 1");
    refuse("d4-f6-relu-bias", plain, &(weights_options){.layer = 3}, "no FFN under a known name");
    refuse_from("d4-f6-relu", build(others, ""), &(weights_options){.layer = -1}, FFN_BAD_ARGUMENT, "counted from 0");
}

static const entry both[] = {{"model.decoder.layers.0.fc1.weight", F, D, NULL},
                             {"model.decoder.layers.0.fc2.weight", D, F, NULL},
                             {"model.encoder.layers.0.fc1.weight", F, D, NULL},
                             {"model.encoder.layers.0.fc2.weight", D, F, NULL},
                             {0}};

Test(weights, that_are_there_twice_are_not_chosen_by_chance) {
    refuse("d4-f6-relu", both, NULL, "fit the spec: choose with --map prefix=P");
    weights_file *file = find("d4-f6-relu", both, &(weights_options){.map = "prefix=model.encoder."});
    cr_expect(place(weights_of(file)->up.data) == 3 && place(weights_of(file)->down.data) == 4);
    weights_close(file);
    /* Of two widths, as in CLIP's towers, the one that fits is meant. */
    static const entry towers[] = {{"text_model.encoder.layers.0.mlp.fc1.weight", F + 2, D, NULL},
                                   {"text_model.encoder.layers.0.mlp.fc2.weight", D, F + 2, NULL},
                                   {"vision_model.encoder.layers.0.mlp.fc1.weight", F, D, NULL},
                                   {"vision_model.encoder.layers.0.mlp.fc2.weight", D, F, NULL},
                                   {0}};
    file = find("d4-f6-relu", towers, NULL);
    cr_expect_eq(place(weights_of(file)->up.data), 3);
    weights_close(file);
}

Test(weights, are_taken_by_the_names_of_a_map) {
    static const entry own[] = {{"a.weight", D, F, NULL},
                                {"a.bias", F, 0, NULL},
                                {"c", F, D, NULL},
                                {"d", D, 0, NULL},
                                {"e", D, 2 * F, NULL},
                                {"g", D, F, NULL},
                                {0}};
    weights_file *file = find("d4-f6-relu-bias", own, &(weights_options){.map = "w1=a.weight,w2=c,b2=d"});
    const ffn_weights *w = weights_of(file);
    cr_expect(place(w->up.data) == 1 && place(w->bias_up) == 2 && place(w->down.data) == 3 && place(w->bias_down) == 4);
    weights_close(file);
    static const struct {
        const char *map;
        ffn_gate_order order;
    } fused[] = {{"gate_up=e,down=c", FFN_GATE_FIRST},
                 {"up_gate=e,down=c", FFN_UP_FIRST},
                 {"gate_up_interleaved=e,down=c", FFN_GATE_INTERLEAVED}};
    for (size_t i = 0; i < 3; i++) {
        file = find("d4-f6-swiglu", own, &(weights_options){.map = fused[i].map});
        cr_expect(weights_of(file)->gate_order == fused[i].order && place(weights_of(file)->up.data) == 5);
        weights_close(file);
    }
    file = find("d4-f6-swiglu", own, &(weights_options){.map = "up=g,gate=g,down=c"});
    cr_expect_eq(place(weights_of(file)->gate.data), 6);
    weights_close(file);
    refuse("d4-f6-relu", own, &(weights_options){.map = "up=a.weight,down=c"}, "it has the bias 'a.bias'");
    refuse("d4-f6-relu", own, &(weights_options){.map = "up=a.wight,down=c"},
           "no tensor 'a.wight'; near names: a.weight");
    refuse("d4-f6-relu-bias_down", own, &(weights_options){.map = "up=g,down=c"}, "the spec has a bias of down, but");
}

Test(weights, maps_that_cannot_be_read_are_refused) {
    static const struct {
        const char *map, *words;
    } bad[] = {{"up", "'up' is not KEY=NAME"},
               {"up=", "'up=' is not KEY=NAME"},
               {"=a", "'' is no part of an FFN"},
               {"upp=a", "'upp' is no part of an FFN: did you mean up"},
               {"up=a,w1=b", "'w1' names a part that is named already"},
               {"up=a", "must name both up"},
               {"b1=a", "must name both up"},
               {"prefix=a,up=w1,down=w2", "it stands alone"},
               {"gate_up=a,gate=b,down=c", "cannot be named apart"},
               {"a_key_that_is_longer_than_any_key_can_be=w1", "is not KEY=NAME"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refuse_from("d4-f6-relu-bias", build(plain, ""), &(weights_options){.map = bad[i].map}, FFN_BAD_ARGUMENT,
                    bad[i].words);
    static char map[700] = "up=";
    memset(map + 3, 'a', 600);
    refuse_from("d4-f6-relu", build(plain, ""), &(weights_options){.map = map}, FFN_BAD_ARGUMENT, "longer than 511");
}

Test(weights_names, match_from_a_dot_on_and_give_the_numbers) {
    int64_t layer, expert;
    cr_expect_eq(weights_names_match("h.#.c_fc", "transformer.h.12.c_fc", &layer, &expert), 12);
    cr_expect(layer == 12 && expert == WEIGHT_ANY);
    cr_expect_eq(weights_names_match("h.#.c_fc", "h.0.c_fc", &layer, &expert), 0);
    cr_expect_eq(weights_names_match("l.#.e.@.w", "x.l.3.e.71.w", &layer, &expert), 2);
    cr_expect(layer == 3 && expert == 71);
    static const char *const others[] = {"",
                                         ".",
                                         "..h.1.c_fcs",
                                         "oh.1.c_fc",
                                         "h.01.c_fc",
                                         "h..c_fc",
                                         "h.x.c_fc",
                                         "h.-1.c_fc",
                                         "h.1.c_fc.weight",
                                         ".h.1.c_f",
                                         "h.1.c_fc.",
                                         "h.1.xc_fc",
                                         "h.99999999999999999999.c_fc"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        cr_expect_eq(weights_names_match("h.#.c_fc", others[i], &layer, &expert), -1, "%s", others[i]);
    char name[32];
    cr_expect(weights_names_write("model.xyz", 6, "l.#.e.@.w", 10, 2, name, sizeof name));
    cr_expect_str_eq(name, "model.l.10.e.2.w");
    cr_expect_not(weights_names_write("model.xyz", 6, "l.#.e.@.w", 10, 2, name, 16));
}

/* ---- A real layer: Universal Sentence Encoder Lite, layer 0; x and y stored by another program ---- */

Test(weights, of_a_real_layer_give_its_stored_outputs) {
    const char *folder = getenv("FFN_DATA_DIR");
    char path[1024];
    snprintf(path, sizeof path, "%s/use_lite_layer0.safetensors", folder ? folder : FFN_SOURCE_DIR "/../shared/data");
    if (access(path, R_OK) != 0)
        cr_skip_test("no use_lite_layer0.safetensors in FFN_DATA_DIR");
    enum { MODEL = 512, HIDDEN = 1536 };
    ffn_spec spec = spec_of("d512-f1536-relu-bias");
    weights_file *file;
    ffn_diag diag;
    const float *x, *y;
    int64_t n, d, n_y, d_y;
    cr_assert_eq(weights_open(&spec, path, NULL, &file, &diag), FFN_OK, "%s", diag.text);
    cr_assert_eq(weights_rows(file, "x", &x, &n, &d, NULL), FFN_OK);
    cr_assert_eq(weights_rows(file, "y", &y, &n_y, &d_y, NULL), FFN_OK);
    cr_assert(n == 113 && d == MODEL && n_y == n && d_y == d);
    const ffn_weights *w = weights_of(file);
    cr_assert(w->up.layout == FFN_IN_OUT && w->down.layout == FFN_IN_OUT);

    double largest = 0.0;
    for (int64_t i = 0; i < n * d; i++)
        largest = fmax(largest, fabs((double)y[i]));
    for (int64_t row = 0; row < n; row += 16) {
        static double hidden[HIDDEN], out[MODEL];
        for (int f = 0; f < HIDDEN; f++)
            hidden[f] = (double)w->bias_up[f];
        for (int k = 0; k < MODEL; k++)
            for (int f = 0; f < HIDDEN; f++)
                hidden[f] += (double)x[row * d + k] * (double)w->up.data[k * HIDDEN + f];
        for (int j = 0; j < MODEL; j++)
            out[j] = (double)w->bias_down[j];
        for (int f = 0; f < HIDDEN; f++)
            for (int j = 0; j < MODEL; j++)
                out[j] += fmax(hidden[f], 0.0) * (double)w->down.data[f * MODEL + j];
        for (int j = 0; j < MODEL; j++)
            cr_assert_leq(fabs(out[j] - (double)y[row * d + j]), 2e-5 * largest);
    }
    weights_close(file);
}
