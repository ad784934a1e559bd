/* cmd_bench.c: ffngen bench: specs and row counts -> what kernels, peers and the machine can do */
#define _GNU_SOURCE
#include "cmd_bench_activations.h"
#include "cmd_bench_contract.h"
#include "cmd_bench_dense.h"
#include "cmd_bench_hand.h"
#include "cmd_bench_input.h"
#include "cmd_bench_regimes.h"
#include "cmd_bench_spec.h"
#include "cmd_bench_stages.h"
#include "options.h"
#include "plot.h"
#include "suite.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_MAX 1024
#define BUSY 0.05   /* of the time: caches and clock are then not the kernel's own either */
#define BEYOND 1.05 /* share of the peak that only a peak measured too low explains */

typedef struct ratios {
    double logs, least;
    int count;
} ratios;

typedef struct settings {
    const cmd *command;
    option_counts n;
    const char *threads, *vs, *plot;
    bool all_presets, json;
    cJSON *rows; /* for the picture; NULL: none is wanted */
    bench_peers peers;
    bench_sweep sweep;
    bench_input input;
    report_table table;
    ratios of[2][BENCH_PEERS_MAX + 1]; /* of peer to kernel; the last: of the best peer. [1]: fast beside its own */
    bool any_fast;
    double busiest;
    double beyond; /* the largest share of the peak */
} settings;

static void count_ratio(ratios *of, double ratio) {
    of->logs += log(ratio);
    of->least = of->count++ && of->least < ratio ? of->least : ratio;
}

static int take(void *self, const bench_row *row) {
    settings *s = self;
    const bench_report *r = &row->report;
    for (int fast = 0; fast < 2; fast++) {
        double least = INFINITY;
        for (int i = 0; i < s->peers.count; i++) {
            double ratio = bench_row_peer_ratio(row, i, fast, false);
            if (!(ratio > 0))
                continue;
            count_ratio(&s->of[fast][i], ratio);
            least = fmin(least, ratio);
        }
        if (isfinite(least))
            count_ratio(&s->of[fast][s->peers.count], least);
    }
    s->any_fast = s->any_fast || r->fast.timed;
    s->busiest = fmax(s->busiest, r->busy);
    s->beyond = fmax(s->beyond, r->fraction_of_peak);
    cJSON *object = s->rows ? bench_row_object(row) : NULL;
    if (s->rows && (!object || !cJSON_AddItemToArray(s->rows, object)))
        return cmd_error(s->command, CMD_FAILED, "no memory for the rows of a picture");
    if (s->json)
        return bench_row_json(row) ? CMD_OK : CMD_FAILED;
    bench_row_line(row, &s->table);
    bench_row_fast_print(row);
    if (row->contract)
        bench_contract_print(row);
    if (row->stages)
        bench_stages_print(row);
    if (row->dense)
        bench_dense_print(row);
    bench_hand_print(row);
    return CMD_OK;
}

/* "4", or "all" that this process may run on. */
static int threads_of(const settings *s, int *threads) {
    cpu_set_t cpus;
    if (!strcmp(s->threads, "all")) {
        *threads = sched_getaffinity(0, sizeof cpus, &cpus) ? 1 : CPU_COUNT(&cpus);
        return CMD_OK;
    }
    char *end;
    errno = 0;
    long value = strtol(s->threads, &end, 10);
    if (*s->threads < '0' || *s->threads > '9' || *end || errno || value < 1 || value > THREADS_MAX)
        return cmd_error(s->command, CMD_USAGE, "--threads: '%.40s' is neither a number from 1 to %d nor all",
                         s->threads, THREADS_MAX);
    *threads = (int)value;
    return CMD_OK;
}

static void print_head(const settings *s, const ffn_spec *specs, int count, report_table *table) {
    printf("threads: %d; weights %s\n", bench_team_size(s->sweep.row.team),
           s->sweep.row.cold ? "cold, from memory" : "constant");
    for (int i = 0; i < s->peers.count; i++) {
        const bench_peer *peer = &s->peers.list[i];
        printf("peer: %s%s%s\n", *peer->missing ? peer->name : peer->version, *peer->missing ? " is missing: " : "",
               peer->missing);
    }
    *table = bench_row_table(specs, count, &s->peers);
}

