/* fuzz_kernels_draw.c: the number of a group -> spec, ISA, plan and the code of them
 *
 * Sizes, plans and formulas are drawn with a taste for edges: of vectors, panels, tiles and limits. A plan is any that
 * ffn_plan_check lets through, not one of the planner's: each must give right bits. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ffngen.h"
#include "fuzz_kernels.h"
#include "support_kernel.h"

/* ---- Text that grows ---- */

typedef struct text {
    char *at;
    size_t bytes, length;
} text;

static void add(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(text *t, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int added = vsnprintf(t->at + t->length, t->bytes - t->length, format, arguments);
    va_end(arguments);
    t->length += (size_t)added < t->bytes - t->length ? (size_t)added : t->bytes - t->length - 1;
}

/* ---- Specs ---- */

static int64_t draw_size(support_rng *rng) {
    static const int64_t edges[] = {1,  2,  3,  4,  7,  8,  9,  15, 16, 17,  23,  31,  32,  33,  37,
                                    47, 48, 49, 61, 63, 64, 65, 79, 80, 113, 127, 128, 129, 255, 256};
    static const int64_t limits[] = {8, 24, 70, 70, 130, D_MAX};
    return fuzz_once_in(rng, 2) ? FUZZ_ONE_OF(rng, edges) : support_between(rng, 1, FUZZ_ONE_OF(rng, limits));
}

typedef struct grammar {
    text *out;
    support_rng *rng;
    bool gated;
    int functions; /* that may still be called: each is some tens of operations */
} grammar;

static void add_number(grammar *g) {
    static const char *const numbers[] = {"0",     "1",    "0.5",          "2",       "7", "1e-3",
                                          "1e-40", "1e30", "3.4028235e38", "0.044715"};
    add(g->out, "%s%s", fuzz_once_in(g->rng, 4) ? "-" : "", FUZZ_ONE_OF(g->rng, numbers));
}

static void add_leaf(grammar *g) {
    if (fuzz_once_in(g->rng, 3))
        add_number(g);
    else
        add(g->out, "%s", !g->gated ? "x" : fuzz_once_in(g->rng, 2) ? "g" : "u");
}

/* `$` an operand, `@` a number, `?` a comparison */
static void add_expression(grammar *g, int depth) {
    static const char *const plain[] = {
        "($+$)",    "($-$)",        "$*$",    "$/$",     "-$",         "min($,$)",        "max($,@)",
        "max(@,$)", "clamp($,@,@)", "abs($)", "sqrt($)", "fma($,$,$)", "select($?$,$,$)", "select($?@,$,$)"};
    static const char *const functions[] = {"exp($)",  "expm1($)", "log($)",     "log1p($)",   "erf($)",
                                            "erfc($)", "tanh($)",  "sigmoid($)", "softplus($)"};
    static const char *const comparisons[] = {"<", "<=", ">", ">=", "==", "!="};
    if (depth == 0 || g->out->length > 200) {
        add_leaf(g);
        return;
    }
    const bool function = g->functions > 0 && fuzz_once_in(g->rng, 3);
    g->functions -= function;
    for (const char *c = function ? FUZZ_ONE_OF(g->rng, functions) : FUZZ_ONE_OF(g->rng, plain); *c != '\0'; c++)
        switch (*c) {
        case '$':
            add_expression(g, depth - 1);
            break;
        case '@':
            add_number(g);
            break;
        case '?':
            add(g->out, "%s", FUZZ_ONE_OF(g->rng, comparisons));
            break;
        default:
            add(g->out, "%c", *c);
        }
}

/* Their error analysis holds: no jump, nothing that overflows for ordinary arguments. */
static const char *const tame_formulas[] = {
    "act(x*sigmoid(1.702*x))",
    "act(tanh(x)*0.5+x)",
    "act(erf(x)+exp(-x*x))",
    "act(log1p(abs(x)))",
    "gated(min(g,7)*sigmoid(1.702*min(g,7))*(clamp(u,-7,7)+1))",
    "gated(softplus(g)*u)",
    "gated(g+tanh(u))",
};

static void draw_formula(support_rng *rng, text *out, bool *tame) {
    *tame = fuzz_once_in(rng, 4);
    if (*tame) {
        add(out, "%s", FUZZ_ONE_OF(rng, tame_formulas));
        return;
    }
    grammar g = {.out = out, .rng = rng, .gated = fuzz_once_in(rng, 2), .functions = 2};
    add(out, g.gated ? "gated(" : "act(");
    add_expression(&g, (int)support_between(rng, 1, 3));
    add(out, g.gated ? "+(g-u))" : "+x)");
}

static void draw_parameter(support_rng *rng, text *out, bool *tame) {
    static const char *const some[] = {"0.001", "0.5", "1", "1.5", "7", "3"}; /* every parameter may be these */
    static const char *const wild[] = {"1000", "-1", "0", "-2.5", "1e6", "-1e6", "3.4e38", "-3.4e38", "1e-30"};
    const bool is_tame = !fuzz_once_in(rng, 3);
    add(out, "%s", is_tame ? FUZZ_ONE_OF(rng, some) : FUZZ_ONE_OF(rng, wild));
    *tame = *tame && is_tame;
}

static void draw_built_in(support_rng *rng, text *out, bool *tame) {
    size_t count = 0;
    while (ffn_activation_at(count) != NULL)
        count++;
    const ffn_activation *row = ffn_activation_at((size_t)support_between(rng, 0, (int64_t)count - 1));
    *tame = true;
    add(out, "%s", row->name);
    if (row->parameters[0] == '\0' || fuzz_once_in(rng, 3))
        return;
    for (const char *comma = row->parameters; comma != NULL; comma = strchr(comma + 1, ',')) {
        add(out, comma == row->parameters ? "(" : ",");
        draw_parameter(rng, out, tame);
    }
    add(out, ")");
}

static void draw_spec(support_rng *rng, fuzz_subject *subject) {
    ffn_spec *spec = &subject->spec;
    char words[512];
    const int64_t d_model = draw_size(rng), d_ff = draw_size(rng);
    const bool formula = fuzz_once_in(rng, 4);
    do { /* a parameter may lie outside its row's range, a formula be too large */
        text t = {words, sizeof words, 0};
        add(&t, "d%lld-f%lld-", (long long)d_model, (long long)d_ff);
        if (formula)
            draw_formula(rng, &t, &subject->tame);
        else
            draw_built_in(rng, &t, &subject->tame);
    } while (ffn_spec_parse(words, spec, NULL) != FFN_OK);
    if (!formula && fuzz_once_in(rng, 3))
        spec->accuracy = FFN_FAST;
    spec->bias = (uint32_t)support_between(rng, 0, 7) & (ffn_spec_gated(spec) ? 7u : 5u);
}

/* One whose kernels may look for zeros in h (gen/sparse.h), at and around the widths from which on they do. */
static void draw_sparse_spec(support_rng *rng, fuzz_subject *subject) {
    static const char *const acts[] = {
        "relu", "relu2", "reglu", "hardswish", "hardsigmoid", "act(max(x,0)*x)", "gated(max(min(g,6),0)*(u+1))"};
    static const int64_t models[] = {64, 65, 66, 79, 80, 81, 95, 96, 97, 112, 127, 128, 129, 144, 160, 200, 257, 300};
    static const int64_t hidden[] = {127, 128, 129, 130, 135, 136, 144, 160, 177, 200, 255, 256, 257, 300};
    ffn_spec *spec = &subject->spec;
    char words[512];
    text t = {words, sizeof words, 0};
    add(&t, "d%lld-f%lld-%s", (long long)FUZZ_ONE_OF(rng, models), (long long)FUZZ_ONE_OF(rng, hidden),
        FUZZ_ONE_OF(rng, acts));
    ffn_spec_parse(words, spec, NULL);
    spec->bias = (uint32_t)support_between(rng, 0, 7) & (ffn_spec_gated(spec) ? 7u : 5u);
    subject->tame = true;
}

/* ---- Plans ---- */

/* Some heights, tallest first; each with a wider tile or without. */
static void draw_tiles(support_rng *rng, ffn_plan *plan) {
    static const int32_t tallest[] = {1, 2, 3, 4, 4, 6, 6, 8, 12, 14, 16};
    const bool many = fuzz_once_in(rng, 8);
    plan->tile_count = 0;
    int32_t mr = FUZZ_ONE_OF(rng, tallest);
    while (mr > 0 && plan->tile_count + 2 <= FFN_TILES_MAX) {
        const int32_t panels = mr == 1 ? 8 : mr < 4 ? 5 : 3;
        if (fuzz_once_in(rng, 2))
            plan->tiles[plan->tile_count++] = (ffn_tile){mr, (int32_t)support_between(rng, 2, panels)};
        plan->tiles[plan->tile_count++] = (ffn_tile){mr, 1};
        const int32_t next = many ? mr - 1 : (int32_t)support_between(rng, 1, mr);
        mr = mr == 1 ? 0 : next < mr ? next : 1;
    }
}

static int64_t draw_block(support_rng *rng, int64_t size) {
    const int64_t panels = (size + FFN_PANEL - 1) / FFN_PANEL;
    return FFN_PANEL * (fuzz_once_in(rng, 2) ? support_between(rng, 1, panels) : support_between(rng, 1, 4));
}

static void draw_fields(support_rng *rng, const ffn_spec *spec, ffn_plan *plan) {
    static const int64_t rows[] = {16, 24, 36, 66, 70, 71, 132, PLAN_M_BLOCK_MAX};
    static const int32_t chunk[] = {0, 0, 0, 16, 32, 128, 65536}, group[] = {0, 0, 1, 2, 3, 7, PLAN_GROUP_MAX};
    static const int32_t ahead[] = {0, 0, 0, 1, 8, 16, 32, 255, PLAN_AHEAD_MAX};
    plan->n_class = (ffn_n_class)support_between(rng, 0, FFN_N_CLASSES - 1);
    plan->m_block = fuzz_once_in(rng, 3) ? FUZZ_ONE_OF(rng, rows) : support_between(rng, 1, 17);
    plan->f_block = fuzz_once_in(rng, 8) ? FFN_DIM_MAX / 256 : draw_block(rng, spec->d_ff);
    plan->k_block = fuzz_once_in(rng, 2) ? spec->d_model + support_between(rng, 0, 1) : draw_block(rng, spec->d_model);
    plan->unroll = (int32_t)support_between(rng, 1, fuzz_once_in(rng, 4) ? PLAN_UNROLL_MAX : 4);
    plan->prefetch = (int32_t)(fuzz_once_in(rng, 2) ? 0 : support_between(rng, 0, plan->unroll));
    plan->ahead = FUZZ_ONE_OF(rng, ahead);
    plan->row_split = (ffn_row_split)support_between(rng, 0, FFN_ROW_SPLITS - 1);
    plan->chunk = FUZZ_ONE_OF(rng, chunk);
    plan->group = FUZZ_ONE_OF(rng, group);
    plan->copy_x = (int32_t)support_between(rng, 0, PLAN_COPY_X_INTERLEAVED);
    plan->hold_y = (int32_t)support_between(rng, 0, 1);
    plan->vector_bits = fuzz_once_in(rng, 3) ? 256 : 0; /* refused but where vectors are wider */
    draw_tiles(rng, plan);
}

static void draw_plan(support_rng *rng, fuzz_subject *subject) {
    enum { SCRATCH_BYTES_MAX = 16 << 20 };
    do
        draw_fields(rng, &subject->spec, &subject->plan);
    while (ffn_plan_check(&subject->spec, &subject->plan, NULL) != FFN_OK ||
           plan_scratch_bytes(&subject->spec, &subject->plan) > SCRATCH_BYTES_MAX);
    if (subject->sparse && subject->plan.copy_x == PLAN_COPY_X_INTERLEAVED)
        subject->plan.copy_x = 1;
    if (subject->sparse)
        subject->plan.n_class = (ffn_n_class)support_between(rng, FFN_N_1, FFN_N_2_4);
}

/* Any that runs here, this CPU's own more often. */
static ffn_isa draw_isa(support_rng *rng) {
    const ffn_isa isa = (ffn_isa)support_between(rng, FFN_ISA_PORTABLE, FFN_ISA_COUNT - 1);
    return isa == FFN_ISA_PORTABLE || (support_isa_runs(isa) && fuzz_once_in(rng, 2)) ? isa : ffn_isa_best();
}

/* ---- Code ---- */

static ffn_status build(void *self, const ffn_spec *spec, const ffn_plan *plan, ffn_bytes *out, ffn_diag *diag) {
    (void)self;
    return ffngen_emit(spec, plan, FFNGEN_IMAGE, out, diag);
}

static ffn_status make_kernel(fuzz_subject *s, ffn_diag *diag) {
    static const ffn_source source = {.build = build};
    const ffn_isa runs_as = s->isa == FFN_ISA_PORTABLE || ffn_isa_supported(s->isa) ? s->isa : FFN_ISA_AVX2;
    ffn_options options = {.isa = runs_as, .verify = FFN_VERIFY_NEVER, .source = &source, .store = "", .tuned = ""};
    ffn_machine machine;
    if (runs_as != FFN_ISA_PORTABLE && ffn_machine_generic(runs_as, &machine, NULL) == FFN_OK)
        options.machine = &machine;
    if (s->prepared)
        options.plan = &s->plan;
    ffn_status status = ffn_context_create(&options, &s->context, diag);
    status = status ? status : ffn_kernel_create(s->context, &s->spec, &s->kernel, diag);
    if (status || s->isa == FFN_ISA_PORTABLE)
        return status;
    if (s->prepared)
        return ffn_kernel_prepare(s->kernel, 1, diag);
    ffn_bytes made = {.data = NULL};
    status = support_kernel_image(&s->spec, &s->plan, &made, diag);
    if (status)
        return status;
    status = ffn_kernel_load(s->kernel, made.data, made.bytes, diag);
    made.release(made.data);
    return status;
}

static bool take_given(const fuzz_given *given, fuzz_subject *s, ffn_diag *diag) {
    if (given->spec != NULL && ffn_spec_parse(given->spec, &s->spec, diag) != FFN_OK)
        return false;
    if (s->spec.d_model > D_MAX || s->spec.d_ff > D_MAX) {
        snprintf(diag->text, sizeof diag->text, "%.60s: sizes are at most %d here", given->spec, (int)D_MAX);
        return false;
    }
    if (given->plan == NULL)
        return true;
    if (strcmp(given->plan, ffn_isa_name(FFN_ISA_PORTABLE)) == 0) {
        s->isa = FFN_ISA_PORTABLE;
        return true;
    }
    if (ffn_plan_parse(given->plan, &s->plan, diag) != FFN_OK)
        return false;
    s->isa = s->plan.isa;
    return true;
}

bool fuzz_given_check(const fuzz_given *given, ffn_diag *diag) {
    fuzz_subject subject = {0};
    return take_given(given, &subject, diag) &&
           (given->spec == NULL || given->plan == NULL || subject.isa == FFN_ISA_PORTABLE ||
            ffn_plan_check(&subject.spec, &subject.plan, diag) == FFN_OK);
}

bool fuzz_subject_make(uint64_t group, const fuzz_given *given, fuzz_subject *s, char finding[FINDING_BYTES]) {
    support_rng rng = {~group};
    ffn_diag diag = {.text = ""};
    memset(s, 0, sizeof *s);
    support_rng taste = {group * 7 + 1}; /* of its own: what else a seed draws stays what it was */
    s->sparse = fuzz_once_in(&taste, 3);
    draw_spec(&rng, s);
    if (s->sparse)
        draw_sparse_spec(&taste, s);
    s->isa = draw_isa(&rng);
    bool good = take_given(given, s, &diag);
    if (good && s->isa != FFN_ISA_PORTABLE && given->plan == NULL) {
        s->plan.isa = s->isa;
        draw_plan(&rng, s);
    }
    s->prepared = fuzz_once_in(&rng, 2) && s->isa != FFN_ISA_PORTABLE && ffn_isa_supported(s->isa);
    good = good && ffn_spec_format(&s->spec, s->spec_text, sizeof s->spec_text, &diag) == FFN_OK;
    if (good && s->isa != FFN_ISA_PORTABLE)
        good = ffn_plan_format(&s->plan, s->plan_text, sizeof s->plan_text, &diag) == FFN_OK;
    else
        strcpy(s->plan_text, ffn_isa_name(FFN_ISA_PORTABLE));
    good = good && (s->isa == FFN_ISA_PORTABLE || support_isa_runs(s->isa)) && make_kernel(s, &diag) == FFN_OK;
    if (!good) {
        snprintf(finding, FINDING_BYTES, "cannot be made: %s", diag.text);
        return false;
    }
    const kernel_slot *slot = kernel_serving(s->kernel, 1);
    s->code = slot != NULL ? &slot->code.code : NULL;
    s->scratch_bytes = slot != NULL ? (size_t)s->code->header->scratch_bytes : ffn_kernel_scratch_bytes(s->kernel);
    if ((s->code != NULL) != (s->isa != FFN_ISA_PORTABLE)) {
        snprintf(finding, FINDING_BYTES, "the wrong code serves");
        return false;
    }
    return true;
}

void fuzz_subject_free(fuzz_subject *s) {
    ffn_kernel_destroy(s->kernel);
    ffn_context_destroy(s->context);
    memset(s, 0, sizeof *s);
}
