/* cmd_explain.c: ffngen explain: the plan of a spec for each class of row counts, who chose it, and what it asks of the
 * machine */
#include "buffers.h"
#include "cmd.h"
#include "isa.h"
#include "json.h"
#include "machine.h"
#include "options.h"
#include "plan.h"
#include "plan_choice.h"
#include "plan_cost.h"
#include "probes.h"
#include "report.h"
#include "rounds.h"

#include <stdio.h>
#include <string.h>

#define F32_BYTES ((int64_t)sizeof(float))
#define THREADS_MAX (1 << 20)
#define PROBE_TURNS 2000
#define PROBE_SECONDS 0.02
#define PROBE_BYTES_MAX (INT64_C(256) << 20) /* beyond every cache; more would only take longer */

typedef struct rates {
    double gflops, gbs; /* 0 where they cannot be measured here */
} rates;

typedef struct settings {
    const cmd *command;
    ffn_isa isa;
    int64_t n; /* 0: every class */
    int64_t threads;
    const char *changes, *tuned;
    bool json;
    planner planner;
    bool here; /* planned for this machine, not for the ISA's generic one */
    rates rates;
} settings;

static void bytes_text(int64_t bytes, char text[24]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;
    for (; value >= 1024 && unit + 1 < sizeof units / sizeof units[0]; unit++)
        value /= 1024;
    snprintf(text, 24, unit && value < 100 ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

static const char *level_text(const ffn_machine *machine, int64_t bytes) {
    return bytes <= machine->l1_bytes   ? "fits in L1"
           : bytes <= machine->l2_bytes ? "fits in L2"
           : bytes <= machine->l3_bytes ? "fits in L3"
                                        : "more than the caches hold";
}

static void size_row(report_table *table, const settings *s, const char *what, const char *shape, int64_t bytes) {
    char text[24];
    bytes_text(bytes, text);
    report_cell(table, "  %s", what);
    report_cell(table, "%s", shape);
    report_cell(table, "%s", text);
    report_cell(table, "%s", level_text(&s->planner.machine, bytes));
}

/* Registers of every tile: "6x1 15". */
static void tiles_text(const ffn_spec *spec, const ffn_plan *plan, char *text, size_t text_bytes) {
    text[0] = '\0';
    int32_t up = plan_chains(spec->d_ff), down = plan_chains(spec->d_model), chains = up > down ? up : down;
    for (int32_t i = 0, lanes = plan_lanes(plan); i < plan->tile_count; i++) {
        ffn_tile tile = plan->tiles[i];
        int32_t registers = plan_tile_registers(lanes, tile, plan_chains_at_once(lanes, tile, chains));
        size_t length = strlen(text);
        snprintf(text + length, text_bytes - length, "%s%dx%d %d", i ? ", " : "", tile.mr, tile.panels, registers);
    }
}

static void probe_peak(void *probes) {
    ((const bench_probes *)probes)->peak.loop(PROBE_TURNS);
}

typedef struct reader {
    bench_read read;
    const char *data;
    int64_t bytes;
} reader;

static void probe_read(void *self) {
    const reader *r = self;
    r->read(r->data, r->bytes);
}

static rates measure(ffn_isa isa, int64_t weight_bytes) {
    enum { CONTENDERS_MAX = 9 };
    rates found = {0};
    const bench_probes *probes = bench_probes_of(isa);
    if (!probes)
        return found;
    int64_t bytes = weight_bytes < PROBE_BYTES_MAX ? weight_bytes : PROBE_BYTES_MAX;
    bytes = (bytes / BENCH_READ_STEP + 1) * BENCH_READ_STEP;
    char *data = bench_alloc((size_t)bytes);
    bench_contender contenders[CONTENDERS_MAX];
    reader readers[CONTENDERS_MAX];
    int count = 0;
    contenders[count++] = (bench_contender){.call = probe_peak, .self = (void *)(uintptr_t)probes};
    for (; data && count < CONTENDERS_MAX && probes->reads[count - 1]; count++) {
        readers[count] = (reader){probes->reads[count - 1], data, bytes};
        contenders[count] = (bench_contender){.call = probe_read, .self = &readers[count]};
    }
    bench_rounds(contenders, count, BENCH_CLOCK_THREAD, 3, PROBE_SECONDS);
    found.gflops = probes->peak.flops * PROBE_TURNS / contenders[0].ms_min * 1e-6;
    for (int i = 1; i < count; i++) {
        double gbs = (double)bytes / contenders[i].ms_min * 1e-6;
        found.gbs = gbs > found.gbs ? gbs : found.gbs;
    }
    bench_free(data);
    return found;
}

/* What one class comes to. */
typedef struct explained {
    const ffn_spec *spec;
    int64_t n;
    plan_choice choice;
    int64_t weight_bytes;
    double flops;
    double predicted_ms, cold_ms;  /* of the cost model, with the weights in cache where they fit, and from memory */
    double compute_ms, weights_ms; /* bounds; 0 where nothing could be measured */
} explained;

static const char *limit_of(const explained *e) {
    return e->compute_ms > e->weights_ms ? "compute" : "read bandwidth";
}

static double bound_of(const explained *e) {
    return e->compute_ms > e->weights_ms ? e->compute_ms : e->weights_ms;
}

static void print_origin(const settings *s, const plan_choice *choice) {
    const tuned_record *r = choice->record;
    const char *changed = s->changes ? ", changed by --plan" : "", *plural = r && r->threads > 1 ? "s" : "";
    if (choice->from == FFN_PLAN_TUNED)
        cmd_print("  tuned: %s, this machine, %d thread%s, %.4g ms%s", choice->path, r->threads, plural, r->ms,
                  changed);
    else if (choice->from == FFN_PLAN_HINT)
        cmd_print("  hint: measured on \"%s\", not on this machine: %s, %d thread%s, %.4g ms%s", r->machine,
                  choice->path, r->threads, plural, r->ms, changed);
    else
        cmd_print("  the model%s", changed);
}

static void print_bound(const settings *s, const explained *e) {
    printf("  predicted at n = %lld: %.4g ms, %.4g ms with weights from memory\n", (long long)e->n, e->predicted_ms,
           e->cold_ms);
    printf("  bound at n = %lld: %.4g MFLOP on ", (long long)e->n, e->flops * 1e-6);
    char text[24];
    bytes_text(e->weight_bytes, text);
    printf("%s of weights, %.3g flops a byte", text, e->flops / (double)e->weight_bytes);
    if (!(e->compute_ms > 0 && e->weights_ms > 0)) {
        printf("; this machine cannot tell which limit comes first\n");
        return;
    }
    printf(": %s, %.4g ms (compute %.4g ms at %.1f GFLOP/s, weights %.4g ms at %.1f GB/s)\n", limit_of(e), bound_of(e),
           e->compute_ms, s->rates.gflops, e->weights_ms, s->rates.gbs);
}

static bool print_json(const settings *s, const explained *e) {
    char spec[FFN_SPEC_TEXT_BYTES] = "", plan[512];
    const tuned_record *r = e->choice.record;
    ffn_spec_format(e->spec, spec, sizeof spec, NULL);
    cmd_plan_text(&e->choice.plan, plan, sizeof plan);
    json_line line = json_begin();
    json_text(&line, "spec", spec);
    json_text(&line, "isa", ffn_isa_name(s->isa));
    json_text(&line, "n_class", ffn_n_class_name(e->choice.plan.n_class));
    json_integer(&line, "n", e->n);
    json_text(&line, "plan", plan);
    json_text(&line, "plan_from", cmd_plan_origin_name(s->changes ? FFN_PLAN_GIVEN : e->choice.from));
    if (r) {
        json_text(&line, "tuned", e->choice.path);
        json_text(&line, "machine", r->machine);
        json_integer(&line, "threads", r->threads);
        json_number(&line, "ms_min", r->ms);
    }
    json_number(&line, "predicted_ms", e->predicted_ms);
    json_number(&line, "predicted_cold_ms", e->cold_ms);
    if (e->compute_ms > 0 && e->weights_ms > 0) {
        json_number(&line, "bound_ms", bound_of(e));
        json_text(&line, "bound", limit_of(e));
    }
    json_integer(&line, "scratch_bytes", plan_scratch_bytes(e->spec, &e->choice.plan));
    return json_end(&line);
}

static bool print_class(const settings *s, const explained *e) {
    static const report_column columns[] = {
        {"  part", 0, false}, {"elements", 0, false}, {"size", 0, true}, {"caches", 0, false}};
    const ffn_plan *plan = &e->choice.plan;
    const isa_row *isa = isa_row_of(s->isa);
    char text[512], shape[96];
    int64_t rows = plan->m_block, gate = ffn_spec_gated(e->spec) ? 2 : 1, group = plan_group(plan);
    cmd_plan_text(plan, text, sizeof text);
    printf("\nn = %s: %s\n", ffn_n_class_name(plan->n_class), text);
    print_origin(s, &e->choice);
    tiles_text(e->spec, plan, text, sizeof text);
    printf("  registers of %d: %s (rows x panels of %d columns; %d lanes)\n", isa->registers, text, FFN_PANEL,
           plan_lanes(plan));
    report_table table = report_begin(columns, sizeof columns / sizeof columns[0], true);
    snprintf(shape, sizeof shape, "%lld x %lld", (long long)rows, (long long)plan->k_block);
    size_row(&table, s, "x block", shape, rows * plan->k_block * F32_BYTES);
    snprintf(shape, sizeof shape, "%s%lld x %lld", gate == 2 ? "2 x " : "", (long long)rows, (long long)plan->f_block);
    size_row(&table, s, "hidden block", shape, gate * rows * plan->f_block * F32_BYTES);
    snprintf(shape, sizeof shape, "%lld x %lld x %d", (long long)group, (long long)plan->k_block, FFN_PANEL);
    size_row(&table, s, "panels, expand", shape, group * plan->k_block * FFN_PANEL * F32_BYTES);
    snprintf(shape, sizeof shape, "%lld x %lld x %d", (long long)group, (long long)plan->f_block, FFN_PANEL);
    size_row(&table, s, "panels, contract", shape, group * plan->f_block * FFN_PANEL * F32_BYTES);
    size_row(&table, s, "scratch of a thread", "", plan_scratch_bytes(e->spec, plan));
    if (!report_end(&table))
        return false;
    print_bound(s, e);
    return true;
}

static int explain_class(const settings *s, const ffn_spec *spec, ffn_n_class n_class, int64_t n,
                         int64_t weight_bytes) {
    ffn_diag diag = {0};
    const double products = ffn_spec_gated(spec) ? 3 : 2;
    explained e = {.spec = spec, .n = n, .weight_bytes = weight_bytes};
    ffn_status status = plan_choose(&s->planner, spec, s->isa, n_class, &e.choice, &diag);
    if (!status && s->changes)
        status = cmd_plan_change(s->changes, &e.choice.plan, &diag);
    if (!status)
        status = ffn_plan_check(spec, &e.choice.plan, &diag);
    if (status)
        return cmd_diag(s->command, &diag);
    e.flops = 2.0 * (double)spec->d_model * (double)spec->d_ff * products * (double)n;
    e.predicted_ms = plan_cost_ms(spec, &e.choice.plan, &s->planner.machine, n, false);
    e.cold_ms = plan_cost_ms(spec, &e.choice.plan, &s->planner.machine, n, true);
    if (s->rates.gflops > 0 && s->rates.gbs > 0) {
        e.compute_ms = e.flops / s->rates.gflops * 1e-6;
        e.weights_ms = (double)weight_bytes / s->rates.gbs * 1e-6;
    }
    return (s->json ? print_json(s, &e) : print_class(s, &e)) ? CMD_OK : CMD_FAILED;
}

/* What the planner knows: the machine, and the tables. A file that was named must be good; the user's own is passed
 * over with a note, as a program does. */
static int know(settings *s) {
    ffn_diag diag = {0}, remarks[TUNED_TABLES_MAX];
    s->here = ffn_isa_supported(s->isa);
    if (s->here)
        machine_read_calibrated(&s->planner.machine, &diag);
    else if (ffn_machine_generic(s->isa, &s->planner.machine, &diag))
        return cmd_diag(s->command, &diag);
    if (*diag.text)
        cmd_note(s->command, "%s", diag.text);
    s->planner.machine_name = ffn_machine_name();
    s->planner.threads = (int32_t)s->threads;
    tuned_tables_load(cmd_tuned(s->tuned), &s->planner.tables, remarks);
    if (*remarks[0].text)
        return cmd_error(s->command, CMD_FAILED, "%s", remarks[0].text);
    if (*remarks[1].text)
        cmd_note(s->command, "%s", remarks[1].text);
    return CMD_OK;
}

static int explain(settings *s, const ffn_spec *spec) {
    static const int64_t examples[FFN_N_CLASSES] = {1, 4, 16, 128};
    ffn_diag diag = {0};
    size_t packed_bytes = 0;
    char text[FFN_SPEC_TEXT_BYTES] = "", sizes[3][24], packed[24];
    if (ffn_packed_bytes(spec, &packed_bytes, &diag) || ffn_spec_format(spec, text, sizeof text, &diag))
        return cmd_diag(s->command, &diag);
    int status = know(s);
    if (status)
        return status;
    const ffn_machine *machine = &s->planner.machine;
    bytes_text(machine->l1_bytes, sizes[0]);
    bytes_text(machine->l2_bytes, sizes[1]);
    bytes_text(machine->l3_bytes, sizes[2]);
    bytes_text((int64_t)packed_bytes, packed);
    if (!s->json) {
        printf("%s\n", text);
        printf("isa %s on %s: L1 %s, L2 %s, L3 %s\n", ffn_isa_name(s->isa),
               s->here ? "this machine" : "the ISA's generic machine", sizes[0], sizes[1], sizes[2]);
        printf("packed weights %s: %s\n", packed, level_text(machine, (int64_t)packed_bytes));
    }
    if (s->isa == FFN_ISA_PORTABLE) {
        if (!s->json)
            printf("the portable kernel has no plan: plain C, one loop for every spec\n");
        return CMD_OK;
    }
    if (s->here)
        s->rates = measure(s->isa, (int64_t)packed_bytes);
    for (ffn_n_class n_class = FFN_N_1; n_class < FFN_N_CLASSES && !ferror(stdout) && !status; n_class++) {
        if (!s->n || ffn_n_class_of(s->n) == n_class)
            status = explain_class(s, spec, n_class, s->n ? s->n : examples[n_class], (int64_t)packed_bytes);
    }
    return status;
}

static int run(const cmd *command, int argc, char **argv) {
    settings s = {.command = command, .threads = 1, .tuned = "default"};
    const option_row table[] = {
        {"n", 'n', OPTION_COUNT, &s.n, "N", "the class of N rows alone (default: every class)", NULL},
        {"isa", 0, OPTION_ISA, &s.isa, "ISA", "default: the best here; any that code is generated for", NULL},
        {"plan", 0, OPTION_TEXT, &s.changes, "F=V,...", "changes to the plan: " CMD_PLAN_FIELDS, NULL},
        {"tuned", 0, OPTION_TEXT, &s.tuned, CMD_TUNED_ARGUMENT, "where tuned plans are (default: default)", NULL},
        {"threads", 0, OPTION_COUNT, &s.threads, "T", "that share a run: which tuned plans fit (default 1)", NULL},
        {"json", 0, OPTION_FLAG, &s.json, NULL, "one JSON object a class", NULL},
        {0}};
    int operands, status;
    ffn_spec spec;
    if (!options_parse(command, table, argc, argv, &operands, &status))
        return status;
    status = cmd_one_spec(command, argv + operands, argc - operands, &spec);
    if (status)
        return status;
    if (s.isa == FFN_ISA_AUTO)
        s.isa = ffn_isa_best();
    if (s.threads > THREADS_MAX)
        return cmd_error(command, CMD_USAGE, "--threads: at most %d", THREADS_MAX);
    status = explain(&s, &spec);
    tuned_tables_free(&s.planner.tables);
    return status;
}

const cmd cmd_explain = {"explain",
                         "SPEC [options]",
                         "Prints the plan of a spec, who chose it, tiles, registers, bytes in each cache level, bound.",
                         NULL,
                         run,
                         false};
