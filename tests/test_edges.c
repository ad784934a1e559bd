/* test_edges.c: docs/edges.md against mathematics, and every kernel of this machine against docs/edges.md
 *
 * With FFN_WRITE_EDGES=FILE (scripts/edges.sh) the tables are written there first, as the portable kernel has them;
 * what follows then judges them like any other. */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ffngen.h"
#include "formula_ast.h"
#include "isa.h"
#include "support_edges.h"
#include "support_formula.h"
#include "support_mpfr.h"

TestSuite(edges, .timeout = 300);

static const char *document(void) {
    const char *written = getenv("FFN_WRITE_EDGES");
    return written ? written : FFN_SOURCE_DIR "/docs/edges.md";
}

/* The text up to the mark stays. */
static void write_document(const char *path) {
    edges_list list = edges_make();
    for (int32_t i = 0; i < list.count; i++) {
        const edges_case *c = &list.cases[i];
        formula_graph *graph = graph_of_accuracy(c->activation, c->accuracy);
        formula_eval(graph, c->count, c->g, c->u, c->want);
        free(graph);
    }
    enum { PROSE_BYTES = 1 << 16 };
    static char prose[PROSE_BYTES];
    FILE *file = fopen(path, "r");
    cr_assert(file);
    prose[fread(prose, 1, sizeof prose - 1, file)] = '\0';
    fclose(file);
    char *mark = strstr(prose, EDGES_MARK "\n");
    cr_assert(mark, "%s has no line " EDGES_MARK, path);
    *mark = '\0';
    file = fopen(path, "w");
    cr_assert(file);
    fprintf(file, "%s%s\n", prose, EDGES_MARK);
    edges_write(&list, file);
    cr_assert(fclose(file) == 0);
    edges_free(&list);
}

static edges_list documented(void) {
    char why[EDGES_WHY_BYTES];
    edges_list list = edges_make();
    cr_assert(edges_read(&list, document(), why), "%s", why);
    return list;
}

Test(edges, stand_in_the_document_as_they_are_written) {
    if (getenv("FFN_WRITE_EDGES"))
        write_document(getenv("FFN_WRITE_EDGES"));
    edges_list list = documented();
    FILE *file = fopen(document(), "r"), *again = tmpfile();
    cr_assert(file && again);
    fprintf(again, "%s\n", EDGES_MARK);
    edges_write(&list, again);
    rewind(again);
    char line[4096], other[4096] = "";
    while (fgets(line, sizeof line, file) && strncmp(line, EDGES_MARK, strlen(EDGES_MARK)) != 0)
        continue;
    do {
        cr_assert(fgets(other, sizeof other, again), "the document goes on: %s", line);
        cr_assert_str_eq(line, other);
    } while (fgets(line, sizeof line, file));
    cr_assert_null(fgets(other, sizeof other, again), "the document ends before %s", other);
    fclose(file);
    fclose(again);
    edges_free(&list);
}

/* ---- What the numbers should be ---- */

/* Name and parameters of an activation or a function of one argument. */
typedef struct meaning {
    char name[32];
    double parameters[ACTIVATION_PARAMETERS_MAX], ulps;
} meaning;

static meaning meaning_of(const edges_case *c) {
    meaning m = {.ulps = 0};
    if (c->own) {
        const size_t length = strcspn(c->activation + 4, "(");
        const int32_t index = ast_function_find(c->activation + 4, length);
        snprintf(m.name, sizeof m.name, "%.*s", (int)length, c->activation + 4);
        m.ulps = index < 0 ? 0.5 : ast_function_at((size_t)index)->ulps;
        return m;
    }
    activation_text parsed;
    cr_assert(activation_parse(c->activation, &parsed, NULL) == FFN_OK, "%s", c->activation);
    snprintf(m.name, sizeof m.name, "%s", parsed.row->shown.name);
    m.ulps = parsed.row->ulps;
    for (int32_t i = 0; i < parsed.parameter_count; i++)
        m.parameters[i] = (double)parsed.parameters[i];
    return m;
}

/* Where a value is lost among subnormals: its relative part and one smallest subnormal, which a gated product
 * multiplies. */
