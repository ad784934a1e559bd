/* fuzz_kernels_data.c: seeds -> values of every kind, weights in every form they may be given in, and memory for all of
 * it that ends (or begins) at an unmapped page */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz_kernels.h"

/* ---- Values ---- */

static float of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float draw_ordinary(support_rng *rng) {
    return support_normal(rng);
}

static float draw_zeros(support_rng *rng) {
    const uint64_t word = support_next(rng);
    return word % 2 ? of_bits((uint32_t)(word >> 32) & 0x80000000u) : support_normal(rng);
}

static float draw_integer(support_rng *rng) {
    return (float)support_between(rng, -3, 3);
}

static float draw_tiny(support_rng *rng) {
    return support_normal(rng) * (fuzz_once_in(rng, 2) ? 0x1p-60f : 0x1p-120f);
}

static float draw_subnormal(support_rng *rng) {
    return of_bits((uint32_t)support_next(rng) & 0x807fffffu);
}

static float draw_huge(support_rng *rng) {
    return support_normal(rng) * (fuzz_once_in(rng, 2) ? 0x1p60f : 0x1p120f);
}

static float draw_special(support_rng *rng) {
    static const uint32_t some[] = {0x7f800000, 0xff800000, 0x7fc00000, 0xffc00001, 0x7fa00000, /* a signalling NaN */
                                    0x7f7fffff, 0xff7fffff, 0x80000000, 0x00000001, 0x80000001, 0x00800000};
    return fuzz_once_in(rng, 100) ? of_bits(FUZZ_ONE_OF(rng, some)) : support_normal(rng);
}

static float draw_bits(support_rng *rng) {
    return of_bits((uint32_t)(support_next(rng) >> 16));
}

const fuzz_kind *fuzz_kind_of(support_rng *rng) {
    static const fuzz_kind kinds[] = {
        {"ordinary", true, draw_ordinary}, {"zeros", true, draw_zeros},         {"integers", true, draw_integer},
        {"tiny", true, draw_tiny},         {"subnormal", true, draw_subnormal}, {"huge", false, draw_huge},
        {"special", false, draw_special},  {"any bits", false, draw_bits},
    };
    return fuzz_once_in(rng, 2) ? &kinds[0] : &FUZZ_ONE_OF(rng, kinds);
}

/* ---- Memory ---- */

fuzz_arena fuzz_arena_make(size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), inside = (bytes + page - 1) / page * page;
    char *base = mmap(NULL, inside + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED || mprotect(base + page, inside, PROT_READ | PROT_WRITE) != 0) {
        fprintf(stderr, "fuzz_kernels: no memory for %zu bytes\n", bytes);
        exit(2);
    }
    return (fuzz_arena){base + page, inside};
}

void *fuzz_arena_place(const fuzz_arena *arena, size_t bytes, size_t align, fuzz_where where, support_rng *rng) {
    enum { INSIDE_MAX = 64 };
    const size_t room = (arena->bytes - bytes) / align;
    if (where == FUZZ_AT_BEGIN)
        return arena->begin;
    const size_t steps = where == FUZZ_AT_END ? 0 : (size_t)support_between(rng, 1, INSIDE_MAX);
    return arena->begin + (room - (steps < room ? steps : room)) * align;
}

void fuzz_arena_protect(const fuzz_arena *arena, bool read_only) {
    if (mprotect(arena->begin, arena->bytes, read_only ? PROT_READ : PROT_READ | PROT_WRITE) != 0) {
        fprintf(stderr, "fuzz_kernels: pages cannot be protected\n");
        exit(2);
    }
}

/* ---- Weights ---- */

typedef struct draw {
    support_rng *rng;
    fuzz_weights *weights;
    int arrays;
    support_rng taste;
    int dense_in; /* one output of W_up in so many is not all zeros; 0: all are as drawn */
} draw;

