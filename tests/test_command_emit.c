/* ffngen emit from outside: names, files that belong together, what is refused and what is then left. */
#define _GNU_SOURCE
#include "ffn.h"
#include "support_command.h"
#include "support_files.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(command_emit, .init = support_folder_make, .fini = support_folder_remove, .timeout = 300);

/* The whole file as a string, kept until the next call. */
static const char *read_text(const char *name) {
    static char *kept;
    size_t bytes;
    char *data = support_file_read(support_path(name), &bytes);
    free(kept);
    kept = malloc(bytes + 1);
    memcpy(kept, data, bytes);
    kept[bytes] = '\0';
    free(data);
    return kept;
}

#define EMIT(...) RUN("emit", "--format", "header", "--isa", "portable", __VA_ARGS__)

/* Bad usage that says these words, up to two, and leaves nothing. */
static void expect_refused(size_t number, const char *const *arguments, const char *const *said) {
    support_run(FFN_COMMAND, -1, arguments);
    cr_expect_eq(support_result.status, 2, "case %zu: %d %s", number, support_result.status, support_result.err);
    for (int k = 0; k < 2 && said[k]; k++)
        cr_expect(strstr(support_result.err, said[k]), "case %zu: no '%s' in: %s", number, said[k], support_result.err);
    cr_expect_eq(support_folder_count(), 0, "case %zu left a file", number);
}

/* ---- Names ---- */

Test(command_emit, the_prefix_is_the_given_one_or_the_name_of_the_file) {
    static const struct {
        const char *file, *prefix, *function;
    } cases[] = {{"ffn_bert.h", NULL, "int ffn_bert_run("},  {"ffn-bert.v2.h", NULL, "int ffn_bert_run("},
                 {"libbert.h", NULL, "int bert_run("},       {"3rd.h", NULL, "int ffn_d4_f5_relu_run("},
                 {"ffn.h", NULL, "int ffn_d4_f5_relu_run("}, {"f.h", NULL, "int ffn_d4_f5_relu_run("},
                 {"a.h", "Bert7", "int Bert7_run("}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = support_path(cases[i].file);
        if (cases[i].prefix)
            EMIT("d4-f5-relu", "-o", path, "--prefix", cases[i].prefix);
        else
            EMIT("d4-f5-relu", "-o", path);
        support_expect_status(0);
        cr_expect(strstr(read_text(cases[i].file), cases[i].function), "%s: no %s", cases[i].file, cases[i].function);
    }
}

Test(command_emit, several_specs_have_names_of_their_own) {
    EMIT("d4-f5-relu", "mlp=d6-f7-gelu-bias", "d4-f5-act(x*x)", "--prefix", "net", "-o", support_path("net.h"));
    support_expect_status(0);
    const char *header = read_text("net.h");
    cr_expect(strstr(header, "int net_d4_f5_relu_run("));
    cr_expect(strstr(header, "int net_mlp_run("));
    cr_expect(strstr(header, "int net_d4_f5_fx"), "a formula stands as its hash");
    EMIT("mlp=d6-f7-gelu-bias", "--prefix", "net", "-o", support_path("one.h"));
    support_expect_status(0);
    cr_expect(strstr(read_text("one.h"), "int net_mlp_run("));
}

