/* test_machine_name.c: whatever CPU and system say of themselves -> a name that a record and a file can carry */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "ffn.h"
#include "machine_name.h"

TestSuite(machine_name, .timeout = 60);

static void expect_sound(const char *name, const char *what) {
    const size_t length = strlen(name);
    cr_expect(length >= 1 && length < MACHINE_NAME_BYTES, "%s: %zu characters", what, length);
    for (size_t i = 0; i < length; i++)
        cr_expect(name[i] >= ' ' && name[i] < 0x7f && !strchr("\"'\\", name[i]), "%s: byte %d in \"%s\"", what, name[i],
                  name);
    cr_expect(name[0] != ' ' && name[length - 1] != ' ' && !strstr(name, "  "), "%s: blanks in \"%s\"", what, name);
}

/* Signatures and brands as vendors publish them. */
Test(machine_name, x86_names_carry_brand_family_model_and_stepping) {
    static const struct {
        const char *brand, *name;
        uint32_t signature;
    } cases[] = {
        {"AMD EPYC", "AMD EPYC (25.1.1)", 0x00a00f11},
        {"AMD EPYC 7763 64-Core Processor                ", "AMD EPYC 7763 64-Core Processor (25.1.1)", 0x00a00f11},
        {"Intel(R) Xeon(R) Platinum 8480+", "Intel(R) Xeon(R) Platinum 8480+ (6.143.8)", 0x000806f8},
        {"       Intel(R) Core(TM)2   Quad CPU", "Intel(R) Core(TM)2 Quad CPU (6.15.11)", 0x000006fb},
        {"AMD Ryzen 9 9950X", "AMD Ryzen 9 9950X (26.68.0)", 0x00b40f40},
        {"i486", "i486 (4.8.3)", 0x00ff0483}, /* no extended numbers before family 6 */
        {"", "x86-64 (25.1.1)", 0x00a00f11},
        {" \t ", "x86-64 (25.1.1)", 0x00a00f11},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[MACHINE_NAME_BYTES];
        machine_name_x86(cases[i].brand, cases[i].signature, name);
        cr_expect_str_eq(name, cases[i].name);
        expect_sound(name, cases[i].brand);
    }
}

Test(machine_name, what_a_record_cannot_hold_is_left_out) {
    char name[MACHINE_NAME_BYTES], brand[300];
    machine_name_x86("\x01"
                     "A\"M\\D\n\xc3\xa9 'x'\x7f",
                     0x00a00f11, name);
    cr_expect_str_eq(name, "A M D x (25.1.1)");
    for (size_t length = 0; length < sizeof brand - 1; length++) {
        memset(brand, 'a', length);
        brand[length] = '\0';
        if (length > 3)
            brand[length - 2] = ' ';
        machine_name_x86(brand, 0xffffffff, name);
        expect_sound(name, "long brand");
        cr_expect(strstr(name, " (270.255.15)"), "the numbers are cut off: %s", name);
        machine_name_plain(brand, name);
        expect_sound(name, "long name");
    }
    for (int byte = 1; byte < 256; byte++) {
        const char text[] = {(char)byte, '\0'}, around[] = {'a', (char)byte, 'b', '\0'};
        machine_name_plain(text, name);
        expect_sound(name, "one byte");
        machine_name_plain(around, name);
        expect_sound(name, "a byte between two");
    }
}

/* As Linux shows them on such machines. */
Test(machine_name, arm_cores_are_named_by_their_numbers) {
    static const char graviton[] = "processor\t: 0\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\n"
                                   "CPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\nCPU revision\t: 1\n\n"
                                   "processor\t: 1\nCPU implementer\t: 0x41\nCPU variant\t: 0x1\nCPU part\t: 0xd40\n";
    static const struct {
        uint32_t midr;
        const char *name;
    } cases[] = {
        {0x413fd0c1, "ARM Neoverse-N1 r3p1"},    {0x411fd401, "ARM Neoverse-V1 r1p1"},
        {0x410fd4f1, "ARM Neoverse-V2 r0p1"},    {0x410fd083, "ARM Cortex-A72 r0p3"},
        {0x611f0221, "Apple M1 Icestorm r1p1"},  {0x461f0010, "Fujitsu A64FX r1p0"},
        {0x410fffe2, "AArch64 0x41.0xffe r0p2"}, {0xff0f00a0, "AArch64 0xff.0x00a r0p0"},
    };
    char name[MACHINE_NAME_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        machine_name_arm(cases[i].midr, name);
        cr_expect_str_eq(name, cases[i].name);
        expect_sound(name, cases[i].name);
    }
    uint32_t midr = 7;
    cr_assert(machine_name_midr(graviton, &midr));
    cr_expect_eq(midr, 0x413fd0c1, "%x", midr);
}

Test(machine_name, a_cpuinfo_without_numbers_names_no_core) {
    static const char *const texts[] = {
        "",
        "processor\t: 0\nvendor_id\t: AuthenticAMD\n",
        "CPU implementer\t: 0x41\n",
        "CPU part\t: 0xd0c\n",
        "CPU implementer\t: 0x41\nCPU part\t: none\n",
        "CPU implementer\t: 0x41\nCPU part",
        "CPU implementer\t: -1\nCPU part\t: 0xd0c\n",
        "CPU implementer\t: 0x41\nCPU part\t: 0xfffff\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        uint32_t midr = 7;
        cr_expect_not(machine_name_midr(texts[i], &midr), "%s", texts[i]);
        cr_expect_eq(midr, 7);
    }
}

Test(machine_name, as_the_name_of_a_file_it_names_no_folder) {
    static const char *const cases[][2] = {
        {"AMD EPYC (25.1.1)", "AMD_EPYC_25.1.1"},
        {"Intel(R) Xeon(R) 8480+ (6.143.8)", "Intel_R_Xeon_R_8480_6.143.8"},
        {"../../etc/passwd", "_._.._etc_passwd"},
        {".", "_"},
        {"..", "_."},
        {"/", "unknown_machine"},
        {"a/b", "a_b"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char file[MACHINE_NAME_BYTES];
        machine_name_file(cases[i][0], file);
        cr_expect_str_eq(file, cases[i][1]);
        cr_expect(file[0] != '.' && !strchr(file, '/'), "%s", file);
    }
}

static void *ask(void *name) {
    *(const char **)name = ffn_machine_name();
    return NULL;
}

Test(machine_name, this_machine_has_one_name_for_all_threads) {
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    const char *names[THREADS];
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, ask, &names[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        cr_expect_eq(names[i], ffn_machine_name());
    expect_sound(ffn_machine_name(), "this machine");
#if defined(__x86_64__)
    /* The system's own words for the same CPU. */
    FILE *cpuinfo = fopen("/proc/cpuinfo", "r");
    unsigned family = 0, model = 0, stepping = 0;
    for (char line[512]; cpuinfo && fgets(line, sizeof line, cpuinfo);) {
        sscanf(line, "cpu family : %u", &family);
        sscanf(line, "model : %u", &model);
        if (sscanf(line, "stepping : %u", &stepping) == 1)
            break;
    }
    if (cpuinfo)
        fclose(cpuinfo);
    char numbers[64];
    snprintf(numbers, sizeof numbers, "(%u.%u.%u)", family, model, stepping);
    if (family)
        cr_expect(strstr(ffn_machine_name(), numbers), "%s has no %s", ffn_machine_name(), numbers);
    else
        printf("/proc/cpuinfo names no family: the numbers of this machine are not compared\n");
#endif
}
