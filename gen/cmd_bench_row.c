/* cmd_bench_row.c: opens the kernel of a row, measures it, prints what came out */
#include "cmd_bench_row.h"
#include "cmd_bench_contract.h"
#include "cmd_bench_dense.h"
#include "cmd_bench_hand.h"
#include "cmd_bench_stages.h"

#include "cmd_bench_activations.h"

#include "json.h"
#include "machine.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#define PLAN_TEXT_BYTES 512

static ffn_status open_kernel(const bench_row *row, const ffn_spec *spec, cmd_kernel *kernel, ffn_diag *diag) {
    ffn_options options = {.isa = row->isa,
                           .store = row->store,
                           .tools = row->tools,
                           .tuned = row->tuned,
                           .threads = bench_team_size(row->team)};
    ffn_plan plan;
    if (row->plan_changes) {
        ffn_machine machine;
        machine_read_calibrated(&machine, NULL);
        ffn_isa isa = row->isa == FFN_ISA_AUTO ? ffn_isa_best() : row->isa;
        ffn_status status = ffn_plan_make(spec, isa, ffn_n_class_of(row->n), &machine, &plan, diag);
        if (!status)
            status = cmd_plan_change(row->plan_changes, &plan, diag);
        if (!status)
            status = ffn_plan_check(spec, &plan, diag);
        if (status)
            return status;
        options.plan = &plan;
    }
    return cmd_kernel_open(spec, &options, kernel, diag); /* which copies the plan */
}

ffn_status bench_row_variant(const bench_row *row, const ffn_source *source, cmd_kernel *variant, ffn_diag *diag) {
    const ffn_options options = {.isa = row->info.isa,
                                 .verify = FFN_VERIFY_NEVER,
                                 .source = source,
                                 .plan = &row->info.plan,
                                 .tuned = "",
                                 .store = ""};
    ffn_status status = ffn_context_create(&options, &variant->context, diag);
    status = status ? status : ffn_kernel_create(variant->context, &row->layer->spec, &variant->kernel, diag);
    return status ? status : ffn_kernel_prepare(variant->kernel, row->n, diag);
}

/* Peers that gave something else than the oracle: each an error of its own, the others stand. */
static int check_peers(const bench_row *row) {
    int status = CMD_OK;
    for (int i = 0; i < row->peers->count; i++) {
        const bench_peer *peer = &row->peers->list[i];
        const bench_peer_report *r = &row->report.peers[i];
        if (r->ran && !r->timed)
            status = cmd_error(row->command, CMD_FAILED,
                               "%s at n = %lld is %.3g of the largest |y| away from the oracle: not timed (%s)",
                               peer->name, (long long)row->n, r->max_error, r->text);
        else if (!r->ran && !*peer->missing)
            cmd_note(row->command, "%s takes no part at n = %lld: %s", peer->name, (long long)row->n, r->text);
    }
    return status;
}

/* Some peers have activations of their own, which are less accurate: beside them, a kernel of ours that is so too.
 * Not opened where nothing would differ. */
static int open_fast(const bench_row *row, cmd_kernel *fast, ffn_diag *diag) {
    ffn_spec spec = row->layer->spec;
    bool own = false;
    for (int i = 0; i < row->peers->count; i++)
        own = own || (row->peers->list[i].weights && row->peers->list[i].module->own_activation);
    spec.accuracy = FFN_FAST;
    if (!own || row->info.isa == FFN_ISA_PORTABLE || row->layer->spec.accuracy == FFN_FAST ||
        bench_operations(&spec) == bench_operations(&row->layer->spec))
        return CMD_OK;
    if (open_kernel(row, &spec, fast, diag))
        return cmd_diag(row->command, diag);
    return cmd_kernel_prepare(row->command, fast, row->n);
}

