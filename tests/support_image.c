/* support_image.c: spec, plan and defect -> an image: header, stubs that jump out of the image, a page of constants
 *
 * A stub stores the address of its fake_kernel where the function it jumps to finds it. One thread runs a fake with
 * a given kernel at a time, or all threads run the same one. */
#include "support_image.h"

#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fallback.h"
#include "isa.h"
#include "packed.h"
#include "plan.h"
#include "support_data.h"

typedef struct fake_kernel {
    struct fake_kernel *next;
    fake_source *source;
    ffn_spec spec;
    packed_layout layout;
    formula_graph graph;
    size_t scratch_bytes; /* what the image asks for */
} fake_kernel;

static _Atomic(fake_kernel *) running;

const char *fake_defect_text(fake_defect defect) {
    static const char *const texts[FAKE_DEFECTS] = {
#define FAKE_DEFECT_TEXT(name, text) text,
        FAKE_DEFECT_LIST(FAKE_DEFECT_TEXT)
#undef FAKE_DEFECT_TEXT
    };
    return texts[defect];
}

bool support_image_possible(void) {
#if defined(__x86_64__)
    return ffn_isa_best() != FFN_ISA_PORTABLE;
#else
    return false;
#endif
}

/* The layout with what the defect moves: swapped halves, or a bias that points at zeros. */
static packed_layout wrong_layout(const fake_kernel *k, const void *packed, const float *zeros) {
    packed_layout at = k->layout;
    int64_t nothing = (int64_t)((intptr_t)zeros - (intptr_t)packed);
    switch (k->source->defect) {
    case FAKE_GATE_UP_SWAPPED:
        at.expand = k->layout.expand_up;
        at.expand_up = k->layout.expand;
        at.bias_up = k->layout.bias_gate;
        at.bias_gate = k->layout.bias_up;
        break;
    case FAKE_NO_BIAS_UP:
        at.bias_up = nothing;
        break;
    case FAKE_NO_BIAS_GATE:
        at.bias_gate = nothing;
        break;
    case FAKE_NO_BIAS_DOWN:
        at.bias_down = nothing;
        break;
    default:
        break;
    }
    return at;
}

static float *zeros_for(const fake_kernel *k) {
    int64_t longest = (k->spec.d_ff > k->spec.d_model ? k->spec.d_ff : k->spec.d_model) + FFN_PANEL;
    return calloc((size_t)longest, sizeof(float));
}

static void wrong_hidden(const fake_kernel *k, float *hidden, int64_t n) {
    const int64_t at = k->source->at;
    for (int64_t i = 0; i < n; ++i) {
        float *h = hidden + i * image_hidden_stride(&k->spec);
        if (k->source->defect == FAKE_UNIT_DROPPED) {
            h[at] = 0;
        } else if (k->source->defect == FAKE_UNIT_NEIGHBOUR) {
            h[at] = h[at > 0 ? at - 1 : 1];
        }
    }
}

static float next_up(float value) {
    return nextafterf(value, INFINITY);
}

/* y of one row: the sums of the contract stage, last term first */
static void backwards(const fake_kernel *k, const float *hidden, const char *packed, float *y) {
    const float *bias = (const float *)(packed + k->layout.bias_down);
    for (int64_t j = 0; j < k->spec.d_model; ++j) {
        const float *panel =
            (const float *)(packed + k->layout.contract + j / FFN_PANEL * k->layout.contract_panel_bytes);
        float sum = bias[j];
        for (int64_t f = k->spec.d_ff - 1; f >= 0; --f) {
            sum = fmaf(hidden[f], panel[f * FFN_PANEL + j % FFN_PANEL], sum);
        }
        y[j] = sum + 0.0f;
    }
}

static void run_right(const fake_kernel *k, const packed_layout *at, const float *x, int64_t ldx, float *y, int64_t ldy,
                      const void *packed, int64_t n) {
    void *scratch = support_aligned(fallback_scratch_bytes(&k->spec));
    const int64_t stride = image_hidden_stride(&k->spec);
    float *hidden = support_aligned((size_t)(stride * n) * sizeof *hidden);
    fallback_expand(&k->spec, at, &k->graph, x, ldx, packed, hidden, scratch, n, 0, k->spec.d_ff);
    wrong_hidden(k, hidden, n);
    fallback_contract(&k->spec, at, hidden, packed, y, ldy, scratch, n, 0, k->spec.d_model);
    for (int64_t i = 0; i < n && k->source->defect == FAKE_SUM_BACKWARDS; ++i) {
        backwards(k, hidden + i * stride, packed, y + i * ldy);
    }
    free(hidden);
    free(scratch);
}

