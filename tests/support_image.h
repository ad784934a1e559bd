/* support_image.h: images whose code calls back into the test process, right or wrong in a way the test chooses
 *
 * The text of such an image is a few bytes that jump to a function of the test, so image, cache, kernel and
 * verification are tested without a compiler, and a kernel can be wrong in exactly one way. x86-64 only: elsewhere
 * support_image_possible() says no and the tests that need it skip. */
#ifndef SUPPORT_IMAGE_H
#define SUPPORT_IMAGE_H

#include <stdatomic.h>

#include "image.h"

/* What a fake kernel does wrong. `at` of fake_kernel is the column, unit, row or term that is meant. */
#define FAKE_DEFECT_LIST(X)                                                          \
    X(NONE, "right")                                                                 \
    X(COLUMN, "column `at` of y is its neighbour's")                                 \
    X(COLUMN_ULP, "column `at` of y is one ULP off")                                 \
    X(UNIT_DROPPED, "hidden unit `at` is left out")                                  \
    X(UNIT_NEIGHBOUR, "hidden unit `at` is its neighbour's")                         \
    X(TERM_DROPPED, "term `at` of the expand stage is left out")                     \
    X(GATE_UP_SWAPPED, "gate and up are swapped")                                    \
    X(OTHER_ACTIVATION, "the activation is `other`")                                 \
    X(NO_BIAS_UP, "bias_up is left out")                                             \
    X(NO_BIAS_GATE, "bias_gate is left out")                                         \
    X(NO_BIAS_DOWN, "bias_down is left out")                                         \
    X(SUM_BACKWARDS, "sums run from the last term to the first")                     \
    X(LAST_ROW, "the last of several rows is the one before it")                     \
    X(FIRST_ROW_ALWAYS, "row_begin is taken for 0")                                  \
    X(PADDING, "one element past d_model is written")                                \
    X(ROW_PAST, "one row past the end is written")                                   \
    X(SCRATCH_PAST, "one element past the scratch is written")                       \
    X(SCRATCH_READ, "y depends on what was in scratch")                              \
    X(Y_READ, "y depends on what was in y")                                          \
    X(EXPAND_ONLY, "the expand stage leaves the last column of its range out")       \
    X(CONTRACT_ONLY, "the contract stage is wrong in the first column of its range") \
    X(ACTIVATE_TAIL, "activate is wrong in the last element of 13")                  \
    X(NAN_SWALLOWED, "activate gives 0 for NaN")

typedef enum fake_defect {
#define FAKE_DEFECT_ENUM(name, text) FAKE_##name,
    FAKE_DEFECT_LIST(FAKE_DEFECT_ENUM)
#undef FAKE_DEFECT_ENUM
        FAKE_DEFECTS
} fake_defect;

const char *fake_defect_text(fake_defect defect);

/* A source of fake kernels; a test sets the fields before the first build. */
typedef struct fake_source {
    ffn_source source; /* hand this to a context */
    fake_defect defect;
    int64_t at;
    const char *other; /* activation of OTHER_ACTIVATION */
    int fail_first;    /* so many builds fail with fail_status */
    ffn_status fail_status;
    int sleep_ms;            /* of each build */
    bool damage;             /* one byte of the image is flipped */
    size_t more_scratch;     /* header.scratch_bytes is so much above the plan's */
    const ffn_spec *as_spec; /* the image says that it is for this spec */
    bool marked;             /* the image says that it is verified */
    _Atomic int builds;
    _Atomic int calls; /* of fused entries */
    struct fake_kernel *kernels;
} fake_source;

bool support_image_possible(void);
/* At the start of a test that runs fake images. */
#define NEEDS_IMAGES()             \
    if (!support_image_possible()) \
    cr_skip_test("no generated ISA of x86-64 here: fake images cannot run")

void fake_source_init(fake_source *fake);
/* After every context that used it is gone. */
void fake_source_free(fake_source *fake);
/* Bytes of one image, release() them. */
ffn_bytes support_image(fake_source *fake, const ffn_spec *spec, const ffn_plan *plan);
/* The plan of the best ISA of this CPU. */
ffn_plan support_plan(const ffn_spec *spec, ffn_n_class n_class);
/* New checksum for bytes a test has edited. */
void support_image_seal(void *bytes, size_t size);

#endif
