/* test_tools_gdb.c: gdb's list holds what is mapped and nothing else; what it leads to is an ELF file that the
 * published layout and gdb itself read as we mean it */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support_data.h"
#include "support_kernel.h"
#include "support_tools.h"
#include "tools.h"

Test(tools_gdb, list_is_as_before_whatever_goes_first) {
    static const int orders[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {1, 2, 0}, {0, 2, 1}, {2, 0, 1}};
    support_tools_image code[3];
    for (int c = 0; c < 3; c++)
        support_tools_image_make(FFN_ISA_AVX2, 0x10000U * (unsigned)(c + 1), &code[c]);
    for (size_t o = 0; o < sizeof orders / sizeof orders[0]; o++) {
        tools_note *notes[3];
        for (int c = 0; c < 3; c++) {
            notes[c] = tools_register(FFN_TOOL_GDB, &code[c].image);
            cr_assert_eq(support_gdb_count(), c + 1);
        }
        for (int c = 0; c < 3; c++) {
            tools_unregister(notes[orders[o][c]]);
            cr_assert_eq(support_gdb_count(), 2 - c);
        }
        cr_assert_null(support_gdb_first());
    }
}

/* ---- The file, read by the offsets of the System V ABI ---- */

static uint64_t number(const char *file, uint64_t at, int bytes) {
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--)
        value = value << 8 | (unsigned char)file[at + (uint64_t)i];
    return value;
}

/* Field at `offset` of section header `index`. */
static uint64_t section(const char *file, uint64_t index, uint64_t offset, int bytes) {
    return number(file, number(file, 40, 8) + index * number(file, 58, 2) + offset, bytes);
}

static uint64_t section_named(const char *file, const char *name) {
    uint64_t names = section(file, number(file, 62, 2), 24, 8);
    for (uint64_t s = 1; s < number(file, 60, 2); s++)
        if (!strcmp(file + names + section(file, s, 0, 4), name))
            return s;
    cr_assert_fail("no section %s", name);
    return 0;
}

static void check_file(const struct gdb_code_entry *entry, uint64_t machine, const char *isa) {
    const char *file = entry->symfile_addr;
    cr_assert_eq(memcmp(file, "\177ELF\2\1\1", 7), 0); /* 64 bits, little-endian, version 1 */
    cr_assert_eq(number(file, 18, 2), machine);
    uint64_t text = section_named(file, ".text"), symtab = section_named(file, ".symtab");
    cr_assert_eq(section(file, text, 4, 4), 8, "NOBITS");
    cr_assert_eq(section(file, text, 8, 8), 6, "allocated, executable");
    cr_assert_eq(section(file, text, 16, 8), 0x7f0000001000);
    cr_assert_eq(section(file, text, 32, 8), 0x380);
    uint64_t symbols = section(file, symtab, 24, 8), bytes = section(file, symtab, 32, 8);
    uint64_t names = section(file, section(file, symtab, 40, 4), 24, 8);
    cr_assert_eq(section(file, symtab, 56, 8), 24);
    cr_assert_leq(symbols + bytes, entry->symfile_size);
    static const struct {
        const char *part;
        uint64_t address, bytes;
    } expected[] = {{"tiles", 0x7f0000001000, 0x100},
                    {"fused", 0x7f0000001100, 0x80},
                    {"expand", 0x7f0000001180, 0x80},
                    {"contract", 0x7f0000001200, 0x100},
                    {"activate", 0x7f0000001300, 0x80}};
    cr_assert_eq(bytes, 6 * 24);
    for (uint64_t i = 0; i < 5; i++) {
        char name[128];
        uint64_t at = symbols + (i + 1) * 24;
        snprintf(name, sizeof name, "ffn_d64_f256_gelu_bias_%s_n17_%s", isa, expected[i].part);
        cr_assert_str_eq(file + names + number(file, at, 4), name);
        cr_assert_eq(number(file, at + 4, 1), 0x12, "a global function");
        cr_assert_eq(number(file, at + 6, 2), text);
        cr_assert_eq(number(file, at + 8, 8), expected[i].address);
        cr_assert_eq(number(file, at + 16, 8), expected[i].bytes);
    }
}

