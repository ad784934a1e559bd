/* exhaustive_activations.c: every activation and function of the formula language over all 2^32 floats, against the
 * exact value -> a table: largest error and where, how many results are off by more than 1 and 2 ULP, whether the order
 * of neighbours holds, whether compiled code has the same bits
 *
 *   exhaustive_activations [--functions a,b(2),...] [--threads N] [--checks N] [--from X] [--to X] [--stride N]
 * [--fast] [--markdown FILE]
 *
 * Gated ones are measured with the up value that leaves their factor of g alone. Exit status 1: a result is off by more
 * than its bound, of the wrong kind, or not what compiled code gives; 2: bad usage. */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "exhaustive_sweep.h"
#include "expect.h"
#include "ffngen.h"
#include "formula_ast.h"
#include "formula_count.h"
#include "support_formula.h"

enum { TEXT_MAX = 64, NAMES_MAX = 64 };

/* Where an activation that is not monotone turns: it falls below, rises above. Times 1 / beta for swish. */
static const struct {
    const char *name;
    double at;
} turns[] = {{"gelu", -0.75179157},       {"geglu", -0.75179157},     {"gelu_tanh", -0.75246142},
             {"geglu_tanh", -0.75246142}, {"silu", -1.2784645},       {"swiglu", -1.2784645},
             {"swish", -1.2784645},       {"swiglu_oai", -1.2784645}, {"gelu_quick", -0.7511542},
             {"mish", -1.1924571},        {"hardswish", -1.5}};

typedef struct row {
    char text[TEXT_MAX]; /* "swish(2)", "exp" */
    double bound;        /* ULP, as the tables of templates/ say */
    int32_t operations;
    double seconds;
    bool monotone; /* as a function */
    sweep_result result;
} row;

typedef struct arguments {
    const char *names, *markdown;
    int64_t threads, checks, stride;
    float from, to;
    bool fast;
} arguments;

/* "swish(2)" -> "swish" and {2, ...}; those left out are the defaults. */
static const ffn_activation *split(const char *text, char *name, double *parameters) {
    snprintf(name, TEXT_MAX, "%.*s", (int)strcspn(text, "("), text);
    const ffn_activation *activation = NULL;
    for (size_t i = 0; ffn_activation_at(i); i++)
        if (strcmp(ffn_activation_at(i)->name, name) == 0)
            activation = ffn_activation_at(i);
    const char *given = text + strcspn(text, "(");
    const char *standard = activation ? activation->parameters : "";
    for (int32_t i = 0; i < EXACT_PARAMETERS_MAX && *standard; i++) {
        standard += strcspn(standard, "=");
        parameters[i] = (double)strtof(standard + 1, NULL);
        standard += strcspn(standard, ",");
        if (*given && *given != ')') {
            parameters[i] = (double)strtof(given + 1, NULL);
            given += 1 + strcspn(given + 1, ",)");
        }
    }
    return activation;
}

/* Compiled code of the best ISA here; false if this machine has none. */
static bool compile(const char *activation, bool fast, image *code) {
    char text[TEXT_MAX * 2];
    ffn_spec spec;
    ffn_plan plan;
    ffn_machine machine;
    ffn_bytes bytes;
    ffn_diag diag = {.text = ""};
    const ffn_isa isa = ffn_isa_best();
    if (isa == FFN_ISA_PORTABLE)
        return false;
    snprintf(text, sizeof text, "d16-f16-%s%s", activation, fast ? "-fast" : "");
    EXPECT(ffn_spec_parse(text, &spec, &diag) == FFN_OK, "%s", diag.text);
    EXPECT(ffn_machine_generic(isa, &machine, &diag) == FFN_OK, "%s", diag.text);
    EXPECT(ffn_plan_make(&spec, isa, FFN_N_1, &machine, &plan, &diag) == FFN_OK, "%s", diag.text);
    EXPECT(ffngen_emit(&spec, &plan, FFNGEN_IMAGE, &bytes, &diag) == FFN_OK, "%s", diag.text);
    EXPECT(image_map(bytes.data, bytes.bytes, code, &diag) == FFN_OK, "%s", diag.text);
    bytes.release(bytes.data);
    return true;
}

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Whether all rows can be measured, before hours go into the first. */
static bool rows_known(const row *rows, size_t count, bool fast) {
    for (size_t i = 0; i < count; i++) {
        char name[TEXT_MAX], activation[TEXT_MAX + 8];
        double parameters[EXACT_PARAMETERS_MAX];
        const ffn_activation *const known = split(rows[i].text, name, parameters);
        ffn_diag diag = {.text = ""};
        formula_graph graph;
        if (!exact_knows(name) || !reference_of(name) ||
            (!known && (fast || ast_function_find(name, strlen(name)) < 0))) {
            fprintf(stderr, "exhaustive_activations: \"%s\" is no activation%s\n", rows[i].text,
                    fast ? ", and a function has no fast form" : " or function");
            return false;
        }
        snprintf(activation, sizeof activation, known ? "%s" : "act(%s(x))", rows[i].text);
        if (formula_build(activation, fast ? FFN_FAST : FFN_ACCURATE, &graph, &diag) != FFN_OK) {
            fprintf(stderr, "exhaustive_activations: %s: %s\n", rows[i].text, diag.text);
            return false;
        }
    }
    return true;
}

