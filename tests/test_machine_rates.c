/* test_machine_rates.c: measured rates that were kept -> the machine that plans are made for, or a remark why not */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "machine.h"
#include "machine_name.h"
#include "machine_text.h"
#include "support_files.h"

TestSuite(machine_rates, .init = support_folder_make, .fini = support_folder_remove, .timeout = 60);

static const ffn_machine system_says = {.l1_bytes = 32768, .l2_bytes = 524288, .l3_bytes = 33554432};
static ffn_diag remark;

#define SIZES "l1_bytes 32768\nl2_bytes 524288\nl3_bytes 33554432\n"
#define RATES "fma_mflops 103564\nl1_mbs 203769\nl2_mbs 102673\nl3_mbs 61976\nmemory_mbs 22458\n"

static ffn_machine take(const char *text) {
    ffn_machine machine = system_says;
    const char *path = support_path("rates");
    support_file_write(path, text, strlen(text));
    memset(&remark, 'x', sizeof remark);
    machine_take_rates(path, &machine, &remark);
    return machine;
}

static void expect_rates(const ffn_machine *machine) {
    cr_expect_eq(machine->fma_mflops, 103564);
    cr_expect_eq(machine->l1_mbs, 203769);
    cr_expect_eq(machine->l2_mbs, 102673);
    cr_expect_eq(machine->l3_mbs, 61976);
    cr_expect_eq(machine->memory_mbs, 22458);
}

static void expect_none(const ffn_machine *machine, const char *what) {
    cr_expect(machine->l1_bytes == 32768 && machine->l2_bytes == 524288 && machine->l3_bytes == 33554432,
              "%s: the caches are not the system's", what);
    cr_expect(!machine->fma_mflops && !machine->l1_mbs && !machine->l2_mbs && !machine->l3_mbs && !machine->memory_mbs,
              "%s: rates were taken", what);
    cr_expect_eq(remark.status, FFN_OK, "%s", what);
}

Test(machine_rates, those_of_the_same_caches_are_taken) {
    const ffn_machine machine = take("# measured\n" SIZES RATES);
    expect_rates(&machine);
    cr_expect_eq(machine.l2_bytes, 524288);
    cr_expect(remark.status == FFN_OK && !*remark.text, "%s", remark.text);
}

Test(machine_rates, those_of_other_caches_are_refused_with_a_remark) {
    static const char *const texts[] = {
        "l1_bytes 49152\nl2_bytes 524288\nl3_bytes 33554432\n" RATES,
        "l1_bytes 32768\nl2_bytes 1048576\nl3_bytes 33554432\n" RATES,
        "l1_bytes 32768\nl2_bytes 524288\nl3_bytes 16777216\n" RATES,
        "l1_bytes 32768\nl2_bytes 524288\nl3_bytes 0\nfma_mflops 103564\nl1_mbs 203769\nl2_mbs 102673\nl3_mbs 0\n"
        "memory_mbs 22458\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const ffn_machine machine = take(texts[i]);
        expect_none(&machine, texts[i]);
        cr_expect(strstr(remark.text, "rates") && strstr(remark.text, "524288") && strstr(remark.text, "calibrate"),
                  "%s", remark.text);
    }
}

Test(machine_rates, a_bad_file_leaves_none_and_is_named_with_line_and_field) {
    ffn_machine machine = take(SIZES "fma_mflops 103564\nl1_mbs 204\n");
    expect_none(&machine, "another unit");
    cr_expect(strstr(remark.text, "rates, line 5: l1_mbs 204"), "%s", remark.text);
    machine = take(SIZES "fma_mflops 103564\nl1_mbs 203769\n");
    expect_none(&machine, "half written");
    cr_expect(strstr(remark.text, "rates: l2_mbs is missing"), "%s", remark.text);
    machine = take(SIZES RATES "turbo 1\n");
    expect_none(&machine, "unknown field");
    cr_expect(strstr(remark.text, "line 9") && strstr(remark.text, "turbo"), "%s", remark.text);
    machine = take("");
    expect_none(&machine, "empty");
    cr_expect(*remark.text);
}

Test(machine_rates, no_file_is_nothing_to_remark_and_a_folder_is) {
    ffn_machine machine = system_says;
    memset(&remark, 'x', sizeof remark);
    machine_take_rates(support_path("absent"), &machine, &remark);
    expect_none(&machine, "absent");
    cr_expect_str_empty(remark.text);
    memset(&remark, 'x', sizeof remark);
    machine_take_rates(support_path("no/such/folder"), &machine, &remark);
    cr_expect_str_empty(remark.text);
    cr_assert_eq(mkdir(support_path("folder"), 0700), 0);
    machine_take_rates(support_path("folder"), &machine, &remark);
    expect_none(&machine, "folder");
    cr_expect(strstr(remark.text, "folder"), "%s", remark.text);
    machine_take_rates(support_path("folder"), &machine, NULL);
}

/* This machine's own file, as calibrate writes it. */
Test(machine_rates, this_machines_file_lies_in_the_folder_of_settings) {
    setenv("XDG_CONFIG_HOME", support_path("config"), 1);
    setenv("HOME", support_path("home"), 1);
    ffn_machine machine, caches;
    ffn_machine_read(&caches);
    machine_read_calibrated(&machine, &remark);
    cr_expect(machine.fma_mflops == 0 && !*remark.text, "%s", remark.text);

    char *path = machine_calibration_path(NULL), file[MACHINE_NAME_BYTES], want[4096], text[MACHINE_TEXT_BYTES];
    machine_name_file(ffn_machine_name(), file);
    snprintf(want, sizeof want, "%s/ffngen/machines/%s", support_path("config"), file);
    cr_assert_str_eq(path, want);
    cr_assert_eq(mkdir(support_path("config"), 0700), 0);
    cr_assert_eq(mkdir(support_path("config/ffngen"), 0700), 0);
    cr_assert_eq(mkdir(support_path("config/ffngen/machines"), 0700), 0);
    const ffn_machine measured = {
        caches.l1_bytes, caches.l2_bytes, caches.l3_bytes, 103564, 203769, 102673, caches.l3_bytes ? 61976 : 0, 22458};
    cr_assert_eq(machine_format(&measured, text, &remark), FFN_OK, "%s", remark.text);
    support_file_write(path, text, strlen(text));
    machine_read_calibrated(&machine, &remark);
    cr_expect_str_empty(remark.text);
    cr_expect_eq(memcmp(&machine, &measured, sizeof machine), 0);

    unsetenv("XDG_CONFIG_HOME"); /* then ~/.config */
    machine_read_calibrated(&machine, NULL);
    cr_expect_eq(machine.fma_mflops, 0);
    unsetenv("HOME");
    memset(&remark, 'x', sizeof remark);
    machine_read_calibrated(&machine, &remark);
    cr_expect(machine.fma_mflops == 0 && machine.l1_bytes == caches.l1_bytes && !*remark.text, "%s", remark.text);
    free(path);
}
