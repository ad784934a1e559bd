/* verify_product.c: the same block and inputs through widened operands and sums in double -> y and a bound
 *
 * Every sum is made twice, by the product and plainly (verify_plain.h): the values that count are the plain ones, and a
 * product that differs is named. Their error is 2^-29 of the f32 kernel's and is left out. Each f32 sum of m terms has
 * m roundings, each at most 2^-24 of a partial sum that the sum of absolute products bounds. They are as good as
 * independent, so their sum stays below SIGMAS * sqrt(m) * 2^-24 * (sum of absolute products) but once in 10^14 times
 * (Higham and Mary 2019, "A new approach to probabilistic rounding error analysis"); the worst case, m instead of
 * sqrt(m), would exceed y itself at 4096x14336. Errors of hidden units meet in a column of y the same way, as the root
 * of the sum of their squares. */
#include "verify_product.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "diag.h"
#include "verify_plain.h"

#define SIGMAS 8.0
#define ULP_HALF 0x1p-24

enum { ROWS = VERIFY_INPUTS };

typedef struct sums { /* of one panel of columns */
    double value[ROWS][FFN_PANEL];
    double size[ROWS][FFN_PANEL];   /* of absolute products */
    double error[ROWS][FFN_PANEL];  /* contract: absolute weights times bounds of the activation */
    double spread[ROWS][FFN_PANEL]; /* contract: squares of weights times roundings of the expand stage */
    double moved[ROWS][FFN_PANEL];  /* contract: absolute weights times roundings of the expand stage */
} sums;

typedef struct operands { /* [ROWS][terms] each, and room for one panel */
    double *value, *size, *error, *spread, *moved;
    double *slice, *weights;
} operands;

typedef struct calculation {
    const verify_reference *reference;
    const verify_block *block;
    verify_plain *plain;
    operands x, hidden;
    double *y, *bound, *worst_case; /* [ROWS][d_model] */
} calculation;

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

typedef double (*widen)(double weight);

static double weight_itself(double weight) {
    return weight;
}

static double weight_size(double weight) {
    return fabs(weight);
}

static double weight_square(double weight) {
    return weight * weight;
}

/* result += a[:, begin .. end) panel[begin .. end)[:], by plain sums beside the product */
static void accumulate(const calculation *c, const operands *in, const double *a, int64_t terms, const float *panel,
                       int64_t begin, int64_t end, widen of, double result[ROWS][FFN_PANEL]) {
    const int64_t rows = end - begin;
    for (int64_t r = 0; r < ROWS; ++r) {
        for (int64_t k = 0; k < rows; ++k) {
            in->slice[r * rows + k] = a[r * terms + begin + k];
        }
    }
    for (int64_t i = 0; i < rows * FFN_PANEL; ++i) {
        in->weights[i] = of((double)panel[begin * FFN_PANEL + i]);
    }
    double part[ROWS * FFN_PANEL];
    verify_plain_multiply(c->plain, ROWS, FFN_PANEL, rows, in->slice, in->weights, part);
    for (int64_t r = 0; r < ROWS; ++r) {
        for (int64_t lane = 0; lane < FFN_PANEL; ++lane) {
            result[r][lane] += part[r * FFN_PANEL + lane];
        }
    }
}

static void panel_sums(const calculation *c, const operands *in, int64_t terms, const float *panel, verify_rows where,
                       const float *bias, int64_t columns, sums *s) {
    *s = (sums){0};
    for (int64_t r = 0; r < ROWS; ++r) {
        for (int64_t lane = 0; lane < columns; ++lane) {
            s->value[r][lane] = (double)bias[lane];
            s->size[r][lane] = fabs((double)bias[lane]);
        }
    }
    for (int64_t run = 0; run < where.count; ++run) {
        int64_t begin = where.first + run * where.step;
        int64_t end = least(begin + where.rows, terms);
        accumulate(c, in, in->value, terms, panel, begin, end, weight_itself, s->value);
        accumulate(c, in, in->size, terms, panel, begin, end, weight_size, s->size);
        if (in->error != NULL) {
            accumulate(c, in, in->error, terms, panel, begin, end, weight_size, s->error);
            accumulate(c, in, in->spread, terms, panel, begin, end, weight_square, s->spread);
            accumulate(c, in, in->moved, terms, panel, begin, end, weight_size, s->moved);
        }
    }
}

