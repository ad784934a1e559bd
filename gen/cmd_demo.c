/* cmd_demo.c: ffngen demo: the main job end to end on a trained layer: compile, verify, run, compare, measure
 *
 * The file holds the weights of a sublayer, token vectors x that entered it and the y that another program
 * computed. Where it is not to be had, a preset with generated weights takes its place, and nothing stored is
 * compared with. */
#include "cmd_bench_spec.h"
#include "diag.h"
#include "ffn_blas.h"
#include "file.h"
#include "options.h"
#include "weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DATA_VARIABLE "FFN_DATA_DIR"
#define DATA_FILE "use_lite_layer0.safetensors"
#define DATA_SPEC "d512-f1536-relu-bias"
#define PRESET "bert-base"
#define STORED_DIFFERENCE_MAX 2e-5 /* of the largest |y|: two f32 programs that add in different orders */
#define SECONDS 0.5

typedef struct stored {
    weights_file *file; /* NULL: generated weights */
    const float *x, *y; /* [rows][d_model] */
    int64_t rows;
} stored;

static ffn_status open_stored(const ffn_spec *spec, const char *path, stored *data, ffn_diag *diag) {
    int64_t y_rows = 0, x_width = 0, y_width = 0;
    ffn_status status = weights_open(spec, path, NULL, &data->file, diag);
    if (!status && !weights_tensor(data->file, "x") && !weights_tensor(data->file, "y"))
        return FFN_OK; /* weights alone, as examples/fetch_weights.sh makes them: rows are generated */
    if (!status)
        status = weights_rows(data->file, "x", &data->x, &data->rows, &x_width, diag);
    if (!status)
        status = weights_rows(data->file, "y", &data->y, &y_rows, &y_width, diag);
    if (!status && (data->rows != y_rows || x_width != spec->d_model || y_width != spec->d_model || y_rows < 1))
        status = diag_fail(diag, FFN_BAD_FILE, "'%.200s': x and y are not the same number of rows of %lld values", path,
                           (long long)spec->d_model);
    return status;
}

static double stored_difference(const float *y, const float *expected, int64_t count) {
    double largest = 0, furthest = 0;
    for (int64_t i = 0; i < count; i++) {
        double off = fabs((double)y[i] - (double)expected[i]);
        largest = fmax(largest, fabs((double)expected[i]));
        furthest = off <= furthest ? furthest : off; /* a NaN stays */
    }
    return largest > 0 ? furthest / largest : furthest;
}

static report_table demo_table(void) {
    static const report_column columns[] = {{"n", 4, true},     {"compile ms", 0, true}, {"verify ms", 0, true},
                                            {"error", 8, true}, {"bound", 8, true},      {"vs stored y", 0, true},
                                            {"ms", 8, true},    {"GFLOP/s", 0, true},    {"%peak", 0, true},
                                            {"%roof", 0, true}, {"vs openblas", 0, true}};
    return report_begin(columns, sizeof columns / sizeof columns[0], false);
}

typedef struct printing {
    const stored *data;
    report_table table;
    int status; /* of the checks */
} printing;

/* One line: measured on the first n rows of x, then checked against OpenBLAS in double and against the stored y. */
static int demo_row(void *self, const bench_row *row) {
    printing *p = self;
    ffn_diag diag = {0};
    ffn_verify_report verified = {0};
    if (ffn_kernel_verify(row->kernel.kernel, row->n, ffn_blas_product(true), &verified, &diag))
        p->status = cmd_diag(row->command, &diag);
    const bench_report *r = &row->report;
    report_cell(&p->table, "%lld", (long long)row->n);
    report_cell(&p->table, "%.1f", row->info.compile_ms);
    report_cell(&p->table, "%.1f", row->info.verify_ms);
    report_cell(&p->table, "%.2g", verified.max_error);
    report_cell(&p->table, "%.2g", verified.error_bound);
    double off = 0;
    if (p->data->y) {
        off = stored_difference(r->y, p->data->y, row->n * row->layer->spec.d_model);
        report_cell(&p->table, "%.2g", off);
    } else
        report_cell(&p->table, "-");
    report_cell(&p->table, "%.4f", r->ms_min);
    report_cell(&p->table, "%.1f", r->gflops);
    report_cell(&p->table, "%.1f", r->fraction_of_peak * 100);
    report_cell(&p->table, "%.1f", r->fraction_of_roof * 100);
    if (r->peers[0].timed)
        report_cell(&p->table, "%.2fx", r->peers[0].ms_median / r->ms_median);
    else
        report_cell(&p->table, "-");
    if (!(off <= STORED_DIFFERENCE_MAX))
        p->status =
            cmd_error(row->command, CMD_FAILED, "n = %lld: y is %.3g of the largest |y| away from the stored one",
                      (long long)row->n, off);
    return CMD_OK;
}

