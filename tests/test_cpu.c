/* What the library believes of the machine, against what the operating system says of it. */
#include "isa.h"
#include "machine.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KIB INT64_C(1024)
#define MIB (1024 * KIB)

static const ffn_isa every_isa[] = {
    FFN_ISA_AUTO,
    FFN_ISA_PORTABLE,
#define FFN_ISA_ROW(ID, ...) FFN_ISA_##ID,
#include "../templates/isas.def"
};
enum { ISAS = sizeof every_isa / sizeof *every_isa };

/* ---- CPU ---- */

/* The line "flags" of /proc/cpuinfo ("Features" on Arm), with a space on either side of each word; NULL if none. */
static char *cpuinfo_flags(void) {
    FILE *file = fopen("/proc/cpuinfo", "r");
    char *line = NULL, *found = NULL;
    size_t capacity = 0;
    while (file && !found && getline(&line, &capacity, file) >= 0) {
        char *colon = strchr(line, ':');
        if (!colon || (strncmp(line, "flags", 5) != 0 && strncmp(line, "Features", 8) != 0))
            continue;
        line[strcspn(line, "\n")] = ' ';
        found = strdup(colon + 1);
    }
    free(line);
    if (file)
        fclose(file);
    return found;
}

/* The kernel clears a flag when it does not save the registers the flag stands for, so both sides mean the same. */
Test(cpu, features_agree_with_the_kernel) {
    static const struct {
        const char *flag;
        uint64_t bit;
    } rows[] = {
        {" avx2 ", FFN_CPU_AVX2},         {" fma ", FFN_CPU_FMA},           {" avx512f ", FFN_CPU_AVX512F},
        {" avx512vl ", FFN_CPU_AVX512VL}, {" avx512dq ", FFN_CPU_AVX512DQ}, {" avx512bw ", FFN_CPU_AVX512BW},
        {" asimd ", FFN_CPU_NEON},        {" avx ", FFN_CPU_YMM_STATE},     {" avx512f ", FFN_CPU_ZMM_STATE},
    };
    char *flags = cpuinfo_flags();
    if (!flags)
        cr_skip("no flags in /proc/cpuinfo");
    const bool arm = cpu_arch() == FFN_ARCH_AARCH64;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool said = strstr(flags, rows[i].flag) != NULL;
        bool found = (cpu_features() & rows[i].bit) != 0;
        if (rows[i].bit == FFN_CPU_ZMM_STATE && found && !said)
            continue; /* a kernel may save zmm on a CPU (or a guest) without AVX-512 */
        cr_expect_eq(found, said, "%s: kernel %d, library %d", rows[i].flag, said, found);
        cr_expect(!found || (rows[i].bit == FFN_CPU_NEON) == arm);
    }
    free(flags);
}

Test(cpu, no_feature_is_counted_without_its_register_state) {
    const uint64_t features = cpu_features();
    const uint64_t zmm = FFN_CPU_AVX512F | FFN_CPU_AVX512VL | FFN_CPU_AVX512DQ | FFN_CPU_AVX512BW;
    cr_expect(!(features & (FFN_CPU_AVX2 | FFN_CPU_FMA)) || (features & FFN_CPU_YMM_STATE));
    cr_expect(!(features & zmm) || (features & FFN_CPU_ZMM_STATE));
    cr_expect(!(features & FFN_CPU_ZMM_STATE) || (features & FFN_CPU_YMM_STATE));
}

static void *read_features(void *result) {
    *(uint64_t *)result = cpu_features();
    return NULL;
}

Test(cpu, many_threads_read_the_same_features) {
    enum { THREADS = 32 };
    pthread_t threads[THREADS];
    uint64_t results[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, read_features, &results[i]), 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < THREADS; i++)
        cr_expect_eq(results[i], cpu_features());
}

Test(cpu, features_are_named_and_never_cut_in_half) {
    char text[160];
    cpu_features_format(FFN_CPU_AVX2 | FFN_CPU_FMA | FFN_CPU_YMM_STATE, text, sizeof text);
    cr_expect_str_eq(text, "avx2 fma ymm-state");
    cpu_features_format(0, text, sizeof text);
    cr_expect_str_eq(text, "");
    cpu_features_format(FFN_CPU_AVX2 | FFN_CPU_FMA, text, 8);
    cr_expect_str_eq(text, "avx2");
    cpu_features_format(UINT64_MAX, text, sizeof text);
    cr_expect_str_eq(text, "avx2 fma ymm-state avx512f avx512vl avx512dq avx512bw zmm-state neon");
}

