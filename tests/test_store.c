/* test_store.c: what is kept is found again, by its own key alone; modes, use and limit of the folder */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "image.h"
#include "isa.h"
#include "store_entry.h"
#include "support_store.h"

TestSuite(store, .timeout = 120);

#define SPEC "d512-f2048-relu-bias"

/* An ISA of this architecture whose code this CPU runs, if there is one. */
static ffn_isa runnable(void) {
    ffn_isa best = ffn_isa_best();
    if (best == FFN_ISA_PORTABLE)
        cr_skip_test("no generated ISA here: nothing can be found in a store");
    return best;
}

static bool file_says(const char *folder, const char *line) {
    size_t bytes;
    unsigned char *file = support_read_file(support_store_path(folder, support_store_entry(folder)), &bytes);
    bool says = memmem(file, STORE_HEAD_BYTES, line, strlen(line)) != NULL;
    free(file);
    return says;
}

Test(store, what_is_kept_is_found_by_another_store) {
    store_case c;
    store_case_init(&c, SPEC, runnable(), FFN_N_1, 40960);
    const char *folder = support_store_path(support_store_scratch(), "a/b/ffngen");
    cr_expect_not(store_case_found(folder, &c));
    cr_expect_neq(access(folder, F_OK), 0, "looking made the folder");
    store_case_keep(folder, &c);
    cr_expect(store_case_found(folder, &c));
    cr_expect_eq(support_store_count(folder, ""), 1, "more than the entry is left");
    store_case_keep(folder, &c);
    cr_expect(store_case_found(folder, &c));
    cr_expect_eq(support_store_count(folder, ""), 1);
    store_case_free(&c);
}

Test(store, the_key_stands_in_the_file_as_text) {
    store_case c;
    const char *folder = support_store_scratch();
    store_case_init(&c, "d8-f16-act(x*sigmoid(1.702*x))", FFN_ISA_AVX2, FFN_N_17_UP, 4096);
    store_case_keep(folder, &c);
    char plan[512], line[600];
    cr_assert_eq(ffn_plan_format(&c.plan, plan, sizeof plan, NULL), FFN_OK);
    snprintf(line, sizeof line, "\nplan: %s\n", plan);
    const char *const lines[] = {
        "ffngen store entry 1\nspec: d8-f16-act(x*sigmoid(1.702*x))\nisa: avx2\nn: 17+\nplan: ", line,
        "\nneeds: avx2 fma ymm-state\n", "\ngenerator: generator 0123456789abcdef LLVM 19.1.7\n",
        "\npacked: 1\nimage: 4\nimage_bytes: 12288\nchecksum: "};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        cr_expect(file_says(folder, lines[i]), "%s", lines[i]);
    const char *name = support_store_entry(folder);
    cr_expect_eq(strncmp(name, "d8-f16-fx", 9), 0, "%s", name);
    cr_expect_not_null(strstr(name, ".avx2.17+."), "%s", name);
    store_case_free(&c);
}

Test(store, the_longest_spec_has_a_name_and_a_head) {
    char text[FFN_SPEC_TEXT_BYTES] = "d16777216-f1024-bias_up-bias_down-gated(";
    while (strlen(text) < 1000)
        strcat(text, "g*sigmoid(1.702*u)+");
    strcat(text, "u)");
    store_case c;
    const char *folder = support_store_scratch();
    store_case_init(&c, text, runnable(), FFN_N_5_16, 4096);
    store_case_keep(folder, &c);
    cr_expect(store_case_found(folder, &c));
    cr_expect(file_says(folder, "+g*sigmoid(1.702*u)+u)\nisa: "));
    store_case_free(&c);
}

