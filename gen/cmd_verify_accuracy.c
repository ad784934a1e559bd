/* cmd_verify_accuracy.c: see cmd_verify_accuracy.h */
#include "cmd_verify_accuracy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "diag.h"
#include "formula_ast.h"

enum { PER_EXPONENT = 64, BENDS = 50000, TAILS = 16000, COUNT_MAX = 2 * 255 * PER_EXPONENT + BENDS + TAILS + 16 };
#define OVERFLOW 0x1p128

static uint64_t next(uint64_t *state) { /* splitmix64 */
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static double between(uint64_t *state, double low, double high) {
    return low + (double)(next(state) >> 11) * 0x1p-53 * (high - low);
}

static void fill(accuracy_sample *s) {
    static const float special[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN};
    uint64_t state = 6;
    for (uint32_t i = 0; i < 2 * 255 * PER_EXPONENT; i++) {
        const uint32_t bits = (i % 510) << 23 | (i < 510 ? 0 : (uint32_t)next(&state) >> 9);
        const uint32_t with_sign = i % 510 < 255 ? bits : (bits - (UINT32_C(255) << 23)) | UINT32_C(0x80000000);
        memcpy(&s->g[s->count++], &with_sign, sizeof with_sign);
    }
    for (int i = 0; i < BENDS; i++)
        s->g[s->count++] = (float)between(&state, -20, 20);
    for (int i = 0; i < TAILS; i++)
        s->g[s->count++] = (float)between(&state, -120, 120);
    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        s->g[s->count++] = special[i];
    for (int64_t i = 0; i < s->count; i++)
        s->u[i] = (float)between(&state, -10, 10);
}

ffn_status accuracy_sample_make(const ffn_spec *spec, accuracy_sample *sample, ffn_diag *diag) {
    *sample = (accuracy_sample){.spec = spec, .gated = ffn_spec_gated(spec), .own = formula_is_own(spec->activation)};
    activation_text parsed;
    ffn_status status = activation_parse(spec->activation, &parsed, diag);
    if (status)
        return status;
    /* Without a fast form the accurate one serves, and keeps its own bound. */
    sample->fast = spec->accuracy == FFN_FAST && parsed.row && activation_fast(parsed.row);
    sample->scale =
        parsed.row && !strcmp(parsed.row->shown.name, "elu") ? fmax(1, fabs((double)parsed.parameters[0])) : 1;
    sample->g = malloc(COUNT_MAX * sizeof(float));
    sample->u = malloc(COUNT_MAX * sizeof(float));
    sample->out = malloc(COUNT_MAX * sizeof(float));
    sample->value = malloc(COUNT_MAX * sizeof(double));
    sample->bound = malloc(COUNT_MAX * sizeof(double));
    if (!sample->g || !sample->u || !sample->out || !sample->value || !sample->bound)
        status = diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for %d arguments", COUNT_MAX);
    else
        fill(sample);
    for (int64_t i = 0; i < sample->count && !status; i++)
        status = formula_reference(spec->activation, spec->accuracy, (double)sample->g[i], (double)sample->u[i],
                                   &sample->value[i], &sample->bound[i], diag);
    if (status)
        accuracy_sample_free(sample);
    return status;
}

void accuracy_sample_free(accuracy_sample *sample) {
    free(sample->g);
    free(sample->u);
    free(sample->out);
    free(sample->value);
    free(sample->bound);
    *sample = (accuracy_sample){0};
}

static double as_finite(double value) {
    return isinf(value) ? copysign(OVERFLOW, value) : value;
}

static double ulp_of(double value) {
    int exponent;
    frexp(value, &exponent);
    exponent = exponent - 1 < -126 ? -126 : exponent - 1 > 127 ? 127 : exponent - 1;
    return ldexp(1, exponent - 23);
}

static void count(accuracy_place *place, double error, float g, float u) {
    if (error > place->error)
        *place = (accuracy_place){error, g, u};
}

ffn_status accuracy_measure(const accuracy_sample *sample, const ffn_kernel *kernel, int64_t n,
                            accuracy_found *measured, ffn_diag *diag) {
    *measured = (accuracy_found){.measured = true, .fast = sample->fast};
    ffn_status status = ffn_kernel_activate(kernel, n, sample->count, sample->g, sample->u, sample->out, diag);
    if (status)
        return status;
    double farthest = 0; /* beyond its bound, in bounds: that one is named */
    for (int64_t i = 0; i < sample->count; i++) {
        const double value = as_finite(sample->value[i]), got = as_finite((double)sample->out[i]);
        const float g = sample->g[i], u = sample->u[i];
        const double up = sample->gated ? fabs((double)u) : 0, error = fabs(got - value);
        const bool differ = isnan(got) != isnan(value);
        measured->nan += differ;
        if (!differ && !isnan(value)) {
            if (sample->fast)
                count(&measured->worst,
                      error / (fmax(1, fabs((double)g)) * sample->scale * (sample->gated ? up + 1 : 1)), g, u);
            else if (fabs(value) >= 0x1p-126 * (up + 1))
                count(&measured->worst, error / ulp_of(value), g, u);
            else
                count(&measured->subnormal, error * 0x1p149, g, u);
        }
        const double beyond = isnan(sample->bound[i]) || isinf(sample->bound[i]) ? 0
                              : differ                                           ? INFINITY
                              : error > sample->bound[i] ? error / fmax(sample->bound[i], 0x1p-151)
                                                         : 0;
        if (sample->own || !(beyond > farthest))
            continue;
        farthest = beyond;
        status =
            diag_fail(diag, FFN_VERIFY_FAILED,
                      "the activation of %.9g%s is %.9g, the formula in double gives %.9g and allows %.3g", (double)g,
                      sample->gated ? " (and an up value)" : "", (double)sample->out[i], value, sample->bound[i]);
    }
    return status;
}
