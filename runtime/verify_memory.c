/* verify_memory.c: a number of bytes -> zeros that cost page faults at most, not memory
 *
 * Invariant: [begin, begin + bytes) reads as zero where nothing was written, and what is written is seen at that one
 * place.
 *
 * What costs time is the number of pages, not of bytes. Where the kernel has a huge zero page, that is the background:
 * one page table entry for 2 MiB. Writing into that would take 2 MiB of memory, so the entry is first split into small
 * pages by giving one of them back.
 *
 * Not every kernel has it: it may be switched off (use_zero_page), huge pages may be, and kernels of some virtual
 * machines have no zero page of any size, so that every read takes memory, whatever is advised. So it is looked
 * for, where the block begins. Without it, one huge page of a file in memory is the background of the whole block,
 * mapped privately 2 MiB by 2 MiB; where something is written, the kernel copies a small page. That page is counted
 * as resident wherever it is mapped, in RSS but not in PSS, and is there once. MADV_COLLAPSE (Linux 6.1) makes it huge
 * whatever the setting for such files is; else it is 512 small ones, which are mapped 16 at a time.
 *
 * Measured, 704 MB, map and read once, ms. With a huge zero page (Zen 3): small zero pages 145, huge ones with half of
 * them split 12. Without any (Zen 5, virtual machine, each entry of a page table costs 0.7 us beside its fault):
 *
 *      private huge pages, or small ones                        1830 the first time, then 52; 2700 to 3500
 *      MADV_POPULATE_READ of small pages, /dev/zero populated   1350, 1200
 *      a file's small pages: as they are read; populated before 220; 200
 *      a file's huge page; with 128 of its 352 places split     17; 64
 */
#define _GNU_SOURCE
#include "verify_memory.h"

#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "diag.h"

#define HUGE_BYTES ((size_t)2 << 20)
#define SMALL_BYTES 4096
#define PLACES_MAX 8192 /* mappings of one block; a process may have 65530 by default */
#define SHARED_BYTES_MAX (HUGE_BYTES << 4)

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* newer than some C libraries; EINVAL from older kernels */
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

static char *huge_begin(const void *at) {
    return (char *)((uintptr_t)at & ~(uintptr_t)(HUGE_BYTES - 1));
}

static char *huge_end(const void *at) {
    return (char *)(((uintptr_t)at + HUGE_BYTES - 1) & ~(uintptr_t)(HUGE_BYTES - 1));
}

static char *later(char *a, char *b) {
    return a > b ? a : b;
}

static void settle(verify_memory *memory, char *end) {
    memory->settled = later(memory->settled, end);
}

static bool map_private(void *at, size_t bytes) {
    return mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) !=
           MAP_FAILED;
}

/* Whether a read of one byte has mapped the pages around it, none of them memory of this process. In a line of pagemap
 * bit 63 says that a page is present, 61 that it is no anonymous one, 56 that it is mapped once. Taken to be so where
 * that cannot be read: only speed is at stake. */
static bool reads_huge_zero(const char *at) {
    (void)*(const volatile char *)at;
    const int pages = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (pages < 0) {
        return true;
    }
    uint64_t entries[2];
    const off_t where = (off_t)((uintptr_t)at / SMALL_BYTES * sizeof *entries);
    const bool known = pread(pages, entries, sizeof entries, where) == (ssize_t)sizeof entries;
    close(pages);
    bool zero = true;
    for (int i = 0; i < 2 && known; ++i) {
        const bool present = (entries[i] >> 63 & 1) != 0;
        const bool own = (entries[i] >> 56 & 1) != 0 && (entries[i] >> 61 & 1) == 0;
        zero = zero && present && !own;
    }
    return zero;
}

