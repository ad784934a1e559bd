/* support_emitted.h: specs -> an emitted header, compiled into a shared object that the test loads
 *
 * Structs of a header have the layout of those of ffn.h, so tests hand it ffn_args and ffn_weights. What cannot be had
 * ends the test with a message. Files go to the test's own folder (support_files.h). */
#ifndef SUPPORT_EMITTED_H
#define SUPPORT_EMITTED_H

#include "emit.h"

/* C text -> file `name` in the test's folder, compiled by `command` (a compiler with its flags) into a shared object
 * that needs nothing, not even a C library; loaded. */
void *support_emitted_load(const char *command, const char *name, const void *source, size_t bytes);
/* What dlsym finds under <prefix>_<name>. */
void *support_emitted_symbol(void *object, const char *prefix, const char *name);
/* False where there is no such program. */
bool support_emitted_has(const char *program);

/* A header "test.h" with the portable kernel alone. `names` may be NULL where there is one spec. */
void support_emitted_portable(const char *prefix, const char *const *names, const char *const *specs, int32_t count,
                              bool is_static, ffn_bytes *header);

/* The functions of one spec of a header. */
typedef struct support_emitted {
    int (*pack)(const ffn_weights *weights, void *packed, size_t packed_bytes);
    int (*check)(const void *packed, size_t packed_bytes);
    int (*run)(const ffn_args *args);
    int (*run_rows)(const ffn_args *args, int64_t row_begin, int64_t row_end);
    int (*expand)(const ffn_args *args, float *hidden, int64_t col_begin, int64_t col_end);
    int (*contract)(const ffn_args *args, const float *hidden, int64_t col_begin, int64_t col_end);
    int (*activate)(int64_t n, int64_t count, const float *g, const float *u, float *out);
    int (*supported)(void);
    const char *(*describe)(int64_t n);
} support_emitted;
void support_emitted_functions(void *object, const char *prefix, support_emitted *functions);

/* Chains 1, 2 and 4 in either stage; panels cut and whole; gated or not; each bias alone. */
enum { SUPPORT_EMITTED_SPECS = 12 };
extern const char *const support_emitted_specs[SUPPORT_EMITTED_SPECS],
    *const support_emitted_names[SUPPORT_EMITTED_SPECS];

#define CC "cc -x c -DNET_IMPLEMENTATION "

/* The header "net" of these specs, or of one without a name (`names` NULL), as an object made by `command`. */
void *support_emitted_net(const char *command, const char *file, const char *const *names, const char *const *specs,
                          int32_t count);
/* That of support_emitted_specs, and its functions. */
void *support_emitted_all(const char *command, const char *file, support_emitted functions[SUPPORT_EMITTED_SPECS]);

/* libffn's portable kernels, to compare with. */
ffn_context *support_emitted_context(void);
ffn_kernel *support_emitted_kernel(ffn_context *context, const ffn_spec *spec);

#endif
