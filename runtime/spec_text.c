/* spec_text.c: text <-> spec
 *
 *     text       = preset ["-fast"] | "d" number "-f" number ("-" field)*    split at '-' outside parentheses
 *     field      = activation | "bias" | "bias_up" | "bias_gate" | "bias_down" | "fast" | "f32"
 *     activation = name | name "(" parameters ")" | "act(" formula ")" | "gated(" formula ")"
 *
 * Fields after the first two come in any order, each at most once; a formula is the last. The canonical text has
 * the activation first (a formula: last), then the biases, then fast, and leaves out what is the default. Invariant: a
 * canonical text parses to the spec it was made from, and formatting what was parsed gives the canonical text. */
#include "spec_text.h"
#include "diag.h"
#include "formula.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define EXAMPLE "as in d512-f2048-relu-bias"

enum { FIELD_BYTES = 4096 }; /* of one field as written, spaces and all */

/* Names for the bits, and a bit of our own: "bias" means every product, known once the activation is. */
enum { BIAS_EVERY = 1 << 16 };
static const struct {
    const char *word;
    uint32_t bit;
} bias_words[] = {
    {"bias", BIAS_EVERY}, {"bias_up", FFN_BIAS_UP}, {"bias_gate", FFN_BIAS_GATE}, {"bias_down", FFN_BIAS_DOWN}};

/* Words that will mean something, so that no activation may take them and no user wonders. */
static const struct {
    const char *word, *instead;
} reserved_words[] = {
    {"f16", "weights are f32"},
    {"bf16", "weights are f32"},
    {"int8", "weights are f32"},
    {"int4", "weights are f32"},
};

#define COUNT(table) (sizeof(table) / sizeof *(table))

static const char *preset_name_at(size_t i) {
    const ffn_preset *preset = ffn_preset_at(i);
    return preset ? preset->name : NULL;
}

