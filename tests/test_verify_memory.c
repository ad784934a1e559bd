/* test_verify_memory.c: memory of sampled blocks reads as zero but where it was written to, on each kind of background,
 * at little cost of memory, and leaves nothing behind */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <sys/resource.h>

#include "support_memory.h"
#include "verify_memory.h"

#define MIB ((size_t)1 << 20)

/* Sparse memory as it is made here, or shared whatever this kernel has. */
static void make(verify_memory *memory, size_t bytes, bool shared) {
    ffn_diag diag = {.status = FFN_OK};
    cr_assert_eq(verify_memory_make(bytes, !shared, memory, &diag), FFN_OK, "%s", diag.text);
    if (shared)
        cr_assert_eq(verify_memory_share(memory, &diag), FFN_OK, "%s", diag.text);
}

/* So that no two values are alike. */
static uint32_t value_at(const uint32_t *words, const uint32_t *word) {
    return (uint32_t)(word - words) | 1u << 31;
}

static void dot(verify_memory *memory, size_t byte) {
    uint32_t *words = (uint32_t *)(void *)memory->begin, *word = words + byte / sizeof *words;
    verify_memory_dot(memory, word, sizeof *word);
    *word = value_at(words, word);
}

static void fill(verify_memory *memory, size_t byte, size_t bytes) {
    uint32_t *words = (uint32_t *)(void *)memory->begin;
    verify_memory_fill(memory, words + byte / sizeof *words, bytes);
    for (size_t i = 0; i < bytes / sizeof *words; i++)
        words[byte / sizeof *words + i] = value_at(words, words + byte / sizeof *words + i);
}

/* Every word is zero or what was written to it; how many are not zero. */
static size_t count_written(const verify_memory *memory) {
    const uint32_t *words = (const uint32_t *)(const void *)memory->begin;
    size_t written = 0;
    for (size_t i = 0; i < memory->bytes / sizeof *words; i++) {
        cr_assert(words[i] == 0 || words[i] == value_at(words, words + i), "word %zu is %u", i, words[i]);
        written += words[i] != 0;
    }
    return written;
}

Test(verify_memory, what_is_written_is_seen_in_one_place) {
    for (int shared = 0; shared < 2; shared++) {
        verify_memory memory;
        make(&memory, 41 * MIB + 100, shared);
        cr_expect_eq(count_written(&memory), 0);
        dot(&memory, 0);
        dot(&memory, 8);
        fill(&memory, 4096, 3 * MIB); /* begins where something is, and ends inside a huge page */
        dot(&memory, 3 * MIB + 4096);
        dot(&memory, 5 * MIB);
        fill(&memory, 6 * MIB + 64, MIB);
        dot(&memory, 8 * MIB - 4);
        for (size_t at = 9 * MIB; at < 40 * MIB; at += 700 * 1024)
            dot(&memory, at);
        dot(&memory, 41 * MIB + 96);
        cr_expect_eq(count_written(&memory), 4 * MIB / 4 + 6 + (31 * 1024 + 699) / 700, "%zu", count_written(&memory));
        verify_memory_free(&memory);
    }
}

/* Where 2 MiB apiece would be too many mappings, each is longer; where those would be too long, nothing is shared. */
Test(verify_memory, of_any_size) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    printf("not tried: a sanitizer shadows address space\n");
    return;
#endif
    static const size_t gib[] = {15, 16, 48, 200, 300, 8192};
    bool can = false;
    for (size_t i = 0; i < sizeof gib / sizeof *gib; i++) {
        verify_memory memory;
        const size_t bytes = gib[i] * 1024 * MIB + 4;
        make(&memory, bytes, true);
        can = i == 0 ? memory.background == VERIFY_SHARED : can;
        cr_expect_eq(memory.background, can && gib[i] < 256 ? VERIFY_SHARED : VERIFY_PRIVATE, "%zu GiB", gib[i]);
        for (int k = 0; k < 40; k++)
            dot(&memory, (size_t)k * 2 * MIB);
        dot(&memory, bytes / 2 / 4096 * 4096);
        dot(&memory, bytes - 4);
        const uint32_t *words = (const uint32_t *)(void *)memory.begin;
        for (size_t k = 0; k < 200; k++) {
            const uint32_t *word = words + k * MIB / 4;
            cr_expect_eq(*word, k < 80 && k % 2 == 0 ? value_at(words, word) : 0, "%zu GiB, MiB %zu", gib[i], k);
        }
        cr_expect_eq(words[bytes / 4 - 1], value_at(words, words + bytes / 4 - 1));
        cr_expect_eq(words[bytes / 4 - 1025], 0);
        cr_expect_eq(words[bytes / 2 / 4096 * 1024], value_at(words, words + bytes / 2 / 4096 * 1024));
        verify_memory_free(&memory);
    }
}

Test(verify_memory, reading_takes_little) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    printf("memory: not measured, a sanitizer's own would be counted\n");
    return;
#endif
    for (int shared = 0; shared < 2; shared++) {
        verify_memory memory;
        const long before = support_memory_kib();
        make(&memory, 512 * MIB, shared);
        for (size_t at = 0; at < 512 * MIB; at += 3 * MIB) /* more than half of all huge pages */
            dot(&memory, at);
        cr_expect_eq(count_written(&memory), 171);
        const long more = support_memory_kib() - before;
        /* A page table of 4 KiB and at most 64 KiB of data for each; what a kernel without files in memory takes is its
         * own. */
        if (memory.background == VERIFY_PRIVATE)
            printf("this kernel cannot share memory: %ld KiB\n", more);
        else
            cr_expect_leq(more, 14 * 1024, "%ld KiB", more);
        verify_memory_free(&memory);
    }
}

static int open_files(void) {
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;
    while (folder != NULL && readdir(folder) != NULL)
        count++;
    if (folder != NULL)
        closedir(folder);
    return count;
}

Test(verify_memory, no_file_stays_open) {
    const int before = open_files();
    for (int i = 0; i < 20; i++) {
        verify_memory memory;
        make(&memory, 13 * MIB, i % 2);
        dot(&memory, 7 * MIB);
        verify_memory_free(&memory);
    }
    cr_expect_eq(open_files(), before);
}

/* A process with no descriptor left; Criterion needs one to say how it went. */
Test(verify_memory, needs_no_files) {
    struct rlimit files;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &files), 0);
    for (int shared = 0; shared < 2; shared++) {
        verify_memory memory;
        cr_assert_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, files.rlim_max}), 0);
        const ffn_status made = verify_memory_make(13 * MIB, !shared, &memory, NULL);
        const ffn_status then = made == FFN_OK && shared ? verify_memory_share(&memory, NULL) : made;
        cr_assert_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
        cr_assert_eq(then, FFN_OK);
        cr_expect_neq(memory.background, VERIFY_SHARED);
        dot(&memory, 7 * MIB);
        fill(&memory, 10 * MIB, 4096);
        cr_expect_eq(count_written(&memory), 1025);
        verify_memory_free(&memory);
    }
}
