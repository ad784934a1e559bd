/* cmd_bench_regimes.c: the table of regimes -> rows of `ffngen bench`, and what each of them makes of its limits
 *
 * Shares are those of the fastest samples, as everywhere in bench; the same by medians stands beside them. */
#define _GNU_SOURCE
#include "cmd_bench_regimes.h"

#include "cmd_bench_code.h"
#include "diag.h"
#include "replace.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RANGE_MAX 256
#define NEAR_ROOF 0.9 /* of both sides: `close` is then what is wanted against a peer */

typedef struct runner {
    const cmd *command;
    const regimes_options *options;
    const regime *now;
    ffn_spec spec;
    bench_peers peers;
    report_table table;
    regime_results results;
    double busiest;
    double load_ms;               /* of a processor, for a process that loads LLVM */
    double log_value, log_median; /* REGIME_PEERS: sums of logarithms */
    int compared;
    char versions[BENCH_PEERS_MAX * (PEER_TEXT_BYTES + 2)], left_out[256]; /* for the page */
    /* REGIME_RANGE: by n, from the first on. */
    double fraction[RANGE_MAX], fraction_median[RANGE_MAX], fraction_hand[RANGE_MAX];
} runner;

/* ---- Results ---- */

static bool untuned(const runner *r) {
    return !r->now->tuned && !*r->options->tuned;
}

static double wanted_of(const runner *r, regime_figure figure) {
    for (int i = 0; i < r->now->limit_count; i++)
        if (r->now->limits[i].figure == figure)
            return untuned(r) && r->now->limits[i].untuned > 0 ? r->now->limits[i].untuned : r->now->limits[i].wanted;
    return 0;
}

static bool add(runner *r, regime_result result) {
    result.of = r->now;
    return regimes_add(&r->results, &result, r->options->json ? NULL : &r->table);
}

static regime_result result_of(const runner *r, regime_figure figure, double value, double median) {
    regime_result result = {.figure = figure, .value = value, .median = median, .wanted = wanted_of(r, figure)};
    ffn_spec_name(&r->spec, false, result.spec, sizeof result.spec, NULL);
    return result;
}

/* ---- Rows ---- */

static double report_figure(const bench_report *report, regime_figure figure) {
    return figure == FIGURE_ROOF      ? report->fraction_of_roof
           : figure == FIGURE_PEAK    ? report->fraction_of_peak
           : figure == FIGURE_READ    ? report->fraction_of_read
           : figure == FIGURE_SPEEDUP ? report->speedup_of_peak
                                      : 0;
}

/* The same of the loops by hand. */
static double hand_figure(const bench_report *report, regime_figure figure) {
    return report->hand.timed ? report_figure(report, figure) * report->hand.ratio_min : 0;
}

/* Against the peer that comes nearest. */
static bool add_peers(runner *r, const bench_row *row) {
    const bench_report *report = &row->report;
    double value = INFINITY, median = INFINITY;
    int best = 0;
    for (int i = 0; i < row->peers->count; i++) {
        double ratio = bench_row_peer_ratio(row, i, r->now->fast, true);
        if (!(ratio > 0))
            continue;
        best = ratio < value ? i : best;
        value = fmin(value, ratio);
        median = fmin(median, bench_row_peer_ratio(row, i, r->now->fast, false));
    }
    if (!isfinite(value))
        return true;
    const bench_peer_report *peer = &report->peers[best];
    regime_result result = result_of(r, FIGURE_PEER, value, median);
    result.n = row->n;
    if (report->roof_ms > NEAR_ROOF * peer->ms_min && report->roof_ms > NEAR_ROOF * report->ms_min)
        result.wanted = r->now->close;
    int length = snprintf(result.note, sizeof result.note, "%s", row->peers->list[best].name);
    if (r->now->fast && report->fast.timed && peer->own_activation)
        snprintf(result.note + length, sizeof result.note - (size_t)length, "; ours fast, accurate %.2f",
                 peer->ms_min / report->ms_min);
    r->log_value += log(value);
    r->log_median += log(median);
    r->compared++;
    return add(r, result);
}

