/* statics.c: see statics.h
 *
 * libLLVM calls __cxa_atexit through a slot of its own, which the dynamic linker has filled; here it is filled anew. */
#define _GNU_SOURCE
#include "statics.h"

#include <elf.h>
#include <link.h>
#include <llvm-c/Core.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef int (*register_function)(void (*destroy)(void *), void *object, void *library);

static bool (*is_in_build)(void);
static register_function libc_register;

static int register_unless_in_build(void (*destroy)(void *), void *object, void *library) {
    return is_in_build() ? 0 : libc_register(destroy, object, library);
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
            l.constant_end = begin + p->p_memsz;
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

/* The slot of one table that stands for __cxa_atexit, or NULL. */
static _Atomic(register_function) *find_slot(const library *l, ElfW(Xword) table, ElfW(Xword) table_bytes) {
    const ElfW(Rela) *r = address(l, table);
    const ElfW(Sym) *symbols = address(l, DT_SYMTAB);
    const char *names = address(l, DT_STRTAB);
    for (size_t i = 0; r && symbols && names && i < number(l, table_bytes) / sizeof *r; i++) {
        size_t symbol = ELF64_R_SYM(r[i].r_info);
        if (symbol && strcmp(names + symbols[symbol].st_name, "__cxa_atexit") == 0)
            return (void *)(l->base + r[i].r_offset);
    }
    return NULL;
}

void statics_keep(bool (*in_build)(void)) {
    library l = {0};
    if (!dl_iterate_phdr(find_llvm, &l) || !l.dynamic)
        return;
    _Atomic(register_function) *slot = find_slot(&l, DT_JMPREL, DT_PLTRELSZ);
    slot = slot ? slot : find_slot(&l, DT_RELA, DT_RELASZ);
    if (!slot)
        return;
    uintptr_t at = (uintptr_t)slot, page = at & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
    size_t bytes = at + sizeof *slot - page;
    bool constant = at >= l.constant && at < l.constant_end;
    if (constant && mprotect((void *)page, bytes, PROT_READ | PROT_WRITE) != 0)
        return;
    is_in_build = in_build;
    libc_register = atomic_load(slot);
    atomic_store(slot, register_unless_in_build);
    if (constant)
        mprotect((void *)page, bytes, PROT_READ);
}
