/* test_shapes.c: generated kernels against the double oracle at every edge of shape, and the same bits for every n
 *
 * For one shape a kernel runs ROWS rows once, which the oracle judges; every smaller n must then give the same bits.
 * FFN_EXHAUSTIVE=1 (scripts/exhaustive.sh) runs every d_model and d_ff in 1 .. 67 instead of the chosen edges. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support_kernel.h"
#include "support_oracle.h"

#define ROWS 23 /* past two row blocks of small plans and around every tile height */

static const char *const activations[] = {"relu-bias",       "gelu-bias", "swiglu",    "silu",
                                          "geglu_tanh-bias", "gelu_tanh", "tanh-bias", "relu2"};
#define ACTIVATIONS (sizeof activations / sizeof *activations)

static ffn_spec spec_of(int64_t d_model, int64_t d_ff, size_t activation) {
    char text[128];
    snprintf(text, sizeof text, "d%lld-f%lld-%s", (long long)d_model, (long long)d_ff,
             activations[activation % ACTIVATIONS]);
    return support_spec(text);
}

typedef struct problem {
    ffn_spec spec;
    support_weights *weights;
    void *packed;
    float *x;
    double *y, *bound;
} problem;

static problem pose(ffn_spec spec, uint64_t seed) {
    problem p = {.spec = spec};
    size_t count = (size_t)(ROWS * spec.d_model);
    p.weights = support_random_weights(&spec, SUPPORT_NORMAL, seed);
    p.packed = support_packed(&spec, &p.weights->weights);
    p.x = support_aligned(count * sizeof(float));
    support_fill_x(p.x, ROWS, spec.d_model, spec.d_model, SUPPORT_NORMAL, seed + 1);
    p.y = malloc(count * sizeof(double));
    p.bound = malloc(count * sizeof(double));
    cr_assert(p.y && p.bound);
    oracle_ffn(&spec, &p.weights->weights, p.x, spec.d_model, ROWS, p.y, p.bound);
    return p;
}

static void dispose(problem *p) {
    support_weights_free(p->weights);
    free(p->packed);
    free(p->x);
    free(p->y);
    free(p->bound);
}

static void check(const problem *p, ffn_isa isa, ffn_n_class n_class, int64_t n_step) {
    const ffn_spec *s = &p->spec;
    ffn_plan plan = support_kernel_plan(s, isa, n_class);
    support_kernel kernel;
    support_kernel_build(s, &plan, &kernel);
    int64_t d = s->d_model, count = ROWS * d;
    float *whole = support_aligned((size_t)count * sizeof(float)),
          *part = support_aligned((size_t)count * sizeof(float));
    support_fill_nan(whole, count);
    support_kernel_run(&kernel, p->x, d, whole, d, ROWS, p->packed);
    int64_t wrong = oracle_first_outside(s, whole, d, ROWS, p->y, p->bound);
    cr_expect_eq(wrong, -1, "%s %s %s: row %lld column %lld", s->activation, ffn_isa_name(isa),
                 ffn_n_class_name(n_class), (long long)(wrong / d), (long long)(wrong % d));
    for (int64_t n = 1; n < ROWS; n += n_step) {
        support_fill_nan(part, count);
        support_kernel_run(&kernel, p->x, d, part, d, n, p->packed);
        int64_t unequal = oracle_first_unequal(s, part, d, whole, d, n);
        cr_expect_eq(unequal, -1, "d%lld-f%lld-%s %s %s n = %lld: first other bits at %lld", (long long)d,
                     (long long)s->d_ff, s->activation, ffn_isa_name(isa), ffn_n_class_name(n_class), (long long)n,
                     (long long)unequal);
    }
    free(whole);
    free(part);
    support_kernel_free(&kernel);
}

/* One shape: some activations, each with some classes of each ISA; which ones turns with `turn`, so that a run of
 * shapes meets all of them. */
