/* test_describe.c: one line tells who serves; three lines tell built for, CPU has and in use apart */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "cpu.h"
#include "support_data.h"
#include "support_image.h"

#define FORMULA "d64-f256-bias-act(x*sigmoid(1.702*x))"

static char text[FFN_DESCRIBE_BYTES];
static fake_source fake;
static ffn_context *context;
static ffn_kernel *kernel;

static void open_kernel(const char *spec_text, const ffn_options *options) {
    ffn_spec spec = support_spec(spec_text);
    cr_assert_eq(ffn_context_create(options, &context, NULL), FFN_OK);
    cr_assert_eq(ffn_kernel_create(context, &spec, &kernel, NULL), FFN_OK);
}

static void close_kernel(void) {
    ffn_kernel_destroy(kernel);
    ffn_context_destroy(context);
    fake_source_free(&fake);
}

static const char *described(int64_t n) {
    ffn_diag diag = {.text = ""};
    cr_assert_eq(ffn_kernel_describe(kernel, n, text, sizeof text, &diag), FFN_OK, "%s", diag.text);
    cr_assert_null(strchr(text, '\n'));
    return text;
}

Test(describe, portable_kernel_says_so) {
    open_kernel("d64-f256-gelu-bias", &(ffn_options){.isa = FFN_ISA_PORTABLE, .store = "", .compiler = ""});
    cr_assert_str_eq(described(17), "d64-f256-gelu-bias portable, no generated code");
    close_kernel();
}

/* The fake image: three pages, four stubs of 64 bytes. */
static void expect_line(const char *spec, int64_t n, const char *origin) {
    ffn_kernel_info info;
    char plan[256], line[FFN_DESCRIBE_BYTES];
    ffn_kernel_inspect(kernel, n, &info);
    cr_assert_eq(ffn_plan_format(&info.plan, plan, sizeof plan, NULL), FFN_OK);
    snprintf(line, sizeof line, "%s %s image 12.0 KiB (code 0.2 KiB) %s", spec, plan, origin);
    cr_assert_str_eq(described(n), line);
}

