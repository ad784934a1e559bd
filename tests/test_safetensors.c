/* safetensors files: every claim of a header is checked against the file; 16-bit floats widen exactly. */
#include "half.h"
#include "safetensors.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- A file in memory: length, JSON, then data bytes 0, 1, 2, ... ---- */

typedef struct buffer {
    unsigned char *bytes;
    size_t size;
} buffer;

static buffer build(const char *json, size_t json_bytes, size_t data_bytes) {
    buffer b = {NULL, 8 + json_bytes + data_bytes};
    b.bytes = malloc(b.size);
    cr_assert_not_null(b.bytes);
    for (size_t i = 0; i < 8; i++)
        b.bytes[i] = (unsigned char)((uint64_t)json_bytes >> 8 * i);
    memcpy(b.bytes + 8, json, json_bytes);
    for (size_t i = 0; i < data_bytes; i++)
        b.bytes[8 + json_bytes + i] = (unsigned char)i;
    return b;
}

static ffn_status parse(const char *json, size_t data_bytes, safetensors **file, ffn_diag *diag) {
    buffer b = build(json, strlen(json), data_bytes);
    ffn_status status = safetensors_parse(b.bytes, b.size, "m", file, diag);
    cr_assert(status != FFN_OK, "use build() for files that are good");
    free(b.bytes);
    return status;
}

/* The header is refused with BAD_FILE, the message holds `words`, and the output is untouched. */
static void refuse(const char *json, size_t data_bytes, const char *words) {
    safetensors *file = (safetensors *)&file;
    ffn_diag diag = {0};
    cr_expect_eq(parse(json, data_bytes, &file, &diag), FFN_BAD_FILE, "%s", json);
    cr_expect_eq(file, (safetensors *)&file);
    cr_expect_not_null(strstr(diag.text, words), "'%s' lacks '%s'", diag.text, words);
}

#define TENSOR(dtype, shape, begin, end) \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}"

static const char two[] =
    "{\"__metadata__\":{\"orientation\":\"in_out\"},\"b\":" TENSOR("F32", "[2,3]", "0", "24") ",\"a\":" TENSOR(
        "F16", "[4]", "24", "32") ",\"none\":" TENSOR("I8", "[0,7]", "32", "32") "}  ";

Test(safetensors, holds_what_the_header_says) {
    buffer b = build(two, strlen(two), 32);
    safetensors *file;
    ffn_diag diag;
    cr_assert_eq(safetensors_parse(b.bytes, b.size, "m", &file, &diag), FFN_OK, "%s", diag.text);
    const safetensors_tensor *t = safetensors_find(file, "b");
    cr_assert_not_null(t);
    cr_expect_eq(t->dtype, SAFETENSORS_F32);
    cr_expect(t->rank == 2 && t->shape[0] == 2 && t->shape[1] == 3 && t->elements == 6 && t->bytes == 24);
    cr_expect_eq((const unsigned char *)t->data, b.bytes + 8 + strlen(two));
    char shape[64];
    safetensors_shape_format(t, shape, sizeof shape);
    cr_expect_str_eq(shape, "[2, 3]");
    cr_expect_str_eq(safetensors_at(file, 0)->name, "a");
    cr_expect_str_eq(safetensors_at(file, 1)->name, "b");
    cr_expect_eq(safetensors_at(file, 2)->elements, 0);
    cr_expect_null(safetensors_at(file, 3));
    cr_expect_null(safetensors_find(file, "c"));
    cr_expect_null(safetensors_find(file, "__metadata__"));
    cr_expect_str_eq(safetensors_metadata(file, "orientation"), "in_out");
    cr_expect_null(safetensors_metadata(file, "other"));
    safetensors_close(file);
    free(b.bytes);
}

Test(safetensors, may_hold_nothing) {
    buffer b = build("{}", 2, 0);
    safetensors *file;
    cr_assert_eq(safetensors_parse(b.bytes, b.size, "m", &file, NULL), FFN_OK);
    cr_expect_null(safetensors_at(file, 0));
    cr_expect_null(safetensors_find(file, "w1"));
    cr_expect_null(safetensors_metadata(file, "w1"));
    safetensors_close(file);
    free(b.bytes);
}