static float *draw_array(draw *d, int64_t count, const fuzz_kind *kind, float scale) {
    float *values = support_aligned((size_t)count * sizeof(float));
    for (int64_t i = 0; i < count; i++)
        values[i] = scale * kind->draw(d->rng);
    d->weights->memory[d->arrays++] = values;
    d->weights->tame = d->weights->tame && kind->tame;
    return values;
}

/* What lies between the width and the stride is drawn too: it must not count. */
static ffn_matrix draw_matrix(draw *d, int64_t inputs, int64_t outputs, const fuzz_kind *kind) {
    const bool in_out = fuzz_once_in(d->rng, 2);
    const int64_t width = in_out ? outputs : inputs, rows = in_out ? inputs : outputs;
    const int64_t ld = width + (fuzz_once_in(d->rng, 2) ? 0 : support_between(d->rng, 0, LD_EXTRA_MAX));
    float *values = draw_array(d, rows * ld, kind, 1 / sqrtf((float)inputs));
    for (int64_t out = 0; d->dense_in && out < outputs; out++)
        for (int64_t in = 0, zero = !fuzz_once_in(&d->taste, d->dense_in); zero && in < inputs; in++)
            values[in_out ? in * ld + out : out * ld + in] = 0;
    return (ffn_matrix){.data = values,
                        .ld = ld == width && fuzz_once_in(d->rng, 2) ? 0 : ld,
                        .layout = in_out ? FFN_IN_OUT : FFN_OUT_IN};
}

/* A bias of W_up: where its outputs are to be zero for most rows, +0, -0 or below. */
static float *draw_bias(draw *d, int64_t count, const fuzz_kind *kind) {
    float *values = draw_array(d, count, kind, 1);
    const int64_t how = d->dense_in ? support_between(&d->taste, 0, 2) : -1;
    for (int64_t i = 0; how >= 0 && i < count; i++)
        values[i] = how == 0 ? 0.0f : how == 1 ? -0.0f : -fabsf(values[i]);
    return values;
}

static bool zeros(const float *values, int64_t count) {
    uint32_t any = 0;
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, values + i, sizeof bits);
        any |= bits;
    }
    return any == 0;
}

/* Columns beyond the width of each matrix and bias, and biases the spec has none of: +0, as packed.h says. */
static bool is_padded(const fuzz_subject *s, const void *packed) {
    const packed_layout *l = &s->kernel->shape.layout;
    const ffn_spec *spec = &s->spec;
    const bool gated = ffn_spec_gated(spec);
    const struct {
        int64_t bias, columns, last_panel, terms;
        bool biased, there;
    } parts[] = {
        {l->bias_up, spec->d_ff, l->expand_up + (l->up_panels - 1) * l->expand_panel_stride, spec->d_model,
         spec->bias & FFN_BIAS_UP, true},
        {l->bias_gate, spec->d_ff, l->expand + (l->up_panels - 1) * l->expand_panel_stride, spec->d_model,
         spec->bias & FFN_BIAS_GATE, gated},
        {l->bias_down, spec->d_model, l->contract + (l->down_panels - 1) * l->contract_panel_bytes, spec->d_ff,
         spec->bias & FFN_BIAS_DOWN, true},
    };
    bool good = true;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const float *bias = (const float *)(const void *)((const char *)packed + parts[i].bias);
        const float *panel = (const float *)(const void *)((const char *)packed + parts[i].last_panel);
        const int64_t used = (parts[i].columns - 1) % FFN_PANEL + 1, padding = FFN_PANEL - used;
        if (!parts[i].there)
            continue;
        good = good && zeros(bias + parts[i].columns, padding) && (parts[i].biased || zeros(bias, parts[i].columns));
        for (int64_t k = 0; k < parts[i].terms; k++)
            good = good && zeros(panel + k * FFN_PANEL + used, padding);
    }
    return good;
}

