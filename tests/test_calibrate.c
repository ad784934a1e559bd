/* test_calibrate.c: what this machine was measured to do, and the file that keeps it
 *
 * No speed is expected, only what every machine has: L1 is faster than memory, and numbers in the right unit. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "levels.h"
#include "machine.h"
#include "machine_text.h"
#include "probes.h"
#include "support_command.h"
#include "support_files.h"

#define SHORT "0.02"

static char config[256];

static void begin(void) {
    support_folder_make();
    snprintf(config, sizeof config, "%s", support_path("config"));
    cr_assert_eq(mkdir(config, 0700), 0);
    setenv("XDG_CONFIG_HOME", config, 1);
}

TestSuite(calibrate, .init = begin, .fini = support_folder_remove, .timeout = 300);

static bool measures_here(void) {
    if (bench_probes_of(FFN_ISA_AUTO))
        return true;
    printf("no probe loops for this CPU: calibrate is not run\n");
    return false;
}

/* Of this process's user: nobody else's files are looked at. */
static const char *own_file(void) {
    static char path[512];
    char *found = machine_calibration_path(NULL);
    cr_assert(found);
    snprintf(path, sizeof path, "%s", found);
    free(found);
    return path;
}

static void expect_units(const bench_levels *levels, bool l3) {
    cr_expect(levels->peak_gflops > 0.5 && levels->peak_gflops < 1e5, "peak %g", levels->peak_gflops);
    cr_expect(levels->l1_gbs > 0.2 && levels->l1_gbs < 1e5, "L1 %g", levels->l1_gbs);
    cr_expect(levels->l2_gbs > 0.2 && levels->l2_gbs < 1e5, "L2 %g", levels->l2_gbs);
    cr_expect(levels->memory_gbs > 0.2 && levels->memory_gbs < 1e4, "memory %g", levels->memory_gbs);
    cr_expect((levels->l3_gbs > 0) == l3, "L3 %g", levels->l3_gbs);
    cr_expect(levels->spread >= 0, "spread %g", levels->spread);
}

/* By a clock that stands still while others run; a team has none, so of one nothing more can be said. */
static void expect_sane(const bench_levels *levels, bool l3) {
    expect_units(levels, l3);
    cr_expect(levels->l1_gbs > levels->memory_gbs, "L1 %g, memory %g", levels->l1_gbs, levels->memory_gbs);
}

Test(calibrate, levels_of_this_machine_are_measured_and_one_that_is_not_there_is_zero) {
    ffn_machine machine;
    bench_levels levels;
    ffn_diag diag = {0};
    ffn_machine_read(&machine);
    if (!measures_here()) {
        cr_expect_eq(bench_levels_measure(FFN_ISA_AUTO, &machine, 0.02, &levels, &diag), FFN_UNSUPPORTED);
        cr_expect(*diag.text);
        return;
    }
    cr_assert_eq(bench_levels_measure(FFN_ISA_AUTO, &machine, 0.02, &levels, &diag), FFN_OK, "%s", diag.text);
    expect_sane(&levels, machine.l3_bytes > 0);
    machine.l3_bytes = 0;
    cr_assert_eq(bench_levels_measure(FFN_ISA_AUTO, &machine, 0.02, &levels, &diag), FFN_OK, "%s", diag.text);
    expect_sane(&levels, false);
    bench_levels_keep(&levels, &machine);
    cr_expect_eq(machine.l3_mbs, 0);
    char text[MACHINE_TEXT_BYTES];
    cr_expect_eq(machine_format(&machine, text, &diag), FFN_OK, "%s", diag.text);
}

Test(calibrate, a_team_is_measured_on_the_same_levels) {
    ffn_machine machine;
    bench_levels levels;
    ffn_diag diag = {0};
    if (!measures_here())
        return;
    ffn_machine_read(&machine);
    bench_team *team = bench_team_create(2);
    cr_assert(team);
    cr_assert_eq(bench_levels_measure_team(FFN_ISA_AUTO, &machine, team, 0.02, &levels, &diag), FFN_OK, "%s",
                 diag.text);
    expect_units(&levels, machine.l3_bytes > 0);
    bench_team_destroy(team);
}

