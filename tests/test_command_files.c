/* The built command and files: weights and rows in, rows and code out, the main job on a trained layer. */
#define _GNU_SOURCE
#include "support_command.h"
#include "support_oracle.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(command_files, .timeout = 600);

/* ---- Files ---- */

static char folder[64];

static const char *in_folder(const char *name) {
    static char paths[8][160];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void make_folder(void) {
    snprintf(folder, sizeof folder, "/tmp/ffn_command_XXXXXX");
    cr_assert(mkdtemp(folder));
}

static void remove_folder(void) {
    static const char *const names[] = {"x.npy", "y.npy", "z.npy", "w.safetensors", "k.s", "k.o", "k.img"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(in_folder(names[i]));
    cr_expect_eq(rmdir(folder), 0, "something is left over in %s", folder);
}

static void write_bytes(const char *path, const void *data, size_t bytes) {
    FILE *file = fopen(path, "wb");
    cr_assert(file && fwrite(data, 1, bytes, file) == bytes && fclose(file) == 0);
}

static size_t read_bytes(const char *path, void *data, size_t room) {
    FILE *file = fopen(path, "rb");
    cr_assert(file, "%s is not there", path);
    size_t bytes = fread(data, 1, room, file);
    fclose(file);
    return bytes;
}

/* NumPy's format 1.0, as its documentation has it. */
static void write_npy(const char *path, const float *rows, int n, int d) {
    char header[128];
    memset(header, ' ', sizeof header);
    memcpy(header, "\x93NUMPY\x01\x00\x76\x00", 10);
    int length = snprintf(header + 10, 118, "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }", n, d);
    header[10 + length] = ' ';
    header[127] = '\n';
    size_t bytes = (size_t)(n * d) * sizeof *rows;
    char *file = malloc(sizeof header + bytes);
    memcpy(file, header, sizeof header);
    memcpy(file + sizeof header, rows, bytes);
    write_bytes(path, file, sizeof header + bytes);
    free(file);
}

/* The rows of a file of that format, whatever the length of its header. */
static void read_npy(const char *path, float *rows, int n, int d) {
    static unsigned char file[1 << 20];
    char shape[32];
    size_t bytes = read_bytes(path, file, sizeof file), data = (size_t)(n * d) * sizeof *rows;
    cr_assert(bytes > 10 && !memcmp(file, "\x93NUMPY\x01", 7));
    size_t header = 10 + file[8] + 256u * file[9];
    snprintf(shape, sizeof shape, "(%d, %d)", n, d);
    cr_assert_eq(bytes, header + data);
    file[header - 1] = '\0';
    cr_assert(strstr((char *)file + 10, shape) && strstr((char *)file + 10, "<f4"), "%s", (char *)file + 10);
    memcpy(rows, file + header, data);
}

enum { D = 40, F = 72, N = 7 };

/* W_up out_in, as PyTorch stores it, under names of our own. */
static void write_weights(const char *path, const ffn_weights *weights) {
    static float up[F * D];
    for (int out = 0; out < F; out++) {
        for (int in = 0; in < D; in++)
            up[out * D + in] = weights->up.data[in * F + out];
    }
    static float down[D * F];
    for (int out = 0; out < D; out++) {
        for (int in = 0; in < F; in++)
            down[out * F + in] = weights->down.data[in * D + out];
    }
    const struct {
        const char *name;
        const float *data;
        int rows, columns;
    } tensors[] = {{"a.weight", up, F, D},
                   {"a.bias", weights->bias_up, F, 0},
                   {"b.weight", down, D, F},
                   {"b.bias", weights->bias_down, D, 0}};
    char header[1024] = "{";
    size_t at = 0;
    for (int i = 0; i < 4; i++) {
        size_t bytes = sizeof(float) * (size_t)tensors[i].rows * (size_t)(tensors[i].columns ? tensors[i].columns : 1);
        char shape[32], entry[200];
        snprintf(shape, sizeof shape, tensors[i].columns ? "[%d,%d]" : "[%d]", tensors[i].rows, tensors[i].columns);
        snprintf(entry, sizeof entry, "%s\"%s\":{\"dtype\":\"F32\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}",
                 i ? "," : "", tensors[i].name, shape, at, at + bytes);
        strcat(header, entry);
        at += bytes;
    }
    strcat(header, "}");
    uint64_t length = strlen(header);
    FILE *file = fopen(path, "wb");
    cr_assert(file);
    fwrite(&length, 1, 8, file);
    fwrite(header, 1, length, file);
    for (int i = 0; i < 4; i++)
        fwrite(tensors[i].data, sizeof(float),
               (size_t)tensors[i].rows * (size_t)(tensors[i].columns ? tensors[i].columns : 1), file);
    cr_assert_eq(fclose(file), 0);
}

Test(command_files, run_takes_weights_and_rows_from_files_and_writes_rows, .init = make_folder, .fini = remove_folder) {
    static float x[N * D], y[N * D], again[N * D];
    static double want[N * D], bound[N * D];
    const char *name = "d40-f72-gelu-bias";
    ffn_spec spec = support_spec(name);
    support_weights *weights = support_random_weights(&spec, SUPPORT_NORMAL, 1);
    support_fill_x(x, N, D, D, SUPPORT_NORMAL, 2);
    write_npy(in_folder("x.npy"), x, N, D);
    write_weights(in_folder("w.safetensors"), &weights->weights);

    RUN("run", name, "--weights", in_folder("w.safetensors"), "--map", "w1=a.weight,w2=b.weight", "--layout", "out_in",
        "--input", in_folder("x.npy"), "--output", in_folder("y.npy"), "--json");
    support_expect_status(0);
    read_npy(in_folder("y.npy"), y, N, D);
    oracle_ffn(&spec, &weights->weights, x, D, N, want, bound);
    cr_expect_eq(oracle_first_outside(&spec, y, D, N, want, bound), -1);

    char bits[32];
    snprintf(bits, sizeof bits, "0x%016llx", (unsigned long long)ffn_digest(y, N, D, D));
    cr_expect(strstr(support_result.out, bits), "the digest printed is not that of the file: %s", support_result.out);

    RUN("run", name, "-w", in_folder("w.safetensors"), "--map", "w1=a.weight,w2=b.weight", "--layout", "out_in", "-i",
        in_folder("x.npy"), "-o", in_folder("z.npy"), "--isa", "portable", "--n", "3");
    support_expect_status(0);
    cr_expect(strstr(support_result.out, "portable  3  fallback"), "%s", support_result.out);
    read_npy(in_folder("z.npy"), again, 3, D);
    cr_expect_eq(memcmp(y, again, sizeof(float) * 3 * D), 0, "the portable kernel gives other bits");
    support_weights_free(weights);
}

/* Nothing is on standard output: nothing was measured. */
Test(command_files, bench_tries_its_outputs_before_it_measures, .init = make_folder, .fini = remove_folder) {
    RUN("bench", "--regimes", "small", "--seconds", "0.01", "-o", in_folder("absent/page.md"));
    support_expect_status(1);
    cr_expect(strstr(support_result.err, "absent/page.md"), "%s", support_result.err);
    cr_expect_str_empty(support_result.out);
    RUN("bench", "d40-f72-relu", "--n", "1", "--vs", "none", "--seconds", "0.01", "--plot", in_folder("absent/p.svg"));
    support_expect_status(1);
    cr_expect(strstr(support_result.err, "absent/p.svg"), "%s", support_result.err);
    cr_expect_str_empty(support_result.out);
    RUN("bench", "d40-f72-relu", "--n", "1", "--vs", "none", "--seconds", "0.01", "--plot", in_folder("p.txt"));
    support_expect_status(2);
    cr_expect(strstr(support_result.err, "p.txt") && strstr(support_result.err, ".svg"), "%s", support_result.err);
    cr_expect_str_empty(support_result.out);
}

/* The kernel is right to give NaN: it must not be blamed. */
Test(command_files, bench_says_which_value_of_rows_or_weights_is_beyond_comparison, .init = make_folder,
     .fini = remove_folder) {
    static float x[N * D];
    support_fill_x(x, N, D, D, SUPPORT_NORMAL, 2);
    x[2 * D + 5] = NAN;
    write_npy(in_folder("x.npy"), x, N, D);
    RUN("bench", "d40-f72-relu", "--input", in_folder("x.npy"), "--n", "2", "--vs", "none", "--seconds", "0.01");
    support_expect_status(0);
    RUN("bench", "d40-f72-relu", "--input", in_folder("x.npy"), "--n", "3", "--vs", "none", "--seconds", "0.01");
    support_expect_status(1);
    cr_expect(strstr(support_result.err, "row 2") && strstr(support_result.err, "must be finite"), "%s",
              support_result.err);
    RUN("bench", "d40-f72-relu", "--input", in_folder("x.npy"), "--row", "3", "--n", "5", "--vs", "none");
    support_expect_status(2);
    cr_expect(strstr(support_result.err, "7 rows"), "%s", support_result.err);
}

Test(command_files, run_that_fails_leaves_the_output_as_it_was, .init = make_folder, .fini = remove_folder) {
    static const float x[N * D] = {1};
    char kept[8] = "";
    write_npy(in_folder("x.npy"), x, N, D);
    write_bytes(in_folder("y.npy"), "before", 6);
    RUN("run", "d41-f72-relu", "--input", in_folder("x.npy"), "--output", in_folder("y.npy"));
    support_expect_status(1);
    cr_expect(strstr(support_result.err, "40") && strstr(support_result.err, "41"), "%s", support_result.err);
    RUN("run", "d40-f72-relu", "--input", in_folder("x.npy"), "--output", in_folder("y.npy"), "--n", "8");
    support_expect_status(2);
    cr_expect(strstr(support_result.err, "7 rows"), "%s", support_result.err);
    RUN("run", "d40-f72-relu", "--weights", in_folder("x.npy"), "--output", in_folder("y.npy"));
    support_expect_status(1);
    RUN("run", "d40-f72-relu", "--input", in_folder("absent.npy"), "--output", in_folder("y.npy"));
    support_expect_status(1);
    cr_expect(strstr(support_result.err, "absent.npy"), "%s", support_result.err);
    cr_expect_eq(read_bytes(in_folder("y.npy"), kept, sizeof kept), 6);
    cr_expect_str_eq(kept, "before");
    RUN("run", "d40-f72-relu", "--output", in_folder("absent/y.npy"));
    support_expect_status(1);
    RUN("run", "d40-f72-relu", "--output", "/dev/full");
    support_expect_status(1);
}

Test(command_files, run_says_when_weights_and_rows_are_generated) {
    RUN("run", "d64-f256-relu-bias", "--json");
    support_expect_status(0);
    cr_expect(strstr(support_result.err, "generated"), "%s", support_result.err);
    cr_expect(strstr(support_result.out, "\"bits\":\"0x"));
}

/* ---- Emission and explanation ---- */

Test(command_files, emit_writes_each_format_for_each_isa_on_any_host, .init = make_folder, .fini = remove_folder) {
    static char bytes[1 << 20], again[1 << 20];
    for (ffn_isa isa = FFN_ISA_PORTABLE + 1; isa < FFN_ISA_COUNT; isa++) {
        const char *name = ffn_isa_name(isa);
        RUN("emit", "d64-f256-relu-bias", "--format", "object", "--isa", name, "--n", "1", "-o", in_folder("k.o"));
        support_expect_status(0);
        cr_expect_str_empty(support_result.out);
        size_t size = read_bytes(in_folder("k.o"), bytes, sizeof bytes);
        cr_expect(size > 64 && !memcmp(bytes, "\177ELF\2\1\1", 7), "%s: no ELF object", name);
        RUN("emit", "d64-f256-relu-bias", "--format", "object", "--isa", name, "--n", "1", "-o", in_folder("k.o"));
        cr_expect(read_bytes(in_folder("k.o"), again, sizeof again) == size && !memcmp(bytes, again, size),
                  "%s: not the same bytes again", name);
        RUN("emit", "d64-f256-relu-bias", "--format", "image", "--isa", name, "--n", "1", "-o", in_folder("k.img"));
        support_expect_status(0);
        read_bytes(in_folder("k.img"), bytes, sizeof bytes);
        cr_expect(!memcmp(bytes, "FFNIMAGE", 8), "%s: no image", name);
        RUN("emit", "d64-f256-relu-bias", "--format", "asm", "--isa", name, "--n", "1");
        support_expect_status(0);
        cr_expect(strstr(support_result.out, "d64_f256_relu_bias") || strstr(support_result.out, ".text"),
                  "%s: no assembly", name);
        RUN("emit", "d64-f256-relu-bias", "--format", "ir", "--isa", name, "--n", "1");
        support_expect_status(0);
        cr_expect(strstr(support_result.out, "define "), "%s: no IR", name);
    }
}

Test(command_files, emit_that_fails_leaves_the_file_as_it_was, .init = make_folder, .fini = remove_folder) {
    char kept[8] = "";
    write_bytes(in_folder("k.s"), "before", 6);
    RUN("emit", "d64-f256-relu", "--format", "asm", "--isa", "avx2", "--plan", "unroll=4096", "-o", in_folder("k.s"));
    cr_expect_neq(support_result.status, 0);
    cr_expect_eq(read_bytes(in_folder("k.s"), kept, sizeof kept), 6);
    cr_expect_str_eq(kept, "before");
    RUN("emit", "d64-f256-relu", "--format", "asm", "--isa", "avx2", "-o", in_folder("absent/k.s"));
    support_expect_status(1);
    RUN("emit", "d64-f256-relu", "--format", "asm", "--isa", "avx2", "-o", "/dev/full");
    support_expect_status(1);
}

Test(command_files, explain_tells_registers_bytes_and_bound_for_each_class) {
    RUN("explain", "llama3-8b", "--isa", "avx512");
    support_expect_status(0);
    int classes = 0;
    for (const char *at = support_result.out; (at = strstr(at, "\nn = ")) != NULL; at++)
        classes++;
    cr_expect_eq(classes, FFN_N_CLASSES);
    cr_expect(strstr(support_result.out, "registers of 32") && strstr(support_result.out, "hidden block") &&
                  strstr(support_result.out, "bound at n = "),
              "%s", support_result.out);
    RUN("explain", "llama3-8b", "--isa", "avx512", "--n", "3");
    support_expect_status(0);
    cr_expect(strstr(support_result.out, "n = 2-4") && !strstr(support_result.out, "n = 5-16"));
}

/* ---- The main job ---- */

static const char *data_folder(void) {
    static char path[4096];
    const char *named = getenv("FFN_DATA_DIR");
    snprintf(path, sizeof path, "%s%s", named ? named : FFN_SOURCE_DIR, named ? "" : "/../shared/data");
    return path;
}

Test(command_files, demo_agrees_with_the_stored_outputs_of_a_trained_layer) {
    char file[4200];
    snprintf(file, sizeof file, "%s/use_lite_layer0.safetensors", data_folder());
    if (access(file, R_OK))
        cr_skip_test("no trained weights here");
    RUN("demo", "--weights", file);
    support_expect_status(0);
    cr_expect(strstr(support_result.out, "113 token vectors") &&
                  strstr(support_result.out, "agrees with the stored outputs"),
              "%s", support_result.out);
}

Test(command_files, demo_without_data_says_that_the_weights_are_generated) {
    setenv("FFN_DATA_DIR", "/nonexistent", 1);
    RUN("demo");
    support_expect_status(0);
    cr_expect(strstr(support_result.out, "generated weights"), "%s", support_result.out);
}
