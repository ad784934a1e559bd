/* levels.c: see levels.h
 *
 * Buffers are half of the level they are read from, so that they stay there. That of memory is much larger than every
 * cache and is read in slices, one after the other: when a slice comes again its lines are gone. */
#include "levels.h"

#include <math.h>
#include <stdlib.h>

#include "buffers.h"
#include "diag.h"
#include "probes.h"
#include "rounds.h"

#define MIB (INT64_C(1) << 20)
#define MEMORY_MIN (64 * MIB) /* some systems do not report their last level */
#define MEMORY_MAX (512 * MIB)
#define SLICE_BYTES (8 * MIB)
#define CALL_BYTES (32 * MIB) /* read by one call from a cache: handing it to a team is then nothing */
#define PEAK_TURNS 100000
#define BUSY_SHARE 0.05
#define BUSY_SPREAD 0.25

enum { L1, L2, L3, MEMORY, LEVELS, PEAK = LEVELS, FIGURES, SHAPES_MAX = 16, ROUNDS_MIN = 5 };

/* What one member reads in a call: `repeats` times `slice` bytes at `at`. */
typedef struct region {
    char *base;
    int64_t bytes, slice, at, repeats; /* of each member; bytes 0: no such level */
} region;

typedef struct probe {
    bench_team *team;
    const bench_peak *peak;
    bench_read read;
    region *from; /* shared by the ways to read it */
    int figure;
} probe;

typedef struct work {
    region regions[LEVELS];
    char *near, *far;
    int count;
    probe probes[LEVELS * SHAPES_MAX + 1];
    bench_contender contenders[LEVELS * SHAPES_MAX + 1];
} work;

static void read_part(void *self, int member, int size) {
    (void)size;
    const probe *p = self;
    const char *data = p->from->base + member * p->from->bytes + p->from->at;
    for (int64_t i = 0; i < p->from->repeats; i++)
        p->read(data, p->from->slice);
}

static void peak_part(void *self, int member, int size) {
    (void)member, (void)size;
    const probe *p = self;
    p->peak->loop(PEAK_TURNS);
}

static void call_read(void *self) {
    probe *p = self;
    region *from = p->from;
    bench_team_run(p->team, read_part, p);
    from->at += from->slice;
    if (from->at + from->slice > from->bytes)
        from->at = 0;
}

static void call_peak(void *self) {
    probe *p = self;
    bench_team_run(p->team, peak_part, p);
}

static void rest(void *self) {
    probe *p = self;
    bench_team_rest(p->team);
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* In whole steps of what probes read. */
static region part(int64_t bytes, int64_t slice_most) {
    const int64_t whole = larger(bytes / BENCH_READ_STEP, 1) * BENCH_READ_STEP;
    const int64_t slice = smaller(whole, slice_most);
    return (region){.bytes = whole, .slice = slice, .repeats = larger(CALL_BYTES / slice, 1)};
}

static ffn_status make_regions(work *w, const ffn_machine *machine, int size, ffn_diag *diag) {
    const int64_t l2 = machine->l2_bytes, l3 = machine->l3_bytes;
    w->regions[L1] = part(machine->l1_bytes / 2, INT64_MAX);
    w->regions[L2] = part(l2 / 2, INT64_MAX);
    if (l3) /* beyond what L2 holds of it, even where L3 is hardly larger */
        w->regions[L3] = part(smaller(larger(l3 / 2, 4 * l2), l3 / 4 * 3) / size, INT64_MAX);
    const int64_t memory = smaller(larger(4 * larger(l2, l3), MEMORY_MIN), MEMORY_MAX);
    w->regions[MEMORY] = part(memory / size, SLICE_BYTES);
    w->regions[MEMORY].repeats = 1; /* the second time it would come from a cache */

    const int64_t near_bytes = larger(w->regions[L2].bytes, w->regions[L3].bytes) * size;
    const int64_t far_bytes = w->regions[MEMORY].bytes * size;
    w->near = bench_alloc((size_t)near_bytes);
    w->far = bench_alloc((size_t)far_bytes);
    if (!w->near || !w->far)
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for %lld MiB to read from",
                         (long long)((near_bytes + far_bytes) / MIB));
    for (int level = 0; level < MEMORY; level++)
        w->regions[level].base = w->near;
    w->regions[MEMORY].base = w->far;
    return FFN_OK;
}

