/* support_store.c: temporary folders; keys with plans of the fixed machines; headers before random bytes */
#define _GNU_SOURCE
#include "support_store.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "image.h"
#include "isa.h"
#include "plan.h"
#include "support_data.h"

typedef struct kept_path {
    struct kept_path *next;
    char text[STORE_PATH_BYTES];
} kept_path;

static kept_path *paths;
static char scratch[STORE_PATH_BYTES / 2];
static pid_t scratch_owner;

static int remove_one(const char *path, const struct stat *seen, int kind, struct FTW *level) {
    (void)seen;
    (void)kind;
    (void)level;
    return remove(path);
}

static void remove_scratch(void) {
    for (kept_path *next; paths; paths = next) {
        next = paths->next;
        free(paths);
    }
    if (*scratch && scratch_owner == getpid())
        nftw(scratch, remove_one, 8, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    *scratch = '\0';
}

const char *support_store_scratch(void) {
    static bool registered;
    remove_scratch(); /* of an earlier test in this process */
    const char *base = getenv("TMPDIR");
    snprintf(scratch, sizeof scratch, "%s/ffn_store_XXXXXX", base && *base == '/' ? base : "/tmp");
    cr_assert(mkdtemp(scratch), "%s", scratch);
    scratch_owner = getpid();
    if (!registered)
        atexit(remove_scratch);
    registered = true;
    return scratch;
}

void store_case_renew(store_case *c, size_t code_bytes) {
    free(c->image);
    c->image_bytes = 2 * IMAGE_ALIGN + code_bytes;
    unsigned char *bytes = calloc(1, c->image_bytes);
    cr_assert_not_null(bytes);
    image_header header = {.version = IMAGE_VERSION,
                           .header_bytes = sizeof header,
                           .total_bytes = c->image_bytes,
                           .generator_hash = 0x1234abcd5678ef00,
                           .llvm_version = "19.1.7",
                           .isa = c->plan.isa,
                           .verified = 1,
                           .cpu_needs = isa_row_of(c->plan.isa)->needs,
                           .scratch_bytes = (uint64_t)plan_scratch_bytes(&c->spec, &c->plan),
                           .text_offset = IMAGE_ALIGN,
                           .text_bytes = code_bytes,
                           .rodata_offset = IMAGE_ALIGN + code_bytes,
                           .rodata_bytes = 64,
                           .plan = c->plan,
                           .spec = c->spec};
    memcpy(header.magic, IMAGE_MAGIC, sizeof header.magic);
    for (int e = 0; e < IMAGE_ENTRIES; e++)
        header.entries[e] = IMAGE_ALIGN + (uint64_t)e * 64;
    support_rng random = {code_bytes};
    for (size_t i = IMAGE_ALIGN; i + 8 <= IMAGE_ALIGN + code_bytes; i += 8) {
        uint64_t word = support_next(&random);
        memcpy(bytes + i, &word, sizeof word);
    }
    memcpy(bytes, &header, sizeof header);
    header.checksum = image_checksum(bytes, c->image_bytes);
    memcpy(bytes, &header, sizeof header);
    c->image = bytes;
}

void store_case_init(store_case *c, const char *text, ffn_isa isa, ffn_n_class n_class, size_t code_bytes) {
    *c = (store_case){.spec = support_spec(text)};
    ffn_machine machine;
    cr_assert_eq(ffn_machine_generic(isa, &machine, NULL), FFN_OK);
    cr_assert_eq(ffn_plan_make(&c->spec, isa, n_class, &machine, &c->plan, NULL), FFN_OK);
    c->key = (store_key){.spec = &c->spec, .plan = &c->plan, .identity = "generator 0123456789abcdef LLVM 19.1.7"};
    store_case_renew(c, code_bytes);
}

void store_case_free(store_case *c) {
    free(c->image);
    c->image = NULL;
}

void store_case_keep(const char *folder, const store_case *c) {
    ffn_diag remark = {.status = FFN_OK};
    store *s = store_create(folder, FFN_STORE_BYTES_DEFAULT);
    store_keep(s, &c->key, c->image, c->image_bytes, &remark);
    store_destroy(s);
    cr_assert(!*remark.text, "%s", remark.text);
}

bool store_case_found(const char *folder, const store_case *c) {
    ffn_bytes found = {0};
    store *s = store_create(folder, FFN_STORE_BYTES_DEFAULT);
    bool hit = store_find(s, &c->key, &found, NULL);
    store_destroy(s);
    if (hit) {
        cr_assert_eq(found.bytes, c->image_bytes);
        cr_assert_eq(memcmp(found.data, c->image, found.bytes), 0, "other bytes than were kept");
        found.release(found.data);
    }
    return hit;
}

static bool ends_with(const char *name, const char *suffix) {
    size_t length = strlen(name), tail = strlen(suffix);
    return length >= tail && !strcmp(name + length - tail, suffix);
}

int support_store_count(const char *folder, const char *suffix) {
    DIR *names = opendir(folder);
    int count = 0;
    for (struct dirent *item; names && (item = readdir(names)) != NULL;)
        count += strcmp(item->d_name, ".") != 0 && strcmp(item->d_name, "..") != 0 && ends_with(item->d_name, suffix);
    if (names)
        closedir(names);
    return count;
}

const char *support_store_entry(const char *folder) {
    static char name[256];
    DIR *names = opendir(folder);
    cr_assert_not_null(names);
    *name = '\0';
    for (struct dirent *item; (item = readdir(names)) != NULL;) {
        if (ends_with(item->d_name, ".ffn")) {
            cr_assert(!*name, "more than one entry");
            memcpy(name, item->d_name, strlen(item->d_name) + 1);
        }
    }
    closedir(names);
    cr_assert(*name, "no entry in %s", folder);
    return name;
}

const char *support_store_path(const char *folder, const char *name) {
    kept_path *path = malloc(sizeof *path);
    cr_assert_not_null(path);
    cr_assert_lt(snprintf(path->text, sizeof path->text, "%s/%s", folder, name), STORE_PATH_BYTES);
    path->next = paths;
    paths = path;
    return path->text;
}

unsigned char *support_read_file(const char *path, size_t *bytes) {
    FILE *file = fopen(path, "rb");
    cr_assert_not_null(file, "%s", path);
    struct stat seen;
    cr_assert_eq(fstat(fileno(file), &seen), 0);
    *bytes = (size_t)seen.st_size;
    unsigned char *data = malloc(*bytes + 1);
    cr_assert_not_null(data);
    cr_assert_eq(fread(data, 1, *bytes, file), *bytes);
    fclose(file);
    return data;
}

void support_write_file(const char *path, const void *data, size_t bytes) {
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    cr_assert_geq(file, 0, "%s", path);
    cr_assert_eq(write(file, data, bytes), (ssize_t)bytes);
    close(file);
}

void support_store_seal(unsigned char *file, size_t bytes) {
    char *line = memmem(file, STORE_HEAD_BYTES, "\nchecksum: ", 11);
    cr_assert_not_null(line);
    char *digits = line + 11, sum[17];
    memset(digits, '0', 16);
    snprintf(sum, sizeof sum, "%016llx", (unsigned long long)XXH3_64bits(file, bytes));
    memcpy(digits, sum, 16);
}
