/* fuzz_spec.c: any text as a spec: an error that says something, or a spec whose text parses back to it and whose names
 * can be used for files and symbols */
#include "ffn.h"
#include "fuzz.h"

static void name_check(const ffn_spec *spec, bool symbol) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    char name[FFN_SPEC_NAME_BYTES];
    FUZZ_CHECK(ffn_spec_name(spec, symbol, name, sizeof name, NULL) == FFN_OK);
    for (const char *c = name; *c; c++)
        FUZZ_CHECK(strchr(letters, *c) || (!symbol && (*c == '-' || *c == '.')));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = fuzz_text(data, size);
    ffn_spec spec, again;
    char canonical[FFN_SPEC_TEXT_BYTES], second[FFN_SPEC_TEXT_BYTES];
    ffn_diag diag = {0};
    ffn_status status = ffn_spec_parse(text, &spec, &diag);
    free(text);
    if (status != FFN_OK) {
        FUZZ_CHECK(diag.status == status && *diag.text);
        return 0;
    }
    FUZZ_CHECK(ffn_spec_check(&spec, NULL) == FFN_OK);
    FUZZ_CHECK(ffn_spec_format(&spec, canonical, sizeof canonical, NULL) == FFN_OK);
    FUZZ_CHECK(ffn_spec_parse(canonical, &again, NULL) == FFN_OK);
    FUZZ_CHECK(ffn_spec_equal(&spec, &again) && ffn_spec_gated(&spec) == ffn_spec_gated(&again));
    FUZZ_CHECK(ffn_spec_format(&again, second, sizeof second, NULL) == FFN_OK && strcmp(canonical, second) == 0);
    name_check(&spec, false);
    name_check(&spec, true);
    return 0;
}