static void measure(row *r, const arguments *a) {
    char name[TEXT_MAX], activation[TEXT_MAX + 8];
    sweep_job job = {.turn = -INFINITY, .up = 1};
    const ffn_activation *const known = split(r->text, name, job.parameters);
    const int32_t function = ast_function_find(name, strlen(name));
    EXPECT(exact_knows(name) && reference_of(name) && (known || function >= 0), "\"%s\" is no activation or function",
           name);
    for (size_t i = 0; known && activation_row_at(i); i++)
        if (strcmp(activation_row_at(i)->shown.name, name) == 0)
            r->bound = activation_row_at(i)->ulps;
    if (!known)
        r->bound = ast_function_at((size_t)function)->ulps;
    snprintf(activation, sizeof activation, known ? "%s" : "act(%s(x))", r->text);
    formula_graph *const graph = malloc(sizeof *graph);
    image code;
    ffn_diag diag = {.text = ""};
    EXPECT(graph && formula_build(activation, a->fast ? FFN_FAST : FFN_ACCURATE, graph, &diag) == FFN_OK, "%s: %s",
           activation, diag.text);
    job.name = name;
    job.from = a->from;
    job.to = a->to;
    job.stride = a->stride;
    job.fast = a->fast;
    job.up = strcmp(name, "swiglu_oai") == 0 ? 0 : 1;
    job.graph = graph;
    job.activate = compile(activation, a->fast, &code) ? code.activate : NULL;
    job.reference = reference_of(name);
    job.falls = strcmp(name, "erfc") == 0;
    for (size_t i = 0; i < sizeof turns / sizeof turns[0]; i++)
        if (strcmp(turns[i].name, name) == 0)
            job.turn = turns[i].at / (strncmp(name, "sw", 2) == 0 && known->parameters[0] ? job.parameters[0] : 1);
    if ((strcmp(name, "leaky_relu") == 0 || strcmp(name, "elu") == 0) && job.parameters[0] < 0)
        job.turn = 0;
    r->monotone = isinf(job.turn);
    r->operations = formula_count_operations(graph);
    const double begin = seconds_now();
    r->result = sweep_run(&job, (int32_t)a->threads, a->checks);
    r->seconds = seconds_now() - begin;
    if (job.activate)
        image_unmap(&code);
    free(graph);
}

/* ---- The table ---- */

static bool is_right(const row *r, bool fast) {
    const sweep_result *const found = &r->result;
    const bool within = fast ? found->distance <= 1e-6 : found->largest <= r->bound && found->largest_subnormal <= 1;
    return within && found->wrong == 0 && found->unequal == 0 && found->off <= 1e-13;
}

static void print_row(FILE *to, const row *r, bool fast, bool markdown) {
    const sweep_result *const f = &r->result;
    const char *const between = markdown ? " | " : "  ", *const end = markdown ? " |\n" : "\n";
    char order[64];
    if (f->turns == 0)
        snprintf(order, sizeof order, "%s", r->monotone ? "yes" : "yes, both sides");
    else
        snprintf(order, sizeof order, "%lld, %.2f", (long long)f->turns, f->step);
    fprintf(to, markdown ? "| `%s`%s%d" : "%-18s%s%3d", r->text, between, r->operations);
    if (fast)
        fprintf(to, "%s%.3f%s%.9g", between, f->distance * 1e6, between, (double)f->distance_at);
    else
        fprintf(to, markdown ? "%s%.3f%s%.9g%s%lld%s%lld%s%.3f" : "%s%.4f%s%-15.9g%s%10lld%s%9lld%s%.3f", between,
                f->largest, between, (double)f->at, between, (long long)f->above_1, between, (long long)f->above_2,
                between, f->largest_subnormal);
    fprintf(to, markdown ? "%s%s%s" : "%s%-22s%s", between, order, markdown ? end : between);
    if (markdown)
        return;
    fprintf(to, "reference off by %.1e, MPFR %lld times, %.1f s%s\n", f->off, (long long)f->exact_calls, r->seconds,
            is_right(r, fast) ? "" : "  WRONG");
    if (f->wrong > 0)
        fprintf(to, "  %lld NaN or infinities where none belongs, or none where one does, one at %a\n",
                (long long)f->wrong, (double)f->wrong_at);
    if (f->unequal > 0)
        fprintf(to, "  compiled code differs at %lld arguments, one of them %a\n", (long long)f->unequal,
                (double)f->unequal_at);
    if (f->off > 1e-13)
        fprintf(to, "  the double reference is wrong at %a\n", (double)f->off_at);
}

