/* ffngen pack: a safetensors file -> packed weights that 'ffngen run' takes; what it says of them, and of mistakes; how
 * much memory it needs. */
#define _GNU_SOURCE
#include "packed.h"
#include "support_command.h"
#include "support_data.h"
#include "support_files.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(command_pack, .init = support_folder_make, .fini = support_folder_remove, .timeout = 300);

/* The text of a string field in the last line of JSON. */
static void field(const char *name, char *text, size_t text_bytes) {
    char key[64];
    snprintf(key, sizeof key, "\"%s\":\"", name);
    const char *begin = strstr(support_result.out, key);
    cr_assert(begin, "no %s in %s", name, support_result.out);
    begin += strlen(key);
    snprintf(text, text_bytes, "%.*s", (int)strcspn(begin, "\""), begin);
}

static void expect_err(int status, const char *words) {
    support_expect_status(status);
    cr_expect(strstr(support_result.err, words), "\"%s\" lacks \"%s\"", support_result.err, words);
    cr_expect_str_empty(support_result.out);
}

/* One run from the packed file and one from the tensors give the same bits. */
static void expect_same_run(const char *spec, const char *weights, const char *layout, const char *packed) {
    char of_weights[32], of_packed[32];
    RUN("run", spec, "--weights", weights, "--layout", layout, "--n", "3", "--json");
    support_expect_status(0);
    field("bits", of_weights, sizeof of_weights);
    RUN("run", spec, "--packed", packed, "--n", "3", "--json");
    support_expect_status(0);
    field("bits", of_packed, sizeof of_packed);
    cr_expect_str_eq(of_packed, of_weights);
}

/* The default of the signal that a limit on the size of files raises is to end the process, with what it had begun. */
Test(command_pack, a_limit_on_file_sizes_is_an_error_of_every_output) {
    const char *spec = "d40-f72-swiglu", *from = support_path("w.safetensors"), *to = support_path("out");
    const ffn_spec shape = support_spec(spec);
    support_safetensors_write(from, &shape, &(support_tensors){.dtype = "F32", .layout = FFN_OUT_IN}, 5);
    struct rlimit before;
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    for (int i = 0; i < 4; i++) {
        const int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
        cr_assert(out >= 0 && (i == 3 || unlink(to) == 0));
        cr_assert_eq(setrlimit(RLIMIT_FSIZE, &(struct rlimit){1024, before.rlim_max}), 0);
        if (i == 0)
            RUN("pack", spec, "--weights", from, "--layout", "out_in", "-o", to);
        else if (i == 1)
            RUN("run", spec, "--n", "30", "--store", "off", "--output", to);
        else if (i == 2)
            RUN("emit", spec, "--isa", "avx2", "--format", "image", "-o", to);
        else
            RUN_TO(out, "list", "presets");
        cr_assert_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
        close(out);
        support_expect_status(1);
        cr_expect(strstr(support_result.err, "File too large"), "%d: %s", i, support_result.err);
        cr_expect_eq(support_folder_count(), i == 3 ? 2 : 1, "output %d", i);
    }
}

Test(command_pack, writes_what_run_takes) {
    const char *name = "d40-f72-swiglu-bias", *from = support_path("w.safetensors"), *to = support_path("w.ffnw");
    const ffn_spec spec = support_spec(name);
    support_safetensors_write(from, &spec, &(support_tensors){.dtype = "BF16", .layout = FFN_OUT_IN}, 5);
    size_t bytes = 0;
    ffn_packed_bytes(&spec, &bytes, NULL);
    char words[64];
    snprintf(words, sizeof words, "%zu bytes  %s  finite", bytes, name);

    RUN("pack", name, "--weights", from, "--layout", "out_in", "-o", to);
    support_expect_status(0);
    cr_expect(strstr(support_result.out, to) && strstr(support_result.out, words), "%s", support_result.out);
    cr_expect_eq(strchr(support_result.out, '\n')[1], '\0', "one line");
    cr_expect(strstr(support_result.err, "wg (BF16 out_in)"), "%s", support_result.err);
    expect_same_run(name, from, "out_in", to);
    cr_expect_eq(support_folder_count(), 2);

    char text[1024];
    RUN("pack", "--check", to, "--json");
    support_expect_status(0);
    field("spec", text, sizeof text);
    cr_expect_str_eq(text, name);
    field("file", text, sizeof text);
    cr_expect_str_eq(text, to);
    snprintf(words, sizeof words, "\"bytes\":%zu,\"version\":1,\"finite\":true,", bytes);
    cr_expect(strstr(support_result.out, words), "%s", support_result.out);
}

/* As the run on the tensors themselves, which test_weights holds against the outputs stored with them. */
Test(command_pack, packs_a_trained_layer) {
    char from[4200];
    const char *folder = getenv("FFN_DATA_DIR");
    snprintf(from, sizeof from, "%s%s/use_lite_layer0.safetensors", folder ? folder : FFN_SOURCE_DIR,
             folder ? "" : "/../shared/data");
    if (access(from, R_OK))
        cr_skip_test("no trained weights here");
    const char *to = support_path("use_lite.ffnw");
    RUN("pack", "d512-f1536-relu-bias", "--weights", from, "--output", to, "--json");
    support_expect_status(0);
    /* 256 + 4 (1536 + 512 + 2 * 512 * 1536) */
    cr_expect(strstr(support_result.out, "\"bytes\":6299904,") && strstr(support_result.out, "\"finite\":true"), "%s",
              support_result.out);
    expect_same_run("d512-f1536-relu-bias", from, "in_out", to);
    RUN("pack", "--check", to);
    support_expect_status(0);
}

