/* tune_weights.c: seeded matrices -> packed copies; the matrices are gone again */
#include "tune_weights.h"

#include "diag.h"

#include <math.h>

#define COLD_TIMES_CACHE 3 /* other data than the weights takes part of the cache too */
#define SEED UINT64_C(20261130)
#define BIAS_SCALE 0.5f

enum { UP, GATE, DOWN, UP_BIAS, GATE_BIAS, DOWN_BIAS, PARTS };

static int64_t length_of(const ffn_spec *spec, int part) {
    static const uint32_t flags[] = {[UP_BIAS] = FFN_BIAS_UP, [GATE_BIAS] = FFN_BIAS_GATE, [DOWN_BIAS] = FFN_BIAS_DOWN};
    if (part == GATE && !ffn_spec_gated(spec))
        return 0;
    if (part < UP_BIAS)
        return spec->d_model * spec->d_ff;
    return !(spec->bias & flags[part]) ? 0 : part == DOWN_BIAS ? spec->d_model : spec->d_ff;
}

static float scale_of(const ffn_spec *spec, int part) {
    if (part >= UP_BIAS)
        return BIAS_SCALE;
    return sqrtf(3.0f / (float)(part == DOWN ? spec->d_ff : spec->d_model)); /* a variance of one over the terms */
}

ffn_status tune_weights_make(const ffn_spec *spec, bool cold, const ffn_machine *machine, bench_copies *packed,
                             ffn_diag *diag) {
    size_t bytes;
    ffn_status status = ffn_packed_bytes(spec, &bytes, diag);
    if (status)
        return status;
    int64_t cache = machine->l3_bytes > machine->l2_bytes ? machine->l3_bytes : machine->l2_bytes;
    int64_t copies = cold ? COLD_TIMES_CACHE * cache / (int64_t)bytes + 1 : 1;
    float *parts[PARTS] = {0};
    bool there = bench_copies_alloc(packed, bytes, copies) == 0;
    for (int part = 0; part < PARTS && there; part++) {
        int64_t length = length_of(spec, part);
        parts[part] = length ? bench_alloc((size_t)length * sizeof(float)) : NULL;
        there = !length || parts[part];
        if (parts[part])
            bench_fill(parts[part], length, scale_of(spec, part), SEED + (uint64_t)part);
    }
    const ffn_weights weights = {.up = {parts[UP], 0, FFN_IN_OUT},
                                 .gate = {parts[GATE], 0, FFN_IN_OUT},
                                 .down = {parts[DOWN], 0, FFN_IN_OUT},
                                 .bias_up = parts[UP_BIAS],
                                 .bias_gate = parts[GATE_BIAS],
                                 .bias_down = parts[DOWN_BIAS]};
    status = there ? ffn_pack(spec, &weights, packed->base, bytes, diag)
                   : diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for %lld times %zu bytes of weights",
                               (long long)copies, bytes);
    if (!status)
        bench_copies_spread(packed);
    else
        bench_copies_free(packed);
    for (int part = 0; part < PARTS; part++)
        bench_free(parts[part]);
    return status;
}
