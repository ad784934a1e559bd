/* A header with the portable kernel, compiled by the compilers that are here: what it packs, runs and refuses, beside
 * libffn's portable kernel. */
#include "support_emitted.h"

#include "packed.h"
#include "support_data.h"
#include "support_emit.h"
#include "support_files.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 19 };

TestSuite(emit_header, .init = support_folder_make, .fini = support_folder_remove);

/* ---- Packing ---- */

/* One way to give weights: layouts, a distance between rows, gate and up apart or together. */
static void expect_packed(const support_emitted *net, const ffn_spec *spec, const ffn_weights *weights,
                          const char *what) {
    size_t bytes;
    cr_assert_eq(ffn_packed_bytes(spec, &bytes, NULL), FFN_OK);
    char *want = support_aligned(bytes), *got = support_aligned(bytes);
    memset(got, 0xa5, bytes);
    cr_assert_eq(ffn_pack(spec, weights, want, bytes, NULL), FFN_OK);
    cr_expect_eq(net->pack(weights, got, bytes), 0, "%s", what);
    size_t at = 0;
    while (at < bytes && want[at] == got[at])
        at++;
    cr_expect(at == bytes, "%s, %s: byte %zu of %zu differs", spec->activation, what, at, bytes);
    cr_expect_eq(net->check(got, bytes), 0, "%s", what);
    free(want);
    free(got);
}

/* The same numbers read in other ways: any array serves, as long as it is large enough. */
static void expect_all_ways(const support_emitted *net, const ffn_spec *spec) {
    const int64_t most = spec->d_model + 2 * spec->d_ff, floats = most * (most + 3); /* rows, and their distance */
    float *data = malloc((size_t)floats * 3 * sizeof *data),
          *bias = malloc((size_t)(4 * spec->d_ff + spec->d_model) * 4);
    support_fill_normal(data, 3 * floats, 1, 1);
    support_fill_normal(bias, 4 * spec->d_ff + spec->d_model, 1, 2);
    const bool gated = ffn_spec_gated(spec);
    for (int way = 0; way < 8; way++) {
        const ffn_layout layout = way & 1 ? FFN_OUT_IN : FFN_IN_OUT;
        const int64_t more = way & 2 ? 3 : 0;
        const int64_t up_ld = layout == FFN_IN_OUT ? spec->d_ff : spec->d_model;
        ffn_weights w = {.up = {data, more ? up_ld + more : 0, layout},
                         .down = {data + floats, more ? spec->d_ff + spec->d_model + more : 0, layout},
                         .bias_up = spec->bias & FFN_BIAS_UP ? bias : NULL,
                         .bias_down = spec->bias & FFN_BIAS_DOWN ? bias + 3 * spec->d_ff : NULL,
                         .bias_gate = spec->bias & FFN_BIAS_GATE ? bias + spec->d_ff : NULL};
        if (gated)
            w.gate = (ffn_matrix){data + 2 * floats, 0, way & 4 ? FFN_OUT_IN : FFN_IN_OUT};
        char what[64];
        snprintf(what, sizeof what, "way %d", way);
        expect_packed(net, spec, &w, what);
        const uint32_t both = spec->bias & (FFN_BIAS_UP | FFN_BIAS_GATE);
        if (!gated || (both != 0 && both != (FFN_BIAS_UP | FFN_BIAS_GATE)))
            continue;
        w.gate = (ffn_matrix){0};
        w.bias_gate = NULL;
        w.up.ld = more ? 2 * spec->d_ff + spec->d_model + more : 0;
        for (ffn_gate_order order = FFN_GATE_FIRST; order <= FFN_GATE_INTERLEAVED; order++) {
            w.gate_order = order;
            snprintf(what, sizeof what, "way %d, gate order %d", way, (int)order);
            expect_packed(net, spec, &w, what);
        }
    }
    free(data);
    free(bias);
}