static int measure(bench_row *row, bool *measured) {
    ffn_diag diag = {0};
    if (open_kernel(row, &row->layer->spec, &row->kernel, &diag))
        return cmd_diag(row->command, &diag);
    int status = cmd_kernel_prepare(row->command, &row->kernel, row->n);
    if (status)
        return status;
    ffn_kernel_inspect(row->kernel.kernel, row->n, &row->info);
    if (row->isa != FFN_ISA_AUTO && row->info.isa != row->isa)
        return cmd_error(row->command, CMD_FAILED, "no %s kernel to measure", ffn_isa_name(row->isa));

    /* The peers' activation loop is a vectorised one, whatever kernel they are compared with. */
    cmd_kernel lender = {0};
    if (row->peers->count && row->info.isa == FFN_ISA_PORTABLE) {
        const ffn_options options = {.store = row->store, .tuned = row->tuned};
        if (cmd_kernel_open(&row->layer->spec, &options, &lender, &diag))
            return cmd_diag(row->command, &diag);
        ffn_kernel_prepare(lender.kernel, row->n, NULL);
    }
    bench_contract contract = {.kernels.count = 0};
    if (row->contract && row->info.isa != FFN_ISA_PORTABLE && bench_contract_open(row, &contract, &diag)) {
        bench_contract_close(&contract);
        cmd_kernel_close(&lender);
        return cmd_diag(row->command, &diag);
    }
    bench_stages_source stages = {.of.kernel = NULL};
    if (row->stages && row->info.isa != FFN_ISA_PORTABLE && bench_stages_source_open(row, &stages, &diag)) {
        bench_stages_source_close(&stages);
        bench_contract_close(&contract);
        cmd_kernel_close(&lender);
        return cmd_diag(row->command, &diag);
    }
    cmd_kernel dense = {0};
    if (row->dense && row->info.isa != FFN_ISA_PORTABLE && bench_dense_open(row, &dense, &diag)) {
        cmd_kernel_close(&dense);
        bench_stages_source_close(&stages);
        bench_contract_close(&contract);
        cmd_kernel_close(&lender);
        return cmd_diag(row->command, &diag);
    }
    cmd_kernel fast = {0};
    status = open_fast(row, &fast, &diag);
    const bench_request request = {.layer = row->layer,
                                   .kernel = row->kernel.kernel,
                                   .fast = fast.kernel,
                                   .lender = lender.kernel ? lender.kernel : row->kernel.kernel,
                                   .peers = row->peers,
                                   .oracle = row->oracle,
                                   .free = contract.kernels.count ? &contract.kernels : NULL,
                                   .stages = stages.of.kernel ? &stages.of : NULL,
                                   .dense = dense.kernel,
                                   .hand = row->hand,
                                   .team = row->team,
                                   .isa = row->info.isa,
                                   .n = row->n,
                                   .x = row->x,
                                   .seconds = row->seconds};
    if (!status) {
        *measured = !bench_case(&request, &row->report, &diag);
        status = *measured ? check_peers(row) : cmd_diag(row->command, &diag);
        bench_hand_note(row);
    }
    cmd_kernel_close(&fast);
    bench_stages_source_close(&stages);
    bench_contract_close(&contract);
    cmd_kernel_close(&dense);
    cmd_kernel_close(&lender);
    return status;
}

int bench_row_measure(bench_row *row, bool *measured) {
    *measured = false;
    row->report = (bench_report){0};
    row->kernel = (cmd_kernel){0};
    return measure(row, measured);
}

void bench_row_clear(bench_row *row) {
    bench_report_clear(&row->report);
    cmd_kernel_close(&row->kernel);
}

/* "peers", "vs", "vs_min", "errors", "chosen", each by the peer's name; "missing", those that gave no time. */
static void peers_json(const bench_row *row, json_line *line) {
    json_number_in(line, "errors", "ffngen", row->report.max_error);
    cJSON *missing = cJSON_AddArrayToObject(line->object, "missing");
    line->complete = line->complete && missing;
    for (int i = 0; i < row->peers->count; i++) {
        const bench_peer *peer = &row->peers->list[i];
        const bench_peer_report *r = &row->report.peers[i];
        if (*peer->version)
            json_text_in(line, "peers", peer->name, peer->version);
        if (r->ran)
            json_number_in(line, "errors", peer->name, r->max_error);
        if (!r->timed) {
            cJSON *name = cJSON_CreateString(peer->name);
            line->complete = line->complete && name && cJSON_AddItemToArray(missing, name);
            continue;
        }
        json_number_in(line, "vs", peer->name, r->ms_median);
        if (row->report.fast.timed && r->own_activation)
            json_number_in(line, "vs_fast", peer->name, r->ms_median / row->report.fast.ms_median);
        json_number_in(line, "vs_min", peer->name, r->ms_min);
        json_text_in(line, "chosen", peer->name, r->text);
    }
}