static int take(void *self, const bench_row *row) {
    runner *r = self;
    const bench_report *report = &row->report;
    bool kept = true;
    r->busiest = fmax(r->busiest, report->busy);
    if (r->now->kind == REGIME_PEERS)
        kept = add_peers(r, row);
    else if (r->now->kind == REGIME_RANGE) {
        int64_t at = row->n - r->now->n[0];
        r->fraction[at] = report->fraction_of_peak;
        r->fraction_median[at] = report->fraction_of_peak * report->ms_min / report->ms_median;
        r->fraction_hand[at] = hand_figure(report, FIGURE_PEAK);
    } else {
        for (int i = 0; i < r->now->limit_count && kept; i++) {
            regime_figure figure = r->now->limits[i].figure;
            double value = report_figure(report, figure);
            /* A speedup is a median by rounds already. */
            double median = figure == FIGURE_SPEEDUP ? value : value * report->ms_min / report->ms_median;
            regime_result result = result_of(r, figure, value, median);
            result.n = row->n;
            result.hand = hand_figure(report, figure);
            kept = add(r, result);
        }
    }
    return kept ? CMD_OK : cmd_error(r->command, CMD_FAILED, "no memory for the results");
}

/* From n to n + 1, either way. Times are counted in that of the peak, each in its own rounds. */
static double step(const double *fraction, int at) {
    double a = fraction[at], b = fraction[at + 1];
    return a > 0 && b > 0 ? fmax(a / b, b / a) - 1 : 0;
}

static bool add_range(runner *r) {
    const int64_t first = r->now->n[0];
    int count = (int)(r->now->n[1] - first + 1), least = 0, most = 0, low = 0, steep = 0, behind = 0;
    double low_wanted = wanted_of(r, FIGURE_PEAK), steep_wanted = wanted_of(r, FIGURE_STEP);
    for (int i = 0; i < count; i++) {
        least = r->fraction[i] < r->fraction[least] ? i : least;
        low += !(r->fraction[i] >= low_wanted);
        behind += r->fraction_hand[i] > r->fraction[i];
        if (i + 1 == count)
            break;
        most = step(r->fraction, i) > step(r->fraction, most) ? i : most;
        steep += !(step(r->fraction, i) <= steep_wanted);
    }
    regime_result result = result_of(r, FIGURE_PEAK, r->fraction[least], r->fraction_median[least]);
    int length = snprintf(result.note, sizeof result.note, "the least, at n = %lld; %d of n = %lld to %lld are below",
                          (long long)first + least, low, (long long)first, (long long)r->now->n[1]);
    result.hand = r->fraction_hand[least];
    if (result.hand > 0)
        snprintf(result.note + length, sizeof result.note - (size_t)length, ", %d behind the loops by hand", behind);
    bool kept = add(r, result);
    result = result_of(r, FIGURE_STEP, step(r->fraction, most), step(r->fraction_median, most));
    snprintf(result.note, sizeof result.note, "the largest, from n = %lld to %lld; %d of %d are above",
             (long long)first + most, (long long)first + most + 1, steep, count - 1);
    return kept && add(r, result);
}

/* ---- Generated code and memory ---- */

static int run_code(runner *r) {
    bench_code code;
    ffn_diag diag = {0};
    int largest = 0, length = 0;
    if ((r->load_ms <= 0 && bench_code_load(&r->load_ms, &diag)) ||
        bench_code_measure(&r->spec, ffn_isa_best(), &code, &diag))
        return cmd_diag(r->command, &diag);
    regime_result one = result_of(r, FIGURE_COMPILE_ONE, r->load_ms + code.one_ms, 0);
    regime_result all = result_of(r, FIGURE_COMPILE_ALL, r->load_ms + code.all_ms, 0),
                  bytes = result_of(r, FIGURE_CODE, 0, 0);
    snprintf(one.note, sizeof one.note, "the dearest, n = %s; loading LLVM takes %.0f ms of it",
             ffn_n_class_name(code.dearest), r->load_ms);
    for (int i = 0; i < FFN_ISA_COUNT; i++) {
        if (!code.bytes[i])
            continue;
        largest = code.bytes[i] > code.bytes[largest] ? i : largest;
        length += snprintf(bytes.note + length, sizeof bytes.note - (size_t)length, "%s%s %.1f", length ? ", " : "",
                           ffn_isa_name((ffn_isa)i), (double)code.bytes[i] / 1024);
    }
    bytes.value = (double)code.bytes[largest];
    return add(r, one) && add(r, all) && add(r, bytes) ? CMD_OK
                                                       : cmd_error(r->command, CMD_FAILED, "no memory for the results");
}

