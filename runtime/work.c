/* work.c: a run of n rows -> pieces for threads that the caller brings
 *
 * The rows are cut into groups. One group for each piece makes one phase. Where that would leave threads idle or each
 * of them reading all the weights for a few rows, there are fewer groups, and the pieces of a group share its columns:
 * of d_ff in phase 0, of d_model in phase 1, with h of all rows in the caller's scratch between them. docs/threads.md
 * has the measurements behind the constants.
 *
 * Invariant: the cut follows from the kernel's plans, n and pieces_max alone, not from the code that serves, which
 * another thread may publish meanwhile; only a loaded image that needs more scratch than was planned makes slices
 * longer. No piece ever splits a sum, so no cut changes a bit.
 * Pieces write to places of their own: rows or panels of y and h, and a slice of scratch that goes by the number of
 * the piece, whoever runs it. */
#include <stdint.h>

#include "diag.h"
#include "fallback.h"
#include "kernel_run.h"
#include "plan.h"

/* A piece that does less than this is not worth handing to another thread: some microseconds of work, where waking a
 * spinning thread and meeting it at the barrier takes up to one. Both phases together. */
#define PIECE_BYTES (128 << 10) /* of weights */
#define PIECE_FLOPS (512 << 10)

/* The time of a piece, in rows: what it takes to multiply one row with all weights. It needs at least that of reading
 * its weights, ROWS_A_READ; all groups read all weights through what the cores share, ROWS_SHARED each; and where
 * columns are cut h goes through a shared cache, and the threads wait for each other once more. */
#define ROWS_A_READ 4
#define ROWS_SHARED 0.5
#define COLUMNS_COST 1.05

/* Groups are tried from the fewest on, since other numbers of them may use more of the threads: 36 rows for 8 threads
 * are 4 groups by 2 ranges, not 3 by 2. Among many groups the next number differs too little to matter. */
#define GROUPS_TRIED 16

/* Columns are dealt out in groups of panels that fill the widest tile, while that makes no piece longer than this
 * times its even share; else in the smallest that the tiles take without a rest. */
#define WIDE_UNITS_COST 1.25

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t ceil_div(int64_t a, int64_t b) {
    return a / b + (a % b != 0);
}

static int64_t columns_of(const ffn_spec *spec, int phase) {
    return phase == 0 ? spec->d_ff : spec->d_model;
}

/* How rows and columns are cut. ranges[0] is 0 where the cut has one phase. */
typedef struct work_cut {
    int64_t groups;
    int64_t ranges[2]; /* of columns, in each group */
} work_cut;

/* Pieces that are worth their barrier, at most pieces_max. */
static int64_t pieces_worth(const kernel_shape *shape, int64_t n, int64_t pieces_max) {
    const double weights = (double)shape->spec.d_model * (double)shape->spec.d_ff * (shape->graph.gated ? 3 : 2);
    const double by_bytes = weights * sizeof(float) / PIECE_BYTES, by_flops = 2 * weights * (double)n / PIECE_FLOPS;
    const double worth = by_bytes > by_flops ? by_bytes : by_flops;
    return worth >= (double)pieces_max ? pieces_max : worth < 1 ? 1 : (int64_t)worth;
}

/* The time of the slowest piece, that reads `share` of the weights. */
static double cost_of(int64_t n, int64_t groups, double share) {
    const int64_t rows = ceil_div(n, groups);
    return share * (double)(rows > ROWS_A_READ ? rows : ROWS_A_READ) + ROWS_SHARED * (double)groups;
}

/* n >= 1 */
static work_cut cut_of(const kernel_shape *shape, int64_t n, int64_t pieces_max) {
    const int64_t pieces = pieces_worth(shape, n, pieces_max);
    work_cut best = {.groups = least(pieces, n)};
    double best_cost = cost_of(n, best.groups, 1);
    const int64_t fewest = ceil_div(n, FFN_STAGE_ROWS_MAX), most = least(least(pieces / 2, n), fewest + GROUPS_TRIED);
    for (int64_t groups = fewest; groups <= most; groups++) {
        work_cut columns = {.groups = groups};
        double share = 0; /* half of the weights are those of each phase */
        for (int phase = 0; phase < 2; phase++) {
            columns.ranges[phase] = least(pieces / groups, ceil_div(columns_of(&shape->spec, phase), FFN_PANEL));
            share += 0.5 / (double)columns.ranges[phase];
        }
        const double cost = cost_of(n, groups, COLUMNS_COST * share);
        if (cost < best_cost) {
            best_cost = cost;
            best = columns;
        }
    }
    return best;
}