static json_line row_line(const bench_row *row) {
    const bench_report *r = &row->report;
    char spec[FFN_SPEC_TEXT_BYTES] = "", plan[PLAN_TEXT_BYTES];
    ffn_spec_format(&row->layer->spec, spec, sizeof spec, NULL);
    cmd_plan_text(&row->info.plan, plan, sizeof plan);
    json_line line = json_begin();
    json_text(&line, "spec", spec);
    json_text(&line, "isa", ffn_isa_name(row->info.isa));
    json_integer(&line, "n", row->n);
    json_integer(&line, "threads", bench_team_size(row->team));
    json_text(&line, "plan", plan);
    json_text(&line, "plan_from", cmd_plan_origin_name(row->info.plan_from));
    const struct {
        const char *key;
        double value;
    } numbers[] = {{"ms_min", r->ms_min},
                   {"ms_median", r->ms_median},
                   {"gflops", r->gflops},
                   {"peak_gflops", r->peak_gflops},
                   {"fraction_of_peak", r->fraction_of_peak},
                   {"weight_gbs", r->weight_gbs},
                   {"read_gbs", r->read_gbs},
                   {"fraction_of_read", r->fraction_of_read},
                   {"roof_ms", r->roof_ms},
                   {"fraction_of_roof", r->fraction_of_roof},
                   {"act_ns_per_vector", r->act_ns_per_vector},
                   {"speedup", r->speedup},
                   {"peak_speedup", r->peak_speedup},
                   {"read_speedup", r->read_speedup},
                   {"speedup_of_peak", r->speedup_of_peak},
                   {"speedup_of_read", r->speedup_of_read},
                   {"busy", r->busy},
                   {"max_error", r->max_error},
                   {"compile_ms", row->info.compile_ms},
                   {"verify_ms", row->info.verify_ms},
                   {"load_ms", row->info.load_ms}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        json_number(&line, numbers[i].key, numbers[i].value);
    json_integer(&line, "operations", bench_operations(&row->layer->spec));
    json_flag(&line, "cold", row->cold);
    json_text(&line, "source", cmd_origin_name(row->info.source));
    json_bits(&line, "bits", r->bits);
    cmd_counters_json(&row->kernel, &line);
    bench_contract_json(row, &line);
    bench_stages_json(row, &line);
    if (r->fast.timed) {
        json_number(&line, "fast_ms_min", r->fast.ms_min);
        json_number(&line, "fast_ms_median", r->fast.ms_median);
        json_number(&line, "fast_max_error", r->fast.max_error);
    }
    bench_dense_json(row, &line);
    bench_hand_json(row, &line);
    peers_json(row, &line);
    return line;
}

struct cJSON *bench_row_object(const bench_row *row) {
    json_line line = row_line(row);
    if (line.complete)
        return line.object;
    cJSON_Delete(line.object);
    return NULL;
}

bool bench_row_json(const bench_row *row) {
    json_line line = row_line(row);
    return json_end(&line);
}

report_table bench_row_table(const ffn_spec *specs, int count, const bench_peers *peers) {
    enum { OWN = 12 };
    static report_column columns[OWN + BENCH_PEERS_MAX] = {
        {"spec", 0, false},  {"isa", 8, false},    {"n", 4, true},      {"ms min", 9, true},
        {"median", 9, true}, {"GFLOP/s", 7, true}, {"%peak", 6, true},  {"GB/s", 6, true},
        {"%read", 6, true},  {"%roof", 6, true},   {"act ns", 6, true}, {"error", 7, true}};
    static char titles[BENCH_PEERS_MAX][16];
    int width = 0;
    for (int i = 0; i < count; i++) {
        char name[FFN_SPEC_NAME_BYTES] = "";
        ffn_spec_name(&specs[i], false, name, sizeof name, NULL);
        int length = (int)strlen(name);
        width = length > width ? length : width;
    }
    columns[0].width = width;
    for (int i = 0; i < peers->count; i++) {
        snprintf(titles[i], sizeof titles[i], "vs %s", peers->list[i].name);
        columns[OWN + i] = (report_column){titles[i], 7, true};
    }
    return report_begin(columns, OWN + peers->count, false);
}

/* A share in per cent, or "-" where it could not be measured. */
static void percent_cell(report_table *table, double fraction) {
    if (fraction > 0)
        report_cell(table, "%.1f", fraction * 100);
    else
        report_cell(table, "-");
}

void bench_row_line(const bench_row *row, report_table *table) {
    const bench_report *r = &row->report;
    char name[FFN_SPEC_NAME_BYTES] = "";
    ffn_spec_name(&row->layer->spec, false, name, sizeof name, NULL);
    report_cell(table, "%s", name);
    report_cell(table, "%s", ffn_isa_name(row->info.isa));
    report_cell(table, "%lld", (long long)row->n);
    report_cell(table, "%.4f", r->ms_min);
    report_cell(table, "%.4f", r->ms_median);
    report_cell(table, "%.1f", r->gflops);
    percent_cell(table, r->fraction_of_peak);
    report_cell(table, "%.1f", r->weight_gbs);
    percent_cell(table, r->fraction_of_read);
    percent_cell(table, r->fraction_of_roof);
    report_cell(table, "%.2f", r->act_ns_per_vector);
    report_cell(table, "%.1g", r->max_error);
    for (int i = 0; i < row->peers->count; i++) {
        if (r->peers[i].timed)
            report_cell(table, "%.2fx", r->peers[i].ms_median / r->ms_median);
        else
            report_cell(table, "%s", r->peers[i].ran ? "wrong" : "missing");
    }
}

void bench_row_fast_print(const bench_row *row) {
    const bench_report *r = &row->report;
    for (int i = 0; i < row->peers->count && r->fast.timed; i++) {
        if (r->peers[i].timed && r->peers[i].own_activation)
            cmd_print("  n = %lld: %s has an activation of its own; our fast one: %.4f ms, median %.4f, %.2fx",
                      (long long)row->n, row->peers->list[i].name, r->fast.ms_min, r->fast.ms_median,
                      r->peers[i].ms_median / r->fast.ms_median);
    }
}

double bench_row_peer_ratio(const bench_row *row, int peer, bool fast, bool fastest) {
    const bench_report *r = &row->report;
    const bench_peer_report *of = &r->peers[peer];
    if (!of->timed)
        return 0;
    fast = fast && r->fast.timed && of->own_activation;
    return fastest ? of->ms_min / (fast ? r->fast.ms_min : r->ms_min)
                   : of->ms_median / (fast ? r->fast.ms_median : r->ms_median);
}
