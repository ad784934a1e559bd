/* The built command from outside: exit statuses, messages, JSON lines, output that can't be written. */
#define _POSIX_C_SOURCE 200809L
#include "ffn.h"
#include "support_command.h"
#include "support_json.h"

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(command, .timeout = 600);

/* ---- Bad usage ---- */

static const struct bad_usage {
    const char *arguments[10];
    const char *said[3];
} bad_usages[] = {
    {{NULL}, {"no command"}},
    {{"bnch"}, {"bnch", "bench"}},
    {{"bench"}, {"no SPEC"}},
    {{"bench", "bert-bas"}, {"bert-bas", "bert-base"}},
    {{"bench", "d64-f256-rleu"}, {"rleu", "relu"}},
    {{"bench", "d64-f0-relu"}, {"d_ff"}},
    {{"bench", "d64-f256-relu", "--n", "1,,2"}, {"--n", "empty item", "1,16,128"}},
    {{"bench", "d64-f256-relu", "--contract", "--threads", "2"}, {"--contract", "one thread"}},
    {{"bench", "d64-f256-relu", "--stages", "--threads", "2"}, {"--stages", "one thread"}},
    {{"bench", "d64-f256-relu", "--stages", "--isa", "portable"}, {"--stages", "compiled kernels"}},
    {{"bench", "d64-f256-relu", "--n", ","}, {"--n", "empty item"}},
    {{"bench", "d64-f256-relu", "--n", "1,"}, {"--n", "empty item"}},
    {{"bench", "d64-f256-relu", "--n", ""}, {"--n", "empty item"}},
    {{"bench", "d64-f256-relu", "--n", "0"}, {"--n", "'0'", "from 1"}},
    {{"bench", "d64-f256-relu", "--n", "-3"}, {"--n", "'-3'"}},
    {{"bench", "d64-f256-relu", "--n", "1e3"}, {"--n", "'1e3'"}},
    {{"bench", "d64-f256-relu", "--n", "99999999999999999999"}, {"--n", "2147483647"}},
    {{"bench", "d64-f256-relu", "--n"}, {"--n needs a value"}},
    {{"bench", "d64-f256-relu", "-n"}, {"--n needs a value"}},
    {{"bench", "d64-f256-relu", "--isa", "avx51"}, {"avx51", "avx512"}},
    {{"bench", "d64-f256-relu", "--isa", "sse9"}, {"sse9"}},
    {{"bench", "d64-f256-relu", "--seconds", "0"}, {"--seconds", "'0'"}},
    {{"bench", "d64-f256-relu", "--seconds", "nan"}, {"--seconds", "'nan'"}},
    {{"bench", "d64-f256-relu", "--vs", "openbals"}, {"openbals", "openblas"}},
    {{"bench", "d64-f256-relu", "--jsn"}, {"--jsn", "json"}},
    {{"bench", "d64-f256-relu", "--json", "--json"}, {"--json is given twice"}},
    {{"bench", "d64-f256-relu", "--n", "1", "-n", "2"}, {"--n is given twice"}},
    {{"bench", "d64-f256-relu", "--json=1"}, {"--json takes no value"}},
    {{"bench", "d64-f256-relu", "-z"}, {"-z"}},
    {{"bench", "d64-f256-relu", "--threads", "0"}, {"--threads"}},
    {{"bench", "d64-f256-relu", "--json", "--plan", "f_blok=3"}, {"f_blok", "f_block"}},
    {{"bench", "d64-f256-relu", "--json", "--plan", "tiles=6y2"}, {"6y2"}},
    {{"bench", "d64-f256-relu", "--json", "--plan", "tiles=4294967297x1"}, {"tiles", "4294967297x1"}},
    {{"bench", "d64-f256-relu", "--json", "--plan", "chunk=17"}, {"chunk 17", "multiple of 16"}},
    {{"bench", "d64-f256-relu", "--json", "--plan", "chunk=4294967312"}, {"chunk", "4294967312"}},
    {{"bench", "d64-f256-relu", "--json", "--plan", "unroll=8589934593"}, {"unroll", "8589934593"}},
    {{"bench", "d64-f256-relu", "--json", "--plan", "m_block=18446744073709551617"}, {"m_block"}},
    {{"bench", "d64-f256-relu", "--json", "--plan", "group=-1"}, {"group", "-1"}},
    {{"bench", "d64-f256-relu", "--json", "--plan", "hold_y=2"}, {"hold_y 2"}},
    {{"bench", "d64-f256-relu", "--dense", "--isa", "portable"}, {"--dense"}},
    {{"bench", "d64-f256-relu", "--activations"}, {"--activations", "--isa"}},
    {{"bench", "--activations", "--threads", "2"}, {"--activations", "--isa"}},
    {{"verify", "-fast"}, {"'-f'", "two dashes"}},
    {{"run"}, {"no SPEC"}},
    {{"run", "d64-f256-relu", "more"}, {"more"}},
    {{"run", "d64-f256-relu", "--map", "w1=a"}, {"--weights"}},
    {{"run", "d64-f256-relu", "--layer", "-1"}, {"--layer", "'-1'"}},
    {{"run", "d64-f256-relu", "--layout", "inout"}, {"inout", "in_out"}},
    {{"run", "d64-f256-relu", "--verify", "sometimes"}, {"sometimes", "first"}},
    {{"run", "d64-f256-relu", "--output", ""}, {"--output", "empty"}},
    {{"verify"}, {"no SPEC"}},
    {{"verify", "d64-f256-relu", "d1-f"}, {"d1-f"}},
    {{"explain", "d64-f256-relu", "--n", "1,2"}, {"--n", "'1,2'"}},
    {{"emit", "d64-f256-relu", "--isa", "avx2"}, {"--format"}},
    {{"emit", "d64-f256-relu", "--format", "asm"}, {"--isa"}},
    {{"emit", "d64-f256-relu", "--format", "asm", "--isa", "portable"}, {"--isa"}},
    {{"emit", "--format", "header", "--isa", "avx2"}, {"no SPEC"}},
    {{"emit", "d64-f256-relu", "--format", "header"}, {"--isa", "portable"}},
    {{"emit", "d64-f256-relu", "--format", "header", "--isa", "avx2,"}, {"--isa"}},
    {{"emit", "d64-f256-relu", "--format", "header", "--isa", "avx51"}, {"--isa", "avx512"}},
    {{"emit", "d64-f256-relu", "--format", "header", "--isa", "auto"}, {"--isa", "auto"}},
    {{"emit", "d64-f256-relu", "--format", "header", "--isa", "avx2,avx2"}, {"avx2", "twice"}},
    {{"emit", "d64-f256-relu", "--format", "header", "--isa", "avx2,neon"}, {"avx2", "neon", "architecture"}},
    {{"emit", "d64-f256-relu", "--format", "header", "--isa", "avx2", "--n", "1"}, {"--n", "classes"}},
    {{"emit", "d64-f256-relu", "--format", "image", "--isa", "avx2,avx512"}, {"--isa", "one ISA"}},
    {{"emit", "d64-f256-relu", "d64-f512-relu", "--format", "image", "--isa", "avx2"}, {"d64-f512-relu"}},
    {{"emit", "d64-f256-relu", "--format", "header", "--isa", "avx2", "--prefix"}, {"--prefix"}},
    {{"emit", "d64-f256-relu", "--format", "asn", "--isa", "avx2"}, {"asn", "asm"}},
    {{"list"}, {"presets"}},
    {{"list", "prests"}, {"prests", "presets"}},
    {{"list", "presets", "isas"}, {"isas"}},
    {{"demo", "bert-base"}, {"bert-base"}},
};

