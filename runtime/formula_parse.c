/* formula_parse.c: formula text -> operations in evaluation order, types checked
 *
 * Precedence climbing over one table of operators. Nodes are appended after their operands, so the list is in
 * evaluation order by construction. Nesting is bounded by AST_DEPTH_MAX, size by AST_TEXT_NODES_MAX: no text, however
 * long or hostile, costs more stack than that. The first mistake ends the parse; its message names the column. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "diag.h"
#include "formula_ast.h"

typedef struct name {
    const char *begin;
    size_t length;
    int32_t node; /* what it stands for */
} name;

typedef struct parser {
    ast_text text;
    const char *at;
    const ast_rules *rules;
    ast_arena *arena;
    int32_t first, depth;
    int32_t name_count;
    name names[AST_NAMES_MAX];
    ffn_status status;
    ffn_diag *diag;
} parser;

/* The operators of the language, loosest first. `words` is the kind where both operands are words; NONE where the
 * operator does not exist for a type. */
typedef struct operator_row {
    const char *text;
    int32_t level, floats, words;
} operator_row;

enum { NO_OPERATION = -1, LEVEL_COMPARE = 1 };

static const operator_row operators[] = {
    {"<=", 1, FORMULA_OP_LE, NO_OPERATION},    {">=", 1, AST_GE, NO_OPERATION},
    {"==", 1, FORMULA_OP_EQ, NO_OPERATION},    {"!=", 1, FORMULA_OP_NE, NO_OPERATION},
    {"<<", 5, NO_OPERATION, FORMULA_OP_WSHL},  {">>", 5, NO_OPERATION, FORMULA_OP_WSHR},
    {"<", 1, FORMULA_OP_LT, NO_OPERATION},     {">", 1, AST_GT, NO_OPERATION},
    {"|", 2, NO_OPERATION, FORMULA_OP_WOR},    {"^", 3, NO_OPERATION, FORMULA_OP_WXOR},
    {"&", 4, NO_OPERATION, FORMULA_OP_WAND},   {"+", 6, FORMULA_OP_ADD, FORMULA_OP_WADD},
    {"-", 6, FORMULA_OP_SUB, FORMULA_OP_WSUB}, {"*", 7, FORMULA_OP_MUL, NO_OPERATION},
    {"/", 7, FORMULA_OP_DIV, NO_OPERATION},
};

/* What looks like a call but is an operation. */
typedef struct builtin_row {
    const char *name, *takes;
    int32_t kind, arity;
    formula_type result, a, b, c;
    bool visible;
} builtin_row;

static const builtin_row builtins[] = {
    {"select", "condition, value, other", FORMULA_OP_SELECT, 3, FORMULA_FLOAT, FORMULA_BOOL, FORMULA_FLOAT,
     FORMULA_FLOAT, true},
    {"min", "a, b", AST_MIN, 2, FORMULA_FLOAT, FORMULA_FLOAT, FORMULA_FLOAT, FORMULA_NONE, true},
    {"max", "a, b", AST_MAX, 2, FORMULA_FLOAT, FORMULA_FLOAT, FORMULA_FLOAT, FORMULA_NONE, true},
    {"clamp", "value, low, high", AST_CLAMP, 3, FORMULA_FLOAT, FORMULA_FLOAT, FORMULA_FLOAT, FORMULA_FLOAT, true},
    {"abs", "value", AST_ABS, 1, FORMULA_FLOAT, FORMULA_FLOAT, FORMULA_NONE, FORMULA_NONE, true},
    {"sqrt", "value", FORMULA_OP_SQRT, 1, FORMULA_FLOAT, FORMULA_FLOAT, FORMULA_NONE, FORMULA_NONE, true},
    {"fma", "a, b, c", FORMULA_OP_FMA, 3, FORMULA_FLOAT, FORMULA_FLOAT, FORMULA_FLOAT, FORMULA_FLOAT, true},
    {"bits", "value", FORMULA_OP_BITS, 1, FORMULA_WORD, FORMULA_FLOAT, FORMULA_NONE, FORMULA_NONE, false},
    {"float", "word", FORMULA_OP_FLOAT, 1, FORMULA_FLOAT, FORMULA_WORD, FORMULA_NONE, FORMULA_NONE, false},
};

