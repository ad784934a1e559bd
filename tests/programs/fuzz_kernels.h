/* fuzz_kernels.h: what the files of the kernel fuzzer share
 *
 * A case is a number, its seed, and everything about it follows from that: GROUP cases in a row share a spec, a plan
 * and the code, drawn from seed / GROUP; SHARE of them share weights; the rest (x, n, strides, places, how it is
 * called) is drawn from the seed alone. So one case can be repeated without those before it. */
#ifndef FUZZ_KERNELS_H
#define FUZZ_KERNELS_H

#include "kernel_handle.h"
#include "support_data.h"

enum { GROUP = 256, SHARE = 16, D_MAX = 300, N_MAX = 70, LD_EXTRA_MAX = 31, FINDING_BYTES = 1024 };

/* ---- fuzz_kernels_draw.c: what is computed and how ---- */

typedef struct fuzz_subject {
    ffn_spec spec;
    char spec_text[FFN_SPEC_TEXT_BYTES];
    ffn_isa isa;
    ffn_plan plan; /* not of the portable kernel */
    char plan_text[FFN_DESCRIBE_BYTES];
    bool prepared; /* by ffn_kernel_prepare with a forced plan; else by ffn_kernel_load */
    bool tame;     /* its activation has an error bound that means something for ordinary values */
    bool sparse;   /* made for the contract stage that leaves out zeros of h: few rows, most columns of W_up zero */
    ffn_context *context;
    ffn_kernel *kernel;
    const image *code;    /* NULL: the portable kernel */
    size_t scratch_bytes; /* what `code` itself asks for */
} fuzz_subject;

/* Texts that take the place of what would be drawn; NULL: drawn. `plan` may be "portable". */
typedef struct fuzz_given {
    const char *spec, *plan;
} fuzz_given;

/* False: `finding` says what went wrong. */
/* Whether a kernel can be made of them; the diag names what cannot be. */
bool fuzz_given_check(const fuzz_given *given, ffn_diag *diag);
bool fuzz_subject_make(uint64_t group, const fuzz_given *given, fuzz_subject *subject, char finding[FINDING_BYTES]);
void fuzz_subject_free(fuzz_subject *subject);

/* One of a table. */
#define FUZZ_ONE_OF(rng, table) ((table)[support_between(rng, 0, (int64_t)(sizeof(table) / sizeof *(table)) - 1)])
/* True once in `of`. */
static inline bool fuzz_once_in(support_rng *rng, int64_t of) {
    return support_between(rng, 1, of) == 1;
}

/* ---- fuzz_kernels_data.c: values, and memory between unmapped pages ---- */

typedef struct fuzz_kind {
    const char *name;
    bool tame; /* no sum of them overflows, none is NaN */
    float (*draw)(support_rng *rng);
} fuzz_kind;

const fuzz_kind *fuzz_kind_of(support_rng *rng);

/* Writable memory with an unmapped page at either end. */
typedef struct fuzz_arena {
    char *begin;
    size_t bytes;
} fuzz_arena;

typedef enum fuzz_where { FUZZ_AT_END, FUZZ_AT_BEGIN, FUZZ_INSIDE, FUZZ_PLACES } fuzz_where;

fuzz_arena fuzz_arena_make(size_t bytes);
/* Where `bytes` stand, `align` a power of two; at the end as near to it as that allows. */
void *fuzz_arena_place(const fuzz_arena *arena, size_t bytes, size_t align, fuzz_where where, support_rng *rng);
void fuzz_arena_protect(const fuzz_arena *arena, bool read_only);

typedef struct fuzz_weights {
    ffn_weights given;
    float *memory[6];
    size_t packed_bytes;
    bool tame;
    char text[128];
} fuzz_weights;

/* Packed into `arena`, read-only from then on. False: `finding` says what went wrong. */
bool fuzz_weights_make(uint64_t seed, const fuzz_subject *subject, const fuzz_arena *arena, const void **packed,
                       fuzz_weights *weights, char finding[FINDING_BYTES]);
void fuzz_weights_free(fuzz_weights *weights);

/* ---- fuzz_kernels_case.c: one call or several, and what they must have done ---- */

typedef struct fuzz_arenas {
    fuzz_arena x, y, scratch, hidden, packed;
} fuzz_arenas;

typedef struct fuzz_case {
    const fuzz_subject *of;
    const fuzz_weights *weights;
    const fuzz_arenas *arenas;
    support_rng rng;
    ffn_args args; /* scratch: at its place, as large as was asked */
    bool tame;
    const float *dense; /* x, [n][d_model] */
    uint8_t *done;      /* [n][d_model]: what the calls must have written; all else must be what it was */
    struct {
        const char *begin;
        size_t bytes;
    } around[4]; /* bytes of 0xff beside scratch, which must stay */
    int around_count;
    char *finding; /* FINDING_BYTES; empty: none */
} fuzz_case;

/* Says what went wrong, unless something has before. */
void fuzz_found(fuzz_case *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Runs the case of a seed. `about`, ABOUT_BYTES, tells from when on what is being done, for whoever sees a crash. */
enum { ABOUT_BYTES = 4096 };
void fuzz_case_run(uint64_t seed, const fuzz_subject *subject, const fuzz_weights *weights, const fuzz_arenas *arenas,
                   const void *packed, char about[ABOUT_BYTES], char finding[FINDING_BYTES]);

/* ---- fuzz_kernels_calls.c: the ways to call a kernel ---- */

/* Draws one, makes its calls, marks in `done` what they must have written. */
typedef struct fuzz_call {
    const char *name;
    int weight; /* how often, against the others */
    void (*make)(fuzz_case *c);
} fuzz_call;

const fuzz_call *fuzz_call_of(support_rng *rng);

/* Full of NaN; what lies around is watched. */
void *fuzz_place_scratch(fuzz_case *c, const fuzz_arena *arena, size_t bytes);
/* That of the call's arguments. */
void fuzz_take_scratch(fuzz_case *c, size_t bytes);

/* ---- fuzz_kernels_refused.c ---- */

void fuzz_run_refused(fuzz_case *c);

#endif