Test(tools_gdb, file_says_where_each_entry_is) {
    static const struct {
        ffn_isa isa;
        uint64_t machine;
        const char *name;
    } rows[] = {{FFN_ISA_AVX2, 62, "avx2"}, {FFN_ISA_AVX512, 62, "avx512"}, {FFN_ISA_NEON, 183, "neon"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        support_tools_image code;
        support_tools_image_make(rows[i].isa, 0x7f0000000000, &code);
        tools_note *note = tools_register(FFN_TOOL_GDB, &code.image);
        check_file(support_gdb_first(), rows[i].machine, rows[i].name);
        tools_unregister(note);
    }
}

/* ---- gdb itself ---- */

/* gdb sets it; then the child maps code and runs it. */
extern volatile int support_gdb_go;
volatile int support_gdb_go;

static void run_when_told(void) {
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    alarm(60);
    while (!support_gdb_go)
        usleep(10000);
    ffn_spec spec = support_spec("d24-f40-relu");
    ffn_plan plan = support_kernel_plan(&spec, ffn_isa_best(), FFN_N_1);
    support_kernel kernel;
    support_kernel_build(&spec, &plan, &kernel);
    support_weights *weights = support_random_weights(&spec, SUPPORT_NORMAL, 1);
    void *packed = support_packed(&spec, &weights->weights);
    float x[24] = {1}, y[24];
    tools_note *note = tools_register(FFN_TOOL_GDB, &kernel.code);
    support_kernel_run(&kernel, x, 24, y, 24, 1, packed);
    tools_unregister(note);
    support_gdb_go = 2;
    for (;;)
        usleep(10000);
}

Test(tools_gdb, gdb_stops_in_generated_code_and_names_it, .timeout = 120) {
    if (system("gdb --version > /dev/null 2>&1") != 0)
        cr_skip_test("gdb is not installed");
    if (ffn_isa_best() == FFN_ISA_PORTABLE)
        cr_skip_test("no ISA that code is generated for");
    pid_t child = fork();
    if (child == 0) {
        run_when_told();
        _exit(0);
    }
    char command[2048], symbol[128];
    snprintf(symbol, sizeof symbol, "ffn_d24_f40_relu_%s_n1_fused", ffn_isa_name(ffn_isa_best()));
    snprintf(command, sizeof command,
             "timeout -k 5 90 gdb -nx -batch -iex 'set debuginfod enabled off' -iex 'set auto-load off' -p %d"
             " -ex 'set breakpoint pending on' -ex 'break %s' -ex 'set variable {int}&support_gdb_go = 1'"
             " -ex continue -ex 'info symbol $pc' -ex 'backtrace 1' -ex 'delete'"
             " -ex 'break usleep' -ex continue -ex 'info functions ffn_d24_f40_relu' 2>&1 < /dev/null",
             (int)child, symbol);
    FILE *gdb = popen(command, "r");
    cr_assert_not_null(gdb);
    static char said[1 << 16];
    size_t length = fread(said, 1, sizeof said - 1, gdb);
    said[length] = '\0';
    pclose(gdb);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    if (strstr(said, "ptrace: Operation not permitted") != NULL)
        cr_skip_test("this system lets nobody trace processes");
    char expected[256];
    snprintf(expected, sizeof expected, "%s in section .text", symbol);
    cr_assert_not_null(strstr(said, expected), "%s", said);
    snprintf(expected, sizeof expected, " in %s ()", symbol);
    cr_assert_not_null(strstr(said, expected), "%s", said);
    const char *after = strstr(said, "All functions matching");
    cr_assert_not_null(after, "%s", said);
    cr_assert_null(strstr(after, symbol), "still named once it is gone: %s", said);
}