Test(safetensors, reads_f32_at_any_alignment) {
    /* The header's length decides where the floats come to lie; on each of the four alignments they are the same. */
    for (size_t pad = 0; pad < 4; pad++) {
        char json[256];
        snprintf(json, sizeof json, "{\"w\":%s}%.*s", TENSOR("F32", "[2,3]", "0", "24"), (int)pad, "   ");
        buffer b = build(json, strlen(json), 24);
        safetensors *file;
        cr_assert_eq(safetensors_parse(b.bytes, b.size, "m", &file, NULL), FFN_OK);
        const safetensors_tensor *t = safetensors_find(file, "w");
        const float *data;
        float *owned;
        cr_assert_eq(safetensors_floats(t, &data, &owned, NULL), FFN_OK);
        cr_expect_eq((uintptr_t)data % _Alignof(float), 0u);
        cr_expect_eq(owned == NULL, (uintptr_t)t->data % _Alignof(float) == 0);
        cr_expect_eq(memcmp(data, t->data, 24), 0);
        free(owned);
        safetensors_close(file);
        free(b.bytes);
    }
}

Test(safetensors, widens_f16_and_bf16_and_refuses_other_types) {
    static const char json[] = "{\"h\":" TENSOR("F16", "[2]", "0", "4") ",\"b\":" TENSOR(
        "BF16", "[2]", "4", "8") ",\"d\":" TENSOR("F64", "[1]", "8", "16") "}";
    static const unsigned char data[16] = {0x00, 0x3c, 0x01, 0x00, 0x80, 0x3f, 0x49, 0xc0};
    buffer b = build(json, strlen(json), sizeof data);
    memcpy(b.bytes + 8 + strlen(json), data, sizeof data);
    safetensors *file;
    const float *floats = NULL;
    float *owned = NULL;
    ffn_diag diag;
    cr_assert_eq(safetensors_parse(b.bytes, b.size, "m", &file, &diag), FFN_OK, "%s", diag.text);
    cr_assert_eq(safetensors_floats(safetensors_find(file, "h"), &floats, &owned, NULL), FFN_OK);
    cr_expect(floats == owned && floats[0] == 1.0f && floats[1] == 0x1p-24f);
    free(owned);
    cr_assert_eq(safetensors_floats(safetensors_find(file, "b"), &floats, &owned, NULL), FFN_OK);
    cr_expect(floats[0] == 1.0f && floats[1] == -3.140625f);
    free(owned);
    cr_expect_eq(safetensors_floats(safetensors_find(file, "d"), &floats, &owned, &diag), FFN_BAD_FILE);
    cr_expect_not_null(strstr(diag.text, "'d' is F64"), "%s", diag.text);
    safetensors_close(file);
    free(b.bytes);
}

/* ---- Bad files ---- */

Test(safetensors, refuses_offsets_that_lie) {
    refuse("{\"w\":" TENSOR("F32", "[2]", "0", "8") "}", 7, "ends at byte 8");
    refuse("{\"w\":" TENSOR("F32", "[2]", "0", "4") "}", 8, "needs 8 bytes");
    refuse("{\"w\":" TENSOR("F32", "[2]", "8", "0") "}", 8, "begin <= end");
    refuse("{\"w\":" TENSOR("F32", "[2]", "-8", "0") "}", 8, "begin <= end");
    refuse("{\"w\":" TENSOR("F32", "[2]", "0.5", "8.5") "}", 9, "begin <= end");
    refuse("{\"w\":" TENSOR("F32", "[2]", "0", "8,8") "}", 8, "begin <= end");
    refuse("{\"w\":" TENSOR("F32", "[2]", "\"0\"", "8") "}", 8, "begin <= end");
    refuse("{\"w\":" TENSOR("F32", "[2]", "0", "1e300") "}", 8, "begin <= end");
    refuse("{\"w\":" TENSOR("F32", "[2]", "9223372036854775800", "9223372036854775808") "}", 8, "begin <= end");
    refuse("{\"w\":" TENSOR("F32", "[2]", "0", "8") "}", 9, "last 1 bytes belong to no tensor");
    refuse("{\"w\":" TENSOR("F32", "[2]", "4", "12") "}", 12, "4 bytes before 'w'");
    refuse("{\"w\":" TENSOR("F32", "[2]", "0", "8") ",\"v\":" TENSOR("F32", "[2]", "0", "8") "}", 8, "overlap");
    refuse("{\"w\":" TENSOR("F32", "[2]", "0", "8") ",\"v\":" TENSOR("F32", "[2]", "4", "12") "}", 12, "overlap");
    refuse("{\"w\":" TENSOR("F32", "[4]", "0", "16") ",\"v\":" TENSOR("F32", "[0]", "8", "8") "}", 16, "overlap");
}

