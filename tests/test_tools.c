/* test_tools.c: who asks for nothing gets nothing; the perf map says what code stands where, and is never written to a
 * file that is not ours; fork and threads */
#define _GNU_SOURCE
#include "tools.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ffngen.h"
#include "support_data.h"
#include "support_kernel.h"
#include "support_tools.h"

#define BOTH (FFN_TOOL_PERF_MAP | FFN_TOOL_GDB)
#define BASE UINT64_C(0x7f0012340000)
#define OTHER_USER 65534

static char path[64], target[64]; /* the map of this process; what a hostile entry leads to */
static support_tools_image code;

static void set_up(void) {
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    snprintf(target, sizeof target, "/tmp/ffn-test-tools-%d", (int)getpid());
    unlink(path);
    unlink(target);
    support_tools_image_make(FFN_ISA_AVX2, BASE, &code);
}

static void tear_down(void) {
    unlink(path);
    unlink(target);
}

TestSuite(tools, .init = set_up, .fini = tear_down);

static char text[1 << 20];

static const char *read_text(const char *from) {
    int file = open(from, O_RDONLY | O_NOFOLLOW);
    cr_assert_geq(file, 0, "%s", from);
    ssize_t length = read(file, text, sizeof text - 1);
    cr_assert_geq(length, 0);
    text[length] = '\0';
    close(file);
    return text;
}

static void write_text(const char *to, const char *what) {
    FILE *file = fopen(to, "w");
    cr_assert_not_null(file);
    fputs(what, file);
    cr_assert_eq(fclose(file), 0);
}

static const char parts_of_code[] = "7f0012341000 100 ffn_d64_f256_gelu_bias_avx2_n17_tiles\n"
                                    "7f0012341100 80 ffn_d64_f256_gelu_bias_avx2_n17_fused\n"
                                    "7f0012341180 80 ffn_d64_f256_gelu_bias_avx2_n17_expand\n"
                                    "7f0012341200 100 ffn_d64_f256_gelu_bias_avx2_n17_contract\n"
                                    "7f0012341300 80 ffn_d64_f256_gelu_bias_avx2_n17_activate\n";

Test(tools, nobody_is_told_who_did_not_ask) {
    cr_assert_null(tools_register(0, &code.image));
    cr_assert_neq(access(path, F_OK), 0);
    cr_assert_eq(support_gdb_count(), 0);
    cr_assert_null(tools_register(FFN_TOOL_PERF_MAP, &code.image), "a perf map is not taken back");
    cr_assert_eq(support_gdb_count(), 0);
    unlink(path);
    tools_note *note = tools_register(FFN_TOOL_GDB, &code.image);
    cr_assert_not_null(note);
    cr_assert_neq(access(path, F_OK), 0);
    tools_unregister(note);
    tools_unregister(NULL);
}

Test(tools, names_are_those_of_an_object) {
    for (ffn_n_class c = 0; c < FFN_N_CLASSES; c++) {
        static const char *const entries[] = {"fused", "expand", "contract", "activate"};
        static const char *const least[] = {"1", "2", "5", "17"};
        code.header.spec = support_spec("d40-f24-bias-act(x*sigmoid(1.702*x))");
        code.header.plan = support_kernel_plan(&code.header.spec, FFN_ISA_NEON, c);
        code.header.isa = FFN_ISA_NEON;
        unlink(path);
        tools_register(FFN_TOOL_PERF_MAP, &code.image);
        read_text(path);
        ffn_bytes object;
        cr_assert_eq(ffngen_emit(&code.header.spec, &code.header.plan, FFNGEN_OBJECT, &object, NULL), FFN_OK);
        char name[FFN_SPEC_NAME_BYTES], symbol[2 * FFN_SPEC_NAME_BYTES];
        cr_assert_eq(ffn_spec_name(&code.header.spec, true, name, sizeof name, NULL), FFN_OK);
        for (int e = 0; e < IMAGE_ENTRIES; e++) {
            snprintf(symbol, sizeof symbol, " ffn_%s_neon_n%s_%s\n", name, least[c], entries[e]);
            cr_assert_not_null(strstr(text, symbol), "%s in %s", symbol, text);
            symbol[strlen(symbol) - 1] = '\0';
            cr_assert_not_null(memmem(object.data, object.bytes, symbol + 1, strlen(symbol)), "%s", symbol);
        }
        object.release(object.data);
    }
}

