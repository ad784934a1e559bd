/* formula_ast.h: formula text -> a list of operations in evaluation order, before functions are inlined
 *
 * Private to runtime/formula*.c. Operands stand before their users, so whoever consumes a body (graph, canonical text,
 * reference) walks it front to back; recursion happens only where one formula calls another. */
#ifndef FFN_FORMULA_AST_H
#define FFN_FORMULA_AST_H

#include "formula.h"

/* What the language knows beyond the operations of a graph. */
typedef enum ast_kind { /* the values below FORMULA_OP_COUNT are formula_op */
                        AST_GT = FORMULA_OP_COUNT,
                        AST_GE,
                        AST_MIN,
                        AST_MAX,
                        AST_CLAMP,
                        AST_ABS,
                        AST_CALL, /* index: a row of functions.def */
} ast_kind;

typedef struct ast_node {
    uint8_t kind;
    uint8_t type; /* formula_type */
    uint16_t a, b, c;
    union {
        double number;  /* NUMBER */
        uint32_t bits;  /* WORD; WSHL and WSHR: the distance */
        uint32_t index; /* ARGUMENT: which name; CALL: which function */
    } as;
} ast_node;

#define AST_NODES_MAX 2048 /* of one activation and the functions being inlined, together */
#define AST_TEXT_NODES_MAX 1024
#define AST_NAMES_MAX 64 /* arguments, parameters and lets of one formula */
#define AST_DEPTH_MAX 64 /* parentheses, calls and signs inside one another */
#define AST_WORD_BYTES 32

/* Nodes of several formulas, the innermost last. */
typedef struct ast_arena {
    int32_t count;
    ast_node nodes[AST_NODES_MAX];
} ast_arena;

typedef struct ast_body {
    int32_t first, end; /* nodes of the arena; the last one is not always the result */
    int32_t result;
} ast_body;

/* How a text is to be read. */
typedef struct ast_rules {
    const char *names; /* "g,u": the arguments, comma-separated */
    bool internal;     /* let, words, the names of functions.def that users do not see */
} ast_rules;

/* A piece of text and where it stands in the whole, for columns in messages. */
typedef struct ast_text {
    const char *begin, *end;
    const char *line; /* column 1 */
} ast_text;

/* On failure the arena is as it was. */
ffn_status ast_parse(ast_text text, const ast_rules *rules, ast_arena *arena, ast_body *body, ffn_diag *diag);

/* ---- Functions of the language: templates/functions.def, then those of fast.def ---- */

typedef struct ast_function {
    const char *name, *parameters, *body;
    bool visible; /* to users */
    int32_t arity;
    double ulps; /* bound of the error of the f32 evaluation; 0 for helpers that are no function of their own */
} ast_function;

/* NULL past the end. */
const ast_function *ast_function_at(size_t i);
/* Index of the function, or -1. */
int32_t ast_function_find(const char *name, size_t length);

/* ---- Activation text: a row of templates/activations.def with parameters, or act(F), gated(F) ---- */

#define ACTIVATION_PARAMETERS_MAX 4

typedef struct activation_row {
    ffn_activation shown;
    const char *kernel; /* the formula that is compiled */
    double ulps;
    double least, most; /* every parameter lies between */
} activation_row;

/* NULL past the end. */
const activation_row *activation_row_at(size_t i);
/* The formula of FFN_FAST, a row of templates/fast.def; NULL: the accurate one costs no more. */
const char *activation_fast(const activation_row *row);
/* The i-th parameter of a row: name into `name`, its default; false past the end. */
bool activation_parameter_at(const activation_row *row, int32_t i, char name[AST_WORD_BYTES], float *preset);

typedef struct activation_text {
    const activation_row *row; /* NULL: the user's own formula */
    bool gated;
    int32_t parameter_count;
    float parameters[ACTIVATION_PARAMETERS_MAX]; /* of the row, defaults filled in */
    ast_text formula;                            /* of act() or gated() */
} activation_text;

ffn_status activation_parse(const char *text, activation_text *parsed, ffn_diag *diag);
/* The formula behind the text (with FFN_FAST the fast one, if there is one), and the names it may use: "x" or "g,u",
 * then the parameters. */
ast_text activation_formula(const activation_text *parsed, uint32_t accuracy);
#define ACTIVATION_NAMES_BYTES (8 + ACTIVATION_PARAMETERS_MAX * AST_WORD_BYTES)
void activation_names(const activation_text *parsed, char names[ACTIVATION_NAMES_BYTES]);

/* ---- Numbers, independent of the locale ---- */

#define NUMBER_TEXT_BYTES 32

/* Length of the decimal number at the start of `text`, 0 if none starts here: digits, point, exponent; no sign. */
size_t number_length(const char *begin, const char *end);
typedef enum number_answer { NUMBER_OK, NUMBER_TOO_LONG, NUMBER_TOO_LARGE } number_answer;
/* Correctly rounded to f32. */
number_answer number_parse(const char *text, size_t length, double *value);
/* The shortest text that reads back as the same f32; finite values only. */
void number_format(float value, char text[NUMBER_TEXT_BYTES]);

#endif
