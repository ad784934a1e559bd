/* Activations as C text, compiled as a user's program may be: the bits of the portable kernel. */
#include "support_formula.h" /* before text.h: parameters of it are called text */

#include "emit_template.h"
#include "support_emitted.h"
#include "support_files.h"

#include <stdio.h>

enum { COUNT_DENSE = 1 << 16, COUNT_HOSTILE = 1 << 16, COUNT = COUNT_DENSE + COUNT_HOSTILE };

static const char *const formulas[] = {
    "act(x*x-1)",
    "act(x*x+x*x*x)",
    "act(1-x*x)",
    "act(fma(x,x,-1))",
    "act(sqrt(x)+sqrt(abs(x)))",
    "act(-x/3+0)",
    "act(select(x==0,1/0,select(x!=x,2,x/7)))",
    "act(select(x<=1,x,select(x>=3,-x,1e-40)))",
    "act(clamp(x,-1,1)*1e-39)",
    "act(3)",
    "gated(g*u+g)",
    "gated(g*u-u*u)",
    "gated(max(g,u)*min(g,u)-fma(g,u,-g))",
    "gated(u)",
    "gated(fma(g,u,281475010265088))",
    "act(exp(x)-expm1(x)+log(abs(x))*log1p(abs(x)))",
    "act(erf(x)+erfc(x)-tanh(x)*softplus(x))",
    "gated(sigmoid(g)*erfc(u))",
    "leaky_relu(2.5)",
    "leaky_relu(-1)",
    "swish(0.001)",
    "elu(-3)",
    "swiglu_oai(1.5,5)",
};
enum { FORMULAS = sizeof formulas / sizeof *formulas, BUILT_IN_MAX = 64 };

static const char *activations[FORMULAS + BUILT_IN_MAX];
static int32_t activation_count;

static void list_activations(void) {
    activation_count = 0;
    for (size_t i = 0; ffn_activation_at(i) != NULL; i++)
        activations[activation_count++] = ffn_activation_at(i)->name;
    for (size_t i = 0; i < FORMULAS; i++)
        activations[activation_count++] = formulas[i];
}

static void setup(void) {
    support_folder_make();
    list_activations();
}

/* All functions of templates/header/numbers.in, and f<i>, each over an array. */
static void write_program(text *to) {
    static const emit_value values[] = {{"P", "t"}, {"PU", "T"}};
    ffn_diag diag = {0};
    text_put(to, "#include <stddef.h>\n#include <stdint.h>\n#define T__PRIVATE static __attribute__((unused))\n"
                 "#define T__OPAQUE(v) __asm__(\"\" : \"+r\"(v))\n"
                 "#if defined(__aarch64__)\n#define T__OPAQUE_FLOAT(v) __asm__(\"\" : \"+w\"(v))\n#else\n"
                 "#define T__OPAQUE_FLOAT(v) __asm__(\"\" : \"+x\"(v))\n#endif\n"
                 "#ifdef __cplusplus\nextern \"C\" {\n#endif\n");
    cr_assert_eq(emit_template("numbers.in", values, 2, to, &diag), FFN_OK, "%s", diag.text);
    for (int32_t i = 0; i < activation_count; i++) {
        formula_graph *graph = graph_of(activations[i]);
        text_print(to, "static float act%d(float %s) {\n", i, graph->gated ? "g, float u" : "x");
        emit_formula(graph, "t", to);
        text_print(to,
                   "}\nvoid f_%d(int64_t count, const float *g, const float *u, float *out);\n"
                   "void f_%d(int64_t count, const float *g, const float *u, float *out) {\n    (void)u;\n"
                   "    for (int64_t i = 0; i < count; i++)\n        out[i] = act%d(g[i]%s);\n}\n",
                   i, i, i, graph->gated ? ", u[i]" : "");
        free(graph);
    }
    text_put(to, "#ifdef __cplusplus\n}\n#endif\n");
    cr_assert(!to->failed);
}

/* Evenly over all bit patterns, then hostile ones; last two whose product brings 2^48 + 2^25 so near to the middle of
 * two floats that double precision cannot tell. */
static void fill_inputs(float *g, float *u) {
    uint64_t state = 4711;
    for (uint32_t i = 0; i < COUNT_DENSE; i++) {
        g[i] = float_of(i << 16 | i * 40503u >> 16);
        u[i] = float_of(random_word(&state));
    }
    fill_values(&state, g + COUNT_DENSE, COUNT_HOSTILE);
    for (int32_t i = COUNT_DENSE; i < COUNT; i += 64) /* every special g meets every special u sooner or later */
        fill_values(&state, u + i, 64);
    for (int32_t i = 1; i <= 2; i++) {
        g[COUNT - i] = i == 1 ? 0x1.000002p12f : -0x1.000002p12f;
        u[COUNT - i] = 0x1.fffffcp11f;
    }
}

static void expect_bits(const char *command, const char *file) {
    static float g[COUNT], u[COUNT], want[COUNT], got[COUNT];
    text program = {0};
    write_program(&program);
    void *object = support_emitted_load(command, file, program.data, program.bytes);
    text_free(&program);
    fill_inputs(g, u);
    for (int32_t i = 0; i < activation_count; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        void (*emitted)(int64_t count, const float *g, const float *u, float *out);
        *(void **)(void *)&emitted = support_emitted_symbol(object, "f", name);
        formula_graph *graph = graph_of(activations[i]);
        formula_eval(graph, COUNT, g, graph->gated ? u : NULL, want);
        free(graph);
        emitted(COUNT, g, u, got);
        int32_t k = 0;
        while (k < COUNT && same_bits(want[k], got[k]))
            k++;
        cr_expect(k == COUNT, "%s: %s at (%a, %a) is %a, right is %a", command, activations[i], (double)g[k % COUNT],
                  (double)u[k % COUNT], (double)got[k % COUNT], (double)want[k % COUNT]);
    }
}

TestSuite(emit_formula, .init = setup, .fini = support_folder_remove);

Test(emit_formula, has_the_bits_of_the_graph_where_gcc_fuses) {
    expect_bits("cc -O2 -std=gnu17 -march=native -ffp-contract=fast", "fused.c");
}

Test(emit_formula, has_the_bits_of_the_graph_without_an_fma_unit) {
    expect_bits("cc -O3 -std=c99", "soft.c");
    expect_bits("cc -O0 -std=c99", "slow.c");
}

Test(emit_formula, has_the_bits_of_the_graph_by_clang) {
    if (!support_emitted_has("clang"))
        cr_skip("no clang");
    expect_bits("clang -O2 -std=gnu17 -march=native -ffp-contract=fast", "clang.c");
    expect_bits("clang -O3 -std=c99", "clang_soft.c");
    /* of which no macro tells: gcc's is an #error of the header */
    expect_bits("clang -O3 -funsafe-math-optimizations", "clang_unsafe.c");
    expect_bits("clang -O3 -fassociative-math -fno-signed-zeros -fno-trapping-math -mfma", "clang_associative.c");
}

Test(emit_formula, has_the_bits_of_the_graph_in_cxx) {
    if (!support_emitted_has("c++"))
        cr_skip("no C++ compiler");
    expect_bits("c++ -x c++ -O2 -std=gnu++17 -march=native", "cxx.cc");
}