static void add(work *w, void (*call)(void *self), probe p) {
    w->probes[w->count] = p;
    w->contenders[w->count] = (bench_contender){.call = call, .self = &w->probes[w->count], .rest = rest};
    w->count++;
}

/* The fastest way of each level. */
static void find_best(const work *w, const bench_contender *best[FIGURES]) {
    for (int i = 0; i < w->count; i++) {
        const bench_contender **found = &best[w->probes[i].figure];
        if (!*found || w->contenders[i].ms_min < (*found)->ms_min)
            *found = &w->contenders[i];
    }
}

static void measure(work *w, const bench_probes *probes, bench_team *team, double seconds, bench_levels *levels) {
    const int size = bench_team_size(team);
    for (int level = 0; level < LEVELS; level++)
        for (int shape = 0; w->regions[level].bytes && probes->reads[shape] && shape < SHAPES_MAX; shape++)
            add(w, call_read,
                (probe){.team = team, .read = probes->reads[shape], .from = &w->regions[level], .figure = level});
    add(w, call_peak, (probe){.team = team, .peak = &probes->peak, .figure = PEAK});
    const double taken =
        bench_rounds(w->contenders, w->count, size > 1 ? BENCH_CLOCK_WALL : BENCH_CLOCK_THREAD, ROUNDS_MIN, seconds);

    const bench_contender *best[FIGURES] = {NULL};
    double rates[FIGURES] = {0}, spread = 0;
    find_best(w, best);
    for (int figure = 0; figure < FIGURES; figure++) {
        if (!best[figure])
            continue;
        const region *from = figure < LEVELS ? &w->regions[figure] : NULL;
        const double amount = from ? (double)(from->slice * from->repeats) : probes->peak.flops * PEAK_TURNS;
        rates[figure] = amount * size / best[figure]->ms_min * 1e-6;
        spread = fmax(spread, best[figure]->ms_median / best[figure]->ms_min - 1);
    }
    *levels = (bench_levels){.peak_gflops = rates[PEAK],
                             .l1_gbs = rates[L1],
                             .l2_gbs = rates[L2],
                             .l3_gbs = rates[L3],
                             .memory_gbs = rates[MEMORY],
                             .spread = spread,
                             .busy = taken > BUSY_SHARE || spread > BUSY_SPREAD};
}

ffn_status bench_levels_measure_team(ffn_isa isa, const ffn_machine *machine, bench_team *team, double seconds,
                                     bench_levels *levels, ffn_diag *diag) {
    const bench_probes *probes = bench_probes_of(isa);
    if (!probes)
        return diag_fail(diag, FFN_UNSUPPORTED, "no loops that measure this CPU: its best ISA is %s",
                         ffn_isa_name(ffn_isa_best()));
    work *w = calloc(1, sizeof *w);
    if (!w)
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for the samples of a measurement");
    const ffn_status status = make_regions(w, machine, bench_team_size(team), diag);
    if (!status)
        measure(w, probes, team, seconds, levels);
    bench_free(w->near);
    bench_free(w->far);
    free(w);
    return status;
}

ffn_status bench_levels_measure(ffn_isa isa, const ffn_machine *machine, double seconds, bench_levels *levels,
                                ffn_diag *diag) {
    bench_team *team = bench_team_create(1);
    if (!team)
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for a measurement");
    const ffn_status status = bench_levels_measure_team(isa, machine, team, seconds, levels, diag);
    bench_team_destroy(team);
    return status;
}

static int64_t millions(double billions) {
    return (int64_t)llround(billions * 1e3);
}

void bench_levels_keep(const bench_levels *levels, ffn_machine *machine) {
    machine->fma_mflops = millions(levels->peak_gflops);
    machine->l1_mbs = millions(levels->l1_gbs);
    machine->l2_mbs = millions(levels->l2_gbs);
    machine->l3_mbs = millions(levels->l3_gbs);
    machine->memory_mbs = millions(levels->memory_gbs);
}
