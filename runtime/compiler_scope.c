/* compiler_scope.c: see compiler_scope.h
 *
 * RTLD_LOCAL keeps libffngen's names from the program. The other direction is the linker's search order: what the
 * program and its libraries show globally comes first. A libLLVM with symbol versions, as LLVM builds them, is not
 * taken for one of another version; a program that has LLVM inside and exports its names without versions is, and
 * RTLD_DEEPBIND then puts libffngen's own libraries first. But it puts libc first too: where a program brings its own
 * malloc, libLLVM would free by one what the other allocated. So it is used where another LLVM is seen, and only if
 * the allocator is the system's. */
#define _GNU_SOURCE
#include "compiler_scope.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/stat.h>

#include "diag.h"

/* Of LLVM's C API, and of what its C++ calls while it is loaded. */
static const char *const llvm_names[] = {"LLVMContextCreate", "_ZN4llvm11LLVMContextC1Ev",
                                         "_ZN4llvm2cl6Option11addArgumentEv"};

/* Functions that come in pairs across libraries, and one of the same library that nobody replaces. */
static const struct {
    const char *name, *neighbour;
} allocator_names[] = {{"malloc", "gnu_get_libc_version"},
                       {"free", "gnu_get_libc_version"},
                       {"_Znwm", "_ZSt15get_new_handlerv"},
                       {"_ZdlPv", "_ZSt15get_new_handlerv"}};

/* The object that shows `name` to everybody; false if none does. */
static bool shown_by(const char *name, Dl_info *object) {
    void *symbol = dlsym(RTLD_DEFAULT, name);
    return symbol && dladdr(symbol, object) != 0;
}

static bool same_file(const char *a, const char *b) {
    struct stat a_stat, b_stat;
    return stat(a, &a_stat) == 0 && stat(b, &b_stat) == 0 && a_stat.st_dev == b_stat.st_dev &&
           a_stat.st_ino == b_stat.st_ino;
}

ffn_status compiler_scope_check(ffn_diag *diag) {
    const ElfW(Phdr) *header = (const void *)getauxval(AT_PHDR);
    for (size_t i = 0, count = getauxval(AT_PHNUM); header && i < count; i++)
        if (header[i].p_type == PT_INTERP)
            return FFN_OK;
    return diag_fail(diag, FFN_UNSUPPORTED, "libffngen: a static program cannot load a compiler; link it dynamically");
}

ffn_status compiler_scope_mode(const char *libllvm, int *mode, ffn_diag *diag) {
    *mode = RTLD_NOW | RTLD_LOCAL;
    Dl_info llvm = {0}, object, neighbour;
    bool other = false;
    for (size_t i = 0; i < sizeof llvm_names / sizeof *llvm_names && !other; i++)
        other = shown_by(llvm_names[i], &llvm) && !same_file(llvm.dli_fname, libllvm);
    if (!other)
        return FFN_OK;
    for (size_t i = 0; i < sizeof allocator_names / sizeof *allocator_names; i++)
        if (shown_by(allocator_names[i].name, &object) &&
            !(shown_by(allocator_names[i].neighbour, &neighbour) && neighbour.dli_fbase == object.dli_fbase))
            return diag_fail(diag, FFN_UNSUPPORTED,
                             "libffngen: %s shows another LLVM to the whole process and %s replaces %s: libffngen's "
                             "LLVM cannot be kept apart from both; load the other one with RTLD_LOCAL",
                             llvm.dli_fname, object.dli_fname, allocator_names[i].name);
#ifdef RTLD_DEEPBIND
    *mode |= RTLD_DEEPBIND;
    return FFN_OK;
#else
    return diag_fail(diag, FFN_UNSUPPORTED, "libffngen: %s shows another LLVM to the whole process", llvm.dli_fname);
#endif
}