Test(emit_header, packs_the_bytes_of_ffn_pack) {
    static const char *const commands[] = {CC "-O0", CC "-O3 -march=native"};
    for (int c = 0; c < 2; c++) {
        support_emitted nets[SUPPORT_EMITTED_SPECS];
        support_emitted_all(commands[c], c == 0 ? "slow.h" : "fast.h", nets);
        for (int32_t i = 0; i < SUPPORT_EMITTED_SPECS; i++) {
            const ffn_spec spec = support_spec(support_emitted_specs[i]);
            expect_all_ways(&nets[i], &spec);
        }
    }
}

/* The checksum's blocks are of 1024 bytes: bodies that end at, before and behind one, and the smallest. */
Test(emit_header, sums_blocks_of_every_length) {
    static const char *const lengths[] = {"d1-f1-relu", "d2-f1-relu", "d4-f3-relu",   "d4-f4-relu",  "d5-f4-relu",
                                          "d7-f7-relu", "d8-f8-relu", "d16-f14-relu", "d16-f15-relu"};
    enum { LENGTHS = sizeof lengths / sizeof *lengths };
    void *object = support_emitted_net(CC "-O2", "net.h", support_emitted_names, lengths, LENGTHS);
    for (int32_t i = 0; i < LENGTHS; i++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "net_%s", support_emitted_names[i]);
        support_emitted net;
        support_emitted_functions(object, prefix, &net);
        const ffn_spec spec = support_spec(lengths[i]);
        expect_all_ways(&net, &spec);
    }
}

Test(emit_header, notes_whether_weights_are_finite) {
    support_emitted nets[SUPPORT_EMITTED_SPECS];
    support_emitted_all(CC "-O2", "net.h", nets);
    const ffn_spec spec = support_spec(support_emitted_specs[0]);
    static const float values[] = {INFINITY, -INFINITY, NAN, 0x1.fffffep127f, 0x1p-149f};
    support_weights *weights = support_random_weights(&spec, SUPPORT_NORMAL, 3);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        for (int place = 0; place < 2; place++) { /* an even and an odd element: both halves of a word */
            weights->down[place] = values[i];
            expect_packed(&nets[0], &spec, &weights->weights, "not finite");
            weights->down[place] = 1;
        }
    support_weights_free(weights);
}

/* ---- Running ---- */

/* Every NaN equals every NaN, except where nothing may have been written. */
static bool same_values(const float *a, const float *b, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (memcmp(a + i, b + i, sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i])))
            return false;
    return true;
}

/* Ordinary rows, cancelling ones, and one with each kind of special value. */
static void fill_rows(float *x, int64_t d_model, int64_t ldx) {
    support_fill_x(x, ROWS, d_model, ldx, SUPPORT_NORMAL, 5);
    support_fill_x(x, ROWS / 2, d_model, ldx, SUPPORT_CANCELLING, 6);
    static const float special[] = {NAN, INFINITY, -INFINITY, 0x1.fffffep127f, 0x1p-149f, -0.0f};
    for (int64_t i = 0; i < 6; i++)
        x[(ROWS - 1 - i) * ldx + i % d_model] = special[i];
    for (int64_t i = 0; i < d_model; i++)
        x[(ROWS - 7) * ldx + i] = -0.0f;
}

