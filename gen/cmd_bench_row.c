/* cmd_bench_row.c: opens the kernel of a row, measures it, prints what came out */
#include "cmd_bench_row.h"

#include "json.h"
#include "peer.h"

#include <stdio.h>
#include <string.h>

/* Two f32 programs that add in different orders differ by far less, one wrong column by far more. */
#define PEER_DIFFERENCE_MAX 1e-3
#define PLAN_TEXT_BYTES 512

static ffn_status open_kernel(bench_row *row, ffn_diag *diag) {
    const ffn_spec *spec = &row->layer->spec;
    ffn_options options = {.isa = row->isa, .store = row->store, .tools = row->tools};
    ffn_plan plan;
    if (row->plan_changes) {
        ffn_machine machine;
        ffn_machine_read(&machine);
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
    return cmd_kernel_open(spec, &options, &row->kernel, diag); /* which copies the plan */
}

static int measure(bench_row *row) {
    ffn_diag diag = {0};
    if (open_kernel(row, &diag))
        return cmd_diag(row->command, &diag);
    int status = cmd_kernel_prepare(row->command, &row->kernel, row->n);
    if (status)
        return status;
    ffn_kernel_inspect(row->kernel.kernel, row->n, &row->info);
    if (row->isa != FFN_ISA_AUTO && row->info.isa != row->isa)
        return cmd_error(row->command, CMD_FAILED, "no %s kernel to measure", ffn_isa_name(row->isa));

    /* The peer's activation loop is a vectorised one, whatever kernel it is compared with. */
    cmd_kernel lender = {0};
    if (row->peer && row->info.isa == FFN_ISA_PORTABLE) {
        if (cmd_kernel_open(&row->layer->spec, &(ffn_options){.store = row->store}, &lender, &diag))
            return cmd_diag(row->command, &diag);
        ffn_kernel_prepare(lender.kernel, row->n, NULL);
    }
    const bench_request request = {.layer = row->layer,
                                   .kernel = row->kernel.kernel,
                                   .peer_kernel = !row->peer      ? NULL
                                                  : lender.kernel ? lender.kernel
                                                                  : row->kernel.kernel,
                                   .team = row->team,
                                   .isa = row->info.isa,
                                   .n = row->n,
                                   .x = row->x,
                                   .seconds = row->seconds};
    if (bench_case(&request, &row->report, &diag))
        status = cmd_diag(row->command, &diag);
    cmd_kernel_close(&lender);
    if (!status && !(row->report.peer_difference <= PEER_DIFFERENCE_MAX))
        status = cmd_error(row->command, CMD_FAILED, "n = %lld: the kernel and %s differ by %.3g of the largest |y|",
                           (long long)row->n, bench_peer_name(), row->report.peer_difference);
    return status;
}

int bench_row_measure(bench_row *row) {
    row->report = (bench_report){0};
    row->kernel = (cmd_kernel){0};
    return measure(row);
}

void bench_row_clear(bench_row *row) {
    bench_report_clear(&row->report);
    cmd_kernel_close(&row->kernel);
}

bool bench_row_json(const bench_row *row) {
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
                   {"compile_ms", row->info.compile_ms},
                   {"verify_ms", row->info.verify_ms},
                   {"load_ms", row->info.load_ms}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        json_number(&line, numbers[i].key, numbers[i].value);
    json_flag(&line, "cold", row->cold);
    json_text(&line, "source", cmd_origin_name(row->info.source));
    json_bits(&line, "bits", r->bits);
    cmd_counters_json(&row->kernel, &line);
    if (row->peer) {
        json_number_in(&line, "vs", "openblas", r->peer_ms_median);
        json_number_in(&line, "vs_min", "openblas", r->peer_ms_min);
        json_text(&line, "peer", bench_peer_name());
    }
    return json_end(&line);
}

report_table bench_row_table(const ffn_spec *specs, int count) {
    static report_column columns[] = {{"spec", 0, false},  {"isa", 8, false},        {"n", 4, true},
                                      {"ms min", 9, true}, {"median", 9, true},      {"GFLOP/s", 7, true},
                                      {"%peak", 6, true},  {"GB/s", 6, true},        {"%read", 6, true},
                                      {"%roof", 6, true},  {"vs openblas", 11, true}};
    int width = 0;
    for (int i = 0; i < count; i++) {
        char name[FFN_SPEC_NAME_BYTES] = "";
        ffn_spec_name(&specs[i], false, name, sizeof name, NULL);
        int length = (int)strlen(name);
        width = length > width ? length : width;
    }
    columns[0].width = width;
    return report_begin(columns, sizeof columns / sizeof columns[0], false);
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
    if (row->peer)
        report_cell(table, "%.2fx", r->peer_ms_median / r->ms_median);
    else
        report_cell(table, "-");
}
