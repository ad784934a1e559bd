/* Files of packed weights: the bytes of ffn_pack whatever the weights lie in; mapped, shared, and refused where they
 * are not whole or not of this spec. */
#define _GNU_SOURCE
#include "packed.h"
#include "support_data.h"
#include "support_files.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(packed_file, .init = support_folder_make, .fini = support_folder_remove, .timeout = 120);

static void map(const ffn_spec *spec, const char *path, const void **packed, size_t *bytes) {
    ffn_diag diag = {0};
    cr_assert_eq(ffn_packed_map(spec, path, packed, bytes, &diag), FFN_OK, "%s", diag.text);
}

/* ---- Mapping ---- */

static size_t pack_small(const ffn_spec *spec, const char *path, uint64_t seed) {
    support_weights *w = support_random_weights(spec, SUPPORT_NORMAL, seed);
    ffn_diag diag = {0};
    size_t bytes = 0;
    cr_assert_eq(ffn_pack_file(spec, &w->weights, path, &diag), FFN_OK, "%s", diag.text);
    support_weights_free(w);
    ffn_packed_bytes(spec, &bytes, NULL);
    return bytes;
}

Test(packed_file, maps_to_the_block_at_an_aligned_address) {
    const ffn_spec spec = support_spec("d40-f72-swiglu-bias");
    const char *path = support_path("w.ffnw");
    const size_t wanted = pack_small(&spec, path, 1);
    const void *packed = NULL;
    size_t bytes = 0;
    map(&spec, path, &packed, &bytes);
    cr_expect_eq(bytes, wanted);
    cr_expect_eq((uintptr_t)packed % FFN_PACKED_ALIGN, 0u);
    support_file_expect(path, packed, bytes, "the map");
    cr_expect_eq(ffn_packed_check(&spec, packed, bytes, NULL), FFN_OK);
    ffn_packed_unmap(packed, bytes);
    ffn_packed_unmap(NULL, 0);
}

/* The line of /proc/self/maps that begins at an address: its rights and its inode. */
static unsigned long map_inode(const void *address, char rights[8]) {
    char line[512];
    unsigned long begin, inode = 0, found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    cr_assert(maps);
    while (fgets(line, sizeof line, maps)) {
        char access[8];
        if (sscanf(line, "%lx-%*x %7s %*x %*s %lu", &begin, access, &inode) == 3 && begin == (uintptr_t)address) {
            memcpy(rights, access, sizeof access);
            found = inode;
        }
    }
    fclose(maps);
    return found;
}

/* Shared_Clean of the mapping at an address, in KiB: pages that another process maps as well. */
static long shared_kib(const void *address) {
    char line[512];
    unsigned long begin;
    long kib = -1, value;
    bool here = false;
    FILE *maps = fopen("/proc/self/smaps", "r");
    cr_assert(maps);
    while (fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%lx-%*x %*s", &begin) == 1 && strchr(line, '-') && strchr(line, '-') < strchr(line, ' '))
            here = begin == (uintptr_t)address;
        else if (here &&
                 (sscanf(line, "Shared_Clean: %ld", &value) == 1 || sscanf(line, "Shared_Dirty: %ld", &value) == 1))
            kib = kib < 0 ? value : kib + value;
    }
    fclose(maps);
    return kib;
}

Test(packed_file, is_read_only_and_shared_between_processes) {
    const ffn_spec spec = support_spec("d256-f512-relu");
    const char *path = support_path("w.ffnw");
    pack_small(&spec, path, 1);
    int ready[2], done[2];
    cr_assert(pipe(ready) == 0 && pipe(done) == 0);
    const pid_t child = fork(); /* before there is a map, so that it makes its own */
    if (child == 0) {
        const void *packed = NULL;
        size_t bytes = 0;
        char byte = 0;
        close(done[1]);
        const bool good = ffn_packed_map(&spec, path, &packed, &bytes, NULL) == FFN_OK &&
                          ffn_packed_check(&spec, packed, bytes, NULL) == FFN_OK;
        if (write(ready[1], &byte, 1) != 1 || read(done[0], &byte, 1) < 0)
            _exit(2);
        _exit(good ? 0 : 1);
    }
    char byte, rights[8] = "";
    cr_assert_eq(read(ready[0], &byte, 1), 1);
    const void *packed = NULL;
    size_t bytes = 0;
    map(&spec, path, &packed, &bytes);
    cr_expect_eq(ffn_packed_check(&spec, packed, bytes, NULL), FFN_OK); /* touches every page */
    struct stat info;
    cr_assert_eq(stat(path, &info), 0);
    cr_expect_eq(map_inode(packed, rights), info.st_ino);
    cr_expect_str_eq(rights, "r--s");
    cr_expect_geq(shared_kib(packed), (long)(bytes / 1024), "%ld KiB of %zu bytes are shared", shared_kib(packed),
                  bytes);
    ffn_packed_unmap(packed, bytes);
    close(done[1]);
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect_eq(status, 0);
}