static bool pack(const fuzz_subject *s, const fuzz_arena *arena, fuzz_where where, support_rng *rng,
                 const void **packed, fuzz_weights *w, ffn_diag *diag) {
    if (ffn_packed_bytes(&s->spec, &w->packed_bytes, diag) != FFN_OK)
        return false;
    fuzz_arena_protect(arena, false);
    void *place = fuzz_arena_place(arena, w->packed_bytes, FFN_PACKED_ALIGN, where, rng);
    memset(place, 0xff, w->packed_bytes);
    if (ffn_pack(&s->spec, &w->given, place, w->packed_bytes, diag) != FFN_OK ||
        ffn_packed_check(&s->spec, place, w->packed_bytes, diag) != FFN_OK)
        return false;
    if (!is_padded(s, place)) {
        snprintf(diag->text, sizeof diag->text, "the padding is not +0");
        return false;
    }
    fuzz_arena_protect(arena, true);
    *packed = place;
    return true;
}

bool fuzz_weights_make(uint64_t seed, const fuzz_subject *s, const fuzz_arena *arena, const void **packed,
                       fuzz_weights *w, char finding[FINDING_BYTES]) {
    support_rng rng = {~seed * 3};
    *w = (fuzz_weights){.tame = true};
    static const int dense_in[] = {1, 2, 3, 4, 5, 8, 20, 1000};
    draw d = {.rng = &rng, .weights = w, .taste = {seed * 13 + 5}};
    d.dense_in = s->sparse ? FUZZ_ONE_OF(&d.taste, dense_in) : 0;
    const int64_t d_model = s->spec.d_model, d_ff = s->spec.d_ff;
    const uint32_t bias = s->spec.bias;
    const bool gated = ffn_spec_gated(&s->spec);
    const fuzz_kind *kinds[] = {fuzz_kind_of(&rng), fuzz_kind_of(&rng), fuzz_kind_of(&rng)};
    const ffn_gate_order order = gated ? (ffn_gate_order)support_between(&rng, 0, 3) : FFN_GATE_SEPARATE;
    const int64_t up = order == FFN_GATE_SEPARATE ? d_ff : 2 * d_ff;
    /* The fused forms have one bias for both. */
    const bool both = (bias & FFN_BIAS_UP) && (bias & FFN_BIAS_GATE), one = bias & (FFN_BIAS_UP | FFN_BIAS_GATE);
    w->given.gate_order = order != FFN_GATE_SEPARATE && one && !both ? FFN_GATE_SEPARATE : order;
    const bool fused = w->given.gate_order != FFN_GATE_SEPARATE;
    w->given.up = draw_matrix(&d, d_model, fused ? up : d_ff, kinds[0]);
    if (gated && !fused)
        w->given.gate = draw_matrix(&d, d_model, d_ff, kinds[0]);
    const int up_dense_in = d.dense_in;
    d.dense_in = 0;
    w->given.down = draw_matrix(&d, d_ff, d_model, kinds[1]);
    d.dense_in = up_dense_in;
    if (bias & FFN_BIAS_UP)
        w->given.bias_up = draw_bias(&d, fused ? up : d_ff, kinds[2]);
    if ((bias & FFN_BIAS_GATE) && !fused)
        w->given.bias_gate = draw_bias(&d, d_ff, kinds[2]);
    if (bias & FFN_BIAS_DOWN)
        w->given.bias_down = draw_array(&d, d_model, kinds[2], 1);
    snprintf(w->text, sizeof w->text, "%s, %s, %s%s", kinds[0]->name, kinds[1]->name, kinds[2]->name,
             up_dense_in ? ", zeros" : "");
    ffn_diag diag = {.text = ""};
    const fuzz_where where = (fuzz_where)support_between(&rng, 0, FUZZ_PLACES - 1);
    if (!pack(s, arena, where, &rng, packed, w, &diag)) {
        snprintf(finding, FINDING_BYTES, "weights cannot be packed: %s", diag.text);
        return false;
    }
    return true;
}

void fuzz_weights_free(fuzz_weights *w) {
    for (size_t i = 0; i < sizeof w->memory / sizeof *w->memory; i++)
        free(w->memory[i]);
    memset(w, 0, sizeof *w);
}
