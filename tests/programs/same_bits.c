/* same_bits.c: what an independent chain of fused multiply-adds gives -> a file of rows; and that every kernel of this
 * process gives the same, whatever ISA, plan, n class, source and number of threads
 *
 *   same_bits specs|header        "NAME=SPEC" a line, as `ffngen emit` takes them: all, those of headers
 *   same_bits rows FILE GOLDEN    the contract written out in C with fmaf (oracle_contract): no packed weights, no
 * blocks; its digests must be those of record same_bits check FILE FOLDER   kernels of libffn and libffngen; the store
 * is in that folder */
#include "ffngen.h"
#include "formula.h"
#include "plan_space.h"
#include "same_bits_kernel.h"
#include "support_kernel.h"
#include "support_oracle.h"
#include "support_threads.h"

static same_rows want[SAME_COUNT];

/* ---- What the rows must be ---- */

static same_rows rows_by_contract(int which) {
    const layer *of = &same_layers[which];
    const ffn_spec spec = same_spec(which);
    same_weights w = same_weights_make(which);
    const ffn_weights weights = {.up = {.data = w.up},
                                 .gate = {.data = of->gated ? w.gate : NULL},
                                 .down = {.data = w.down},
                                 .bias_up = w.biases[0],
                                 .bias_gate = w.biases[1],
                                 .bias_down = w.biases[2]};
    same_rows rows;
    for (int r = 0; r < same_row_count(of); r++) {
        float x[SAME_D], y[SAME_D];
        same_fill_row(x, of, which, r);
        oracle_contract(&spec, &weights, x, of->d_model, 1, y);
        rows.of[r] = same_digest(y, of->d_model);
    }
    float g[ACTIVATED], u[ACTIVATED], out[ACTIVATED];
    formula_graph *graph = malloc(sizeof *graph);
    HEADER_REQUIRE(graph != NULL);
    SAME_OK(formula_build(spec.activation, spec.accuracy, graph, &diag));
    same_fill_values(g, u);
    formula_eval(graph, ACTIVATED, g, of->gated ? u : NULL, out);
    rows.of[same_row_count(of)] = same_digest(out, ACTIVATED);
    free(graph);
    same_weights_free(&w);
    return rows;
}

static int write_rows(const char *path, const char *golden) {
    FILE *file = fopen(path, "w"), *record = fopen(golden, "r");
    HEADER_REQUIRE(file != NULL && record != NULL);
    int other = 0;
    for (int s = 0; s < SAME_COUNT; s++) {
        const same_rows rows = rows_by_contract(s);
        const uint64_t digest = same_of_spec(&same_layers[s], &rows);
        unsigned long long of_record;
        char spec[128];
        HEADER_REQUIRE(fscanf(record, "%llx %127s", &of_record, spec) == 2);
        HEADER_REQUIRE(strcmp(spec, same_layers[s].spec) == 0);
        printf("digest %016llx %s\n", (unsigned long long)digest, spec);
        if (of_record != digest) {
            printf("OTHER BITS: %s, by the contract written out: digest %016llx, of record is %016llx\n", spec,
                   (unsigned long long)digest, of_record);
            other = 1;
        }
        fprintf(file, "%s", spec);
        for (int r = 0; r <= same_row_count(&same_layers[s]); r++)
            fprintf(file, " %016llx", (unsigned long long)rows.of[r]);
        fprintf(file, "\n");
    }
    fclose(record);
    HEADER_REQUIRE(fclose(file) == 0);
    return other;
}

/* ---- Kernels that libffn serves ---- */

typedef struct tried { /* one spec's data, and what went well of each kind */
    int which;
    const void *packed;
    const char *folder;
} tried;

enum kind { PORTABLE, COMPILED, STORED, LOADED, PLANS, THREADS, LOWERED, KINDS };
static const char *const kind_names[KINDS] = {
    "the portable kernel",
    "compiled here, a class for each n",
    "mapped from the store, one class for all n",
    "images loaded",
    "forced plans of the space, and odd ones",
    "1, 2, 3 and 7 threads",
    "code of ISAs that this CPU lacks, lowered to what it has",
};
static int combined[KINDS];

static void check(const tried *t, enum kind kind, const char *who, const kernel *k) {
    same_job job = {t->which, k, who, t->packed, &want[t->which], 0, 0};
    same_check(&job);
    combined[kind] += job.combined;
}

typedef struct opened {
    ffn_context *context;
    ffn_kernel *kernel;
} opened;

static opened open_with(const tried *t, const ffn_options *options) {
    opened o;
    const ffn_spec spec = same_spec(t->which);
    SAME_OK(ffn_context_create(options, &o.context, &diag));
    SAME_OK(ffn_kernel_create(o.context, &spec, &o.kernel, &diag));
    return o;
}