static bool is_within(const edges_case *c, const meaning *m, int32_t i, exact_error error) {
    const double up = fabs((double)c->u[i]), amplified = c->gated && up > 1 ? up + 1 : 1;
    if (error.wrong || isnan(error.value) || isinf(error.value))
        return !error.wrong;
    if (c->accuracy == FFN_FAST && isinf(c->g[i]) && strcmp(c->activation, "swiglu_oai") != 0)
        return error.units == 0; /* a limit is exact; the clamped one has none */
    if (c->accuracy == FFN_FAST &&
        error.units * 0x1p-149 <= 1e-6 * fmax(1, fabs((double)c->g[i])) * (c->gated ? up + 1 : 1))
        return true;
    if (error.ulps <= m->ulps)
        return true;
    const double value_units = ldexp(fabs(error.value), 149);
    return fabs(error.value) < 0x1p-121 * amplified && error.units <= m->ulps * value_units * 0x1p-23 + amplified;
}

/* Limits and NaN as MPFR has them, everything else within the bound of the activation. */
Test(edges, are_those_of_mathematics) {
    edges_list list = documented();
    for (int32_t k = 0; k < list.count; k++) {
        const edges_case *c = &list.cases[k];
        const meaning m = meaning_of(c);
        for (int32_t i = 0; i < c->count && exact_knows(m.name); i++) {
            const exact_error error = exact_compare(m.name, m.parameters, c->g[i], c->u[i], c->want[i]);
            const double factor = exact_compare(m.name, m.parameters, c->g[i], 1, 0).value;
            /* 0 or infinity, by whether a factor that underflows is rounded first: the next test decides. */
            if (c->gated && isinf(c->u[i]) && fabs(factor) < 0x1p-147)
                continue;
            /* The last f32 before overflow may go over it. */
            const bool near_overflow = !isnan(error.value) && fabs(error.value) > 0x1.fffff0p127;
            cr_expect(near_overflow || is_within(c, &m, i, error), "%s%s of %a, %a: %a, not %a", c->activation,
                      c->accuracy == FFN_FAST ? ", fast," : "", (double)c->g[i], (double)c->u[i], (double)c->want[i],
                      error.value);
        }
    }
    edges_free(&list);
    exact_cleanup();
}

static const edges_case *find(const edges_list *list, const char *activation, uint32_t accuracy) {
    for (int32_t i = 0; i < list->count; i++)
        if (strcmp(list->cases[i].activation, activation) == 0 && list->cases[i].accuracy == accuracy)
            return &list->cases[i];
    return NULL;
}

/* The value in the plain table: by bits, so that each zero and each NaN is its own argument. */
static float looked_up(const edges_case *plain, float x) {
    for (int32_t i = 0; i < plain->count; i++)
        if (bits_of(plain->g[i]) == bits_of(x))
            return plain->want[i];
    cr_assert_fail("%s of %a is not in the document", plain->activation, (double)x);
    return NAN;
}

Test(edges, of_gated_activations_are_ieee_products_of_their_factors) {
    static const char *const factors[][2] = {{"glu", "sigmoid"}, {"reglu", "relu"},           {"bilinear", "identity"},
                                             {"geglu", "gelu"},  {"geglu_tanh", "gelu_tanh"}, {"swiglu", "silu"}};
    edges_list list = documented();
    for (size_t k = 0; k < sizeof factors / sizeof *factors; k++)
        for (uint32_t accuracy = FFN_ACCURATE; accuracy <= FFN_FAST; accuracy++) {
            const edges_case *c = find(&list, factors[k][0], accuracy), *plain = find(&list, factors[k][1], accuracy);
            cr_assert(accuracy == FFN_FAST || (c && plain));
            for (int32_t i = 0; c && plain && i < c->count; i++) {
                const float product = looked_up(plain, c->g[i]) * c->u[i];
                cr_expect(same_bits(product, c->want[i]), "%s of %a, %a: %a, not %a", c->activation, (double)c->g[i],
                          (double)c->u[i], (double)c->want[i], (double)product);
            }
        }
    edges_free(&list);
}

static double root(double x, double unused) {
    return unused + sqrt(x);
}
static double inverse(double x, double one) {
    return one / x;
}
static double magnitude(double x, double unused) {
    return unused + fabs(x);
}
static double at_most(double x, double limit) {
    return x > limit ? limit : x;
}
static double at_least(double x, double limit) {
    return x < limit ? limit : x;
}
static double within(double x, double limit) {
    return at_least(at_most(x, limit), -limit);
}
static double sign(double x, double one) {
    return x < 0 ? -one : one; /* of NaN too: the language's comparison is C's */
}
static double square_more(double x, double more) {
    return fma(x, x, more);
}