Test(packed_file, leaves_no_descriptor_open) {
    const ffn_spec spec = support_spec("d16-f16-relu"), other = support_spec("d16-f32-relu");
    const char *path = support_path("w.ffnw");
    const int before = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(before);
    pack_small(&spec, path, 1);
    const void *packed = NULL;
    size_t bytes = 0;
    map(&spec, path, &packed, &bytes);
    ffn_packed_unmap(packed, bytes);
    cr_expect_neq(ffn_packed_map(&other, path, &packed, &bytes, NULL), FFN_OK);
    const int after = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(after);
    cr_expect_eq(after, before);
}

/* ---- Refused ---- */

static const void *const untouched = &untouched;

static void refuse(const ffn_spec *spec, const char *path, ffn_status wanted, const char *words) {
    const void *packed = untouched;
    size_t bytes = 77;
    ffn_diag diag = {0};
    const ffn_status status = ffn_packed_map(spec, path, &packed, &bytes, &diag);
    cr_expect_eq(status, wanted, "%s: status %d, %s", path, (int)status, diag.text);
    cr_expect(diag.status == wanted && strstr(diag.text, words), "\"%s\" lacks \"%s\"", diag.text, words);
    cr_expect(packed == untouched && bytes == 77);
}

Test(packed_file, cut_short_at_any_byte_is_refused) {
    const ffn_spec spec = support_spec("d5-f18-relu");
    const char *path = support_path("w.ffnw"), *part = support_path("part");
    const size_t bytes = pack_small(&spec, path, 1);
    size_t have;
    char *block = support_file_read(path, &have), sizes[80];
    for (size_t cut = 0; cut < bytes; cut += cut < 320 ? 1 : 37) {
        support_file_write(part, block, cut);
        if (cut < 7)
            strcpy(sizes, "FFNPACK");
        else
            snprintf(sizes, sizeof sizes, "is %zu bytes long", cut);
        refuse(&spec, part, FFN_BAD_FILE, sizes);
    }
    char *longer = support_aligned(bytes + 1);
    memcpy(longer, block, bytes);
    longer[bytes] = 0;
    support_file_write(part, longer, bytes + 1);
    snprintf(sizes, sizeof sizes, "%zu bytes long, where the weights of this spec take %zu", bytes + 1, bytes);
    refuse(&spec, part, FFN_BAD_FILE, sizes);
    free(longer);
    free(block);
}

/* The map looks at the header, the check at everything: together they find any flipped bit. */
static bool found(const ffn_spec *spec, const char *path) {
    const void *packed = NULL;
    size_t bytes = 0;
    ffn_diag diag = {0};
    if (ffn_packed_map(spec, path, &packed, &bytes, &diag) != FFN_OK)
        return diag.text[0] != '\0';
    const bool bad = ffn_packed_check(spec, packed, bytes, &diag) == FFN_BAD_WEIGHTS && diag.text[0] != '\0';
    ffn_packed_unmap(packed, bytes);
    return bad;
}