static double rounding(double size, int64_t terms) {
    return SIGMAS * sqrt((double)terms + 1) * ULP_HALF * size;
}

/* How much larger gamma_m, m u / (1 - m u), is than the factor above. */
static double worst_case_factor(int64_t terms) {
    const double m = (double)terms + 1;
    return m / (1 - m * ULP_HALF) / (SIGMAS * sqrt(m));
}

typedef struct unit {
    double g, g_error, u, u_error; /* sums, and how far off their f32 roundings may be */
    double value, bound;           /* of the activation */
    double moved;                  /* how far the roundings of the sums can move it */
} unit;

static ffn_status unit_activate(const kernel_shape *shape, unit *h, ffn_diag *diag) {
    const char *text = shape->spec.activation;
    const uint32_t accuracy = shape->spec.accuracy;
    ffn_status status = formula_reference(text, accuracy, h->g, h->u, &h->value, &h->bound, diag);
    h->moved = 0;
    for (int side = -1; side <= 1 && status == FFN_OK; side += 2) {
        double near_g = h->value, near_u = h->value;
        status = formula_reference(text, accuracy, h->g + side * h->g_error, h->u, &near_g, NULL, diag);
        if (status == FFN_OK && h->u_error > 0) {
            status = formula_reference(text, accuracy, h->g, h->u + side * h->u_error, &near_u, NULL, diag);
        }
        h->moved = fmax(h->moved, fabs(near_g - h->value) + fabs(near_u - h->value));
    }
    return status;
}

/* Panels without weights give the same unit over and over; the formula is slow. */
static bool same_sums(const unit *a, const unit *b) {
    return a->g == b->g && a->g_error == b->g_error && a->u == b->u && a->u_error == b->u_error;
}

static ffn_status expand(calculation *c, ffn_diag *diag) {
    const kernel_shape *shape = c->block->shape;
    const ffn_spec *spec = &shape->spec;
    const bool gated = shape->graph.gated;
    const float *bias_up = (const float *)(c->block->packed + shape->layout.bias_up);
    const float *bias_gate = (const float *)(c->block->packed + shape->layout.bias_gate);
    unit last = {.g = NAN};
    c->plain->sums = "the first stage";
    for (int64_t p = 0; p < shape->layout.up_panels; ++p) {
        const verify_rows where = verify_block_up(c->block, p);
        const int64_t begin = p * FFN_PANEL;
        const int64_t columns = least(FFN_PANEL, spec->d_ff - begin);
        sums up, gate;
        c->plain->column = begin;
        panel_sums(c, &c->x, spec->d_model, verify_block_up_panel(c->block, p, false), where, bias_up + begin, columns,
                   &up);
        if (gated) {
            panel_sums(c, &c->x, spec->d_model, verify_block_up_panel(c->block, p, true), where, bias_gate + begin,
                       columns, &gate);
        }
        const sums *first = gated ? &gate : &up;
        for (int64_t i = 0; i < ROWS * columns; ++i) {
            const int64_t r = i / columns;
            const int64_t lane = i % columns;
            unit h = {.g = first->value[r][lane],
                      .g_error = rounding(first->size[r][lane], spec->d_model),
                      .u = up.value[r][lane],
                      .u_error = gated ? rounding(up.size[r][lane], spec->d_model) : 0};
            if (!same_sums(&h, &last)) {
                ffn_status status = unit_activate(shape, &h, diag);
                if (status != FFN_OK) {
                    return status;
                }
                last = h;
            }
            const int64_t at = r * spec->d_ff + begin + lane;
            c->hidden.value[at] = last.value;
            c->hidden.size[at] = fabs(last.value);
            c->hidden.error[at] = last.bound;
            c->hidden.spread[at] = last.moved * last.moved;
            c->hidden.moved[at] = last.moved;
        }
    }
    return FFN_OK;
}

