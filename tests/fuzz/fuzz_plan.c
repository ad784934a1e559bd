/* fuzz_plan.c: any text as a plan's line: an error that says something, or a plan whose line is that text. */
#include "ffn.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ffn_diag diag = {0};
    ffn_plan plan;
    char *text = fuzz_text(data, size), line[512];
    if (ffn_plan_parse(text, &plan, &diag) == FFN_OK) {
        FUZZ_CHECK(ffn_plan_format(&plan, line, sizeof line, &diag) == FFN_OK);
        FUZZ_CHECK(strcmp(line, text) == 0);
    } else {
        FUZZ_CHECK(*diag.text);
    }
    free(text);
    return 0;
}
