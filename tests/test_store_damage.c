/* test_store_damage.c: a file that is not exactly the entry of the key is never returned, and the next keep replaces
 * it; neither is anything that stands under its name but a file of this user's own */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "image.h"
#include "store_entry.h"
#include "support_store.h"

TestSuite(store_damage, .timeout = 120);

#define NOBODY 65534

typedef struct subject { /* one kept entry, and the bytes of its file */
    store_case c;
    const char *folder, *path;
    store *s;
    unsigned char *file;
    size_t bytes;
} subject;

static void begin(subject *t) {
    ffn_isa isa = ffn_isa_best();
    if (isa == FFN_ISA_PORTABLE)
        cr_skip_test("no generated ISA here: nothing can be found in a store");
    t->folder = support_store_scratch();
    store_case_init(&t->c, "d64-f256-relu-bias", isa, FFN_N_1, 4096);
    store_case_keep(t->folder, &t->c);
    t->path = support_store_path(t->folder, support_store_entry(t->folder));
    t->file = support_read_file(t->path, &t->bytes);
    t->s = store_create(t->folder, FFN_STORE_BYTES_DEFAULT);
    cr_assert(store_case_found(t->folder, &t->c));
}

static bool is_miss(subject *t) {
    ffn_bytes found;
    bool hit = store_find(t->s, &t->c.key, &found, NULL);
    if (hit)
        found.release(found.data);
    return !hit;
}

static void end(subject *t) {
    cr_expect(is_miss(t), "the last damage was none");
    store_case_keep(t->folder, &t->c);
    cr_expect(store_case_found(t->folder, &t->c), "the damaged entry was not replaced");
    size_t bytes;
    unsigned char *file = support_read_file(t->path, &bytes);
    cr_expect(bytes == t->bytes && memcmp(file, t->file, bytes) == 0);
    cr_expect_eq(support_store_count(t->folder, ""), 1);
    free(file);
    free(t->file);
    store_destroy(t->s);
    store_case_free(&t->c);
}

/* Every byte of the head, of the image's header and of the end; in between, one in 61. */
static size_t next_place(const subject *t, size_t at) {
    size_t dense = ENTRY_HEAD_BYTES + sizeof(image_header) + 64;
    return at < dense || at + 64 > t->bytes ? at + 1 : at + 61 < t->bytes ? at + 61 : at + 1;
}

Test(store_damage, a_file_cut_at_any_byte_is_a_miss) {
    subject t;
    begin(&t);
    size_t *places = malloc(t.bytes * sizeof *places), count = 0;
    cr_assert_not_null(places);
    for (size_t at = 0; at < t.bytes; at = next_place(&t, at))
        places[count++] = at;
    while (count > 0) {
        cr_assert_eq(truncate(t.path, (off_t)places[--count]), 0);
        cr_assert(is_miss(&t), "cut at byte %zu", places[count]);
    }
    free(places);
    end(&t);
}

Test(store_damage, a_file_with_any_bit_changed_is_a_miss) {
    subject t;
    begin(&t);
    int file = open(t.path, O_WRONLY);
    int changes = 0;
    for (size_t at = 0; at < t.bytes; at = next_place(&t, at)) {
        unsigned char byte = (unsigned char)(t.file[at] ^ 1u << (at % 8));
        cr_assert_eq(pwrite(file, &byte, 1, (off_t)at), 1);
        cr_assert(is_miss(&t), "bit %zu of byte %zu", at % 8, at);
        cr_assert_eq(pwrite(file, &t.file[at], 1, (off_t)at), 1);
        changes++;
    }
    cr_expect_gt(changes, 5000);
    ffn_bytes found;
    cr_expect(store_find(t.s, &t.c.key, &found, NULL), "put right again, it must be found");
    found.release(found.data);
    cr_assert_eq(pwrite(file, "?", 1, 0), 1);
    close(file);
    end(&t);
}

