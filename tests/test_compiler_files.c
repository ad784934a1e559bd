/* test_compiler_files.c: which file libffngen is, and what stands in its place
 *
 * tests/programs/compiler_host.c says what each situation expects. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler.h"
#include "compiler_id.h"
#include "support_host.h"

/* A folder in which libffn and libffngen are a library that must not be used. */
static void make_trap(char folder[64]) {
    char command[2 * 4096];
    const char *trap = support_beside("libversion_told.so");
    strcpy(folder, "/tmp/ffn_test_compiler_XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    snprintf(command, sizeof command, "cp '%s' %s/libffn.so && cp '%s' %s/libffngen.so", trap, folder, trap, folder);
    cr_assert_eq(system(command), 0);
}

Test(compiler_files, a_relative_file_is_meant_from_the_folder_in_which_it_was_given) {
    char folder[64];
    make_trap(folder);
    cr_assert_eq(chdir(support_beside("")), 0);
    compiler *c = compiler_create("libffngen.so");
    cr_assert_eq(chdir(folder), 0);
    cr_expect_not_null(compiler_identity(c, NULL));
    compiler_destroy(c);
    support_remove(folder);
}

Test(compiler_files, a_libffn_loaded_by_a_relative_name_looks_beside_itself) {
    NO_SANITIZER("its run time is in the program");
    char folder[64];
    make_trap(folder);
    HOST("compiler_host", "gone_elsewhere", support_beside(""), folder);
    support_remove(folder);
    support_expect_success();
}

Test(compiler_files, a_pipe_in_place_of_a_file_is_not_waited_for, .timeout = 20) {
    char folder[64], pipe[128];
    const char *library = support_copy_libffngen(folder, NULL);
    snprintf(pipe, sizeof pipe, "%s/" COMPILER_ID_FILE, folder);
    cr_assert_eq(mkfifo(pipe, 0600), 0);
    ffn_diag remark = {.text = ""};
    compiler *c = compiler_create(library);
    cr_expect_null(compiler_identity(c, &remark));
    cr_expect_not_null(strstr(remark.text, pipe), "%s", remark.text);
    compiler_destroy(c);
    support_expect_load(pipe, FFN_SYSTEM, "not a regular file");
    support_expect_load(folder, FFN_SYSTEM, "not a regular file");
    support_remove(folder);
}

Test(compiler_files, a_library_without_a_name_is_remarked_once) {
    char folder[64], store[128];
    const char *library = support_copy_libffngen(folder, NULL);
    snprintf(store, sizeof store, "%s/store", folder);
    HOST("compiler_host", "remark", library, store);
    support_expect_words("images have no name", COMPILER_ID_FILE);
    HOST("compiler_host", "remark", library, "");
    support_expect_success();
    cr_expect_str_eq(support_result.out, "\n");
    support_remove(folder);
    library = support_copy_libffngen(folder, "generator: abc\nllvm: 19.1.7\nlibllvm: /nowhere/libLLVM.so\n");
    ffn_diag remark = {.text = ""};
    compiler *c = compiler_create(library);
    cr_expect_null(compiler_identity(c, NULL));
    cr_expect_null(compiler_identity(c, &remark));
    cr_expect_not_null(strstr(remark.text, "/nowhere/libLLVM.so"), "%s", remark.text);
    remark.text[0] = '\0';
    cr_expect_null(compiler_identity(c, &remark));
    cr_expect_str_empty(remark.text);
    compiler_destroy(c);
    support_remove(folder);
}

Test(compiler_files, a_static_program_says_that_it_cannot_load_one) {
    if (access(support_beside("compiler_host_static"), X_OK) != 0)
        cr_skip_test("no static program could be linked");
    HOST("compiler_host_static", "refused", support_beside("libffngen.so"));
    support_expect_words(ffn_status_text(FFN_UNSUPPORTED), "a static program");
    HOST("compiler_host_static", "refused");
    support_expect_words(ffn_status_text(FFN_UNSUPPORTED), "a static program");
}