Test(store, another_spec_plan_class_or_generator_is_a_miss) {
    ffn_isa isa = runnable();
    const char *folder = support_store_scratch();
    store_case kept, other;
    store_case_init(&kept, SPEC, isa, FFN_N_17_UP, 4096);
    store_case_keep(folder, &kept);
    static const char *const specs[] = {"d512-f2048-relu", "d512-f2049-relu-bias", "d512-f2048-gelu-bias",
                                        "d512-f2048-relu-bias_up", "d512-f2048-bias-act(max(x,0))"};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        store_case_init(&other, specs[i], isa, FFN_N_17_UP, 4096);
        cr_expect_not(store_case_found(folder, &other), "%s", specs[i]);
        store_case_free(&other);
    }
    store_case_init(&other, SPEC, isa, FFN_N_5_16, 4096);
    cr_expect_not(store_case_found(folder, &other), "another class");
    store_case_free(&other);
    static const char *const identities[] = {"generator 0123456789abcdee LLVM 19.1.7",
                                             "generator 0123456789abcdef LLVM 19.1.6",
                                             "generator 0123456789abcdef LLVM 19.1.7 ", "generator"};
    for (size_t i = 0; i < sizeof identities / sizeof *identities; i++) {
        store_case_init(&other, SPEC, isa, FFN_N_17_UP, 4096);
        other.key.identity = identities[i];
        cr_expect_not(store_case_found(folder, &other), "%s", identities[i]);
        store_case_free(&other);
    }
    for (int field = 0; field < 6; field++) {
        store_case_init(&other, SPEC, isa, FFN_N_17_UP, 4096);
        ffn_plan *p = &other.plan;
        p->m_block += field == 0;
        p->f_block += field == 1 ? 16 : 0;
        p->k_block += field == 2 ? 8 : 0;
        p->unroll += field == 3;
        p->prefetch += field == 4;
        p->tiles[0].mr -= field == 5;
        cr_expect_not(store_case_found(folder, &other), "field %d of the plan", field);
        store_case_free(&other);
    }
    cr_expect(store_case_found(folder, &kept), "the same again must hit");
    store_case_free(&kept);
}

/* A key whose file was made under another version, or for an ISA row that needed other features: the names may even be
 * the same. */
Test(store, another_version_layout_or_needed_feature_is_a_miss) {
    static const struct change {
        const char *from, *to;
    } changes[] = {{"ffngen store entry 1", "ffngen store entry 2"},
                   {"\npacked: 1", "\npacked: 2"},
                   {"\nimage: 4\n", "\nimage: 5\n"},
                   {"\nneeds: ", "\nneeds:?"},
                   {"LLVM 19.1.7", "LLVM 19.1.8"}};
    store_case c;
    const char *folder = support_store_scratch();
    store_case_init(&c, SPEC, runnable(), FFN_N_1, 4096);
    store_case_keep(folder, &c);
    char path[STORE_PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", folder, support_store_entry(folder));
    size_t bytes;
    unsigned char *file = support_read_file(path, &bytes);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        unsigned char *changed = malloc(bytes);
        memcpy(changed, file, bytes);
        char *at = memmem(changed, STORE_HEAD_BYTES, changes[i].from, strlen(changes[i].from));
        cr_assert_not_null(at, "%s", changes[i].from);
        memcpy(at, changes[i].to, strlen(changes[i].to));
        support_store_seal(changed, bytes);
        support_write_file(path, changed, bytes);
        cr_expect_not(store_case_found(folder, &c), "%s", changes[i].to);
        store_case_keep(folder, &c);
        cr_expect(store_case_found(folder, &c), "not replaced");
        free(changed);
    }
    support_store_seal(file, bytes);
    support_write_file(path, file, bytes);
    cr_expect(store_case_found(folder, &c), "the seal of this test is not that of docs/store.md");
    free(file);
    store_case_free(&c);
}

Test(store, an_entry_for_a_cpu_with_more_is_a_miss_on_this_one) {
    const char *folder = support_store_scratch();
    int refused = 0;
    for (ffn_isa isa = FFN_ISA_PORTABLE + 1; isa < FFN_ISA_COUNT; isa++) {
        store_case c;
        store_case_init(&c, SPEC, isa, FFN_N_1, 4096);
        store_case_keep(folder, &c);
        cr_expect_eq(store_case_found(folder, &c), ffn_isa_supported(isa), "%s", ffn_isa_name(isa));
        refused += !ffn_isa_supported(isa);
        store_case_free(&c);
    }
    cr_expect_gt(refused, 0, "no CPU runs NEON and AVX2");
    cr_expect_eq(support_store_count(folder, ".ffn"), FFN_ISA_COUNT - 2);
}

Test(store, code_that_asks_for_more_than_its_isa_is_a_miss) {
    store_case c;
    store_case_init(&c, SPEC, runnable(), FFN_N_1, 4096);
    uint64_t needs = isa_row_of(c.plan.isa)->needs | UINT64_C(1) << 63;
    memcpy((char *)c.image + offsetof(image_header, cpu_needs), &needs, sizeof needs);
    image_mark_verified(c.image, c.image_bytes);
    const char *folder = support_store_scratch();
    store_case_keep(folder, &c);
    cr_expect_not(store_case_found(folder, &c));
    store_case_free(&c);
}

