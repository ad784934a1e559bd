/* aarch64_edges.c: docs/edges.md and the images of `neon_images edges` -> whether NEON code and the portable kernel of
 * this build return what the document says, or a line that says where not
 *
 *   aarch64_edges DOCUMENT FILE
 *
 * Built for AArch64 with libffn inside and run under an emulator by tests/aarch64.sh. */
#include "expect.h"
#include "support_edges.h"

static void hold(const edges_list *list, int32_t i, FILE *file) {
    const ffn_spec spec = edges_spec(list, i);
    const ffn_options options = {.verify = FFN_VERIFY_NEVER, .store = "", .compiler = ""};
    ffn_context *context;
    ffn_kernel *kernel;
    ffn_kernel_info info;
    ffn_diag diag = {.text = ""};
    char why[EDGES_WHY_BYTES];
    uint32_t bytes;
    EXPECT(fread(&bytes, sizeof bytes, 1, file) == 1, "fewer images than cases");
    void *image = malloc(bytes);
    EXPECT(image != NULL && fread(image, bytes, 1, file) == 1, "an image is cut off");
    EXPECT(ffn_context_create(&options, &context, &diag) == FFN_OK, "%s", diag.text);
    EXPECT(ffn_kernel_create(context, &spec, &kernel, &diag) == FFN_OK, "%s", diag.text);
    EXPECT(edges_activate_hold(kernel, &list->cases[i], 1, 1, why), "portable: %s", why);
    EXPECT(ffn_kernel_load(kernel, image, bytes, &diag) == FFN_OK, "%s: %s", list->cases[i].activation, diag.text);
    ffn_kernel_inspect(kernel, 1, &info);
    EXPECT(info.isa == FFN_ISA_NEON, "%s: it does not serve", list->cases[i].activation);
    EXPECT(edges_activate_hold(kernel, &list->cases[i], 1, 4, why), "neon: %s", why);
    EXPECT(edges_hidden_hold(kernel, &list->cases[i], 1, why), "neon: %s", why);
    ffn_kernel_destroy(kernel);
    ffn_context_destroy(context);
    free(image);
}

int main(int count, char **words) {
    FILE *file = count == 3 ? fopen(words[2], "rb") : NULL;
    EXPECT(file != NULL, "a document and a file of images are needed");
    edges_list list = edges_make();
    char why[EDGES_WHY_BYTES];
    EXPECT(edges_read(&list, words[1], why), "%s", why);
    for (int32_t i = 0; i < list.count; i++)
        hold(&list, i, file);
    printf("edge values of %d activations\n", (int)list.count);
    edges_free(&list);
    fclose(file);
    return 0;
}