/* ---- ISAs ---- */

Test(isa, names_round_trip) {
    for (size_t i = 0; i < ISAS; i++) {
        ffn_isa isa;
        cr_assert_not_null(ffn_isa_name(every_isa[i]));
        cr_assert_eq(ffn_isa_parse(ffn_isa_name(every_isa[i]), &isa, NULL), FFN_OK);
        cr_expect_eq(isa, every_isa[i]);
    }
    cr_expect_null(ffn_isa_name(FFN_ISA_COUNT));
    cr_expect_null(ffn_isa_name((ffn_isa)-1));
}

Test(isa, an_unknown_name_is_our_own_error_with_near_names) {
    static const struct {
        const char *name, *offer;
    } rows[] = {{"avx", "avx2"},
                {"AVX-512", "avx512"},
                {"avx512f", "avx512"},
                {"neonn", "neon"},
                {"AVX2", "avx2"},
                {"portble", "portable"},
                {"", "known: auto, portable, avx2"},
                {"znver3", "known: auto, portable, avx2"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ffn_isa isa = FFN_ISA_PORTABLE;
        ffn_diag diag;
        cr_expect_eq(ffn_isa_parse(rows[i].name, &isa, &diag), FFN_BAD_ARGUMENT);
        cr_expect(strstr(diag.text, rows[i].offer), "%s: %s", rows[i].name, diag.text);
        cr_expect_eq(isa, FFN_ISA_PORTABLE, "%s changed the output", rows[i].name);
    }
    cr_expect_eq(ffn_isa_parse(NULL, NULL, NULL), FFN_BAD_ARGUMENT);
}

Test(isa, portable_runs_everywhere_and_the_best_is_the_widest_that_runs) {
    cr_expect(ffn_isa_supported(FFN_ISA_PORTABLE));
    cr_expect(ffn_isa_supported(FFN_ISA_AUTO));
    cr_expect_not(ffn_isa_supported(FFN_ISA_COUNT));
    cr_expect_not(ffn_isa_supported((ffn_isa)-1));
    const ffn_isa best = ffn_isa_best();
    cr_expect_neq(best, FFN_ISA_AUTO);
    cr_expect(ffn_isa_supported(best));
    const isa_row *best_row = isa_row_of(best);
    for (size_t i = 0; i < ISAS; i++) {
        const isa_row *row = isa_row_of(every_isa[i]);
        if (row && ffn_isa_supported(every_isa[i]))
            cr_expect(best_row && best_row->lanes >= row->lanes);
    }
}

Test(isa, support_needs_the_architecture_and_each_single_feature) {
    for (size_t i = 0; i < ISAS; i++) {
        const isa_row *row = isa_row_of(every_isa[i]);
        if (!row)
            continue;
        cr_expect_neq(row->needs, 0, "%s needs nothing", row->name);
        bool all = row->arch == cpu_arch();
        for (uint64_t bit = 1; bit; bit <<= 1)
            all = all && (!(row->needs & bit) || (cpu_features() & bit));
        cr_expect_eq(ffn_isa_supported(every_isa[i]), all, "%s", row->name);
    }
}

/* What LLVM is told to use and what is tested at run time must be the same set. */
Test(isa, every_feature_given_to_the_compiler_is_tested_at_run_time) {
    static const struct {
        const char *feature;
        uint64_t needs;
    } rows[] = {{"avx2", FFN_CPU_AVX2 | FFN_CPU_YMM_STATE},
                {"avx", FFN_CPU_AVX2 | FFN_CPU_YMM_STATE}, /* AVX2 is never without AVX, nor that without SSE4.2 */
                {"sse4.2", FFN_CPU_AVX2},
                {"fma", FFN_CPU_FMA | FFN_CPU_YMM_STATE},
                {"avx512f", FFN_CPU_AVX512F | FFN_CPU_ZMM_STATE},
                {"avx512vl", FFN_CPU_AVX512VL},
                {"avx512dq", FFN_CPU_AVX512DQ},
                {"avx512bw", FFN_CPU_AVX512BW},
                {"neon", FFN_CPU_NEON}};
    for (size_t i = 0; i < ISAS; i++) {
        const isa_row *row = isa_row_of(every_isa[i]);
        if (!row)
            continue;
        char features[256];
        cr_assert_lt(strlen(row->features), sizeof features);
        strcpy(features, row->features);
        uint64_t needs = 0;
        for (char *at, *word = strtok_r(features, ",", &at); word; word = strtok_r(NULL, ",", &at)) {
            size_t j = 0;
            while (j < sizeof rows / sizeof *rows && strcmp(word + 1, rows[j].feature) != 0)
                j++;
            cr_assert(word[0] == '+' && j < sizeof rows / sizeof *rows, "%s: %s is tested nowhere", row->name, word);
            needs |= rows[j].needs;
        }
        cr_expect_eq(needs, row->needs, "%s", row->name);
    }
}

/* ---- Machine ---- */

static void expect_sane(const ffn_machine *machine, const char *what) {
    cr_expect(machine->l1_bytes >= 8 * KIB && machine->l1_bytes < machine->l2_bytes, "%s: l1 %ld l2 %ld", what,
              (long)machine->l1_bytes, (long)machine->l2_bytes);
    cr_expect(machine->l3_bytes == 0 || (machine->l3_bytes > machine->l2_bytes && machine->l3_bytes <= 1024 * MIB),
              "%s: l2 %ld l3 %ld", what, (long)machine->l2_bytes, (long)machine->l3_bytes);
}

Test(machine, this_one_is_read_and_sane) {
    ffn_machine machine = {.l1_bytes = -1, .l2_bytes = -1, .l3_bytes = -1};
    ffn_machine_read(&machine);
    expect_sane(&machine, "this machine");
}

/* A folder as /sys/devices/system/cpu/cpu0/cache, made of rows "level type size". */
typedef struct cache_row {
    const char *level, *type, *size;
} cache_row;

static char folder[] = "/tmp/ffn_cache_XXXXXX";

static void write_word(int index, const char *file, const char *word) {
    char path[256];
    snprintf(path, sizeof path, "%s/index%d/%s", folder, index, file);
    FILE *stream = word ? fopen(path, "w") : NULL;
    if (stream) {
        fprintf(stream, "%s\n", word);
        fclose(stream);
    }
}

static ffn_machine machine_of(const cache_row *rows, int count, const int64_t sysconf_bytes[3]) {
    cr_assert_not_null(mkdtemp(folder));
    for (int i = 0; i < count; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/index%d", folder, i);
        mkdir(path, 0700);
        write_word(i, "level", rows[i].level);
        write_word(i, "type", rows[i].type);
        write_word(i, "size", rows[i].size);
    }
    ffn_machine machine;
    machine_read_from(folder, sysconf_bytes, &machine);
    for (int i = 0; i < count; i++) {
        static const char *const files[] = {"level", "type", "size", ""};
        for (size_t j = 0; j < sizeof files / sizeof *files; j++) {
            char path[256];
            snprintf(path, sizeof path, "%s/index%d/%s", folder, i, files[j]);
            (void)(files[j][0] ? unlink(path) : rmdir(path));
        }
    }
    rmdir(folder);
    strcpy(folder + sizeof folder - 7, "XXXXXX");
    return machine;
}

static void expect_machine(ffn_machine machine, int64_t l1, int64_t l2, int64_t l3) {
    cr_expect_eq(machine.l1_bytes, l1, "l1 %ld", (long)machine.l1_bytes);
    cr_expect_eq(machine.l2_bytes, l2, "l2 %ld", (long)machine.l2_bytes);
    cr_expect_eq(machine.l3_bytes, l3, "l3 %ld", (long)machine.l3_bytes);
}

static const int64_t silent[3] = {0, 0, 0};

Test(machine, the_listed_caches_win_over_what_sysconf_says_of_the_host) {
    const cache_row rows[] = {
        {"1", "Data", "32K"}, {"1", "Instruction", "64K"}, {"2", "Unified", "512K"}, {"3", "Unified", "32768K"}};
    const int64_t host[3] = {32 * KIB, 512 * KIB, 256 * MIB};
    expect_machine(machine_of(rows, 4, host), 32 * KIB, 512 * KIB, 32 * MIB);
}

Test(machine, a_third_level_that_is_not_listed_is_not_there) {
    const cache_row rows[] = {{"1", "Data", "128K"}, {"2", "Unified", "16M"}};
    const int64_t host[3] = {0, 0, 256 * MIB};
    expect_machine(machine_of(rows, 2, host), 128 * KIB, 16 * MIB, 0);
}

Test(machine, sysconf_serves_where_nothing_is_listed_its_sum_of_caches_cut) {
    const int64_t host[3] = {48 * KIB, 2 * MIB, 256 * MIB};
    expect_machine(machine_of(NULL, 0, host), 48 * KIB, 2 * MIB, 32 * MIB);
}

Test(machine, usual_sizes_serve_where_nothing_is_known) {
    expect_machine(machine_of(NULL, 0, silent), 32 * KIB, 512 * KIB, 8 * MIB);
    const int64_t refused[3] = {-1, -1, -1};
    expect_machine(machine_of(NULL, 0, refused), 32 * KIB, 512 * KIB, 8 * MIB);
}

Test(machine, garbage_is_taken_as_not_reported) {
    static const char *const sizes[] = {"0K", "-32K",     "",      "K",
                                        "32", "32KB",     "0x20K", "99999999999999999999K",
                                        "1T", "4194304G", "1K",    "9223372036854775807",
                                        " ",  "banana"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const cache_row rows[] = {{"1", "Data", sizes[i]}, {"2", "Unified", sizes[i]}, {"3", "Unified", sizes[i]},
                                  {"9", "Unified", "32K"}, {"banana", "Data", "64K"},  {NULL, NULL, NULL}};
        expect_machine(machine_of(rows, 6, silent), 32 * KIB, 512 * KIB, 8 * MIB);
    }
}

Test(machine, levels_in_the_wrong_order_are_put_right) {
    const cache_row first_larger[] = {{"1", "Data", "512K"}, {"2", "Unified", "64K"}, {"3", "Unified", "8M"}};
    expect_machine(machine_of(first_larger, 3, silent), 32 * KIB, 512 * KIB, 8 * MIB);
    const cache_row third_smaller[] = {{"1", "Data", "32K"}, {"2", "Unified", "4M"}, {"3", "Unified", "2M"}};
    expect_machine(machine_of(third_smaller, 3, silent), 32 * KIB, 4 * MIB, 0);
}

Test(machine, any_mixture_of_reports_gives_a_sane_one) {
    static const char *const sizes[] = {"16K", "32K", "512K", "1M", "32M", "64M", "512M", "2G", "7K", "x"};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    const int64_t odd[3] = {INT64_MAX, INT64_MIN, 3};
    for (int a = 0; a < SIZES; a++)
        for (int b = 0; b < SIZES; b++)
            for (int c = 0; c < SIZES; c += 3) {
                const cache_row rows[] = {
                    {"1", "Data", sizes[a]}, {"2", "Unified", sizes[b]}, {"3", "Unified", sizes[c]}};
                ffn_machine machine = machine_of(rows, 3, odd);
                expect_sane(&machine, sizes[a]);
            }
}

Test(machine, each_isa_has_a_fixed_one_whatever_the_host) {
    ffn_machine machine;
    cr_assert_eq(ffn_machine_generic(FFN_ISA_AVX2, &machine, NULL), FFN_OK);
    expect_machine(machine, 32 * KIB, 512 * KIB, 8 * MIB);
    cr_assert_eq(ffn_machine_generic(FFN_ISA_AVX512, &machine, NULL), FFN_OK);
    expect_machine(machine, 32 * KIB, 1 * MIB, 16 * MIB);
    cr_assert_eq(ffn_machine_generic(FFN_ISA_NEON, &machine, NULL), FFN_OK);
    expect_machine(machine, 64 * KIB, 1 * MIB, 8 * MIB);

    ffn_diag diag;
    const ffn_machine before = machine;
    cr_expect_eq(ffn_machine_generic(FFN_ISA_PORTABLE, &machine, &diag), FFN_UNSUPPORTED);
    cr_expect(strstr(diag.text, "portable"));
    cr_expect_eq(ffn_machine_generic(FFN_ISA_AUTO, &machine, &diag), FFN_BAD_ARGUMENT);
    cr_expect_eq(ffn_machine_generic(FFN_ISA_COUNT, &machine, &diag), FFN_BAD_ARGUMENT);
    cr_expect_eq(ffn_machine_generic(FFN_ISA_AVX2, NULL, &diag), FFN_BAD_ARGUMENT);
    cr_expect_eq(memcmp(&machine, &before, sizeof machine), 0);
}
