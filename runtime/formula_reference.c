/* formula_reference.c: the value of an activation in double through libm, and how far f32 code may be from it
 *
 * The graph takes no part: the text is evaluated operation by operation, functions of templates/functions.def through
 * the C functions below. Beside each value goes an interval that holds whatever the f32 evaluation can have there. For
 * a user's formula the distance to its ends is the bound; for a built-in the bound is its row's, and the interval only
 * tells where nothing can be promised (0 times infinity, a comparison that rounding decides). */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "diag.h"
#include "formula_ast.h"

/* What an f32 evaluation has where the exact one has `value`: something in [low, high], or, if open, anything. A value
 * that is NaN for certain has low = high = NaN. A comparison has 0 and 1. */
typedef struct estimate {
    double value, low, high;
    bool open;
} estimate;

/* ---- The functions, once more ---- */

static double ref_sigmoid(double x) {
    const double t = exp(-fabs(x));
    return (x < 0 ? t : 1) / (1 + t);
}

static double ref_softplus(double x) {
    return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}

static double ref_swish(double x, double beta) {
    return x == -INFINITY ? -0.0 : x * ref_sigmoid(beta * x);
}

static double ref_silu(double x) {
    return ref_swish(x, 1);
}

static double ref_gelu(double x) {
    return x == -INFINITY ? -0.0 : 0.5 * x * erfc(-x * sqrt(0.5));
}

static double ref_gelu_tanh(double x) {
    return x == -INFINITY ? -0.0 : x * ref_sigmoid(2 * sqrt(2 / acos(-1.0)) * (x + 0.044715 * x * x * x));
}

static double ref_mish(double x) {
    return x == -INFINITY ? -0.0 : x * tanh(ref_softplus(x));
}

static double ref_leaky_relu(double x, double slope) {
    return x < 0 ? slope * x : x;
}

static double ref_elu(double x, double alpha) {
    return x < 0 ? alpha * expm1(x) : x;
}

static double ref_selu(double x) {
    return 1.0507009873554804934193349852946 * ref_elu(x, 1.6732632423543772848170429916717);
}

static double ref_hardsigmoid(double x) {
    return x <= -3 ? 0 : x >= 3 ? 1 : (x + 3) / 6;
}

static double ref_hardswish(double x) {
    return x == -INFINITY ? -0.0 : x * ref_hardsigmoid(x);
}

typedef struct reference_row {
    const char *name;
    double (*of_one)(double);
    double (*of_two)(double, double);
    bool rises; /* monotonic, so that an interval goes to an interval */
} reference_row;

static const reference_row references[] = {
    {"exp", exp, NULL, true},
    {"expm1", expm1, NULL, true},
    {"log", log, NULL, true},
    {"log1p", log1p, NULL, true},
    {"erf", erf, NULL, true},
    {"erfc", erfc, NULL, false},
    {"tanh", tanh, NULL, true},
    {"sigmoid", ref_sigmoid, NULL, true},
    {"softplus", ref_softplus, NULL, true},
    {"silu", ref_silu, NULL, false},
    {"swish", NULL, ref_swish, false},
    {"gelu", ref_gelu, NULL, false},
    {"gelu_tanh", ref_gelu_tanh, NULL, false},
    {"mish", ref_mish, NULL, false},
    {"leaky_relu", NULL, ref_leaky_relu, false},
    {"elu", NULL, ref_elu, false},
    {"selu", ref_selu, NULL, true},
    {"hardsigmoid", ref_hardsigmoid, NULL, true},
    {"hardswish", ref_hardswish, NULL, false},
};

static const reference_row *reference_find(const char *name) {
    for (size_t i = 0; i < sizeof references / sizeof references[0]; i++)
        if (strcmp(references[i].name, name) == 0)
            return &references[i];
    return NULL;
}

/* ---- Intervals ---- */

/* A few units of double further down or up. */
static double nudged(double end, double direction) {
    return isinf(end) ? end : end + direction * fabs(end) * 0x1p-50;
}

/* The f32 that an operation can round an exact result in [low, high] to. Rounding keeps order, so the ends will do; the
 * ends are themselves known to a few units of double only. */
