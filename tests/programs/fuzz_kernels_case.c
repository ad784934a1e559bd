/* fuzz_kernels_case.c: a seed -> x, y and the memory around them, a call, and whether all is as it must be
 *
 * What the calls had to write has the bits of the portable kernel (of the contract, word for word, where that kernel is
 * the one tried), and lies within the bound of the double oracle; every other byte is what it was. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fallback.h"
#include "fuzz_kernels.h"
#include "support_oracle.h"

#if defined(__x86_64__)
#include <immintrin.h>
static uint64_t float_mode(void) {
    const unsigned exceptions_seen = 0x3f;
    return _mm_getcsr() & ~exceptions_seen;
}
#elif defined(__aarch64__)
static uint64_t float_mode(void) {
    uint64_t fpcr;
    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    return fpcr;
}
#else
static uint64_t float_mode(void) {
    return 0;
}
#endif

void fuzz_found(fuzz_case *c, const char *format, ...) {
    va_list arguments;
    if (c->finding[0] != '\0')
        return;
    va_start(arguments, format);
    vsnprintf(c->finding, FINDING_BYTES, format, arguments);
    va_end(arguments);
}

/* ---- x and y ---- */

static int64_t draw_rows(support_rng *rng) {
    return fuzz_once_in(rng, 2) ? support_between(rng, 1, 17) : support_between(rng, 0, N_MAX);
}

static int64_t draw_stride(support_rng *rng, int64_t least) {
    static const int64_t extra[] = {0, 0, 0, 1, 1, 7, 13, 16, LD_EXTRA_MAX};
    return least + FUZZ_ONE_OF(rng, extra);
}

static float *place_rows(fuzz_case *c, const fuzz_arena *arena, int64_t ld, int64_t width) {
    const int64_t n = c->args.n;
    const size_t bytes = n == 0 ? 0 : (size_t)((n - 1) * ld + width) * sizeof(float);
    const fuzz_where where = (fuzz_where)support_between(&c->rng, 0, FUZZ_PLACES - 1);
    return fuzz_arena_place(arena, bytes, sizeof(float), where, &c->rng);
}

/* x as columns of the buffer that y has, beside those of y. */
static void place_beside(fuzz_case *c) {
    ffn_args *a = &c->args;
    const int64_t d = c->of->spec.d_model, gap = support_between(&c->rng, 0, 3),
                  behind = support_between(&c->rng, 0, 3);
    a->ldx = a->ldy = 2 * d + gap + behind;
    float *first = place_rows(c, &c->arenas->y, a->ldy, 2 * d + gap);
    const bool x_first = fuzz_once_in(&c->rng, 2);
    a->x = x_first ? first : first + d + gap;
    a->y = x_first ? first + d + gap : first;
}

static void place(fuzz_case *c, bool beside) {
    ffn_args *a = &c->args;
    const int64_t d = c->of->spec.d_model;
    if (beside) {
        place_beside(c);
        return;
    }
    a->ldx = draw_stride(&c->rng, d);
    a->ldy = draw_stride(&c->rng, d);
    a->x = place_rows(c, &c->arenas->x, a->ldx, d);
    a->y = place_rows(c, &c->arenas->y, a->ldy, d);
}

/* Everything is NaN but x itself, whose values go to `dense` too. */
static void fill(fuzz_case *c, const fuzz_kind *kind, float *dense) {
    const ffn_args *a = &c->args;
    const int64_t d = c->of->spec.d_model;
    memset(c->arenas->x.begin, 0xff, c->arenas->x.bytes);
    memset(c->arenas->y.begin, 0xff, c->arenas->y.bytes);
    for (int64_t i = 0; i < a->n * d; i++)
        dense[i] = kind->draw(&c->rng);
    for (int64_t r = 0; r < a->n; r++)
        memcpy((float *)a->x + r * a->ldx, dense + r * d, (size_t)d * sizeof(float));
}

/* ---- What must be there ---- */

static void check_oracle(fuzz_case *c, const float *want, int64_t row) {
    const ffn_spec *spec = &c->of->spec;
    double *y = malloc(2 * (size_t)spec->d_model * sizeof *y), *bound = y + spec->d_model;
    oracle_ffn(spec, &c->weights->given, c->dense + row * spec->d_model, spec->d_model, 1, y, bound);
    const int64_t outside = oracle_first_outside(spec, want + row * spec->d_model, spec->d_model, 1, y, bound);
    if (outside >= 0)
        fuzz_found(c, "row %lld column %lld: %a is not %a +- %a of the oracle", (long long)row, (long long)outside,
                   (double)want[row * spec->d_model + outside], y[outside], bound[outside]);
    free(y);
}

static void check_contract(fuzz_case *c, const float *want, int64_t row) {
    const ffn_spec *spec = &c->of->spec;
    float *y = malloc((size_t)spec->d_model * sizeof *y);
    oracle_contract(spec, &c->weights->given, c->dense + row * spec->d_model, spec->d_model, 1, y);
    const int64_t unequal = oracle_first_unequal(spec, want + row * spec->d_model, spec->d_model, y, spec->d_model, 1);
    if (unequal >= 0)
        fuzz_found(c, "row %lld column %lld: %a of the portable kernel is not %a of the contract", (long long)row,
                   (long long)unequal, (double)want[row * spec->d_model + unequal], (double)y[unequal]);
    free(y);
}

