/* support_host.c: see support_host.h */
#define _GNU_SOURCE
#include "support_host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler.h"
#include "compiler_id.h"

const char *support_beside(const char *name) {
    static char paths[4][4096];
    static int next;
    char *path = paths[next++ % 4];
    ssize_t length = readlink("/proc/self/exe", path, sizeof paths[0] - 64);
    cr_assert_gt(length, 0);
    path[length] = '\0';
    strcpy(strrchr(path, '/') + 1, name);
    return path;
}

void support_expect_success(void) {
    if (support_result.status == 77)
        cr_skip_test("the situation cannot be had here");
    cr_assert_eq(support_result.status, 0, "status %d: %s%s", support_result.status, support_result.out,
                 support_result.err);
}

void support_expect_words(const char *first, const char *second) {
    support_expect_success();
    cr_expect(strstr(support_result.out, first) && strstr(support_result.out, second), "%s", support_result.out);
}

void support_expect_load(const char *path, ffn_status expected, const char *word) {
    compiler *c = compiler_create(path);
    const ffn_source *source = NULL;
    ffn_diag diag = {.text = ""};
    cr_expect_eq(compiler_load(c, &source, &diag), expected, "%s", diag.text);
    cr_expect_not_null(strstr(diag.text, word), "%s", diag.text);
    cr_expect_null(source);
    compiler_destroy(c);
}

const char *support_copy_libffngen(char folder[64], const char *id) {
    static char library[128], command[4300], file[128];
    strcpy(folder, "/tmp/ffn_test_compiler_XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    snprintf(library, sizeof library, "%s/libffngen.so", folder);
    snprintf(command, sizeof command, "cp '%s' %s", support_beside("libffngen.so"), library);
    cr_assert_eq(system(command), 0);
    if (id) {
        snprintf(file, sizeof file, "%s/" COMPILER_ID_FILE, folder);
        FILE *stream = fopen(file, "w");
        cr_assert_not_null(stream);
        fputs(id, stream);
        fclose(stream);
    }
    return library;
}

void support_remove(const char *folder) {
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    cr_assert_eq(system(command), 0);
}
