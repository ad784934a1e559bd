/* .npy arrays: files written by NumPy 1.24 (tests/fuzz/corpus/npy) are read right, bad ones are refused, and what is
 * written has the bytes NumPy writes. */
#include "file.h"
#include "npy.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CORPUS FFN_SOURCE_DIR "/tests/fuzz/corpus/npy/"

/* What NumPy was given: arange(6).reshape(2, 3) / 4 - 0.5. */
static const float six[6] = {-0.5f, -0.25f, 0.0f, 0.25f, 0.5f, 0.75f};

static void reads(const char *path, int64_t n, int64_t d, const float *want) {
    float *data = NULL;
    int64_t rows = -1, columns = -1;
    ffn_diag diag = {0};
    cr_assert_eq(npy_read(path, &data, &rows, &columns, &diag), FFN_OK, "%s", diag.text);
    cr_expect(rows == n && columns == d, "%s: [%lld, %lld]", path, (long long)rows, (long long)columns);
    cr_assert_not_null(data);
    for (int64_t i = 0; i < n * d; i++)
        cr_expect_eq(data[i], want[i], "%s: [%lld] is %a", path, (long long)i, (double)data[i]);
    free(data);
}

static void refuses(const char *path, const char *words) {
    float *data = NULL;
    int64_t n = -1, d = -1;
    ffn_diag diag = {0};
    cr_expect_eq(npy_read(path, &data, &n, &d, &diag), FFN_BAD_FILE, "%s", path);
    cr_expect(!data && n == -1 && d == -1);
    cr_expect_not_null(strstr(diag.text, words), "'%s' lacks '%s'", diag.text, words);
}

Test(npy, reads_each_version_and_order) {
    reads(CORPUS "c_f4.npy", 2, 3, six);
    reads(CORPUS "version_1.npy", 2, 3, six);
    reads(CORPUS "version_2.npy", 2, 3, six);
    reads(CORPUS "version_3.npy", 2, 3, six);
    reads(CORPUS "fortran_f4.npy", 2, 3, six);
}

Test(npy, takes_the_last_dimension_as_d_and_the_others_as_n) {
    float counted[24];
    for (int i = 0; i < 24; i++)
        counted[i] = (float)i;
    reads(CORPUS "vector.npy", 1, 3, six);
    reads(CORPUS "batch.npy", 2, 3, six);
    reads(CORPUS "fortran_3d.npy", 6, 4, counted);
    reads(CORPUS "no_rows.npy", 0, 3, NULL);
}

Test(npy, converts_f2_and_f8) {
    float tenth[6];
    for (int i = 0; i < 6; i++)
        tenth[i] = (float)((double)six[i] + 0.1);
    reads(CORPUS "f2.npy", 2, 3, six);
    reads(CORPUS "f8.npy", 2, 3, tenth);
}

Test(npy, refuses_other_types) {
    refuses(CORPUS "i8.npy", "holds '<i8': '<f4' is needed");
    refuses(CORPUS "big_endian.npy", "holds '>f4'");
    refuses(CORPUS "records.npy", "holds records");
    refuses(CORPUS "scalar.npy", "single number");
    refuses(CORPUS "f8_large.npy", "value 1 (counted from 0) is too large for f32");
}

/* ---- Headers by hand ---- */

typedef struct buffer {
    unsigned char bytes[512];
    size_t size;
} buffer;

static buffer build(int version, const char *header, size_t data_bytes) {
    buffer b = {{0}, 0};
    size_t length = strlen(header), start = version == 1 ? 10 : 12;
    cr_assert(start + length + data_bytes <= sizeof b.bytes);
    memcpy(b.bytes, "\x93NUMPY", 6);
    b.bytes[6] = (unsigned char)version;
    b.bytes[8] = (unsigned char)length;
    b.bytes[9] = (unsigned char)(length >> 8);
    memcpy(b.bytes + start, header, length);
    for (size_t i = 0; i < data_bytes / 4; i++)
        memcpy(b.bytes + start + length + 4 * i, &(float){(float)i}, 4);
    b.size = start + length + data_bytes;
    return b;
}

static ffn_status parse(const buffer *b, size_t size, ffn_diag *diag) {
    unsigned char *copy = malloc(size + !size); /* its own block, so that a sanitizer sees reads past the end */
    cr_assert_not_null(copy);
    memcpy(copy, b->bytes, size);
    float *data = NULL;
    int64_t n, d;
    ffn_status status = npy_parse(copy, size, "m", &data, &n, &d, diag);
    cr_expect_eq(data != NULL, status == FFN_OK);
    free(data);
    free(copy);
    return status;
}

