/* formula.h: the text of an activation -> a graph of IEEE operations on one f32 lane
 *
 * One graph, several consumers: the generator turns it into IR, the portable kernel evaluates it in plain C, an
 * emitted header gets it as C text. Each operation rounds once, to nearest even, so the bits agree by construction.
 * The language is described in docs/formula.md.
 *
 * Invariant of a graph: nodes stand in topological order (operands before users), equal nodes stand once, every node
 * is needed by the result; there is no division of work left to the consumers but to translate node by node. */
#ifndef FFN_FORMULA_H
#define FFN_FORMULA_H

#include "ffn.h"

/* Kinds of values: FLOAT (f32), WORD (32 bits, unsigned, wrapping), BOOL (a comparison's answer). */
typedef enum formula_type { FORMULA_FLOAT, FORMULA_WORD, FORMULA_BOOL, FORMULA_NONE } formula_type;

/*   op         text      result, operands
 * LT..NE compare as C does on floats: with a NaN all but NE are false. min, max, clamp, abs of the language are built
 * from LT.., SELECT, BITS, WAND and FLOAT. */
#define FORMULA_OP_LIST(X)                                                           \
    X(NUMBER, "number", FLOAT, NONE, NONE, NONE)     /* bits: the f32 */             \
    X(WORD, "word", WORD, NONE, NONE, NONE)          /* bits: the constant */        \
    X(ARGUMENT, "argument", FLOAT, NONE, NONE, NONE) /* bits: 0 is x or g, 1 is u */ \
    X(ADD, "add", FLOAT, FLOAT, FLOAT, NONE)                                         \
    X(SUB, "sub", FLOAT, FLOAT, FLOAT, NONE)                                         \
    X(MUL, "mul", FLOAT, FLOAT, FLOAT, NONE)                                         \
    X(DIV, "div", FLOAT, FLOAT, FLOAT, NONE)                                         \
    X(FMA, "fma", FLOAT, FLOAT, FLOAT, FLOAT) /* a * b + c, rounded once */          \
    X(SQRT, "sqrt", FLOAT, FLOAT, NONE, NONE)                                        \
    X(NEG, "neg", FLOAT, FLOAT, NONE, NONE) /* flips the sign bit */                 \
    X(LT, "lt", BOOL, FLOAT, FLOAT, NONE)                                            \
    X(LE, "le", BOOL, FLOAT, FLOAT, NONE)                                            \
    X(EQ, "eq", BOOL, FLOAT, FLOAT, NONE)                                            \
    X(NE, "ne", BOOL, FLOAT, FLOAT, NONE)                                            \
    X(SELECT, "select", FLOAT, BOOL, FLOAT, FLOAT) /* a ? b : c */                   \
    X(WSELECT, "wselect", WORD, BOOL, WORD, WORD)                                    \
    X(BITS, "bits", WORD, FLOAT, NONE, NONE)                                         \
    X(FLOAT, "float", FLOAT, WORD, NONE, NONE)                                       \
    X(WADD, "wadd", WORD, WORD, WORD, NONE)                                          \
    X(WSUB, "wsub", WORD, WORD, WORD, NONE)                                          \
    X(WAND, "wand", WORD, WORD, WORD, NONE)                                          \
    X(WOR, "wor", WORD, WORD, WORD, NONE)                                            \
    X(WXOR, "wxor", WORD, WORD, WORD, NONE)                                          \
    X(WSHL, "wshl", WORD, WORD, NONE, NONE) /* bits: the distance, 0..31 */          \
    X(WSHR, "wshr", WORD, WORD, NONE, NONE) /* logical; bits: the distance */

typedef enum formula_op {
#define FORMULA_OP_ENUM(ID, text, result, a, b, c) FORMULA_OP_##ID,
    FORMULA_OP_LIST(FORMULA_OP_ENUM)
#undef FORMULA_OP_ENUM
        FORMULA_OP_COUNT
} formula_op;

#define FORMULA_NODES_MAX 1024

typedef struct formula_node {
    uint16_t op;
    uint16_t a, b, c; /* node indices; 0 where the op has no such operand */
    uint32_t bits;    /* the constant of NUMBER, WORD, ARGUMENT, WSHL, WSHR */
} formula_node;

typedef struct formula_graph {
    int32_t count;
    int32_t result; /* always count - 1 */
    bool gated;
    formula_node nodes[FORMULA_NODES_MAX];
} formula_graph;

/* Canonical activation text and accuracy (a spec's fields) -> graph, functions of templates/functions.def and fast.def
 * inlined. BAD_SPEC with the column of the mistake. The graph is the caller's memory (12 KiB: not on a small stack);
 * NULL: the text is checked only. OUT_OF_MEMORY: it works on the heap. */
ffn_status formula_build(const char *activation, uint32_t accuracy, formula_graph *graph, ffn_diag *diag);

/* User's text of an activation -> canonical text: spaces out, parameters equal to their defaults left out, numbers in
 * shortest form. Checks everything formula_build checks; OUT_OF_MEMORY as there. */
ffn_status formula_canonical(const char *text, char *canonical, size_t canonical_bytes, bool *gated, ffn_diag *diag);

/* Whether a valid text is that of a gated activation; needs no memory and does not read the formula. */
bool formula_gated(const char *activation);

/* Whether a text is a user's formula: act(F) or gated(F). */
bool formula_is_own(const char *activation);

/* out[i] = graph(g[i], u[i]) in plain C, bit for bit what a kernel computes; u may be NULL where the graph is not
 * gated; out may be g or u. Uses at most 32 KiB of stack and no heap. The FMA unit is used where the CPU has one. */
void formula_eval(const formula_graph *graph, int64_t count, const float *g, const float *u, float *out);

/* The independent path: the same formula in double through libm, not through the graph: text of the activation ->
 * value at (g, u). `bound` (may be NULL) gets the absolute error an f32 kernel is allowed there: for a built-in
 * activation its ULP bound of templates/activations.def or the absolute one of FFN_FAST, for a user's formula a running
 * error analysis. OUT_OF_MEMORY as above. */
ffn_status formula_reference(const char *activation, uint32_t accuracy, double g, double u, double *value,
                             double *bound, ffn_diag *diag);

#endif
