/* same_bits_header.c: an emitted header with the specs of same_bits.h -> every variant that this CPU runs has the bits
 * of the file of rows
 *
 *   -D HEADER='"a.h"'     its prefix is sb, its specs are SAME_HEADER_SPECS
 *   same_bits_header KIND ROWS [few]      KIND: the compiler, for what is printed */
#define SB_IMPLEMENTATION
#include HEADER

#include "same_bits.h"

#define P sb
#define PU SB
#include "header_arguments.h"

#define CALLS(NAME, UPPER, ...)                                                                                    \
    static int NAME##_do_pack(const float *up, const float *gate, const float *down, const float *const biases[3], \
                              void *packed) {                                                                      \
        const sb_weights weights = sb_weights_of(up, gate, down, biases);                                          \
        return sb_##NAME##_pack(&weights, packed, SB_##UPPER##_PACKED_BYTES);                                      \
    }                                                                                                              \
    static int NAME##_do_run(const call *c) {                                                                      \
        const sb_args args = sb_args_of(c, SB_##UPPER##_SCRATCH_BYTES);                                            \
        return sb_##NAME##_run(&args);                                                                             \
    }                                                                                                              \
    static int NAME##_do_rows(const call *c, int64_t begin, int64_t end) {                                         \
        const sb_args args = sb_args_of(c, SB_##UPPER##_SCRATCH_BYTES);                                            \
        return sb_##NAME##_run_rows(&args, begin, end);                                                            \
    }                                                                                                              \
    static int NAME##_do_expand(const call *c, float *hidden, int64_t begin, int64_t end) {                        \
        const sb_args args = sb_args_of(c, SB_##UPPER##_SCRATCH_BYTES);                                            \
        return sb_##NAME##_expand(&args, hidden, begin, end);                                                      \
    }                                                                                                              \
    static int NAME##_do_contract(const call *c, const float *hidden, int64_t begin, int64_t end) {                \
        const sb_args args = sb_args_of(c, SB_##UPPER##_SCRATCH_BYTES);                                            \
        return sb_##NAME##_contract(&args, hidden, begin, end);                                                    \
    }
SAME_HEADER_SPECS(CALLS)

#define KERNEL(NAME, UPPER, ...) \
    {NULL,                       \
     SB_##UPPER##_PACKED_BYTES,  \
     SB_##UPPER##_SCRATCH_BYTES, \
     SB_##UPPER##_HIDDEN_BYTES,  \
     NAME##_do_pack,             \
     NAME##_do_run,              \
     NAME##_do_rows,             \
     NAME##_do_expand,           \
     NAME##_do_contract,         \
     sb_##NAME##_activate},
static kernel kernels[SAME_IN_HEADER] = {SAME_HEADER_SPECS(KERNEL)};

int main(int count, char **words) {
    static const char *const variants[] = {"avx512", "avx2", "neon", "portable"};
    static same_rows want[SAME_COUNT];
    size_t v;
    int s;
    HEADER_REQUIRE(count >= 3);
    same_read_rows(words[2], want);
    for (v = 0; v < sizeof variants / sizeof *variants; v++) {
        int combined = 0;
        char who[128];
        if (sb_select(variants[v]) != SB_OK)
            continue;
        snprintf(who, sizeof who, "the header's %s code, %s", variants[v], words[1]);
        for (s = 0; s < SAME_IN_HEADER; s++) {
            kernel *k = &kernels[s];
            same_weights w = same_weights_make(s);
            same_job job = {s, k, who, NULL, &want[s], count > 3, 0};
            void *packed = allocate_aligned(k->packed_bytes);
            k->of = &same_layers[s];
            HEADER_REQUIRE(k->pack(w.up, k->of->gated ? w.gate : NULL, w.down, w.biases, packed) == 0);
            job.packed = packed;
            same_check(&job);
            combined += job.combined;
            release_aligned(packed);
            same_weights_free(&w);
        }
        same_print(who, combined);
    }
    return 0;
}
