/* test_coefficients.c: every number of templates/functions.def against its origin
 *
 * A decimal number of more than four digits is a coefficient that stands under its function's name in
 * gen/coefficients.txt, the output of gen/coefficients.py, or a constant of the table below. Numbers are compared as
 * f32, signs included; and nothing stands in the output or the table that no function uses. */
#include <criterion/criterion.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support_files.h"

enum { NAME_MAX_BYTES = 40, FUNCTIONS_MAX_BYTES = 120, NUMBERS_MAX = 600 };

typedef struct number {
    char function[FUNCTIONS_MAX_BYTES]; /* of a row of the output: ", one, another," */
    char text[NAME_MAX_BYTES];
    float value;
    int digits;
    bool used;
} number;

typedef struct numbers {
    number all[NUMBERS_MAX];
    int count;
} numbers;

static char *text_of(const char *path) {
    size_t bytes;
    char *const data = support_file_read(path, &bytes), *const text = malloc(bytes + 1);
    cr_assert(text);
    memcpy(text, data, bytes);
    text[bytes] = 0;
    free(data);
    return text;
}

static void add(numbers *list, const char *function, const char *text, int bytes, float value) {
    cr_assert(list->count < NUMBERS_MAX && bytes < NAME_MAX_BYTES);
    number *const last = &list->all[list->count++];
    *last = (number){.value = value};
    snprintf(last->function, sizeof last->function, "%s", function);
    snprintf(last->text, sizeof last->text, "%.*s", bytes, text);
    bool leading = true;
    for (const char *p = last->text; *p && *p != 'e'; p++) {
        leading = leading && (*p == '0' || !isdigit((unsigned char)*p));
        last->digits += !leading && isdigit((unsigned char)*p);
    }
}

/* A minus sign that belongs to the number: what stands before it is no operand. */
static bool negative(const char *text, const char *at) {
    do
        at--;
    while (at > text && isspace((unsigned char)*at));
    if (*at != '-')
        return false;
    do
        at--;
    while (at > text && isspace((unsigned char)*at));
    return *at == '(' || *at == ',';
}

static void read_definitions(numbers *list) {
    static const char row[] = "FFN_FUNCTION(";
    char *const text = text_of(FFN_SOURCE_DIR "/templates/functions.def"), function[NAME_MAX_BYTES] = "";
    for (char *start = text; (start = strstr(start, "/*"));)
        for (const char *const end = strstr(start, "*/") + 2; start < end; start++)
            *start = ' ';
    for (char *at = text; *at;) {
        if (strncmp(at, row, sizeof row - 1) == 0)
            snprintf(function, sizeof function, "%.*s", (int)strcspn(at + sizeof row - 1, ","), at + sizeof row - 1);
        if (*at == '"') {
            at = strchr(at + 1, '"') + 1;
        } else if (isalpha((unsigned char)*at) || strncmp(at, "0x", 2) == 0) {
            while (isalnum((unsigned char)*at) || *at == '_')
                at++;
        } else if (isdigit((unsigned char)*at)) {
            char *end;
            const float value = strtof(at, &end);
            add(list, function, at, (int)(end - at), negative(text, at) ? -value : value);
            at = end;
        } else {
            at++;
        }
    }
    free(text);
}

/* "function, function: ..." heads rows of "  label value ...". Each row counts for all its functions. */
static void read_output(numbers *list) {
    char *const text = text_of(FFN_SOURCE_DIR "/gen/coefficients.txt"), functions[FUNCTIONS_MAX_BYTES] = "",
                *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char label[8], value[NAME_MAX_BYTES], *end;
        if (line[0] != ' ') {
            snprintf(functions, sizeof functions, ", %.*s,", (int)strcspn(line, ":"), line);
        } else if (sscanf(line, " %7s %39s", label, value) == 2) {
            const float parsed = strtof(value, &end);
            if (*end == 0)
                add(list, functions, value, (int)strlen(value), parsed);
        }
    }
    free(text);
}

static bool belongs(const number *row, const char *function) {
    char name[NAME_MAX_BYTES + 3];
    snprintf(name, sizeof name, " %s,", function);
    return strstr(row->function, name) != NULL;
}

/* ---- Constants ---- */

typedef struct constant {
    const char *what;
    long double value;
    bool used;
} constant;

