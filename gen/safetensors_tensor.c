/* safetensors_tensor.c: one tensor of a checked file -> names of its type and shape, its elements as f32 */
#include "safetensors.h"

#include "diag.h"
#include "half.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "safetensors files are little-endian and are used as they are mapped"
#endif

static const struct {
    const char *name;
    int64_t bits;
} dtypes[] = {
#define DTYPE_ROW(name, bits) {#name, bits},
    SAFETENSORS_DTYPE_LIST(DTYPE_ROW)
#undef DTYPE_ROW
};

const char *safetensors_dtype_name(safetensors_dtype dtype) {
    return dtypes[dtype].name;
}

int64_t safetensors_dtype_bits(safetensors_dtype dtype) {
    return dtypes[dtype].bits;
}

void safetensors_shape_format(const safetensors_tensor *tensor, char *text, size_t text_bytes) {
    size_t used = 0;
    for (int32_t i = 0; i < tensor->rank; i++) {
        int length = snprintf(text + used, text_bytes - used, "%s%lld", i ? ", " : "[", (long long)tensor->shape[i]);
        if (length < 0 || (size_t)length >= text_bytes - used)
            return;
        used += (size_t)length;
    }
    snprintf(text + used, text_bytes - used, "%s", tensor->rank ? "]" : "[]");
}

ffn_status safetensors_float_check(const safetensors_tensor *tensor, ffn_diag *diag) {
    if (tensor->dtype != SAFETENSORS_F32 && tensor->dtype != SAFETENSORS_F16 && tensor->dtype != SAFETENSORS_BF16)
        return diag_fail(diag, FFN_BAD_FILE, "tensor '%s' is %s: F32 is needed (F16 and BF16 are widened)",
                         tensor->name, dtypes[tensor->dtype].name);
    return FFN_OK;
}

void safetensors_read(const safetensors_tensor *tensor, int64_t first, int64_t count, float *to) {
    const unsigned char *from = (const unsigned char *)tensor->data + first * dtypes[tensor->dtype].bits / 8;
    if (tensor->dtype == SAFETENSORS_F32) {
        memcpy(to, from, (size_t)count * sizeof *to);
        return;
    }
    float (*widen)(uint16_t) = tensor->dtype == SAFETENSORS_F16 ? half_f16_widen : half_bf16_widen;
    for (int64_t i = 0; i < count; i++) {
        uint16_t bits;
        memcpy(&bits, from + 2 * i, sizeof bits);
        to[i] = widen(bits);
    }
}

ffn_status safetensors_floats(const safetensors_tensor *tensor, const float **data, float **owned, ffn_diag *diag) {
    ffn_status status = safetensors_float_check(tensor, diag);
    if (status != FFN_OK)
        return status;
    if (tensor->dtype == SAFETENSORS_F32 && (uintptr_t)tensor->data % _Alignof(float) == 0) {
        *owned = NULL;
        *data = tensor->data;
        return FFN_OK;
    }
    size_t bytes, count = (size_t)tensor->elements;
    if (__builtin_mul_overflow(count, sizeof(float), &bytes))
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "tensor '%s' is too large to widen", tensor->name);
    float *copy = malloc(bytes ? bytes : 1);
    if (!copy)
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory to widen tensor '%s'", tensor->name);
    safetensors_read(tensor, 0, tensor->elements, copy);
    *owned = copy;
    *data = copy;
    return FFN_OK;
}