Test(tools, perf_map_covers_the_text) {
    tools_register(FFN_TOOL_PERF_MAP, &code.image);
    cr_assert_str_eq(read_text(path), parts_of_code);
    struct stat info;
    cr_assert_eq(stat(path, &info), 0);
    cr_assert_eq(info.st_mode & 07777, 0600);
    cr_assert_eq(info.st_uid, geteuid());
}

Test(tools, perf_map_of_code_in_another_order) {
    code.header.entries[IMAGE_FUSED] = IMAGE_ALIGN + 0x300;
    code.header.entries[IMAGE_EXPAND] = IMAGE_ALIGN; /* nothing in front of it */
    code.header.entries[IMAGE_ACTIVATE] = IMAGE_ALIGN + 0x20;
    tools_register(FFN_TOOL_PERF_MAP, &code.image);
    cr_assert_str_eq(read_text(path), "7f0012341000 20 ffn_d64_f256_gelu_bias_avx2_n17_expand\n"
                                      "7f0012341020 1e0 ffn_d64_f256_gelu_bias_avx2_n17_activate\n"
                                      "7f0012341200 100 ffn_d64_f256_gelu_bias_avx2_n17_contract\n"
                                      "7f0012341300 80 ffn_d64_f256_gelu_bias_avx2_n17_fused\n");
}

Test(tools, perf_map_of_this_process_is_appended_to) {
    static const char other[] = "1000 10 of_another_generator\n";
    write_text(path, other);
    tools_register(FFN_TOOL_PERF_MAP, &code.image);
    tools_register(FFN_TOOL_PERF_MAP, &code.image);
    read_text(path);
    cr_assert_eq(strncmp(text, other, sizeof other - 1), 0);
    cr_assert_eq(strncmp(text + sizeof other - 1, parts_of_code, sizeof parts_of_code - 1), 0);
    cr_assert_str_eq(text + sizeof other + sizeof parts_of_code - 2, parts_of_code);
}

Test(tools, perf_map_without_room_is_no_signal) {
    static const char other[] = "1000 10 of_another_generator\n";
    struct rlimit before;
    write_text(path, other);
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &(struct rlimit){sizeof other - 1, before.rlim_max}), 0);
    tools_register(FFN_TOOL_PERF_MAP, &code.image);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    cr_assert_str_eq(read_text(path), other);
}

Test(tools, perf_map_of_an_earlier_process_is_emptied) {
    write_text(path, "1000 10 of_the_past\n");
    struct timespec past[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    cr_assert_eq(utimensat(AT_FDCWD, path, past, 0), 0);
    tools_register(FFN_TOOL_PERF_MAP, &code.image);
    cr_assert_str_eq(read_text(path), parts_of_code);
}

/* ---- What may stand in /tmp in place of our file ---- */

static void expect_refused(void) {
    tools_note *note = tools_register(BOTH, &code.image);
    cr_assert_not_null(note, "gdb is told all the same");
    tools_unregister(note);
    cr_assert_eq(support_gdb_count(), 0);
}

Test(tools, link_to_a_file_is_refused) {
    write_text(target, "kept");
    cr_assert_eq(symlink(target, path), 0);
    expect_refused();
    cr_assert_str_eq(read_text(target), "kept");
    unlink(target); /* and one that leads nowhere */
    expect_refused();
    cr_assert_neq(access(target, F_OK), 0);
}

Test(tools, second_name_of_a_file_is_refused) {
    write_text(target, "kept");
    cr_assert_eq(link(target, path), 0);
    expect_refused();
    cr_assert_str_eq(read_text(target), "kept");
}

Test(tools, file_that_others_may_write_is_refused) {
    for (mode_t others = S_IWOTH; others <= S_IWGRP; others = others == S_IWOTH ? S_IWGRP : S_IFMT) {
        write_text(path, "kept");
        cr_assert_eq(chmod(path, S_IRUSR | S_IWUSR | others), 0);
        expect_refused();
        cr_assert_str_eq(read_text(path), "kept");
    }
}

Test(tools, file_of_another_user_is_refused) {
    if (geteuid() != 0)
        cr_skip_test("only root can make a file of another user");
    write_text(path, "kept");
    cr_assert_eq(chown(path, OTHER_USER, OTHER_USER), 0);
    expect_refused();
    cr_assert_str_eq(read_text(path), "kept");
}

Test(tools, pipe_is_refused_without_waiting, .timeout = 20) {
    cr_assert_eq(mkfifo(path, 0600), 0);
    expect_refused();
    int reader = open(path, O_RDONLY | O_NONBLOCK);
    expect_refused();
    char byte;
    cr_assert_leq(read(reader, &byte, 1), 0);
    close(reader);
}

Test(tools, folder_is_refused) {
    cr_assert_eq(mkdir(path, 0700), 0);
    expect_refused();
    cr_assert_eq(rmdir(path), 0);
}

/* ---- Forks and threads ---- */

static _Atomic bool stop;

static void *register_on_and_on(void *argument) {
    support_tools_image mine;
    support_tools_image_make(FFN_ISA_AVX2, BASE, &mine);
    long *count = argument;
    for (long i = 0; *count < 0 ? !atomic_load(&stop) : i < *count; i++)
        tools_unregister(tools_register(*count < 0 ? FFN_TOOL_GDB : BOTH, &mine.image));
    return NULL;
}

Test(tools, child_has_a_map_of_its_own_and_never_waits_for_a_thread_it_lacks, .timeout = 60) {
    enum { FORKS = 200 };
    pthread_t thread;
    long on_and_on = -1;
    atomic_store(&stop, false);
    tools_note *before = tools_register(FFN_TOOL_GDB, &code.image);
    cr_assert_eq(pthread_create(&thread, NULL, register_on_and_on, &on_and_on), 0);
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            char own[64];
            snprintf(own, sizeof own, "/tmp/perf-%d.map", (int)getpid());
            unlink(own);
            tools_note *note = tools_register(BOTH, &code.image);
            bool good = note != NULL && !strcmp(read_text(own), parts_of_code);
            unlink(own);
            tools_unregister(before);
            tools_unregister(note);
            _exit(good ? 0 : 1);
        }
        int status;
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_assert_eq(status, 0, "fork %d: status %x", i, (unsigned)status);
    }
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    tools_unregister(before);
    cr_assert_eq(support_gdb_count(), 0);
    cr_assert_neq(access(path, F_OK), 0);
}