static void header_refused(const char *header, size_t data_bytes, const char *words) {
    buffer b = build(1, header, data_bytes);
    ffn_diag diag = {0};
    cr_expect_eq(parse(&b, b.size, &diag), FFN_BAD_FILE, "%s", header);
    cr_expect_not_null(strstr(diag.text, words), "'%s' lacks '%s'", diag.text, words);
}

Test(npy, reads_the_header_as_the_dictionary_it_is) {
    static const char *const good[] = {
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }",
        "{\"shape\":(2,),\"fortran_order\":True,\"descr\":\"<f4\"}",
        "  {'shape' : ( 1L , 2L ) , 'descr':'<f4','fortran_order':False }  \n",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        for (int version = 1; version <= 3; version++) {
            buffer b = build(version, good[i], 8);
            ffn_diag diag = {0};
            cr_expect_eq(parse(&b, b.size, &diag), FFN_OK, "%s: %s", good[i], diag.text);
        }
}

Test(npy, refuses_headers_that_are_no_such_dictionary) {
    header_refused("", 8, "no '{'");
    header_refused("{", 8, "no key");
    header_refused("{}", 8, "lacks");
    header_refused("{'descr': '<f4', 'shape': (2,)}", 8, "lacks");
    header_refused("{'descr': '<f4', 'descr': '<f4', 'shape': (2,)}", 8, "repeats the key 'descr'");
    header_refused("{'order': 'C'}", 8, "may not have the key 'order'");
    header_refused("{'descr': '<f4' 'shape': (2,)}", 8, "',' or '}'");
    header_refused("{'descr': 4}", 8, "no type");
    header_refused("{'descr': '<f4\\n'}", 8, "no type");
    header_refused("{'descr': '<f4", 8, "no type");
    header_refused("{'descr': '"
                   "<f4<f4<f4<f4<f4<f4<f4<f4<f4<f4<f4<f4<f4<f4<f4<f4<f4<f4<f4<f4<f4<f4<f4'}",
                   8, "no type");
    header_refused("{'fortran_order': Maybe}", 8, "True or False");
    header_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x", 8, "no end");
    header_refused("{'descr': '<f4', 'fortran_order': False, 'shape': [2]}", 8, "'(' of a shape");
    header_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (,)}", 8, "number in the shape");
    header_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}", 8, "number in the shape");
    header_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (2 1)}", 8, "',' or ')'");
    header_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,2)}", 8, "more than 8");
}

Test(npy, refuses_shapes_that_lie) {
#define SHAPE(shape) "{'descr': '<f4', 'fortran_order': False, 'shape': " shape "}"
    header_refused(SHAPE("(3,)"), 8, "is truncated: its header says 12 bytes of data, 8 are there");
    header_refused(SHAPE("(1,)"), 8, "has bytes past its end");
    header_refused(SHAPE("(0, 2)"), 8, "has bytes past its end");
    header_refused(SHAPE("(2, 0)"), 0, "last dimension is 0");
    header_refused(SHAPE("(99999999999999999999,)"), 8, "larger than 2^63");
    header_refused(SHAPE("(9223372036854775807,)"), 8, "larger than 2^63");
    /* 2^33 * 2^31 * 4 bytes = 2^66: 0 where it wraps. */
    header_refused(SHAPE("(8589934592, 2147483648)"), 0, "larger than 2^63");
    header_refused(SHAPE("(4294967296, 536870912)"), 0, "larger than 2^63");
    header_refused(SHAPE("(4611686018427387904, 4, 2)"), 0, "larger than 2^63");
    header_refused(SHAPE("(1000000, 1000000)"), 8, "is truncated");
}

Test(npy, refuses_other_versions_and_long_headers) {
    buffer b = build(1, SHAPE("(2,)"), 8);
    ffn_diag diag;
    static const unsigned char versions[][2] = {{0, 0}, {4, 0}, {1, 1}, {255, 255}};
    for (size_t i = 0; i < 4; i++) {
        b.bytes[6] = versions[i][0];
        b.bytes[7] = versions[i][1];
        cr_expect_eq(parse(&b, b.size, &diag), FFN_BAD_FILE);
        cr_expect_not_null(strstr(diag.text, ".npy version"), "%s", diag.text);
    }
    b = build(2, SHAPE("(2,)"), 8);
    b.bytes[11] = 0xff;
    cr_expect_eq(parse(&b, b.size, &diag), FFN_BAD_FILE);
    b.bytes[0] = 'N';
    cr_expect_eq(parse(&b, b.size, &diag), FFN_BAD_FILE);
    cr_expect_not_null(strstr(diag.text, "not a .npy file"), "%s", diag.text);
}

