/* header_unsupported.c: a header without the portable kernel -> what its functions say where no code of it can run:
 * "unsupported", or the name of what runs. Packing works anywhere, and y is not touched. */
#include HEADER

#include "header_layers.h"

enum { D = HM_PLAIN_D_MODEL, N = 3 };

int main(void) {
    static float up[HM_PLAIN_D_MODEL * HM_PLAIN_D_FF], x[N * D], y[N * D];
    float *hidden = (float *)allocate_aligned(HM_PLAIN_HIDDEN_BYTES);
    void *packed = allocate_aligned(HM_PLAIN_PACKED_BYTES);
    hm_weights weights;
    hm_args args;
    int i, expected;
    memset(&weights, 0, sizeof weights);
    weights.up.data = weights.down.data = up;
    memset(&args, 0, sizeof args);
    args.n = N;
    args.x = x;
    args.y = y;
    args.ldx = args.ldy = D;
    args.packed = packed;
    args.scratch = allocate_aligned(HM_PLAIN_SCRATCH_BYTES);
    args.scratch_bytes = HM_PLAIN_SCRATCH_BYTES;

    HEADER_REQUIRE(hm_plain_pack(&weights, packed, HM_PLAIN_PACKED_BYTES) == HM_OK);
    HEADER_REQUIRE(hm_plain_check(packed, HM_PLAIN_PACKED_BYTES) == HM_OK);
    HEADER_REQUIRE(hm_select("portable") == HM_UNSUPPORTED);
    HEADER_REQUIRE(hm_plain_describe(1) != NULL && hm_isa() != NULL);
    expected = hm_plain_supported() ? HM_OK : HM_UNSUPPORTED;
    HEADER_REQUIRE(hm_select(NULL) == expected);
    fill_bits(y, N * D, CANARY);
    HEADER_REQUIRE(hm_plain_run(&args) == expected);
    HEADER_REQUIRE(hm_plain_run_rows(&args, 0, 1) == expected);
    HEADER_REQUIRE(hm_plain_expand(&args, hidden, 0, HM_PLAIN_D_FF) == expected);
    HEADER_REQUIRE(hm_plain_contract(&args, hidden, 0, HM_PLAIN_D_MODEL) == expected);
    for (i = 0; i < N * D; i++)
        HEADER_REQUIRE((to_bits(y[i]) == CANARY) == (expected != HM_OK));
    for (i = 0; i < N * D && expected != HM_OK; i++)
        HEADER_REQUIRE(to_bits(hidden[i]) == 0x7fc0dead);
    HEADER_REQUIRE(hm_plain_activate(1, N * D, x, NULL, y) == expected);
    printf("%s\n", expected == HM_OK ? hm_isa() : "unsupported");
    return 0;
}
