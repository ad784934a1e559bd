/* case.c: the contenders of one measurement and their rounds; case_figures.c makes figures of their times */
#include "case_state.h"

#include "diag.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHOICE_SECONDS 0.02
#define ACTIVATE_SEED 8
#define ROUNDS_MIN 3

static void rest_call(void *self) {
    bench_team_rest(((const case_state *)self)->request->team);
}

static void kernel_alone_call(void *self) {
    case_state *s = self;
    bench_team_rest(s->request->team);
    s->args.packed = bench_copies_turn(&s->request->layer->packed);
    s->status = ffn_kernel_run(s->request->kernel, &s->args, &s->diag);
}

static void kernel_work(void *self, int member, int size) {
    const case_state *s = self;
    for (int phase = 0; phase < s->work.phases; phase++) {
        if (phase > 0)
            bench_team_wait(s->request->team);
        for (int64_t piece = member; piece < s->work.pieces[phase]; piece += size)
            ffn_work_run(&s->work, phase, piece, NULL);
    }
}

static void team_call(case_state *s, const ffn_kernel *kernel, ffn_args *args) {
    int size = bench_team_size(s->request->team);
    args->packed = bench_copies_turn(&s->request->layer->packed);
    s->status = ffn_work_make(kernel, args, size, &s->work, &s->diag);
    if (s->status)
        return;
    if (s->work.phases == 1 && s->work.pieces[0] == 1)
        ffn_work_run(&s->work, 0, 0, NULL); /* small: the others would only have to be told */
    else
        bench_team_run(s->request->team, kernel_work, s);
}

static void kernel_call(void *self) {
    case_state *s = self;
    if (bench_team_size(s->request->team) == 1)
        kernel_alone_call(s);
    else
        team_call(s, s->request->kernel, &s->args);
}

static void fast_call(void *self) {
    case_state *s = self;
    if (bench_team_size(s->request->team) > 1) {
        team_call(s, s->fast.kernel, &s->fast.args);
        return;
    }
    s->fast.args.packed = bench_copies_turn(&s->request->layer->packed);
    s->status = ffn_kernel_run(s->fast.kernel, &s->fast.args, &s->diag);
}

static void peak_work(void *self, int member, int size) {
    (void)member, (void)size;
    ((const case_state *)self)->probes->peak.loop(PEAK_TURNS);
}

static void peak_call(void *self) {
    bench_team_run(((const case_state *)self)->request->team, peak_work, self);
}

static void peak_alone_call(void *self) {
    const case_state *s = self;
    bench_team_rest(s->request->team);
    s->probes->peak.loop(PEAK_TURNS);
}

static void read_work(void *self, int member, int size) {
    (void)size;
    const case_state *s = self;
    s->together.read(s->read_from + member * s->together.bytes, s->together.bytes);
}

static void read_call(void *self) {
    case_state *s = self;
    s->read_from = bench_copies_turn(&s->request->layer->packed);
    bench_team_run(s->request->team, read_work, s);
}

static void read_alone_call(void *self) {
    case_state *s = self;
    bench_team_rest(s->request->team);
    s->alone.read(bench_copies_turn(&s->request->layer->packed), s->alone.bytes);
}

static void free_call(void *self) {
    bench_free_order_call(&((case_state *)self)->free);
}

static void stages_call(void *self) {
    bench_stages_call(&((case_state *)self)->stages);
}

static void dense_call(void *self) {
    case_state *s = self;
    s->args.packed = bench_copies_turn(&s->request->layer->packed);
    ffn_kernel_run(s->request->dense, &s->args, NULL);
}

static void hand_call(void *self) {
    bench_hand_call(&((case_state *)self)->hand);
}

static void activate_call(void *self) {
    const case_state *s = self;
    ffn_kernel_activate(s->request->kernel, s->request->n, ACTIVATE_COUNT, s->values, s->values + ACTIVATE_COUNT,
                        s->values + 2 * ACTIVATE_COUNT, NULL);
}

typedef struct read_shape {
    case_state *s;
    reading *of;
    bench_read read;
    void (*call)(void *state);
} read_shape;

static void read_shape_call(void *self) {
    const read_shape *shape = self;
    shape->of->read = shape->read;
    shape->call(shape->s);
}

