/* same_bits_images.c: libffn without a compiler, perhaps on another machine: the portable kernel, then images -> the
 * bits of the file of rows
 *
 *   same_bits_images ROWS|- WHERE IMAGE...     -: prints the digest of each spec by the portable kernel instead */
#include "image.h"
#include "same_bits_kernel.h"

static same_rows want[SAME_COUNT];

static ffn_context *context_of(ffn_isa isa) {
    ffn_context *context;
    const ffn_options options = {.isa = isa, .store = "", .compiler = "", .tuned = "", .verify = FFN_VERIFY_NEVER};
    SAME_OK(ffn_context_create(&options, &context, &diag));
    return context;
}

/* The caller's FPCR stays, and in no state of it is there a NaN where the default has none: ordinary, subnormal and
 * signed zero rows. */
static void check_state(const kernel *k, int which, const char *who, const void *packed) {
#if defined(__aarch64__)
    static const uint64_t states[] = {UINT64_C(1) << 24, UINT64_C(1) << 22, UINT64_C(2) << 22, UINT64_C(3) << 22};
    const int64_t d = k->of->d_model;
    const bool finite = which != 4; /* whose weights are not */
    void *scratch = allocate_aligned(k->scratch_bytes);
    float x[3 * SAME_D], y[3 * SAME_D];
    for (int r = 0; r < 3; r++)
        same_fill_row(x + r * d, k->of, which, r);
    const call c = {3, x, d, y, d, packed, scratch};
    for (size_t s = 0; finite && s < sizeof states / sizeof *states; s++) {
        uint64_t before, after;
        __asm__ volatile("mrs %0, fpcr" : "=r"(before));
        __asm__ volatile("msr fpcr, %0" : : "r"(before | states[s]));
        const int status = k->run(&c);
        __asm__ volatile("mrs %0, fpcr" : "=r"(after));
        __asm__ volatile("msr fpcr, %0" : : "r"(before));
        HEADER_REQUIRE(status == 0);
        for (int64_t i = 0; i < 3 * d; i++)
            if (after != (before | states[s]) || y[i] != y[i]) {
                printf("%s, by %s: with %#llx in FPCR it is %#llx afterwards, y[%d] %g\n", k->of->spec, who,
                       (unsigned long long)states[s], (unsigned long long)after, (int)i, (double)y[i]);
                exit(1);
            }
    }
    release_aligned(scratch);
#else
    (void)k, (void)which, (void)who, (void)packed; /* tests/test_float_state.c is for MXCSR */
#endif
}

static int check(int which, const char *who, ffn_kernel *of) {
    same_weights w = same_weights_make(which);
    void *packed = same_packed(which, &w);
    const kernel k = same_kernel(which, of, NULL);
    same_job job = {which, &k, who, packed, &want[which], 1, 0};
    same_check(&job);
    check_state(&k, which, who, packed);
    release_aligned(packed);
    same_weights_free(&w);
    return job.combined;
}

static int check_portable(void) {
    int combined = 0;
    ffn_context *context = context_of(FFN_ISA_PORTABLE);
    for (int s = 0; s < SAME_COUNT; s++) {
        const ffn_spec spec = same_spec(s);
        ffn_kernel *of;
        SAME_OK(ffn_kernel_create(context, &spec, &of, &diag));
        combined += check(s, "the portable kernel", of);
        ffn_kernel_destroy(of);
    }
    ffn_context_destroy(context);
    return combined;
}

/* The digests of record: every row alone, and the activation. */
static void print_portable(void) {
    ffn_context *context = context_of(FFN_ISA_PORTABLE);
    for (int s = 0; s < SAME_COUNT; s++) {
        const ffn_spec spec = same_spec(s);
        const layer *of = &same_layers[s];
        same_rows rows;
        same_weights w = same_weights_make(s);
        void *packed = same_packed(s, &w);
        ffn_kernel *made;
        float x[SAME_D], y[SAME_D], g[ACTIVATED], u[ACTIVATED], out[ACTIVATED];
        SAME_OK(ffn_kernel_create(context, &spec, &made, &diag));
        const kernel k = same_kernel(s, made, NULL);
        void *scratch = allocate_aligned(served_scratch);
        for (int r = 0; r < same_row_count(of); r++) {
            const call c = {1, x, of->d_model, y, of->d_model, packed, scratch};
            same_fill_row(x, of, s, r);
            HEADER_REQUIRE(k.run(&c) == 0);
            rows.of[r] = same_digest(y, of->d_model);
        }
        same_fill_values(g, u);
        HEADER_REQUIRE(k.activate(1, ACTIVATED, g, of->gated ? u : NULL, out) == 0);
        rows.of[same_row_count(of)] = same_digest(out, ACTIVATED);
        printf("%016llx %s\n", (unsigned long long)same_of_spec(of, &rows), of->spec);
        release_aligned(scratch);
        release_aligned(packed);
        same_weights_free(&w);
        ffn_kernel_destroy(made);
    }
    ffn_context_destroy(context);
}

static int check_image(const char *path) {
    enum { IMAGE_BYTES_MAX = 1 << 22 };
    FILE *file = fopen(path, "rb");
    void *data = malloc(IMAGE_BYTES_MAX);
    image_header header;
    char who[512];
    HEADER_REQUIRE(file != NULL && data != NULL);
    const size_t bytes = fread(data, 1, IMAGE_BYTES_MAX, file);
    fclose(file);
    HEADER_REQUIRE(bytes > sizeof header);
    memcpy(&header, data, sizeof header);
    ffn_context *context = context_of(FFN_ISA_AUTO);
    ffn_kernel *of;
    SAME_OK(ffn_kernel_create(context, &header.spec, &of, &diag));
    SAME_OK(ffn_kernel_load(of, data, bytes, &diag));
    int s = 0;
    for (; s < SAME_COUNT; s++) {
        const ffn_spec spec = same_spec(s);
        if (ffn_spec_equal(&spec, &header.spec))
            break;
    }
    HEADER_REQUIRE(s < SAME_COUNT);
    snprintf(who, sizeof who, "the image %s", path);
    const int combined = check(s, who, of);
    ffn_kernel_destroy(of);
    ffn_context_destroy(context);
    free(data);
    return combined;
}

int main(int count, char **words) {
    HEADER_REQUIRE(count >= 2);
    if (strcmp(words[1], "-") == 0) {
        print_portable();
        return 0;
    }
    char kind[128];
    int combined = 0;
    HEADER_REQUIRE(count >= 3);
    same_read_rows(words[1], want);
    snprintf(kind, sizeof kind, "the portable kernel, %s", words[2]);
    same_print(kind, check_portable());
    for (int i = 3; i < count; i++)
        combined += check_image(words[i]);
    snprintf(kind, sizeof kind, "%d images, %s", count - 3, words[2]);
    if (count > 3)
        same_print(kind, combined);
    return 0;
}
