/* test_machine_file.c: files that describe a machine: read back as written, refused by line and field where they are
 * not what they should be */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "machine_text.h"
#include "support_files.h"

TestSuite(machine_file, .init = support_folder_make, .fini = support_folder_remove, .timeout = 60);

static ffn_diag diag;

static ffn_status read_text(const char *text, ffn_machine *machine) {
    const char *path = support_path("machine");
    support_file_write(path, text, strlen(text));
    diag = (ffn_diag){.text = ""};
    return machine_file_read(path, machine, &diag);
}

Test(machine_file, lines_comments_and_blanks_are_read_in_any_order) {
    ffn_machine machine;
    cr_assert_eq(read_text("# a Zen 3 server\n\n  l3_bytes\t33554432 # shared by eight\nl1_bytes 32768\r\n"
                           "#l1_bytes 1\nl2_bytes   524288",
                           &machine),
                 FFN_OK, "%s", diag.text);
    cr_expect_eq(machine.l1_bytes, 32768);
    cr_expect_eq(machine.l2_bytes, 524288);
    cr_expect_eq(machine.l3_bytes, 33554432);
}

Test(machine_file, no_third_level_is_zero) {
    ffn_machine machine;
    cr_assert_eq(read_text("l1_bytes 65536\nl2_bytes 1048576\nl3_bytes 0\n", &machine), FFN_OK, "%s", diag.text);
    cr_expect_eq(machine.l3_bytes, 0);
}

#define SIZES "l1_bytes 32768\nl2_bytes 524288\nl3_bytes 33554432\n"
#define RATES "fma_mflops 103564\nl1_mbs 203769\nl2_mbs 102673\n"

Test(machine_file, rates_are_read_in_any_order_and_are_zero_where_there_are_none) {
    ffn_machine machine;
    cr_assert_eq(read_text("memory_mbs 22458 # of one core\n" SIZES "l3_mbs 61976\n" RATES, &machine), FFN_OK, "%s",
                 diag.text);
    cr_expect_eq(machine.l3_bytes, 33554432);
    cr_expect_eq(machine.fma_mflops, 103564);
    cr_expect_eq(machine.l1_mbs, 203769);
    cr_expect_eq(machine.l2_mbs, 102673);
    cr_expect_eq(machine.l3_mbs, 61976);
    cr_expect_eq(machine.memory_mbs, 22458);
    cr_assert_eq(read_text(SIZES, &machine), FFN_OK, "%s", diag.text);
    cr_expect_eq(machine.fma_mflops, 0);
    cr_expect_eq(machine.l1_mbs, 0);
    cr_expect_eq(machine.l2_mbs, 0);
    cr_expect_eq(machine.l3_mbs, 0);
    cr_expect_eq(machine.memory_mbs, 0);
    cr_assert_eq(read_text("l1_bytes 32768\nl2_bytes 524288\nl3_bytes 0\nmemory_mbs 22458\nl3_mbs 0\n" RATES, &machine),
                 FFN_OK, "%s", diag.text);
    cr_expect_eq(machine.l3_mbs, 0);
}

