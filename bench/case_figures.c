/* case_figures.c: the times of the contenders -> shares of what the machine can do, ratios */
#include "case_state.h"

#include <math.h>

static void fill_report(const case_state *s, bench_report *report) {
    const bench_request *request = s->request;
    const bench_layer *layer = request->layer;
    const ffn_spec *spec = &layer->spec;
    const bench_contender *kernel = &s->contenders[KERNEL];
    double flops = 2.0 * (double)request->n * (double)spec->d_model * (double)spec->d_ff * (layer->gated ? 3 : 2);
    report->ms_min = kernel->ms_min;
    report->ms_median = kernel->ms_median;
    report->gflops = flops / kernel->ms_min * 1e-6;
    report->weight_gbs = (double)layer->weight_bytes / kernel->ms_min * 1e-6;
    if (!s->probes)
        return;
    int lanes = request->isa == FFN_ISA_PORTABLE ? 1 : s->probes->lanes, size = bench_team_size(request->team);
    report->peak_gflops = s->probes->peak.flops * PEAK_TURNS * size / s->contenders[PEAK].ms_min * 1e-6;
    double read_ms = fmin(s->together.ms, s->contenders[READ].ms_min);
    report->read_gbs = s->together.read ? (double)(s->together.bytes * size) / read_ms * 1e-6 : 0;
    report->act_ns_per_vector = s->contenders[ACTIVATE].ms_min * 1e6 * lanes / ACTIVATE_COUNT;
    report->fraction_of_peak = report->gflops / report->peak_gflops;
    double vectors = (double)request->n * (double)((spec->d_ff + lanes - 1) / lanes);
    double compute_ms = flops / report->peak_gflops * 1e-6 + vectors * report->act_ns_per_vector * 1e-6 / size;
    double bytes_ms = 0;
    if (report->read_gbs > 0) {
        report->fraction_of_read = report->weight_gbs / report->read_gbs;
        bytes_ms = (double)layer->weight_bytes / report->read_gbs * 1e-6;
    }
    report->roof_ms = fmax(compute_ms, bytes_ms);
    report->fraction_of_roof = report->roof_ms / report->ms_min;
}

static void fill_stages(case_state *s, bench_report *report) {
    const bench_layer *layer = s->request->layer;
    const bench_contender *kernel = &s->contenders[KERNEL], *counting = &s->contenders[STAGES];
    bench_stages_report *stages = &report->stages;
    if (!s->stages.of.kernel)
        return;
    stages->timed = true;
    stages->ratio_min = counting->ms_min / kernel->ms_min;
    stages->ratio_median = bench_ratio(counting, kernel);
    bench_stages_shares(&s->stages, stages->ms);
    for (int part = 0; part < BENCH_PARTS; part++)
        stages->ms[part] *= kernel->ms_min;
    const double products[BENCH_REST] = {[BENCH_EXPAND] = layer->gated ? 2 : 1, [BENCH_CONTRACT] = 1};
    for (int part = 0; part < BENCH_REST; part++) {
        double terms = products[part] * (double)layer->spec.d_model * (double)layer->spec.d_ff;
        if (stages->ms[part] > 0 && report->peak_gflops > 0)
            stages->peak[part] = 2e-6 * (double)s->request->n * terms / stages->ms[part] / report->peak_gflops;
        if (stages->ms[part] > 0 && report->read_gbs > 0)
            stages->read[part] = 1e-6 * sizeof(float) * terms / stages->ms[part] / report->read_gbs;
    }
}

/* What the threads together do in a second over what one of them does alone, each by rounds: the pace of a shared
 * machine changes more from one second to the next than what is compared. */
static void fill_speedups(const case_state *s, bench_report *report) {
    int size = bench_team_size(s->request->team);
    if (size == 1)
        return;
    const bench_contender *of = s->contenders;
    report->speedup = bench_ratio(&of[KERNEL_ALONE], &of[KERNEL]);
    if (s->probes) {
        report->peak_speedup = size * bench_ratio(&of[PEAK_ALONE], &of[PEAK]);
        report->speedup_of_peak = report->speedup / report->peak_speedup;
    }
    if (s->together.read && s->alone.read) {
        double bytes = (double)(s->together.bytes * size) / (double)s->alone.bytes;
        report->read_speedup = bytes * bench_ratio(&of[READ_ALONE], &of[READ]);
        report->speedup_of_read = report->speedup / report->read_speedup;
    }
}

static void fill_hand(const case_state *s, bench_report *report) {
    const bench_contender *kernel = &s->contenders[KERNEL], *hand = &s->contenders[HAND];
    const double ratio = kernel->ms_min / hand->ms_min;
    report->hand = (bench_hand_report){.timed = true,
                                       .way = s->hand.way,
                                       .ms_min = hand->ms_min,
                                       .ms_median = hand->ms_median,
                                       .fraction_of_peak = report->fraction_of_peak * ratio,
                                       .fraction_of_roof = report->fraction_of_roof * ratio,
                                       .ratio_min = ratio,
                                       .ratio_median = bench_ratio(kernel, hand)};
}

static void fill_others(const case_state *s, bench_report *report) {
    const bench_contender *contenders = s->contenders;
    if (s->free.kernel) {
        const bench_contender *kernel = &contenders[KERNEL], *other = &contenders[FREE];
        report->free_order = (bench_free_report){.timed = true,
                                                 .chosen = s->free.chosen,
                                                 .ms_min = other->ms_min,
                                                 .ms_median = other->ms_median,
                                                 .ratio_min = kernel->ms_min / other->ms_min,
                                                 .ratio_median = bench_ratio(kernel, other),
                                                 .max_error = s->free.max_error};
    }
    if (s->fast.kernel) {
        report->fast.timed = true;
        report->fast.ms_min = contenders[FAST].ms_min;
        report->fast.ms_median = contenders[FAST].ms_median;
    }
    if (s->request->dense) {
        const bench_contender *kernel = &contenders[KERNEL], *other = &contenders[DENSE];
        report->dense.timed = true;
        report->dense.ms_min = other->ms_min;
        report->dense.ms_median = other->ms_median;
        report->dense.ratio_min = other->ms_min / kernel->ms_min;
        report->dense.ratio_median = bench_ratio(other, kernel);
    }
    if (s->hand.kernel)
        fill_hand(s, report);
    for (int i = 0; i < BENCH_PEERS_MAX; i++) {
        if (!s->peers[i])
            continue;
        report->peers[i].timed = true;
        report->peers[i].ms_min = contenders[PEERS + i].ms_min;
        report->peers[i].ms_median = contenders[PEERS + i].ms_median;
    }
}

void case_figures(case_state *s, bench_report *report) {
    fill_report(s, report);
    fill_speedups(s, report);
    fill_stages(s, report);
    fill_others(s, report);
}