static void contract(calculation *c) {
    const kernel_shape *shape = c->block->shape;
    const ffn_spec *spec = &shape->spec;
    const float *bias = (const float *)(c->block->packed + shape->layout.bias_down);
    bool finite[ROWS];
    c->plain->sums = "the second stage";
    for (int r = 0; r < ROWS; ++r) {
        finite[r] = verify_reference_nonfinite(c->reference, shape, r) == 0;
    }
    for (int64_t p = 0; p < shape->layout.down_panels; ++p) {
        const int64_t begin = p * FFN_PANEL;
        const int64_t columns = least(FFN_PANEL, spec->d_model - begin);
        sums s;
        c->plain->column = begin;
        panel_sums(c, &c->hidden, spec->d_ff, verify_block_down_panel(c->block, p), verify_block_down(c->block, p),
                   bias + begin, columns, &s);
        for (int64_t r = 0; r < ROWS; ++r) {
            for (int64_t lane = 0; lane < columns; ++lane) {
                c->y[r * spec->d_model + begin + lane] = s.value[r][lane];
                const bool closed = finite[r] && s.size[r][lane] <= (double)FLT_MAX;
                const double bound = rounding(s.size[r][lane], spec->d_ff) + s.error[r][lane] + sqrt(s.spread[r][lane]);
                c->bound[r * spec->d_model + begin + lane] = closed ? bound + 0x1p-140 : INFINITY;
                c->worst_case[r * spec->d_model + begin + lane] =
                    worst_case_factor(spec->d_ff) * rounding(s.size[r][lane], spec->d_ff) + s.error[r][lane] +
                    worst_case_factor(spec->d_model) * s.moved[r][lane] + 0x1p-140;
            }
        }
    }
}

typedef struct deviation { /* the worst output of one side */
    double error, bound;
    double worst_case_share; /* the largest error as a share of what any roundings could do */
    int64_t row, column;
    bool wrong;
} deviation;

static deviation deviation_of(const calculation *c, const float *y, const bool *has) {
    const int64_t d_model = c->block->shape->spec.d_model;
    deviation worst = {0};
    for (int64_t i = 0; i < ROWS * d_model; ++i) {
        if ((has != NULL && !has[i / d_model]) || !isfinite(c->y[i]) || !isfinite(c->bound[i])) {
            continue; /* sums that are or may become infinite are check (a)'s */
        }
        double error = fabs((double)y[i] - c->y[i]);
        error = isnan(error) ? INFINITY : error;
        const double share = fmax(worst.worst_case_share, error / c->worst_case[i]);
        if (worst.bound <= 0 || error * worst.bound > worst.error * c->bound[i]) {
            worst = (deviation){error, c->bound[i], 0, i / d_model, i % d_model, error > c->bound[i]};
        }
        worst.worst_case_share = share;
    }
    return worst;
}

/* Names the product as wrong, by its version and core type, after what `diag` says so far. */
static ffn_status fail_product(const verify_plain *p, const char *name, const char *kernels, ffn_diag *diag) {
    return diag_fail(diag, FFN_VERIFY_FAILED,
                     "verification (c): the product is wrong, %.150s: %s, input %lld, column %lld: its sum of %lld "
                     "terms is %.12g, plain sums in double give %.12g, %.3g more or less; %s",
                     name, p->wrong_sums, (long long)p->wrong_row, (long long)p->wrong_column, (long long)p->terms,
                     p->given, p->right, p->possible, kernels);
}

/* After a failure of (a): its text, and which side the sums in double agree with. */
static ffn_status fail_side(const verify_plain *p, const char *name, const deviation *code, const deviation *portable,
                            ffn_status before, ffn_diag *diag) {
    static const char *const sides[2][2] = {
        {"the portable kernel: the code is wrong", "the portable kernel: the code is wrong"},
        {"the code: the portable kernel is wrong", "neither: both kernels are wrong"}};
    const char *side = sides[portable->wrong][code->wrong];
    const char *text = diag != NULL ? diag->text : "";
    return p->wrong ? diag_fail(diag, before, "%.*s; plain sums in double agree with %s; so is the product, %.100s",
                                FFN_DIAG_BYTES - 220, text, side, name)
                    : diag_fail(diag, before, "%.*s; %.120s agrees with %s", FFN_DIAG_BYTES - 220, text, name, side);
}