Test(store, a_source_without_a_name_for_its_images_touches_no_file) {
    store_case c;
    store_case_init(&c, SPEC, FFN_ISA_AVX2, FFN_N_1, 4096);
    const char *folder = support_store_path(support_store_scratch(), "ffngen");
    static const char *const identities[] = {NULL, "", "two\nlines", "\x7f"};
    char long_one[5000];
    memset(long_one, 'x', sizeof long_one - 1);
    long_one[sizeof long_one - 1] = '\0';
    for (size_t i = 0; i <= sizeof identities / sizeof *identities; i++) {
        c.key.identity = i < sizeof identities / sizeof *identities ? identities[i] : long_one;
        store *s = store_create(folder, FFN_STORE_BYTES_DEFAULT);
        ffn_bytes found;
        ffn_diag remark = {.status = FFN_BAD_SPEC};
        cr_expect_not(store_find(s, &c.key, &found, &remark));
        store_keep(s, &c.key, c.image, c.image_bytes, &remark);
        cr_expect_eq(remark.status, i == 0 ? FFN_BAD_SPEC : FFN_OK, "said of identity %zu", i);
        store_destroy(s);
    }
    cr_expect_neq(access(folder, F_OK), 0);
    store_case_free(&c);
}

/* ---- Modes ---- */

static unsigned mode_of(const char *path) {
    struct stat seen;
    cr_assert_eq(lstat(path, &seen), 0, "%s", path);
    return (unsigned)seen.st_mode & 07777;
}

Test(store, folders_are_0700_and_entries_0600_whatever_the_umask) {
    static const mode_t masks[] = {0, 022, 077, 0777};
    store_case c;
    store_case_init(&c, SPEC, FFN_ISA_AVX2, FFN_N_1, 4096);
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        const char *top = support_store_scratch();
        char folder[STORE_PATH_BYTES];
        snprintf(folder, sizeof folder, "%s/up/ffngen", top);
        mode_t before = umask(masks[i]);
        store_case_keep(folder, &c);
        umask(before);
        cr_expect_eq(mode_of(support_store_path(top, "up")), 0700u, "umask %o", masks[i]);
        cr_expect_eq(mode_of(folder), 0700u, "umask %o", masks[i]);
        cr_expect_eq(mode_of(support_store_path(folder, support_store_entry(folder))), 0600u, "umask %o", masks[i]);
    }
    store_case_free(&c);
}

/* ---- Limit ---- */

enum { ENTRIES = 5, CODE_BYTES = 8192, ENTRY_BYTES = STORE_HEAD_BYTES + 2 * 4096 + CODE_BYTES };

static void set_age(const char *folder, const char *part, int64_t seconds) {
    char path[STORE_PATH_BYTES];
    struct timespec now, times[2];
    clock_gettime(CLOCK_REALTIME, &now);
    times[0] = times[1] = (struct timespec){.tv_sec = now.tv_sec - seconds};
    snprintf(path, sizeof path, "%s/%s", folder, part);
    cr_assert_eq(utimensat(AT_FDCWD, path, times, 0), 0, "%s", path);
}

Test(store, over_the_limit_the_least_recently_used_go) {
    ffn_isa isa = runnable();
    store_case cases[ENTRIES];
    entry entries[ENTRIES];
    const char *folder = support_store_scratch();
    for (int i = 0; i < ENTRIES; i++) {
        char text[64];
        snprintf(text, sizeof text, "d%d-f64-relu", 16 + i);
        store_case_init(&cases[i], text, isa, FFN_N_1, CODE_BYTES);
        cr_assert_eq(entry_of_key(&cases[i].key, &entries[i], NULL), FFN_OK);
    }
    for (int i = 0; i < ENTRIES - 1; i++) {
        store_case_keep(folder, &cases[i]);
        set_age(folder, entries[i].name, 7200 - i);
    }
    support_write_file(support_store_path(folder, "notes.txt"), "mine", 4);
    set_age(folder, "notes.txt", 1000000);
    cr_expect(store_case_found(folder, &cases[0]), "a hit makes the oldest the newest");
    store *s = store_create(folder, (ENTRIES - 2) * (size_t)ENTRY_BYTES);
    ffn_diag remark = {.status = FFN_OK};
    store_keep(s, &cases[ENTRIES - 1].key, cases[ENTRIES - 1].image, cases[ENTRIES - 1].image_bytes, &remark);
    store_destroy(s);
    cr_expect(!*remark.text, "%s", remark.text);
    static const bool stays[ENTRIES] = {true, false, false, true, true};
    for (int i = 0; i < ENTRIES; i++)
        cr_expect_eq(store_case_found(folder, &cases[i]), stays[i], "entry %d", i);
    cr_expect_eq(access(support_store_path(folder, "notes.txt"), F_OK), 0, "a file that is no entry was removed");
    for (int i = 0; i < ENTRIES; i++)
        store_case_free(&cases[i]);
}