static void expect_runs(const support_emitted *net, ffn_context *context, const ffn_spec *spec) {
    const int64_t ldx = spec->d_model + 3, ldy = spec->d_model + 5, stride = (spec->d_ff + 15) / 16 * 16;
    ffn_kernel *kernel = support_emitted_kernel(context, spec);
    const size_t hidden_bytes = 16 * (size_t)stride * sizeof(float), scratch_bytes = ffn_kernel_scratch_bytes(kernel);
    support_weights *weights = support_random_weights(spec, SUPPORT_CANCELLING, 7);
    void *packed = support_packed(spec, &weights->weights), *scratch = support_aligned(scratch_bytes);
    float *x = malloc((size_t)(ROWS * ldx) * 4), *want = malloc((size_t)(ROWS * ldy) * 4);
    float *got = malloc((size_t)(ROWS * ldy) * 4), *hidden = support_aligned(hidden_bytes);
    float *right_hidden = support_aligned(hidden_bytes);
    fill_rows(x, spec->d_model, ldx);
    ffn_args args = {ROWS, x, ldx, want, ldy, packed, scratch, scratch_bytes};

    for (int64_t n = 0; n <= ROWS; n += n == 5 ? 12 : 1) {
        args.n = n;
        support_fill_nan(want, ROWS * ldy);
        support_fill_nan(got, ROWS * ldy);
        args.y = want;
        cr_assert_eq(ffn_kernel_run(kernel, &args, NULL), FFN_OK);
        args.y = got;
        support_fill_nan(scratch, (int64_t)(scratch_bytes / sizeof(float)));
        cr_expect_eq(net->run(&args), 0);
        cr_expect(same_values(want, got, ROWS * ldy), "%s, n = %d", spec->activation, (int)n);
    }
    support_fill_nan(got, ROWS * ldy); /* all rows again, by ranges */
    for (int64_t row = 0; row < ROWS; row += 7)
        cr_expect_eq(net->run_rows(&args, row, row + 7 < ROWS ? row + 7 : ROWS), 0);
    cr_expect(same_values(want, got, ROWS * ldy), "%s by rows", spec->activation);

    args.n = 16;
    args.x = x + 3 * ldx; /* special values among them */
    support_fill_nan(hidden, (int64_t)(hidden_bytes / 4));
    support_fill_nan(right_hidden, (int64_t)(hidden_bytes / 4));
    for (int64_t c = 0; c < spec->d_ff; c += 32) {
        const int64_t end = c + 32 < spec->d_ff ? c + 32 : spec->d_ff;
        cr_assert_eq(ffn_kernel_expand(kernel, &args, right_hidden, c, end, NULL), FFN_OK);
        cr_expect_eq(net->expand(&args, hidden, c, end), 0);
    }
    for (int64_t row = 0; row < 16; row++)
        cr_expect(same_values(hidden + row * stride, right_hidden + row * stride, spec->d_ff), "%s: hidden row %d",
                  spec->activation, (int)row);
    support_fill_nan(want, ROWS * ldy);
    support_fill_nan(got, ROWS * ldy);
    for (int64_t c = 0; c < spec->d_model; c += 16) {
        const int64_t end = c + 16 < spec->d_model ? c + 16 : spec->d_model;
        args.y = want;
        cr_assert_eq(ffn_kernel_contract(kernel, &args, right_hidden, c, end, NULL), FFN_OK);
        args.y = got;
        cr_expect_eq(net->contract(&args, right_hidden, c, end), 0);
    }
    cr_expect(same_values(want, got, ROWS * ldy), "%s by columns", spec->activation);

    const float *u = x + ROWS * ldx / 2;
    const int64_t count = ROWS * ldx / 2;
    float *out = malloc((size_t)count * 4), *right = malloc((size_t)count * 4);
    cr_assert_eq(ffn_kernel_activate(kernel, 1, count, x, u, right, NULL), FFN_OK);
    cr_expect_eq(net->activate(1, count, x, u, out), 0);
    cr_expect(same_values(out, right, count), "%s alone", spec->activation);
    free(out);
    free(right);

    free(x);
    free(want);
    free(got);
    free(hidden);
    free(right_hidden);
    free(scratch);
    free(packed);
    support_weights_free(weights);
    ffn_kernel_destroy(kernel);
}

static void expect_all_runs(const char *command, const char *file) {
    support_emitted nets[SUPPORT_EMITTED_SPECS];
    support_emitted_all(command, file, nets);
    ffn_context *context = support_emitted_context();
    for (int32_t i = 0; i < SUPPORT_EMITTED_SPECS; i++) {
        const ffn_spec spec = support_spec(support_emitted_specs[i]);
        expect_runs(&nets[i], context, &spec);
    }
    ffn_context_destroy(context);
}

Test(emit_header, runs_to_the_bits_of_the_portable_kernel) {
    expect_all_runs(CC "-O2 -std=c99", "c99.h");
    expect_all_runs(CC "-O0", "slow.h");
    expect_all_runs(CC "-O3 -DNET__SOFT", "soft.h");
}

