/* cmd_bench_input.c: see cmd_bench_input.h */
#include "cmd_bench_input.h"

#include "diag.h"
#include "npy.h"

#include <stdlib.h>
#include <string.h>

static bool ends_in(const char *text, const char *end) {
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && !strcmp(text + length - end_length, end);
}

static ffn_status read_rows(bench_input *input, const ffn_spec *spec, const float **x, int64_t *rows, ffn_diag *diag) {
    int64_t width = 0;
    ffn_status status;
    if (ends_in(input->input, ".npy")) {
        status = npy_read(input->input, &input->rows, rows, &width, diag);
        *x = input->rows;
    } else if (!input->file) {
        return diag_fail(diag, FFN_BAD_ARGUMENT,
                         "--input '%.200s': neither a .npy file nor, without --weights, a tensor", input->input);
    } else
        status = weights_rows(input->file, input->input, x, rows, &width, diag);
    if (!status && width != spec->d_model)
        status = diag_fail(diag, FFN_BAD_FILE, "--input '%.200s': its rows have %lld values, d_model is %lld",
                           input->input, (long long)width, (long long)spec->d_model);
    return status;
}

int bench_input_open(const cmd *command, bench_input *input, const ffn_spec *spec, bench_sweep *sweep) {
    ffn_diag diag = {0};
    input->names.layout = cmd_layout_name(input->layout);
    if (input->weights) {
        if (weights_open(spec, input->weights, &input->names, &input->file, &diag))
            return cmd_diag(command, &diag);
        sweep->weights = weights_of(input->file);
        cmd_note(command, "weights: %s", weights_summary(input->file));
    }
    if (!input->input)
        return CMD_OK;
    const float *x = NULL;
    int64_t rows = 0, most = 0;
    if (read_rows(input, spec, &x, &rows, &diag))
        return cmd_diag(command, &diag);
    for (int i = 0; i < sweep->n_count; i++)
        most = sweep->n[i] > most ? sweep->n[i] : most;
    if (input->row > rows || most > rows - input->row)
        return cmd_error(command, CMD_USAGE, "--input '%.200s' has %lld rows: not %lld from row %lld on", input->input,
                         (long long)rows, (long long)most, (long long)input->row);
    sweep->x = x + input->row * spec->d_model;
    return CMD_OK;
}

void bench_input_close(bench_input *input) {
    weights_close(input->file);
    free(input->rows);
}