static int64_t pieces_of(const work_cut *cut, int phase) {
    return cut->ranges[0] == 0 ? (phase == 0 ? cut->groups : 0) : cut->groups * cut->ranges[phase];
}

/* Scratch: a slice for each piece, then h of all rows. */
typedef struct work_scratch {
    size_t slice_bytes, hidden_at, bytes;
} work_scratch;

/* False if the sizes do not fit a size_t. */
static bool scratch_of(const ffn_spec *spec, const work_cut *cut, int64_t n, size_t run_bytes, work_scratch *scratch) {
    const int64_t first = pieces_of(cut, 0), second = pieces_of(cut, 1);
    size_t hidden_bytes = 0;
    scratch->slice_bytes = (run_bytes + FFN_SCRATCH_ALIGN - 1) / FFN_SCRATCH_ALIGN * FFN_SCRATCH_ALIGN;
    return !__builtin_mul_overflow(scratch->slice_bytes, first > second ? first : second, &scratch->hidden_at) &&
           (second == 0 ||
            !__builtin_mul_overflow((size_t)image_hidden_stride(spec) * sizeof(float), n, &hidden_bytes)) &&
           !__builtin_add_overflow(scratch->hidden_at, hidden_bytes, &scratch->bytes);
}

size_t ffn_work_scratch_bytes(const ffn_kernel *kernel, int64_t n, int64_t pieces_max) {
    if (kernel == NULL || n < 1 || pieces_max < 1) {
        return 0;
    }
    const work_cut cut = cut_of(&kernel->shape, n, pieces_max);
    work_scratch scratch;
    return scratch_of(&kernel->shape.spec, &cut, n, ffn_kernel_scratch_bytes(kernel), &scratch) ? scratch.bytes : 0;
}

/* Panels that are dealt out together; `wide` is what the widest tile takes. */
static int64_t unit_panels(int64_t wide, int64_t smallest, int64_t panels, int64_t ranges) {
    const int64_t longest = ceil_div(ceil_div(panels, wide), ranges) * wide;
    return (double)(longest * ranges) <= WIDE_UNITS_COST * (double)panels ? wide : smallest;
}

ffn_status ffn_work_make(const ffn_kernel *kernel, const ffn_args *args, int64_t pieces_max, ffn_work *work,
                         ffn_diag *diag) {
    ffn_status status = kernel_run_check_call(kernel, args, diag);
    if (status != FFN_OK) {
        return status;
    }
    if (work == NULL || pieces_max < 1) {
        return diag_fail(diag, FFN_BAD_ARGUMENT, "pieces_max is %lld: it must be at least 1, and work not NULL",
                         (long long)pieces_max);
    }
    ffn_work made = {.kernel = kernel, .args = *args};
    if (args->n == 0) {
        *work = made;
        return FFN_OK;
    }
    const ffn_spec *spec = &kernel->shape.spec;
    const work_cut cut = cut_of(&kernel->shape, args->n, pieces_max);
    const int64_t rows = ceil_div(args->n, cut.groups);
    const ffn_n_class n_class = ffn_n_class_of(rows);
    const kernel_slot *slot = kernel_serving(kernel, rows);
    const size_t planned_bytes = kernel->planned_scratch_bytes, run_bytes = kernel_run_scratch_bytes(kernel, slot);
    work_scratch scratch;
    if (!scratch_of(spec, &cut, args->n, run_bytes > planned_bytes ? run_bytes : planned_bytes, &scratch)) {
        return diag_fail(diag, FFN_BAD_ARGUMENT,
                         "%lld rows in %lld pieces: their scratch does not fit the address space", (long long)args->n,
                         (long long)pieces_max);
    }
    status = kernel_run_check(kernel, args, scratch.bytes, "ffn_work_scratch_bytes", diag);
    if (status != FFN_OK) {
        return status;
    }
    made.code = slot;
    made.groups = cut.groups;
    made.slice_bytes = scratch.slice_bytes;
    made.hidden = (float *)(void *)((char *)args->scratch + scratch.hidden_at);
    made.phases = cut.ranges[0] == 0 ? 1 : 2;
    for (int phase = 0; phase < made.phases; phase++) {
        made.pieces[phase] = pieces_of(&cut, phase);
        if (made.phases == 2) {
            const int64_t panels = ceil_div(columns_of(spec, phase), FFN_PANEL);
            made.unit[phase] =
                unit_panels(kernel->planned_panels[n_class], kernel->planned_unit[n_class], panels, cut.ranges[phase]);
            const int64_t ranges = least(cut.ranges[phase], ceil_div(panels, made.unit[phase]));
            made.pieces[phase] = cut.groups * ranges;
        }
    }
    *work = made;
    return FFN_OK;
}