static void close_again(opened o) {
    ffn_kernel_destroy(o.kernel);
    ffn_context_destroy(o.context);
}

static ffn_kernel_info prepare(opened o, ffn_n_class c) {
    static const int64_t rows[FFN_N_CLASSES] = {1, 4, 16, 17};
    ffn_kernel_info info;
    SAME_OK(ffn_kernel_prepare(o.kernel, rows[c], &diag));
    ffn_kernel_inspect(o.kernel, rows[c], &info);
    return info;
}

static const char *name(const char *what, ffn_isa isa, const char *more) {
    static char text[512];
    snprintf(text, sizeof text, "%s, %s%s%s", what, ffn_isa_name(isa), *more ? ", " : "", more);
    return text;
}

static void check_portable(const tried *t) {
    const opened o = open_with(t, &(ffn_options){.isa = FFN_ISA_PORTABLE, .store = "", .tuned = ""});
    const kernel k = same_kernel(t->which, o.kernel, NULL);
    check(t, PORTABLE, kind_names[PORTABLE], &k);
    close_again(o);
}

/* All classes are compiled and verified; then each serves alone, from the store. */
static void check_classes(const tried *t, ffn_isa isa) {
    const ffn_options options = {
        .isa = isa, .source = ffngen_source(), .store = t->folder, .tuned = "", .compiler = ""};
    opened o = open_with(t, &options);
    for (ffn_n_class c = 0; c < FFN_N_CLASSES; c++)
        HEADER_REQUIRE(prepare(o, c).source == FFN_FROM_COMPILER);
    kernel k = same_kernel(t->which, o.kernel, NULL);
    check(t, COMPILED, name("compiled", isa, ""), &k);
    for (int64_t threads = 1; threads <= 7; threads += threads < 3 ? 1 : 4) {
        support_crowd crowd;
        char text[32];
        support_crowd_make(&crowd, threads);
        snprintf(text, sizeof text, "%d threads", (int)threads);
        k = same_kernel(t->which, o.kernel, &crowd.parallel);
        check(t, THREADS, name("compiled", isa, text), &k);
    }
    close_again(o);
    for (ffn_n_class c = 0; c < FFN_N_CLASSES; c++) {
        o = open_with(t, &options);
        HEADER_REQUIRE(prepare(o, c).source == FFN_FROM_STORE);
        k = same_kernel(t->which, o.kernel, NULL);
        check(t, STORED, name("from the store", isa, ffn_n_class_name(c)), &k);
        close_again(o);
    }
}

/* The plan for the ISA's generic machine, as a deployment ships it; the class turns with the spec. */
static void check_image(const tried *t, ffn_isa isa) {
    const ffn_spec spec = same_spec(t->which);
    const ffn_n_class c = (ffn_n_class)(t->which % FFN_N_CLASSES);
    ffn_machine machine;
    ffn_plan plan;
    ffn_bytes bytes;
    SAME_OK(ffn_machine_generic(isa, &machine, &diag));
    SAME_OK(ffn_plan_make(&spec, isa, c, &machine, &plan, &diag));
    SAME_OK(ffngen_emit(&spec, &plan, FFNGEN_IMAGE, &bytes, &diag));
    const opened o = open_with(t, &(ffn_options){.isa = isa, .store = "", .tuned = "", .compiler = ""});
    SAME_OK(ffn_kernel_load(o.kernel, bytes.data, bytes.bytes, &diag));
    const kernel k = same_kernel(t->which, o.kernel, NULL);
    check(t, LOADED, name("an image", isa, ffn_n_class_name(c)), &k);
    close_again(o);
    bytes.release(bytes.data);
}

static void check_plan(const tried *t, const ffn_plan *plan) {
    const ffn_options options = {.isa = plan->isa,
                                 .source = ffngen_source(),
                                 .store = "",
                                 .tuned = "",
                                 .plan = plan,
                                 .verify = FFN_VERIFY_NEVER};
    char text[256];
    const opened o = open_with(t, &options);
    SAME_OK(ffn_plan_format(plan, text, sizeof text, &diag));
    HEADER_REQUIRE(prepare(o, plan->n_class).plan_from == FFN_PLAN_GIVEN);
    const kernel k = same_kernel(t->which, o.kernel, NULL);
    check(t, PLANS, name("the plan", plan->isa, text), &k);
    close_again(o);
}