static void flip(const char *path, off_t at) {
    char byte;
    const int file = open(path, O_RDWR | O_CLOEXEC);
    cr_assert(file >= 0 && pread(file, &byte, 1, at) == 1);
    byte ^= 1;
    cr_assert(pwrite(file, &byte, 1, at) == 1 && close(file) == 0);
}

Test(command_pack, check_finds_damage_and_says_what_it_needs) {
    const char *from = support_path("w.safetensors"), *to = support_path("w.ffnw");
    ffn_spec spec = support_spec("d40-f72-gelu");
    support_safetensors_write(from, &spec, &(support_tensors){.dtype = "F32"}, 5);
    RUN("pack", "d40-f72-gelu", "--weights", from, "--layout", "in_out", "-o", to);
    support_expect_status(0);
    RUN("pack", "--check", to, "d40-f72-gelu");
    support_expect_status(0);
    RUN("pack", "--check", to, "d40-f72-relu");
    expect_err(1, "d40-f72-gelu");
    flip(to, 4000);
    RUN("pack", "--check", to);
    expect_err(1, "checksum");
    flip(to, 4000);
    flip(to, 73); /* of the spec's name */
    RUN("pack", "--check", to);
    expect_err(1, "w.ffnw");
    RUN("pack", "--check", from);
    expect_err(1, "no file of packed weights");
    RUN("pack", "--check", support_path("none"));
    expect_err(1, "No such file");

    /* Of a formula the header holds a hash. */
    RUN("pack", "d40-f72-act(x*x)", "--weights", from, "--layout", "in_out", "-o", to);
    support_expect_status(0);
    RUN("pack", "--check", to);
    expect_err(2, "give the SPEC");
    RUN("pack", "--check", to, "d40-f72-act(x*x)");
    support_expect_status(0);
}

Test(command_pack, mistakes_are_bad_usage_and_leave_files_alone) {
    const char *from = support_path("w.safetensors"), *to = support_path("w.ffnw");
    ffn_spec spec = support_spec("d40-f72-gelu");
    support_safetensors_write(from, &spec, &(support_tensors){.dtype = "F32"}, 5);
    RUN("pack", "d40-f72-gelu", "--weights", from);
    expect_err(2, "--output");
    RUN("pack", "d40-f72-gelu", "-o", to);
    expect_err(2, "--weights");
    RUN("pack", "--weights", from, "-o", to);
    expect_err(2, "no SPEC");
    RUN("pack", "d40-f72-gelu", "--weights", from, "--layout", "in_out", "-o", from);
    expect_err(2, "the file that --weights names");
    RUN("pack", "--check", to, "--layer", "1");
    expect_err(2, "--check");
    RUN("pack", "d40-f72-gelu", "--weights", from, "--layout", "in_out", "-o", support_path("."));
    expect_err(2, "a folder");
    RUN("pack", "d40-f72-gelu", "--weights", from, "--layout", "in_out", "-o", support_path("none/w"));
    expect_err(1, "No such file");
    RUN("pack", "d40-f73-gelu", "--weights", from, "--layout", "in_out", "-o", to);
    expect_err(1, "[40, 73]");
    RUN("run", "d40-f72-gelu", "--weights", from, "--packed", to);
    expect_err(2, "one of them");
    RUN("run", "d40-f72-gelu", "--packed", from);
    expect_err(1, "no file of packed weights");
    cr_expect_eq(support_folder_count(), 1);
}

/* ---- Memory ----
 *
 * Resident memory at its peak, everything counted: the command links libLLVM and OpenBLAS, whose pages (some 54 MiB)
 * are there before main begins. Beyond that it must not matter how large the weights are. */

static long peak_kib(const char *const *arguments) {
    struct rusage usage;
    int status;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        const int null = open("/dev/null", O_WRONLY);
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
        execv(FFN_COMMAND, (char *const *)(uintptr_t)arguments);
        _exit(126);
    }
    cr_assert_eq(wait4(child, &status, 0, &usage), child);
    cr_assert_eq(status, 0, "%s: %d", arguments[1], status);
    return usage.ru_maxrss;
}

#define PEAK(...) peak_kib((const char *const[]){"ffngen", __VA_ARGS__, NULL})

static void expect_small(const char *name, const char *dtype, ffn_layout layout) {
    const char *from = support_path("w.safetensors"), *to = support_path("w.ffnw");
    const ffn_spec spec = support_spec(name);
    support_safetensors_write(from, &spec, &(support_tensors){.dtype = dtype, .layout = layout, .zeros = true}, 1);
    size_t bytes = 0;
    ffn_packed_bytes(&spec, &bytes, NULL);
    const long packed = (long)(bytes / 1024), before = PEAK("list", "isas");
    const long peak = PEAK("pack", name, "-w", from, "--layout", layout == FFN_IN_OUT ? "in_out" : "out_in", "-o", to);
    fprintf(stderr, "%s %s %s: packed %ld KiB, peak %ld KiB, %ld of them before any work\n", name, dtype,
            layout == FFN_IN_OUT ? "in_out" : "out_in", packed, peak, before);
    cr_expect_lt(peak - before, 16 * 1024);
    if (packed > before)
        cr_expect_lt(peak, packed + 16 * 1024);
}

Test(command_pack, needs_little_memory_whatever_the_weights) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    cr_skip_test("a sanitizer's own memory would be counted");
#endif
    expect_small("d2048-f5632-swiglu", "F32", FFN_OUT_IN);
    expect_small("d2048-f5632-swiglu", "BF16", FFN_IN_OUT);
    expect_small("d1024-f4096-gelu", "F32", FFN_IN_OUT);
    expect_small("d1024-f4096-gelu", "F16", FFN_OUT_IN);
}
