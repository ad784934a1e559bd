/* program.c: y of generated kernels against the sums written out in double; C and C++ */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layers.h"
#include "local_layer.h"

#ifdef __cplusplus
extern "C"
#endif
    const char *
    other_isa(void);

enum { D = 20, F = 70, N = 5 };

static float w_up[D * F], w_down[F * D], x[N * D], y[N * D], y_local[N * D];

static void fill(float *values, int count, unsigned seed) {
    int i;
    for (i = 0; i < count; i++) {
        seed = seed * 1664525U + 1013904223U;
        values[i] = (float)((int)(seed >> 16 & 1023U) - 512) / 512.0F;
    }
}

static double worst_error(const float *found) {
    double worst = 0;
    int i, f, k;
    for (i = 0; i < N; i++) {
        double out[D] = {0};
        for (f = 0; f < F; f++) {
            double h = 0;
            for (k = 0; k < D; k++)
                h += (double)x[i * D + k] * (double)w_up[k * F + f];
            for (k = 0; k < D && h > 0; k++)
                out[k] += h * (double)w_down[f * D + k];
        }
        for (k = 0; k < D; k++) {
            double error = out[k] - (double)found[i * D + k];
            error = error < 0 ? -error : error;
            worst = error > worst ? error : worst;
        }
    }
    return worst;
}

static void *aligned(size_t bytes) {
    void *memory = NULL;
    if (posix_memalign(&memory, 64, bytes))
        exit(1);
    return memory;
}

#define CHECK(call)                                                \
    do {                                                           \
        int status = (call);                                       \
        if (status) {                                              \
            printf("%s: %s\n", #call, layers_status_text(status)); \
            return 1;                                              \
        }                                                          \
    } while (0)

int main(void) {
    void *packed = aligned(LAYERS_SECOND_PACKED_BYTES), *scratch = aligned(LAYERS_SECOND_SCRATCH_BYTES);
    void *local_packed = aligned(LOCAL_PACKED_BYTES), *local_scratch = aligned(LOCAL_SCRATCH_BYTES);
    layers_weights weights;
    local_weights mine;
    layers_args args = {N, x, D, y, D, packed, scratch, LAYERS_SECOND_SCRATCH_BYTES};
    local_args local = {N, x, D, y_local, D, local_packed, local_scratch, LOCAL_SCRATCH_BYTES};
    double worst;

    fill(w_up, D * F, 1);
    fill(w_down, F * D, 2);
    fill(x, N * D, 3);
    memset(&weights, 0, sizeof weights);
    weights.up.data = w_up;
    weights.down.data = w_down;
    memset(&mine, 0, sizeof mine);
    mine.up.data = w_up;
    mine.down.data = w_down;
    CHECK(layers_second_pack(&weights, packed, LAYERS_SECOND_PACKED_BYTES));
    CHECK(layers_second_run(&args));
    CHECK(local_pack(&mine, local_packed, LOCAL_PACKED_BYTES));
    CHECK(local_run(&local));

    worst = worst_error(y);
    printf("%s, d%d-f%d-relu, %s: %s, worst error %.2g\n", LAYERS_FIRST_SPEC, LAYERS_SECOND_D_MODEL, LAYERS_SECOND_D_FF,
           LOCAL_SPEC, other_isa(), worst);
    if (!(worst < 1e-4) || memcmp(y, y_local, sizeof y) != 0 || strcmp(other_isa(), layers_isa()) != 0) {
        printf("wrong\n");
        return 1;
    }
    free(packed);
    free(scratch);
    free(local_packed);
    free(local_scratch);
    return 0;
}