/* By the portable kernel, in memory of its own; where that is the one tried, by the contract. */
static float *wanted(fuzz_case *c) {
    const fuzz_subject *s = c->of;
    const int64_t d = s->spec.d_model, n = c->args.n;
    float *want = support_aligned((size_t)(n * d) * sizeof(float));
    if (s->code == NULL) {
        oracle_contract(&s->spec, &c->weights->given, c->dense, d, n, want);
    } else {
        void *scratch = support_aligned(fallback_scratch_bytes(&s->spec));
        fallback_run(&s->spec, &s->kernel->shape.layout, &s->kernel->shape.graph, c->dense, d, want, d, c->args.packed,
                     scratch, 0, n);
        free(scratch);
        if (fuzz_once_in(&c->rng, 4))
            check_contract(c, want, support_between(&c->rng, 0, n - 1));
    }
    if (c->tame && fuzz_once_in(&c->rng, 4))
        check_oracle(c, want, support_between(&c->rng, 0, n - 1));
    return want;
}

static void check_written(fuzz_case *c, const float *want) {
    const ffn_args *a = &c->args;
    const int64_t d = c->of->spec.d_model;
    const ffn_spec one = {.d_model = 1};
    for (int64_t r = 0; r < a->n; r++)
        for (int64_t j = 0; j < d; j++) {
            float *got = a->y + r * a->ldy + j;
            if (!c->done[r * d + j])
                continue;
            if (oracle_first_unequal(&one, got, 1, want + r * d + j, 1, 1) >= 0)
                fuzz_found(c, "row %lld column %lld of %lld x %lld is %a, not %a", (long long)r, (long long)j,
                           (long long)a->n, (long long)d, (double)*got, (double)want[r * d + j]);
            memset(got, 0xff, sizeof *got); /* as it was before: what follows looks at the rest */
        }
}

static bool all_ones(const char *begin, size_t bytes, size_t *at) {
    if (bytes == 0 || ((unsigned char)*begin == 0xff && memcmp(begin, begin + 1, bytes - 1) == 0))
        return true;
    for (*at = 0; (unsigned char)begin[*at] == 0xff;)
        ++*at;
    return false;
}

/* After check_written. */
static void check_rest(fuzz_case *c, bool beside) {
    const ffn_args *a = &c->args;
    const fuzz_arena *y = &c->arenas->y;
    const int64_t d = c->of->spec.d_model;
    size_t at = 0;
    for (int64_t r = 0; beside && r < a->n; r++) {
        float *x = (float *)a->x + r * a->ldx;
        if (memcmp(x, c->dense + r * d, (size_t)d * sizeof *x) != 0)
            fuzz_found(c, "row %lld of x has been written", (long long)r);
        memset(x, 0xff, (size_t)d * sizeof *x);
    }
    if (!all_ones(y->begin, y->bytes, &at))
        fuzz_found(c, "written outside of what was asked for: %lld bytes behind the first of y (%lld x %lld)",
                   (long long)(y->begin + at - (const char *)a->y), (long long)a->n, (long long)d);
    for (int i = 0; i < c->around_count; i++)
        if (!all_ones(c->around[i].begin, c->around[i].bytes, &at))
            fuzz_found(c, "written %s %s", i % 2 == 0 ? "before" : "behind",
                       c->around_count > 2 && i < 2 ? "hidden" : "scratch");
}

void fuzz_case_run(uint64_t seed, const fuzz_subject *subject, const fuzz_weights *weights, const fuzz_arenas *arenas,
                   const void *packed, char about[ABOUT_BYTES], char finding[FINDING_BYTES]) {
    fuzz_case c = {.of = subject, .weights = weights, .arenas = arenas, .rng = {seed * 5}, .finding = finding};
    const int64_t d = subject->spec.d_model;
    finding[0] = '\0';
    c.args = (ffn_args){.n = draw_rows(&c.rng), .packed = packed};
    const bool beside = fuzz_once_in(&c.rng, 6);
    const fuzz_kind *kind = fuzz_kind_of(&c.rng);
    const fuzz_call *call = fuzz_call_of(&c.rng);
    support_rng taste = {seed * 11 + 3};
    if (subject->sparse && !fuzz_once_in(&taste, 4))
        c.args.n = support_between(&taste, 1, 4);
    const int64_t n = c.args.n;
    c.tame = subject->tame && weights->tame && kind->tame;
    place(&c, beside);
    snprintf(about, ABOUT_BYTES,
             "seed %llu: %s\n  plan %s (%s)\n  %s, n %lld, ldx %lld, ldy %lld%s, x %s, weights %s\n",
             (unsigned long long)seed, subject->spec_text, subject->plan_text,
             subject->prepared ? "prepared" : "loaded", call->name, (long long)n, (long long)c.args.ldx,
             (long long)c.args.ldy, beside ? ", x and y in one buffer" : "", kind->name, weights->text);
    float *dense = support_aligned((size_t)(n * d) * sizeof(float));
    fill(&c, kind, dense);
    c.dense = dense;
    c.done = calloc((size_t)(n * d) + 1, 1);
    fuzz_arena_protect(&arenas->x, true);
    const uint64_t mode = float_mode();
    call->make(&c);
    if (float_mode() != mode)
        fuzz_found(&c, "MXCSR or FPCR changed");
    fuzz_arena_protect(&arenas->x, false);
    if (memchr(c.done, 1, (size_t)(n * d)) != NULL) {
        float *want = wanted(&c);
        check_written(&c, want);
        free(want);
    }
    c.args.n = n; /* stages take fewer */
    check_rest(&c, beside);
    free(c.done);
    free(dense);
}
