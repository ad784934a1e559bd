/* header_expect.c: libffn's own kernels for the layers of header_layers.h -> the digest that programs of emitted
 * headers must print, once for the ISA given and once for the portable kernel
 *
 *   header_expect         libffngen is loaded from beside it */
#include <stdbool.h>

#include "ffn.h"
#include "header_layers.h"

static ffn_kernel *serving;
static ffn_spec serving_spec;
static ffn_diag diag;

static ffn_args args_of(const call *c) {
    return (ffn_args){c->n, c->x, c->ldx, c->y, c->ldy, c->packed, c->scratch, ffn_kernel_scratch_bytes(serving)};
}

static int pack(const float *up, const float *gate, const float *down, const float *const biases[3], void *packed) {
    const ffn_weights weights = {.up = {.data = up},
                                 .gate = {.data = gate},
                                 .down = {.data = down},
                                 .bias_up = biases[0],
                                 .bias_gate = biases[1],
                                 .bias_down = biases[2]};
    size_t bytes;
    HEADER_REQUIRE(ffn_packed_bytes(&serving_spec, &bytes, &diag) == FFN_OK);
    return (int)ffn_pack(&serving_spec, &weights, packed, bytes, &diag);
}

static int run(const call *c) {
    const ffn_args args = args_of(c);
    return (int)ffn_kernel_run(serving, &args, &diag);
}

static int run_rows(const call *c, int64_t begin, int64_t end) {
    const ffn_args args = args_of(c);
    return (int)ffn_kernel_run_rows(serving, &args, begin, end, &diag);
}

static int expand(const call *c, float *hidden, int64_t begin, int64_t end) {
    const ffn_args args = args_of(c);
    return (int)ffn_kernel_expand(serving, &args, hidden, begin, end, &diag);
}

static int contract(const call *c, const float *hidden, int64_t begin, int64_t end) {
    const ffn_args args = args_of(c);
    return (int)ffn_kernel_contract(serving, &args, hidden, begin, end, &diag);
}

static int activate(int64_t n, int64_t count, const float *g, const float *u, float *out) {
    return (int)ffn_kernel_activate(serving, n, count, g, u, out, &diag);
}

static uint64_t digest_of(ffn_isa isa) {
    static const int64_t classes[] = {1, 2, 5, 17};
    uint64_t digest = 0xcbf29ce484222325U;
    ffn_context *context;
    HEADER_REQUIRE(ffn_context_create(&(ffn_options){.isa = isa, .store = ""}, &context, &diag) == FFN_OK);
    for (int which = 0; which < LAYERS; which++) {
        HEADER_REQUIRE(ffn_spec_parse(layers[which].spec, &serving_spec, &diag) == FFN_OK);
        HEADER_REQUIRE(ffn_kernel_create(context, &serving_spec, &serving, &diag) == FFN_OK);
        for (int i = 0; i < FFN_N_CLASSES && isa != FFN_ISA_PORTABLE; i++)
            HEADER_REQUIRE(ffn_kernel_prepare(serving, classes[i], &diag) == FFN_OK);
        kernel k = {&layers[which],
                    0,
                    ffn_kernel_scratch_bytes(serving),
                    ffn_kernel_hidden_bytes(serving),
                    pack,
                    run,
                    run_rows,
                    expand,
                    contract,
                    activate};
        HEADER_REQUIRE(ffn_packed_bytes(&serving_spec, &k.packed_bytes, &diag) == FFN_OK);
        digest = digest_kernel(digest, &k);
        ffn_kernel_destroy(serving);
    }
    ffn_context_destroy(context);
    return digest;
}

int main(void) {
    const uint64_t digest = digest_of(ffn_isa_best());
    HEADER_REQUIRE(digest_of(FFN_ISA_PORTABLE) == digest);
    printf("%016llx\n", (unsigned long long)digest);
    return 0;
}