static void check_shape(int64_t d_model, int64_t d_ff, size_t turn, size_t activation_count) {
    for (size_t a = 0; a < activation_count; a++) {
        problem p = pose(spec_of(d_model, d_ff, turn + a), 1000 + turn);
        for (ffn_isa isa = FFN_ISA_PORTABLE + 1; isa < FFN_ISA_COUNT; isa++) {
            bool native = ffn_isa_supported(isa);
            /* ISAs that run here as they are: always; the others, lowered: every fourth shape. */
            if (!support_isa_runs(isa) || (!native && (turn + a + isa) % 4))
                continue;
            check(&p, isa, (ffn_n_class)((turn + a) % FFN_N_CLASSES), native && a == 0 ? 1 : 5);
        }
        dispose(&p);
    }
}

static void say_isas(void) {
    for (ffn_isa isa = FFN_ISA_PORTABLE + 1; isa < FFN_ISA_COUNT; isa++)
        if (!support_isa_runs(isa))
            fprintf(stderr, "skipped: %s kernels cannot run on this CPU\n", ffn_isa_name(isa));
        else if (*support_isa_note(isa))
            fprintf(stderr, "note: %s%s\n", ffn_isa_name(isa), support_isa_note(isa));
}

/* 1, 2, around the lanes of each ISA, the panel, two and four panels (where the chains change), tiles; primes. */
static const int64_t edges[] = {1,  2,  3,  4,  5,  7,  8,  9,  13, 15, 16, 17, 31,
                                32, 33, 47, 48, 49, 63, 64, 65, 67, 96, 97, 127};
#define EDGES (sizeof edges / sizeof *edges)

/* Each edge of d_model meets each edge of d_ff in one of the four parts, in one activation. */
static void check_edges(size_t part) {
    say_isas();
    for (size_t i = 0; i < EDGES; i++)
        for (size_t j = 0; j < EDGES; j++)
            if ((i + 3 * j) % 16 == part * 4)
                check_shape(edges[i], edges[j], i + 5 * j + part, 1);
}

Test(shapes, edges_part_1, .timeout = 900) {
    check_edges(0);
}
Test(shapes, edges_part_2, .timeout = 900) {
    check_edges(1);
}
Test(shapes, edges_part_3, .timeout = 900) {
    check_edges(2);
}
Test(shapes, edges_part_4, .timeout = 900) {
    check_edges(3);
}

static void check_random(uint64_t seed) {
    support_rng rng = {.state = seed};
    for (size_t i = 0; i < 20; i++) { /* fuzz_kernels draws many more */
        int64_t d_model = support_between(&rng, 1, 300), d_ff = support_between(&rng, 1, 300);
        check_shape(d_model, d_ff, (size_t)support_next(&rng) % 64, 2);
    }
}

Test(shapes, random_1, .timeout = 900) {
    check_random(1);
}
Test(shapes, random_2, .timeout = 900) {
    check_random(2);
}
Test(shapes, random_3, .timeout = 900) {
    check_random(3);
}
Test(shapes, random_4, .timeout = 900) {
    check_random(4);
}

/* Every shape 1 .. 67 x 1 .. 67, in halves so that two cores share the work. */
static void check_all(int64_t first) {
    if (!getenv("FFN_EXHAUSTIVE"))
        cr_skip("set FFN_EXHAUSTIVE=1 (scripts/exhaustive.sh) to run every shape up to 67 x 67");
    size_t shapes = 0;
    for (int64_t d_model = first; d_model <= 67; d_model += 2)
        for (int64_t d_ff = 1; d_ff <= 67; d_ff++, shapes++)
            check_shape(d_model, d_ff, (size_t)(d_model * 3 + d_ff), 1);
    fprintf(stderr, "exhaustive: %zu shapes with d_model = %lld, %lld, ..., %lld\n", shapes, (long long)first,
            (long long)first + 2, (long long)(68 - first));
}

Test(shapes, exhaustive_odd, .timeout = 7200) {
    check_all(1);
}
Test(shapes, exhaustive_even, .timeout = 7200) {
    check_all(2);
}
