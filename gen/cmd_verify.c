/* cmd_verify.c: ffngen verify: specs -> a verdict for each ISA of this machine and each number of rows
 *
 * Beside the checks of ffn_kernel_verify, the digests of one (spec, n) must be the same for every ISA, and the
 * activation of each is measured against the formula in double. */
#include "cmd.h"
#include "cmd_verify_accuracy.h"
#include "ffn_blas.h"
#include "json.h"
#include "machine.h"
#include "options.h"
#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLAN_TEXT_BYTES 512
#define ROWS_MAX 512

typedef struct settings {
    const cmd *command;
    const ffn_product *product;
    ffn_isa isa;
    option_counts n; /* count 0: every n of rows_to_try */
    const char *store;
    bool json;
    report_table table;
} settings;

typedef struct verdict {
    const ffn_spec *spec;
    const cmd_kernel *kernel;
    int64_t n;
    ffn_kernel_info info;
    ffn_verify_report report;
    const accuracy_found *activation;
    ffn_status status;
    ffn_diag diag;
} verdict;

static void add_rows(option_counts *n, int64_t rows) {
    for (int i = 0; i < n->count; i++) {
        if (n->values[i] == rows)
            return;
    }
    if (rows >= 1 && rows <= ROWS_MAX && n->count < OPTION_COUNTS_MAX)
        n->values[n->count++] = rows;
}

/* 1 to 20, and around every edge of the plan that serves many rows: one tile, two, one block, each a row less, a
 * row more. */
static option_counts rows_to_try(const settings *s, const ffn_spec *spec) {
    option_counts n = {0};
    if (s->n.count)
        return s->n;
    for (int64_t rows = 1; rows <= 20; rows++)
        add_rows(&n, rows);
    for (ffn_isa isa = FFN_ISA_PORTABLE + 1; isa < FFN_ISA_COUNT; isa++) {
        ffn_machine machine;
        ffn_plan plan;
        machine_read_calibrated(&machine, NULL);
        if (!ffn_isa_supported(isa) || ffn_plan_make(spec, isa, FFN_N_17_UP, &machine, &plan, NULL))
            continue;
        for (int64_t off = -1; off <= 1; off++) {
            for (int times = 1; times <= 4; times++)
                add_rows(&n, times * plan.tiles[0].mr + off);
            add_rows(&n, plan.m_block + off);
        }
    }
    return n;
}

/* "act_ulp" and where, or "act_error" of a fast one; nothing where there was no kernel to measure. */
static void accuracy_json(const verdict *v, json_line *line) {
    const bool fast = v->activation->fast;
    const accuracy_place *worst = &v->activation->worst;
    if (!v->activation->measured)
        return;
    json_number(line, fast ? "act_error" : "act_ulp", worst->error);
    json_float(line, fast ? "act_error_at" : "act_ulp_at", worst->g);
    if (ffn_spec_gated(v->spec))
        json_float(line, fast ? "act_error_at_up" : "act_ulp_at_up", worst->u);
    if (!fast)
        json_number(line, "act_subnormal", v->activation->subnormal.error);
    json_integer(line, "act_nan", v->activation->nan);
}

static bool print_json(const verdict *v) {
    char spec[FFN_SPEC_TEXT_BYTES] = "", plan[PLAN_TEXT_BYTES];
    ffn_spec_format(v->spec, spec, sizeof spec, NULL);
    cmd_plan_text(&v->info.plan, plan, sizeof plan);
    json_line line = json_begin();
    json_text(&line, "spec", spec);
    json_text(&line, "isa", ffn_isa_name(v->info.isa));
    json_integer(&line, "n", v->n);
    json_text(&line, "plan", plan);
    json_number(&line, "max_error", v->report.max_error);
    json_number(&line, "error_bound", v->report.error_bound);
    json_number(&line, "worst_case_share", v->report.worst_case_share);
    json_integer(&line, "compared", v->report.compared);
    json_bits(&line, "bits", v->report.bits);
    accuracy_json(v, &line);
    json_number(&line, "verify_ms", v->report.ms);
    json_number(&line, "compile_ms", v->info.compile_ms);
    json_text(&line, "source", cmd_origin_name(v->info.source));
    cmd_counters_json(v->kernel, &line);
    json_flag(&line, "passed", v->status == FFN_OK);
    if (v->status)
        json_text(&line, "reason", v->diag.text);
    return json_end(&line);
}

static report_table table_for(const ffn_spec *specs, int count) {
    static report_column columns[] = {{"spec", 0, false},      {"isa", 8, false},   {"n", 4, true},
                                      {"max error", 10, true}, {"bound", 10, true}, {"activation", 12, true},
                                      {"at", 10, true},        {"bits", 16, false}, {"ms", 8, true},
                                      {"verdict", 0, false}};
    int width = 0;
    for (int i = 0; i < count; i++) {
        char name[FFN_SPEC_NAME_BYTES] = "";
        ffn_spec_name(&specs[i], false, name, sizeof name, NULL);
        width = (int)strlen(name) > width ? (int)strlen(name) : width;
    }
    columns[0].width = width;
    return report_begin(columns, sizeof columns / sizeof columns[0], false);
}