static int run_memory(runner *r) {
    bench_memory memory;
    ffn_diag diag = {0};
    if (bench_memory_measure(&r->spec, ffn_isa_best(), &memory, &diag))
        return cmd_diag(r->command, &diag);
    regime_result packed = result_of(r, FIGURE_PACKED, memory.packed_over_weights, 0);
    regime_result scratch = result_of(r, FIGURE_SCRATCH, (double)memory.scratch_bytes, 0);
    snprintf(scratch.note, sizeof scratch.note, "the most, n = %s", ffn_n_class_name(memory.largest));
    return add(r, packed) && add(r, scratch) ? CMD_OK : cmd_error(r->command, CMD_FAILED, "no memory for the results");
}

/* ---- All of it ---- */

static int n_of(const regime *of, int64_t n[RANGE_MAX]) {
    int count = 0;
    if (of->kind == REGIME_RANGE)
        for (int64_t i = of->n[0]; i <= of->n[1]; i++)
            n[count++] = i;
    else
        for (; count < REGIME_NS && of->n[count]; count++)
            n[count] = of->n[count];
    return count;
}

static int run_spec(runner *r, bench_team *team) {
    const regime *of = r->now;
    if (of->kind == REGIME_COMPILE)
        return run_code(r);
    if (of->kind == REGIME_MEMORY)
        return run_memory(r);
    int64_t n[RANGE_MAX];
    const bench_sweep sweep = {
        .row = {.command = r->command,
                .team = team,
                .isa = of->kind == REGIME_NARROW ? FFN_ISA_AVX2 : FFN_ISA_AUTO,
                .seconds = r->options->seconds,
                .hand = r->options->hand && of->threads < 2 && !of->peers,
                .tuned = of->tuned && !*r->options->tuned ? cmd_tuned(of->tuned) : r->options->tuned,
                .store = r->options->store},
        .peers = &r->peers,
        .n = n,
        .n_count = n_of(of, n),
        .take = take,
        .self = r};
    memset(r->fraction, 0, sizeof r->fraction);
    memset(r->fraction_hand, 0, sizeof r->fraction_hand);
    int status = bench_sweep_run(&sweep, &r->spec);
    if (!status && of->kind == REGIME_RANGE && !add_range(r))
        status = cmd_error(r->command, CMD_FAILED, "no memory for the results");
    return status;
}

static int specs_of(const regime *of, ffn_spec **specs, int *count) {
    *specs = NULL;
    *count = 0;
    if (!of->specs[0])
        return bench_preset_specs(specs, count);
    *specs = calloc(REGIME_SPECS, sizeof **specs);
    if (!*specs)
        return CMD_FAILED;
    for (int i = 0; i < REGIME_SPECS && of->specs[i]; i++)
        if (ffn_spec_parse(of->specs[i], &(*specs)[(*count)++], NULL))
            return CMD_FAILED;
    return CMD_OK;
}

/* Why this machine has no such regime; NULL: it has. */
static const char *not_here(const regime *of) {
    cpu_set_t cpus;
    if (of->kind == REGIME_NARROW && ffn_isa_best() != FFN_ISA_AVX512)
        return "no AVX-512: the other regimes are of AVX2";
    if (!sched_getaffinity(0, sizeof cpus, &cpus) && CPU_COUNT(&cpus) < of->threads)
        return "one processor";
    return NULL;
}

/* "one, two": another at the end, as far as there is room. */
static void append(char *list, size_t bytes, const char *first, const char *second) {
    size_t length = strlen(list);
    snprintf(list + length, bytes - length, "%s%s%s%s", length ? ", " : "", first, *second ? ": " : "", second);
}