/* Whatever a field could have been meant to be. */
static const char *field_word_at(size_t i) {
    if (i < COUNT(bias_words))
        return bias_words[i].word;
    if (i == COUNT(bias_words))
        return "fast";
    const ffn_activation *activation = ffn_activation_at(i - COUNT(bias_words) - 1);
    return activation ? activation->name : NULL;
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* The field that starts at `text` -> its length: up to a '-' outside parentheses. */
static size_t field_length(const char *text) {
    size_t length = 0;
    for (int64_t depth = 0; text[length] && (text[length] != '-' || depth > 0); length++)
        depth += text[length] == '(' ? 1 : text[length] == ')' ? -1 : 0;
    return length;
}

static bool field_is(const char *field, size_t length, const char *word) {
    return strlen(word) == length && memcmp(field, word, length) == 0;
}

/* "d512" -> 512. `name` is what messages call it. */
static ffn_status parse_dimension(const char *field, size_t length, char letter, const char *name, int64_t *value,
                                  ffn_diag *diag) {
    int shown = (int)(length < 40 ? length : 40);
    if (length == 0)
        return diag_fail(diag, FFN_BAD_SPEC, "%s is missing: %c and a number, " EXAMPLE, name, letter);
    if (field[0] != letter)
        return diag_fail(diag, FFN_BAD_SPEC, "%s: \"%.*s\" stands where %c and a number must, " EXAMPLE, name, shown,
                         field, letter);
    bool digits = length > 1;
    int64_t sum = 0;
    for (size_t i = 1; i < length; i++) {
        digits = digits && is_digit(field[i]);
        if (digits && sum <= FFN_DIM_MAX)
            sum = 10 * sum + (field[i] - '0');
    }
    if (!digits || sum < 1 || sum > FFN_DIM_MAX)
        return diag_fail(diag, FFN_BAD_SPEC,
                         "%s: \"%.*s\" must be %c and a whole number from 1 to %" PRId64 ", " EXAMPLE, name, shown,
                         field, letter, FFN_DIM_MAX);
    *value = sum;
    return FFN_OK;
}

/* What the fields after d and f said. */
typedef struct fields {
    char activation[FFN_ACTIVATION_BYTES];
    uint32_t bias;
    bool gated, formula, f32, fast;
} fields;

static bool is_activation_name(const char *field, size_t length) {
    if (field_is(field, length, "act") || field_is(field, length, "gated"))
        return true;
    const ffn_activation *activation;
    for (size_t i = 0; (activation = ffn_activation_at(i)) != NULL; i++)
        if (field_is(field, length, activation->name))
            return true;
    return false;
}

static ffn_status parse_activation(const char *field, size_t length, fields *found, ffn_diag *diag) {
    char text[FIELD_BYTES], canonical[FFN_ACTIVATION_BYTES];
    ffn_diag inner;
    if (length >= sizeof text)
        return diag_fail(diag, FFN_BAD_SPEC, "the activation is %zu bytes long: at most %zu are taken", length,
                         sizeof text - 1);
    memcpy(text, field, length);
    text[length] = '\0';
    size_t name_length = strcspn(text, "( ");
    if (!is_activation_name(text, name_length)) {
        char near[160];
        text[name_length] = '\0';
        diag_near_names(text, field_word_at, near, sizeof near);
        return diag_fail(diag, FFN_BAD_SPEC, "unknown field \"%.40s\"%s", text, near);
    }
    bool gated;
    ffn_status status = formula_canonical(text, canonical, sizeof canonical, &gated, &inner);
    if (status != FFN_OK)
        return diag_fail(diag, status, "activation: %s", inner.text);
    if (found->activation[0])
        return diag_fail(diag, FFN_BAD_SPEC, "two activations, %.80s and %.80s: a spec has one", found->activation,
                         canonical);
    strcpy(found->activation, canonical); /* both are FFN_ACTIVATION_BYTES long */
    found->gated = gated;
    found->formula = formula_is_own(canonical);
    return FFN_OK;
}

static ffn_status parse_field(const char *field, size_t length, fields *found, ffn_diag *diag) {
    if (length == 0)
        return diag_fail(diag, FFN_BAD_SPEC, "an empty field: one '-' stands between two fields, none at the end");
    if (found->formula)
        return diag_fail(diag, FFN_BAD_SPEC, "\"%.*s\" stands after a formula: a formula is the last field",
                         (int)(length < 40 ? length : 40), field);
    bool *const flags[] = {&found->f32, &found->fast};
    static const char *const flag_words[] = {"f32", "fast"};
    for (size_t i = 0; i < COUNT(flags); i++) {
        if (!field_is(field, length, flag_words[i]))
            continue;
        if (*flags[i])
            return diag_fail(diag, FFN_BAD_SPEC, "%s is given twice", flag_words[i]);
        *flags[i] = true;
        return FFN_OK;
    }
    for (size_t i = 0; i < COUNT(bias_words); i++) {
        if (!field_is(field, length, bias_words[i].word))
            continue;
        if (found->bias & bias_words[i].bit)
            return diag_fail(diag, FFN_BAD_SPEC, "%s is given twice", bias_words[i].word);
        found->bias |= bias_words[i].bit;
        if ((found->bias & BIAS_EVERY) && found->bias != BIAS_EVERY)
            return diag_fail(
                diag, FFN_BAD_SPEC,
                "bias (on every product) and a single one (bias_up, bias_gate, bias_down): one of the two");
        return FFN_OK;
    }
    for (size_t i = 0; i < COUNT(reserved_words); i++)
        if (field_is(field, length, reserved_words[i].word))
            return diag_fail(diag, FFN_UNSUPPORTED, "%s is not supported: %s, which is the default and needs no field",
                             reserved_words[i].word, reserved_words[i].instead);
    return parse_activation(field, length, found, diag);
}

static ffn_status parse_fields(const char *text, ffn_spec *spec, ffn_diag *diag) {
    size_t length = field_length(text);
    ffn_status status = parse_dimension(text, length, 'd', "d_model", &spec->d_model, diag);
    if (status != FFN_OK)
        return status;
    text += length;
    text += *text == '-';
    length = field_length(text);
    status = parse_dimension(text, length, 'f', "d_ff", &spec->d_ff, diag);
    if (status != FFN_OK)
        return status;

    fields found = {0};
    while (text[length]) {
        text += length + 1;
        length = field_length(text);
        status = parse_field(text, length, &found, diag);
        if (status != FFN_OK)
            return status;
    }
    if (!found.activation[0])
        return diag_fail(diag, FFN_BAD_SPEC, "the activation is missing: a name, act(...) or gated(...), " EXAMPLE);
    const uint32_t every = FFN_BIAS_UP | FFN_BIAS_DOWN | (found.gated ? FFN_BIAS_GATE : 0);
    spec->bias = found.bias & BIAS_EVERY ? every : found.bias;
    spec->accuracy = found.fast ? FFN_FAST : FFN_ACCURATE;
    memcpy(spec->activation, found.activation, strlen(found.activation) + 1);
    return ffn_spec_check(spec, diag);
}

ffn_status ffn_spec_parse(const char *text, ffn_spec *spec, ffn_diag *diag) {
    if (!text || !spec)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "ffn_spec_parse: %s is NULL", text ? "spec" : "text");
    static const char fast[] = "-fast";
    const char *definition = NULL;
    bool fast_preset = false;
    const ffn_preset *preset;
    for (size_t i = 0; !definition && (preset = ffn_preset_at(i)) != NULL; i++) {
        const size_t length = strlen(preset->name);
        if (strncmp(text, preset->name, length) != 0 || (text[length] && strcmp(text + length, fast) != 0))
            continue;
        definition = preset->spec;
        fast_preset = text[length] != '\0';
    }
    bool dimension = text[0] == 'd' && !(text[1] >= 'a' && text[1] <= 'z');
    if (!definition && !dimension) {
        char near[160];
        diag_near_names(text, preset_name_at, near, sizeof near);
        return diag_fail(diag, FFN_BAD_SPEC, "\"%.60s\" is neither a preset nor a spec (d512-f2048-relu-bias is one)%s",
                         text, near);
    }
    ffn_spec parsed;
    memset(&parsed, 0, sizeof parsed); /* the bytes after the text and between fields too: specs are stored in files */
    ffn_status status = parse_fields(definition ? definition : text, &parsed, diag);
    if (status == FFN_OK && fast_preset) {
        parsed.accuracy = FFN_FAST;
        status = ffn_spec_check(&parsed, diag);
    }
    if (status == FFN_OK)
        memcpy(spec, &parsed, sizeof parsed);
    return status;
}

