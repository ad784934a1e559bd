/* test_compiler.c: libffngen found and loaded on demand, and an LLVM that can fail without hurting the process
 *
 * What happens to a whole process happens to programs of their own: tests/programs/compiler_host.c says what each
 * situation expects. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler.h"
#include "compiler_id.h"
#include "ffngen.h"
#include "guard.h"
#include "inflight.h"
#include "stack.h"
#include "support_host.h"

/* ---- On demand ---- */

Test(compiler, libffngen_is_found_beside_the_program_and_loaded_when_asked_for) {
    HOST("compiler_host", "on_demand");
    support_expect_success();
}

Test(compiler, a_given_file_is_used) {
    HOST("compiler_host", "on_demand", support_beside("libffngen.so"));
    support_expect_success();
}

Test(compiler, libffngen_itself_says_what_the_file_beside_it_says) {
    compiler *c = compiler_create(support_beside("libffngen.so"));
    const char *without = compiler_identity(c, NULL), *with = ffngen_source()->identity;
    cr_assert_not_null(without);
    cr_expect_str_eq(without, with);
    cr_expect_not_null(strstr(with, ffngen_llvm_version()));
    cr_expect_null(strchr(with, '\n'));
    compiler_destroy(c);
}

Test(compiler, none_is_unsupported_and_says_which_file_was_looked_for) {
    compiler *c = compiler_create("");
    cr_expect_null(compiler_identity(c, NULL));
    compiler_destroy(c);
    support_expect_load("", FFN_UNSUPPORTED, "options.compiler");
    support_expect_load("/nowhere/libffngen.so", FFN_UNSUPPORTED, "/nowhere/libffngen.so");
    compiler_destroy(NULL);
}

Test(compiler, a_file_that_is_no_libffngen_is_refused_by_name) {
    NO_SANITIZER("this suite links LLVM, and without a text file it counts as another one");
    support_expect_load("/dev/null", FFN_SYSTEM, "/dev/null");
    support_expect_load("/etc/passwd", FFN_SYSTEM, "/etc/passwd");
    support_expect_load(support_beside("libffn.so"), FFN_SYSTEM, "not a libffngen of ffngen " FFN_VERSION);
}

Test(compiler, a_libffngen_of_another_version_is_refused_before_it_is_used) {
    HOST("compiler_host", "refused", support_beside("libversion_told.so"));
    support_expect_words(ffn_status_text(FFN_SYSTEM), "belongs to ffngen 0.0.1");
    HOST("compiler_host", "refused", support_beside("libversion_untold.so"));
    support_expect_words(ffn_status_text(FFN_SYSTEM), "it has no ffngen_version");
}

Test(compiler, a_library_that_is_not_what_its_file_says_is_not_used_under_that_name) {
    compiler_id id;
    cr_assert_eq(compiler_id_read(support_beside(COMPILER_ID_FILE), &id, NULL), FFN_OK);
    char text[sizeof id + 64], folder[64];
    snprintf(text, sizeof text, "generator: %064d\nllvm: %s\nlibllvm: %s\n", 0, id.llvm, id.libllvm);
    HOST("compiler_host", "refused", support_copy_libffngen(folder, text));
    support_expect_words(ffn_status_text(FFN_SYSTEM), "0000000000");
    support_expect_words("the library \"generator ", id.generator);
    support_remove(folder);
}

Test(compiler, without_its_text_file_a_library_compiles_and_has_no_name_before) {
    char folder[64];
    const char *library = support_copy_libffngen(folder, NULL);
    compiler *c = compiler_create(library);
    cr_expect_null(compiler_identity(c, NULL));
    compiler_destroy(c);
    HOST("compiler_host", "refused", library);
    support_expect_words(ffn_status_text(FFN_OK), "");
    support_remove(folder);
}

Test(compiler, a_damaged_text_file_names_nothing) {
    static const char *const texts[] = {"",
                                        "\n\n",
                                        "generator: abc\n",
                                        "generator: \nllvm: \nlibllvm: \n",
                                        "generator: abc\nllvm: 19.1.7\nlibllvm: /nowhere/libLLVM.so\n",
                                        "generator: abc\nllvm: 19.1.7 and far more than a version\nlibllvm: /\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char folder[64];
        compiler *c = compiler_create(support_copy_libffngen(folder, texts[i]));
        cr_expect_null(compiler_identity(c, NULL), "text %zu", i);
        compiler_destroy(c);
        support_remove(folder);
    }
}