enum { BUILTIN_COUNT = sizeof builtins / sizeof builtins[0], OPERATOR_COUNT = sizeof operators / sizeof operators[0] };

static int32_t column_of(const parser *p, const char *at) {
    return (int32_t)(at - p->text.line) + 1;
}

#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
static int32_t
fail_at(parser *p, const char *at, const char *format, ...) {
    if (p->status != FFN_OK)
        return 0;
    char what[FFN_DIAG_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    p->status = diag_fail(p->diag, FFN_BAD_SPEC, "column %d: %s", (int)column_of(p, at), what);
    return 0;
}

static void skip_spaces(parser *p) {
    while (p->at < p->text.end && (*p->at == ' ' || *p->at == '\t'))
        p->at++;
}

static bool at_symbol(parser *p, const char *symbol) {
    skip_spaces(p);
    const size_t length = strlen(symbol);
    return (size_t)(p->text.end - p->at) >= length && memcmp(p->at, symbol, length) == 0;
}

static bool accept(parser *p, const char *symbol) {
    if (!at_symbol(p, symbol))
        return false;
    p->at += strlen(symbol);
    return true;
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static size_t word_length(const parser *p) {
    const char *at = p->at;
    if (at < p->text.end && is_letter(*at))
        for (at++; at < p->text.end && (is_letter(*at) || (*at >= '0' && *at <= '9'));)
            at++;
    return (size_t)(at - p->at);
}

/* What stands at the cursor, for messages. */
static const char *seen(parser *p, char text[AST_WORD_BYTES + 2]) {
    skip_spaces(p);
    if (p->at >= p->text.end)
        return "the end of the formula";
    const size_t word = word_length(p), number = number_length(p->at, p->text.end);
    const size_t length = word > 0 ? word : number > 0 ? number : 1;
    snprintf(text, AST_WORD_BYTES + 2, "\"%.*s\"", (int)(length < AST_WORD_BYTES ? length : AST_WORD_BYTES - 1), p->at);
    return text;
}

static formula_type type_of(const parser *p, int32_t node) {
    return (formula_type)p->arena->nodes[node].type;
}

static const char *type_name(formula_type type) {
    return type == FORMULA_BOOL ? "a comparison" : type == FORMULA_WORD ? "a word" : "a number";
}

static int32_t add_node(parser *p, const char *at, ast_node node) {
    if (p->status != FFN_OK)
        return 0;
    if (p->arena->count - p->first >= AST_TEXT_NODES_MAX || p->arena->count >= AST_NODES_MAX)
        return fail_at(p, at, "the formula is too long: at most %d operations", AST_TEXT_NODES_MAX);
    p->arena->nodes[p->arena->count] = node;
    return p->arena->count++;
}

static int32_t add_operation(parser *p, const char *at, int32_t kind, formula_type type, int32_t a, int32_t b,
                             int32_t c) {
    return add_node(
        p, at,
        (ast_node){.kind = (uint8_t)kind, .type = (uint8_t)type, .a = (uint16_t)a, .b = (uint16_t)b, .c = (uint16_t)c});
}

static bool expect_type(parser *p, const char *at, int32_t node, formula_type wanted, const char *where) {
    if (p->status != FFN_OK)
        return false;
    const formula_type got = type_of(p, node);
    if (got == wanted)
        return true;
    if (wanted == FORMULA_BOOL)
        fail_at(p, at, "%s needs a comparison such as x < 0, not %s", where, type_name(got));
    else
        fail_at(p, at, "%s needs %s, not %s%s", where, type_name(wanted), type_name(got),
                got == FORMULA_BOOL ? " (a comparison is the first argument of select)" : "");
    return false;
}

static int32_t parse_level(parser *p, int32_t level);

static int32_t parse_expression(parser *p) {
    return parse_level(p, LEVEL_COMPARE);
}

static bool deeper(parser *p) {
    if (++p->depth <= AST_DEPTH_MAX)
        return true;
    fail_at(p, p->at, "nested more than %d deep", AST_DEPTH_MAX);
    return false;
}

static const char *near_name_at(size_t i, bool internal) {
    for (size_t k = 0; k < BUILTIN_COUNT; k++)
        if (internal || builtins[k].visible)
            if (i-- == 0)
                return builtins[k].name;
    const ast_function *function;
    for (size_t k = 0; (function = ast_function_at(k)) != NULL; k++)
        if (internal || function->visible)
            if (i-- == 0)
                return function->name;
    return NULL;
}

static const char *visible_name_at(size_t i) {
    return near_name_at(i, false);
}

static const char *internal_name_at(size_t i) {
    return near_name_at(i, true);
}

/* "(" a, b, ... ")" -> argument nodes; the count must be `arity`. */
static bool parse_arguments(parser *p, const char *begin, size_t length, int32_t arity, const char *takes,
                            int32_t arguments[3], const char *places[3]) {
    const char *const open = p->at;
    if (!accept(p, "(")) {
        char text[AST_WORD_BYTES + 2];
        fail_at(p, p->at, "%.*s needs its arguments, %.*s(%s), not %s", (int)length, begin, (int)length, begin, takes,
                seen(p, text));
        return false;
    }
    int32_t count = 0;
    if (!at_symbol(p, ")"))
        do {
            skip_spaces(p);
            const char *const place = p->at;
            const int32_t node = parse_expression(p);
            if (p->status != FFN_OK)
                return false;
            if (count < 3) {
                arguments[count] = node;
                places[count] = place;
            }
            count++;
        } while (accept(p, ","));
    char text[AST_WORD_BYTES + 2];
    if (!accept(p, ")")) {
        fail_at(p, p->at, "expected \")\" or \",\" after an argument of %.*s, not %s", (int)length, begin,
                seen(p, text));
        return false;
    }
    if (count != arity) {
        fail_at(p, open, "%.*s takes %d argument%s (%s), not %d", (int)length, begin, (int)arity, arity == 1 ? "" : "s",
                takes, (int)count);
        return false;
    }
    return true;
}

static int32_t parse_builtin(parser *p, const builtin_row *row, const char *begin, size_t length) {
    int32_t arguments[3] = {0};
    const char *places[3] = {begin, begin, begin};
    if (!parse_arguments(p, begin, length, row->arity, row->takes, arguments, places))
        return 0;
    const formula_type types[3] = {row->a, row->b, row->c};
    formula_type result = row->result;
    int32_t kind = row->kind;
    if (kind == FORMULA_OP_SELECT && type_of(p, arguments[1]) == FORMULA_WORD &&
        type_of(p, arguments[2]) == FORMULA_WORD) {
        kind = FORMULA_OP_WSELECT;
        result = FORMULA_WORD;
    }
    for (int32_t i = 0; i < row->arity; i++)
        if (!(kind == FORMULA_OP_WSELECT && i > 0) && !expect_type(p, places[i], arguments[i], types[i], row->name))
            return 0;
    return add_operation(p, begin, kind, result, arguments[0], arguments[1], arguments[2]);
}

static int32_t parse_call(parser *p, int32_t index, const char *begin, size_t length) {
    const ast_function *const function = ast_function_at((size_t)index);
    int32_t arguments[3] = {0};
    const char *places[3] = {begin, begin, begin};
    if (!parse_arguments(p, begin, length, function->arity, function->parameters, arguments, places))
        return 0;
    for (int32_t i = 0; i < function->arity; i++)
        if (!expect_type(p, places[i], arguments[i], FORMULA_FLOAT, function->name))
            return 0;
    const int32_t node = add_operation(p, begin, AST_CALL, FORMULA_FLOAT, arguments[0], arguments[1], arguments[2]);
    if (p->status == FFN_OK)
        p->arena->nodes[node].as.index = (uint32_t)index;
    return node;
}

static int32_t parse_word(parser *p) {
    const char *const begin = p->at;
    const size_t length = word_length(p);
    for (int32_t i = p->name_count - 1; i >= 0; i--)
        if (p->names[i].length == length && memcmp(p->names[i].begin, begin, length) == 0) {
            p->at += length;
            return p->names[i].node;
        }
    p->at += length;
    const bool internal = p->rules->internal;
    for (size_t i = 0; i < BUILTIN_COUNT; i++)
        if ((internal || builtins[i].visible) && strlen(builtins[i].name) == length &&
            memcmp(builtins[i].name, begin, length) == 0)
            return parse_builtin(p, &builtins[i], begin, length);
    const int32_t function = ast_function_find(begin, length);
    if (function >= 0 && (internal || ast_function_at((size_t)function)->visible))
        return parse_call(p, function, begin, length);

    char word[AST_WORD_BYTES], near[128] = "";
    snprintf(word, sizeof word, "%.*s", (int)(length < sizeof word ? length : sizeof word - 1), begin);
    if (at_symbol(p, "(")) {
        diag_near_names(word, internal ? internal_name_at : visible_name_at, near, sizeof near);
        return fail_at(p, begin, "unknown function \"%s\"%s", word, near);
    }
    return fail_at(p, begin, "unknown name \"%s\": this formula is one of %s", word, p->rules->names);
}

static int32_t parse_number(parser *p) {
    const char *const begin = p->at;
    if (p->rules->internal && p->text.end - begin > 2 && begin[0] == '0' && begin[1] == 'x') {
        uint32_t bits = 0;
        int32_t digits = 0;
        for (p->at += 2; p->at < p->text.end; p->at++, digits++) {
            const char c = *p->at;
            const int32_t digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
            if (digit < 0)
                break;
            bits = bits << 4 | (uint32_t)digit;
        }
        if (digits == 0 || digits > 8 || word_length(p) > 0)
            return fail_at(p, begin, "a word is 0x and up to 8 of 0123456789abcdef");
        return add_node(p, begin, (ast_node){.kind = FORMULA_OP_WORD, .type = FORMULA_WORD, .as.bits = bits});
    }
    const size_t length = number_length(begin, p->text.end);
    p->at += length;
    if (p->at < p->text.end && (is_letter(*p->at) || *p->at == '.')) {
        char text[AST_WORD_BYTES + 2];
        return fail_at(p, p->at, "a number such as 1.5 or 1e-3 cannot go on with %s", seen(p, text));
    }
    double value = 0;
    switch (number_parse(begin, length, &value)) {
    case NUMBER_TOO_LONG:
        return fail_at(p, begin, "the number has too many digits: f32 keeps 9");
    case NUMBER_TOO_LARGE:
        return fail_at(p, begin, "the number is too large: f32 ends at 3.4028235e38");
    case NUMBER_OK:
        break;
    }
    return add_node(p, begin, (ast_node){.kind = FORMULA_OP_NUMBER, .type = FORMULA_FLOAT, .as.number = value});
}

static int32_t parse_primary(parser *p) {
    skip_spaces(p);
    if (!deeper(p))
        return 0;
    int32_t node = 0;
    char text[AST_WORD_BYTES + 2];
    const char *const begin = p->at;
    if (accept(p, "-")) {
        skip_spaces(p);
        const char *const place = p->at;
        node = parse_primary(p);
        if (expect_type(p, place, node, FORMULA_FLOAT, "a minus sign"))
            node = add_operation(p, begin, FORMULA_OP_NEG, FORMULA_FLOAT, node, 0, 0);
    } else if (accept(p, "(")) {
        node = parse_expression(p);
        if (p->status == FFN_OK && !accept(p, ")"))
            fail_at(p, p->at, "expected \")\" for the \"(\" of column %d, not %s", (int)column_of(p, begin),
                    seen(p, text));
    } else if (word_length(p) > 0) {
        node = parse_word(p);
    } else if (number_length(p->at, p->text.end) > 0) {
        node = parse_number(p);
    } else {
        fail_at(p, p->at, "expected a number, a name, \"(\" or \"-\", not %s", seen(p, text));
    }
    p->depth--;
    return node;
}

/* The operator at the cursor if it binds at least as tightly as `level`. */
static const operator_row *accept_operator(parser *p, int32_t level) {
    for (size_t i = 0; i < OPERATOR_COUNT; i++)
        if (at_symbol(p, operators[i].text)) { /* longer ones stand before their beginnings */
            if (operators[i].level < level || (operators[i].floats == NO_OPERATION && !p->rules->internal))
                return NULL;
            p->at += strlen(operators[i].text);
            return &operators[i];
        }
    return NULL;
}

static int32_t parse_operator(parser *p, const operator_row *row, const char *begin, int32_t left, int32_t right,
                              const char *places[2]) {
    const bool words = row->words != NO_OPERATION && (row->floats == NO_OPERATION || type_of(p, left) == FORMULA_WORD);
    const formula_type wanted = words ? FORMULA_WORD : FORMULA_FLOAT;
    if (!expect_type(p, places[0], left, wanted, row->text) || !expect_type(p, places[1], right, wanted, row->text))
        return 0;
    if (row->words == FORMULA_OP_WSHL || row->words == FORMULA_OP_WSHR) {
        const ast_node distance = p->arena->nodes[right];
        if (distance.kind != FORMULA_OP_WORD || distance.as.bits > 31)
            return fail_at(p, places[1], "a shift distance is a constant from 0x0 to 0x1f");
        const int32_t node = add_operation(p, begin, row->words, FORMULA_WORD, left, 0, 0);
        if (p->status == FFN_OK)
            p->arena->nodes[node].as.bits = distance.as.bits;
        return node;
    }
    const formula_type result = row->level == LEVEL_COMPARE ? FORMULA_BOOL : wanted;
    return add_operation(p, begin, words ? row->words : row->floats, result, left, right, 0);
}

static int32_t parse_level(parser *p, int32_t level) {
    skip_spaces(p);
    const char *places[2] = {p->at, NULL};
    int32_t left = parse_primary(p);
    while (p->status == FFN_OK) {
        skip_spaces(p);
        const char *const begin = p->at;
        const operator_row *const row = accept_operator(p, level);
        if (!row)
            break;
        skip_spaces(p);
        places[1] = p->at;
        const int32_t right = parse_level(p, row->level + 1);
        if (p->status == FFN_OK)
            left = parse_operator(p, row, begin, left, right, places);
    }
    return left;
}

static void add_name(parser *p, const char *begin, size_t length, int32_t node) {
    if (p->name_count == AST_NAMES_MAX)
        fail_at(p, begin, "more than %d names", AST_NAMES_MAX);
    else
        p->names[p->name_count++] = (name){begin, length, node};
}

/* "let" name "=" expression ";" ... expression */
static int32_t parse_body(parser *p) {
    while (p->rules->internal && p->status == FFN_OK && at_symbol(p, "let ")) {
        p->at += 4;
        skip_spaces(p);
        const char *const begin = p->at;
        const size_t length = word_length(p);
        p->at += length;
        if (length == 0 || !accept(p, "="))
            return fail_at(p, p->at, "expected let NAME = VALUE;");
        const int32_t node = parse_expression(p);
        add_name(p, begin, length, node);
        if (!accept(p, ";"))
            return fail_at(p, p->at, "expected \";\" after let %.*s", (int)length, begin);
    }
    skip_spaces(p);
    const char *const begin = p->at;
    const int32_t result = parse_expression(p);
    expect_type(p, begin, result, FORMULA_FLOAT, "the formula");
    return result;
}

ffn_status ast_parse(ast_text text, const ast_rules *rules, ast_arena *arena, ast_body *body, ffn_diag *diag) {
    parser p = {.text = text, .at = text.begin, .rules = rules, .arena = arena, .first = arena->count, .diag = diag};
    uint32_t index = 0;
    for (const char *at = rules->names; *at; index++) {
        const size_t length = strcspn(at, ",");
        const int32_t node =
            add_node(&p, at, (ast_node){.kind = FORMULA_OP_ARGUMENT, .type = FORMULA_FLOAT, .as.index = index});
        add_name(&p, at, length, node);
        at += length + strspn(at + length, ", ");
    }
    const int32_t result = parse_body(&p);
    skip_spaces(&p);
    if (p.status == FFN_OK && p.at < text.end) {
        char what[AST_WORD_BYTES + 2];
        fail_at(&p, p.at, "expected an operator or the end of the formula, not %s", seen(&p, what));
    }
    if (p.status != FFN_OK) {
        arena->count = p.first;
        return p.status;
    }
    *body = (ast_body){p.first, arena->count, result};
    return FFN_OK;
}