/* Some of the grid, other ones for each spec, and one that no planner would choose. */
static void check_plans(const tried *t, ffn_isa isa) {
    enum { TAKEN = 1 };
    static ffn_plan plans[PLAN_GRID_MAX];
    const ffn_spec spec = same_spec(t->which);
    for (int i = 0; i < TAKEN; i++) {
        const ffn_n_class c = (ffn_n_class)((t->which + i) % FFN_N_CLASSES);
        const size_t count = plan_space_grid(&spec, isa, c, plans);
        HEADER_REQUIRE(count > 0);
        check_plan(t, &plans[(size_t)(31 * t->which + 53 * i) % count]);
    }
    ffn_plan odd = support_kernel_plan(&spec, isa, FFN_N_17_UP);
    odd.m_block = 7;
    odd.f_block = 32;
    odd.k_block = spec.d_model > 48 ? 48 : spec.d_model;
    odd.unroll = 3;
    odd.prefetch = 0;
    check_plan(t, &odd);
}

/* ---- Code that no CPU here has, as AVX2 code: the same IR but for LLVM's last step ---- */

static const support_kernel *lowered;

static int lowered_rows(const call *c, int64_t begin, int64_t end) {
    lowered->code.fused(c->x, c->ldx, c->y, c->ldy, c->packed, c->scratch, begin, end);
    return 0;
}

static int lowered_run(const call *c) {
    return lowered_rows(c, 0, c->n);
}

static int lowered_expand(const call *c, float *hidden, int64_t begin, int64_t end) {
    lowered->code.expand(c->x, c->ldx, c->packed, hidden, c->scratch, c->n, begin, end);
    return 0;
}

static int lowered_contract(const call *c, const float *hidden, int64_t begin, int64_t end) {
    lowered->code.contract(hidden, c->packed, c->y, c->ldy, c->scratch, c->n, begin, end);
    return 0;
}

static int lowered_activate(int64_t n, int64_t count, const float *g, const float *u, float *out) {
    (void)n;
    lowered->code.activate(count, g, u, out);
    return 0;
}

static void check_lowered(const tried *t, ffn_isa isa) {
    const ffn_spec spec = same_spec(t->which);
    const ffn_n_class c = (ffn_n_class)((t->which + (int)isa) % FFN_N_CLASSES);
    const ffn_plan plan = support_kernel_plan(&spec, isa, c);
    support_kernel made;
    support_kernel_build(&spec, &plan, &made);
    lowered = &made;
    const size_t hidden = (size_t)(FFN_STAGE_ROWS_MAX * image_hidden_stride(&spec)) * sizeof(float);
    const kernel k = {&same_layers[t->which],
                      0,
                      (size_t)made.scratch_bytes,
                      hidden,
                      NULL,
                      lowered_run,
                      lowered_rows,
                      lowered_expand,
                      lowered_contract,
                      lowered_activate};
    check(t, LOWERED, name("lowered", isa, ffn_n_class_name(c)), &k);
    support_kernel_free(&made);
}

static void check_spec(int which, const char *folder) {
    same_weights w = same_weights_make(which);
    void *packed = same_packed(which, &w);
    const tried t = {which, packed, folder};
    check_portable(&t);
    for (ffn_isa isa = FFN_ISA_PORTABLE + 1; isa < FFN_ISA_COUNT; isa++) {
        if (ffn_isa_supported(isa)) {
            check_classes(&t, isa);
            check_image(&t, isa);
            check_plans(&t, isa);
        } else if (support_isa_runs(isa))
            check_lowered(&t, isa);
    }
    release_aligned(packed);
    same_weights_free(&w);
}

int main(int count, char **words) {
    if (count == 2 && (strcmp(words[1], "specs") == 0 || strcmp(words[1], "header") == 0)) {
        for (int s = 0; s < (*words[1] == 's' ? SAME_COUNT : SAME_IN_HEADER); s++)
            printf("s%d=%s\n", s, same_layers[s].spec);
        return 0;
    }
    HEADER_REQUIRE(count == 4);
    if (strcmp(words[1], "rows") == 0)
        return write_rows(words[2], words[3]);
    same_read_rows(words[2], want);
    for (int s = 0; s < SAME_COUNT; s++)
        check_spec(s, words[3]);
    for (int isa = FFN_ISA_PORTABLE + 1; isa < FFN_ISA_COUNT; isa++)
        printf("%s: %s\n", ffn_isa_name((ffn_isa)isa),
               ffn_isa_supported((ffn_isa)isa)  ? "on this CPU"
               : support_isa_runs((ffn_isa)isa) ? "not on this CPU: its IR runs as AVX2 code"
                                                : "skipped: not on this CPU");
    for (int kind = 0; kind < KINDS; kind++)
        if (combined[kind] > 0)
            same_print(kind_names[kind], combined[kind]);
    return 0;
}