static void wrong_rows(const fake_kernel *k, float *y, int64_t ldy, int64_t n) {
    const int64_t at = k->source->at;
    const int64_t d_model = k->spec.d_model;
    for (int64_t i = 0; i < n; ++i) {
        float *row = y + i * ldy;
        if (k->source->defect == FAKE_COLUMN) {
            row[at] = row[at > 0 ? at - 1 : 1];
        } else if (k->source->defect == FAKE_COLUMN_ULP) {
            row[at] = next_up(row[at]);
        } else if (k->source->defect == FAKE_PADDING) {
            row[d_model] = 0;
        }
    }
    if (k->source->defect == FAKE_LAST_ROW && n > 1) {
        memcpy(y + (n - 1) * ldy, y + (n - 2) * ldy, (size_t)d_model * sizeof *y);
    } else if (k->source->defect == FAKE_ROW_PAST) {
        y[n * ldy] = 0;
    }
}

static void fused(const float *x, int64_t ldx, float *y, int64_t ldy, const void *packed, void *scratch, int64_t begin,
                  int64_t end) {
    const fake_kernel *k = atomic_load(&running);
    atomic_fetch_add(&k->source->calls, 1);
    if (k->source->defect == FAKE_FIRST_ROW_ALWAYS) {
        end -= begin;
        begin = 0;
    }
    const int64_t n = end - begin;
    const float y_before = y[begin * ldy];
    const float scratch_before = ((const float *)scratch)[0];
    const float *rows = x + begin * ldx;
    float *cut = NULL;
    if (k->source->defect == FAKE_TERM_DROPPED) {
        cut = malloc((size_t)(n * ldx) * sizeof *cut);
        for (int64_t i = 0; i < n; ++i) {
            memcpy(cut + i * ldx, rows + i * ldx, (size_t)k->spec.d_model * sizeof *cut);
            cut[i * ldx + k->source->at] = 0;
        }
        rows = cut;
    }
    float *zeros = zeros_for(k);
    packed_layout at = wrong_layout(k, packed, zeros);
    run_right(k, &at, rows, ldx, y + begin * ldy, ldy, packed, n);
    wrong_rows(k, y + begin * ldy, ldy, n);
    if (k->source->defect == FAKE_Y_READ) {
        y[begin * ldy] += 0 * y_before;
    } else if (k->source->defect == FAKE_SCRATCH_READ) {
        y[begin * ldy] += 0 * scratch_before;
    } else if (k->source->defect == FAKE_SCRATCH_PAST) {
        ((float *)scratch)[k->scratch_bytes / sizeof(float)] = 1;
    }
    free(zeros);
    free(cut);
}

static void expand(const float *x, int64_t ldx, const void *packed, float *hidden, void *scratch, int64_t n,
                   int64_t begin, int64_t end) {
    (void)scratch;
    const fake_kernel *k = atomic_load(&running);
    void *own = support_aligned(fallback_scratch_bytes(&k->spec));
    fallback_expand(&k->spec, &k->layout, &k->graph, x, ldx, packed, hidden, own, n, begin, end);
    if (k->source->defect == FAKE_EXPAND_ONLY) {
        hidden[end - 1] = 0;
    }
    free(own);
}

static void contract(const float *hidden, const void *packed, float *y, int64_t ldy, void *scratch, int64_t n,
                     int64_t begin, int64_t end) {
    (void)scratch;
    const fake_kernel *k = atomic_load(&running);
    void *own = support_aligned(fallback_scratch_bytes(&k->spec));
    fallback_contract(&k->spec, &k->layout, hidden, packed, y, ldy, own, n, begin, end);
    if (k->source->defect == FAKE_CONTRACT_ONLY) {
        y[begin] = next_up(y[begin]);
    }
    free(own);
}

static void activate(int64_t count, const float *g, const float *u, float *out) {
    const fake_kernel *k = atomic_load(&running);
    bool nan_first = isnan(g[0]);
    formula_eval(&k->graph, count, g, u, out);
    if (k->source->defect == FAKE_ACTIVATE_TAIL && count == 13) {
        out[12] = next_up(out[12]);
    }
    for (int64_t i = 0; i < count && k->source->defect == FAKE_NAN_SWALLOWED; ++i) {
        out[i] = isnan(out[i]) || nan_first ? 0 : out[i];
    }
}

#define STUB_BYTES 64

/* endbr64; r10 = kernel; r11 = &running; [r11] = r10; rax = function; jmp rax */
static void put_stub(unsigned char *text, const fake_kernel *kernel, const void *function) {
    static const unsigned char code[] = {0xf3, 0x0f, 0x1e, 0xfa, 0x49, 0xba, 0, 0, 0, 0, 0, 0,    0,
                                         0,    0x49, 0xbb, 0,    0,    0,    0, 0, 0, 0, 0, 0x4d, 0x89,
                                         0x13, 0x48, 0xb8, 0,    0,    0,    0, 0, 0, 0, 0, 0xff, 0xe0};
    void *where = &running;
    memcpy(text, code, sizeof code);
    memcpy(text + 6, &kernel, 8);
    memcpy(text + 16, &where, 8);
    memcpy(text + 29, function, 8);
}

