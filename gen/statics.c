/* statics.c: see statics.h
 *
 * libLLVM calls __cxa_atexit through a slot of its own, which the dynamic linker has filled; here it is filled anew.
 * Its load is what lies between the first and the last of its initialisers, so both are replaced too, by functions that
 * call them. */
#define _GNU_SOURCE
#include "statics.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <llvm-c/Core.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef void (*initialiser)(int count, char **arguments, char **environment);
typedef _Atomic(uintptr_t) slot; /* holds the address of a function */

int __cxa_atexit(void (*destroy)(void *), void *object, void *library);

static bool (*is_in_build)(void);
static _Thread_local __attribute__((tls_model("initial-exec"))) bool is_in_load;
static initialiser first_initialiser, last_initialiser;

static int register_unless_kept(void (*destroy)(void *), void *object, void *library) {
    return is_in_load || is_in_build() ? 0 : __cxa_atexit(destroy, object, library);
}

static void initialise_first(int count, char **arguments, char **environment) {
    is_in_load = true;
    first_initialiser(count, arguments, environment);
}

static void initialise_last(int count, char **arguments, char **environment) {
    last_initialiser(count, arguments, environment);
    is_in_load = false;
}

typedef struct library {
    uintptr_t base;
    uintptr_t constant, constant_end; /* read-only once it was relocated */
    const ElfW(Dyn) * dynamic;
} library;

/* For dl_iterate_phdr: ends the walk at the library that LLVM's functions are in. */
static int find_llvm(struct dl_phdr_info *info, size_t size, void *found) {
    (void)size;
    LLVMContextRef (*function)(void) = LLVMContextCreate;
    uintptr_t inside = (uintptr_t)function;
    library l = {.base = info->dlpi_addr};
    int is_llvm = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t begin = l.base + p->p_vaddr;
        if (p->p_type == PT_LOAD && inside - begin < p->p_memsz)
            is_llvm = 1;
        if (p->p_type == PT_DYNAMIC)
            l.dynamic = (const void *)begin;
        if (p->p_type == PT_GNU_RELRO) {
            l.constant = begin;
            l.constant_end = (begin + p->p_memsz) & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1); /* as it was protected */
        }
    }
    if (is_llvm)
        *(library *)found = l;
    return is_llvm;
}

/* An address of the dynamic section, which some dynamic linkers relocate in place and others do not. */
static const void *address(const library *l, ElfW(Xword) tag) {
    for (const ElfW(Dyn) *d = l->dynamic; d->d_tag != DT_NULL; d++)
        if ((ElfW(Xword))d->d_tag == tag)
            return (const void *)(d->d_un.d_ptr < l->base ? l->base + d->d_un.d_ptr : d->d_un.d_ptr);
    return NULL;
}

static size_t number(const library *l, ElfW(Xword) tag) {
    for (const ElfW(Dyn) *d = l->dynamic; d->d_tag != DT_NULL; d++)
        if ((ElfW(Xword))d->d_tag == tag)
            return d->d_un.d_val;
    return 0;
}

/* strcmp may be replaced by a library that is not ready yet, when we run before all others. */
static bool is_registration(const char *name) {
    const char *own = "__cxa_atexit";
    while (*own && *own == *name)
        own++, name++;
    return *own == *name;
}

/* The slot of one table that stands for __cxa_atexit, or NULL. */
static slot *find_slot(const library *l, ElfW(Xword) table, ElfW(Xword) table_bytes) {
    const ElfW(Rela) *r = address(l, table);
    const ElfW(Sym) *symbols = address(l, DT_SYMTAB);
    const char *names = address(l, DT_STRTAB);
    for (size_t i = 0; r && symbols && names && i < number(l, table_bytes) / sizeof *r; i++) {
        size_t symbol = ELF64_R_SYM(r[i].r_info);
        if (symbol && is_registration(names + symbols[symbol].st_name))
            return (void *)(l->base + r[i].r_offset);
    }
    return NULL;
}

/* False, and all as it was, if the slot cannot be written. */
static bool fill(const library *l, slot *s, uintptr_t function) {
    uintptr_t at = (uintptr_t)s, page = at & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
    size_t bytes = at + sizeof *s - page;
    bool constant = at >= l->constant && at < l->constant_end;
    if (constant && mprotect((void *)page, bytes, PROT_READ | PROT_WRITE) != 0)
        return false;
    atomic_store(s, function);
    if (constant)
        mprotect((void *)page, bytes, PROT_READ);
    return true;
}

/* If libLLVM was initialised before, nobody reads these slots any more. The last one is filled first: what begins must
 * end. */
static void watch_load(const library *l) {
    slot *initialisers = (slot *)(l->base + number(l, DT_INIT_ARRAY)); /* which no dynamic linker relocates in place */
    size_t count = number(l, DT_INIT_ARRAYSZ) / sizeof *initialisers;
    if (count < 2)
        return;
    first_initialiser = (initialiser)atomic_load(initialisers);
    last_initialiser = (initialiser)atomic_load(initialisers + count - 1);
    if (fill(l, initialisers + count - 1, (uintptr_t)initialise_last))
        fill(l, initialisers, (uintptr_t)initialise_first);
}

bool statics_keep(bool (*in_build)(void)) {
    library l = {0};
    int (*walk)(int (*)(struct dl_phdr_info *, size_t, void *), void *); /* libc's own, as calls.c has its function */
    *(void **)&walk = dlsym(RTLD_NEXT, "dl_iterate_phdr");
    if (!walk || !walk(find_llvm, &l) || !l.dynamic)
        return false;
    slot *s = find_slot(&l, DT_JMPREL, DT_PLTRELSZ);
    s = s ? s : find_slot(&l, DT_RELA, DT_RELASZ);
    is_in_build = in_build;
    if (!s || !fill(&l, s, (uintptr_t)register_unless_kept))
        return false;
    watch_load(&l);
    return true;
}