static void print_line(const verdict *v, report_table *table) {
    char name[FFN_SPEC_NAME_BYTES] = "";
    ffn_spec_name(v->spec, false, name, sizeof name, NULL);
    report_cell(table, "%s", name);
    report_cell(table, "%s", ffn_isa_name(v->info.isa));
    report_cell(table, "%lld", (long long)v->n);
    report_cell(table, "%.3g", v->report.max_error);
    report_cell(table, "%.3g", v->report.error_bound);
    const accuracy_place *worst = &v->activation->worst;
    if (v->activation->measured) {
        report_cell(table, v->activation->fast ? "%.2g" : "%.3g ULP", worst->error);
        report_cell(table, "%.4g", (double)worst->g);
    } else {
        report_cell(table, "-");
        report_cell(table, "-");
    }
    report_cell(table, "%016llx", (unsigned long long)v->report.bits);
    report_cell(table, "%.2f", v->report.ms);
    report_cell(table, "%s", v->status ? v->diag.text : "passed");
}

/* Every n on one ISA. `bits` holds the digests of the ISA before, or 0 where there is none yet. */
static int verify_isa(settings *s, const accuracy_sample *sample, ffn_isa isa, const option_counts *n, uint64_t *bits) {
    const ffn_spec *spec = sample->spec;
    ffn_diag diag = {0}, beyond = {0};
    accuracy_found activation = {0};
    ffn_status exact = FFN_OK; /* of the activation: what all rows of this ISA have */
    cmd_kernel kernel;
    /* Never: so that a kernel that fails is there to be reported on, number of rows by number of rows. */
    const ffn_options options = {.isa = isa, .verify = FFN_VERIFY_NEVER, .store = cmd_store(s->store)};
    if (cmd_kernel_open(spec, &options, &kernel, &diag))
        return cmd_diag(s->command, &diag);
    int status = CMD_OK;
    for (int i = 0; i < n->count && !ferror(stdout); i++) {
        verdict v = {.spec = spec, .kernel = &kernel, .n = n->values[i], .activation = &activation};
        if (isa != FFN_ISA_PORTABLE)
            v.status = ffn_kernel_prepare(kernel.kernel, v.n, &v.diag);
        if (!v.status && *v.diag.text)
            cmd_note(s->command, "%s", v.diag.text);
        ffn_kernel_inspect(kernel.kernel, v.n, &v.info);
        v.info.isa = isa; /* asked for: what could not be built has not passed either */
        if (!v.status)
            v.status = ffn_kernel_verify(kernel.kernel, v.n, s->product, &v.report, &v.diag);
        if (!v.status && !activation.measured)
            exact = accuracy_measure(sample, kernel.kernel, v.n, &activation, &beyond);
        if (!v.status && exact) {
            v.status = exact;
            v.diag = beyond;
        }
        if (!v.status && bits[i] && bits[i] != v.report.bits) {
            v.status = FFN_VERIFY_FAILED;
            snprintf(v.diag.text, sizeof v.diag.text, "the bits differ from those of the ISA before");
        }
        if (!v.status)
            bits[i] = v.report.bits;
        status = v.status ? CMD_FAILED : status;
        if (s->json)
            status = print_json(&v) ? status : CMD_FAILED;
        else
            print_line(&v, &s->table);
    }
    cmd_kernel_close(&kernel);
    return status;
}

static int verify_spec(settings *s, const ffn_spec *spec) {
    option_counts n = rows_to_try(s, spec);
    uint64_t bits[OPTION_COUNTS_MAX] = {0};
    int status = CMD_OK;
    accuracy_sample sample;
    ffn_diag diag = {0};
    if (accuracy_sample_make(spec, &sample, &diag))
        return cmd_diag(s->command, &diag);
    for (ffn_isa isa = FFN_ISA_PORTABLE; isa < FFN_ISA_COUNT && !ferror(stdout); isa++) {
        if (s->isa != FFN_ISA_AUTO ? isa != s->isa : !ffn_isa_supported(isa))
            continue;
        int done = verify_isa(s, &sample, isa, &n, bits);
        status = done ? done : status;
    }
    accuracy_sample_free(&sample);
    return status;
}

static int run(const cmd *command, int argc, char **argv) {
    settings s = {.command = command, .store = "off"};
    const option_row table[] = {
        {"isa", 0, OPTION_ISA, &s.isa, "ISA", "this one alone (default: all this machine runs)", NULL},
        {"n", 'n', OPTION_COUNTS, &s.n, "N,...", "numbers of rows (default 1 to 20 and around tiles)", NULL},
        {"store", 0, OPTION_TEXT, &s.store, CMD_STORE_ARGUMENT, "where kernels are kept (default: off)", NULL},
        {"json", 0, OPTION_FLAG, &s.json, NULL, "one JSON object a line", NULL},
        {0}};
    int operands, status;
    if (!options_parse(command, table, argc, argv, &operands, &status))
        return status;
    if (!cmd_isa_runs(command, s.isa))
        return CMD_USAGE;
    ffn_spec *specs = NULL;
    int count = argc - operands;
    status = cmd_specs(command, argv + operands, count, &specs);
    if (status)
        return status;
    s.product = ffn_blas_product(true);
    if (!s.json)
        s.table = table_for(specs, count);
    for (int i = 0; i < count && !ferror(stdout); i++) {
        int done = verify_spec(&s, &specs[i]);
        status = done ? done : status;
    }
    if (!s.json && !report_end(&s.table))
        status = CMD_FAILED;
    free(specs);
    return status;
}

const cmd cmd_verify = {"verify",
                        "SPEC... [options]",
                        "Checks kernels against the portable kernel, libm and OpenBLAS.",
                        "\nEvery ISA this machine runs and every number of rows is a line; status 1 if one failed.\n"
                        "activation: its largest error against the formula in double, in units of the last place (a\n"
                        "fast one's: over max(1, |x|)); a built-in one beyond its bound has failed.\n",
                        run,
                        false};