static int run_regime(runner *r, const regime *of) {
    ffn_spec *specs = NULL;
    int count = 0, status;
    r->now = of;
    const char *why = not_here(of);
    if (why) {
        cmd_note(r->command, "%s is left out: %s", of->name, why);
        append(r->left_out, sizeof r->left_out, of->title, why);
        return CMD_OK;
    }
    bench_team *team = bench_team_create(of->threads ? of->threads : 1);
    if (!team)
        return cmd_error(r->command, CMD_FAILED, "%d threads could not be started", of->threads);
    r->compared = 0;
    r->log_value = r->log_median = 0;
    r->peers = (bench_peers){.count = 0};
    status = of->peers ? bench_peers_of(r->command, of->peers, &r->peers) : CMD_OK;
    if (!status && specs_of(of, &specs, &count))
        status = cmd_error(r->command, CMD_FAILED, "no memory for the specs");
    for (int i = 0; i < r->peers.count; i++)
        if (*r->peers.list[i].version && !strstr(r->versions, r->peers.list[i].version))
            append(r->versions, sizeof r->versions, r->peers.list[i].version, "");
    int done = status;
    for (int i = 0; i < count && !done && !ferror(stdout); i++) {
        r->spec = specs[i];
        int one = run_spec(r, team);
        status = one ? one : status; /* what could not be measured was said; the rest goes on */
    }
    if (r->compared > 0) {
        const regime_result mean = {.figure = FIGURE_MEAN,
                                    .value = exp(r->log_value / r->compared),
                                    .median = exp(r->log_median / r->compared),
                                    .wanted = wanted_of(r, FIGURE_MEAN)};
        if (!add(r, mean))
            status = cmd_error(r->command, CMD_FAILED, "no memory for the results");
    }
    bench_peers_close(&r->peers);
    bench_team_destroy(team);
    free(specs);
    return status;
}

/* "prefill,decode": whether `name` is in the list. */
static bool named(const char *list, const char *name) {
    size_t length = strlen(name);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strcspn(at, ",") == length && !strncmp(at, name, length))
            return true;
    return false;
}

static const char *name_at(size_t i) {
    return regime_at(i) ? regime_at(i)->name : NULL;
}

static int check_names(const cmd *command, const char *list) {
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        char word[32], near[96];
        bool known = false;
        snprintf(word, sizeof word, "%.*s", (int)fmin((double)strcspn(at, ","), sizeof word - 1), at);
        for (size_t i = 0; name_at(i) && !known; i++)
            known = !strcmp(name_at(i), word);
        diag_near_names(word, name_at, near, sizeof near);
        if (!known && strcmp(list, "all") != 0)
            return cmd_error(command, CMD_USAGE, "--regimes: '%s' is no regime%s", word, near);
    }
    return CMD_OK;
}

static int write_page(runner *r) {
    char date[32];
    time_t now = time(NULL);
    struct tm utc;
    ffn_diag diag = {0};
    strftime(date, sizeof date, "%Y-%m-%d", gmtime_r(&now, &utc));
    const regimes_caption caption = {.machine = ffn_machine_name(),
                                     .isa = ffn_isa_name(ffn_isa_best()),
                                     .date = date,
                                     .plans = *r->options->tuned ? "tuned" : "untuned",
                                     .peers = r->versions,
                                     .left_out = r->left_out,
                                     .busiest = r->busiest};
    if (regimes_page(&r->results, &caption, r->options->output, &diag))
        return cmd_diag(r->command, &diag);
    return CMD_OK;
}

int regimes_run(const cmd *command, const regimes_options *options) {
    static const report_column columns[] = {{"regime", 11, false}, {"spec", 26, false}, {"n", 4, true},
                                            {"min", 6, true},      {"median", 6, true}, {"by hand", 7, true},
                                            {"wanted", 6, true},   {"met", 3, false},   {"of", 0, false}};
    int status = check_names(command, options->names);
    ffn_diag diag = {0};
    if (!status && options->output && replace_check(options->output, &diag))
        status = cmd_diag(command, &diag);
    runner *r = status ? NULL : calloc(1, sizeof *r);
    if (!r)
        return status ? status : cmd_error(command, CMD_FAILED, "no memory to measure in");
    r->command = command;
    r->options = options;
    if (!options->json)
        r->table = report_begin(columns, sizeof columns / sizeof *columns, false);
    for (size_t i = 0; regime_at(i) && !ferror(stdout); i++) {
        if (strcmp(options->names, "all") != 0 && !named(options->names, regime_at(i)->name))
            continue;
        int done = run_regime(r, regime_at(i));
        status = done ? done : status;
    }
    if (!options->json && !report_end(&r->table))
        status = CMD_FAILED;
    if (options->output && !ferror(stdout)) { /* else it would have a part of what it is named for */
        int written = write_page(r);
        status = written ? written : status;
    }
    free(r->results.list);
    free(r);
    return status;
}
