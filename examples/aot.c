/* aot.c: a trained layer as one header, in a program that links nothing else
 *
 * Rows of LAYER_D_MODEL floats come in on standard input, what the layer makes of them goes out on standard output.
 * The header holds kernels for every ISA it was made for and the weights; the one that fits this CPU runs:
 *
 *     ffngen emit SPEC --format header --isa avx2,avx512,portable --weights model.safetensors -o layer.h
 *     cc -O2 -I. examples/aot.c -o aot
 *     ./aot <x.f32 >y.f32
 *
 * (Where the weights are large, --weights-out layer.ffnw as well; the compiler then reads that file.) */
#define LAYER_IMPLEMENTATION /* in one file of a program; the others include the header alone */
#include "layer.h"

#include <stdio.h>

enum { ROWS = 64 };

static float x[ROWS * LAYER_D_MODEL], y[ROWS * LAYER_D_MODEL];
static unsigned char scratch[LAYER_SCRATCH_BYTES] __attribute__((aligned(LAYER_ALIGN)));

int main(void) {
    const size_t row_bytes = LAYER_D_MODEL * sizeof(float);
    size_t rows, done = 0;
    if (!layer_supported()) {
        fprintf(stderr, "aot: this CPU lacks what the header needs\n");
        return 1;
    }
    while ((rows = fread(x, row_bytes, ROWS, stdin)) > 0) {
        const int status = layer_forward((int64_t)rows, x, y, scratch);
        if (status != LAYER_OK) {
            fprintf(stderr, "aot: %s\n", layer_status_text(status));
            return 1;
        }
        if (fwrite(y, row_bytes, rows, stdout) != rows) {
            perror("aot: standard output");
            return 1;
        }
        done += rows;
    }
    fprintf(stderr, "%zu rows by %s\n", done, layer_describe(ROWS));
    return fflush(stdout) == 0 && !ferror(stdin) ? 0 : 1;
}
