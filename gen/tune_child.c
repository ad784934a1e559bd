/* tune_child.c: plan -> verified kernel -> milliseconds, in a process that may die of it
 *
 * x, y and scratch are shared by all kernels, whatever their number. */
#define _GNU_SOURCE
#include "tune_child.h"

#include "buffers.h"
#include "diag.h"
#include "rounds.h"
#include "team.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define SAMPLE_MS 0.5    /* thousands of times the clock's own step */
#define TEAM_SAMPLE_MS 2 /* of several threads: one that loses its core for a moment must not be all of the sample */
#define WARM_CALL_MS 5   /* a longer call brings in what it needs itself; one to warm up would only cost time */
#define SEED 7

typedef struct slot {
    ffn_context *context;
    ffn_kernel *kernel; /* NULL: not prepared here */
    int64_t calls;      /* in one sample; 0: not known yet */
    double call_ms;     /* of the last sample */
} slot;

typedef struct child {
    const tune_setup *setup;
    const char *store;
    bench_copies packed; /* the setup's, with a turn of our own */
    bench_team *team;
    bench_clock clock;
    ffn_args args;
    ffn_work work;
    slot *slots;
    int count;
} child;

/* ---- Calls ---- */

static void work_of_member(void *self, int member, int size) {
    const child *c = self;
    for (int phase = 0; phase < c->work.phases; phase++) {
        if (phase > 0)
            bench_team_wait(c->team);
        for (int64_t piece = member; piece < c->work.pieces[phase]; piece += size)
            ffn_work_run(&c->work, phase, piece, NULL);
    }
}

static ffn_status call(child *c, const slot *of, ffn_diag *diag) {
    c->args.packed = bench_copies_turn(&c->packed);
    if (c->setup->threads == 1)
        return ffn_kernel_run(of->kernel, &c->args, diag);
    ffn_status status = ffn_work_make(of->kernel, &c->args, c->setup->threads, &c->work, diag);
    if (!status && c->work.phases == 1 && c->work.pieces[0] == 1)
        status = ffn_work_run(&c->work, 0, 0, diag); /* small: the others would only have to be told */
    else if (!status)
        bench_team_run(c->team, work_of_member, c);
    return status;
}

static ffn_status time_calls(child *c, slot *of, int64_t calls, tune_sample *sample, ffn_diag *diag) {
    ffn_status status = FFN_OK;
    double wall = bench_now_ms(BENCH_CLOCK_WALL), begin = bench_now_ms(c->clock);
    for (int64_t i = 0; i < calls && !status; i++)
        status = call(c, of, diag);
    double own = bench_now_ms(c->clock) - begin;
    wall = bench_now_ms(BENCH_CLOCK_WALL) - wall;
    sample->ms = of->call_ms = own / (double)calls;
    sample->stolen = c->clock == BENCH_CLOCK_THREAD && wall > own ? 1 - own / wall : 0;
    return status;
}

static ffn_status take_sample(child *c, slot *of, tune_sample *sample, ffn_diag *diag) {
    double enough = c->clock == BENCH_CLOCK_WALL ? TEAM_SAMPLE_MS : SAMPLE_MS;
    ffn_status status = FFN_OK;
    if (of->calls == 0 || of->call_ms < WARM_CALL_MS)
        status = time_calls(c, of, 1, sample, diag);
    if (of->calls == 0 && !status) {
        of->calls = 1;
        do {
            status = time_calls(c, of, of->calls, sample, diag);
            if (sample->ms * (double)of->calls >= enough)
                break;
            of->calls *= 2;
        } while (!status && of->calls < INT64_C(1) << 40);
    }
    if (!status)
        status = time_calls(c, of, of->calls, sample, diag);
    if (c->team)
        bench_team_rest(c->team);
    return status;
}

/* ---- Kernels ---- */

static ffn_status grow(child *c, int index, ffn_diag *diag) {
    if (index < c->count)
        return FFN_OK;
    int count = 2 * index + 64;
    slot *slots = realloc(c->slots, (size_t)count * sizeof *slots);
    if (!slots)
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for %d kernels", count);
    memset(slots + c->count, 0, (size_t)(count - c->count) * sizeof *slots);
    c->slots = slots;
    c->count = count;
    return FFN_OK;
}

