/* fuzz_safetensors.c: any bytes as a safetensors file: an error that says something, or tensors that lie inside the
 * input, of which the weights of an FFN are then sought */
#include "fuzz.h"
#include "weights.h"

static void tensors_check(const safetensors *file, const uint8_t *data, size_t size) {
    const safetensors_tensor *t;
    int64_t bytes = 0;
    for (size_t i = 0; (t = safetensors_at(file, i)) != NULL; i++) {
        const uint8_t *begin = t->data;
        const float *floats;
        float *owned;
        volatile float sum = 0.0f;
        bytes += t->bytes;
        FUZZ_CHECK(begin >= data && t->bytes >= 0 && t->bytes <= data + size - begin);
        FUZZ_CHECK(safetensors_find(file, t->name) == t);
        if (safetensors_floats(t, &floats, &owned, NULL) != FFN_OK)
            continue;
        for (int64_t k = 0; k < t->elements; k++)
            sum += floats[k];
        free(owned);
    }
    FUZZ_CHECK(bytes <= (int64_t)size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const specs[] = {"d2-f3-relu-bias", "d2-f3-bilinear", "d2-f2-identity"}; /* quick to check */
    static const weights_options options[] = {{0}, {.map = "up=w,down=v"}, {.layout = "out_in", .layer = 1}};
    ffn_diag diag = {0};
    safetensors *file = NULL;
    ffn_status status = safetensors_parse(data, size, "input", &file, &diag);
    if (status != FFN_OK) {
        FUZZ_CHECK(status == FFN_BAD_FILE && !file && diag.status == status && strstr(diag.text, "input"));
        return 0;
    }
    tensors_check(file, data, size);
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        ffn_spec spec;
        weights_file *weights = NULL;
        FUZZ_CHECK(ffn_spec_parse(specs[i], &spec, NULL) == FFN_OK);
        for (size_t k = 0; k < sizeof options / sizeof *options; k++)
            if (weights_find(&spec, file, "input", &options[k], &weights, &diag) == FFN_OK) {
                FUZZ_CHECK(weights_of(weights)->up.data && weights_of(weights)->down.data);
                weights_close(weights); /* the file with it */
                return 0;
            }
    }
    safetensors_close(file);
    return 0;
}
