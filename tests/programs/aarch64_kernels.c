/* aarch64_kernels.c: images of NEON kernels -> the bits of the portable kernel, or a line that says where not
 *
 *   aarch64_kernels IMAGE...
 *
 * Built for AArch64 with libffn inside and run under an emulator by tests/aarch64.sh. The emulator has no stale
 * instruction cache to show, so the linker sends the flush through the function below (--wrap), which sees that every
 * text is flushed whole before it can be called; and it sends mmap through another, which puts one image after the
 * other on the same pages, near and far. */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "expect.h"
#include "image.h"
#include "support_data.h"

enum { ROWS_MAX = 37, PAD = 3, SEED = 5 };

/* ---- Where code lies, and what of it has been flushed ---- */

static char *wanted, *mapped; /* the next executable image should go to `wanted` and went to `mapped` */
static struct {
    char *begin, *end;
    int count;
} flushed;

void *__real_mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset);
void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset);
void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset) {
    mapped = __real_mmap(address == NULL ? wanted : address, bytes, protection, flags, file, offset);
    return mapped;
}

void __real___clear_cache(char *begin, char *end);
void __wrap___clear_cache(char *begin, char *end);
void __wrap___clear_cache(char *begin, char *end) {
    flushed.begin = begin;
    flushed.end = end;
    flushed.count++;
    __real___clear_cache(begin, end);
}

/* ---- One image ---- */

static ffn_bytes read_image(const char *path) {
    FILE *file = fopen(path, "rb");
    EXPECT(file != NULL, "%s", path);
    ffn_bytes bytes = {.data = malloc(1 << 22)};
    bytes.bytes = fread(bytes.data, 1, 1 << 22, file);
    fclose(file);
    EXPECT(bytes.bytes > sizeof(image_header), "%s: %zu bytes", path, bytes.bytes);
    return bytes;
}

/* y of the rows, then the activation's values; both up to an unmapped page. */
typedef struct outcome {
    float *y, *values;
} outcome;

static const int64_t value_count = 515;

/* Everywhere on the axis, then what is not a number like others. */
static float value_at(int64_t i) {
    static const float special[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1e-40f, -1e-40f, 3e38f, -3e38f};
    enum { SPECIALS = sizeof special / sizeof *special };
    return i < SPECIALS ? special[i] : 0.08f * (float)(i - value_count / 2);
}

static outcome run(const ffn_kernel *kernel, const void *packed, int64_t n) {
    const ffn_spec *spec = ffn_kernel_spec(kernel);
    const int64_t ld = spec->d_model + PAD, elements = (n - 1) * ld + spec->d_model;
    const size_t bytes = (size_t)elements * sizeof(float), scratch_bytes = ffn_kernel_scratch_bytes(kernel);
    const size_t value_bytes = (size_t)value_count * sizeof(float);
    outcome out = {support_guarded(bytes, true), support_guarded(value_bytes, true)};
    float *x = support_guarded(bytes, true), *g = support_guarded(value_bytes, true);
    float *u = support_guarded(value_bytes, true);
    void *scratch = support_guarded(scratch_bytes, false); /* NaN before the call */
    support_fill_x(x, n, spec->d_model, ld, SUPPORT_NORMAL, SEED);
    for (int64_t i = 0; i < value_count; i++) {
        g[i] = value_at(i);
        u[i] = value_at((i * 7) % value_count);
    }
    ffn_diag diag;
    ffn_args args = {n, x, ld, out.y, ld, packed, scratch, scratch_bytes};
    EXPECT(ffn_kernel_run(kernel, &args, &diag) == FFN_OK, "%s", diag.text);
    EXPECT(ffn_kernel_activate(kernel, n, value_count, g, ffn_spec_gated(spec) ? u : NULL, out.values, &diag) == FFN_OK,
           "%s", diag.text);
    support_guarded_free(x, bytes);
    support_guarded_free(g, value_bytes);
    support_guarded_free(u, value_bytes);
    support_guarded_free(scratch, scratch_bytes);
    return out;
}

