/* fuzz_npy.c: any bytes as a .npy file: an error that says something, or rows that can all be read */
#include "fuzz.h"
#include "npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    float *values = NULL;
    int64_t n = -1, d = -1;
    ffn_diag diag = {0};
    ffn_status status = npy_parse(data, size, "input", &values, &n, &d, &diag);
    if (status != FFN_OK) {
        FUZZ_CHECK(status == FFN_BAD_FILE && !values && n == -1 && d == -1);
        FUZZ_CHECK(diag.status == status && strstr(diag.text, "input"));
        return 0;
    }
    FUZZ_CHECK(values && n >= 0 && d >= 1);
    volatile float sum = 0.0f;
    for (int64_t i = 0; i < n * d; i++)
        sum += values[i];
    free(values);
    return 0;
}
