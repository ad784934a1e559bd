/* fuzz_kernels_calls.c: a case -> calls of its kernel: whole, by ranges of rows, by the two stages, as the pieces of a
 * work, the activation alone
 *
 * Through the API, whose checks are tried with it, or straight into the code, with as little scratch as that asks for.
 * Parts run in any order, each with its scratch full of NaN. */
#include <stdlib.h>
#include <string.h>

#include "fallback.h"
#include "formula.h"
#include "fuzz_kernels.h"
#include "support_oracle.h"

enum { PARTS_MAX = 24 };

typedef struct part {
    int64_t begin, end;
} part;

/* 0 .. total cut into parts whose inner ends are multiples of `unit`, in any order; some may be empty. */
static int cut(support_rng *rng, int64_t total, int64_t unit, part parts[PARTS_MAX]) {
    int64_t at = 0;
    int count = 0;
    while (at < total && count < PARTS_MAX) {
        const int64_t units = (total - at + unit - 1) / unit;
        const int64_t some = count == PARTS_MAX - 1 || fuzz_once_in(rng, 4)
                                 ? units
                                 : support_between(rng, fuzz_once_in(rng, 8) ? 0 : 1, units < 8 ? units : 8);
        const int64_t end = at + some * unit < total ? at + some * unit : total;
        parts[count++] = (part){at, end};
        at = end;
    }
    for (int i = count - 1; i > 0; i--) {
        const int64_t j = support_between(rng, 0, i);
        const part other = parts[i];
        parts[i] = parts[j];
        parts[j] = other;
    }
    return count;
}

static void mark(fuzz_case *c, int64_t row, int64_t row_end, int64_t column, int64_t column_end) {
    for (int64_t r = row; r < row_end; r++)
        memset(c->done + r * c->of->spec.d_model + column, 1, (size_t)(column_end - column));
}

static size_t least_bytes(size_t room) {
    enum { WATCHED = 1024 };
    return room < WATCHED ? room : WATCHED;
}

void *fuzz_place_scratch(fuzz_case *c, const fuzz_arena *arena, size_t bytes) {
    const fuzz_where where = (fuzz_where)support_between(&c->rng, 0, FUZZ_PLACES - 1);
    char *scratch = fuzz_arena_place(arena, bytes, FFN_SCRATCH_ALIGN, where, &c->rng);
    const size_t before = least_bytes((size_t)(scratch - arena->begin));
    const size_t behind = least_bytes(arena->bytes - bytes - (size_t)(scratch - arena->begin));
    memset(scratch - before, 0xff, before + bytes + behind);
    c->around[c->around_count].begin = scratch - before;
    c->around[c->around_count++].bytes = before;
    c->around[c->around_count].begin = scratch + bytes;
    c->around[c->around_count++].bytes = behind;
    return scratch;
}

static void expect_ok(fuzz_case *c, ffn_status status, const ffn_diag *diag) {
    if (status != FFN_OK)
        fuzz_found(c, "refused: %s", diag->text);
}

/* As the API is called; the scratch of the calls that need one. */
void fuzz_take_scratch(fuzz_case *c, size_t bytes) {
    c->args.scratch = fuzz_place_scratch(c, &c->arenas->scratch, bytes);
    c->args.scratch_bytes = bytes;
}

static void refill(fuzz_case *c) {
    if (fuzz_once_in(&c->rng, 2))
        memset(c->args.scratch, 0xff, c->args.scratch_bytes);
}

/* ---- Rows ---- */

static void run_whole(fuzz_case *c) {
    ffn_diag diag = {.text = ""};
    fuzz_take_scratch(c, ffn_kernel_scratch_bytes(c->of->kernel));
    expect_ok(c, ffn_kernel_run(c->of->kernel, &c->args, &diag), &diag);
    mark(c, 0, c->args.n, 0, c->of->spec.d_model);
}

static void fused(const fuzz_case *c, int64_t begin, int64_t end) {
    const fuzz_subject *s = c->of;
    const ffn_args *a = &c->args;
    if (s->code != NULL)
        s->code->fused(a->x, a->ldx, a->y, a->ldy, a->packed, a->scratch, begin, end);
    else
        fallback_run(&s->spec, &s->kernel->shape.layout, &s->kernel->shape.graph, a->x, a->ldx, a->y, a->ldy, a->packed,
                     a->scratch, begin, end);
}