static void free_outcome(outcome out, int64_t n, int64_t d_model) {
    support_guarded_free(out.y, (size_t)((n - 1) * (d_model + PAD) + d_model) * sizeof(float));
    support_guarded_free(out.values, (size_t)value_count * sizeof(float));
}

static void expect_equal(const char *path, const char *what, const float *got, const float *want, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        EXPECT((isnan(got[i]) && isnan(want[i])) || memcmp(&got[i], &want[i], sizeof *got) == 0,
               "%s: %s %lld: %a where the portable kernel gives %a", path, what, (long long)i, (double)got[i],
               (double)want[i]);
}

/* The portable kernel, then the image on the page `at`, gone again afterwards. */
static void expect_bits_of_portable(const char *path, char *at, ffn_verify_mode verify) {
    static const int64_t rows[FFN_N_CLASSES] = {1, 4, 13, ROWS_MAX};
    ffn_bytes made = read_image(path);
    image_header header;
    memcpy(&header, made.data, sizeof header);
    const ffn_spec *spec = &header.spec;
    const int64_t n = rows[header.plan.n_class], d_model = spec->d_model;
    ffn_options options = {.store = "", .compiler = "", .verify = verify, .cache_bytes = 1};
    ffn_context *context;
    ffn_kernel *kernel;
    ffn_kernel_info info;
    ffn_diag diag = {.text = ""};
    EXPECT(ffn_context_create(&options, &context, &diag) == FFN_OK, "%s", diag.text);
    EXPECT(ffn_kernel_create(context, spec, &kernel, &diag) == FFN_OK, "%s", diag.text);
    support_weights *weights = support_random_weights(spec, SUPPORT_NORMAL, SEED);
    void *packed = support_packed(spec, &weights->weights);
    outcome want = run(kernel, packed, n);
    ffn_kernel_inspect(kernel, n, &info);
    EXPECT(info.source == FFN_FROM_FALLBACK, "%s: something serves before it is loaded", path);

    int before = flushed.count;
    wanted = at;
    mapped = NULL;
    ffn_status status = ffn_kernel_load(kernel, made.data, made.bytes, &diag);
    wanted = NULL;
    EXPECT(status == FFN_OK, "%s: %s", path, diag.text);
    const char *text = flushed.begin - header.text_offset;
    EXPECT(flushed.count == before + 1, "%s: flushed %d times", path, flushed.count - before);
    EXPECT(memcmp(text, made.data, sizeof header) == 0 && flushed.end - flushed.begin >= (long)header.text_bytes,
           "%s: the text was not flushed whole", path);
    EXPECT(at == NULL || text == at, "%s: lies at %p instead of %p", path, (const void *)text, (void *)at);
    ffn_kernel_inspect(kernel, n, &info);
    EXPECT(info.source == FFN_FROM_IMAGE && info.isa == FFN_ISA_NEON, "%s: it does not serve", path);
    EXPECT(info.verified == (verify != FFN_VERIFY_NEVER), "%s: verified", path);
    outcome got = run(kernel, packed, n);
    expect_equal(path, "output", got.y, want.y, (n - 1) * (d_model + PAD) + d_model);
    expect_equal(path, "value", got.values, want.values, value_count);

    free_outcome(want, n, d_model);
    free_outcome(got, n, d_model);
    ffn_kernel_destroy(kernel);
    ffn_counters counters;
    ffn_context_counters(context, &counters);
    EXPECT(counters.evicted == 1, "%s: still mapped", path);
    ffn_context_destroy(context);
    support_weights_free(weights);
    free(packed);
    free(made.data);
}

int main(int count, char **paths) {
    /* low, in the middle and high in an address space of 47 bits */
    static const uintptr_t places[] = {0, UINT64_C(0x20000000), UINT64_C(0x1000000000), UINT64_C(0x7e0000000000)};
    for (size_t p = 0; p < sizeof places / sizeof *places; p++)
        for (int i = 1; i < count; i++)
            expect_bits_of_portable(paths[i], (char *)places[p], p == 0 ? FFN_VERIFY_ALWAYS : FFN_VERIFY_NEVER);
    printf("%d images, each at %zu places\n", count - 1, sizeof places / sizeof *places);
    return count > 1 ? 0 : 2;
}
