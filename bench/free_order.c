/* free_order.c: see free_order.h */
#include "free_order.h"

#include "diag.h"

#define CHOICE_SECONDS 0.1
#define CHOICE_ROUNDS 5

typedef struct candidate {
    bench_free_order order;
    int place;
    double error;
} candidate;

void bench_free_order_call(void *self) {
    bench_free_order *order = self;
    order->args.packed = bench_copies_turn(&order->layer->packed);
    ffn_kernel_run(order->kernel, &order->args, NULL);
}

ffn_status bench_free_order_choose(const bench_free_kernels *kernels, const bench_oracle *oracle, const ffn_args *args,
                                   bench_clock clock, bench_free_order *order, ffn_diag *diag) {
    candidate candidates[BENCH_FREE_MAX];
    bench_contender contenders[BENCH_FREE_MAX];
    int right = 0, best = 0;
    size_t scratch_bytes = args->scratch_bytes;
    for (int i = 0; i < kernels->count; i++) {
        size_t bytes = ffn_kernel_scratch_bytes(kernels->list[i]);
        scratch_bytes = bytes > scratch_bytes ? bytes : scratch_bytes;
    }
    order->args = *args;
    order->args.y = bench_alloc((size_t)(args->n * args->ldy) * sizeof(float));
    order->args.scratch = bench_alloc(scratch_bytes);
    order->args.scratch_bytes = scratch_bytes;
    if (!order->args.y || !order->args.scratch)
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for %lld rows of y", (long long)args->n);
    for (int i = 0; i < kernels->count; i++) {
        candidate *c = &candidates[right];
        *c = (candidate){.order = *order, .place = i};
        c->order.kernel = kernels->list[i];
        bench_free_order_call(&c->order);
        c->error = bench_oracle_error(oracle, order->args.y, args->n);
        if (!(c->error <= order->bound))
            continue;
        contenders[right++] = (bench_contender){.call = bench_free_order_call, .self = &c->order};
    }
    if (right)
        bench_rounds(contenders, right, clock, CHOICE_ROUNDS, CHOICE_SECONDS);
    for (int i = 1; i < right; i++)
        best = contenders[i].ms_min < contenders[best].ms_min ? i : best;
    if (right) {
        order->kernel = candidates[best].order.kernel;
        order->chosen = candidates[best].place;
        order->max_error = candidates[best].error;
    }
    return FFN_OK;
}

void bench_free_order_clear(bench_free_order *order) {
    bench_free(order->args.y);
    bench_free(order->args.scratch);
    *order = (bench_free_order){.layer = NULL};
}