/* Part i of `total`, cut into parts that differ by one at most. */
static void part_of(int64_t total, int64_t parts, int64_t i, int64_t *begin, int64_t *end) {
    const int64_t base = total / parts, longer = total % parts;
    *begin = i * base + least(i, longer);
    *end = *begin + base + (i < longer);
}

static void run_rows(const ffn_work *work, int64_t piece, void *scratch) {
    const kernel_shape *shape = &work->kernel->shape;
    const kernel_slot *slot = work->code;
    const ffn_args *a = &work->args;
    int64_t begin, end;
    part_of(a->n, work->groups, piece, &begin, &end);
    if (slot != NULL) {
        slot->code.code.fused(a->x, a->ldx, a->y, a->ldy, a->packed, scratch, begin, end);
    } else {
        fallback_run(&shape->spec, &shape->layout, &shape->graph, a->x, a->ldx, a->y, a->ldy, a->packed, scratch, begin,
                     end);
    }
}

static void run_columns(const ffn_work *work, int phase, int64_t piece, void *scratch) {
    const kernel_shape *shape = &work->kernel->shape;
    const kernel_slot *slot = work->code;
    const ffn_args *a = &work->args;
    const int64_t ranges = work->pieces[phase] / work->groups, columns = columns_of(&shape->spec, phase);
    const int64_t unit = work->unit[phase] * FFN_PANEL;
    int64_t row, row_end, begin, end;
    part_of(a->n, work->groups, piece / ranges, &row, &row_end);
    part_of(ceil_div(columns, unit), ranges, piece % ranges, &begin, &end);
    begin *= unit;
    end = least(end * unit, columns);
    float *hidden = work->hidden + row * image_hidden_stride(&shape->spec);
    const float *x = a->x + row * a->ldx;
    float *y = a->y + row * a->ldy;
    const int64_t rows = row_end - row;
    if (phase == 0 && slot != NULL) {
        slot->code.code.expand(x, a->ldx, a->packed, hidden, scratch, rows, begin, end);
    } else if (phase == 0) {
        fallback_expand(&shape->spec, &shape->layout, &shape->graph, x, a->ldx, a->packed, hidden, scratch, rows, begin,
                        end);
    } else if (slot != NULL) {
        slot->code.code.contract(hidden, a->packed, y, a->ldy, scratch, rows, begin, end);
    } else {
        fallback_contract(&shape->spec, &shape->layout, hidden, a->packed, y, a->ldy, scratch, rows, begin, end);
    }
}

ffn_status ffn_work_run(const ffn_work *work, int phase, int64_t piece, ffn_diag *diag) {
    if (work == NULL || phase < 0 || phase >= work->phases || piece < 0 || piece >= work->pieces[phase]) {
        return diag_fail(diag, FFN_BAD_ARGUMENT, "phase %d, piece %lld: work must not be NULL and have such a piece",
                         phase, (long long)piece);
    }
    void *scratch = (char *)work->args.scratch + (size_t)piece * work->slice_bytes;
    if (work->phases == 1) {
        run_rows(work, piece, scratch);
    } else {
        run_columns(work, phase, piece, scratch);
    }
    return FFN_OK;
}

typedef struct phase_run {
    const ffn_work *work;
    int phase;
} phase_run;

static void run_task(void *argument, int64_t piece) {
    const phase_run *run = argument;
    ffn_work_run(run->work, run->phase, piece, NULL);
}

ffn_status ffn_kernel_run_parallel(const ffn_kernel *kernel, const ffn_args *args, const ffn_parallel_for *pool,
                                   ffn_diag *diag) {
    if (pool == NULL || pool->run == NULL || pool->threads < 1) {
        return diag_fail(diag, FFN_BAD_ARGUMENT, "pool must not be NULL, its run neither, and it must have a thread");
    }
    ffn_work work;
    const ffn_status status = ffn_work_make(kernel, args, pool->threads, &work, diag);
    if (status != FFN_OK) {
        return status;
    }
    for (int phase = 0; phase < work.phases; phase++) {
        phase_run run = {&work, phase};
        if (work.pieces[phase] == 1) {
            run_task(&run, 0); /* to hand it over would take longer */
        } else {
            pool->run(pool->self, work.pieces[phase], run_task, &run);
        }
    }
    return FFN_OK;
}