Test(command_emit, names_that_cannot_be_are_bad_usage) {
    static const struct {
        const char *arguments[4];
        const char *said[2];
    } cases[] = {
        {{"d4-f5-relu", "--prefix", "7up"}, {"--prefix", "7up"}},
        {{"d4-f5-relu", "--prefix", "a-b"}, {"--prefix", "a-b"}},
        {{"d4-f5-relu", "--prefix", "FFN"}, {"--prefix", "libffn"}},
        {{"d4-f5-relu", "--prefix", "w"}, {"--prefix", "2 to"}},
        {{"a=d4-f5-relu", "a_avx2_n1=d4-f6-relu"}, {"a_avx2_n1", "NAME=SPEC"}},
        {{"a_avx2_n1=d4-f5-relu", "A=d4-f6-relu"}, {"a_avx2_n1", "NAME=SPEC"}},
        {{"d4-f5-relu", "--prefix", "_x"}, {"--prefix", "letter"}},
        {{"d4-f5-relu", "--prefix", "a234567890123456789012345678901234567890123456789012345678901234"}, {"63"}},
        {{"d4-f5-relu", "d4-f5-relu"}, {"d4-f5-relu", "NAME=SPEC"}},
        {{"mlp=d4-f5-relu", "MLP=d4-f6-relu"}, {"MLP", "NAME=SPEC"}},
        {{"=d4-f5-relu"}, {"=d4-f5-relu", "name"}},
        {{"5a=d4-f5-relu"}, {"5a", "letters"}},
        {{"a=d4-f5-rleu"}, {"rleu", "relu"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *arguments[12] = {"emit", "--format", "header", "--isa", "portable", "-o", support_path("x.h")};
        for (int k = 0; k < 4; k++)
            arguments[7 + k] = cases[i].arguments[k];
        expect_refused(i, arguments, cases[i].said);
    }
}

/* ---- Files ---- */

Test(command_emit, code_in_a_file_has_its_header_beside_it) {
    static const struct {
        const char *format, *file, *header, *start;
    } cases[] = {{"asm", "net.s", "net.h", ""},
                 {"object", "net.o", "net.h", "\177ELF"},
                 {"library", "libnet.a", "libnet.h", "!<arch>\n"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        RUN("emit", "d4-f5-relu", "d8-f9-silu", "--format", cases[i].format, "--isa", "avx2,avx512", "--prefix", "net",
            "-o", support_path(cases[i].file));
        support_expect_status(0);
        cr_expect_str_empty(support_result.out);
        cr_expect_eq(strncmp(read_text(cases[i].file), cases[i].start, strlen(cases[i].start)), 0);
        const char *header = read_text(cases[i].header);
        cr_expect(strstr(header, "int net_d8_f9_silu_run("), "%s", cases[i].format);
        cr_expect(!strstr(header, "vfmadd"), "%s: the header has the kernels as well", cases[i].format);
    }
    RUN("emit", "d4-f5-relu", "--format", "asm", "--isa", "avx2", "-o", support_path("net.h"));
    support_expect_status(2);
    cr_expect(strstr(support_result.err, "header"), "%s", support_result.err);
}

Test(command_emit, neither_of_two_files_is_written_where_one_cannot_be) {
    support_file_write(support_path("net.o"), "before", 6);
    cr_assert_eq(mkdir(support_path("net.h"), 0700), 0);
    RUN("emit", "d4-f5-relu", "--format", "object", "--isa", "avx2", "-o", support_path("net.o"));
    support_expect_status(1);
    cr_expect(strstr(support_result.err, "net.h"), "%s", support_result.err);
    support_file_expect(support_path("net.o"), "before", 6, "the object is not what it was");
    cr_expect_eq(support_folder_count(), 2);
}

Test(command_emit, what_it_reads_is_never_written_over) {
    char model[4096], machine[4096], beside[4096];
    snprintf(model, sizeof model, "%s", support_path("model.safetensors"));
    snprintf(machine, sizeof machine, "%s", support_path("machine.txt"));
    snprintf(beside, sizeof beside, "%s", support_path("machine.h"));
    static const char lines[] = "l1_bytes 32768\nl2_bytes 524288\nl3_bytes 0\n";
    support_safetensors_write(model, &(ffn_spec){.d_model = 20, .d_ff = 37, .bias = 5, .activation = "gelu"},
                              &(support_tensors){.dtype = "F32", .layout = FFN_OUT_IN}, 1);
    support_file_write(machine, lines, sizeof lines - 1);
    size_t bytes;
    void *before = support_file_read(model, &bytes);
#define WEIGHTS "-w", model, "--map", "w1=w1,b1=b1,w2=w2,b2=b2", "--layout", "out_in"
    char around[8200];
    snprintf(around, sizeof around, "%.*s/./%s", (int)(strrchr(model, '/') - model), model, strrchr(model, '/') + 1);
    EMIT("d20-f37-gelu-bias_up-bias_down", WEIGHTS, "-o", around);
    support_expect_status(2);
    cr_expect(strstr(support_result.err, "--weights"), "%s", support_result.err);
    EMIT("d20-f37-gelu-bias_up-bias_down", WEIGHTS, "-o", support_path("x.h"), "--weights-out", around);
    support_expect_status(2);
    EMIT("d20-f37-gelu-bias_up-bias_down", WEIGHTS, "-o", support_path("x.h"), "--weights-out", support_path("x.h"));
    support_expect_status(2);
    EMIT("d20-f37-gelu", "--machine", machine, "-o", machine);
    support_expect_status(2);
    RUN("emit", "d20-f37-gelu", "--format", "ir", "--isa", "avx2", "--machine", machine, "-o", machine);
    support_expect_status(2);
    support_file_write(beside, lines, sizeof lines - 1);
    RUN("emit", "d20-f37-gelu", "--format", "asm", "--isa", "avx2", "--machine", beside, "-o",
        support_path("machine.s"));
    support_expect_status(2);
    cr_expect(strstr(support_result.err, "machine.h"), "%s", support_result.err);
    support_file_expect(beside, lines, sizeof lines - 1, "the machine");
    unlink(beside);
    support_file_expect(model, before, bytes, "the weights");
    support_file_expect(machine, lines, sizeof lines - 1, "the machine");
    cr_expect_eq(support_folder_count(), 2);
    EMIT("d20-f37-gelu-bias_up-bias_down", WEIGHTS, "-o", support_path("x.h"), "--weights-out", support_path("x.ffnw"));
    support_expect_status(0);
    support_file_write(support_path("x.ffnw"), "before", 6);
    EMIT("d20-f37-gelu-bias_up-bias_down", WEIGHTS, "-o", support_path("absent/x.h"), "--weights-out",
         support_path("x.ffnw"));
    support_expect_status(1);
    support_file_expect(support_path("x.ffnw"), "before", 6, "weights whose header could not be written");
    cr_expect_eq(support_folder_count(), 4);
    free(before);
}

Test(command_emit, a_dash_is_standard_output) {
    EMIT("d4-f5-relu", "-o", "-");
    support_expect_status(0);
    cr_expect(strstr(support_result.out, "int ffn_d4_f5_relu_run("));
    cr_expect_neq(access("-", F_OK), 0);
}

/* Runs a shell command in the test's folder. */
static int shell(const char *format, const char *a) {
    char command[1024];
    const int used = snprintf(command, sizeof command, "cd '%s' && ", support_path("."));
    snprintf(command + used, sizeof command - (size_t)used, format, a);
    return system(command);
}

Test(command_emit, the_example_in_a_header_compiles_as_it_stands) {
    static const char *const specs[] = {"d4-f5-relu", "d4-f5-swiglu-bias", "d8-f9-gelu-bias_down", "d8-f9-glu-bias_up"};
    if (shell("cc --version >%s", "/dev/null") != 0)
        cr_skip("no cc");
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        EMIT(specs[i], "-o", support_path("net.h"));
        support_expect_status(0);
        cr_expect_eq(shell("sed -n '/^ [*] Shapes/q;s/^ [*]     //p' net.h >%s && grep -q net_run usage.c", "usage.c"),
                     0);
        cr_expect_eq(shell("cc -std=c99 -Wall -Wextra -Wpedantic -Werror -c %s -o usage.o", "usage.c"), 0, "%s",
                     specs[i]);
    }
}

Test(command_emit, formulas_that_use_little_make_no_warnings) {
    static const char program[] = "#define NET_IMPLEMENTATION\n#include \"net.h\"\n";
    support_file_write(support_path("p.c"), program, sizeof program - 1);
    if (shell("cc --version >%s", "/dev/null") != 0)
        cr_skip("no cc");
    EMIT("d4-f5-act(3)", "d4-f5-act(0.5)", "d4-f5-gated(u*2)", "d4-f5-gated(g*2)", "d4-f5-gated(1)", "d4-f5-act(x)",
         "d4-f5-act(select(x<0,1,2))", "-o", support_path("net.h"));
    support_expect_status(0);
    cr_expect_eq(shell("cc -Wall -Wextra -Wpedantic -Wconversion -Werror -c p.c -o %s", "p.o"), 0);
}

Test(command_emit, a_header_and_the_object_of_another_do_not_link) {
    static const char program[] = "#define NET_IMPLEMENTATION\n#include \"net.h\"\n"
                                  "int main(void) { return net_run(0) == NET_OK; }\n";
    support_file_write(support_path("p.c"), program, sizeof program - 1);
    if (shell("cc --version >%s", "/dev/null") != 0 || !ffn_isa_supported(FFN_ISA_AVX2))
        cr_skip("no cc, or another architecture");
    RUN("emit", "d4-f5-silu", "--format", "object", "--isa", "avx2", "--prefix", "net", "-o", support_path("other.o"));
    support_expect_status(0);
    RUN("emit", "d4-f5-relu", "--format", "object", "--isa", "avx2", "--prefix", "net", "-o", support_path("net.o"));
    support_expect_status(0);
    cr_expect_eq(shell("cc p.c net.o -o p 2>%s && ./p", "said"), 0);
    cr_expect_neq(shell("cc p.c other.o -o q 2>%s", "said"), 0, "the object of another spec was linked");
    cr_expect_eq(shell("grep -q 'undefined reference.*net_avx2_' %s", "said"), 0);
}

Test(command_emit, a_device_gets_the_code_alone) {
    RUN("emit", "d4-f5-relu", "--format", "asm", "--isa", "avx2", "-o", "/dev/null");
    support_expect_status(0);
    cr_expect_neq(access("/dev/null.h", F_OK), 0);
}

Test(command_emit, options_that_do_not_go_together_are_refused) {
    static const struct {
        const char *arguments[10];
        const char *said[2];
    } cases[] = {
        {{"d4-f5-relu", "--format", "object", "--isa", "avx2", "--static"}, {"--static", "header"}},
        {{"d4-f5-relu", "--format", "object", "--isa", "portable"}, {"--isa portable", "header"}},
        {{"d4-f5-relu", "--format", "image", "--isa", "avx2", "--prefix", "a"}, {"--prefix"}},
        {{"d4-f5-relu", "--format", "asm", "--isa", "avx2", "--weights", "f"}, {"--weights", "header"}},
        {{"d4-f5-relu", "--format", "header", "--isa", "avx2", "--weights-out", "f"}, {"--weights", "--weights-out"}},
        {{"d4-f5-relu", "--format", "header", "--isa", "avx2", "--layer", "1"}, {"--weights", "--layer"}},
        {{"d4-f5-relu", "d4-f6-relu", "--format", "header", "--isa", "avx2", "--weights", "f"}, {"one SPEC"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *arguments[16] = {"emit", "-o", support_path("x.out")};
        for (int k = 0; k < 10; k++)
            arguments[3 + k] = cases[i].arguments[k];
        expect_refused(i, arguments, cases[i].said);
    }
}

/* ---- Plans ---- */

/* The header says what plan each class has. */
Test(command_emit, plans_come_from_the_tuned_table_the_machine_or_the_isa_in_this_order) {
    static const char table[] = "ffngen-tuned 1\n"
                                "spec=d96-f200-relu plan=\"avx2 5-16 m16 f96 k32 u2 p0 2x1 1x1\" threads=1 ms=1 "
                                "spread=0 machine=\"a\" llvm=19.1.7 generator=0.1.0\n";
    static const char small[] = "l1_bytes 8192\nl2_bytes 65536\nl3_bytes 0\n";
    const char *tuned = support_path("tuned.txt"), *machine = support_path("machine.txt");
    support_file_write(tuned, table, sizeof table - 1);
    support_file_write(machine, small, sizeof small - 1);
    char *files[3];
    size_t bytes[3];
    for (int i = 0; i < 3; i++) {
        const char *const arguments[] = {"emit",
                                         "d96-f200-relu",
                                         "--format",
                                         "header",
                                         "--isa",
                                         "avx2",
                                         "--prefix",
                                         "net",
                                         "-o",
                                         support_path("net.h"),
                                         i > 0 ? "--machine" : NULL,
                                         machine,
                                         i > 1 ? "--tuned" : NULL,
                                         tuned,
                                         NULL};
        support_run(FFN_COMMAND, -1, arguments);
        support_expect_status(0);
        files[i] = support_file_read(support_path("net.h"), &bytes[i]);
    }
    cr_expect(memmem(files[2], bytes[2], "avx2 5-16 m16 f96 k32 u2 p0 2x1 1x1", 35));
    cr_expect_null(memmem(files[1], bytes[1], "m16 f96 k32", 11));
    cr_expect(bytes[0] != bytes[1] || memcmp(files[0], files[1], bytes[0]) != 0, "the machine changes nothing");
    for (int i = 0; i < 3; i++)
        free(files[i]);
}
