/* cmd_bench_contract.c: see cmd_bench_contract.h
 *
 * A source of its own builds these kernels. It has no identity, so that none is kept in a store, and they are not
 * verified: they are there to be timed. */
#include "cmd_bench_contract.h"

#include "free_order.h"
#include "json.h"

#include <llvm-c/Core.h>
#include <llvm/Config/llvm-config.h>
#include <stdio.h>

/* LLVM may take NaN and infinities for granted in none of them. Reassociation undoes the roundings that a reduction of
 * the argument is made of; such a kernel is wrong, the oracle says so, and it is not timed. */
#if LLVM_VERSION_MAJOR > 17
#define LOOSE \
    (LLVMFastMathAllowContract | LLVMFastMathAllowReciprocal | LLVMFastMathApproxFunc | LLVMFastMathNoSignedZeros)
#define LOOSEST (LOOSE | LLVMFastMathAllowReassoc)
#else
#define LOOSE 0
#define LOOSEST 0
#endif

static const struct {
    const char *name;
    free_order order;
} variants[] = {
    {"1 sum", {.sums = 1, .math = 0}},
    {"2 sums", {.sums = 2, .math = 0}},
    {"4 sums", {.sums = 4, .math = 0}},
    {"1 sum, loose activation", {.sums = 1, .math = LOOSE}},
    {"2 sums, loose activation", {.sums = 2, .math = LOOSE}},
    {"4 sums, loose activation", {.sums = 4, .math = LOOSE}},
    {"1 sum, loosest activation", {.sums = 1, .math = LOOSEST}},
    {"2 sums, loosest activation", {.sums = 2, .math = LOOSEST}},
    {"4 sums, loosest activation", {.sums = 4, .math = LOOSEST}},
};
enum { VARIANTS = sizeof variants / sizeof *variants };
_Static_assert((int)VARIANTS <= (int)BENCH_FREE_MAX, "bench/free_order.h has room");

static ffn_status build(void *self, const ffn_spec *spec, const ffn_plan *plan, ffn_bytes *image, ffn_diag *diag) {
    return free_order_image(spec, plan, self, image, diag);
}

ffn_status bench_contract_open(const bench_row *row, bench_contract *contract, ffn_diag *diag) {
    ffn_status status = FFN_OK;
    for (int i = 0; i < VARIANTS && !status; i++) {
        free_order order = variants[i].order;
        const ffn_source source = {.build = build, .self = &order}; /* is asked in this turn alone */
        cmd_kernel *opened = &contract->opened[i];
        status = bench_row_variant(row, &source, opened, diag);
        contract->kernels.list[i] = opened->kernel;
        contract->kernels.count += !status;
    }
    return status;
}

void bench_contract_close(bench_contract *contract) {
    for (int i = 0; i < VARIANTS; i++)
        cmd_kernel_close(&contract->opened[i]);
}

void bench_contract_json(const bench_row *row, struct json_line *line) {
    const bench_free_report *r = &row->report.free_order;
    if (!r->timed)
        return;
    json_text_in(line, "free_order", "variant", variants[r->chosen].name);
    json_number_in(line, "free_order", "ms_min", r->ms_min);
    json_number_in(line, "free_order", "ms_median", r->ms_median);
    json_number_in(line, "free_order", "ratio_min", r->ratio_min);
    json_number_in(line, "free_order", "ratio_median", r->ratio_median);
    json_number_in(line, "free_order", "max_error", r->max_error);
}

void bench_contract_print(const bench_row *row) {
    const bench_free_report *r = &row->report.free_order;
    if (r->timed)
        cmd_print("  n = %lld: contract %.4f ms, free order %.4f ms (%s): ratio %.3f, median %.3f", (long long)row->n,
                  row->report.ms_min, r->ms_min, variants[r->chosen].name, r->ratio_min, r->ratio_median);
    else if (row->contract)
        cmd_print("  n = %lld: no kernel in free order was right", (long long)row->n);
}