static estimate rounded(double value, double low, double high) {
    if (isnan(low) || isnan(high))
        return (estimate){value, NAN, NAN, !isnan(value)};
    return (estimate){value, (float)nudged(low, -1), (float)nudged(high, 1), false};
}

static estimate exactly(double value, double low, double high) {
    return (estimate){value, low, high, false};
}

static estimate nothing_known(double value) {
    return (estimate){value, -INFINITY, INFINITY, true};
}

static bool is_point(estimate e) {
    return !e.open && (e.low == e.high || isnan(e.low));
}

static double least(const double *values, int32_t count) {
    double answer = values[0];
    for (int32_t i = 1; i < count; i++)
        answer = values[i] < answer || isnan(values[i]) ? values[i] : answer;
    return answer;
}

static double most(const double *values, int32_t count) {
    double answer = values[0];
    for (int32_t i = 1; i < count; i++)
        answer = values[i] > answer || isnan(values[i]) ? values[i] : answer;
    return answer;
}

/* NaN somewhere among the corners of what is not a point: NaN is possible and not certain. */
static estimate from_corners(double value, const double *corners, int32_t count, bool certain) {
    bool nan = false;
    for (int32_t i = 0; i < count; i++)
        nan = nan || isnan(corners[i]);
    if (nan)
        return certain ? exactly(NAN, NAN, NAN) : nothing_known(value);
    return rounded(value, least(corners, count), most(corners, count));
}

static estimate arithmetic(int32_t op, estimate a, estimate b, estimate c) {
    double value = 0, corners[4];
    const double as[4] = {a.low, a.low, a.high, a.high}, bs[4] = {b.low, b.high, b.low, b.high};
    switch (op) {
    case FORMULA_OP_ADD:
        value = a.value + b.value;
        break;
    case FORMULA_OP_SUB:
        value = a.value - b.value;
        break;
    case FORMULA_OP_MUL:
        value = a.value * b.value;
        break;
    case FORMULA_OP_DIV:
        value = a.value / b.value;
        break;
    default:
        value = fma(a.value, b.value, c.value);
        break;
    }
    if (a.open || b.open || c.open)
        return nothing_known(value);
    const bool certain = is_point(a) && is_point(b) && is_point(c);
    if (op == FORMULA_OP_DIV && !certain && b.low <= 0 && b.high >= 0)
        return nothing_known(value);
    double highs[4];
    for (int32_t i = 0; i < 4; i++) {
        corners[i] = op == FORMULA_OP_ADD   ? as[i] + bs[i]
                     : op == FORMULA_OP_SUB ? as[i] - bs[i]
                     : op == FORMULA_OP_DIV ? as[i] / bs[i]
                                            : as[i] * bs[i];
        highs[i] = corners[i];
    }
    if (op != FORMULA_OP_FMA)
        return from_corners(value, corners, 4, certain);
    for (int32_t i = 0; i < 4; i++) {
        corners[i] += c.low;
        highs[i] += c.high;
    }
    const double ends[2] = {least(corners, 4), most(highs, 4)};
    return from_corners(value, ends, 2, certain);
}

static estimate square_root(estimate a) {
    const double value = sqrt(a.value);
    if (a.open || (a.low < 0 && a.high >= 0 && !is_point(a)))
        return nothing_known(value);
    const double ends[2] = {sqrt(a.low), sqrt(a.high)};
    return from_corners(value, ends, 2, a.high < 0 || is_point(a));
}

static estimate extreme(estimate a, estimate b, bool smaller) {
    const double sign = smaller ? 1 : -1;
    const double value = isnan(a.value)                                       ? a.value
                         : isnan(b.value) || sign * b.value <= sign * a.value ? b.value
                                                                              : a.value;
    if (a.open || b.open)
        return nothing_known(value);
    if (isnan(a.low) || isnan(b.low))
        return exactly(value, NAN, NAN);
    return smaller ? exactly(value, fmin(a.low, b.low), fmin(a.high, b.high))
                   : exactly(value, fmax(a.low, b.low), fmax(a.high, b.high));
}

static estimate absolute(estimate a) {
    if (a.low >= 0 || a.open || isnan(a.low))
        return (estimate){fabs(a.value), a.low, a.high, a.open};
    const double high = fmax(-a.low, a.high);
    return exactly(fabs(a.value), a.high <= 0 ? -a.high : 0, high);
}