Test(emit_header, keeps_its_bits_where_compilers_fuse) {
    expect_all_runs(CC "-O3 -std=gnu17 -march=native -ffp-contract=fast", "fused.h");
    if (support_emitted_has("c++"))
        expect_all_runs("c++ -x c++ -DNET_IMPLEMENTATION -std=gnu++17 -O2 -march=native", "cxx.h");
}

/* By hand: 2^48 + 2^25 and a product of 2^24 - 2^-22, of either sign, is nearest to 2^48 + 2^25; rounded to double on
 * the way it would be the middle of two floats and go to the even one. And -0 - 0 is -0, but for the last addition. */
Test(emit_header, rounds_once_and_returns_no_minus_zero) {
    static const char *const commands[] = {CC "-O2 -DNET__SOFT", CC "-O2 -march=native", CC "-O2"};
    static const char *const names[] = {"a.h", "b.h", "c.h"};
    static const struct {
        float x, bias, hidden;
    } rows[] = {
        {0x1.000002p12f, 0x1.000002p48f, 0x1.000002p48f}, {-0x1.000002p12f, 0x1.000002p48f, 0x1.000002p48f}, {0, 0, 0}};
    enum { WIDTH = 65 }; /* the first that is summed in one chain */
    static float x[WIDTH], up[WIDTH], down[WIDTH], bias_down[WIDTH], y[WIDTH];
    const char *const text_of = "d65-f1-identity-bias";
    const ffn_spec spec = support_spec(text_of);
    size_t bytes;
    cr_assert_eq(ffn_packed_bytes(&spec, &bytes, NULL), FFN_OK);
    void *packed = support_aligned(bytes), *scratch = support_aligned(4096);
    for (size_t c = 0; c < sizeof commands / sizeof *commands; c++) {
        support_emitted net;
        support_emitted_functions(support_emitted_net(commands[c], names[c], NULL, &text_of, 1), "net", &net);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            x[0] = rows[i].x;
            up[0] = 0x1.fffffcp11f;
            for (int k = 0; k < WIDTH; k++) {
                down[k] = k % 2 ? 1.0f : -1.0f;
                bias_down[k] = -0.0f;
            }
            const ffn_weights weights = {.up = {up, 0, FFN_IN_OUT},
                                         .down = {down, 0, FFN_IN_OUT},
                                         .bias_up = &rows[i].bias,
                                         .bias_down = bias_down};
            cr_assert_eq(net.pack(&weights, packed, bytes), 0);
            const ffn_args args = {1, x, WIDTH, y, WIDTH, packed, scratch, 4096};
            cr_assert_eq(net.run(&args), 0);
            for (int k = 0; k < WIDTH; k++) {
                const float want = rows[i].hidden == 0 ? 0.0f : k % 2 ? rows[i].hidden : -rows[i].hidden;
                cr_expect(memcmp(&y[k], &want, sizeof want) == 0, "row %zu, column %d: %a, right is %a", i, k,
                          (double)y[k], (double)want);
            }
        }
    }
    free(packed);
    free(scratch);
}

Test(emit_header, keeps_its_bits_by_clang) {
    if (!support_emitted_has("clang"))
        cr_skip("no clang");
    expect_all_runs("clang -x c -DNET_IMPLEMENTATION -O3", "clang.h");
    expect_all_runs("clang -x c -DNET_IMPLEMENTATION -O3 -DNET__SOFT", "clang_soft.h");
    expect_all_runs("clang -x c -DNET_IMPLEMENTATION -O2 -march=native -ffp-contract=fast", "clang_fused.h");
}

Test(emit_header, needs_no_library_at_any_level) {
    static const char *const levels[] = {"-O1", "-Os", "-O3 -funroll-loops", "-O2 -ftree-loop-distribute-patterns"};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        for (int clang = 0; clang < (support_emitted_has("clang") ? 2 : 1); clang++) {
            char command[128], file[32];
            snprintf(command, sizeof command, "%s -x c -DNET_IMPLEMENTATION %s", clang ? "clang" : "cc",
                     clang && i == 3 ? "-O0" : levels[i]);
            snprintf(file, sizeof file, "level%zu%d.h", i, clang);
            support_emitted_net(command, file, support_emitted_names, support_emitted_specs,
                                SUPPORT_EMITTED_SPECS); /* linked with nothing */
        }
}