Test(npy, refuses_every_truncation) {
    for (int version = 1; version <= 3; version++) {
        buffer b = build(version, SHAPE("(3, 2)"), 24);
        for (size_t size = 0; size < b.size; size++) {
            ffn_diag diag = {0};
            cr_expect_eq(parse(&b, size, &diag), FFN_BAD_FILE, "%zu", size);
            cr_expect_not_null(strstr(diag.text, size < 10 ? "is not a .npy file" : "is truncated"), "%s", diag.text);
        }
        cr_expect_eq(parse(&b, b.size, NULL), FFN_OK);
    }
}

Test(npy, survives_every_flipped_bit) {
    buffer b = build(1, SHAPE("(3, 2)"), 24);
    for (size_t i = 0; i < 8 * b.size; i++) {
        b.bytes[i / 8] ^= (unsigned char)(1u << i % 8);
        parse(&b, b.size, NULL);
        b.bytes[i / 8] ^= (unsigned char)(1u << i % 8);
    }
}

/* ---- Writing ---- */

static char path[64];

static void path_make(void) {
    snprintf(path, sizeof path, "/tmp/ffn-test-npy-XXXXXX");
    int descriptor = mkstemp(path);
    cr_assert(descriptor >= 0);
    close(descriptor);
}

static void path_remove(void) {
    unlink(path);
}

static bool same_files(const char *left, const char *right) {
    file_map a, b;
    cr_assert_eq(file_map_open(left, SIZE_MAX, &a, NULL), FFN_OK);
    cr_assert_eq(file_map_open(right, SIZE_MAX, &b, NULL), FFN_OK);
    bool same = a.bytes == b.bytes && memcmp(a.data, b.data, a.bytes) == 0;
    file_map_close(&a);
    file_map_close(&b);
    return same;
}

Test(npy, writes_the_bytes_numpy_writes, .init = path_make, .fini = path_remove) {
    float padded[2][5] = {{six[0], six[1], six[2], NAN, NAN}, {six[3], six[4], six[5], NAN, NAN}};
    cr_assert_eq(npy_write(path, six, 2, 3, 3, NULL), FFN_OK);
    cr_expect(same_files(path, CORPUS "c_f4.npy"));
    cr_assert_eq(npy_write(path, padded[0], 2, 3, 5, NULL), FFN_OK);
    cr_expect(same_files(path, CORPUS "c_f4.npy"));
    cr_assert_eq(npy_write(path, NULL, 0, 3, 3, NULL), FFN_OK);
    cr_expect(same_files(path, CORPUS "no_rows.npy"));
}

Test(npy, reads_back_every_bit_written, .init = path_make, .fini = path_remove) {
    static const uint32_t bits[4] = {0x80000000, 0x7f800001, 0x00000001, 0xffc00123};
    float values[4], *data = NULL;
    int64_t n, d;
    memcpy(values, bits, sizeof values);
    cr_assert_eq(npy_write(path, values, 4, 1, 1, NULL), FFN_OK);
    cr_assert_eq(npy_read(path, &data, &n, &d, NULL), FFN_OK);
    cr_expect(n == 4 && d == 1 && memcmp(data, bits, sizeof bits) == 0);
    free(data);
}

Test(npy, writing_refuses_bad_arguments_and_places, .init = path_make, .fini = path_remove) {
    ffn_diag diag;
    cr_expect_eq(npy_write(path, six, 2, 3, 2, &diag), FFN_BAD_ARGUMENT);
    cr_expect_eq(npy_write(path, six, -1, 3, 3, &diag), FFN_BAD_ARGUMENT);
    cr_expect_eq(npy_write(path, six, 2, 0, 3, &diag), FFN_BAD_ARGUMENT);
    cr_expect_eq(npy_write("/nowhere/x.npy", six, 2, 3, 3, &diag), FFN_SYSTEM);
    cr_expect_not_null(strstr(diag.text, "/nowhere/x.npy cannot be written"), "%s", diag.text);
    float *data;
    int64_t n, d;
    cr_expect_eq(npy_read("/nowhere/x.npy", &data, &n, &d, &diag), FFN_SYSTEM);
    cr_expect_not_null(strstr(diag.text, "/nowhere/x.npy cannot be opened"), "%s", diag.text);
}