static bool holds(int32_t op, double a, double b) {
    switch (op) {
    case FORMULA_OP_LT:
        return a < b;
    case FORMULA_OP_LE:
        return a <= b;
    case AST_GT:
        return a > b;
    case AST_GE:
        return a >= b;
    case FORMULA_OP_EQ:
        return a == b;
    default:
        return a != b;
    }
}

static estimate comparison(int32_t op, estimate a, estimate b) {
    const double value = holds(op, a.value, b.value);
    if (a.open || b.open)
        return exactly(value, 0, 1);
    const bool apart = a.high < b.low || b.high < a.low;
    const bool same_order =
        holds(op, a.low, b.high) == holds(op, a.high, b.low) && (op != FORMULA_OP_EQ && op != FORMULA_OP_NE);
    if (apart || same_order || (is_point(a) && is_point(b))) {
        const double answer = holds(op, a.low, b.low);
        return exactly(value, answer, answer);
    }
    return exactly(value, 0, 1);
}

static estimate choice(estimate test, estimate yes, estimate no) {
    const double value = test.value != 0 ? yes.value : no.value;
    if (test.low == test.high) {
        const estimate chosen = test.low != 0 ? yes : no;
        return (estimate){value, chosen.low, chosen.high, chosen.open};
    }
    if (yes.open || no.open || isnan(yes.low) || isnan(no.low))
        return nothing_known(value);
    return exactly(value, fmin(yes.low, no.low), fmax(yes.high, no.high));
}

static double ulp_of(double value) {
    int exponent;
    frexp(value, &exponent);
    return ldexp(1, (exponent - 1 > -126 ? exponent - 1 : -126) - 23);
}

/* A function's own error: some units in the last place, and one smallest subnormal where the value is not lost in it.
 */
static double own_error(double value, double ulps) {
    return isinf(value) || fabs(value) < 0x1p-151 ? 0 : ulps * ulp_of(value) + 0x1p-149;
}

static estimate call(const ast_function *function, estimate a, estimate b) {
    const reference_row *const row = reference_find(function->name);
    const double value = row->of_one ? row->of_one(a.value) : row->of_two(a.value, b.value);
    if (a.open || b.open || (!is_point(a) && !row->rises && row->of_one != erfc))
        return nothing_known(value);
    if (isnan(a.low))
        return exactly(value, NAN, NAN);
    double low = row->of_one ? row->of_one(a.low) : row->of_two(a.low, b.low);
    double high = row->of_one ? row->of_one(a.high) : low;
    if (row->of_one == erfc) {
        const double swap = low;
        low = high;
        high = swap;
    }
    if (isnan(low) || isnan(high)) /* log of something negative */
        return isnan(high) && (isnan(low) || is_point(a)) ? exactly(value, NAN, NAN) : nothing_known(value);
    low -= own_error(low, function->ulps);
    high += own_error(high, function->ulps);
    return rounded(value, low, high);
}

static estimate negative(estimate a) {
    return (estimate){-a.value, -a.high, -a.low, a.open};
}

typedef struct evaluation { /* 64 KiB: never on the stack */
    ast_arena arena;
    estimate at[AST_TEXT_NODES_MAX]; /* of each node */
} evaluation;

static estimate evaluate(evaluation *work, const ast_body *body, const double *arguments) {
    estimate *const at = work->at;
    at[0] = exactly(0, 0, 0); /* what operations without operands name */
    for (int32_t i = body->first; i < body->end; i++) {
        const ast_node *const node = &work->arena.nodes[i];
        const estimate a = at[node->a], b = at[node->b], c = at[node->c];
        switch ((int32_t)node->kind) {
        case FORMULA_OP_NUMBER:
            at[i] = exactly(node->as.number, node->as.number, node->as.number);
            break;
        case FORMULA_OP_ARGUMENT:
            at[i] = exactly(arguments[node->as.index], arguments[node->as.index], arguments[node->as.index]);
            break;
        case FORMULA_OP_NEG:
            at[i] = negative(a);
            break;
        case FORMULA_OP_SQRT:
            at[i] = square_root(a);
            break;
        case FORMULA_OP_SELECT:
            at[i] = choice(a, b, c);
            break;
        case AST_MIN:
        case AST_MAX:
            at[i] = extreme(a, b, node->kind == AST_MIN);
            break;
        case AST_CLAMP:
            at[i] = extreme(extreme(a, b, false), c, true);
            break;
        case AST_ABS:
            at[i] = absolute(a);
            break;
        case AST_CALL:
            at[i] = call(ast_function_at(node->as.index), a, b);
            break;
        case FORMULA_OP_LT:
        case FORMULA_OP_LE:
        case AST_GT:
        case AST_GE:
        case FORMULA_OP_EQ:
        case FORMULA_OP_NE:
            at[i] = comparison(node->kind, a, b);
            break;
        default:
            at[i] = arithmetic(node->kind, a, b, node->kind == FORMULA_OP_FMA ? c : exactly(0, 0, 0));
            break;
        }
    }
    return at[body->result];
}

