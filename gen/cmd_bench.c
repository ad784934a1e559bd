/* cmd_bench.c: ffngen bench: specs and row counts -> what kernels, peers and the machine can do */
#include "cmd_bench_row.h"
#include "options.h"
#include "peer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_MAX 1024
#define BUSY 0.05   /* of the time: caches and clock are then not the kernel's own either */
#define BEYOND 1.05 /* share of the peak that only a peak measured too low explains */

static const char *const peers[] = {"openblas", "none", NULL};
enum { PEER_OPENBLAS };

typedef struct settings {
    const cmd *command;
    ffn_isa isa;
    option_counts n;
    int64_t threads;
    int peer;
    bool all_presets, json, cold;
    double seconds;
    const char *plan;
    uint32_t tools;
    const char *store;
    bench_team *team;
    report_table table;
    double log_ratios, least_ratio; /* of peer to kernel, over the rows so far */
    int ratios;
    double busiest;
    double beyond; /* the largest share of the peak */
} settings;

static void count_ratio(settings *s, const bench_report *report) {
    double ratio = report->peer_ms_median / report->ms_median;
    s->log_ratios += log(ratio);
    s->least_ratio = s->ratios++ && s->least_ratio < ratio ? s->least_ratio : ratio;
}

/* Every n of one spec, with one set of weights. */
static int bench_spec(settings *s, const ffn_spec *spec) {
    ffn_diag diag = {0};
    ffn_machine machine;
    bench_layer layer;
    ffn_machine_read(&machine);
    if (bench_layer_create(spec, NULL, s->cold, &machine, &layer, &diag))
        return cmd_diag(s->command, &diag);
    int status = CMD_OK;
    for (int i = 0; i < s->n.count && status != CMD_USAGE && !ferror(stdout); i++) {
        bench_row row = {.command = s->command,
                         .layer = &layer,
                         .team = s->team,
                         .isa = s->isa,
                         .n = s->n.values[i],
                         .seconds = s->seconds,
                         .plan_changes = s->plan,
                         .tools = s->tools,
                         .store = cmd_store(s->store),
                         .peer = s->peer == PEER_OPENBLAS,
                         .cold = s->cold};
        int measured = bench_row_measure(&row);
        status = measured ? measured : status;
        if (measured == CMD_OK && s->json)
            status = bench_row_json(&row) ? status : CMD_FAILED;
        else if (measured == CMD_OK)
            bench_row_line(&row, &s->table);
        if (measured == CMD_OK && row.peer)
            count_ratio(s, &row.report);
        s->busiest = row.report.busy > s->busiest ? row.report.busy : s->busiest;
        s->beyond = row.report.fraction_of_peak > s->beyond ? row.report.fraction_of_peak : s->beyond;
        bench_row_clear(&row);
    }
    bench_layer_destroy(&layer);
    return status;
}

static int add_presets(ffn_spec **specs, int *count) {
    int presets = 0;
    while (ffn_preset_at((size_t)presets))
        presets++;
    ffn_spec *all = realloc(*specs, (size_t)(*count + presets) * sizeof *all);
    if (!all)
        return CMD_FAILED;
    *specs = all;
    for (int i = 0; i < presets; i++) {
        bool known = ffn_spec_parse(ffn_preset_at((size_t)i)->spec, &all[*count], NULL) != FFN_OK;
        for (int j = 0; j < *count && !known; j++)
            known = ffn_spec_equal(&all[j], &all[*count]); /* models share shapes */
        *count += !known;
    }
    return CMD_OK;
}

