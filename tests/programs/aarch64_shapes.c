/* aarch64_shapes.c: files of tests/programs/neon_images.c -> the same digests from NEON code and from the portable
 * kernel of this build, or a line that says where not
 *
 *   aarch64_shapes FILE
 *
 * Built for AArch64 over libffn's public API and run under an emulator by tests/aarch64.sh. */
#include "neon_record.h"

static void run_record(const neon_record *record, const void *image) {
    ffn_context *context;
    ffn_kernel *kernel;
    ffn_kernel_info info;
    ffn_diag diag = {.text = ""};
    const ffn_options options = {.verify = FFN_VERIFY_NEVER, .store = "", .compiler = ""};
    neon_layer layer = neon_layer_make(record->spec);
    const int64_t n = neon_rows_of((ffn_n_class)record->n_class);
    EXPECT(ffn_context_create(&options, &context, &diag) == FFN_OK, "%s", diag.text);
    EXPECT(ffn_kernel_create(context, &layer.spec, &kernel, &diag) == FFN_OK, "%s", diag.text);
    ffn_kernel_inspect(kernel, n, &info);
    EXPECT(info.source == FFN_FROM_FALLBACK, "%s", record->spec);
    neon_digests got = neon_digests_of(kernel, layer.packed, layer.x);
    neon_expect_equal("portable", record, &got);
    EXPECT(ffn_kernel_load(kernel, image, record->image_bytes, &diag) == FFN_OK, "%s: %s", record->spec, diag.text);
    for (int r = 0; r < NEON_RUNS; r++) { /* one class has code: it serves every n */
        ffn_kernel_inspect(kernel, neon_rows[r], &info);
        EXPECT(info.isa == FFN_ISA_NEON && (int32_t)info.plan.n_class == record->n_class, "%s", record->spec);
    }
    got = neon_digests_of(kernel, layer.packed, layer.x);
    neon_expect_equal("neon", record, &got);
    ffn_kernel_destroy(kernel);
    ffn_context_destroy(context);
    neon_layer_free(&layer);
}

int main(int count, char **words) {
    FILE *file = count == 2 ? fopen(words[1], "rb") : NULL;
    EXPECT(file != NULL, "a file of records is needed");
    static neon_record record;
    int records = 0;
    for (; fread(&record, sizeof record, 1, file) == 1; records++) {
        void *image = malloc(record.image_bytes);
        EXPECT(image != NULL && fread(image, record.image_bytes, 1, file) == 1, "%s is cut off", words[1]);
        run_record(&record, image);
        free(image);
    }
    EXPECT(feof(file) && records > 0, "%s", words[1]);
    fclose(file);
    printf("%d shapes, %d numbers of rows each\n", records, NEON_RUNS);
    return 0;
}