static int write_markdown(const char *file, const row *rows, size_t count, bool fast) {
    FILE *const to = fopen(file, "w");
    if (!to) {
        perror(file);
        return 1;
    }
    fputs(fast ? "| name | operations | largest error, 1e-6 max(1, \\|x\\|) | at | neighbours out of order, ULP |\n"
                 "|---|---|---|---|---|\n"
               : "| name | operations | largest error, ULP | at | above 1 ULP | above 2 ULP | below 2^-126, smallest "
                 "subnormals | monotone; else neighbours out of order, ULP |\n|---|---|---|---|---|---|---|---|\n",
          to);
    for (size_t i = 0; i < count; i++)
        print_row(to, &rows[i], fast, true);
    return fclose(to) == 0 ? 0 : 1;
}

/* "a,b(1,2)" -> rows; commas inside parentheses do not separate. 0: none, or too many or too long. */
static size_t rows_of(const char *names, row *rows) {
    size_t count = 0;
    for (const char *at = names; *at;) {
        size_t length = 0;
        for (int depth = 0; at[length] && (depth > 0 || at[length] != ','); length++)
            depth += (at[length] == '(') - (at[length] == ')');
        if (count == NAMES_MAX || length >= TEXT_MAX)
            return 0;
        snprintf(rows[count++].text, TEXT_MAX, "%.*s", (int)length, at);
        at += length + (at[length] == ',');
    }
    return count;
}

static size_t all_rows(row *rows) {
    size_t count = 0;
    for (size_t i = 0; ffn_activation_at(i); i++)
        snprintf(rows[count++].text, TEXT_MAX, "%s", ffn_activation_at(i)->name);
    for (size_t i = 0; ast_function_at(i); i++)
        if (ast_function_at(i)->visible && strcmp(ast_function_at(i)->name, "tanh") != 0 &&
            strcmp(ast_function_at(i)->name, "sigmoid") != 0 && strcmp(ast_function_at(i)->name, "softplus") != 0)
            snprintf(rows[count++].text, TEXT_MAX, "%s", ast_function_at(i)->name);
    return count;
}

static const char usage[] = "usage: exhaustive_activations [--functions a,b(2),...] [--threads N] [--checks N] "
                            "[--from X] [--to X] [--stride N] [--fast] [--markdown FILE]\n";

/* Whole words only. */
static bool number_of(const char *text, int64_t least, int64_t most, int64_t *number) {
    char *end;
    errno = 0;
    *number = strtoll(text, &end, 10);
    return end != text && *end == '\0' && errno == 0 && *number >= least && *number <= most;
}

static bool float_in(const char *text, float *number) {
    char *end;
    *number = strtof(text, &end);
    return end != text && *end == '\0' && !isnan(*number);
}

static bool parse(int argc, char **argv, arguments *a) {
    static const struct option options[] = {{"functions", required_argument, NULL, 'f'},
                                            {"threads", required_argument, NULL, 't'},
                                            {"checks", required_argument, NULL, 'c'},
                                            {"from", required_argument, NULL, 'a'},
                                            {"to", required_argument, NULL, 'z'},
                                            {"stride", required_argument, NULL, 's'},
                                            {"fast", no_argument, NULL, 'q'},
                                            {"markdown", required_argument, NULL, 'm'},
                                            {NULL, 0, NULL, 0}};
    bool good = true;
    for (int option; good && (option = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (option) {
        case 'f':
            a->names = optarg;
            break;
        case 't':
            good = number_of(optarg, 1, 1024, &a->threads);
            break;
        case 'c':
            good = number_of(optarg, 0, INT64_C(1) << 32, &a->checks);
            break;
        case 'a':
            good = float_in(optarg, &a->from);
            break;
        case 'z':
            good = float_in(optarg, &a->to);
            break;
        case 's':
            good = number_of(optarg, 1, INT64_C(1) << 31, &a->stride);
            break;
        case 'q':
            a->fast = true;
            break;
        case 'm':
            a->markdown = optarg;
            break;
        default:
            return false;
        }
    return good && optind == argc && a->from <= a->to;
}

int main(int argc, char **argv) {
    static row rows[NAMES_MAX];
    arguments a = {.threads = 2, .checks = INT64_C(1) << 20, .stride = 1, .from = -INFINITY, .to = INFINITY};
    if (!parse(argc, argv, &a)) {
        fputs(usage, stderr);
        return 2;
    }
    const size_t count = a.names ? rows_of(a.names, rows) : all_rows(rows);
    bool right = true;
    if (count == 0) {
        fputs(usage, stderr);
        return 2;
    }
    if (!rows_known(rows, count, a.fast))
        return 2;
    printf("compiled code: %s\n%s", ffn_isa_name(ffn_isa_best()),
           a.fast ? "name  operations  largest error in 1e-6 max(1, |x|)  at  out of order, ULP\n"
                  : "name  operations  largest error, ULP  at  above 1  above 2  subnormal  out of order, ULP\n");
    for (size_t i = 0; i < count; i++) {
        measure(&rows[i], &a);
        print_row(stdout, &rows[i], a.fast, false);
        fflush(stdout);
        right = right && is_right(&rows[i], a.fast);
    }
    if (a.markdown && write_markdown(a.markdown, rows, count, a.fast) != 0)
        return 1;
    return right ? 0 : 1;
}