Test(command, bad_usage_is_status_2_and_names_what_is_wrong) {
    for (size_t i = 0; i < sizeof bad_usages / sizeof *bad_usages; i++) {
        const struct bad_usage *bad = &bad_usages[i];
        support_run(FFN_COMMAND, -1, bad->arguments);
        const char *name = bad->arguments[0] ? bad->arguments[0] : "";
        cr_expect_eq(support_result.status, 2, "case %zu (%s): status %d: %s", i, name, support_result.status,
                     support_result.err);
        cr_expect_str_empty(support_result.out, "case %zu (%s): %s", i, name, support_result.out);
        for (int j = 0; j < 3 && bad->said[j]; j++)
            cr_expect(strstr(support_result.err, bad->said[j]), "case %zu: no '%s' in: %s", i, bad->said[j],
                      support_result.err);
        cr_expect(strstr(support_result.err, "--help"), "case %zu does not say where the help is", i);
    }
}

Test(command, an_isa_this_cpu_lacks_is_refused_with_those_it_has) {
    for (ffn_isa isa = FFN_ISA_PORTABLE; isa < FFN_ISA_COUNT; isa++) {
        if (ffn_isa_supported(isa))
            continue;
        RUN("verify", "d64-f256-relu", "--n", "1", "--isa", ffn_isa_name(isa));
        support_expect_status(2);
        cr_expect(strstr(support_result.err, ffn_isa_name(isa)) && strstr(support_result.err, "portable"), "%s",
                  support_result.err);
    }
}