/* Scratch for the kernel that wants most so far. */
static ffn_status fit_scratch(child *c, const ffn_kernel *kernel, ffn_diag *diag) {
    size_t bytes = ffn_work_scratch_bytes(kernel, c->setup->n, c->setup->threads);
    if (bytes <= c->args.scratch_bytes)
        return FFN_OK;
    void *scratch = bench_alloc(bytes);
    if (!scratch)
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for %zu bytes of scratch", bytes);
    bench_free(c->args.scratch);
    c->args.scratch = scratch;
    c->args.scratch_bytes = bytes;
    return FFN_OK;
}

static ffn_status prepare(child *c, const tune_request *request, bool *verified, ffn_diag *diag) {
    ffn_status status = grow(c, request->index, diag);
    if (status)
        return status;
    slot *of = &c->slots[request->index];
    const ffn_options options = {.isa = c->setup->isa,
                                 .source = c->setup->source,
                                 .plan = &request->plan,
                                 .tuned = "",
                                 .machine = c->setup->machine,
                                 .store = c->store};
    ffn_kernel *kernel = NULL;
    status = ffn_context_create(&options, &of->context, diag);
    if (!status)
        status = ffn_kernel_create(of->context, c->setup->spec, &kernel, diag);
    if (!status)
        status = ffn_kernel_prepare(kernel, c->setup->n, diag);
    ffn_kernel_info info = {0};
    if (!status)
        ffn_kernel_inspect(kernel, c->setup->n, &info);
    if (!status && (info.source == FFN_FROM_FALLBACK || !info.verified))
        status = diag_fail(diag, FFN_VERIFY_FAILED, "the kernel was not verified");
    if (!status)
        status = fit_scratch(c, kernel, diag);
    if (status) {
        if (kernel)
            ffn_kernel_destroy(kernel);
        ffn_context_destroy(of->context);
        return status;
    }
    of->kernel = kernel;
    *verified = info.verified;
    return FFN_OK;
}

/* ---- Service ---- */

static ffn_status open_child(child *c, ffn_diag *diag) {
    const tune_setup *setup = c->setup;
    int64_t d_model = setup->spec->d_model, n = setup->n;
    if (n < 1 || n > INT64_MAX / 4 / d_model)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "n = %lld rows cannot be held; at least 1 is needed", (long long)n);
    float *x = bench_alloc((size_t)(n * d_model) * sizeof *x), *y = bench_alloc((size_t)(n * d_model) * sizeof *y);
    if (!x || !y)
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for %lld rows of x and y", (long long)n);
    bench_fill(x, n * d_model, 1, SEED);
    c->args = (ffn_args){.n = n, .x = x, .ldx = d_model, .y = y, .ldy = d_model};
    c->packed = *setup->packed;
    c->clock = setup->threads == 1 ? BENCH_CLOCK_THREAD : BENCH_CLOCK_WALL;
    c->team = setup->threads == 1 ? NULL : bench_team_create(setup->threads);
    if (setup->threads > 1 && !c->team)
        return diag_fail(diag, FFN_SYSTEM, "%d threads could not be started", setup->threads);
    return FFN_OK;
}

static bool tell(int socket, tune_answer *answer, const ffn_diag *diag) {
    if (answer->status)
        snprintf(answer->text, sizeof answer->text, "%.*s", TUNE_REASON_BYTES - 1, diag->text);
    return send(socket, answer, sizeof *answer, MSG_NOSIGNAL) == (ssize_t)sizeof *answer;
}

void tune_child_serve(const tune_setup *setup, const char *store, int socket) {
    child c = {.setup = setup, .store = store};
    ffn_diag diag = {0};
    tune_answer ready = {.status = open_child(&c, &diag)};
    if (!tell(socket, &ready, &diag) || ready.status)
        return;
    for (;;) {
        tune_request request;
        ssize_t got = recv(socket, &request, sizeof request, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got != (ssize_t)sizeof request)
            return;
        tune_answer answer = {0};
        if (request.kind == TUNE_ASK_PREPARE)
            answer.status = prepare(&c, &request, &answer.verified, &diag);
        else
            answer.status = take_sample(&c, &c.slots[request.index], &answer.sample, &diag);
        if (!tell(socket, &answer, &diag))
            return;
    }
}