Test(store_damage, a_file_with_more_behind_it_is_a_miss) {
    subject t;
    begin(&t);
    for (size_t more = 1; more <= 4096; more *= 64) {
        unsigned char *longer = calloc(1, t.bytes + more);
        memcpy(longer, t.file, t.bytes);
        support_write_file(t.path, longer, t.bytes + more);
        cr_expect(is_miss(&t), "%zu bytes more", more);
        free(longer);
    }
    end(&t);
}

Test(store_damage, a_size_that_lies_asks_for_no_memory) {
    subject t;
    begin(&t);
    cr_assert_eq(truncate(t.path, (off_t)1 << 40), 0);
    ffn_bytes found;
    ffn_diag remark = {.status = FFN_OK};
    cr_expect_not(store_find(t.s, &t.c.key, &found, &remark));
    cr_expect(!*remark.text, "%s", remark.text);
    end(&t);
}

Test(store_damage, the_entry_of_another_key_under_this_name_is_a_miss) {
    subject t;
    begin(&t);
    store_case other;
    entry e;
    store_case_init(&other, "d64-f256-relu-bias", t.c.plan.isa, FFN_N_2_4, 4096);
    cr_assert_eq(entry_of_key(&other.key, &e, NULL), FFN_OK);
    store_case_keep(t.folder, &other);
    cr_assert_eq(rename(support_store_path(t.folder, e.name), t.path), 0);
    cr_expect(is_miss(&t));
    store_case_free(&other);
    end(&t);
}

/* The text says one thing, the image behind it is another one, and both checksums are right. */
Test(store_damage, a_right_head_before_the_image_of_another_key_is_a_miss) {
    subject t;
    begin(&t);
    static const char *const specs[] = {"d64-f257-relu-bias", "d64-f256-gelu-bias", "d64-f256-relu"};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        store_case other;
        store_case_init(&other, specs[i], t.c.plan.isa, FFN_N_1, 4096);
        memcpy(t.file + ENTRY_HEAD_BYTES, other.image, other.image_bytes);
        support_store_seal(t.file, t.bytes);
        support_write_file(t.path, t.file, t.bytes);
        cr_expect(is_miss(&t), "%s", specs[i]);
        store_case_free(&other);
    }
    store_case other;
    store_case_init(&other, "d64-f256-relu-bias", t.c.plan.isa, FFN_N_1, 4096);
    other.plan.prefetch++;
    store_case_renew(&other, 4096);
    memcpy(t.file + ENTRY_HEAD_BYTES, other.image, other.image_bytes);
    support_store_seal(t.file, t.bytes);
    support_write_file(t.path, t.file, t.bytes);
    cr_expect(is_miss(&t), "another plan");
    store_case_free(&other);
    memcpy(t.file + ENTRY_HEAD_BYTES, t.c.image, t.c.image_bytes);
    support_store_seal(t.file, t.bytes);
    end(&t);
}

/* An image that is damaged under a checksum of the file that was made afterwards. */
Test(store_damage, a_damaged_image_under_a_right_checksum_is_a_miss) {
    subject t;
    begin(&t);
    t.file[ENTRY_HEAD_BYTES + IMAGE_ALIGN + 5] ^= 1;
    support_store_seal(t.file, t.bytes);
    support_write_file(t.path, t.file, t.bytes);
    cr_expect(is_miss(&t));
    cr_expect_eq(entry_check(support_store_entry(t.folder), (const char *)t.file, t.file + ENTRY_HEAD_BYTES,
                             t.c.image_bytes, NULL, NULL),
                 FFN_BAD_FILE, "neither whole nor another CPU's");
    t.file[ENTRY_HEAD_BYTES + IMAGE_ALIGN + 5] ^= 1;
    support_store_seal(t.file, t.bytes);
    end(&t);
}

/* ---- What else may stand under the name ---- */

static void expect_refused(subject *t, const char *why) {
    ffn_bytes found;
    ffn_diag remark = {.status = FFN_SYSTEM};
    store *s = store_create(t->folder, FFN_STORE_BYTES_DEFAULT);
    cr_expect_not(store_find(s, &t->c.key, &found, &remark), "%s", why);
    cr_expect(remark.status == FFN_OK && strstr(remark.text, why), "\"%s\" says nothing of \"%s\"", remark.text, why);
    store_destroy(s);
}