/* A double holds every step of these exactly or, for the root, the quotient and the sum, to more than twice the digits.
 */
Test(edges, of_operations_are_those_of_ieee) {
    static const struct {
        const char *activation;
        double (*of)(double x, double parameter);
        double parameter;
    } rows[] = {{"act(min(x,6))", at_most, 6},      {"act(max(0,x))", at_least, 0},
                {"act(clamp(x,-1,1))", within, 1},  {"act(abs(x))", magnitude, 0},
                {"act(sqrt(x))", root, -0.0},       {"act(1/x)", inverse, 1},
                {"act(select(x<0,-1,1))", sign, 1}, {"act(fma(x,x,1))", square_more, 1}};
    edges_list list = documented();
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        const edges_case *c = find(&list, rows[k].activation, FFN_ACCURATE);
        cr_assert(c, "%s", rows[k].activation);
        for (int32_t i = 0; i < c->count; i++) {
            const float right = (float)rows[k].of((double)c->g[i], rows[k].parameter);
            cr_expect(same_bits(right, c->want[i]), "%s of %a: %a, not %a", c->activation, (double)c->g[i],
                      (double)c->want[i], (double)right);
        }
    }
    edges_free(&list);
}

/* Those that vanish at 0 keep its sign, but for squares; gelu and mish are free to. */
Test(edges, of_zeros_keep_their_sign) {
    edges_list list = documented();
    for (int32_t k = 0; k < list.count; k++) {
        const edges_case *c = &list.cases[k];
        const char *name = c->activation;
        const bool positive = !strcmp(name, "relu2") || !strcmp(name, "act(abs(x))");
        if (!strcmp(name, "gelu") || !strcmp(name, "mish") || c->gated || c->accuracy == FFN_FAST ||
            looked_up(c, 0.0f) != 0)
            continue;
        cr_expect(!signbit(looked_up(c, 0.0f)), "%s of 0", name);
        cr_expect(!signbit(looked_up(c, -0.0f)) == positive, "%s of -0", name);
    }
    edges_free(&list);
}

/* ---- What kernels return ---- */

static ffn_kernel *open_kernel(const ffn_spec *spec, ffn_isa isa, int64_t n, ffn_context **context) {
    ffn_diag diag = {.text = ""};
    ffn_kernel *kernel;
    ffn_kernel_info info;
    const ffn_options options = {.isa = isa, .verify = FFN_VERIFY_NEVER, .source = ffngen_source(), .store = ""};
    cr_assert_eq(ffn_context_create(&options, context, &diag), FFN_OK, "%s", diag.text);
    cr_assert_eq(ffn_kernel_create(*context, spec, &kernel, &diag), FFN_OK, "%s", diag.text);
    if (isa != FFN_ISA_PORTABLE)
        cr_assert_eq(ffn_kernel_prepare(kernel, n, &diag), FFN_OK, "%s", diag.text);
    ffn_kernel_inspect(kernel, n, &info);
    cr_assert_eq(info.isa, isa);
    return kernel;
}

Test(edges, are_returned_by_every_isa_in_every_lane_and_tail) {
    edges_list list = documented();
    for (ffn_isa isa = FFN_ISA_PORTABLE; isa < FFN_ISA_COUNT; isa++) {
        if (!ffn_isa_supported(isa)) {
            printf("  %s: not on this CPU\n", ffn_isa_name(isa));
            continue;
        }
        const isa_row *row = isa_row_of(isa);
        for (int32_t i = 0; i < list.count; i++) {
            const int64_t n = i % 2 ? 1 : 17; /* two classes, two kinds of tiles */
            const ffn_spec spec = edges_spec(&list, i);
            char why[EDGES_WHY_BYTES];
            ffn_context *context;
            ffn_kernel *kernel = open_kernel(&spec, isa, n, &context);
            cr_expect(edges_activate_hold(kernel, &list.cases[i], n, row ? row->lanes : 16, why), "%s: %s",
                      ffn_isa_name(isa), why);
            cr_expect(edges_hidden_hold(kernel, &list.cases[i], n == 1 ? 1 : 3, why), "%s: %s", ffn_isa_name(isa), why);
            ffn_kernel_destroy(kernel);
            ffn_context_destroy(context);
        }
    }
    edges_free(&list);
}
