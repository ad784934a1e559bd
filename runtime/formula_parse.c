/* formula_parse.c: formula text -> operations in evaluation order, types checked
 *
 * Precedence climbing over one table of operators. Nodes are appended after their operands, so the list is in
 * evaluation order by construction. Nesting is bounded by AST_DEPTH_MAX, size by AST_TEXT_NODES_MAX: no text, however
 * long or hostile, costs more stack than that. The first mistake ends the parse; its message names the column. */
#include <stdio.h>
#include <string.h>

#include "diag.h"
#include "formula_ast.h"
#include "formula_cursor.h"

typedef struct name {
    const char *begin;
    size_t length;
    int32_t node; /* what it stands for */
} name;

typedef struct parser {
    cursor in;
    const ast_rules *rules;
    ast_arena *arena;
    int32_t first, depth;
    int32_t name_count;
    name names[AST_NAMES_MAX];
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

/* Node 0, which no one looks at once the cursor has failed. */
#define FAIL_AT(p, ...) (cursor_fail(&(p)->in, __VA_ARGS__), 0)

static formula_type type_of(const parser *p, int32_t node) {
    return (formula_type)p->arena->nodes[node].type;
}

static const char *type_name(formula_type type) {
    return type == FORMULA_BOOL ? "a comparison" : type == FORMULA_WORD ? "a word" : "a number";
}

static int32_t add_node(parser *p, const char *at, ast_node node) {
    if (p->in.status != FFN_OK)
        return 0;
    if (p->arena->count - p->first >= AST_TEXT_NODES_MAX || p->arena->count >= AST_NODES_MAX)
        return FAIL_AT(p, at, "the formula is too long: at most %d operations", AST_TEXT_NODES_MAX);
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
    if (p->in.status != FFN_OK)
        return false;
    const formula_type got = type_of(p, node);
    if (got == wanted)
        return true;
    if (wanted == FORMULA_BOOL)
        cursor_fail(&p->in, at, "%s needs a comparison such as x < 0, not %s", where, type_name(got));
    else
        cursor_fail(&p->in, at, "%s needs %s, not %s%s", where, type_name(wanted), type_name(got),
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
    cursor_fail(&p->in, p->in.at, "nested more than %d deep", AST_DEPTH_MAX);
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

/* What follows is kept out of the functions that nest: their frames add up, to AST_DEPTH_MAX of each. */
__attribute__((noinline)) static bool fail_to_open(parser *p, const char *begin, size_t length, const char *takes) {
    char text[CURSOR_SEEN_BYTES];
    cursor_fail(&p->in, p->in.at, "%.*s needs its arguments, %.*s(%s), not %s", (int)length, begin, (int)length, begin,
                takes, cursor_seen(&p->in, text));
    return false;
}

__attribute__((noinline)) static bool fail_to_go_on(parser *p, const char *begin, size_t length) {
    char text[CURSOR_SEEN_BYTES];
    cursor_fail(&p->in, p->in.at, "expected \")\" or \",\" after an argument of %.*s, not %s", (int)length, begin,
                cursor_seen(&p->in, text));
    return false;
}

__attribute__((noinline)) static void fail_to_close(parser *p, const char *open) {
    char text[CURSOR_SEEN_BYTES];
    cursor_fail(&p->in, p->in.at, "expected \")\" for the \"(\" of column %d, not %s", (int)cursor_column(&p->in, open),
                cursor_seen(&p->in, text));
}

__attribute__((noinline)) static void fail_to_begin(parser *p) {
    char text[CURSOR_SEEN_BYTES];
    cursor_fail(&p->in, p->in.at, "expected a number, a name, \"(\" or \"-\", not %s", cursor_seen(&p->in, text));
}

__attribute__((noinline)) static int32_t fail_to_know(parser *p, const char *begin, size_t length) {
    char word[AST_WORD_BYTES], near[128] = "";
    snprintf(word, sizeof word, "%.*s", (int)(length < sizeof word ? length : sizeof word - 1), begin);
    if (cursor_is_at(&p->in, "(")) {
        diag_near_names(word, p->rules->internal ? internal_name_at : visible_name_at, near, sizeof near);
        return FAIL_AT(p, begin, "unknown function \"%s\"%s", word, near);
    }
    return FAIL_AT(p, begin, "unknown name \"%s\": this formula is one of %s", word, p->rules->names);
}

/* "(" a, b, ... ")" -> argument nodes; the count must be `arity`. */
static bool parse_arguments(parser *p, const char *begin, size_t length, int32_t arity, const char *takes,
                            int32_t arguments[3], const char *places[3]) {
    const char *const open = p->in.at;
    if (!cursor_accept(&p->in, "("))
        return fail_to_open(p, begin, length, takes);
    int32_t count = 0;
    if (!cursor_is_at(&p->in, ")"))
        do {
            cursor_skip_spaces(&p->in);
            const char *const place = p->in.at;
            const int32_t node = parse_expression(p);
            if (p->in.status != FFN_OK)
                return false;
            if (count < 3) {
                arguments[count] = node;
                places[count] = place;
            }
            count++;
        } while (cursor_accept(&p->in, ","));
    if (!cursor_accept(&p->in, ")"))
        return fail_to_go_on(p, begin, length);
    if (count != arity) {
        cursor_fail(&p->in, open, "%.*s takes %d argument%s (%s), not %d", (int)length, begin, (int)arity,
                    arity == 1 ? "" : "s", takes, (int)count);
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
    if (p->in.status == FFN_OK)
        p->arena->nodes[node].as.index = (uint32_t)index;
    return node;
}

static int32_t parse_word(parser *p) {
    const char *const begin = p->in.at;
    const size_t length = cursor_word(&p->in);
    for (int32_t i = p->name_count - 1; i >= 0; i--)
        if (p->names[i].length == length && memcmp(p->names[i].begin, begin, length) == 0) {
            p->in.at += length;
            return p->names[i].node;
        }
    p->in.at += length;
    const bool internal = p->rules->internal;
    for (size_t i = 0; i < BUILTIN_COUNT; i++)
        if ((internal || builtins[i].visible) && strlen(builtins[i].name) == length &&
            memcmp(builtins[i].name, begin, length) == 0)
            return parse_builtin(p, &builtins[i], begin, length);
    const int32_t function = ast_function_find(begin, length);
    if (function >= 0 && (internal || ast_function_at((size_t)function)->visible))
        return parse_call(p, function, begin, length);
    return fail_to_know(p, begin, length);
}

__attribute__((noinline)) static int32_t parse_number(parser *p) {
    const char *const begin = p->in.at;
    if (p->rules->internal && p->in.end - begin > 2 && begin[0] == '0' && begin[1] == 'x') {
        uint32_t bits = 0;
        int32_t digits = 0;
        for (p->in.at += 2; p->in.at < p->in.end; p->in.at++, digits++) {
            const char c = *p->in.at;
            const int32_t digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
            if (digit < 0)
                break;
            bits = bits << 4 | (uint32_t)digit;
        }
        if (digits == 0 || digits > 8 || cursor_word(&p->in) > 0)
            return FAIL_AT(p, begin, "a word is 0x and up to 8 of 0123456789abcdef");
        return add_node(p, begin, (ast_node){.kind = FORMULA_OP_WORD, .type = FORMULA_WORD, .as.bits = bits});
    }
    const size_t length = number_length(begin, p->in.end);
    p->in.at += length;
    if (p->in.at < p->in.end && (cursor_is_letter(*p->in.at) || *p->in.at == '.')) {
        char text[CURSOR_SEEN_BYTES];
        return FAIL_AT(p, p->in.at, "a number such as 1.5 or 1e-3 cannot go on with %s", cursor_seen(&p->in, text));
    }
    double value = 0;
    switch (number_parse(begin, length, &value)) {
    case NUMBER_TOO_LONG:
        return FAIL_AT(p, begin, "the number has too many digits: f32 keeps 9");
    case NUMBER_TOO_LARGE:
        return FAIL_AT(p, begin, "the number is too large: f32 ends at 3.4028235e38");
    case NUMBER_OK:
        break;
    }
    return add_node(p, begin, (ast_node){.kind = FORMULA_OP_NUMBER, .type = FORMULA_FLOAT, .as.number = value});
}

static int32_t parse_primary(parser *p) {
    cursor_skip_spaces(&p->in);
    if (!deeper(p))
        return 0;
    int32_t node = 0;
    const char *const begin = p->in.at;
    if (cursor_accept(&p->in, "-")) {
        cursor_skip_spaces(&p->in);
        const char *const place = p->in.at;
        node = parse_primary(p);
        if (expect_type(p, place, node, FORMULA_FLOAT, "a minus sign"))
            node = add_operation(p, begin, FORMULA_OP_NEG, FORMULA_FLOAT, node, 0, 0);
    } else if (cursor_accept(&p->in, "(")) {
        node = parse_expression(p);
        if (p->in.status == FFN_OK && !cursor_accept(&p->in, ")"))
            fail_to_close(p, begin);
    } else if (cursor_word(&p->in) > 0) {
        node = parse_word(p);
    } else if (number_length(p->in.at, p->in.end) > 0) {
        node = parse_number(p);
    } else {
        fail_to_begin(p);
    }
    p->depth--;
    return node;
}

/* The operator at the cursor if it binds at least as tightly as `level`. */
static const operator_row *accept_operator(parser *p, int32_t level) {
    for (size_t i = 0; i < OPERATOR_COUNT; i++)
        if (cursor_is_at(&p->in, operators[i].text)) { /* longer ones stand before their beginnings */
            if (operators[i].level < level || (operators[i].floats == NO_OPERATION && !p->rules->internal))
                return NULL;
            p->in.at += strlen(operators[i].text);
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
            return FAIL_AT(p, places[1], "a shift distance is a constant from 0x0 to 0x1f");
        const int32_t node = add_operation(p, begin, row->words, FORMULA_WORD, left, 0, 0);
        if (p->in.status == FFN_OK)
            p->arena->nodes[node].as.bits = distance.as.bits;
        return node;
    }
    const formula_type result = row->level == LEVEL_COMPARE ? FORMULA_BOOL : wanted;
    return add_operation(p, begin, words ? row->words : row->floats, result, left, right, 0);
}

static int32_t parse_level(parser *p, int32_t level) {
    cursor_skip_spaces(&p->in);
    const char *places[2] = {p->in.at, NULL};
    int32_t left = parse_primary(p);
    while (p->in.status == FFN_OK) {
        cursor_skip_spaces(&p->in);
        const char *const begin = p->in.at;
        const operator_row *const row = accept_operator(p, level);
        if (!row)
            break;
        cursor_skip_spaces(&p->in);
        places[1] = p->in.at;
        const int32_t right = parse_level(p, row->level + 1);
        if (p->in.status == FFN_OK)
            left = parse_operator(p, row, begin, left, right, places);
    }
    return left;
}

static void add_name(parser *p, const char *begin, size_t length, int32_t node) {
    if (p->name_count == AST_NAMES_MAX)
        cursor_fail(&p->in, begin, "more than %d names", AST_NAMES_MAX);
    else
        p->names[p->name_count++] = (name){begin, length, node};
}

/* "let" name "=" expression ";" ... expression */
static int32_t parse_body(parser *p) {
    while (p->rules->internal && p->in.status == FFN_OK && cursor_is_at(&p->in, "let ")) {
        p->in.at += 4;
        cursor_skip_spaces(&p->in);
        const char *const begin = p->in.at;
        const size_t length = cursor_word(&p->in);
        p->in.at += length;
        if (length == 0 || !cursor_accept(&p->in, "="))
            return FAIL_AT(p, p->in.at, "expected let NAME = VALUE;");
        const int32_t node = parse_expression(p);
        add_name(p, begin, length, node);
        if (!cursor_accept(&p->in, ";"))
            return FAIL_AT(p, p->in.at, "expected \";\" after let %.*s", (int)length, begin);
    }
    cursor_skip_spaces(&p->in);
    const char *const begin = p->in.at;
    const int32_t result = parse_expression(p);
    expect_type(p, begin, result, FORMULA_FLOAT, "the formula");
    return result;
}

ffn_status ast_parse(ast_text text, const ast_rules *rules, ast_arena *arena, ast_body *body, ffn_diag *diag) {
    parser p = {
        .in = {text.begin, text.end, text.line, FFN_OK, diag}, .rules = rules, .arena = arena, .first = arena->count};
    uint32_t index = 0;
    for (const char *at = rules->names; *at; index++) {
        const size_t length = strcspn(at, ",");
        const int32_t node =
            add_node(&p, at, (ast_node){.kind = FORMULA_OP_ARGUMENT, .type = FORMULA_FLOAT, .as.index = index});
        add_name(&p, at, length, node);
        at += length + strspn(at + length, ", ");
    }
    const int32_t result = parse_body(&p);
    cursor_skip_spaces(&p.in);
    if (p.in.at < p.in.end) {
        char what[CURSOR_SEEN_BYTES];
        cursor_fail(&p.in, p.in.at, "expected an operator or the end of the formula, not %s", cursor_seen(&p.in, what));
    }
    if (p.in.status != FFN_OK) {
        arena->count = p.first;
        return p.in.status;
    }
    *body = (ast_body){p.first, arena->count, result};
    return FFN_OK;
}