Test(command, help_goes_to_standard_output_and_is_a_success) {
    const char *const names[] = {"run", "verify", "bench", "explain", "emit", "list", "demo"};
    RUN("--help");
    support_expect_status(0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        cr_expect(strstr(support_result.out, names[i]), "no %s", names[i]);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        RUN(names[i], "--help");
        support_expect_status(0);
        cr_expect(strstr(support_result.out, "usage: ffngen") && strstr(support_result.out, "--help"), "%s",
                  support_result.out);
        cr_expect_str_empty(support_result.err);
    }
    RUN("--version");
    support_expect_status(0);
    cr_expect(strstr(support_result.out, FFN_VERSION));
}

/* ---- JSON ---- */

/* Calls `check` with each line of standard output, parsed; returns their number. */
static int each_line(void (*check)(const cJSON *line)) {
    cJSON *all = json_lines_of(support_result.out);
    const int count = cJSON_GetArraySize(all);
    const cJSON *line;
    cJSON_ArrayForEach(line, all) check(line);
    cJSON_Delete(all);
    return count;
}

static void check_bits(const cJSON *line) {
    const char *bits = json_text_of(line, "bits");
    cr_assert(strlen(bits) == 18 && strspn(bits + 2, "0123456789abcdef") == 16, "bits: %s", bits);
}

static void check_preset(const cJSON *line) {
    ffn_spec spec, named;
    cr_assert_eq(ffn_spec_parse(json_text_of(line, "spec"), &spec, NULL), FFN_OK);
    cr_assert_eq(ffn_spec_parse(json_text_of(line, "preset"), &named, NULL), FFN_OK);
    cr_assert(ffn_spec_equal(&spec, &named));
}

static void check_activation(const cJSON *line) {
    json_text_of(line, "formula");
    cr_assert(cJSON_IsBool(cJSON_GetObjectItemCaseSensitive(line, "gated")));
    cr_assert(*json_text_of(line, "activation"));
}

static void check_isa(const cJSON *line) {
    ffn_isa isa;
    cr_assert_eq(ffn_isa_parse(json_text_of(line, "isa"), &isa, NULL), FFN_OK);
    cr_assert_eq(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(line, "supported")), ffn_isa_supported(isa));
}

Test(command, lists_are_whole_as_json_lines) {
    RUN("list", "presets", "--json");
    support_expect_status(0);
    cr_expect_geq(each_line(check_preset), 20);
    RUN("list", "activations", "--json");
    support_expect_status(0);
    cr_expect_geq(each_line(check_activation), 20);
    RUN("list", "isas", "--json");
    support_expect_status(0);
    cr_expect_eq(each_line(check_isa), FFN_ISA_COUNT - 1);
}

#define VERIFY_N_MAX 512
static char bits_of_n[VERIFY_N_MAX][32];
static int verify_portable, verify_lines;

static void check_verdict(const cJSON *line) {
    int n = (int)json_number_of(line, "n");
    cr_assert(n >= 1 && n < VERIFY_N_MAX);
    check_bits(line);
    json_text_of(line, "spec");
    json_text_of(line, "plan");
    cr_assert(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(line, "passed")));
    cr_assert_gt(json_number_of(line, "error_bound"), 0);
    cr_assert_leq(json_number_of(line, "max_error"), json_number_of(line, "error_bound"));
    cr_assert_gt(json_number_of(line, "compared"), 0);
    if (*bits_of_n[n])
        cr_assert_str_eq(bits_of_n[n], json_text_of(line, "bits"), "n = %d: the bits differ between ISAs", n);
    snprintf(bits_of_n[n], sizeof bits_of_n[n], "%s", json_text_of(line, "bits"));
    verify_portable += !strcmp(json_text_of(line, "isa"), "portable");
    verify_lines++;
}

Test(command, verify_has_a_line_for_each_isa_and_number_of_rows) {
    int isas = 0;
    for (ffn_isa isa = FFN_ISA_PORTABLE; isa < FFN_ISA_COUNT; isa++)
        isas += ffn_isa_supported(isa);
    RUN("verify", "d33-f70-gelu-bias", "--json");
    support_expect_status(0);
    each_line(check_verdict);
    cr_expect_geq(verify_portable, 20);
    cr_expect_eq(verify_lines, isas * verify_portable);
    for (int n = 1; n <= 20; n++)
        cr_expect(*bits_of_n[n], "n = %d is missing", n);
}