Test(describe, generated_kernel_says_plan_bytes_source_and_whether_it_was_verified) {
    if (!support_image_possible())
        cr_skip_test("no generated ISA of x86-64 here: fake images cannot run");
    static const struct {
        ffn_verify_mode verify;
        const char *origin;
    } rows[] = {{FFN_VERIFY_FIRST_USE, "compiled verified, planned by the model"},
                {FFN_VERIFY_NEVER, "compiled not verified, planned by the model"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fake_source_init(&fake);
        open_kernel("d64-f256-gelu-bias",
                    &(ffn_options){.source = &fake.source, .verify = rows[i].verify, .store = ""});
        cr_assert_eq(ffn_kernel_prepare(kernel, 1, NULL), FFN_OK);
        expect_line("d64-f256-gelu-bias", 1, rows[i].origin);
        char head[64];
        snprintf(head, sizeof head, "d64-f256-gelu-bias %s 1 m", ffn_isa_name(ffn_isa_best()));
        cr_assert_eq(strncmp(text, head, strlen(head)), 0, "%s", text);
        cr_assert_str_eq(described(17) + strlen(head), text + strlen(head), "class 1 serves all until there is more");
        close_kernel();
    }
}

Test(describe, loaded_image_comes_from_memory) {
    if (!support_image_possible())
        cr_skip_test("no generated ISA of x86-64 here: fake images cannot run");
    fake_source_init(&fake);
    open_kernel("d64-f256-gelu-bias", &(ffn_options){.store = "", .compiler = ""});
    ffn_spec spec = support_spec("d64-f256-gelu-bias");
    ffn_plan plan = support_plan(&spec, FFN_N_17_UP);
    ffn_bytes bytes = support_image(&fake, &spec, &plan);
    cr_assert_eq(ffn_kernel_load(kernel, bytes.data, bytes.bytes, NULL), FFN_OK);
    bytes.release(bytes.data);
    expect_line("d64-f256-gelu-bias", 17, "memory verified, its plan given");
    close_kernel();
}

Test(describe, longest_of_everything_fits) {
    char long_spec[FFN_SPEC_TEXT_BYTES] = "d16777216-f4096-bias-act(x";
    while (strlen(long_spec) < FFN_ACTIVATION_BYTES - 64)
        strcat(long_spec, "+0.123456789*x");
    strcat(long_spec, ")");
    ffn_spec spec = support_spec(long_spec);
    char name[FFN_SPEC_NAME_BYTES];
    cr_assert_eq(ffn_spec_name(&spec, false, name, sizeof name, NULL), FFN_OK);
    open_kernel(long_spec, &(ffn_options){.isa = FFN_ISA_PORTABLE, .store = "", .compiler = ""});
    described(1);
    cr_assert_eq(strncmp(text, name, strlen(name)), 0, "a formula as long as this goes by its name: %s", text);
    close_kernel();
}

Test(describe, short_formula_is_written_out) {
    open_kernel(FORMULA, &(ffn_options){.isa = FFN_ISA_PORTABLE, .store = "", .compiler = ""});
    cr_assert_str_eq(described(1), FORMULA " portable, no generated code");
    close_kernel();
}

/* Whatever the room, the text is whole or the buffer is as it was, and what is needed is said. */
Test(describe, room_too_small_leaves_it_untouched) {
    open_kernel("d64-f256-gelu-bias", &(ffn_options){.isa = FFN_ISA_PORTABLE, .store = "", .compiler = ""});
    for (int which = 0; which < 2; which++) {
        ffn_status (*const write)(const ffn_kernel *, int64_t, char *, size_t, ffn_diag *) =
            which ? ffn_cpu_describe : ffn_kernel_describe;
        cr_assert_eq(write(kernel, 1, text, sizeof text, NULL), FFN_OK);
        size_t needed = strlen(text) + 1;
        for (size_t room = 0; room < needed; room++) {
            char small[FFN_DESCRIBE_BYTES], said[32];
            ffn_diag diag;
            memset(small, 'u', sizeof small);
            cr_assert_eq(write(kernel, 1, small, room, &diag), FFN_BAD_ARGUMENT);
            for (size_t i = 0; i < sizeof small; i++)
                cr_assert_eq(small[i], 'u');
            snprintf(said, sizeof said, "%zu are needed", needed);
            cr_assert_not_null(strstr(diag.text, said), "%s", diag.text);
        }
        cr_assert_eq(write(kernel, 1, text, needed, NULL), FFN_OK);
        cr_assert_eq(write(kernel, -1, text, sizeof text, NULL), FFN_BAD_ARGUMENT);
        cr_assert_eq(write(kernel, 1, NULL, sizeof text, NULL), FFN_BAD_ARGUMENT);
    }
    cr_assert_eq(ffn_kernel_describe(NULL, 1, text, sizeof text, NULL), FFN_BAD_ARGUMENT);
    close_kernel();
}

static void expect_cpu(const ffn_kernel *of, const char *in_use) {
    char expected[FFN_DESCRIBE_BYTES], features[128];
    cpu_features_format(cpu_features(), features, sizeof features);
    const char *built = cpu_arch() == FFN_ARCH_X86_64    ? "portable avx2 avx512"
                        : cpu_arch() == FFN_ARCH_AARCH64 ? "portable neon"
                                                         : "portable";
    snprintf(expected, sizeof expected, "built for: %s\nCPU has: %s\nin use: %s\n", built,
             *features ? features : "none of the features that generated code uses", in_use);
    cr_assert_eq(ffn_cpu_describe(of, 1, text, sizeof text, NULL), FFN_OK);
    cr_assert_str_eq(text, expected);
}

Test(describe, cpu_report_tells_built_for_has_and_in_use_apart) {
    expect_cpu(NULL, ffn_isa_name(ffn_isa_best()));
    open_kernel("d64-f256-gelu-bias", &(ffn_options){.isa = FFN_ISA_PORTABLE, .store = "", .compiler = ""});
    expect_cpu(kernel, "portable");
    close_kernel();
    if (!support_image_possible())
        return;
    fake_source_init(&fake);
    open_kernel("d64-f256-gelu-bias", &(ffn_options){.source = &fake.source, .store = ""});
    expect_cpu(kernel, "portable");
    cr_assert_eq(ffn_kernel_prepare(kernel, 1, NULL), FFN_OK);
    expect_cpu(kernel, ffn_isa_name(ffn_isa_best()));
    close_kernel();
}