Test(safetensors, refuses_shapes_that_lie) {
    refuse("{\"w\":" TENSOR("F32", "[-2]", "0", "8") "}", 8, "dimension 0");
    refuse("{\"w\":" TENSOR("F32", "[1,2.5]", "0", "8") "}", 8, "dimension 1");
    refuse("{\"w\":" TENSOR("F32", "[null]", "0", "8") "}", 8, "dimension 0");
    refuse("{\"w\":" TENSOR("F32", "7", "0", "28") "}", 28, "not a list");
    refuse("{\"w\":" TENSOR("F32", "[1,1,1,1,1,1,1,1,2]", "0", "8") "}", 8, "more than 8 dimensions");
    /* 2^62 * 4 elements of 4 bytes: 2^66 wraps to 0 and to 8 in other arithmetic. */
    refuse("{\"w\":" TENSOR("F32", "[4294967296,4294967296]", "0", "0") "}", 0, "overflows");
    refuse("{\"w\":" TENSOR("F32", "[4503599627370496,1024]", "0", "0") "}", 0, "overflows");
    refuse("{\"w\":" TENSOR("F32", "[9007199254740993]", "0", "0") "}", 0, "needs 36028797018963968 bytes");
    refuse("{\"w\":" TENSOR("F32", "[18014398509481984]", "0", "0") "}", 0, "dimension 0");
    refuse("{\"w\":" TENSOR("F4", "[3]", "0", "1") "}", 1, "whole bytes");
    refuse("{\"w\":" TENSOR("f32", "[2]", "0", "8") "}", 8, "dtype 'f32'");
    refuse("{\"w\":{\"dtype\":4,\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "not a string");
}

Test(safetensors, refuses_headers_that_are_no_description) {
    refuse("", 0, "does not begin with '{'");
    refuse("[]", 0, "does not begin with '{'");
    refuse("{", 0, "not valid JSON");
    refuse("{}x", 0, "not valid JSON");
    refuse("{\"w\"", 0, "not valid JSON");
    refuse("{\"w\":1}", 0, "not described by an object");
    refuse("{\"w\":{}}", 0, "has no 'dtype'");
    refuse("{\"w\":{\"dtype\":\"F32\",\"shape\":[]}}", 0, "has no 'data_offsets'");
    refuse("{\"w\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", 0, "repeats the field 'dtype'");
    refuse("{\"w\":{\"dtype\":\"F32\",\"size\":3}}", 0, "may not have the field 'size'");
    refuse("{\"\":" TENSOR("F32", "[]", "0", "4") "}", 4, "name is empty");
    refuse("{\"a\\u001b[2J\":" TENSOR("F32", "[]", "0", "4") "}", 4, "control characters");
    refuse("{\"__metadata__\":{\"a\":1}}", 0, "not an object of strings");
    refuse("{\"__metadata__\":[\"a\"]}", 0, "not an object of strings");
    refuse("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "there twice");
    refuse("{\"w\":" TENSOR("F32", "[1]", "0", "4") ",\"w\":" TENSOR("F32", "[1]", "4", "8") "}", 8,
           "two tensors are named 'w'");
    refuse("{\"w\\u0000x\":" TENSOR("F32", "[1]", "0", "4") "}", 4, "NUL character");
    refuse("{\"w\":[[[[[[[[1]]]]]]]]}", 0, "nested more than 8 deep");
}

Test(safetensors, refuses_a_nul_byte_wherever_it_stands) {
    buffer good = build(two, strlen(two), 32);
    for (size_t i = 8; i < 8 + strlen(two); i++) {
        unsigned char kept = good.bytes[i];
        safetensors *file;
        good.bytes[i] = '\0';
        cr_expect_eq(safetensors_parse(good.bytes, good.size, "m", &file, NULL), FFN_BAD_FILE);
        good.bytes[i] = kept;
    }
    free(good.bytes);
    /* An escaped backslash before u0000 is no NUL. */
    static const char json[] = "{\"w\\\\u0000\":" TENSOR("F32", "[1]", "0", "4") "}";
    buffer b = build(json, strlen(json), 4);
    safetensors *file;
    cr_assert_eq(safetensors_parse(b.bytes, b.size, "m", &file, NULL), FFN_OK);
    cr_expect_not_null(safetensors_find(file, "w\\u0000"));
    safetensors_close(file);
    free(b.bytes);
}

Test(safetensors, refuses_headers_that_would_take_all_memory) {
    size_t bytes = 12u << 20;
    char *json = malloc(bytes);
    cr_assert_not_null(json);
    memset(json, ',', bytes);
    for (size_t i = 0; i < bytes; i += 2)
        json[i] = '0';
    memcpy(json, "{\"w\":[", 6);
    memcpy(json + bytes - 2, "]}", 2);
    buffer b = build(json, bytes, 0);
    safetensors *file;
    ffn_diag diag;
    cr_expect_eq(safetensors_parse(b.bytes, b.size, "m", &file, &diag), FFN_BAD_FILE);
    cr_expect_not_null(strstr(diag.text, "values"), "%s", diag.text);
    free(b.bytes);
    free(json);
}

Test(safetensors, refuses_every_truncation) {
    buffer good = build(two, strlen(two), 32);
    for (size_t size = 0; size < good.size; size++) {
        unsigned char *part = malloc(size + !size); /* its own block, so that a sanitizer sees reads past the end */
        cr_assert_not_null(part);
        memcpy(part, good.bytes, size);
        safetensors *file;
        ffn_diag diag = {0};
        cr_expect_eq(safetensors_parse(part, size, "m", &file, &diag), FFN_BAD_FILE, "%zu", size);
        cr_expect(strncmp(diag.text, "m", 1) == 0 && strlen(diag.text) > 10);
        free(part);
    }
    free(good.bytes);
}

Test(safetensors, survives_every_flipped_bit) {
    buffer good = build(two, strlen(two), 32);
    for (size_t i = 0; i < 8 * (8 + strlen(two)); i++) {
        good.bytes[i / 8] ^= (unsigned char)(1u << i % 8);
        safetensors *file;
        if (safetensors_parse(good.bytes, good.size, "m", &file, NULL) == FFN_OK) {
            const safetensors_tensor *t;
            for (size_t k = 0; (t = safetensors_at(file, k)) != NULL; k++) {
                const unsigned char *begin = t->data;
                cr_expect(begin >= good.bytes && begin + t->bytes <= good.bytes + good.size);
            }
            safetensors_close(file);
        }
        good.bytes[i / 8] ^= (unsigned char)(1u << i % 8);
    }
    free(good.bytes);
}

Test(safetensors, refuses_a_header_length_beyond_the_file_or_reason) {
    buffer b = build("{}", 2, 0);
    static const uint64_t lengths[] = {3, 100000000, 100000001, INT64_MAX, UINT64_MAX, UINT64_MAX - 7};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        safetensors *file;
        memcpy(b.bytes, &lengths[i], 8);
        ffn_diag diag;
        cr_expect_eq(safetensors_parse(b.bytes, b.size, "m", &file, &diag), FFN_BAD_FILE);
        const char *words = lengths[i] > 100000000 ? "at most 100000000 are allowed" : "is truncated";
        cr_expect_not_null(strstr(diag.text, words), "%s", diag.text);
    }
    free(b.bytes);
}

/* ---- Halves: all 65536 values, against arithmetic in double ---- */

static double value_of(unsigned bits, int exponent_bits, int mantissa_bits) {
    int bias = (1 << (exponent_bits - 1)) - 1;
    unsigned exponent = bits >> mantissa_bits & ((1u << exponent_bits) - 1);
    double mantissa = (double)(bits & ((1u << mantissa_bits) - 1));
    double sign = bits >> (exponent_bits + mantissa_bits) ? -1.0 : 1.0;
    if (exponent == (1u << exponent_bits) - 1)
        return mantissa == 0.0 ? sign * INFINITY : NAN;
    if (exponent == 0)
        return sign * ldexp(mantissa, 1 - bias - mantissa_bits);
    return sign * ldexp(1.0 + ldexp(mantissa, -mantissa_bits), (int)exponent - bias);
}

static void halves_check(float (*widen)(uint16_t), int exponent_bits, int mantissa_bits) {
    for (unsigned bits = 0; bits < 65536; bits++) {
        float got = widen((uint16_t)bits);
        double want = value_of(bits, exponent_bits, mantissa_bits);
        uint32_t got_bits;
        memcpy(&got_bits, &got, sizeof got_bits);
        if (isnan(want)) {
            uint32_t payload = (bits & ((1u << mantissa_bits) - 1)) << (23 - mantissa_bits);
            uint32_t quiet = (bits & 0x8000u) << 16 | 0x7fc00000u | payload;
            cr_assert_eq(got_bits, quiet, "%04x -> %08x", bits, got_bits);
        } else {
            cr_assert((double)got == want && !signbit(got) == !signbit(want), "%04x -> %a, not %a", bits, (double)got,
                      want);
        }
    }
}

Test(half, f16_widens_exactly) {
    halves_check(half_f16_widen, 5, 10);
}

Test(half, bf16_widens_exactly) {
    halves_check(half_bf16_widen, 8, 7);
}