static int run(const cmd *command, int argc, char **argv) {
    settings s = {.command = command, .n = {3, {1, 16, 128}}, .threads = 1, .seconds = 0.5, .store = "off"};
    const char *tools = NULL;
    const option_row table[] = {
        {"n", 'n', OPTION_COUNTS, &s.n, "N,...", "numbers of rows (default 1,16,128)", NULL},
        {"isa", 0, OPTION_ISA, &s.isa, "ISA", "kernels for this ISA (default: the best here)", NULL},
        {"threads", 0, OPTION_COUNT, &s.threads, "T", "threads for kernels and peers (default 1)", NULL},
        {"vs", 0, OPTION_CHOICE, &s.peer, "openblas|none", "the peer (default openblas)", peers},
        {"all-presets", 0, OPTION_FLAG, &s.all_presets, NULL, "every shape of 'ffngen list presets'", NULL},
        {"cold", 0, OPTION_FLAG, &s.cold, NULL, "weights from memory: copies are used in turn", NULL},
        {"seconds", 0, OPTION_SECONDS, &s.seconds, "S", "time for each row (default 0.5; at least 3 rounds)", NULL},
        {"plan", 0, OPTION_TEXT, &s.plan, "F=V,...", "changes to the plan: " CMD_PLAN_FIELDS, NULL},
        {"store", 0, OPTION_TEXT, &s.store, CMD_STORE_ARGUMENT, "where kernels are kept (default: off)", NULL},
        {"tools", 0, OPTION_TEXT, &tools, "perf,gdb", "tell them the names of generated code", NULL},
        {"json", 0, OPTION_FLAG, &s.json, NULL, "one JSON object a line", NULL},
        {0}};
    int operands, status, count;
    if (!options_parse(command, table, argc, argv, &operands, &status))
        return status;
    count = argc - operands;
    if (!cmd_isa_runs(command, s.isa) || !cmd_tools(command, tools, &s.tools))
        return CMD_USAGE;
    if (s.threads > THREADS_MAX)
        return cmd_error(command, CMD_USAGE, "--threads: at most %d", THREADS_MAX);
    ffn_spec *specs = NULL;
    if (count > 0 || !s.all_presets) {
        status = cmd_specs(command, argv + operands, count, &specs);
        if (status)
            return status;
    }
    if (s.all_presets && add_presets(&specs, &count)) {
        free(specs);
        return cmd_error(command, CMD_FAILED, "no memory for the presets");
    }
    s.team = bench_team_create((int)s.threads);
    if (!s.team) {
        free(specs);
        return cmd_error(command, CMD_FAILED, "%lld threads could not be started", (long long)s.threads);
    }
    if (!s.json) {
        printf("peer: %s; threads: %lld; weights %s\n", s.peer == PEER_OPENBLAS ? bench_peer_name() : "none",
               (long long)s.threads, s.cold ? "cold, from memory" : "constant");
        s.table = bench_row_table(specs, count);
    }
    for (int i = 0; i < count; i++) {
        int done = bench_spec(&s, &specs[i]);
        status = done ? done : status;
        if (done == CMD_USAGE || ferror(stdout))
            break;
    }
    if (s.beyond > BEYOND)
        cmd_note(command, "the machine is too busy for shares of the peak: one came out as %.0f %%", s.beyond * 100);
    if (s.busiest > BUSY)
        cmd_note(command, "the machine is busy: other processes took up to %.0f %% of a row's time", s.busiest * 100);
    if (!s.json && s.ratios > 1)
        printf("against the peer: geometric mean %.2fx, least %.2fx\n", exp(s.log_ratios / s.ratios), s.least_ratio);
    if (!s.json && !report_end(&s.table))
        status = CMD_FAILED;
    bench_team_destroy(s.team);
    free(specs);
    return status;
}

const cmd cmd_bench = {
    "bench",
    "SPEC... [options]",
    "Measures kernels, the machine and a peer in one process, in turns.",
    "\n  gflops        2 x multiply-adds of the true sizes, the activation not counted\n"
    "  %peak         of the rate of fused multiply-adds from registers, measured in the same rounds\n"
    "  %read         of the rate of reading a buffer as large as the weights\n"
    "  %roof         of max(bytes / read rate, flops / peak + the activation's own cost)\n"
    "  vs openblas   median time of OpenBLAS plus a vectorised activation over that of the kernel\n",
    run,
    true};