Test(machine_file, rates_in_another_unit_or_not_all_of_them_are_refused) {
    static const struct {
        const char *text, *first, *second;
    } cases[] = {
        {SIZES "fma_mflops 103\n", "line 4", "fma_mflops 103: it must be 500 .."},   /* 10^9 */
        {SIZES "fma_mflops 103564000\n", "line 4", ".. 4000000 10^6 operations"},    /* 10^3 */
        {SIZES "fma_mflops 103564000000\n", "line 4", ".. 4000000 10^6 operations"}, /* none */
        {SIZES "l1_mbs 204\n", "line 4", "l1_mbs 204: it must be 1000 .."},          /* 10^9 */
        {SIZES "l2_mbs 102673000\n", "line 4", "10^6 bytes a second"},               /* 10^3 */
        {SIZES "l3_mbs 62\n", "line 4", "or 0 for none"},                            /* 10^9 */
        {SIZES "memory_mbs 22\n", "line 4", "memory_mbs 22: it must be 200 .."},     /* 10^9 */
        {SIZES "memory_mbs 22458000000\n", "line 4", "10^6 bytes a second"},         /* none */
        {SIZES "memory_mbs 22.5\n", "line 4", "10^6 bytes a second and without unit"},
        {SIZES "memory_mbs 22458MB\n", "line 4", "without unit"},
        {SIZES "memory_mbs 0\n", "line 4", "memory_mbs 0"},
        {SIZES "memory_gbs 22458\n", "line 4", "did you mean memory_mbs"},
        {SIZES "l1_mbs 204000\nl1_mbs 204000\n", "line 5", "twice"},
        {SIZES RATES "l3_mbs 61976\n", "memory_mbs is missing", "all together"}, /* cut short after a line */
        {SIZES RATES "memory_mbs 22458\n", "l3_mbs is missing", "0 for none"},
        {SIZES RATES, "l3_mbs is missing", "all together"},
        {SIZES "fma_mflops 103564\n", "l1_mbs is missing", "all together"},
        {SIZES RATES "l3_mbs 61976\nmemory_m", "line 8", "memory_mbs"}, /* and within one */
        {SIZES RATES "l3_mbs 61976\nmemory_mbs", "line 8", "number"},
        {SIZES RATES "l3_mbs 61976\nmemory_mbs 22", "line 8", "200 .."},
        {SIZES RATES "l3_mbs 0\nmemory_mbs 22458\n", "l3_mbs 0", "l3_bytes 33554432"},
        {"l1_bytes 32768\nl2_bytes 524288\nl3_bytes 0\n" RATES "l3_mbs 9000\nmemory_mbs 9000\n", "l3_mbs 9000",
         "l3_bytes 0"},
        {SIZES RATES "l3_mbs 1000\nmemory_mbs 22458\n", "22458", "not faster"},
        {"l1_bytes 32768\nl2_bytes 524288\nl3_bytes 0\n" RATES "l3_mbs 0\nmemory_mbs 900000\n", "900000", "102673"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ffn_machine machine = {.l1_bytes = 7, .memory_mbs = 7};
        cr_expect_eq(read_text(cases[i].text, &machine), FFN_BAD_FILE, "%s", cases[i].text);
        cr_expect(strstr(diag.text, cases[i].first) && strstr(diag.text, cases[i].second), "%s: %s", cases[i].text,
                  diag.text);
        cr_expect(machine.l1_bytes == 7 && machine.memory_mbs == 7, "refused and written: %s", cases[i].text);
    }
}

Test(machine_file, what_was_written_is_read_back) {
    ffn_machine machines[12];
    int count = 0;
    ffn_machine_read(&machines[count++]);
    for (int isa = 0; isa < FFN_ISA_COUNT; isa++)
        count += ffn_machine_generic((ffn_isa)isa, &machines[count], NULL) == FFN_OK;
    machines[count++] = (ffn_machine){.l1_bytes = 4096, .l2_bytes = 32768};
    machines[count++] = (ffn_machine){.l1_bytes = 4194304, .l2_bytes = 1073741824, .l3_bytes = 68719476736};
    machines[count++] = (ffn_machine){4096, 32768, 0, 500, 1000, 500, 0, 200};
    machines[count++] = (ffn_machine){4194304, 1073741824, 68719476736, 4000000, 8000000, 4000000, 2000000, 1000000};
    for (int i = 0; i < count; i++) {
        char text[MACHINE_TEXT_BYTES];
        ffn_machine back;
        cr_assert_eq(machine_format(&machines[i], text, &diag), FFN_OK, "%s", diag.text);
        cr_assert_eq(read_text(text, &back), FFN_OK, "%s", diag.text);
        cr_expect_eq(back.l1_bytes, machines[i].l1_bytes);
        cr_expect_eq(back.l2_bytes, machines[i].l2_bytes);
        cr_expect_eq(back.l3_bytes, machines[i].l3_bytes);
        cr_expect_eq(back.fma_mflops, machines[i].fma_mflops);
        cr_expect_eq(back.l1_mbs, machines[i].l1_mbs);
        cr_expect_eq(back.l2_mbs, machines[i].l2_mbs);
        cr_expect_eq(back.l3_mbs, machines[i].l3_mbs);
        cr_expect_eq(back.memory_mbs, machines[i].memory_mbs);
        cr_expect((strstr(text, "mbs") != NULL) == (machines[i].fma_mflops != 0), "rates that there are none of: %s",
                  text);
    }
    cr_assert_geq(count, 8);
}

Test(machine_file, each_mistake_is_named_with_its_line) {
    static const struct {
        const char *text, *first, *second;
    } cases[] = {
        {"", "l1_bytes", "missing"},
        {"l1_bytes 32768\nl2_bytes 524288\n", "l3_bytes", "missing"},
        {"l1_bytes 32768\nl2_bytes 524288\nl3_byte 0\n", "line 3", "l3_bytes"}, /* the near name */
        {"l1_bytes 32768\n\nl1_bytes 32768\n", "line 3", "twice"},
        {"l1_bytes\n", "line 1", "l1_bytes"},
        {"l1_bytes 32K\n", "line 1", "without unit"},
        {"l1_bytes -32768\n", "line 1", "number"},
        {"l1_bytes 32768.0\n", "line 1", "number"},
        {"l1_bytes 0x8000\n", "line 1", "number"},
        {"l1_bytes 32768 bytes\n", "line 1", "number"},
        {"l1_bytes = 32768\n", "line 1", "number"},
        {"l1_bytes 32\n", "line 1", "4096 .."},
        {"l1_bytes 0\n", "line 1", "4096 .."},
        {"# x\nl2_bytes 1073741825\n", "line 2", "1073741824"},
        {"l2_bytes 99999999999999999999\n", "line 1", "number"},
        {"l3_bytes 1\n", "line 1", "or 0"},
        {"l1_bytes 65536\nl2_bytes 65536\nl3_bytes 0\n", "larger", "65536"},
        {"l1_bytes 65536\nl2_bytes 524288\nl3_bytes 524288\n", "larger", "524288"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ffn_machine machine = {.l1_bytes = 7};
        cr_expect_eq(read_text(cases[i].text, &machine), FFN_BAD_FILE, "%s", cases[i].text);
        cr_expect(strstr(diag.text, cases[i].first) && strstr(diag.text, cases[i].second), "%s: %s", cases[i].text,
                  diag.text);
        cr_expect_eq(machine.l1_bytes, 7, "refused and written: %s", cases[i].text);
    }
}

Test(machine_file, what_is_no_text_file_is_refused) {
    ffn_machine machine;
    cr_expect_eq(machine_file_read(support_path("absent"), &machine, &diag), FFN_SYSTEM);
    cr_expect(strstr(diag.text, "absent"), "%s", diag.text);
    cr_assert_eq(mkfifo(support_path("pipe"), 0600), 0);
    cr_expect_eq(machine_file_read(support_path("pipe"), &machine, &diag), FFN_BAD_FILE);
    cr_assert_eq(mkdir(support_path("folder"), 0700), 0);
    cr_expect_eq(machine_file_read(support_path("folder"), &machine, &diag), FFN_BAD_FILE);
    static const char binary[] = "l1_bytes 32768\nl2_bytes 524288\nl3_bytes 0\n\0l1_bytes 4096\n";
    support_file_write(support_path("binary"), binary, sizeof binary - 1);
    cr_expect_eq(machine_file_read(support_path("binary"), &machine, &diag), FFN_BAD_FILE);
    cr_expect(strstr(diag.text, "zero byte"), "%s", diag.text);
    static char large[65 << 10];
    memset(large, '#', sizeof large);
    support_file_write(support_path("large"), large, sizeof large);
    cr_expect_eq(machine_file_read(support_path("large"), &machine, &diag), FFN_BAD_FILE);
    cr_expect(strstr(diag.text, "at most"), "%s", diag.text);
}

Test(machine_file, machines_that_would_not_be_read_are_not_written) {
    char text[MACHINE_TEXT_BYTES] = "as before";
    cr_expect_eq(machine_format(&(ffn_machine){.l1_bytes = 1, .l2_bytes = 524288}, text, &diag), FFN_BAD_ARGUMENT);
    cr_expect_eq(machine_format(&(ffn_machine){.l1_bytes = 65536, .l2_bytes = 65536}, text, &diag), FFN_BAD_ARGUMENT);
    cr_expect_eq(machine_format(&(ffn_machine){32768, 524288, 0, 103, 204, 103, 0, 22}, text, &diag), FFN_BAD_ARGUMENT);
    cr_expect_eq(machine_format(&(ffn_machine){32768, 524288, 0, 103000, 0, 0, 0, 0}, text, &diag), FFN_BAD_ARGUMENT);
    cr_expect_str_eq(text, "as before");
}
