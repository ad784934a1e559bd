/* activation.c: templates/activations.def and fast.def -> the table of built-in activations, and the text of one -> row
 * and parameters */
#include <stdio.h>
#include <string.h>

#include "default_state.h"
#include "diag.h"
#include "formula_ast.h"
#include "formula_cursor.h"

/* The compiled formula of FFN_FAST by the name of the activation, of those that have one. */
static const struct {
    const char *name, *formula;
} fast_rows[] = {
#define FFN_FAST_ROW(NAME, ...) {NAME, #__VA_ARGS__},
#include "../templates/fast.def"
};

static const activation_row rows[] = {
#define FFN_PLAIN false
#define FFN_GATED true
#define FFN_ACTIVATION_ROW(NAME, GATED, PARAMETERS, LEAST, MOST, ULPS, DEFINITION, NOTES, ...) \
    {{NAME, PARAMETERS, DEFINITION, NOTES, GATED}, #__VA_ARGS__, ULPS, LEAST, MOST},
#include "../templates/activations.def"
#undef FFN_PLAIN
#undef FFN_GATED
};

enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

const activation_row *activation_row_at(size_t i) {
    return i < ROW_COUNT ? &rows[i] : NULL;
}

const char *activation_fast(const activation_row *row) {
    for (size_t i = 0; i < sizeof fast_rows / sizeof fast_rows[0]; i++)
        if (strcmp(fast_rows[i].name, row->shown.name) == 0)
            return fast_rows[i].formula;
    return NULL;
}

const ffn_activation *ffn_activation_at(size_t i) {
    return i < ROW_COUNT ? &rows[i].shown : NULL;
}

static const char *row_name_at(size_t i) {
    return i < ROW_COUNT ? rows[i].shown.name : NULL;
}

bool activation_parameter_at(const activation_row *row, int32_t i, char name[AST_WORD_BYTES], float *preset) {
    const char *at = row->shown.parameters;
    for (; i > 0 && *at; i--) {
        at += strcspn(at, ",");
        at += *at == ',';
    }
    if (*at == '\0')
        return false;
    const size_t length = strcspn(at, "="), number = strcspn(at + length + 1, ",");
    snprintf(name, AST_WORD_BYTES, "%.*s", (int)length, at);
    double value = 0;
    number_parse(at + length + 1, number, &value);
    *preset = (float)value;
    return true;
}

static ffn_status parse_parameter(cursor *c, activation_text *parsed) {
    const activation_row *const row = parsed->row;
    char name[AST_WORD_BYTES];
    float preset;
    cursor_skip_spaces(c);
    if (!activation_parameter_at(row, parsed->parameter_count, name, &preset)) {
        if (parsed->parameter_count == 0)
            return cursor_fail(c, c->at, "%s has no parameters", row->shown.name);
        return cursor_fail(c, c->at, "%s has only the parameters %s", row->shown.name, row->shown.parameters);
    }
    const char *const begin = c->at;
    const bool negative = cursor_accept(c, "-");
    cursor_skip_spaces(c);
    const size_t length = number_length(c->at, c->end);
    double value = 0;
    if (length == 0)
        return cursor_fail(c, c->at, "the parameter %s of %s is a number, as in %s", name, row->shown.name,
                           row->shown.parameters);
    if (number_parse(c->at, length, &value) != NUMBER_OK)
        return cursor_fail(c, c->at, "the parameter %s of %s is not a number f32 can hold", name, row->shown.name);
    value = negative ? -value : value;
    if (value < row->least || value > row->most)
        return cursor_fail(c, begin, "the parameter %s of %s lies between %g and %g", name, row->shown.name, row->least,
                           row->most);
    c->at += length;
    parsed->parameters[parsed->parameter_count++] = (float)value;
    return FFN_OK;
}

DEFAULT_STATE_WORK ffn_status parse_parameters(cursor *c, activation_text *parsed) {
    char seen[CURSOR_SEEN_BYTES];
    if (cursor_accept(c, "(")) {
        do {
            const ffn_status status = parse_parameter(c, parsed);
            if (status != FFN_OK)
                return status;
        } while (cursor_accept(c, ","));
        if (!cursor_accept(c, ")"))
            return cursor_fail(c, c->at, "expected \")\" or \",\" after a parameter of %s, not %s",
                               parsed->row->shown.name, cursor_seen(c, seen));
    }
    cursor_skip_spaces(c);
    if (c->at < c->end)
        return cursor_fail(c, c->at, "%s after the activation %s", cursor_seen(c, seen), parsed->row->shown.name);
    char name[AST_WORD_BYTES];
    float preset;
    while (activation_parameter_at(parsed->row, parsed->parameter_count, name, &preset))
        parsed->parameters[parsed->parameter_count++] = preset;
    return FFN_OK;
}

/* act(F) or gated(F): F ends at the last closing parenthesis. */
static ffn_status parse_formula(cursor *c, activation_text *parsed, const char *word) {
    const char *end = c->end;
    while (end > c->at && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    if (!cursor_accept(c, "("))
        return cursor_fail(c, c->at, "%s is followed by a formula of %s in parentheses", word,
                           parsed->gated ? "g and u" : "x");
    if (end <= c->at || end[-1] != ')')
        return cursor_fail(c, end, "expected \")\" at the end of %s(...)", word);
    parsed->formula = (ast_text){c->at, end - 1, c->line};
    return FFN_OK;
}

ffn_status activation_parse(const char *text, activation_text *parsed, ffn_diag *diag) {
    cursor c = {text, text + strlen(text), text, FFN_OK, diag};
    cursor_skip_spaces(&c);
    const char *const word = c.at;
    const size_t length = cursor_word(&c);
    char name[AST_WORD_BYTES];
    snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1), word);
    c.at += length;
    activation_text result = {0};
    ffn_status status;
    if (strcmp(name, "act") == 0 || strcmp(name, "gated") == 0) {
        result.gated = name[0] == 'g';
        status = parse_formula(&c, &result, name);
    } else {
        for (size_t i = 0; i < ROW_COUNT && !result.row; i++)
            if (strcmp(name, rows[i].shown.name) == 0)
                result.row = &rows[i];
        if (!result.row) {
            char near[128];
            diag_near_names(name, row_name_at, near, sizeof near);
            return cursor_fail(&c, word, "unknown activation \"%s\"%s", name,
                               near[0] ? near : ": a name of the list, act(F) or gated(F) was expected");
        }
        result.gated = result.row->shown.gated;
        fenv_t callers;
        const bool numbers = result.row->shown.parameters[0] != '\0'; /* most have none, and reading is done often */
        if (numbers)
            default_state_begin(&callers);
        status = parse_parameters(&c, &result);
        if (numbers)
            default_state_end(&callers);
    }
    if (status == FFN_OK)
        *parsed = result;
    return status;
}

ast_text activation_formula(const activation_text *parsed, uint32_t accuracy) {
    if (!parsed->row)
        return parsed->formula;
    const char *const fast = accuracy == FFN_FAST ? activation_fast(parsed->row) : NULL;
    const char *const kernel = fast ? fast : parsed->row->kernel;
    return (ast_text){kernel, kernel + strlen(kernel), kernel};
}

void activation_names(const activation_text *parsed, char names[ACTIVATION_NAMES_BYTES]) {
    int used = snprintf(names, ACTIVATION_NAMES_BYTES, "%s", parsed->gated ? "g,u" : "x");
    char name[AST_WORD_BYTES];
    float preset;
    for (int32_t i = 0; parsed->row && activation_parameter_at(parsed->row, i, name, &preset); i++)
        used += snprintf(names + used, ACTIVATION_NAMES_BYTES - (size_t)used, ",%s", name);
}