Test(store, the_entry_just_written_stays_even_if_its_clock_is_behind) {
    store_case old, fresh;
    store_case_init(&old, "d16-f64-relu", runnable(), FFN_N_1, CODE_BYTES);
    store_case_init(&fresh, "d17-f64-relu", runnable(), FFN_N_1, CODE_BYTES);
    const char *folder = support_store_scratch();
    store_case_keep(folder, &old);
    set_age(folder, support_store_entry(folder), -86400); /* from the future */
    store *s = store_create(folder, ENTRY_BYTES);
    store_keep(s, &fresh.key, fresh.image, fresh.image_bytes, NULL);
    store_destroy(s);
    cr_expect(store_case_found(folder, &fresh));
    cr_expect_not(store_case_found(folder, &old));
    store_case_free(&old);
    store_case_free(&fresh);
}

Test(store, an_entry_above_the_limit_is_not_kept_and_drives_nobody_out) {
    store_case small, large;
    store_case_init(&small, "d16-f64-relu", runnable(), FFN_N_1, 4096);
    store_case_init(&large, "d17-f64-relu", runnable(), FFN_N_1, CODE_BYTES);
    const char *folder = support_store_scratch();
    store_case_keep(folder, &small);
    store *s = store_create(folder, ENTRY_BYTES - 1);
    ffn_diag remark = {.status = FFN_SYSTEM};
    store_keep(s, &large.key, large.image, large.image_bytes, &remark);
    store_destroy(s);
    cr_expect_eq(remark.status, FFN_OK);
    cr_expect_not_null(strstr(remark.text, "limit"), "%s", remark.text);
    cr_expect_not(store_case_found(folder, &large));
    cr_expect(store_case_found(folder, &small));
    store_case_free(&small);
    store_case_free(&large);
}

/* ---- Threads ---- */

enum { THREADS = 8, ROUNDS = 12 };

typedef struct work {
    store *s;
    store_case *cases;
    int first;
    int hits, wrong;
} work;

static void *keep_and_find(void *argument) {
    work *w = argument;
    for (int round = 0; round < ROUNDS; round++) {
        store_case *c = &w->cases[(w->first + round) % ENTRIES];
        ffn_bytes found;
        ffn_diag remark = {.status = FFN_OK};
        if (store_find(w->s, &c->key, &found, &remark)) {
            w->hits++;
            w->wrong += found.bytes != c->image_bytes || memcmp(found.data, c->image, found.bytes) != 0;
            found.release(found.data);
        }
        if (round % 3 == 0)
            store_keep(w->s, &c->key, c->image, c->image_bytes, &remark);
        w->wrong += *remark.text != '\0';
    }
    return NULL;
}

Test(store, threads_share_a_store_whose_limit_is_always_reached) {
    store_case cases[ENTRIES];
    const char *folder = support_store_path(support_store_scratch(), "ffngen");
    for (int i = 0; i < ENTRIES; i++) {
        char text[64];
        snprintf(text, sizeof text, "d%d-f64-relu", 16 + i);
        store_case_init(&cases[i], text, runnable(), FFN_N_1, CODE_BYTES);
    }
    store *s = store_create(folder, 3 * (size_t)ENTRY_BYTES);
    pthread_t threads[THREADS];
    work works[THREADS];
    int hits = 0, wrong = 0;
    for (int t = 0; t < THREADS; t++) {
        works[t] = (work){.s = s, .cases = cases, .first = t};
        cr_assert_eq(pthread_create(&threads[t], NULL, keep_and_find, &works[t]), 0);
    }
    for (int t = 0; t < THREADS; t++) {
        pthread_join(threads[t], NULL);
        hits += works[t].hits;
        wrong += works[t].wrong;
    }
    store_destroy(s);
    cr_expect_gt(hits, 0);
    cr_expect_eq(wrong, 0);
    cr_expect_leq(support_store_count(folder, ".ffn"), 3);
    cr_expect_eq(support_store_count(folder, ""), support_store_count(folder, ".ffn"), "temporary files are left");
    for (int i = 0; i < ENTRIES; i++)
        store_case_free(&cases[i]);
}
