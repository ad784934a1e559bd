/* support_files.c: files of tests */
#define _GNU_SOURCE
#include "support_files.h"

#include "support_data.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[512];

void support_folder_make(void) {
    const char *parent = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/ffn_test_XXXXXX", parent && *parent ? parent : "/tmp");
    cr_assert(mkdtemp(folder), "%s: %s", folder, strerror(errno));
}

const char *support_path(const char *name) {
    static char paths[8][1024];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

int support_folder_count(void) {
    DIR *open = opendir(folder);
    cr_assert(open, "%s: %s", folder, strerror(errno));
    int count = 0;
    for (const struct dirent *entry; (entry = readdir(open)) != NULL;)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(open);
    return count;
}

static int remove_one(const char *path, const struct stat *found, int kind, struct FTW *walk) {
    (void)found, (void)kind, (void)walk;
    return remove(path);
}

void support_folder_remove(void) {
    cr_expect_eq(nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS | FTW_MOUNT), 0, "%s: %s", folder, strerror(errno));
}

void support_file_write(const char *path, const void *data, size_t bytes) {
    FILE *file = fopen(path, "wb");
    cr_assert(file && fwrite(data, 1, bytes, file) == bytes && fclose(file) == 0, "%s: %s", path, strerror(errno));
}

void *support_file_read(const char *path, size_t *bytes) {
    FILE *file = fopen(path, "rb");
    cr_assert(file, "%s: %s", path, strerror(errno));
    fseek(file, 0, SEEK_END);
    *bytes = (size_t)ftell(file);
    rewind(file);
    void *data = support_aligned(*bytes);
    cr_assert_eq(fread(data, 1, *bytes, file), *bytes);
    fclose(file);
    return data;
}

void support_file_expect(const char *path, const void *want, size_t want_bytes, const char *what) {
    size_t bytes = 0;
    void *have = support_file_read(path, &bytes);
    cr_assert_eq(bytes, want_bytes, "%s: %zu bytes", what, bytes);
    for (size_t i = 0; i < bytes; i++)
        if (((char *)have)[i] != ((const char *)want)[i])
            cr_assert(false, "%s: byte %zu differs", what, i);
    free(have);
}

/* ---- safetensors ---- */

typedef struct tensor {
    const char *name;
    int64_t rows, columns; /* columns 0: a vector; rows 0: not there */
} tensor;

/* Any bits but those of infinities and NaN: the highest bit of an exponent is never set. */
static void elements_write(FILE *file, const char *dtype, int64_t count, support_rng *rng) {
    const bool f32 = !strcmp(dtype, "F32");
    for (int64_t i = 0; i < count; i++) {
        const uint32_t bits = (uint32_t)support_next(rng) & (f32 ? 0xbfffffffu : 0xbfffu);
        fwrite(&bits, f32 ? 4 : 2, 1, file);
    }
}

void support_safetensors_write(const char *path, const ffn_spec *spec, const support_tensors *as, uint64_t seed) {
    const bool gated = ffn_spec_gated(spec), fused = as->order != FFN_GATE_SEPARATE;
    const int64_t up = fused ? 2 * spec->d_ff : spec->d_ff;
    tensor list[] = {{"w1", spec->d_model, up},
                     {"wg", gated && !fused ? spec->d_model : 0, spec->d_ff},
                     {"w2", spec->d_ff, spec->d_model},
                     {"b1", spec->bias & FFN_BIAS_UP ? up : 0, 0},
                     {"bg", !fused && (spec->bias & FFN_BIAS_GATE) ? spec->d_ff : 0, 0},
                     {"b2", spec->bias & FFN_BIAS_DOWN ? spec->d_model : 0, 0}};
    char header[1024] = "{";
    size_t length = 1;
    int64_t at = 0;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        if (list[i].rows == 0)
            continue;
        const int64_t count = list[i].rows * (list[i].columns ? list[i].columns : 1);
        const int64_t bytes = count * (strcmp(as->dtype, "F32") ? 2 : 4);
        char shape[64];
        if (list[i].columns == 0)
            snprintf(shape, sizeof shape, "%lld", (long long)list[i].rows);
        else
            snprintf(shape, sizeof shape, "%lld,%lld",
                     (long long)(as->layout == FFN_IN_OUT ? list[i].rows : list[i].columns),
                     (long long)(as->layout == FFN_IN_OUT ? list[i].columns : list[i].rows));
        length += (size_t)sprintf(
            header + length, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%lld,%lld]}",
            length > 1 ? "," : "", list[i].name, as->dtype, shape, (long long)at, (long long)(at + bytes));
        at += bytes;
    }
    header[length++] = '}';
    while (length % 8 != (size_t)as->pad)
        header[length++] = ' ';
    FILE *file = fopen(path, "wb");
    cr_assert(file, "%s: %s", path, strerror(errno));
    fwrite(&(uint64_t){length}, 8, 1, file);
    fwrite(header, 1, length, file);
    if (as->zeros) {
        cr_assert(fflush(file) == 0 && ftruncate(fileno(file), (off_t)(8 + length) + at) == 0);
    } else {
        support_rng rng = {seed};
        elements_write(file, as->dtype, at / (strcmp(as->dtype, "F32") ? 2 : 4), &rng);
    }
    cr_assert_eq(fclose(file), 0);
}