/* The best shape of reading for this buffer: what a kernel that only had to read could do. */
static void choose_read(case_state *s, reading *of, int threads, void (*call)(void *state)) {
    enum { SHAPES_MAX = 8 };
    read_shape shapes[SHAPES_MAX];
    bench_contender contenders[SHAPES_MAX];
    int count = 0, best = 0;
    of->bytes = (int64_t)s->request->layer->packed_bytes / threads / BENCH_READ_STEP * BENCH_READ_STEP;
    if (!s->probes || !of->bytes)
        return;
    for (; count < SHAPES_MAX && s->probes->reads[count]; count++) {
        shapes[count] = (read_shape){s, of, s->probes->reads[count], call};
        contenders[count] = (bench_contender){.call = read_shape_call, .self = &shapes[count]};
    }
    bench_rounds(contenders, count, s->clock, 1, CHOICE_SECONDS);
    for (int i = 1; i < count; i++) {
        if (contenders[i].ms_min < contenders[best].ms_min)
            best = i;
    }
    of->read = shapes[best].read;
    of->ms = contenders[best].ms_min;
}

static ffn_status allocate(case_state *s, ffn_diag *diag) {
    const bench_request *request = s->request;
    const ffn_spec *spec = &request->layer->spec;
    int64_t n = request->n, size = bench_team_size(request->team);
    if (n < 1 || n > INT64_MAX / 4 / spec->d_model || n > INT64_MAX / 4 / spec->d_ff)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "n = %lld rows cannot be held; at least 1 is needed", (long long)n);
    size_t row_bytes = (size_t)(n * spec->d_model) * sizeof(float);
    size_t scratch_bytes = ffn_work_scratch_bytes(request->kernel, n, size);
    s->clock = size == 1 ? BENCH_CLOCK_THREAD : BENCH_CLOCK_WALL;
    s->values = bench_alloc(3 * ACTIVATE_COUNT * sizeof(float));
    s->args = (ffn_args){.n = n,
                         .x = request->x,
                         .ldx = spec->d_model,
                         .y = bench_alloc(row_bytes),
                         .ldy = spec->d_model,
                         .scratch = bench_alloc(scratch_bytes),
                         .scratch_bytes = scratch_bytes};
    if (!s->values || !s->args.y || !s->args.scratch)
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for %lld rows of y", (long long)n);
    bench_fill(s->values, 2 * ACTIVATE_COUNT, 4, ACTIVATE_SEED);
    return FFN_OK;
}

static void lend(const void *self, int64_t count, const float *g, const float *u, float *out) {
    const bench_request *request = self;
    ffn_kernel_activate(request->lender, request->n, count, g, u, out, NULL);
}

/* The case of one peer, its output compared. */
static void make_peer(case_state *s, int i, bench_peer_report *report) {
    const bench_request *request = s->request;
    const bench_peer *peer = &request->peers->list[i];
    const char *why = *peer->missing ? peer->missing : peer->no_layer;
    snprintf(report->text, sizeof report->text, "%s", why);
    if (!peer->weights)
        return;
    rest_call(s);
    void *made = peer->module->case_create(peer->weights, request->n, s->args.x, (peer_lender){lend, request},
                                           request->seconds, report->text);
    if (!made)
        return;
    peer->module->call(made);
    const float *y = peer->module->output(made);
    if (y) {
        report->ran = true;
        report->max_error = bench_oracle_error(request->oracle, y, request->n);
        peer->module->chosen(made, report->text);
        report->own_activation = peer->module->own_activation && peer->module->own_activation(made);
    } else
        snprintf(report->text, sizeof report->text, "the library's call failed");
    if (y && report->max_error <= BENCH_ERROR_MAX)
        s->peers[i] = made;
    else
        peer->module->case_destroy(made);
}

static ffn_status check_kernel(case_state *s, void (*call)(void *self), const float *y, double *error, ffn_diag *diag) {
    call(s);
    if (s->status) {
        if (diag)
            *diag = s->diag;
        return s->status;
    }
    *error = bench_oracle_error(s->request->oracle, y, s->request->n);
    if (*error <= BENCH_ERROR_MAX)
        return FFN_OK;
    return diag_fail(diag, FFN_VERIFY_FAILED, "n = %lld: the kernel is %.3g of the largest |y| away from the oracle",
                     (long long)s->request->n, *error);
}

/* Where a peer has an activation of its own. */
static ffn_status make_fast(case_state *s, bench_report *report, ffn_diag *diag) {
    bool wanted = false;
    for (int i = 0; i < BENCH_PEERS_MAX; i++)
        wanted = wanted || (s->peers[i] && report->peers[i].own_activation);
    if (!s->request->fast || !wanted)
        return FFN_OK;
    ffn_status status =
        bench_beside_open(s->request->fast, &s->args, bench_team_size(s->request->team), &s->fast, diag);
    return status ? status : check_kernel(s, fast_call, s->fast.args.y, &report->fast.max_error, diag);
}