/* One range in some is left out: its rows must stay as they were. */
static void run_rows(fuzz_case *c, bool direct) {
    part parts[PARTS_MAX];
    ffn_diag diag = {.text = ""};
    fuzz_take_scratch(c, direct ? c->of->scratch_bytes : ffn_kernel_scratch_bytes(c->of->kernel));
    const int count = cut(&c->rng, c->args.n, 1, parts), made = count - (count > 1 && fuzz_once_in(&c->rng, 3));
    for (int i = 0; i < made; i++) {
        refill(c);
        if (direct)
            fused(c, parts[i].begin, parts[i].end);
        else
            expect_ok(c, ffn_kernel_run_rows(c->of->kernel, &c->args, parts[i].begin, parts[i].end, &diag), &diag);
        mark(c, parts[i].begin, parts[i].end, 0, c->of->spec.d_model);
    }
}

static void run_row_ranges(fuzz_case *c) {
    run_rows(c, false);
}

static void run_fused(fuzz_case *c) {
    run_rows(c, true);
}

/* ---- Stages ---- */

static ffn_status stage(const fuzz_case *c, bool direct, int phase, float *hidden, part columns, ffn_diag *diag) {
    const fuzz_subject *s = c->of;
    const ffn_args *a = &c->args;
    if (!direct && phase == 0)
        return ffn_kernel_expand(s->kernel, a, hidden, columns.begin, columns.end, diag);
    if (!direct)
        return ffn_kernel_contract(s->kernel, a, hidden, columns.begin, columns.end, diag);
    if (phase == 0 && s->code != NULL)
        s->code->expand(a->x, a->ldx, a->packed, hidden, a->scratch, a->n, columns.begin, columns.end);
    else if (phase == 0)
        fallback_expand(&s->spec, &s->kernel->shape.layout, &s->kernel->shape.graph, a->x, a->ldx, a->packed, hidden,
                        a->scratch, a->n, columns.begin, columns.end);
    else if (s->code != NULL)
        s->code->contract(hidden, a->packed, a->y, a->ldy, a->scratch, a->n, columns.begin, columns.end);
    else
        fallback_contract(&s->spec, &s->kernel->shape.layout, hidden, a->packed, a->y, a->ldy, a->scratch, a->n,
                          columns.begin, columns.end);
    return FFN_OK;
}

/* Rows beyond what a stage takes stay as they were. */
static void run_both_stages(fuzz_case *c, bool direct) {
    part parts[PARTS_MAX];
    ffn_diag diag = {.text = ""};
    const ffn_spec *spec = &c->of->spec;
    c->args.n = c->args.n < FFN_STAGE_ROWS_MAX ? c->args.n : FFN_STAGE_ROWS_MAX;
    const size_t hidden_bytes = (size_t)(image_hidden_stride(spec) * c->args.n) * sizeof(float);
    float *hidden = fuzz_place_scratch(c, &c->arenas->hidden, hidden_bytes);
    fuzz_take_scratch(c, direct ? c->of->scratch_bytes : ffn_kernel_scratch_bytes(c->of->kernel));
    for (int phase = 0; phase < 2; phase++) {
        const int64_t width = phase == 0 ? spec->d_ff : spec->d_model;
        const int count = cut(&c->rng, width, FFN_PANEL, parts);
        const int made = count - (phase == 1 && count > 1 && fuzz_once_in(&c->rng, 3));
        for (int i = 0; i < made && c->args.n > 0; i++) {
            refill(c);
            expect_ok(c, stage(c, direct, phase, hidden, parts[i], &diag), &diag);
            if (phase == 1)
                mark(c, 0, c->args.n, parts[i].begin, parts[i].end);
        }
    }
}

static void run_stages(fuzz_case *c) {
    run_both_stages(c, false);
}

static void run_stages_directly(fuzz_case *c) {
    run_both_stages(c, true);
}

/* ---- Works ---- */

static void run_backwards(void *self, int64_t count, void (*task)(void *argument, int64_t i), void *argument) {
    (void)self;
    for (int64_t i = count - 1; i >= 0; i--)
        task(argument, i);
}