Test(calibrate, what_it_writes_is_what_plans_are_made_for) {
    if (!measures_here())
        return;
    RUN("calibrate", "--seconds", SHORT);
    support_expect_status(0);
    cr_expect(strstr(support_result.out, own_file()) && strstr(support_result.out, "GFLOP/s"), "%s",
              support_result.out);
    ffn_machine written, machine;
    ffn_diag diag = {0};
    cr_assert_eq(machine_file_read(own_file(), &written, &diag), FFN_OK, "%s", diag.text);
    machine_read_calibrated(&machine, &diag);
    cr_expect(!*diag.text, "%s", diag.text);
    cr_expect_eq(memcmp(&machine, &written, sizeof machine), 0);
    cr_expect(machine.fma_mflops > 0 && machine.l1_mbs > machine.memory_mbs);
    struct stat folder;
    cr_assert_eq(stat(support_path("config/ffngen/machines"), &folder), 0);
    cr_expect_eq(folder.st_mode & 07777, 0700, "%o", folder.st_mode);

    /* Shown as emit reads it. */
    RUN("list", "machine");
    support_expect_status(0);
    cr_expect(strstr(support_result.out, ffn_machine_name()), "%s", support_result.out);
    support_file_write(support_path("shown"), support_result.out, strlen(support_result.out));
    cr_assert_eq(machine_file_read(support_path("shown"), &machine, &diag), FFN_OK, "%s", diag.text);
    cr_expect_eq(memcmp(&machine, &written, sizeof machine), 0);
    char want[64];
    snprintf(want, sizeof want, "\"memory_mbs\":%lld", (long long)written.memory_mbs);
    RUN("list", "machine", "--json");
    cr_expect(strstr(support_result.out, want) && strstr(support_result.out, "\"calibrated\":true"), "%s",
              support_result.out);
}

Test(calibrate, a_file_that_is_named_is_written_instead_and_a_dry_run_writes_none) {
    if (!measures_here())
        return;
    RUN("calibrate", "--seconds", SHORT, "--dry-run", "--json");
    support_expect_status(0);
    cr_expect(strstr(support_result.out, "\"fma_mflops\":") && !strstr(support_result.out, "\"file\""), "%s",
              support_result.out);
    cr_expect_eq(access(support_path("config/ffngen"), F_OK), -1);
    RUN("calibrate", "--seconds", SHORT, "--json", "-o", support_path("named"));
    support_expect_status(0);
    cr_expect(strstr(support_result.out, "\"file\":"), "%s", support_result.out);
    cr_expect_eq(access(support_path("config/ffngen"), F_OK), -1);
    ffn_machine machine;
    ffn_diag diag = {0};
    cr_assert_eq(machine_file_read(support_path("named"), &machine, &diag), FFN_OK, "%s", diag.text);
    cr_expect_gt(machine.fma_mflops, 0);
    cr_expect_eq(support_folder_count(), 2, "config and the named file, no more");
}

/* Two others that never rest, on the only CPU that it may use. */
Test(calibrate, a_busy_machine_is_said_and_marked_in_the_file) {
    if (!measures_here())
        return;
    cpu_set_t own, one;
    if (sched_getaffinity(0, sizeof own, &own) != 0) {
        printf("no CPU can be chosen here: a busy machine is not made\n");
        return;
    }
    size_t cpu = 0;
    while (!CPU_ISSET(cpu, &own))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0);
    pid_t others[2];
    for (int i = 0; i < 2; i++)
        if ((others[i] = fork()) == 0)
            for (;;)
                continue;
    RUN("calibrate", "--seconds", SHORT);
    for (int i = 0; i < 2; i++) {
        kill(others[i], SIGKILL);
        waitpid(others[i], NULL, 0);
    }
    support_expect_status(0);
    cr_expect(strstr(support_result.err, "busy"), "%s", support_result.err);
    size_t bytes;
    char *text = support_file_read(own_file(), &bytes);
    cr_expect(memmem(text, bytes, "# the machine was busy", 22), "%.*s", (int)bytes, text);
    free(text);
    ffn_machine machine;
    ffn_diag diag = {0};
    cr_expect_eq(machine_file_read(own_file(), &machine, &diag), FFN_OK, "%s", diag.text);
}

Test(calibrate, a_folder_that_cannot_be_written_is_named_and_nothing_is_left) {
    if (!measures_here())
        return;
    support_file_write(support_path("config/ffngen"), "a file", 6);
    RUN("calibrate", "--seconds", SHORT);
    support_expect_status(1);
    cr_expect(strstr(support_result.err, "config/ffngen"), "%s", support_result.err);
    support_file_expect(support_path("config/ffngen"), "a file", 6, "a file in the way was changed");
    cr_assert_eq(unlink(support_path("config/ffngen")), 0);

    cr_assert_eq(mkdir(support_path("config/ffngen"), 0700), 0);
    support_file_write(support_path("config/ffngen/machines"), "a file", 6);
    RUN("calibrate", "--seconds", SHORT);
    support_expect_status(1);
    cr_expect(strstr(support_result.err, "machines"), "%s", support_result.err);
    cr_assert_eq(unlink(support_path("config/ffngen/machines")), 0);

    cr_assert_eq(mkdir(support_path("config/ffngen/machines"), 0700), 0);
    cr_assert_eq(mkdir(own_file(), 0700), 0);
    RUN("calibrate", "--seconds", SHORT);
    support_expect_status(1);
    cr_expect(strstr(support_result.err, "folder"), "%s", support_result.err);
    cr_assert_eq(rmdir(own_file()), 0);
    cr_assert_eq(rmdir(support_path("config/ffngen/machines")), 0, "something is left in it");

    RUN("calibrate", "--seconds", SHORT, "-o", support_path("absent/file"));
    support_expect_status(1);
    cr_expect(strstr(support_result.err, "absent/file"), "%s", support_result.err);
    if (geteuid() == 0) {
        printf("root may write everywhere: a folder without permission to write is not tried\n");
        return;
    }
    cr_assert_eq(chmod(support_path("config/ffngen"), 0500), 0);
    RUN("calibrate", "--seconds", SHORT);
    cr_assert_eq(chmod(support_path("config/ffngen"), 0700), 0);
    support_expect_status(1);
    cr_expect(strstr(support_result.err, "machines"), "%s", support_result.err);
}