Test(compiler, another_size_or_date_of_libllvm_is_another_identity) {
    compiler_id id = {.generator = "abc", .llvm = "19.1.7", .libllvm = "/tmp/ffn_test_libllvm_XXXXXX"};
    char first[COMPILER_ID_BYTES], second[COMPILER_ID_BYTES];
    int file = mkstemp(id.libllvm);
    cr_assert(file >= 0 && write(file, "llvm", 4) == 4);
    struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    cr_assert_eq(futimens(file, times), 0);
    cr_assert(compiler_id_line(&id, first));
    times[1].tv_nsec = 1;
    cr_assert_eq(futimens(file, times), 0);
    cr_assert(compiler_id_line(&id, second));
    cr_expect_str_neq(first, second);
    cr_assert(write(file, "!", 1) == 1 && futimens(file, times) == 0);
    cr_assert(compiler_id_line(&id, first));
    cr_expect_str_neq(first, second);
    unlink(id.libllvm);
    cr_expect_not(compiler_id_line(&id, first));
    close(file);
}

/* ---- Apart from other LLVMs ---- */

Test(compiler, another_llvm_shown_to_all_works_before_and_after) {
    NO_SANITIZER("it replaces malloc, which is a test of its own");
    HOST("compiler_host", "second_llvm");
    support_expect_success();
}

Test(compiler, a_program_that_shows_names_of_llvm_does_not_have_them_called) {
    NO_SANITIZER("it replaces malloc, which is a test of its own");
    HOST("compiler_host_fakes", "compile");
    support_expect_success();
}

Test(compiler, names_of_llvm_and_an_allocator_of_the_programs_own_are_refused) {
    NO_SANITIZER("it has an allocator of its own");
    HOST("compiler_host_fakes_mallocs", "refused");
    support_expect_words(ffn_status_text(FFN_UNSUPPORTED), "replaces malloc");
}

Test(compiler, an_allocator_of_the_programs_own_alone_is_no_hindrance) {
    NO_SANITIZER("it has an allocator of its own");
    HOST("compiler_host_mallocs", "compile");
    support_expect_success();
}

/* ---- Failures of LLVM ---- */

/* LLVM's and the C++ library's own ways to fail, under their mangled names. */
_Noreturn void report_fatal_error(const char *reason, bool crash) __asm__("_ZN4llvm18report_fatal_errorEPKcb");
_Noreturn void report_bad_alloc(const char *reason, bool crash) __asm__("_ZN4llvm22report_bad_alloc_errorEPKcb");

static ffn_status fatal(void *reason, ffn_diag *diag) {
    (void)diag;
    report_fatal_error(reason, false);
}

static ffn_status bad_alloc(void *reason, ffn_diag *diag) {
    (void)diag;
    report_bad_alloc(reason, false);
}

static ffn_status refuses(void *unused, ffn_diag *diag) {
    (void)unused, (void)diag;
    return FFN_UNSUPPORTED;
}

static ffn_status counted(void *calls, ffn_diag *diag) {
    (void)diag;
    ++*(int *)calls;
    return FFN_OK;
}

static void expect_dead_after(guard_task task, ffn_status expected, const char *word) {
    char reason[] = "the reason of this test";
    ffn_diag diag;
    int calls = 0;
    cr_assert_eq(guard_run(counted, &calls, &diag), FFN_OK);
    cr_assert_eq(calls, 1);
    cr_expect_eq(guard_run(task, reason, &diag), expected);
    cr_expect_eq(diag.status, expected);
    cr_expect_not_null(strstr(diag.text, word), "%s", diag.text);
    cr_expect_eq(guard_run(counted, &calls, &diag), FFN_COMPILE_FAILED);
    cr_expect_not_null(strstr(diag.text, "earlier"), "%s", diag.text);
    cr_expect_eq(calls, 1, "LLVM was entered again");
}

Test(compiler, a_fatal_error_of_llvm_is_a_status_and_llvm_is_not_used_again) {
    NO_SANITIZER("what LLVM held is lost, which it would report");
    expect_dead_after(fatal, FFN_COMPILE_FAILED, "the reason of this test");
}

Test(compiler, llvm_out_of_memory_is_a_status) {
    expect_dead_after(bad_alloc, FFN_OUT_OF_MEMORY, "the reason of this test");
}

Test(compiler, a_failed_task_does_not_kill_llvm) {
    ffn_spec spec = {.d_model = 16, .d_ff = 16, .activation = "relu"};
    ffn_plan plan;
    ffn_machine machine;
    ffn_bytes out;
    ffn_machine_generic(FFN_ISA_AVX2, &machine, NULL);
    cr_assert_eq(ffn_plan_make(&spec, FFN_ISA_AVX2, FFN_N_1, &machine, &plan, NULL), FFN_OK);
    cr_expect_eq(guard_run(refuses, NULL, NULL), FFN_UNSUPPORTED);
    ffn_plan wrong = plan;
    wrong.tile_count = 0;
    cr_expect_eq(ffngen_emit(&spec, &wrong, FFNGEN_IMAGE, &out, NULL), FFN_BAD_ARGUMENT);
    cr_expect_eq(ffngen_emit(&spec, &plan, FFNGEN_IMAGE, &out, NULL), FFN_OK);
    out.release(out.data);
}

Test(compiler, memory_that_runs_out_anywhere_in_a_build_is_a_status, .timeout = 300) {
    NO_SANITIZER("it has an allocator of its own");
    HOST("compiler_host_mallocs", "out_of_memory", "40");
    support_expect_success();
    printf("%s", support_result.out);
}

