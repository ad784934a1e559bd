/* layer.c: seeded or given weights -> packed and plain blocks */
#include "layer.h"

#include "diag.h"

#include <math.h>
#include <string.h>

#define COLD_TIMES_L3 3 /* other data than the weights takes part of the cache too */
#define SEED UINT64_C(20240229)

static int64_t inputs(const ffn_spec *spec, bench_product product) {
    return product == BENCH_DOWN ? spec->d_ff : spec->d_model;
}

static int64_t outputs(const ffn_spec *spec, bench_product product) {
    return product == BENCH_DOWN ? spec->d_model : spec->d_ff;
}

static bool has_bias(const ffn_spec *spec, bench_product product) {
    static const uint32_t flags[BENCH_PRODUCTS] = {FFN_BIAS_UP, FFN_BIAS_GATE, FFN_BIAS_DOWN};
    return spec->bias & flags[product];
}

/* Output `out` of a product in the matrix it is given in, which may hold gate and up together. */
static int64_t fused_output(const ffn_spec *spec, ffn_gate_order order, bench_product product, int64_t out) {
    if (product == BENCH_DOWN || order == FFN_GATE_SEPARATE)
        return out;
    bool gate = product == BENCH_GATE;
    if (order == FFN_GATE_INTERLEAVED)
        return 2 * out + !gate;
    return gate == (order == FFN_GATE_FIRST) ? out : out + spec->d_ff;
}

static void copy_given(const bench_layer *layer, const ffn_weights *weights, bench_product product, float *block) {
    const ffn_spec *spec = &layer->spec;
    bool fused = layer->gated && weights->gate_order != FFN_GATE_SEPARATE;
    ffn_gate_order order = fused ? weights->gate_order : FFN_GATE_SEPARATE;
    const ffn_matrix *from = product == BENCH_DOWN             ? &weights->down
                             : product == BENCH_GATE && !fused ? &weights->gate
                                                               : &weights->up;
    const float *bias = product == BENCH_DOWN             ? weights->bias_down
                        : product == BENCH_GATE && !fused ? weights->bias_gate
                                                          : weights->bias_up;
    int64_t in_count = inputs(spec, product), out_count = outputs(spec, product);
    int64_t stored = fused && product != BENCH_DOWN ? 2 * out_count : out_count;
    int64_t ld = from->ld ? from->ld : from->layout == FFN_IN_OUT ? stored : in_count;
    float *to = block + layer->matrix[product][FFN_IN_OUT];
    for (int64_t in = 0; in < in_count; in++) {
        for (int64_t out = 0; out < out_count; out++) {
            int64_t column = fused_output(spec, order, product, out);
            to[in * out_count + out] = from->data[from->layout == FFN_IN_OUT ? in * ld + column : column * ld + in];
        }
    }
    for (int64_t out = 0; out < out_count && has_bias(spec, product); out++)
        block[layer->bias[product] + out] = bias[fused_output(spec, order, product, out)];
}

static void generate(const bench_layer *layer, bench_product product, float *block) {
    int64_t in_count = inputs(&layer->spec, product), out_count = outputs(&layer->spec, product);
    bench_fill(block + layer->matrix[product][FFN_IN_OUT], in_count * out_count, sqrtf(3.0f / (float)in_count),
               SEED + (uint64_t)product);
    if (has_bias(&layer->spec, product))
        bench_fill(block + layer->bias[product], out_count, 0.5f, SEED + BENCH_PRODUCTS + (uint64_t)product);
}

/* In blocks of one line by one line, so that each line is fetched once. */
static void transpose(int64_t rows, int64_t columns, const float *from, float *to) {
    for (int64_t r0 = 0; r0 < rows; r0 += 16) {
        for (int64_t c0 = 0; c0 < columns; c0 += 16) {
            int64_t r1 = r0 + 16 < rows ? r0 + 16 : rows, c1 = c0 + 16 < columns ? c0 + 16 : columns;
            for (int64_t r = r0; r < r1; r++) {
                for (int64_t c = c0; c < c1; c++)
                    to[c * rows + r] = from[r * columns + c];
            }
        }
    }
}

