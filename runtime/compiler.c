/* compiler.c: the file of libffngen -> its name for images without loading it, then its source
 *
 * No lock is taken: two threads that load at once both ask the dynamic linker, which serialises them, and publish the
 * same source; two that read the identity publish equal lines. What was published never changes. */
#define _GNU_SOURCE
#include "compiler.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler_find.h"
#include "compiler_id.h"
#include "compiler_scope.h"
#include "diag.h"
#include "inflight.h"
#include "stack.h"

/* Address space that libLLVM's own needs and its constructors take beside the file itself. */
#define LOAD_EXTRA_BYTES ((size_t)192 << 20)

struct compiler {
    char *path; /* NULL: looked for */
    _Atomic(char *) identity;
    atomic_bool remarked; /* that there is no identity */
    _Atomic(const ffn_source *) source;
};

static inflight loads; /* of the whole process: the dynamic linker is one */

/* Where the current folder cannot be told a relative path stays one, which is never found. */
static char *make_absolute(const char *path) {
    char *here = *path && *path != '/' ? getcwd(NULL, 0) : NULL;
    if (!here)
        return *path && *path != '/' && errno == ENOMEM ? NULL : strdup(path);
    char *absolute = malloc(strlen(here) + strlen(path) + 2);
    if (absolute)
        sprintf(absolute, "%s/%s", here, path);
    free(here);
    return absolute;
}

compiler *compiler_create(const char *path) {
    compiler *c = calloc(1, sizeof *c);
    if (c && path && !(c->path = make_absolute(path))) {
        free(c);
        return NULL;
    }
    return c;
}

void compiler_destroy(compiler *c) {
    if (c) {
        free(atomic_load(&c->identity));
        free(c->path);
        free(c);
    }
}

static ffn_status read_id(const char *file, compiler_id *id, ffn_diag *diag) {
    char beside[PATH_MAX + sizeof COMPILER_ID_FILE];
    snprintf(beside, sizeof beside, "%.*s" COMPILER_ID_FILE, (int)(strrchr(file, '/') + 1 - file), file);
    return compiler_id_read(beside, id, diag);
}

/* The first line published stays: images are kept under it. */
static ffn_status publish_identity(compiler *c, const compiler_id *id, ffn_diag *diag) {
    char line[COMPILER_ID_BYTES], *known = NULL, *made;
    if (!compiler_id_line(id, line))
        return diag_fail(diag, FFN_SYSTEM, COMPILER_ID_FILE ": the libLLVM that it names is not there: %s",
                         id->libllvm);
    if (!(made = strdup(line)))
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "libffngen: no memory for its name");
    if (!atomic_compare_exchange_strong(&c->identity, &known, made))
        free(made);
    return FFN_OK;
}

const char *compiler_identity(compiler *c, ffn_diag *remark) {
    const char *known = atomic_load(&c->identity);
    char file[PATH_MAX];
    compiler_id id;
    if (known || (c->path && !*c->path) || !compiler_find(c->path, file))
        return known;
    ffn_diag why;
    ffn_status status = read_id(file, &id, &why);
    status = status ? status : publish_identity(c, &id, &why);
    if (status && remark && !atomic_exchange(&c->remarked, true))
        diag_fail(remark, FFN_OK, "disk store: not used, for the compiler's images have no name: %s", why.text);
    return atomic_load(&c->identity);
}

/* libLLVM's constructors end the process where memory runs out: better to find out before. */
static ffn_status check_room(const char *file, const compiler_id *id, ffn_diag *diag) {
    struct stat libllvm = {0};
    if (stat(id->libllvm, &libllvm) != 0)
        libllvm.st_size = 0;
    size_t bytes = (size_t)libllvm.st_size + LOAD_EXTRA_BYTES;
    void *room = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "%s: loading it needs %zu MiB of address space", file, bytes >> 20);
    munmap(room, bytes);
    return FFN_OK;
}

/* The library -> its source, once it has shown that it is the one that was asked for. */
static ffn_status open_source(compiler *c, const char *file, void *library, const ffn_source **source, ffn_diag *diag) {
    const char *(*version)(void);
    const ffn_source *(*get)(void);
    *(void **)&version = dlsym(library, "ffngen_version");
    *(void **)&get = dlsym(library, "ffngen_source");
    if (!version || !get)
        return diag_fail(diag, FFN_SYSTEM, "%s: not a libffngen of ffngen " FFN_VERSION ": it has no %s", file,
                         version ? "ffngen_source" : "ffngen_version");
    if (strcmp(version(), FFN_VERSION) != 0)
        return diag_fail(diag, FFN_SYSTEM, "%s: belongs to ffngen %s, this libffn to " FFN_VERSION, file, version());
    const ffn_source *found = get();
    const char *expected = atomic_load(&c->identity);
    if (expected && (!found->identity || strcmp(expected, found->identity) != 0))
        return diag_fail(diag, FFN_SYSTEM, "%s: " COMPILER_ID_FILE " beside it says \"%s\", the library \"%s\"", file,
                         expected, found->identity ? found->identity : "nothing");
    *source = found;
    return FFN_OK;
}

/* The linker would wait for who writes to a pipe. */
static ffn_status check_regular(const char *file, ffn_diag *diag) {
    struct stat found;
    if (stat(file, &found) != 0 || !S_ISREG(found.st_mode))
        return diag_fail(diag, FFN_SYSTEM, "libffngen: %s is not a regular file", file);
    return FFN_OK;
}

static ffn_status load(compiler *c, const ffn_source **source, ffn_diag *diag) {
    char file[PATH_MAX];
    ffn_status status = compiler_scope_check(diag);
    if (status)
        return status;
    if (!compiler_find(c->path, file))
        return diag_fail(diag, FFN_UNSUPPORTED, "libffngen: %s is not there; options.compiler can name its file", file);
    status = check_regular(file, diag);
    if (status)
        return status;
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (!library) {
        size_t left;
        if (!stack_has(STACK_NEEDED_BYTES, &left))
            return diag_fail(diag, FFN_COMPILE_FAILED, "libffngen: %zu KiB of this thread's stack are left, %zu needed",
                             left >> 10, STACK_NEEDED_BYTES >> 10);
        compiler_id id = {0};
        if (!read_id(file, &id, NULL))
            publish_identity(c, &id, NULL);
        int mode;
        status = check_room(file, &id, diag);
        status = status ? status : compiler_scope_mode(id.libllvm, &mode, diag);
        if (status)
            return status;
        library = dlopen(file, mode);
        if (!library)
            return diag_fail(diag, FFN_SYSTEM, "libffngen: %s", dlerror());
    }
    return open_source(c, file, library, source, diag);
}

ffn_status compiler_load(compiler *c, const ffn_source **source, ffn_diag *diag) {
    const ffn_source *known = atomic_load(&c->source);
    if (known) {
        *source = known;
        return FFN_OK;
    }
    if (c->path && !*c->path)
        return diag_fail(diag, FFN_UNSUPPORTED, "libffngen: options.compiler is \"\", which means none");
    if (!inflight_enter(&loads))
        return diag_fail(diag, FFN_COMPILE_FAILED,
                         "libffngen: this process was forked while another thread was loading it");
    ffn_status status = load(c, &known, diag);
    inflight_leave(&loads);
    if (status)
        return status;
    atomic_store(&c->source, known);
    *source = known;
    return FFN_OK;
}