/* A file in memory, as one huge page where that can be had; -1 if there is none. */
static int shared_file(size_t bytes) {
    int file = -1;
#ifdef MFD_CLOEXEC
    file = memfd_create("zeros", MFD_CLOEXEC | MFD_NOEXEC_SEAL); /* some systems insist on the second */
    file = file < 0 ? memfd_create("zeros", MFD_CLOEXEC) : file;
    if (file >= 0 && ftruncate(file, (off_t)bytes) != 0) {
        close(file);
        return -1;
    }
#endif
    return file;
}

/* Through one place, before there are others: there must be a page for it to be made huge. */
static void make_huge(char *place, size_t bytes, int file) {
    if (mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED) {
        return;
    }
    for (size_t i = 0; i < bytes; i += HUGE_BYTES) {
        *(volatile char *)(place + i) = 0;
    }
    madvise(place, bytes, MADV_COLLAPSE);
}

ffn_status verify_memory_share(verify_memory *memory, ffn_diag *diag) {
    const size_t room = (size_t)(huge_end(memory->begin + memory->bytes) - memory->begin);
    const size_t unit = (room / HUGE_BYTES / PLACES_MAX + 1) * HUGE_BYTES;
    const int file = unit <= SHARED_BYTES_MAX ? shared_file(unit) : -1;
    if (file < 0) {
        return FFN_OK;
    }
    make_huge(memory->begin, unit < room ? unit : room, file);
    bool mapped = true;
    for (size_t i = 0; i < room && mapped; i += unit) {
        mapped = mmap(memory->begin + i, unit < room - i ? unit : room - i, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, file, 0) != MAP_FAILED;
    }
    close(file);
    if (mapped) {
        memory->background = VERIFY_SHARED;
    } else if (!map_private(memory->begin, room)) {
        verify_memory_free(memory);
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "verification: %zu bytes of address space", room);
    }
    return FFN_OK;
}

ffn_status verify_memory_make(size_t bytes, bool sparse, verify_memory *memory, ffn_diag *diag) {
    verify_memory made = {.bytes = bytes, .mapping_bytes = bytes + 2 * HUGE_BYTES};
    made.mapping =
        mmap(NULL, made.mapping_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made.mapping == MAP_FAILED) {
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "verification: %zu bytes of address space", made.mapping_bytes);
    }
    made.begin = huge_end(made.mapping);
    made.settled = made.begin;
    const bool small_pages = sysconf(_SC_PAGESIZE) == SMALL_BYTES;
    const size_t room = (size_t)(huge_end(made.begin + bytes) - made.begin);
    const bool huge = small_pages && madvise(made.begin, room, MADV_HUGEPAGE) == 0;
    ffn_status status = FFN_OK;
    if (sparse && huge && reads_huge_zero(made.begin)) {
        made.background = VERIFY_HUGE_ZERO;
    } else if (sparse && small_pages) {
        status = verify_memory_share(&made, diag);
    }
    if (status == FFN_OK) {
        *memory = made;
    }
    return status;
}

void verify_memory_free(verify_memory *memory) {
    munmap(memory->mapping, memory->mapping_bytes);
}

/* A huge page is split once, before anything is in it. */
void verify_memory_dot(verify_memory *memory, const void *at, size_t bytes) {
    char *end = huge_end((const char *)at + bytes);
    char *page = later(huge_begin(at), memory->settled);
    for (; memory->background == VERIFY_HUGE_ZERO && page < end; page += HUGE_BYTES) {
        (void)*(volatile char *)page;
        madvise(page, SMALL_BYTES, MADV_DONTNEED);
    }
    settle(memory, end);
}

/* Huge pages of its own where nothing is yet: fewer faults than there are small ones. */
void verify_memory_fill(verify_memory *memory, const void *at, size_t bytes) {
    char *end = huge_end((const char *)at + bytes);
    char *page = later(huge_begin(at), memory->settled);
    if (memory->background == VERIFY_SHARED && page < end && map_private(page, (size_t)(end - page))) {
        madvise(page, (size_t)(end - page), MADV_HUGEPAGE);
    }
    settle(memory, end);
}
