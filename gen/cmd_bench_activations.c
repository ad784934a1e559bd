/* cmd_bench_activations.c: see cmd_bench_activations.h
 *
 * All are contenders of the same rounds, beside multiply-adds from registers: their time is a unit that a change of the
 * clock does not change. */
#include "cmd_bench_activations.h"

#include <stdio.h>
#include <stdlib.h>

#include "buffers.h"
#include "formula_ast.h"
#include "formula_count.h"
#include "isa.h"
#include "json.h"
#include "probes.h"
#include "report.h"
#include "rounds.h"

/* All in L1; arrays that lie a multiple of 4 KiB apart would make stores wait for loads. */
enum { VALUES = 1024, STRIDE = VALUES + 272, PEAK_TURNS = 200, ROUNDS_MIN = 5 };
#define BUSY 0.05 /* as of a row */

typedef struct entry {
    ffn_spec spec;
    int operations;
    cmd_kernel kernel;
    float *values; /* g, u, out */
} entry;

typedef struct table {
    int count;
    entry *entries;
    bench_contender *contenders; /* one more: the probe */
    float *values;
    const bench_probes *probes;
} table;

int bench_operations(const ffn_spec *spec) {
    formula_graph *graph = malloc(sizeof *graph);
    int count = 0;
    if (graph && formula_build(spec->activation, spec->accuracy, graph, NULL) == FFN_OK)
        count = formula_count_operations(graph);
    free(graph);
    return count;
}

static void activate_call(void *self) {
    const entry *e = self;
    ffn_kernel_activate(e->kernel.kernel, 1, VALUES, e->values, e->values + STRIDE, e->values + 2 * STRIDE, NULL);
}

static void peak_call(void *self) {
    ((const bench_probes *)self)->peak.loop(PEAK_TURNS);
}

/* The smallest kernel there is: the entry is the same in all. */
static int add(table *t, const cmd *command, const activation_row *row, bool fast, ffn_isa isa) {
    entry *e = &t->entries[t->count];
    char text[FFN_SPEC_TEXT_BYTES];
    ffn_diag diag = {0};
    const ffn_options options = {.isa = isa, .verify = FFN_VERIFY_NEVER, .store = ""};
    snprintf(text, sizeof text, "d1-f1-%s%s", row->shown.name, fast ? "-fast" : "");
    if (ffn_spec_parse(text, &e->spec, &diag) || cmd_kernel_open(&e->spec, &options, &e->kernel, &diag))
        return cmd_diag(command, &diag);
    t->contenders[t->count++] = (bench_contender){.call = activate_call, .self = e};
    e->values = t->values;
    e->operations = bench_operations(&e->spec);
    return cmd_kernel_prepare(command, &e->kernel, 1);
}

static int add_all(table *t, const cmd *command, ffn_isa isa) {
    size_t rows = 0;
    while (activation_row_at(rows))
        rows++;
    t->entries = calloc(2 * rows, sizeof *t->entries);
    t->contenders = calloc(2 * rows + 1, sizeof *t->contenders);
    t->values = bench_alloc(3 * STRIDE * sizeof(float));
    if (!t->entries || !t->contenders || !t->values)
        return cmd_error(command, CMD_FAILED, "no memory to measure in");
    bench_fill(t->values, 2 * STRIDE, 4, 1);
    int status = CMD_OK;
    for (size_t i = 0; i < rows && !status; i++) {
        const activation_row *row = activation_row_at(i);
        status = add(t, command, row, false, isa);
        if (!status && activation_fast(row))
            status = add(t, command, row, true, isa);
    }
    t->probes = bench_probes_of(isa);
    t->contenders[t->count] = (bench_contender){.call = peak_call, .self = (void *)(uintptr_t)t->probes};
    return status;
}

static bool print(const table *t, ffn_isa isa, bool json) {
    static const report_column columns[] = {{"activation", 0, false}, {"accuracy", 0, false}, {"operations", 0, true},
                                            {"ns min", 0, true},      {"median", 0, true},    {"in fma", 0, true}};
    const isa_row *row = isa_row_of(isa);
    const int lanes = row ? row->lanes : 1;
    const double to_ns = 1e6 * lanes / VALUES;
    /* Multiply-adds of one vector: of 2 x lanes flops. */
    const double fma_ns =
        t->probes ? t->contenders[t->count].ms_min * 1e6 * 2 * lanes / t->probes->peak.flops / PEAK_TURNS : 0;
    report_table out = {0};
    if (!json)
        out = report_begin(columns, sizeof columns / sizeof *columns, true);
    bool printed = true;
    for (int i = 0; i < t->count && printed; i++) {
        const entry *e = &t->entries[i];
        const char *accuracy = e->spec.accuracy == FFN_FAST ? "fast" : "accurate";
        const double ns = t->contenders[i].ms_min * to_ns, median = t->contenders[i].ms_median * to_ns;
        if (json) {
            json_line line = json_begin();
            json_text(&line, "activation", e->spec.activation);
            json_text(&line, "accuracy", accuracy);
            json_text(&line, "isa", ffn_isa_name(isa));
            json_integer(&line, "operations", e->operations);
            json_number(&line, "act_ns_per_vector", ns);
            json_number(&line, "act_ns_per_vector_median", median);
            if (fma_ns > 0)
                json_number(&line, "act_in_fma", ns / fma_ns);
            printed = json_end(&line);
            continue;
        }
        report_cell(&out, "%s", e->spec.activation);
        report_cell(&out, "%s", accuracy);
        report_cell(&out, "%d", e->operations);
        report_cell(&out, "%.2f", ns);
        report_cell(&out, "%.2f", median);
        report_cell(&out, fma_ns > 0 ? "%.1f" : "-", fma_ns > 0 ? ns / fma_ns : 0);
    }
    if (!json)
        printed = report_end(&out) && printf("%s: a vector is %d value%s; one fused multiply-add takes %.3f ns\n",
                                             ffn_isa_name(isa), lanes, lanes == 1 ? "" : "s", fma_ns) >= 0;
    return printed;
}

int bench_activations(const cmd *command, ffn_isa isa, double seconds, bool json) {
    table t = {0};
    isa = isa == FFN_ISA_AUTO ? ffn_isa_best() : isa;
    int status = add_all(&t, command, isa);
    if (!status) {
        const double busy =
            bench_rounds(t.contenders, t.count + (t.probes != NULL), BENCH_CLOCK_THREAD, ROUNDS_MIN, seconds);
        status = print(&t, isa, json) ? CMD_OK : CMD_FAILED;
        if (busy > BUSY)
            cmd_note(command, "the machine is busy: other processes took %.0f %% of the time", busy * 100);
    }
    for (int i = 0; i < t.count; i++)
        cmd_kernel_close(&t.entries[i].kernel);
    bench_free(t.values);
    free(t.entries);
    free(t.contenders);
    return status;
}