/* ---- What a header says of itself ---- */

Test(emit_header, tells_and_chooses_who_runs) {
    support_emitted nets[SUPPORT_EMITTED_SPECS];
    void *object = support_emitted_all(CC "-O2", "net.h", nets);
    const char *(*isa)(void), *(*status_text)(int);
    int (*choose)(const char *);
    *(void **)(void *)&isa = support_emitted_symbol(object, "net", "isa");
    *(void **)(void *)&choose = support_emitted_symbol(object, "net", "select");
    *(void **)(void *)&status_text = support_emitted_symbol(object, "net", "status_text");
    cr_expect_str_eq(isa(), "portable");
    cr_expect_eq(choose("avx2"), 3);
    cr_expect_eq(choose("portabl"), 3);
    cr_expect_eq(choose("portable "), 3);
    cr_expect_eq(choose(""), 3);
    cr_expect_str_eq(isa(), "portable");
    cr_expect_eq(choose("portable"), 0);
    cr_expect_eq(choose(NULL), 0);
    cr_expect_str_eq(isa(), "portable");
    for (int32_t i = 0; i < SUPPORT_EMITTED_SPECS; i++) {
        cr_expect(nets[i].supported());
        cr_expect(strstr(nets[i].describe(1), support_emitted_specs[i]) && strstr(nets[i].describe(1), "portable") &&
                      strstr(nets[i].describe(100), FFN_VERSION),
                  "%s", nets[i].describe(1));
    }
    for (int status = -1; status <= 4; status++)
        for (int other = -1; other < status; other++)
            cr_expect((strcmp(status_text(status), status_text(other)) == 0) == (other == -1 && status == 4));
}

Test(emit_header, is_a_source_without_code_for_libffn) {
    char command[512];
    snprintf(command, sizeof command, CC "-O2 -I%s/runtime -include ffn.h", FFN_SOURCE_DIR);
    const char *const spec_text = "d20-f24-relu-bias";
    void *object = support_emitted_net(command, "net.h", NULL, &spec_text, 1);
    const ffn_source *(*source_of)(void);
    *(void **)(void *)&source_of = support_emitted_symbol(object, "net", "source");
    const ffn_source *source = source_of();
    const ffn_spec spec = support_spec(spec_text);
    const ffn_plan plan = {.isa = FFN_ISA_AVX2};
    ffn_native native;
    cr_assert(source->find && !source->build);
    cr_expect_eq(source->find(source->self, &spec, &plan, &native, NULL), FFN_UNSUPPORTED);
}