static char peer_name[128];

static void check_measurement(const cJSON *line) {
    static const char *const positive[] = {"ms_min",           "ms_median",        "gflops",           "peak_gflops",
                                           "fraction_of_peak", "roof_ms",          "weight_gbs",       "read_gbs",
                                           "fraction_of_read", "fraction_of_roof", "act_ns_per_vector"};
    for (size_t i = 0; i < sizeof positive / sizeof *positive; i++)
        cr_assert_gt(json_number_of(line, positive[i]), 0, "%s", positive[i]);
    cr_assert_eq(json_number_of(line, "threads"), 1);
    cr_assert_str_eq(json_text_of(line, "spec"), "d64-f256-relu-bias");
    double flops = 2.0 * 2 * 64 * 256 * json_number_of(line, "n"),
           gflops = flops / json_number_of(line, "ms_min") * 1e-6;
    cr_assert_float_eq(json_number_of(line, "gflops"), gflops, 1e-4 * gflops);
    cr_assert_float_eq(json_number_of(line, "fraction_of_peak"),
                       json_number_of(line, "gflops") / json_number_of(line, "peak_gflops"), 1e-4);
    cr_assert_leq(json_number_of(line, "ms_min"), json_number_of(line, "ms_median"));
    cr_assert(cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(line, "cold")));
    check_bits(line);
    json_text_of(line, "plan");
    json_text_of(line, "source");
    json_number_of(line, "compile_ms");
    json_number_of(line, "verify_ms");
    json_number_of(line, "load_ms");
    cr_assert_eq(json_number_of(line, "operations"), 1);
    cr_assert_gt(json_number_of(cJSON_GetObjectItemCaseSensitive(line, "vs"), "openblas"), 0);
    const cJSON *peers = cJSON_GetObjectItemCaseSensitive(line, "peers");
    snprintf(peer_name, sizeof peer_name, "%s", json_text_of(peers, "openblas"));
}

Test(command, bench_prints_every_field_whatever_openblas_was_told) {
    if (ffn_isa_best() == FFN_ISA_PORTABLE)
        cr_skip_test("no peak to measure");
    RUN("bench", "d64-f256-relu-bias", "--n", "1,3", "--seconds", "0.01", "--json");
    support_expect_status(0);
    cr_expect_eq(each_line(check_measurement), 2);
    char name[sizeof peer_name];
    memcpy(name, peer_name, sizeof name);
    setenv("OPENBLAS_CORETYPE", "Prescott", 1);
    RUN("bench", "d64-f256-relu-bias", "--n", "1", "--seconds", "0.01", "--json");
    support_expect_status(0);
    each_line(check_measurement);
    cr_expect_str_eq(name, peer_name, "the variable chose the peer");
}

Test(command, bench_shares_rows_and_columns_between_threads_with_the_same_bits) {
    char bits[2][4][64] = {{{0}}};
    for (int threads = 1; threads <= 2; threads++) {
        RUN("bench", "d64-f256-relu-bias", "--n", "1,5,16,37", "--seconds", "0.01", "--json", "--threads",
            threads == 1 ? "1" : "2");
        support_expect_status(0);
        char *at = support_result.out;
        for (int i = 0; i < 4; i++) {
            at = strstr(at, "\"bits\":\"");
            cr_assert(at);
            at += 8;
            memcpy(bits[threads - 1][i], at, 18);
        }
    }
    cr_expect_eq(memcmp(bits[0], bits[1], sizeof bits[0]), 0, "the bits depend on the number of threads");
}

static char bits_of_kernel[64];
static bool free_order_wanted;

static void check_contract(const cJSON *line) {
    const cJSON *order = cJSON_GetObjectItemCaseSensitive(line, "free_order");
    cr_assert_eq(order != NULL, free_order_wanted);
    if (free_order_wanted) {
        cr_assert_gt(json_number_of(order, "ratio_min"), 0);
        cr_assert_gt(json_number_of(order, "ratio_median"), 0);
        cr_assert_leq(json_number_of(order, "ms_min"), json_number_of(order, "ms_median"));
        cr_assert_lt(json_number_of(order, "max_error"), 1e-3);
        json_text_of(order, "variant");
        cr_expect_str_eq(json_text_of(line, "bits"), bits_of_kernel, "the kernel itself is another one");
    }
    snprintf(bits_of_kernel, sizeof bits_of_kernel, "%s", json_text_of(line, "bits"));
}

