/* cmd_run.c: ffngen run: weights and rows in, one FFN, rows out */
#include "buffers.h"
#include "cmd.h"
#include "cmd_weights.h"
#include "diag.h"
#include "ffn_blas.h"
#include "json.h"
#include "layer.h"
#include "npy.h"
#include "options.h"
#include "report.h"
#include "rounds.h"
#include "weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define X_SEED 7
#define PLAN_TEXT_BYTES 512

static const char *const verify_modes[] = {"first", "always", "never", NULL}; /* in the order of ffn_verify_mode */

typedef struct settings {
    const cmd *command;
    const char *weights, *packed, *input, *output;
    weights_options names;
    int layout; /* -1: not given */
    int64_t n;  /* 0: not given */
    ffn_isa isa;
    int verify;
    uint32_t tools;
    const char *store;
    bool json;
} settings;

typedef struct work {
    ffn_spec spec;
    /* One of three holds the weights. */
    void *packed;
    const void *mapped;
    bench_layer layer; /* seeded ones */
    size_t mapped_bytes;
    float *x, *y; /* [n][d_model], dense */
    int64_t n;
    void *scratch;
    cmd_kernel kernel;
    double run_ms;
} work;

static ffn_status pack_file(const settings *s, work *w, ffn_diag *diag) {
    weights_file *file;
    size_t bytes = 0;
    ffn_status status = weights_open(&w->spec, s->weights, &s->names, &file, diag);
    if (status)
        return status;
    status = ffn_packed_bytes(&w->spec, &bytes, diag);
    if (!status && !(w->packed = bench_alloc(bytes)))
        status = diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for %zu bytes of packed weights", bytes);
    if (!status)
        status = ffn_pack(&w->spec, weights_of(file), w->packed, bytes, diag);
    if (!status)
        cmd_note(s->command, "weights: %s", weights_summary(file));
    weights_close(file);
    return status;
}

static ffn_status load_weights(const settings *s, work *w, ffn_diag *diag) {
    if (s->weights)
        return pack_file(s, w, diag);
    if (s->packed)
        return ffn_packed_map(&w->spec, s->packed, &w->mapped, &w->mapped_bytes, diag);
    ffn_machine machine;
    ffn_machine_read(&machine);
    cmd_note(s->command, "no --weights: generated ones, the same each time");
    return bench_layer_create(&w->spec, NULL, false, &machine, &w->layer, diag);
}

static ffn_status load_rows(const settings *s, work *w, ffn_diag *diag) {
    if (!s->input) {
        w->n = s->n ? s->n : 1;
        cmd_note(s->command, "no --input: %lld generated row%s, the same each time", (long long)w->n,
                 w->n == 1 ? "" : "s");
        w->x = malloc((size_t)(w->n * w->spec.d_model) * sizeof(float));
        if (!w->x)
            return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for %lld rows", (long long)w->n);
        bench_fill(w->x, w->n * w->spec.d_model, 1, X_SEED);
        return FFN_OK;
    }
    int64_t width;
    ffn_status status = npy_read(s->input, &w->x, &w->n, &width, diag);
    if (status)
        return status;
    if (width != w->spec.d_model)
        return diag_fail(diag, FFN_BAD_FILE, "--input '%.200s': its rows have %lld values, d_model is %lld", s->input,
                         (long long)width, (long long)w->spec.d_model);
    if (s->n > w->n)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "--n %lld: '%.200s' has %lld rows", (long long)s->n, s->input,
                         (long long)w->n);
    w->n = s->n ? s->n : w->n;
    return FFN_OK;
}

static ffn_status compute(work *w, ffn_diag *diag) {
    size_t scratch_bytes = ffn_kernel_scratch_bytes(w->kernel.kernel);
    w->scratch = bench_alloc(scratch_bytes);
    w->y = calloc((size_t)(w->n * w->spec.d_model) + 1, sizeof(float));
    if (!w->scratch || !w->y)
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for %lld rows of the result", (long long)w->n);
    const void *packed = w->packed ? w->packed : w->mapped ? w->mapped : w->layer.packed.base;
    const ffn_args args = {.n = w->n,
                           .x = w->x,
                           .ldx = w->spec.d_model,
                           .y = w->y,
                           .ldy = w->spec.d_model,
                           .packed = packed,
                           .scratch = w->scratch,
                           .scratch_bytes = scratch_bytes};
    double begin = bench_now_ms(BENCH_CLOCK_WALL);
    ffn_status status = ffn_kernel_run(w->kernel.kernel, &args, diag);
    w->run_ms = bench_now_ms(BENCH_CLOCK_WALL) - begin;
    return status;
}

