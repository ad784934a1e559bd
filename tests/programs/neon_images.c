/* neon_images.c: a tenth of all shapes up to 67 x 67 -> images of NEON kernels, each with the digests of what this
 * machine's own kernels compute
 *
 *   neon_images PART PARTS FILE
 *   neon_images edges FILE          instead an image for every case of docs/edges.md, without digests
 *
 * The digests are those of the portable kernel; the code of every ISA of this CPU must agree before they are written.
 * Every shape has one activation, biases and n class, which turn with the shapes: all activations meet all classes. */
#include "ffngen.h"
#include "neon_record.h"
#include "support_edges.h"

enum { SIZE_MAX_TESTED = 67, ACTIVATIONS_MAX = 64 };

/* Around the lanes, the panels, and the widths where the chains change. */
static bool is_edge(int64_t size) {
    static const int64_t edges[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65};
    for (size_t e = 0; e < sizeof edges / sizeof *edges; e++)
        if (edges[e] == size)
            return true;
    return false;
}

/* Every edge with every edge, and of the other shapes each 83rd. */
static bool is_chosen(int64_t d_model, int64_t d_ff) {
    return is_edge(d_model) && is_edge(d_ff) ? true : (7 * d_model + 13 * d_ff) % 83 == 0;
}

static ffn_kernel *kernel_of(const ffn_spec *spec, ffn_isa isa, ffn_context **context) {
    ffn_machine machine;
    ffn_diag diag = {.text = ""};
    ffn_kernel *kernel;
    ffn_options options = {.isa = isa, .verify = FFN_VERIFY_NEVER, .source = ffngen_source(), .store = ""};
    if (isa != FFN_ISA_PORTABLE) {
        EXPECT(ffn_machine_generic(isa, &machine, &diag) == FFN_OK, "%s", diag.text);
        options.machine = &machine;
    }
    EXPECT(ffn_context_create(&options, context, &diag) == FFN_OK, "%s", diag.text);
    EXPECT(ffn_kernel_create(*context, spec, &kernel, &diag) == FFN_OK, "%s", diag.text);
    return kernel;
}

/* By the class whose code is made soonest: bits depend on no class. */
static neon_digests digests_of(const neon_layer *layer, ffn_isa isa) {
    ffn_context *context;
    ffn_diag diag = {.text = ""};
    ffn_kernel *kernel = kernel_of(&layer->spec, isa, &context);
    if (isa != FFN_ISA_PORTABLE)
        EXPECT(ffn_kernel_prepare(kernel, neon_rows_of(FFN_N_1), &diag) == FFN_OK, "%s", diag.text);
    neon_digests digests = neon_digests_of(kernel, layer->packed, layer->x);
    ffn_kernel_destroy(kernel);
    ffn_context_destroy(context);
    return digests;
}

static ffn_bytes image_of(const ffn_spec *spec, ffn_n_class n_class) {
    ffn_machine machine;
    ffn_plan plan;
    ffn_bytes image;
    ffn_diag diag = {.text = ""};
    EXPECT(ffn_machine_generic(FFN_ISA_NEON, &machine, &diag) == FFN_OK, "%s", diag.text);
    EXPECT(ffn_plan_make(spec, FFN_ISA_NEON, n_class, &machine, &plan, &diag) == FFN_OK, "%s", diag.text);
    EXPECT(ffngen_emit(spec, &plan, FFNGEN_IMAGE, &image, &diag) == FFN_OK, "%s", diag.text);
    return image;
}

static void write_record(const char *spec, ffn_n_class n_class, FILE *file) {
    neon_record record;
    memset(&record, 0, sizeof record);
    snprintf(record.spec, sizeof record.spec, "%s", spec);
    record.n_class = (int32_t)n_class;
    neon_layer layer = neon_layer_make(spec);
    record.want = digests_of(&layer, FFN_ISA_PORTABLE);
    for (ffn_isa isa = FFN_ISA_PORTABLE + 1; isa < FFN_ISA_COUNT; isa++)
        if (ffn_isa_supported(isa)) {
            neon_digests digests = digests_of(&layer, isa);
            neon_expect_equal(ffn_isa_name(isa), &record, &digests);
        }
    ffn_bytes image = image_of(&layer.spec, n_class);
    record.image_bytes = (uint32_t)image.bytes;
    EXPECT(fwrite(&record, sizeof record, 1, file) == 1 && fwrite(image.data, image.bytes, 1, file) == 1, "write");
    image.release(image.data);
    neon_layer_free(&layer);
}

/* The spec of the i-th shape: which activation, which of its biases. */
static void spec_text(int64_t i, int64_t d_model, int64_t d_ff, size_t activation, char *text, size_t text_bytes) {
    static const char *const biases[] = {"-bias", "", "-bias_up", "-bias_down", "-bias_gate"};
    const ffn_activation *row = ffn_activation_at(activation);
    const char *bias = biases[i % (row->gated ? 5 : 4)];
    snprintf(text, text_bytes, "d%lld-f%lld-%s%s", (long long)d_model, (long long)d_ff, row->name, bias);
}

/* What they return is compared with the document where they run. */
static int write_edges(const char *path) {
    FILE *file = fopen(path, "wb");
    EXPECT(file != NULL, "%s", path);
    edges_list list = edges_make();
    for (int32_t i = 0; i < list.count; i++) {
        const ffn_spec spec = edges_spec(&list, i);
        ffn_bytes image = image_of(&spec, FFN_N_1);
        const uint32_t bytes = (uint32_t)image.bytes;
        EXPECT(fwrite(&bytes, sizeof bytes, 1, file) == 1 && fwrite(image.data, bytes, 1, file) == 1, "write");
        image.release(image.data);
    }
    edges_free(&list);
    EXPECT(fclose(file) == 0, "%s", path);
    return 0;
}

int main(int count, char **words) {
    if (count == 3 && strcmp(words[1], "edges") == 0)
        return write_edges(words[2]);
    if (count != 4)
        return 2;
    const int64_t part = atoi(words[1]), parts = atoi(words[2]);
    FILE *file = fopen(words[3], "wb");
    EXPECT(file != NULL && parts > 0, "%s", words[3]);
    size_t activations = 0;
    while (ffn_activation_at(activations) != NULL)
        activations++;
    EXPECT(activations <= ACTIVATIONS_MAX, "%zu activations", activations);
    bool met[ACTIVATIONS_MAX][FFN_N_CLASSES] = {{false}};
    int64_t i = 0, written = 0;
    for (int64_t d_model = 1; d_model <= SIZE_MAX_TESTED; d_model++)
        for (int64_t d_ff = 1; d_ff <= SIZE_MAX_TESTED; d_ff++) {
            if (!is_chosen(d_model, d_ff))
                continue;
            const size_t activation = (size_t)i % activations;
            const ffn_n_class n_class = (ffn_n_class)((i + i / (int64_t)activations) % FFN_N_CLASSES);
            char text[FFN_SPEC_TEXT_BYTES];
            spec_text(i, d_model, d_ff, activation, text, sizeof text);
            met[activation][n_class] = true;
            if (i++ % parts != part)
                continue;
            write_record(text, n_class, file);
            written++;
        }
    for (size_t a = 0; a < activations; a++)
        for (int c = 0; c < FFN_N_CLASSES; c++)
            EXPECT(met[a][c], "activation %zu never meets class %d", a, c);
    EXPECT(fclose(file) == 0, "%s", words[3]);
    printf("%lld of the %lld shapes\n", (long long)written, (long long)i);
    return 0;
}