static ffn_status estimate_text(ast_text text, const ast_rules *rules, const double *arguments, estimate *answer,
                                ffn_diag *diag) {
    evaluation *const work = malloc(sizeof *work);
    if (work == NULL)
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "formula: %zu bytes", sizeof *work);
    work->arena.count = 0;
    ast_body body;
    const ffn_status status = ast_parse(text, rules, &work->arena, &body, diag);
    if (status == FFN_OK)
        *answer = evaluate(work, &body, arguments);
    free(work);
    return status;
}

#define FAST_ERROR 1e-6

/* A gated activation multiplies f32 values: what the first lost to the smallest subnormal grows with the other. */
static double built_in_error(const activation_row *row, double value, double u) {
    const double scale = row->shown.gated && fabs(u) > 1 ? fabs(u) + 1 : 1;
    return value == 0 && scale == 1 ? 0 : row->ulps * ulp_of(value) + scale * 0x1p-149;
}

/* 1e-6 max(1, |x|), for elu times its alpha. A gated one multiplies it by its other factor, which rounds, as the
 * product does. */
static double fast_error(const activation_text *parsed, double value, double g, double u) {
    const bool scaled = strcmp(parsed->row->shown.name, "elu") == 0;
    const double scale = scaled ? fmax(1, fabs((double)parsed->parameters[0])) : 1;
    const double error = FAST_ERROR * fmax(1, fabs(g)) * scale;
    return parsed->row->shown.gated ? error * (fabs(u) + 1) + 2 * ulp_of(value) : error;
}

ffn_status formula_reference(const char *activation, uint32_t accuracy, double g, double u, double *value,
                             double *bound, ffn_diag *diag) {
    activation_text parsed;
    ffn_status status = activation_parse(activation, &parsed, diag);
    if (status != FFN_OK)
        return status;
    double arguments[2 + ACTIVATION_PARAMETERS_MAX] = {g, u};
    for (int32_t i = 0; i < parsed.parameter_count; i++)
        arguments[(parsed.gated ? 2 : 1) + i] = (double)parsed.parameters[i];
    char names[ACTIVATION_NAMES_BYTES];
    activation_names(&parsed, names);
    estimate answer = exactly(0, 0, 0);
    status = estimate_text(activation_formula(&parsed, FFN_ACCURATE), &(ast_rules){names, parsed.row != NULL},
                           arguments, &answer, diag);
    if (status != FFN_OK)
        return status;
    const double overflow = 0x1.ffffffp127; /* from here on f32 rounds to infinity */
    *value = fabs(answer.value) >= overflow ? copysign(INFINITY, answer.value) : answer.value;
    if (!bound)
        return FFN_OK;
    const bool same_ends = answer.low == *value && answer.high == *value;
    if (answer.open || isnan(answer.low) != isnan(*value))
        *bound = INFINITY;
    else if (isnan(*value) || same_ends)
        *bound = 0;
    else if (isinf(answer.low) || isinf(answer.high) || isinf(*value))
        *bound = INFINITY;
    else if (parsed.row)
        *bound = accuracy == FFN_FAST && activation_fast(parsed.row) != NULL ? fast_error(&parsed, *value, g, u)
                                                                             : built_in_error(parsed.row, *value, u);
    else
        *bound = fmax(answer.high - *value, *value - answer.low) * (1 + 0x1p-20);
    return FFN_OK;
}