/* That this machine or shape has no such loops is no failure. */
static ffn_status make_hand(case_state *s, bench_hand_report *report, ffn_diag *diag) {
    ffn_diag why = {0};
    if (!s->request->hand)
        return FFN_OK;
    ffn_status status = bench_hand_open(s->request->layer, s->request->kernel, s->request->isa, s->request->n,
                                        s->values, ACTIVATE_COUNT, &s->hand, &why);
    if (status == FFN_UNSUPPORTED)
        snprintf(report->missing, sizeof report->missing, "%s", why.text);
    else if (status && diag)
        *diag = why;
    return status == FFN_UNSUPPORTED ? FFN_OK : status;
}

/* All contenders that are there, in rounds. */
static void time_all(case_state *s, bench_report *report) {
    const bench_request *request = s->request;
    bool several = bench_team_size(request->team) > 1;
    void (*const calls[PEERS])(void *) = {
        [KERNEL] = kernel_call,
        [PEAK] = s->probes ? peak_call : NULL,
        [READ] = s->together.read ? read_call : NULL,
        [ACTIVATE] = activate_call,
        [KERNEL_ALONE] = several ? kernel_alone_call : NULL,
        [FREE] = s->free.kernel ? free_call : NULL,
        [STAGES] = s->stages.of.kernel ? stages_call : NULL,
        [FAST] = s->fast.kernel ? fast_call : NULL,
        [DENSE] = request->dense ? dense_call : NULL,
        [HAND] = s->hand.kernel ? hand_call : NULL,
        [PEAK_ALONE] = several && s->probes ? peak_alone_call : NULL,
        [READ_ALONE] = several && s->alone.read ? read_alone_call : NULL,
    };
    bench_contender *contenders = s->contenders;
    int which[CONTENDERS], running = 0;
    for (int i = 0; i < CONTENDERS; i++) {
        const peer_module *module = i >= PEERS && s->peers[i - PEERS] ? request->peers->list[i - PEERS].module : NULL;
        if (i < PEERS ? !calls[i] : !module)
            continue;
        contenders[running] = module ? (bench_contender){.call = module->call,
                                                         .self = s->peers[i - PEERS],
                                                         .rest = module->rest,
                                                         .settle_ms = module->settle_ms}
                                     : (bench_contender){.call = calls[i], .self = s, .rest = rest_call};
        which[running++] = i;
    }
    report->busy = bench_rounds(contenders, running, s->clock, ROUNDS_MIN, request->seconds);
    for (int i = running - 1; i >= 0; i--) /* each to its own place; places never lie before */
        contenders[which[i]] = contenders[i];
}

static ffn_status measure(case_state *s, bench_report *report, ffn_diag *diag) {
    const bench_request *request = s->request;
    ffn_status status = check_kernel(s, kernel_call, s->args.y, &report->max_error, diag);
    if (!status && request->dense)
        status = bench_dense_compare(request->layer, request->kernel, request->dense, &s->args, &report->dense, diag);
    if (status)
        return status;
    for (int i = 0; request->peers && i < request->peers->count; i++)
        make_peer(s, i, &report->peers[i]);
    status = make_fast(s, report, diag);
    if (status)
        return status;
    int size = bench_team_size(request->team);
    s->probes = bench_probes_of(request->isa);
    choose_read(s, &s->together, size, read_call);
    if (size > 1)
        choose_read(s, &s->alone, 1, read_alone_call);
    if (request->free) {
        s->free = (bench_free_order){.layer = request->layer, .bound = BENCH_ERROR_MAX};
        status = bench_free_order_choose(request->free, request->oracle, &s->args, s->clock, &s->free, diag);
        if (status)
            return status;
    }
    if (request->stages)
        status = bench_stages_open(request->stages, request->layer, &s->args, &s->stages, diag);
    status = status ? status : make_hand(s, &report->hand, diag);
    if (status)
        return status;
    time_all(s, report);
    case_figures(s, report);
    report->bits = ffn_digest(s->args.y, request->n, request->layer->spec.d_model, s->args.ldy);
    for (int i = 0; i < BENCH_PEERS_MAX; i++) {
        if (s->peers[i])
            request->peers->list[i].module->case_destroy(s->peers[i]);
    }
    report->y = s->args.y;
    s->args.y = NULL;
    return FFN_OK;
}

ffn_status bench_case(const bench_request *request, bench_report *report, ffn_diag *diag) {
    *report = (bench_report){0};
    case_state *s = calloc(1, sizeof *s);
    if (!s)
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory to measure in");
    s->request = request;
    ffn_status status = allocate(s, diag);
    if (!status)
        status = measure(s, report, diag);
    bench_free(s->values);
    bench_free(s->args.y);
    bench_free(s->args.scratch);
    bench_free_order_clear(&s->free);
    bench_stages_clear(&s->stages);
    bench_beside_clear(&s->fast);
    bench_hand_clear(&s->hand);
    free(s);
    return status;
}

void bench_report_clear(bench_report *report) {
    bench_free(report->y);
    report->y = NULL;
}