/* The canonical text, with `activation` (the spec's, or what stands for it) in the place of the activation. */
static ffn_status write_fields(const ffn_spec *spec, const char *activation, char *text, size_t text_bytes,
                               ffn_diag *diag) {
    const uint32_t every = FFN_BIAS_UP | FFN_BIAS_DOWN | (ffn_spec_gated(spec) ? FFN_BIAS_GATE : 0);
    char bias[40] = "";
    for (size_t i = 0; i < COUNT(bias_words); i++) {
        if (spec->bias == every ? bias_words[i].bit == BIAS_EVERY : (spec->bias & bias_words[i].bit) != 0) {
            strcat(bias, "-");
            strcat(bias, bias_words[i].word);
        }
    }
    bool last = formula_is_own(spec->activation);
    char whole[FFN_SPEC_TEXT_BYTES];
    int length = snprintf(whole, sizeof whole, "d%" PRId64 "-f%" PRId64 "%s-%s%s%s", spec->d_model, spec->d_ff,
                          last ? bias : "", activation, last ? "" : bias, spec->accuracy == FFN_FAST ? "-fast" : "");
    if (length < 0 || (size_t)length >= sizeof whole || (size_t)length >= text_bytes)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "the text of the spec needs %d bytes and %zu were given", length + 1,
                         text_bytes);
    memcpy(text, whole, (size_t)length + 1);
    return FFN_OK;
}

void spec_text_of(const ffn_spec *spec, char text[FFN_SPEC_TEXT_BYTES]) {
    write_fields(spec, spec->activation, text, FFN_SPEC_TEXT_BYTES, NULL);
}

ffn_status ffn_spec_format(const ffn_spec *spec, char *text, size_t text_bytes, ffn_diag *diag) {
    if (!text)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "ffn_spec_format: text is NULL");
    ffn_status status = ffn_spec_check(spec, diag);
    return status == FFN_OK ? write_fields(spec, spec->activation, text, text_bytes, diag) : status;
}

ffn_status ffn_spec_name(const ffn_spec *spec, bool symbol, char *name, size_t name_bytes, ffn_diag *diag) {
    if (!name)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "ffn_spec_name: name is NULL");
    ffn_status status = ffn_spec_check(spec, diag);
    if (status != FFN_OK)
        return status;
    const char *activation = spec->activation;
    char hashed[24];
    if (strchr(activation, '(')) {
        snprintf(hashed, sizeof hashed, "fx%016" PRIx64, (uint64_t)XXH3_64bits(activation, strlen(activation)));
        activation = hashed;
    }
    status = write_fields(spec, activation, name, name_bytes, diag);
    if (status == FFN_OK && symbol)
        for (char *c = name; *c; c++)
            if (*c == '-')
                *c = '_';
    return status;
}