static void print_ratios(const settings *s, bool fast) {
    const ratios *of = s->of[fast];
    int taking_part = 0, most = 0;
    for (int i = 0; i < s->peers.count; i++) {
        taking_part += of[i].count > 0;
        most = of[i].count > most ? of[i].count : most;
    }
    for (int i = 0; i <= s->peers.count && most > 1; i++) {
        const char *name = i < s->peers.count ? s->peers.list[i].name : "the best of them";
        bool differs = !fast || of[i].logs < s->of[0][i].logs || of[i].logs > s->of[0][i].logs;
        if (of[i].count && differs && (i < s->peers.count || taking_part > 1))
            printf("against %s: geometric mean %.2fx, least %.2fx%s\n", name, exp(of[i].logs / of[i].count),
                   of[i].least, fast ? ", with fast beside an activation of its own" : "");
    }
}

static int bench_specs(settings *s, const ffn_spec *specs, int count) {
    int status = CMD_OK;
    if (!s->json)
        print_head(s, specs, count, &s->table);
    for (int i = 0; i < count; i++) {
        int done = bench_sweep_run(&s->sweep, &specs[i]);
        status = done ? done : status;
        if (done == CMD_USAGE || ferror(stdout))
            break;
    }
    if (s->beyond > BEYOND)
        cmd_note(s->command, "the machine is too busy for shares of the peak: one came out as %.0f %%",
                 s->beyond * 100);
    if (s->busiest > BUSY)
        cmd_note(s->command, "the machine is busy: other processes took up to %.0f %% of a row's time",
                 s->busiest * 100);
    if (s->json)
        return status;
    print_ratios(s, false);
    if (s->any_fast)
        print_ratios(s, true);
    return report_end(&s->table) ? status : CMD_FAILED;
}

/* --suite has its specs, numbers of rows and ways itself: what else is given would not be heeded. */
static int run_suite(const settings *s, const suite_options *asked, int operands) {
    suite_options options = *asked;
    int threads = 0;
    if (operands > 0)
        return cmd_error(s->command, CMD_USAGE, "--suite takes every preset: no SPEC is wanted");
    if (s->plot)
        return cmd_error(s->command, CMD_USAGE, "--plot: the page of --suite has its pictures");
    if (s->threads && threads_of(s, &threads))
        return CMD_USAGE;
    const size_t length = options.output ? strlen(options.output) : 0;
    if (options.output && (length < 6 || strcmp(options.output + length - 5, ".html")))
        return cmd_error(s->command, CMD_USAGE, "--output: '%s' must end in .html", options.output);
    options.threads = threads;
    options.peers = s->vs ? s->vs : "all";
    options.output = options.output ? options.output : "bench.html";
    return suite_run(s->command, &options);
}

static int run_regimes(const settings *s, const char *names, const char *output, int operands) {
    const size_t length = output ? strlen(output) : 0;
    if (operands > 0)
        return cmd_error(s->command, CMD_USAGE, "--regimes have their specs: no SPEC is wanted");
    if (output && (length < 4 || strcmp(output + length - 3, ".md")))
        return cmd_error(s->command, CMD_USAGE, "--output: '%s' must end in .md", output);
    const bench_row *row = &s->sweep.row;
    const regimes_options options = {.names = names,
                                     .output = output,
                                     .seconds = row->seconds,
                                     .hand = row->hand,
                                     .store = row->store,
                                     .tuned = row->tuned,
                                     .json = s->json};
    return regimes_run(s->command, &options);
}