Test(tools, threads_write_whole_blocks) {
    enum { THREADS = 8 };
    long each = 50;
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++)
        cr_assert_eq(pthread_create(&threads[t], NULL, register_on_and_on, &each), 0);
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    cr_assert_eq(support_gdb_count(), 0);
    read_text(path);
    const size_t block = sizeof parts_of_code - 1;
    cr_assert_eq(strlen(text), block * (size_t)(THREADS * each));
    for (const char *at = text; *at; at += block)
        cr_assert_eq(strncmp(at, parts_of_code, block), 0);
}

enum { CROWD = 8, NOTES = 1000 };
static tools_note *notes[CROWD][NOTES];
static pthread_barrier_t together;

static void *hold_many(void *own) {
    tools_note **mine = own;
    pthread_barrier_wait(&together);
    for (int i = 0; i < NOTES; i++)
        mine[i] = tools_register(FFN_TOOL_GDB, &code.image);
    pthread_barrier_wait(&together); /* all there: counted */
    pthread_barrier_wait(&together);
    for (int i = NOTES - 1; i >= 0; i--)
        tools_unregister(mine[i]);
    return NULL;
}

Test(tools, threads_lose_no_entry_of_the_list, .timeout = 120) {
    pthread_t threads[CROWD];
    cr_assert_eq(pthread_barrier_init(&together, NULL, CROWD + 1), 0);
    for (int t = 0; t < CROWD; t++)
        cr_assert_eq(pthread_create(&threads[t], NULL, hold_many, notes[t]), 0);
    pthread_barrier_wait(&together);
    pthread_barrier_wait(&together);
    cr_assert_eq(support_gdb_count(), CROWD * NOTES);
    pthread_barrier_wait(&together);
    for (int t = 0; t < CROWD; t++)
        pthread_join(threads[t], NULL);
    cr_assert_eq(support_gdb_count(), 0);
    pthread_barrier_destroy(&together);
}

Test(tools, thousand_times_over_nothing_grows) {
    tools_unregister(tools_register(BOTH, &code.image));
    size_t before = mallinfo2().uordblks;
    for (int i = 0; i < 1000; i++)
        tools_unregister(tools_register(BOTH, &code.image));
    cr_assert_eq(mallinfo2().uordblks, before);
    cr_assert_eq(support_gdb_count(), 0);
    int file = open("/dev/null", O_RDONLY); /* the least free descriptor */
    cr_assert_lt(file, 64);
    close(file);
}
