/* header_calls.h: an emitted header -> its kernels as header_layers.h wants them, P##_kernels. Included once for each
 * prefix, with P and PU (the same in capitals) defined; the header names its specs gated and plain. */
#include "header_arguments.h"

/* The functions of one spec, whose names differ in the middle alone. */
#define CALLS_OF(S, SU)                                                                                   \
    static int CALLS_P(S##_do_pack)(const float *up, const float *gate, const float *down,                \
                                    const float *const biases[3], void *packed) {                         \
        const CALLS_P(_weights) weights = CALLS_P(_weights_of)(up, gate, down, biases);                   \
        const int status = CALLS_P(S##_pack)(&weights, packed, CALLS_PU(SU##_PACKED_BYTES));              \
        return status ? status : CALLS_P(S##_check)(packed, CALLS_PU(SU##_PACKED_BYTES));                 \
    }                                                                                                     \
    static int CALLS_P(S##_do_run)(const call *c) {                                                       \
        const CALLS_P(_args) args = CALLS_P(_args_of)(c, CALLS_PU(SU##_SCRATCH_BYTES));                   \
        return CALLS_P(S##_run)(&args);                                                                   \
    }                                                                                                     \
    static int CALLS_P(S##_do_rows)(const call *c, int64_t begin, int64_t end) {                          \
        const CALLS_P(_args) args = CALLS_P(_args_of)(c, CALLS_PU(SU##_SCRATCH_BYTES));                   \
        return CALLS_P(S##_run_rows)(&args, begin, end);                                                  \
    }                                                                                                     \
    static int CALLS_P(S##_do_expand)(const call *c, float *hidden, int64_t begin, int64_t end) {         \
        const CALLS_P(_args) args = CALLS_P(_args_of)(c, CALLS_PU(SU##_SCRATCH_BYTES));                   \
        return CALLS_P(S##_expand)(&args, hidden, begin, end);                                            \
    }                                                                                                     \
    static int CALLS_P(S##_do_contract)(const call *c, const float *hidden, int64_t begin, int64_t end) { \
        const CALLS_P(_args) args = CALLS_P(_args_of)(c, CALLS_PU(SU##_SCRATCH_BYTES));                   \
        return CALLS_P(S##_contract)(&args, hidden, begin, end);                                          \
    }

CALLS_OF(_gated, _GATED)
CALLS_OF(_plain, _PLAIN)

#define CALLS_ROW(WHICH, S, SU)                                                                                 \
    {                                                                                                           \
        &layers[WHICH], CALLS_PU(SU##_PACKED_BYTES), CALLS_PU(SU##_SCRATCH_BYTES), CALLS_PU(SU##_HIDDEN_BYTES), \
            CALLS_P(S##_do_pack), CALLS_P(S##_do_run), CALLS_P(S##_do_rows), CALLS_P(S##_do_expand),            \
            CALLS_P(S##_do_contract), CALLS_P(S##_activate)                                                     \
    }
static const kernel CALLS_P(_kernels)[LAYERS] = {CALLS_ROW(GATED, _gated, _GATED), CALLS_ROW(PLAIN, _plain, _PLAIN)};

/* Every variant that this CPU can run gives the same digest; their names go to `variants`, best first. */
static uint64_t CALLS_P(_digest)(char *variants) {
    static const char *const names[] = {"avx512", "avx2", "neon", "portable"};
    uint64_t digest = 0;
    size_t i;
    HEADER_REQUIRE(strcmp(CALLS_PU(_GATED_SPEC), layers[GATED].spec) == 0);
    HEADER_REQUIRE(strcmp(CALLS_PU(_PLAIN_SPEC), layers[PLAIN].spec) == 0);
    HEADER_REQUIRE(CALLS_PU(_GATED_D_MODEL) == layers[GATED].d_model && CALLS_PU(_GATED_D_FF) == layers[GATED].d_ff);
    HEADER_REQUIRE(CALLS_P(_gated_supported)() == 1 && CALLS_P(_plain_supported)() == 1);
    HEADER_REQUIRE(CALLS_P(_select)("nonsense") == CALLS_PU(_UNSUPPORTED));
    for (i = 0; i < sizeof names / sizeof *names; i++) {
        uint64_t now = 0xcbf29ce484222325U;
        int which;
        if (CALLS_P(_select)(names[i]) != CALLS_PU(_OK))
            continue;
        HEADER_REQUIRE(strcmp(CALLS_P(_isa)(), names[i]) == 0);
        HEADER_REQUIRE(strstr(CALLS_P(_gated_describe)(17), names[i]) != NULL);
        HEADER_REQUIRE(strstr(CALLS_P(_gated_describe)(1), layers[GATED].spec) != NULL);
        for (which = 0; which < LAYERS; which++)
            now = digest_kernel(now, &CALLS_P(_kernels)[which]);
        if (*variants != '\0' && now != digest) {
            printf("%s: digest %016llx, before it %016llx\n", names[i], (unsigned long long)now,
                   (unsigned long long)digest);
            exit(1);
        }
        digest = now;
        strcat(strcat(variants, *variants != '\0' ? "," : ""), names[i]);
    }
    HEADER_REQUIRE(*variants != '\0');
    HEADER_REQUIRE(CALLS_P(_select)(NULL) == CALLS_PU(_OK));
    HEADER_REQUIRE(strncmp(variants, CALLS_P(_isa)(), strlen(CALLS_P(_isa)())) == 0); /* the best comes first */
    return digest;
}

#undef CALLS_GLUE_
#undef CALLS_GLUE
#undef CALLS_P
#undef CALLS_PU
#undef CALLS_OF
#undef CALLS_ROW