/* The one line between JIT and AOT: libffn finds the header's kernels and nothing else, and runs them. */
Test(emit_header, is_a_source_of_its_kernels_for_libffn, .timeout = 120) {
    static const ffn_isa isas[] = {FFN_ISA_AVX2};
    static const int64_t rows[FFN_N_CLASSES] = {1, 3, 9, ROWS};
    if (!ffn_isa_supported(*isas))
        cr_skip("the code cannot run on this CPU");
    emit_kernel kernel;
    ffn_bytes header;
    ffn_diag diag = {0};
    support_emit_kernel("d40-f72-gelu-bias", "net", isas, 1, &kernel);
    const emit_job job = {
        .prefix = "net", .file = "net.h", .isas = isas, .isa_count = 1, .kernels = &kernel, .kernel_count = 1};
    cr_assert_eq(emit_header(&job, &header, &diag), FFN_OK, "%s", diag.text);
    char command[512];
    snprintf(command, sizeof command, CC "-O2 -I%s/runtime -include ffn.h", FFN_SOURCE_DIR);
    void *object = support_emitted_load(command, "net.h", header.data, header.bytes);
    header.release(header.data);
    const ffn_source *(*source_of)(void);
    const char *(*describe)(int64_t n);
    *(void **)(void *)&source_of = support_emitted_symbol(object, "net", "source");
    *(void **)(void *)&describe = support_emitted_symbol(object, "net", "describe");
    ffn_context *context;
    ffn_kernel *served;
    cr_assert_eq(ffn_context_create(&(ffn_options){.source = source_of(), .isa = *isas, .store = ""}, &context, &diag),
                 FFN_OK, "%s", diag.text);
    cr_assert_eq(ffn_kernel_create(context, &kernel.spec, &served, &diag), FFN_OK, "%s", diag.text);
    for (int c = 0; c < FFN_N_CLASSES; c++) {
        ffn_kernel_info info;
        char plan[512];
        cr_expect_eq(ffn_kernel_prepare(served, rows[c], &diag), FFN_OK, "%s", diag.text);
        ffn_kernel_inspect(served, rows[c], &info);
        cr_expect(info.source == FFN_FROM_NATIVE && info.verified && info.isa == *isas);
        cr_assert_eq(ffn_plan_format(&kernel.plans[*isas][c], plan, sizeof plan, NULL), FFN_OK);
        cr_expect_eq(memcmp(&info.plan, &kernel.plans[*isas][c], sizeof info.plan), 0, "%s: another class", plan);
        cr_expect(strstr(describe(rows[c]), plan) && strstr(describe(rows[c]), FFN_VERSION), "%s: no %s",
                  describe(rows[c]), plan);
    }
    ffn_kernel_destroy(served);
    static const char *const others[] = {"d40-f72-gelu", "d40-f72-relu-bias", "d40-f71-gelu-bias", "d41-f72-gelu-bias"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const ffn_spec spec = support_spec(others[i]);
        cr_assert_eq(ffn_kernel_create(context, &spec, &served, &diag), FFN_OK, "%s", diag.text);
        cr_expect_eq(ffn_kernel_prepare(served, 1, &diag), FFN_UNSUPPORTED, "%s was found", others[i]);
        ffn_kernel_destroy(served);
    }
    ffn_context_destroy(context);
}

Test(emit_header, is_the_same_for_the_same_job_and_another_for_another) {
    ffn_bytes first, again, other;
    support_emitted_portable("net", NULL, support_emitted_specs, 1, false, &first);
    support_emitted_portable("net", NULL, support_emitted_specs, 1, false, &again);
    support_emitted_portable("net", NULL, support_emitted_specs + 1, 1, false, &other);
    support_file_write(support_path("first.h"), first.data, first.bytes);
    support_file_expect(support_path("first.h"), again.data, again.bytes, "header");
    const char *one = strstr(first.data, "_ID 0x"), *two = strstr(other.data, "_ID 0x");
    cr_assert(one && two);
    cr_expect(strncmp(one, two, 22) != 0, "the identities are equal");
    first.release(first.data);
    again.release(again.data);
    other.release(other.data);
}

static void refuse_job(emit_job job, const char *words) {
    ffn_bytes header = {.bytes = 77};
    ffn_diag diag = {0};
    cr_expect_eq(emit_header(&job, &header, &diag), FFN_BAD_ARGUMENT);
    cr_expect(strstr(diag.text, words), "%s", diag.text);
    cr_expect_eq(header.bytes, 77);
}

Test(emit_header, refuses_jobs_that_no_header_can_do) {
    emit_kernel kernel = {.spec = support_spec("d8-f8-relu"), .symbol = "net"};
    static const ffn_isa both[] = {FFN_ISA_AVX2, FFN_ISA_NEON}, none[] = {FFN_ISA_PORTABLE};
    const emit_job job = {.prefix = "net", .file = "net.h", .portable = true, .kernels = &kernel, .kernel_count = 1};
    emit_job wrong = job;
    wrong.portable = false;
    refuse_job(wrong, "ISA");
    wrong = job;
    wrong.kernel_count = 0;
    refuse_job(wrong, "spec");
    wrong = job;
    wrong.isas = both;
    wrong.isa_count = 2;
    refuse_job(wrong, "two architectures");
    wrong.isas = none;
    wrong.isa_count = 1;
    refuse_job(wrong, "no generated code");
}