Test(store_damage, a_symbolic_link_is_refused_and_replaced_not_followed) {
    subject t;
    begin(&t);
    const char *elsewhere = support_store_path(t.folder, "elsewhere");
    cr_assert_eq(rename(t.path, elsewhere), 0);
    cr_assert_eq(symlink(elsewhere, t.path), 0);
    expect_refused(&t, "symbolic link");
    store_case_keep(t.folder, &t.c);
    struct stat seen;
    cr_assert_eq(lstat(t.path, &seen), 0);
    cr_expect(S_ISREG(seen.st_mode), "the link is still there");
    size_t bytes;
    unsigned char *file = support_read_file(elsewhere, &bytes);
    cr_expect(bytes == t.bytes && memcmp(file, t.file, bytes) == 0, "the file behind the link was changed");
    free(file);
    cr_assert_eq(unlink(elsewhere), 0);
    cr_assert_eq(unlink(t.path), 0);
    cr_assert_eq(symlink("nowhere", t.path), 0);
    expect_refused(&t, "symbolic link");
    end(&t);
}

Test(store_damage, a_fifo_or_a_socket_is_refused_without_waiting) {
    subject t;
    begin(&t);
    cr_assert_eq(unlink(t.path), 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char here[STORE_PATH_BYTES];
    cr_assert_not_null(getcwd(here, sizeof here));
    cr_assert_eq(chdir(t.folder), 0); /* the address holds a short name only */
    snprintf(address.sun_path, sizeof address.sun_path, "%.100s", support_store_path(".", "socket"));
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    cr_assert_eq(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    cr_assert_eq(rename("socket", t.path), 0);
    cr_assert_eq(chdir(here), 0);
    expect_refused(&t, "cannot be read");
    close(listener);
    cr_assert_eq(unlink(t.path), 0);
    cr_assert_eq(mkfifo(t.path, 0600), 0);
    expect_refused(&t, "not a file");
    end(&t);
}

Test(store_damage, a_folder_is_refused_and_stays) {
    subject t;
    begin(&t);
    cr_assert_eq(unlink(t.path), 0);
    cr_assert_eq(mkdir(t.path, 0700), 0);
    expect_refused(&t, "not a file");
    ffn_diag remark = {.status = FFN_SYSTEM};
    store_keep(t.s, &t.c.key, t.c.image, t.c.image_bytes, &remark);
    cr_expect(remark.status == FFN_OK && *remark.text, "a keep that failed said nothing");
    cr_expect_eq(support_store_count(t.folder, ""), 1, "a temporary file is left");
    cr_assert_eq(rmdir(t.path), 0);
    end(&t);
}

Test(store_damage, a_file_that_others_may_write_is_refused) {
    subject t;
    begin(&t);
    static const mode_t modes[] = {0620, 0602, 0666};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        cr_assert_eq(chmod(t.path, modes[i]), 0);
        expect_refused(&t, "others may write it");
    }
    end(&t);
}

Test(store_damage, a_file_of_another_user_is_refused_also_through_a_hard_link) {
    if (geteuid() != 0)
        cr_skip_test("only root can give a file away");
    subject t;
    begin(&t);
    const char *foreign = support_store_path(t.folder, "foreign");
    cr_assert_eq(rename(t.path, foreign), 0);
    cr_assert_eq(chown(foreign, NOBODY, NOBODY), 0);
    cr_assert_eq(link(foreign, t.path), 0);
    expect_refused(&t, "belongs to user 65534");
    store_case_keep(t.folder, &t.c);
    struct stat seen;
    cr_assert_eq(stat(foreign, &seen), 0);
    cr_expect_eq(seen.st_uid, (uid_t)NOBODY);
    cr_assert_eq(rename(foreign, t.path), 0);
    end(&t);
}