static void run_work(fuzz_case *c) {
    enum { PIECES_MAX = 12 };
    part order[PARTS_MAX];
    ffn_work work;
    ffn_diag diag = {.text = ""};
    const int64_t most = support_between(&c->rng, 1, PIECES_MAX);
    fuzz_take_scratch(c, ffn_work_scratch_bytes(c->of->kernel, c->args.n, most));
    mark(c, 0, c->args.n, 0, c->of->spec.d_model);
    if (fuzz_once_in(&c->rng, 4)) {
        const ffn_parallel_for pool = {.run = run_backwards, .threads = most};
        expect_ok(c, ffn_kernel_run_parallel(c->of->kernel, &c->args, &pool, &diag), &diag);
        return;
    }
    const ffn_status status = ffn_work_make(c->of->kernel, &c->args, most, &work, &diag);
    expect_ok(c, status, &diag);
    for (int phase = 0; status == FFN_OK && phase < work.phases; phase++) {
        if (work.pieces[phase] < 1 || work.pieces[phase] > most)
            fuzz_found(c, "%lld pieces of at most %lld", (long long)work.pieces[phase], (long long)most);
        const int count = cut(&c->rng, work.pieces[phase], 1, order);
        for (int i = 0; i < count; i++)
            for (int64_t piece = order[i].begin; piece < order[i].end; piece++)
                expect_ok(c, ffn_work_run(&work, phase, piece, &diag), &diag);
    }
}

/* ---- The activation alone ---- */

static void run_activation(fuzz_case *c) {
    const fuzz_subject *s = c->of;
    ffn_diag diag = {.text = ""};
    const int64_t count = support_between(&c->rng, 0, 2 * N_MAX);
    const size_t bytes = (size_t)count * sizeof(float);
    const fuzz_kind *kind = fuzz_kind_of(&c->rng);
    const fuzz_where g_at = (fuzz_where)support_between(&c->rng, 0, FUZZ_PLACES - 1);
    const fuzz_where u_at = (fuzz_where)support_between(&c->rng, 0, FUZZ_PLACES - 1);
    float *g = fuzz_arena_place(&c->arenas->scratch, bytes, sizeof(float), g_at, &c->rng);
    float *u = fuzz_arena_place(&c->arenas->hidden, bytes, sizeof(float), u_at, &c->rng);
    float *want = support_aligned(bytes), *out = support_aligned(bytes + 2 * sizeof(float));
    const ffn_spec flat = {.d_model = 1};
    for (int64_t i = 0; i < count; i++) {
        g[i] = kind->draw(&c->rng);
        u[i] = kind->draw(&c->rng);
    }
    formula_eval(&s->kernel->shape.graph, count, g, u, want);
    float *places[] = {g, u, out + 1};
    float *to = FUZZ_ONE_OF(&c->rng, places);
    out[0] = out[count + 1] = 1;
    expect_ok(c, ffn_kernel_activate(s->kernel, c->args.n, count, g, ffn_spec_gated(&s->spec) ? u : NULL, to, &diag),
              &diag);
    const int64_t unequal = oracle_first_unequal(&flat, to, 1, want, 1, count);
    if (unequal >= 0)
        fuzz_found(c, "activation %lld of %lld is %a, not %a", (long long)unequal, (long long)count,
                   (double)to[unequal], (double)want[unequal]);
    if (out[0] != 1 || out[count + 1] != 1)
        fuzz_found(c, "the activation wrote beside its result");
    free(want);
    free(out);
}

const fuzz_call *fuzz_call_of(support_rng *rng) {
    static const fuzz_call calls[] = {
        {"run", 3, run_whole},
        {"run_rows", 3, run_row_ranges},
        {"fused", 4, run_fused},
        {"stages", 3, run_stages},
        {"stages, direct", 4, run_stages_directly},
        {"work", 3, run_work},
        {"activate", 2, run_activation},
        {"wrong arguments", 1, fuzz_run_refused},
    };
    enum { CALLS = sizeof calls / sizeof *calls };
    int64_t sum = 0;
    for (int i = 0; i < CALLS; i++)
        sum += calls[i].weight;
    int64_t left = support_between(rng, 0, sum - 1);
    const fuzz_call *call = calls;
    while (left >= call->weight)
        left -= (call++)->weight;
    return call;
}