Test(compiler, any_limit_on_address_space_is_a_status, .timeout = 300) {
    NO_SANITIZER("it needs more address space than any limit");
    HOST("compiler_host", "within");
    support_expect_success();
    printf("%s", support_result.out);
}

/* operator new(size, std::nothrow): NULL if `operator new` throws, after it asked the handler. */
extern void *new_nothrow(size_t bytes, const void *nothrow) __asm__("_ZnwmRKSt9nothrow_t") __attribute__((weak));
extern const char std_nothrow __asm__("_ZSt7nothrow") __attribute__((weak));

static void *allocate_too_much(void *unused) {
    (void)unused;
    return new_nothrow(SIZE_MAX / 4, &std_nothrow);
}

static ffn_status fail_elsewhere(void *argument, ffn_diag *diag) {
    (void)argument, (void)diag;
    pthread_t thread;
    void *got = &thread;
    cr_assert_eq(pthread_create(&thread, NULL, allocate_too_much, NULL), 0);
    pthread_join(thread, &got);
    cr_expect_null(got);
    return FFN_OK;
}

static ffn_status fail_here(void *argument, ffn_diag *diag) {
    (void)argument, (void)diag;
    allocate_too_much(NULL);
    return FFN_OK;
}

Test(compiler, a_thread_that_does_not_compile_keeps_the_habits_of_new) {
    NO_SANITIZER("it has an allocator of its own");
    if (new_nothrow == NULL)
        cr_skip_test("another C++ library");
    cr_expect_eq(guard_run(fail_elsewhere, NULL, NULL), FFN_OK);
    cr_expect_null(allocate_too_much(NULL), "after a task");
    cr_expect_eq(guard_run(fail_here, NULL, NULL), FFN_OUT_OF_MEMORY);
    cr_expect_null(allocate_too_much(NULL), "after LLVM died");
}

/* ---- fork, exit, stacks, unloading ---- */

Test(compiler, a_child_forked_from_a_build_says_so_and_one_from_an_idle_process_compiles, .timeout = 200) {
    NO_SANITIZER("its own locks are held in such a child");
    HOST("compiler_host", "fork_during");
    support_expect_success();
}

Test(compiler, a_child_forked_while_another_thread_loads_never_waits_for_it, .timeout = 300) {
    NO_SANITIZER("its own locks are held in such a child");
    HOST("compiler_host", "fork_while_loading");
    support_expect_success();
}

Test(compiler, exit_during_a_build_keeps_its_status, .timeout = 300) {
    HOST("compiler_host", "exit_during", "30");
    support_expect_success();
}

Test(compiler, exit_while_another_thread_loads_keeps_its_status, .timeout = 300) {
    HOST("compiler_host", "exit_while_loading", "100");
    support_expect_success();
}

Test(compiler, a_short_stack_is_refused_and_what_is_asked_for_is_enough) {
    HOST("compiler_host", "on_stack", "256");
    support_expect_words(ffn_status_text(FFN_COMPILE_FAILED), "KiB of this thread's stack");
    HOST("compiler_host", "on_stack", "256", "loaded");
    support_expect_words(ffn_status_text(FFN_COMPILE_FAILED), "KiB of this thread's stack");
    NO_SANITIZER("its frames are larger");
    HOST("compiler_host", "on_stack", "540");
    support_expect_words(ffn_status_text(FFN_OK), "");
}

Test(compiler, the_stack_left_is_what_the_system_says) {
    size_t left = 0;
    cr_expect(stack_has((size_t)16 << 10, &left));
    cr_expect_not(stack_has(SIZE_MAX, &left));
    char deeper[64 << 10];
    memset(deeper, 1, sizeof deeper);
    cr_expect(left > sizeof deeper && deeper[left % sizeof deeper] == 1);
}

Test(compiler, both_libraries_may_be_closed) {
    NO_SANITIZER("its run time is in the program");
    HOST("compiler_host", "unload", support_beside("libffn.so"), support_beside("libffngen.so"));
    support_expect_success();
}

Test(compiler, calls_under_way_are_known_for_what_they_are_after_a_fork) {
    static inflight word;
    cr_assert(inflight_enter(&word) && inflight_enter(&word));
    cr_expect_eq(inflight_count(&word), 2);
    atomic_fetch_add(&word, UINT64_C(1) << 32); /* as a child sees it: another process's word */
    cr_expect_eq(inflight_count(&word), 0);
    cr_expect_not(inflight_enter(&word));
    cr_expect_not(inflight_enter(&word));
    atomic_fetch_sub(&word, UINT64_C(1) << 32);
    inflight_leave(&word);
    inflight_leave(&word);
    atomic_fetch_add(&word, UINT64_C(1) << 32);
    cr_expect(inflight_enter(&word), "a child of an idle process");
    cr_expect_eq(inflight_count(&word), 1);
}