static int print_result(const settings *s, const work *w) {
    ffn_kernel_info info;
    ffn_kernel_inspect(w->kernel.kernel, w->n, &info);
    uint64_t bits = ffn_digest(w->y, w->n, w->spec.d_model, w->spec.d_model);
    char spec[FFN_SPEC_TEXT_BYTES] = "", plan[PLAN_TEXT_BYTES];
    ffn_spec_format(&w->spec, spec, sizeof spec, NULL);
    cmd_plan_text(&info.plan, plan, sizeof plan);
    if (s->json) {
        json_line line = json_begin();
        json_text(&line, "spec", spec);
        json_text(&line, "isa", ffn_isa_name(info.isa));
        json_integer(&line, "n", w->n);
        json_integer(&line, "threads", 1);
        json_text(&line, "plan", plan);
        json_text(&line, "plan_from", cmd_plan_origin_name(info.plan_from));
        json_text(&line, "source", cmd_origin_name(info.source));
        json_flag(&line, "verified", info.verified);
        json_number(&line, "compile_ms", info.compile_ms);
        json_number(&line, "verify_ms", info.verify_ms);
        json_number(&line, "load_ms", info.load_ms);
        json_number(&line, "run_ms", w->run_ms);
        json_bits(&line, "bits", bits);
        cmd_counters_json(&w->kernel, &line);
        return json_end(&line) ? CMD_OK : CMD_FAILED;
    }
    static const report_column columns[] = {{"spec", 0, false},   {"isa", 0, false},       {"n", 0, true},
                                            {"source", 0, false}, {"compile ms", 0, true}, {"verify ms", 0, true},
                                            {"run ms", 0, true},  {"bits", 0, false}};
    report_table table = report_begin(columns, sizeof columns / sizeof columns[0], true);
    report_cell(&table, "%s", spec);
    report_cell(&table, "%s", ffn_isa_name(info.isa));
    report_cell(&table, "%lld", (long long)w->n);
    report_cell(&table, "%s", cmd_origin_name(info.source));
    report_cell(&table, "%.1f", info.compile_ms);
    report_cell(&table, "%.1f", info.verify_ms);
    report_cell(&table, "%.3f", w->run_ms);
    report_cell(&table, "%016llx", (unsigned long long)bits);
    bool out = report_end(&table);
    char kernel[FFN_DESCRIBE_BYTES] = "", counters[CMD_COUNTERS_BYTES];
    ffn_kernel_describe(w->kernel.kernel, w->n, kernel, sizeof kernel, NULL);
    cmd_counters_text(&w->kernel, counters, sizeof counters);
    return out && printf("kernel: %s; counters: %s\n", kernel, counters) >= 0 ? CMD_OK : CMD_FAILED;
}

static int work_through(const settings *s, work *w) {
    ffn_diag diag = {0};
    const ffn_product *product = ffn_blas_product(true);
    const ffn_options options = {.isa = s->isa,
                                 .verify = (ffn_verify_mode)s->verify,
                                 .product = product,
                                 .store = cmd_store(s->store),
                                 .tools = s->tools};
    if (load_rows(s, w, &diag) || load_weights(s, w, &diag) || cmd_kernel_open(&w->spec, &options, &w->kernel, &diag))
        return cmd_diag(s->command, &diag);
    int status = cmd_kernel_prepare(s->command, &w->kernel, w->n);
    if (status)
        return status;
    if (compute(w, &diag))
        return cmd_diag(s->command, &diag);
    if (s->output && npy_write(s->output, w->y, w->n, w->spec.d_model, w->spec.d_model, &diag))
        return cmd_diag(s->command, &diag);
    return print_result(s, w);
}

static int run(const cmd *command, int argc, char **argv) {
    settings s = {.command = command, .layout = -1, .store = "default"};
    const char *tools = NULL;
    const option_row table[] = {
        {"weights", 'w', OPTION_TEXT, &s.weights, "FILE", "a safetensors file (default: generated weights)", NULL},
        {"packed", 0, OPTION_TEXT, &s.packed, "FILE", "weights that 'ffngen pack' wrote", NULL},
        CMD_WEIGHTS_ROWS(s.names, s.layout),
        {"input", 'i', OPTION_TEXT, &s.input, "FILE", "rows as .npy (default: generated rows)", NULL},
        {"output", 'o', OPTION_TEXT, &s.output, "FILE", "the result as .npy, whole or not at all", NULL},
        {"n", 'n', OPTION_COUNT, &s.n, "N", "the first N rows (default: all; 1 if generated)", NULL},
        {"isa", 0, OPTION_ISA, &s.isa, "ISA", "default: the best here", NULL},
        {"verify", 0, OPTION_CHOICE, &s.verify, "first|always|never", "default first", verify_modes},
        {"store", 0, OPTION_TEXT, &s.store, CMD_STORE_ARGUMENT, "where kernels are kept (default: default)", NULL},
        {"tools", 0, OPTION_TEXT, &tools, "perf,gdb", "tell them the names of generated code", NULL},
        {"json", 0, OPTION_FLAG, &s.json, NULL, "one JSON object", NULL},
        {0}};
    int operands, status;
    if (!options_parse(command, table, argc, argv, &operands, &status))
        return status;
    if (!s.weights && (s.names.map || s.layout >= 0 || s.names.layer || s.names.expert))
        return cmd_error(command, CMD_USAGE, "--map, --layout, --layer and --expert need --weights FILE");
    if (s.weights && s.packed)
        return cmd_error(command, CMD_USAGE, "--weights and --packed: one of them is wanted");
    if (!cmd_isa_runs(command, s.isa) || !cmd_tools(command, tools, &s.tools))
        return CMD_USAGE;
    s.names.layout = cmd_layout_name(s.layout);
    work w = {0};
    status = cmd_one_spec(command, argv + operands, argc - operands, &w.spec);
    if (status)
        return status;
    status = work_through(&s, &w);
    cmd_kernel_close(&w.kernel);
    bench_layer_destroy(&w.layer);
    bench_free(w.packed);
    ffn_packed_unmap(w.mapped, w.mapped_bytes);
    bench_free(w.scratch);
    free(w.x);
    free(w.y);
    return status;
}

const cmd cmd_run = {
    "run", "SPEC [options]", "Runs one FFN on weights and rows from files, or on generated ones.", NULL, run, false};