Test(calibrate, without_a_folder_of_settings_a_file_must_be_named) {
    unsetenv("XDG_CONFIG_HOME");
    unsetenv("HOME");
    RUN("calibrate", "--seconds", SHORT);
    support_expect_status(1);
    cr_expect(strstr(support_result.err, "HOME") && strstr(support_result.err, "--output"), "%s", support_result.err);
}

Test(calibrate, bad_usage_is_told) {
    RUN("calibrate", "bert-base");
    support_expect_status(2);
    cr_expect(strstr(support_result.err, "bert-base"), "%s", support_result.err);
    RUN("calibrate", "--dry-run", "-o", support_path("file"));
    support_expect_status(2);
    cr_expect(strstr(support_result.err, "--dry-run"), "%s", support_result.err);
    RUN("calibrate", "--seconds", "0");
    support_expect_status(2);
}

Test(calibrate, a_file_that_cannot_be_used_is_said_by_list) {
    ffn_machine machine;
    ffn_diag diag = {0};
    static const char text[] = "l1_bytes 32768\nl2_bytes 524288\nl3_bytes 0\nl1_mbs 204\n";
    cr_assert_eq(mkdir(support_path("config/ffngen"), 0700), 0);
    cr_assert_eq(mkdir(support_path("config/ffngen/machines"), 0700), 0);
    support_file_write(own_file(), text, sizeof text - 1);
    RUN("list", "machine");
    support_expect_status(0);
    cr_expect(strstr(support_result.err, "line 4: l1_mbs 204"), "%s", support_result.err);
    support_file_write(support_path("shown"), support_result.out, strlen(support_result.out));
    cr_assert_eq(machine_file_read(support_path("shown"), &machine, &diag), FFN_OK, "%s", diag.text);
    cr_expect_eq(machine.fma_mflops, 0);
}

/* Bytes that are emitted follow from the file alone: not from its name, nor from what this machine was measured. */
Test(calibrate, emission_for_a_file_with_rates_is_the_same_each_time) {
    static const char text[] = "l1_bytes 32768\nl2_bytes 1048576\nl3_bytes 16777216\nfma_mflops 200000\n"
                               "l1_mbs 400000\nl2_mbs 150000\nl3_mbs 30000\nmemory_mbs 12000\n";
    ffn_machine here;
    ffn_diag diag = {0};
    char lines[MACHINE_TEXT_BYTES];
    support_file_write(support_path("one"), text, sizeof text - 1);
    support_file_write(support_path("two"), text, sizeof text - 1);
    size_t bytes[3];
    char *images[3];
    for (int i = 0; i < 3; i++) {
        if (i == 2) { /* as if calibrated in between */
            ffn_machine_read(&here);
            here.fma_mflops = here.l1_mbs = here.l2_mbs = here.memory_mbs = 1000;
            here.l3_mbs = here.l3_bytes ? 1000 : 0;
            cr_assert_eq(machine_format(&here, lines, &diag), FFN_OK, "%s", diag.text);
            cr_assert_eq(mkdir(support_path("config/ffngen"), 0700), 0);
            cr_assert_eq(mkdir(support_path("config/ffngen/machines"), 0700), 0);
            support_file_write(own_file(), lines, strlen(lines));
        }
        RUN("emit", "d96-f384-gelu", "--format", "asm", "--isa", "avx2,avx512", "--machine",
            support_path(i == 1 ? "two" : "one"), "-o", support_path("out.s"));
        support_expect_status(0);
        images[i] = support_file_read(support_path("out.s"), &bytes[i]);
        cr_expect(bytes[i] == bytes[0] && memcmp(images[i], images[0], bytes[0]) == 0, "emission %d differs", i);
    }
    for (int i = 0; i < 3; i++)
        free(images[i]);
}
