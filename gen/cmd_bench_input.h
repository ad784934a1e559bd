/* cmd_bench_input.h: `ffngen bench SPEC --weights F --input X`: files -> the weights and rows that are measured on
 *
 * Generated values are the rule; they cannot tell what depends on the data, as zeros in h do. */
#ifndef CMD_BENCH_INPUT_H
#define CMD_BENCH_INPUT_H

#include "cmd_bench_spec.h"
#include "cmd_weights.h"

typedef struct bench_input {
    const char *weights; /* a safetensors file, or NULL */
    const char *input;   /* F.npy, or the name of a tensor of that file; NULL: generated rows */
    int64_t row;         /* of the input: the first that is taken */
    weights_options names;
    int layout; /* of cmd_layouts, -1: not given */

    weights_file *file; /* from here on: what is open */
    float *rows;
} bench_input;

/* Sets weights and x of the sweep, whose n it reads. Not CMD_OK: what is wrong was said. Close in any case. */
int bench_input_open(const cmd *command, bench_input *input, const ffn_spec *spec, bench_sweep *sweep);
void bench_input_close(bench_input *input);

#endif
