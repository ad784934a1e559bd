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

Test(machine_file, what_was_written_is_read_back) {
    ffn_machine machines[8];
    int count = 0;
    ffn_machine_read(&machines[count++]);
    for (int isa = 0; isa < FFN_ISA_COUNT; isa++)
        count += ffn_machine_generic((ffn_isa)isa, &machines[count], NULL) == FFN_OK;
    machines[count++] = (ffn_machine){4096, 32768, 0};
    machines[count++] = (ffn_machine){4194304, 1073741824, 68719476736};
    for (int i = 0; i < count; i++) {
        char text[MACHINE_TEXT_BYTES];
        ffn_machine back;
        cr_assert_eq(machine_format(&machines[i], text, &diag), FFN_OK, "%s", diag.text);
        cr_assert_eq(read_text(text, &back), FFN_OK, "%s", diag.text);
        cr_expect_eq(back.l1_bytes, machines[i].l1_bytes);
        cr_expect_eq(back.l2_bytes, machines[i].l2_bytes);
        cr_expect_eq(back.l3_bytes, machines[i].l3_bytes);
    }
    cr_assert_geq(count, 6);
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
    cr_expect_eq(machine_format(&(ffn_machine){1, 524288, 0}, text, &diag), FFN_BAD_ARGUMENT);
    cr_expect_eq(machine_format(&(ffn_machine){65536, 65536, 0}, text, &diag), FFN_BAD_ARGUMENT);
    cr_expect_str_eq(text, "as before");
}
