/* support_emitted.c: emitted headers for tests */
#include "support_emitted.h"

#include "support_data.h"
#include "support_files.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *support_emitted_load(const char *command, const char *name, const void *source, size_t bytes) {
    char line[4096], file[256];
    snprintf(file, sizeof file, "%s.so", name);
    const char *from = support_path(name), *to = support_path(file);
    support_file_write(from, source, bytes);
    snprintf(line, sizeof line, "%s -w -shared -fPIC -nostdlib -Wl,-z,defs -o '%s' '%s'", command, to, from);
    cr_assert_eq(system(line), 0, "%s", line);
    void *object = dlopen(to, RTLD_NOW | RTLD_LOCAL);
    cr_assert(object, "%s", dlerror());
    return object;
}

void *support_emitted_symbol(void *object, const char *prefix, const char *name) {
    char symbol[256];
    snprintf(symbol, sizeof symbol, "%s_%s", prefix, name);
    void *found = dlsym(object, symbol);
    cr_assert(found, "no symbol %s", symbol);
    return found;
}

bool support_emitted_has(const char *program) {
    char line[256];
    snprintf(line, sizeof line, "command -v %s >/dev/null 2>&1", program);
    return system(line) == 0;
}

void support_emitted_portable(const char *prefix, const char *const *names, const char *const *specs, int32_t count,
                              bool is_static, ffn_bytes *header) {
    emit_kernel *kernels = calloc((size_t)count, sizeof *kernels);
    cr_assert(kernels);
    for (int32_t i = 0; i < count; i++) {
        kernels[i].spec = support_spec(specs[i]);
        snprintf(kernels[i].symbol, sizeof kernels[i].symbol, "%s%s%s", prefix, names ? "_" : "",
                 names ? names[i] : "");
    }
    const emit_job job = {.prefix = prefix,
                          .file = "test.h",
                          .portable = true,
                          .is_static = is_static,
                          .kernels = kernels,
                          .kernel_count = count};
    ffn_diag diag = {0};
    cr_assert_eq(emit_header(&job, header, &diag), FFN_OK, "%s", diag.text);
    free(kernels);
}

void support_emitted_functions(void *object, const char *prefix, support_emitted *functions) {
    const struct {
        const char *name;
        void *to;
    } rows[] = {
        {"pack", &functions->pack},         {"check", &functions->check},         {"run", &functions->run},
        {"run_rows", &functions->run_rows}, {"expand", &functions->expand},       {"contract", &functions->contract},
        {"activate", &functions->activate}, {"supported", &functions->supported}, {"describe", &functions->describe},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *found = support_emitted_symbol(object, prefix, rows[i].name);
        memcpy(rows[i].to, &found, sizeof found);
    }
}

const char *const support_emitted_specs[SUPPORT_EMITTED_SPECS] = {
    "d80-f100-gelu-bias",
    "d20-f24-silu-bias",
    "d40-f90-relu-bias_down",
    "d70-f50-tanh-bias_up",
    "d33-f17-swiglu",
    "d66-f65-geglu_tanh-bias",
    "d1-f1-swiglu_oai-bias",
    "d16-f64-glu-bias_gate",
    "d5-f130-leaky_relu(0.3)",
    "d48-f32-act(x*x-sqrt(abs(x))/3)",
    "d12-f40-bias-gated(max(g,-1)*u+u)",
    "d64-f16-identity",
};
const char *const support_emitted_names[SUPPORT_EMITTED_SPECS] = {"a", "b", "c", "d", "e", "f",
                                                                  "g", "h", "i", "j", "k", "l"};

void *support_emitted_net(const char *command, const char *file, const char *const *names, const char *const *specs,
                          int32_t count) {
    ffn_bytes header;
    support_emitted_portable("net", names, specs, count, false, &header);
    void *object = support_emitted_load(command, file, header.data, header.bytes);
    header.release(header.data);
    return object;
}

void *support_emitted_all(const char *command, const char *file, support_emitted functions[SUPPORT_EMITTED_SPECS]) {
    void *object =
        support_emitted_net(command, file, support_emitted_names, support_emitted_specs, SUPPORT_EMITTED_SPECS);
    for (int32_t i = 0; i < SUPPORT_EMITTED_SPECS; i++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "net_%s", support_emitted_names[i]);
        support_emitted_functions(object, prefix, &functions[i]);
    }
    return object;
}

ffn_kernel *support_emitted_kernel(ffn_context *context, const ffn_spec *spec) {
    ffn_kernel *kernel;
    cr_assert_eq(ffn_kernel_create(context, spec, &kernel, NULL), FFN_OK);
    return kernel;
}

ffn_context *support_emitted_context(void) {
    const ffn_options options = {.isa = FFN_ISA_PORTABLE, .compiler = "", .store = ""};
    ffn_context *context;
    cr_assert_eq(ffn_context_create(&options, &context, NULL), FFN_OK);
    return context;
}