static void print_legend(const stored *data) {
    printf(
        "\nerror: largest |y - OpenBLAS in double|; bound: what rounding allows there at most; vs stored y: largest\n"
        "difference over the largest |y|; ms, GFLOP/s, %%peak, %%roof: of the fastest sample; vs openblas: its median\n"
        "time over ours, above 1 is faster\n");
    printf("every kernel passed verification");
    if (data->y)
        printf(" and agrees with the stored outputs within %g of the largest |y|", STORED_DIFFERENCE_MAX);
    printf("\n");
}

static int demo(const cmd *command, const ffn_spec *spec, const stored *data) {
    bench_peers peers;
    int status = bench_peers_of(command, "openblas", &peers);
    bench_team *team = status ? NULL : bench_team_create(1);
    if (!team)
        return status ? status : cmd_error(command, CMD_FAILED, "no memory");
    int64_t rows[4] = {1, 4, 16, data->x ? data->rows : 128};
    int count = 0;
    for (int i = 0; i < 4; i++) { /* as many as there are, ascending */
        if (!data->x || (rows[i] <= data->rows && (count == 0 || rows[i] > rows[count - 1])))
            rows[count++] = rows[i];
    }
    const char *peer = *peers.list[0].missing ? "OpenBLAS, which is missing," : peers.list[0].version;
    printf("one thread, %s; peer: %s plus a vectorised activation loop\n", ffn_isa_name(ffn_isa_best()), peer);
    printing p = {.data = data, .table = demo_table()};
    const bench_sweep sweep = {.row = {.command = command, .team = team, .seconds = SECONDS},
                               .peers = &peers,
                               .weights = data->file ? weights_of(data->file) : NULL,
                               .x = data->x,
                               .n = rows,
                               .n_count = count,
                               .take = demo_row,
                               .self = &p};
    status = bench_sweep_run(&sweep, spec);
    if (!report_end(&p.table))
        status = CMD_FAILED;
    status = p.status ? p.status : status;
    if (!status)
        print_legend(data);
    bench_peers_close(&peers);
    bench_team_destroy(team);
    return status;
}

static int run(const cmd *command, int argc, char **argv) {
    const char *path = NULL, *folder = getenv(DATA_VARIABLE);
    const option_row table[] = {{"weights", 'w', OPTION_TEXT, &path, "FILE",
                                 "w1, b1, w2, b2, x and y (default: " DATA_FILE " in " DATA_VARIABLE ")", NULL},
                                {0}};
    int operands, status;
    if (!options_parse(command, table, argc, argv, &operands, &status))
        return status;
    if (operands < argc)
        return cmd_error(command, CMD_USAGE, "no operand is wanted, but '%.100s' is given", argv[operands]);
    char found[4096];
    if (!path && folder && *folder) {
        int length = snprintf(found, sizeof found, "%s/" DATA_FILE, folder);
        if (length > 0 && (size_t)length < sizeof found && access(found, F_OK) == 0)
            path = found;
    }
    ffn_spec spec;
    stored data = {0};
    ffn_diag diag = {0};
    ffn_status opened = ffn_spec_parse(path ? DATA_SPEC : PRESET, &spec, &diag);
    if (!opened && path)
        opened = open_stored(&spec, path, &data, &diag);
    if (opened)
        status = cmd_diag(command, &diag);
    else {
        if (path && !data.x)
            cmd_print("%s on the weights in %s, with generated rows", DATA_SPEC, file_label(path));
        else if (path)
            cmd_print("%s on the layer in %s: %lld token vectors", DATA_SPEC, file_label(path), (long long)data.rows);
        else
            printf("%s with generated weights and rows: no --weights, and no " DATA_FILE " in " DATA_VARIABLE "\n",
                   PRESET);
        status = demo(command, &spec, &data);
    }
    weights_close(data.file);
    return status;
}

const cmd cmd_demo = {
    "demo", "[--weights FILE]", "Compiles, verifies, runs and measures a trained layer, as a table.", NULL, run, true};