Test(command, bench_measures_what_the_contract_costs_beside_the_same_kernel) {
    if (ffn_isa_best() == FFN_ISA_PORTABLE)
        cr_skip_test("no code is generated for this CPU");
    for (int i = 0; i < 2; i++) {
        free_order_wanted = i > 0;
        RUN("bench", "d40-f70-swiglu-bias", "--n", "3", "--seconds", "0.01", "--vs", "none", "--json",
            i > 0 ? "--contract" : "--cold");
        support_expect_status(0);
        cr_expect_eq(each_line(check_contract), 1);
    }
    RUN("bench", "d40-f70-swiglu-bias", "--n", "1", "--seconds", "0.01", "--vs", "none", "--contract");
    support_expect_status(0);
    cr_expect(strstr(support_result.out, "free order") && strstr(support_result.out, "ratio"), "%s",
              support_result.out);
}

static void check_stages(const cJSON *line) {
    static const char *const parts[] = {"expand_ms", "activate_ms", "contract_ms", "rest_ms"};
    const cJSON *stages = cJSON_GetObjectItemCaseSensitive(line, "stages");
    cr_assert(stages);
    double sum = 0, ms_min = json_number_of(line, "ms_min");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        double ms = json_number_of(stages, parts[i]);
        cr_expect(ms > 0 || (i == 1 && strstr(json_text_of(line, "spec"), "relu")), "%s is %g", parts[i], ms);
        sum += ms;
    }
    cr_expect_float_eq(sum, ms_min, 1e-5 * ms_min, "the parts make %.9g of %.9g ms", sum, ms_min);
    double expand = json_number_of(stages, "expand_peak") * json_number_of(stages, "expand_ms");
    double contract = json_number_of(stages, "contract_peak") * json_number_of(stages, "contract_ms");
    cr_expect_float_eq(expand + contract, json_number_of(line, "fraction_of_peak") * ms_min, 1e-4 * (expand + contract),
                       "the products' shares of the peak are not those of the call");
    cr_assert_gt(json_number_of(stages, "ratio_min"), 0);
    cr_assert_gt(json_number_of(stages, "ratio_median"), 0);
}

/* Tiles, chains, a ragged last panel, k blocks, gates: each has calls of its own that are counted. */
Test(command, bench_divides_the_time_of_a_call_among_its_stages) {
    static const char *const specs[] = {"d64-f256-relu-bias", "d100-f300-gelu", "d40-f70-swiglu-bias"};
    if (ffn_isa_best() == FFN_ISA_PORTABLE)
        cr_skip_test("no code is generated for this CPU");
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        RUN("bench", specs[i], "--n", "1,7", "--seconds", "0.01", "--vs", "none", "--json", "--stages");
        support_expect_status(0);
        cr_expect_eq(each_line(check_stages), 2);
    }
    RUN("bench", "d100-f300-gelu", "--n", "1", "--seconds", "0.01", "--vs", "none", "--stages");
    support_expect_status(0);
    cr_expect(strstr(support_result.out, "expand") && strstr(support_result.out, "rest"), "%s", support_result.out);
}

/* ---- Output that can't be written ---- */

Test(command, a_full_disk_is_a_failure) {
    int full = open("/dev/full", O_WRONLY);
    cr_assert_geq(full, 0);
    RUN_TO(full, "list", "presets");
    support_expect_status(1);
    cr_expect(strstr(support_result.err, "No space left"), "%s", support_result.err);
    RUN_TO(full, "--help");
    support_expect_status(1);
    RUN_TO(full, "verify", "d16-f16-relu", "--json");
    support_expect_status(1);
    RUN_TO(full, "bench", "d16-f16-relu", "--n", "1,2", "--seconds", "0.01", "--json");
    support_expect_status(1);
    RUN_TO(full, "explain", "d16-f16-relu");
    support_expect_status(1);
    RUN_TO(full, "run", "d16-f16-relu");
    support_expect_status(1);
    close(full);
}

Test(command, a_reader_that_has_gone_is_a_failure_and_no_signal) {
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    close(ends[0]);
    RUN_TO(ends[1], "list", "activations");
    support_expect_status(1);
    cr_expect(strstr(support_result.err, "Broken pipe"), "%s", support_result.err);
    RUN_TO(ends[1], "verify", "d16-f16-relu");
    support_expect_status(1);
    close(ends[1]);
}