static ffn_status verdict(const calculation *c, const verify_outputs *outputs, ffn_status before,
                          ffn_verify_report *report, ffn_diag *diag) {
    const deviation code = deviation_of(c, outputs->code, outputs->has);
    const deviation portable = deviation_of(c, c->reference->y, NULL);
    const ffn_product *product = c->plain->product;
    report->max_error = code.error;
    report->error_bound = code.bound;
    report->worst_case_share = code.worst_case_share;
    const char *name = product->describe != NULL ? product->describe(product->self) : "the product";
    if (before != FFN_OK) {
        return fail_side(c->plain, name, &code, &portable, before, diag);
    }
    const bool wrong = code.wrong || portable.wrong;
    if (c->plain->wrong) {
        return fail_product(c->plain, name,
                            !wrong              ? "the kernels agree with those"
                            : outputs->portable ? "the portable kernel agrees with neither"
                                                : "the code, equal to the portable kernel, agrees with neither",
                            diag);
    }
    if (!wrong) {
        return FFN_OK;
    }
    const deviation *worst = code.wrong ? &code : &portable;
    return diag_fail(
        diag, FFN_VERIFY_FAILED,
        "verification (c): row %lld, column %lld: %s %.3g away from %.150s and from plain sums in double, where %.3g "
        "is possible: %s",
        (long long)worst->row, (long long)worst->column, outputs->portable ? "the portable kernel is" : "the code is",
        worst->error, name, worst->bound,
        outputs->portable ? "it is wrong" : "its bits are equal to the portable kernel's, so that both are wrong");
}

static double *take(double **at, int64_t doubles) {
    double *part = *at;
    *at += doubles;
    return part;
}

ffn_status verify_product_check(const verify_reference *reference, const verify_block *block,
                                const verify_outputs *outputs, const ffn_product *product, ffn_status before,
                                ffn_verify_report *report, ffn_diag *diag) {
    const ffn_spec *spec = &block->shape->spec;
    const int64_t longest = spec->d_model > spec->d_ff ? spec->d_model : spec->d_ff;
    const int64_t doubles = ROWS * (5 * spec->d_model + 5 * spec->d_ff + longest) + longest * FFN_PANEL;
    double *memory = calloc((size_t)doubles, sizeof *memory);
    if (memory == NULL) {
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "verification: %zu bytes", (size_t)doubles * sizeof *memory);
    }
    double *at = memory;
    verify_plain plain = {.product = product};
    calculation c = {.reference = reference, .block = block, .plain = &plain};
    c.x.value = take(&at, ROWS * spec->d_model);
    c.x.size = take(&at, ROWS * spec->d_model);
    c.y = take(&at, ROWS * spec->d_model);
    c.bound = take(&at, ROWS * spec->d_model);
    c.worst_case = take(&at, ROWS * spec->d_model);
    c.hidden.value = take(&at, ROWS * spec->d_ff);
    c.hidden.size = take(&at, ROWS * spec->d_ff);
    c.hidden.error = take(&at, ROWS * spec->d_ff);
    c.hidden.spread = take(&at, ROWS * spec->d_ff);
    c.hidden.moved = take(&at, ROWS * spec->d_ff);
    c.x.slice = c.hidden.slice = take(&at, ROWS * longest);
    c.x.weights = c.hidden.weights = take(&at, longest * FFN_PANEL);
    for (int64_t i = 0; i < ROWS * spec->d_model; ++i) {
        c.x.value[i] = (double)reference->x[i];
        c.x.size[i] = fabs(c.x.value[i]);
    }
    ffn_status status = expand(&c, diag);
    if (status == FFN_OK) {
        contract(&c);
        status = verdict(&c, outputs, before, report, diag);
    }
    free(memory);
    return status;
}