enum { CONSTANTS_MAX = 64 };

static int fill_constants(constant *out) {
    const long double ln2 = logl(2), log2e = 1 / ln2, pi = acosl(-1), cut = 1.4453125L;
    const long double a = 2 * sqrtl(2 / pi) * log2e, b = 0.044715L * a, high_a = roundl(ldexpl(a, 20)) * 0x1p-20L;
    const long double selu = 1.0507009873554804934L;
    const constant table[] = {
        {"2^45", 0x1p45L, false},
        {"2^-45", 0x1p-45L, false},
        {"2^24", 0x1p24L, false},
        {"1.5 2^23 + 126", 0x1.8p23L + 126, false},
        {"1.5 2^23 + 127", 0x1.8p23L + 127, false},
        {"1.5 2^23 + 172", 0x1.8p23L + 172, false},
        {"1.5 2^23 + 254", 0x1.8p23L + 254, false},
        {"2^23 + 128", 0x1p23L + 128, false},
        {"2^23 + 128 + 24", 0x1p23L + 152, false},
        {"smallest normal", 0x1p-126L, false},
        {"largest", 0x1.fffffep127L, false},
        {"log(2)", ln2, false},
        {"log(2), second part", ln2 - (float)ln2, false},
        {"log(2) / 2", ln2 / 2, false},
        {"log2(e)", log2e, false},
        {"log2(e), second part", log2e - (float)log2e, false},
        {"2 log2(e)", 2 * log2e, false},
        {"log2(e) / 2", log2e / 2, false},
        {"log2(e) / 2, second part", log2e / 2 - (float)(log2e / 2), false},
        {"log2(e) in units of 2^-7", roundl(ldexpl(log2e, 7)) * 0x1p-7L, false},
        {"what is left of log2(e)", log2e - cut, false},
        {"2^-45 log2(e)", ldexpl(log2e, -45), false},
        {"sqrt(pi)", sqrtl(pi), false},
        {"sqrt(2 pi)", sqrtl(2 * pi), false},
        {"gelu_tanh's A, in units of 2^-20", high_a, false},
        {"gelu_tanh's A, second part", a - high_a, false},
        {"gelu_tanh's B", b, false},
        {"gelu_tanh's B, second part", b - (float)b, false},
        {"selu's scale", selu, false},
        {"selu's scale and alpha", selu * 1.6732632423543772848L, false},
        {"1/6", 1.0L / 6, false},
        {"1/6, second part", 1.0L / 6 - (float)(1.0L / 6), false},
    };
    _Static_assert(sizeof table <= CONSTANTS_MAX * sizeof table[0], "room for the table");
    memcpy(out, table, sizeof table);
    return (int)(sizeof table / sizeof table[0]);
}

/* ---- Tests ---- */

Test(coefficients, of_every_function_have_an_origin_and_no_other_is_recorded) {
    numbers *const used = calloc(1, sizeof *used), *const output = calloc(1, sizeof *output);
    cr_assert(used && output);
    read_definitions(used);
    read_output(output);
    constant constants[CONSTANTS_MAX];
    const int constant_count = fill_constants(constants);
    int coefficients = 0;
    for (int i = 0; i < used->count; i++) {
        const number *const n = &used->all[i];
        bool found = false;
        for (int k = 0; k < output->count; k++)
            if (output->all[k].value == n->value && belongs(&output->all[k], n->function))
                found = output->all[k].used = true;
        coefficients += found;
        for (int k = 0; k < constant_count; k++)
            if ((float)fabsl(constants[k].value) == fabsf(n->value))
                found = constants[k].used = true;
        cr_expect(found || n->digits <= 4, "%s: %s stands neither in gen/coefficients.txt nor in the table",
                  n->function, n->text);
    }
    for (int k = 0; k < output->count; k++)
        cr_expect(output->all[k].used, "gen/coefficients.txt: %s is no number of%s", output->all[k].text,
                  output->all[k].function + 1);
    for (int k = 0; k < constant_count; k++)
        cr_expect(constants[k].used, "%s is used nowhere", constants[k].what);
    cr_expect(coefficients >= 70, "%d of %d numbers are coefficients", coefficients, used->count);
    printf("  %d numbers, %d of them coefficients, %d rows, %d constants\n", used->count, coefficients, output->count,
           constant_count);
    free(output);
    free(used);
}
