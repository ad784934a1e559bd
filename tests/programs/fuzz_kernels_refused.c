/* fuzz_kernels_refused.c: a case -> a call with one argument that must be refused, and nothing written */
#include <stdlib.h>
#include <string.h>

#include "fuzz_kernels.h"

typedef enum wrong {
    LDX,
    LDY,
    SCRATCH_BYTES,
    SCRATCH_ALIGN,
    SCRATCH_NULL,
    X_ALIGN,
    Y_ALIGN,
    X_NULL,
    Y_NULL,
    PACKED_NULL,
    Y_IS_X,
    Y_OVER_X,
    N_NEGATIVE,
    N_HUGE,
    FOREIGN_WEIGHTS,
    ROWS_BEYOND,
    ROWS_BACKWARDS,
    STAGE_ROWS,
    STAGE_COLUMN,
    WRONGS
} wrong;

/* A header that another spec's, another version's or no weights have. */
static void *foreign(fuzz_case *c) {
    packed_header *header = support_aligned(sizeof *header);
    memcpy(header, c->args.packed, sizeof *header);
    switch (support_between(&c->rng, 0, 3)) {
    case 0:
        header->magic[0] ^= 1;
        break;
    case 1:
        header->version++;
        break;
    case 2:
        header->spec_hash ^= 1;
        break;
    default:
        header->total_bytes += 64;
    }
    return header;
}

static void spoil(ffn_args *a, wrong what, int64_t d_model) {
    switch (what) {
    case LDX:
        a->ldx = d_model - 1;
        break;
    case LDY:
        a->ldy = d_model - 1;
        break;
    case SCRATCH_BYTES:
        a->scratch_bytes--;
        break;
    case SCRATCH_ALIGN:
        a->scratch = (char *)a->scratch + 4;
        break;
    case SCRATCH_NULL:
        a->scratch = NULL;
        break;
    case X_ALIGN:
        a->x = (const float *)(const void *)((const char *)a->x + 1);
        break;
    case Y_ALIGN:
        a->y = (float *)(void *)((char *)a->y + 2);
        break;
    case X_NULL:
        a->x = NULL;
        break;
    case Y_NULL:
        a->y = NULL;
        break;
    case PACKED_NULL:
        a->packed = NULL;
        break;
    case Y_IS_X:
        a->x = a->y;
        a->ldx = a->ldy;
        break;
    case Y_OVER_X: /* by one element of a row, the last of one and the first of the next */
        a->ldx = a->ldy;
        a->x = a->y + d_model - 1;
        break;
    case N_NEGATIVE:
        a->n = -1;
        break;
    default: /* N_HUGE */
        a->n = INT64_MAX;
    }
}

void fuzz_run_refused(fuzz_case *c) {
    const fuzz_subject *s = c->of;
    ffn_args a;
    ffn_diag diag = {.text = ""};
    if (c->args.n == 0) /* does nothing, whatever the rest */
        return;
    fuzz_take_scratch(c, ffn_kernel_scratch_bytes(s->kernel));
    a = c->args;
    const wrong what = (wrong)support_between(&c->rng, 0, WRONGS - 1);
    ffn_status status, want = FFN_BAD_ARGUMENT;
    void *other = NULL;
    float *hidden = fuzz_place_scratch(c, &c->arenas->hidden, FFN_SCRATCH_ALIGN);
    switch (what) {
    case FOREIGN_WEIGHTS:
        a.packed = other = foreign(c);
        want = FFN_BAD_WEIGHTS;
        status = ffn_kernel_run(s->kernel, &a, &diag);
        break;
    case ROWS_BEYOND:
        status = ffn_kernel_run_rows(s->kernel, &a, 0, a.n + 1, &diag);
        break;
    case ROWS_BACKWARDS:
        status = ffn_kernel_run_rows(s->kernel, &a, a.n, a.n - 1, &diag);
        break;
    case STAGE_ROWS:
        a.n = FFN_STAGE_ROWS_MAX + 1;
        status = ffn_kernel_expand(s->kernel, &a, hidden, 0, s->spec.d_ff, &diag);
        break;
    case STAGE_COLUMN:
        a.n = 1;
        status = ffn_kernel_contract(s->kernel, &a, hidden, 0, s->spec.d_model + 1, &diag);
        break;
    default:
        spoil(&a, what, s->spec.d_model);

        status = ffn_kernel_run(s->kernel, &a, &diag);
    }
    free(other);
    if (status != want || diag.status != want || diag.text[0] == '\0')
        fuzz_found(c, "wrong argument %d: status %d (%s), not %d", (int)what, (int)status, diag.text, (int)want);
    for (size_t i = 0; i < c->args.scratch_bytes; i++)
        if (((const unsigned char *)c->args.scratch)[i] != 0xff)
            fuzz_found(c, "wrong argument %d: scratch was written", (int)what);
}