static int run(const cmd *command, int argc, char **argv) {
    settings s = {
        .command = command,
        .n = {3, {1, 16, 128}},
        .input.layout = -1,
    };
    suite_options suite = {.minutes = 15};
    bool whole = false, activations = false;
    const char *page = NULL, *regimes = NULL;
    double limit = 0;
    bench_row *row = &s.sweep.row;
    *row = (bench_row){.command = command, .seconds = 0.5, .store = "off", .tuned = "off"};
    const char *tools = NULL;
    const option_row table[] = {
        {"n", 'n', OPTION_COUNTS, &s.n, "N,...", "numbers of rows (default 1,16,128)", NULL},
        {"isa", 0, OPTION_ISA, &row->isa, "ISA", "kernels for this ISA (default: the best here)", NULL},
        {"threads", 0, OPTION_TEXT, &s.threads, "T|all", "threads for kernels and peers (default 1)", NULL},
        {"vs", 0, OPTION_TEXT, &s.vs, "PEER,...|all|none", "of " BENCH_PEER_NAMES " (default openblas)", NULL},
        {"all-presets", 0, OPTION_FLAG, &s.all_presets, NULL, "every shape of 'ffngen list presets'", NULL},
        {"cold", 0, OPTION_FLAG, &row->cold, NULL, "weights from memory: copies are used in turn", NULL},
        {"seconds", 0, OPTION_SECONDS, &row->seconds, "S", "time for each row (default 0.5; at least 3 rounds)", NULL},
        {"contract", 0, OPTION_FLAG, &row->contract, NULL, "what the fixed order of sums costs: against free ones",
         NULL},
        {"stages", 0, OPTION_FLAG, &row->stages, NULL, "where the time goes: expand, activate, contract, rest", NULL},
        {"dense", 0, OPTION_FLAG, &row->dense, NULL, "what passing over zeros in h gains: against the same without",
         NULL},
        {"hand", 0, OPTION_FLAG, &row->hand, NULL, "loops written by hand for the same work, in the same rounds", NULL},
        {"weights", 'w', OPTION_TEXT, &s.input.weights, "FILE", "a safetensors file (default: generated weights)",
         NULL},
        CMD_WEIGHTS_ROWS(s.input.names, s.input.layout),
        {"input", 'i', OPTION_TEXT, &s.input.input, "F.npy|NAME", "rows: a file, or a tensor of --weights", NULL},
        {"row", 0, OPTION_INDEX, &s.input.row, "R", "of --input: the first row that is taken (default 0)", NULL},
        {"plan", 0, OPTION_TEXT, &row->plan_changes, "F=V,...", "changes to the plan: " CMD_PLAN_FIELDS, NULL},
        {"tuned", 0, OPTION_TEXT, &row->tuned, CMD_TUNED_ARGUMENT, "tuned plans (default: off)", NULL},
        {"store", 0, OPTION_TEXT, &row->store, CMD_STORE_ARGUMENT, "where kernels are kept (default: off)", NULL},
        {"tools", 0, OPTION_TEXT, &tools, "perf,gdb", "tell them the names of generated code", NULL},
        {"plot", 0, OPTION_TEXT, &s.plot, "F.svg|F.png", "a roofline, and bars per n against the peers", NULL},
        {"suite", 0, OPTION_FLAG, &whole, NULL, "every preset, n, one and all threads, all peers: a page", NULL},
        {"page", 0, OPTION_TEXT, &page, "F.json", "the page of an earlier suite's JSON, to --output", NULL},
        {"regimes", 0, OPTION_TEXT, &regimes, "NAME,...|all", "what is wanted of each regime, and whether it is met",
         NULL},
        {"output", 'o', OPTION_TEXT, &suite.output, "FILE", "of --suite (bench.html, .json beside), of --regimes (.md)",
         NULL},
        {"activations", 0, OPTION_FLAG, &activations, NULL, "every activation alone: operations, ns a vector", NULL},
        {"minutes", 0, OPTION_SECONDS, &limit, "M", "of --suite, for all of it (default 15)", NULL},
        {"json", 0, OPTION_FLAG, &s.json, NULL, "one JSON object a line", NULL},
        {0}};
    int operands, status, count, threads = 1;
    bool given[OPTIONS_MAX];
    if (!options_parse_given(command, table, argc, argv, &operands, &status, given))
        return status;
    count = argc - operands;
    row->store = cmd_store(row->store);
    row->tuned = cmd_tuned(row->tuned);
    if (whole) {
        if (!options_heeded(command, table, given, "suite,minutes,output,threads,vs,store,plot",
                            "--suite: only --minutes, --output, --threads, --vs and --store go with it"))
            return CMD_USAGE;
        suite.minutes = limit > 0 ? limit : suite.minutes;
        suite.store = row->store;
        return run_suite(&s, &suite, count);
    }
    if (regimes) {
        if (!options_heeded(command, table, given, "regimes,output,seconds,hand,tuned,store,json",
                            "--regimes: only --output, --seconds, --hand, --tuned, --store and --json go with it"))
            return CMD_USAGE;
        return run_regimes(&s, regimes, suite.output, count);
    }
    if (page) {
        if (count > 0 || !suite.output)
            return cmd_error(command, CMD_USAGE, "--page F.json: --output F.html is wanted with it, and no SPEC");
        if (!options_heeded(command, table, given, "page,output", "--page: only --output goes with it"))
            return CMD_USAGE;
        return suite_page(command, page, suite.output);
    }
    if (activations && count > 0)
        return cmd_error(command, CMD_USAGE, "--activations: only --isa, --seconds and --json go with it, and no SPEC");
    if (activations && !options_heeded(command, table, given, "activations,isa,seconds,json",
                                       "--activations: only --isa, --seconds and --json go with it"))
        return CMD_USAGE;
    if (suite.output || limit > 0)
        return cmd_error(command, CMD_USAGE, "%s: of --suite%s", suite.output ? "--output" : "--minutes",
                         suite.output ? " or --regimes" : "");
    if (activations)
        return cmd_isa_runs(command, row->isa) ? bench_activations(command, row->isa, row->seconds, s.json) : CMD_USAGE;
    s.threads = s.threads ? s.threads : "1";
    s.vs = s.vs ? s.vs : "openblas";
    if (!cmd_isa_runs(command, row->isa) || !cmd_tools(command, tools, &row->tools) || threads_of(&s, &threads))
        return CMD_USAGE;
    bool portable = (row->isa == FFN_ISA_AUTO ? ffn_isa_best() : row->isa) == FFN_ISA_PORTABLE;
    const char *alone = row->contract ? "contract"
                        : row->stages ? "stages"
                        : row->dense  ? "dense"
                        : row->hand   ? "hand"
                                      : NULL;
    if (alone && threads != 1)
        return cmd_error(command, CMD_USAGE, "--%s: on one thread, without --threads", alone);
    if (row->contract && portable)
        return cmd_error(command, CMD_USAGE, "--contract: of compiled kernels; the portable one has one order of sums");
    if (row->stages && portable)
        return cmd_error(command, CMD_USAGE, "--stages: of compiled kernels; the portable one counts nothing");
    if (row->dense && portable)
        return cmd_error(command, CMD_USAGE, "--dense: of compiled kernels; the portable one multiplies zeros always");
    const bench_input *input = &s.input;
    if ((input->weights || input->input) && (count != 1 || s.all_presets))
        return cmd_error(command, CMD_USAGE, "--weights and --input: of one SPEC");
    if (!input->weights && (input->names.map || input->layout >= 0 || input->names.layer || input->names.expert))
        return cmd_error(command, CMD_USAGE, "--map, --layout, --layer and --expert need --weights FILE");
    if (!input->input && input->row)
        return cmd_error(command, CMD_USAGE, "--row: of --input");
    ffn_diag problem;
    if (s.plot && plot_path_check(s.plot, &problem))
        return cmd_diag(command, &problem);
    ffn_spec *specs = NULL;
    if (count > 0 || !s.all_presets) {
        status = cmd_specs(command, argv + operands, count, &specs);
        if (status)
            return status;
    }
    if (s.all_presets && bench_preset_specs(&specs, &count)) {
        free(specs);
        return cmd_error(command, CMD_FAILED, "no memory for the presets");
    }
    status = bench_peers_of(command, s.vs, &s.peers);
    if (!status) {
        row->team = bench_team_create(threads);
        if (!row->team)
            status = cmd_error(command, CMD_FAILED, "%d threads could not be started", threads);
    }
    if (!status && s.plot) {
        s.rows = cJSON_CreateArray();
        status = s.rows ? CMD_OK : cmd_error(command, CMD_FAILED, "no memory");
    }
    if (!status) {
        s.sweep.peers = &s.peers;
        s.sweep.n = s.n.values;
        s.sweep.n_count = s.n.count;
        s.sweep.take = take;
        s.sweep.self = &s;
        status = input->weights || input->input ? bench_input_open(command, &s.input, specs, &s.sweep) : CMD_OK;
        status = status ? status : bench_specs(&s, specs, count);
    }
    if (s.rows && cJSON_GetArraySize(s.rows) > 0) {
        int drawn = suite_plot(command, s.rows, s.plot);
        status = status ? status : drawn;
    }
    cJSON_Delete(s.rows);
    bench_input_close(&s.input);
    bench_peers_close(&s.peers);
    bench_team_destroy(row->team);
    free(specs);
    return status;
}

const cmd cmd_bench = {
    "bench",
    "SPEC... | --suite | --regimes NAME,...|all | --activations [options]",
    "Measures kernels, the machine and peers in one process, in turns.",
    "\n  gflops        2 x multiply-adds of the true sizes, the activation not counted\n"
    "  %peak         of the rate of fused multiply-adds from registers, measured in the same rounds\n"
    "  %read         of the rate of reading a buffer as large as the weights\n"
    "  %roof         of max(bytes / read rate, flops / peak + the activation's own cost)\n"
    "  act ns        the activation alone, in L1, for one vector of values\n"
    "  error         largest |y - y in double| over the largest |y|; beyond 1e-3 a row is an error\n"
    "  vs PEER       its median time over that of the kernel; 'missing' where the peer is not there (a note says why,\n"
    "                the exit status stays 0), 'wrong' where its output is (the exit status is 1)\n",
    run,
    true};
