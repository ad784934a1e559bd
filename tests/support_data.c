/* support_data.c: see support_data.h */
#include "support_data.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static _Noreturn void give_up(const char *what, const char *detail) {
    fprintf(stderr, "test support: %s: %s\n", what, detail);
    abort();
}

uint64_t support_next(support_rng *rng) {
    uint64_t z = rng->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

int64_t support_between(support_rng *rng, int64_t low, int64_t high) {
    return low + (int64_t)(support_next(rng) % (uint64_t)(high - low + 1));
}

float support_normal(support_rng *rng) {
    const uint64_t bits = support_next(rng);
    const int32_t sum = (int32_t)((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48));
    return (float)(sum - 131070) * (1.7320508f / 65536.0f);
}

void support_fill_normal(float *values, int64_t count, float scale, uint64_t seed) {
    support_rng rng = {seed};
    for (int64_t i = 0; i < count; i++)
        values[i] = scale * support_normal(&rng);
}

void support_fill_nan(float *values, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        values[i] = NAN;
}

void support_fill_x(float *x, int64_t n, int64_t d_model, int64_t ldx, support_kind kind, uint64_t seed) {
    support_rng rng = {seed};
    for (int64_t r = 0; r < n; r++)
        for (int64_t k = 0; k < d_model; k++) {
            float *at = x + r * ldx + k;
            *at = kind == SUPPORT_CANCELLING && k % 2 == 1 ? -at[-1] : support_normal(&rng);
        }
}

void *support_aligned(size_t bytes) {
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (memory == NULL && bytes > 0)
        give_up("no memory", "aligned_alloc");
    return memory;
}

static float *random_floats(int64_t count, float scale, support_rng *rng) {
    float *values = support_aligned((size_t)count * sizeof(float));
    support_fill_normal(values, count, scale, support_next(rng));
    return values;
}

static void equal_columns(float *matrix, int64_t rows, int64_t columns) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 1; c < columns; c += 2)
            matrix[r * columns + c] = matrix[r * columns + c - 1];
}

/* Rows 2i + 1 become sign * row 2i * 1000, plus what they were; rows 2i become 1000 times themselves. A last row
 * without a partner stays. */
static void paired_rows(float *matrix, int64_t rows, int64_t columns, float sign) {
    for (int64_t r = 1; r < rows; r += 2)
        for (int64_t c = 0; c < columns; c++) {
            float *even = matrix + (r - 1) * columns + c;
            *even *= 1000.0f;
            matrix[r * columns + c] += sign * *even;
        }
}

support_weights *support_random_weights(const ffn_spec *spec, support_kind kind, uint64_t seed) {
    support_weights *made = calloc(1, sizeof *made);
    if (made == NULL)
        give_up("no memory", "weights");
    support_rng rng = {seed};
    const int64_t d_model = spec->d_model, d_ff = spec->d_ff;
    const float up_scale = 1.0f / sqrtf((float)d_model), down_scale = 1.0f / sqrtf((float)d_ff);
    made->up = random_floats(d_model * d_ff, up_scale, &rng);
    if (ffn_spec_gated(spec))
        made->gate = random_floats(d_model * d_ff, up_scale, &rng);
    made->down = random_floats(d_ff * d_model, down_scale, &rng);
    if (spec->bias & FFN_BIAS_UP)
        made->bias_up = random_floats(d_ff, 0.5f, &rng);
    if (spec->bias & FFN_BIAS_GATE)
        made->bias_gate = random_floats(d_ff, 0.5f, &rng);
    if (spec->bias & FFN_BIAS_DOWN)
        made->bias_down = random_floats(d_model, 0.5f, &rng);
    if (kind == SUPPORT_CANCELLING) {
        paired_rows(made->up, d_model, d_ff, 1.0f);
        equal_columns(made->up, d_model, d_ff);
        if (made->gate != NULL) {
            paired_rows(made->gate, d_model, d_ff, 1.0f);
            equal_columns(made->gate, d_model, d_ff);
        }
        if (made->bias_up != NULL)
            equal_columns(made->bias_up, 1, d_ff);
        if (made->bias_gate != NULL)
            equal_columns(made->bias_gate, 1, d_ff);
        paired_rows(made->down, d_ff, d_model, -1.0f);
    }
    made->weights = (ffn_weights){.up = {.data = made->up},
                                  .gate = {.data = made->gate},
                                  .down = {.data = made->down},
                                  .bias_up = made->bias_up,
                                  .bias_gate = made->bias_gate,
                                  .bias_down = made->bias_down};
    return made;
}

void support_weights_free(support_weights *weights) {
    if (weights == NULL)
        return;
    float *const arrays[] = {weights->up,      weights->gate,      weights->down,
                             weights->bias_up, weights->bias_gate, weights->bias_down};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        free(arrays[i]);
    free(weights);
}

ffn_spec support_spec(const char *text) {
    ffn_spec spec;
    ffn_diag diag;
    if (ffn_spec_parse(text, &spec, &diag) != FFN_OK)
        give_up(text, diag.text);
    return spec;
}

void *support_packed(const ffn_spec *spec, const ffn_weights *weights) {
    size_t bytes = 0;
    ffn_diag diag;
    if (ffn_packed_bytes(spec, &bytes, &diag) != FFN_OK)
        give_up("ffn_packed_bytes", diag.text);
    void *packed = support_aligned(bytes);
    if (ffn_pack(spec, weights, packed, bytes, &diag) != FFN_OK)
        give_up("ffn_pack", diag.text);
    return packed;
}

static size_t page_bytes(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

void *support_guarded(size_t bytes, bool at_end) {
    const size_t page = page_bytes(), inside = (bytes + page - 1) / page * page;
    char *base = mmap(NULL, inside + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        give_up("no memory", "guarded pages");
    if (inside > 0) {
        if (mprotect(base + page, inside, PROT_READ | PROT_WRITE) != 0)
            give_up("no memory", "guarded pages");
        memset(base + page, 0xff, inside);
    }
    return base + page + (at_end ? inside - bytes : 0);
}

void support_guarded_free(void *buffer, size_t bytes) {
    const size_t page = page_bytes();
    const uintptr_t first = (uintptr_t)buffer / page * page;
    const uintptr_t end = ((uintptr_t)buffer + bytes + page - 1) / page * page;
    munmap((void *)(first - page), end - first + 2 * page);
}