/* Offsets of the parts of a plain block, in elements and each on a line of its own; returns the length. */
static int64_t place(bench_layer *layer) {
    int64_t at = 0;
    for (bench_product product = BENCH_UP; product < BENCH_PRODUCTS; product++) {
        if (product == BENCH_GATE && !layer->gated)
            continue;
        int64_t in_count = inputs(&layer->spec, product), out_count = outputs(&layer->spec, product);
        int64_t elements = (in_count * out_count + 15) / 16 * 16;
        for (int layout = FFN_IN_OUT; layout <= FFN_OUT_IN; layout++, at += elements)
            layer->matrix[product][layout] = at;
        layer->bias[product] = at;
        at += (out_count + 15) / 16 * 16;
        layer->weight_bytes += (in_count * out_count + has_bias(&layer->spec, product) * out_count) * 4;
    }
    return at;
}

ffn_status bench_layer_create(const ffn_spec *spec, const ffn_weights *weights, bool cold, const ffn_machine *machine,
                              bench_layer *layer, ffn_diag *diag) {
    *layer = (bench_layer){.spec = *spec, .gated = ffn_spec_gated(spec)};
    ffn_status status = ffn_packed_bytes(spec, &layer->packed_bytes, diag);
    if (status)
        return status;
    size_t plain_bytes = (size_t)place(layer) * sizeof(float);
    int64_t cache = machine->l3_bytes > machine->l2_bytes ? machine->l3_bytes : machine->l2_bytes;
    int64_t copies = cold ? COLD_TIMES_L3 * cache / layer->weight_bytes + 1 : 1;
    if (bench_copies_alloc(&layer->packed, layer->packed_bytes, copies) ||
        bench_copies_alloc(&layer->plain, plain_bytes, copies)) {
        bench_layer_destroy(layer);
        return diag_fail(diag, FFN_OUT_OF_MEMORY,
                         "no memory for %lld times %zu bytes of packed and %zu of plain weights", (long long)copies,
                         layer->packed_bytes, plain_bytes);
    }
    float *block = (float *)(void *)layer->plain.base;
    for (bench_product product = BENCH_UP; product < BENCH_PRODUCTS; product++) {
        if (product == BENCH_GATE && !layer->gated)
            continue;
        if (weights)
            copy_given(layer, weights, product, block);
        else
            generate(layer, product, block);
        transpose(inputs(spec, product), outputs(spec, product), block + layer->matrix[product][FFN_IN_OUT],
                  block + layer->matrix[product][FFN_OUT_IN]);
    }
    ffn_weights plain = bench_layer_weights(layer);
    status = ffn_pack(spec, &plain, layer->packed.base, layer->packed_bytes, diag);
    if (status) {
        bench_layer_destroy(layer);
        return status;
    }
    bench_copies_spread(&layer->packed);
    bench_copies_spread(&layer->plain);
    return FFN_OK;
}

void bench_layer_destroy(bench_layer *layer) {
    bench_copies_free(&layer->packed);
    bench_copies_free(&layer->plain);
}

ffn_weights bench_layer_weights(const bench_layer *layer) {
    const float *block = (const float *)(const void *)layer->plain.base;
    const float *bias[BENCH_PRODUCTS];
    ffn_matrix matrix[BENCH_PRODUCTS];
    for (bench_product product = BENCH_UP; product < BENCH_PRODUCTS; product++) {
        matrix[product] = (ffn_matrix){block + layer->matrix[product][FFN_IN_OUT], 0, FFN_IN_OUT};
        bias[product] = has_bias(&layer->spec, product) ? block + layer->bias[product] : NULL;
    }
    if (!layer->gated)
        matrix[BENCH_GATE] = (ffn_matrix){0};
    return (ffn_weights){matrix[BENCH_UP], matrix[BENCH_GATE], matrix[BENCH_DOWN], FFN_GATE_SEPARATE,
                         bias[BENCH_UP],   bias[BENCH_GATE],   bias[BENCH_DOWN]};
}