Test(packed_file, with_any_byte_flipped_is_refused_or_found_by_the_check) {
    const ffn_spec spec = support_spec("d5-f18-swiglu-bias");
    const char *path = support_path("w.ffnw");
    const size_t bytes = pack_small(&spec, path, 1);
    cr_assert(!found(&spec, path));
    const int file = open(path, O_RDWR | O_CLOEXEC);
    for (size_t i = 0; i < bytes; i += i < sizeof(packed_header) ? 1 : 29) {
        char byte, flipped;
        cr_assert_eq(pread(file, &byte, 1, (off_t)i), 1);
        flipped = (char)(byte ^ (1 << i % 8));
        cr_assert_eq(pwrite(file, &flipped, 1, (off_t)i), 1);
        cr_expect(found(&spec, path), "byte %zu", i);
        cr_assert_eq(pwrite(file, &byte, 1, (off_t)i), 1);
    }
    close(file);
    cr_assert(!found(&spec, path));
}

Test(packed_file, of_another_spec_order_or_version_is_refused_by_name) {
    const ffn_spec spec = support_spec("d16-f32-gelu-bias");
    const char *path = support_path("w.ffnw");
    pack_small(&spec, path, 1);
    const struct {
        const char *spec, *words;
    } others[] = {{"d16-f48-gelu-bias", "d_ff 32"},
                  {"d48-f32-gelu-bias", "d_model 16"},
                  {"d16-f32-gelu_tanh-bias", "d16-f32-gelu-bias"},
                  {"d16-f32-gelu", "biases"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const ffn_spec other = support_spec(others[i].spec);
        refuse(&other, path, FFN_BAD_WEIGHTS, others[i].words);
    }
    const struct {
        unsigned char version[4]; /* as it stands in the file */
        const char *words;
    } versions[] = {{{2, 0, 0, 0}, "layout version 2"}, {{0, 0, 0, 1}, "byte order"}, {{0, 0, 0, 0}, "version 0"}};
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        size_t bytes;
        char *block = support_file_read(path, &bytes);
        memcpy(block + 8, versions[i].version, 4);
        support_file_write(support_path("v"), block, bytes);
        refuse(&spec, support_path("v"), FFN_BAD_WEIGHTS, versions[i].words);
        free(block);
    }
}

Test(packed_file, that_is_no_regular_file_is_refused_and_never_waited_for) {
    const ffn_spec spec = support_spec("d16-f16-relu");
    const char *pipe_path = support_path("pipe");
    cr_assert_eq(mkfifo(pipe_path, 0600), 0);
    support_file_write(support_path("text"), "not weights at all", 18);
    refuse(&spec, support_path("none"), FFN_SYSTEM, "No such file");
    refuse(&spec, support_path("."), FFN_BAD_FILE, "a folder");
    refuse(&spec, pipe_path, FFN_BAD_FILE, "a pipe");
    refuse(&spec, "/dev/null", FFN_BAD_FILE, "a device");
    refuse(&spec, support_path("text"), FFN_BAD_FILE, "no file of packed weights");
    char path[600];
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    refuse(&spec, path, FFN_SYSTEM, "File name too long"); /* the reason is not lost behind the name */
}

Test(packed_file, null_arguments_are_named) {
    const ffn_spec spec = support_spec("d16-f16-relu");
    const ffn_weights weights = {0};
    const void *packed;
    size_t bytes;
    cr_expect_eq(ffn_packed_map(NULL, "x", &packed, &bytes, NULL), FFN_BAD_ARGUMENT);
    cr_expect_eq(ffn_packed_map(&spec, NULL, &packed, &bytes, NULL), FFN_BAD_ARGUMENT);
    cr_expect_eq(ffn_packed_map(&spec, "x", NULL, &bytes, NULL), FFN_BAD_ARGUMENT);
    cr_expect_eq(ffn_packed_map(&spec, "x", &packed, NULL, NULL), FFN_BAD_ARGUMENT);
    cr_expect_eq(ffn_pack_file(NULL, &weights, "x", NULL), FFN_BAD_ARGUMENT);
    cr_expect_eq(ffn_pack_file(&spec, NULL, "x", NULL), FFN_BAD_ARGUMENT);
    cr_expect_eq(ffn_pack_file(&spec, &weights, NULL, NULL), FFN_BAD_ARGUMENT);
    ffn_diag diag = {0};
    cr_expect_eq(ffn_pack_file(&spec, &weights, support_path("w"), &diag), FFN_BAD_ARGUMENT);
    cr_expect(strstr(diag.text, "weights.up.data"), "%s", diag.text);
    cr_expect_eq(support_folder_count(), 0, "nothing was made for weights that are wrong");
}