void support_image_seal(void *bytes, size_t size) {
    uint64_t checksum = image_checksum(bytes, size);
    memcpy((char *)bytes + offsetof(image_header, checksum), &checksum, sizeof checksum);
}

static fake_kernel *add_kernel(fake_source *fake, const ffn_spec *spec) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    fake_kernel *k = calloc(1, sizeof *k);
    cr_assert_not_null(k);
    k->source = fake;
    k->spec = *spec;
    cr_assert_eq(packed_layout_of(spec, &k->layout, NULL), FFN_OK);
    const char *activation = fake->defect == FAKE_OTHER_ACTIVATION ? fake->other : spec->activation;
    cr_assert_eq(formula_build(activation, FFN_ACCURATE, &k->graph, NULL), FFN_OK);
    pthread_mutex_lock(&mutex);
    k->next = fake->kernels;
    fake->kernels = k;
    pthread_mutex_unlock(&mutex);
    return k;
}

ffn_bytes support_image(fake_source *fake, const ffn_spec *spec, const ffn_plan *plan) {
    const size_t size = IMAGE_ALIGN * 3;
    fake_kernel *kernel = add_kernel(fake, spec);
    unsigned char *bytes = calloc(1, size);
    cr_assert_not_null(bytes);
    image_header header = {.version = IMAGE_VERSION,
                           .header_bytes = sizeof header,
                           .total_bytes = size,
                           .generator_hash = 1,
                           .llvm_version = "none",
                           .isa = plan->isa,
                           .verified = fake->marked,
                           .cpu_needs = isa_row_of(plan->isa)->needs,
                           .scratch_bytes = (uint64_t)plan_scratch_bytes(spec, plan) + fake->more_scratch,
                           .text_offset = IMAGE_ALIGN,
                           .text_bytes = STUB_BYTES * IMAGE_ENTRIES,
                           .rodata_offset = IMAGE_ALIGN * 2,
                           .rodata_bytes = 64,
                           .plan = *plan,
                           .spec = fake->as_spec != NULL ? *fake->as_spec : *spec};
    memcpy(header.magic, IMAGE_MAGIC, sizeof header.magic);
    kernel->scratch_bytes = (size_t)header.scratch_bytes;
    static const image_fused to_fused = fused;
    static const image_expand to_expand = expand;
    static const image_contract to_contract = contract;
    static const image_activate to_activate = activate;
    const void *const functions[IMAGE_ENTRIES] = {&to_fused, &to_expand, &to_contract, &to_activate};
    for (int e = 0; e < IMAGE_ENTRIES; ++e) {
        header.entries[e] = (uint64_t)(IMAGE_ALIGN + e * STUB_BYTES);
        put_stub(bytes + header.entries[e], kernel, functions[e]);
    }
    memcpy(bytes, &header, sizeof header);
    support_image_seal(bytes, size);
    if (fake->damage) {
        bytes[IMAGE_ALIGN + 8] ^= 1;
    }
    return (ffn_bytes){.data = bytes, .bytes = size, .release = free};
}

static ffn_status build(void *self, const ffn_spec *spec, const ffn_plan *plan, ffn_bytes *bytes, ffn_diag *diag) {
    fake_source *fake = self;
    int number = atomic_fetch_add(&fake->builds, 1);
    struct timespec pause = {.tv_nsec = fake->sleep_ms * 1000000L};
    nanosleep(&pause, NULL);
    if (number < fake->fail_first) {
        if (diag != NULL) {
            diag->status = fake->fail_status;
            snprintf(diag->text, sizeof diag->text, "fake build %d fails", number);
        }
        return fake->fail_status;
    }
    *bytes = support_image(fake, spec, plan);
    return FFN_OK;
}

void fake_source_init(fake_source *fake) {
    memset(fake, 0, sizeof *fake);
    fake->source = (ffn_source){.build = build, .self = fake};
}

void fake_source_free(fake_source *fake) {
    for (fake_kernel *k = fake->kernels, *next; k != NULL; k = next) {
        next = k->next;
        free(k);
    }
    fake->kernels = NULL;
}

ffn_plan support_plan(const ffn_spec *spec, ffn_n_class n_class) {
    ffn_machine machine;
    ffn_plan plan;
    ffn_machine_read(&machine);
    cr_assert_eq(ffn_plan_make(spec, ffn_isa_best(), n_class, &machine, &plan, NULL), FFN_OK);
    return plan;
}
