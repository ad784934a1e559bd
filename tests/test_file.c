/* Files are read whole, without waiting on what is no regular file, and written whole or not at all. */
#include "file.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static void folder_make(void) {
    snprintf(folder, sizeof folder, "/tmp/ffn-test-files-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
}

static void folder_remove(void) {
    char command[96];
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    cr_expect_eq(system(command), 0);
}

static const char *inside(const char *name) {
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* Names in the folder, the temporary ones included. */
static int entries(void) {
    char command[96];
    int count = -1;
    snprintf(command, sizeof command, "ls -A '%s' | wc -l", folder);
    FILE *pipe = popen(command, "r");
    cr_assert(pipe && fscanf(pipe, "%d", &count) == 1);
    pclose(pipe);
    return count;
}

static void file_is(const char *name, const char *text) {
    file_map map;
    ffn_diag diag;
    cr_assert_eq(file_map_open(inside(name), 1000, &map, &diag), FFN_OK, "%s", diag.text);
    cr_expect(map.bytes == strlen(text) && memcmp(map.data, text, map.bytes) == 0);
    file_map_close(&map);
    file_map_close(&map);
}

TestSuite(file, .init = folder_make, .fini = folder_remove);

Test(file, written_is_what_is_read) {
    cr_assert_eq(file_write(inside("a"), "hello", 5, NULL), FFN_OK);
    file_is("a", "hello");
    cr_assert_eq(file_write(inside("a"), "", 0, NULL), FFN_OK);
    file_is("a", "");
    cr_expect_eq(entries(), 1);
}

Test(file, reading_refuses_what_is_no_regular_file_without_waiting) {
    file_map map = {&map, 7};
    ffn_diag diag;
    alarm(10);
    cr_assert_eq(mkfifo(inside("pipe"), 0600), 0);
    cr_expect_eq(file_map_open(inside("pipe"), SIZE_MAX, &map, &diag), FFN_BAD_FILE);
    cr_expect_not_null(strstr(diag.text, "is a pipe"), "%s", diag.text);
    cr_expect_eq(file_map_open(folder, SIZE_MAX, &map, &diag), FFN_BAD_FILE);
    cr_expect_not_null(strstr(diag.text, "is a folder"), "%s", diag.text);
    cr_expect_eq(file_map_open("/dev/zero", SIZE_MAX, &map, &diag), FFN_BAD_FILE);
    cr_expect_not_null(strstr(diag.text, "is a device"), "%s", diag.text);
    cr_expect_eq(file_map_open(inside("none"), SIZE_MAX, &map, &diag), FFN_SYSTEM);
    cr_expect_not_null(strstr(diag.text, "none cannot be opened"), "%s", diag.text);
    cr_expect(map.data == &map && map.bytes == 7);
}

Test(file, reading_keeps_to_the_limit) {
    file_map map;
    ffn_diag diag;
    cr_assert_eq(file_write(inside("a"), "hello", 5, NULL), FFN_OK);
    cr_expect_eq(file_map_open(inside("a"), 4, &map, &diag), FFN_BAD_FILE);
    cr_expect_not_null(strstr(diag.text, "5 bytes long: at most 4"), "%s", diag.text);
    cr_assert_eq(file_map_open(inside("a"), 5, &map, NULL), FFN_OK);
    file_map_close(&map);
}

Test(file, target_stays_until_commit_and_after_failure) {
    file_writer *writer;
    cr_assert_eq(file_write(inside("a"), "old", 3, NULL), FFN_OK);
    cr_assert_eq(file_writer_open(inside("a"), &writer, NULL), FFN_OK);
    file_writer_add(writer, "new", 3);
    file_is("a", "old");
    file_writer_abandon(writer);
    file_is("a", "old");
    cr_expect_eq(entries(), 1);

    cr_assert_eq(file_writer_open(inside("a"), &writer, NULL), FFN_OK);
    file_writer_add(writer, "ne", 2);
    file_writer_add(writer, "w", 1);
    file_is("a", "old");
    cr_assert_eq(file_writer_commit(writer, NULL), FFN_OK);
    file_is("a", "new");
    cr_expect_eq(entries(), 1);
    file_writer_abandon(NULL);
}

Test(file, writing_keeps_links_and_modes) {
    struct stat info;
    cr_assert_eq(file_write(inside("a"), "old", 3, NULL), FFN_OK);
    cr_assert_eq(chmod(inside("a"), 0640), 0);
    cr_assert_eq(symlink("a", inside("link")), 0);
    cr_assert_eq(file_write(inside("link"), "new", 3, NULL), FFN_OK);
    file_is("a", "new");
    cr_expect(lstat(inside("link"), &info) == 0 && S_ISLNK(info.st_mode));
    cr_expect(stat(inside("a"), &info) == 0 && (info.st_mode & 0777) == 0640);
}

Test(file, writing_refuses_what_cannot_become_a_file) {
    ffn_diag diag;
    cr_expect_eq(file_write(folder, "x", 1, &diag), FFN_BAD_ARGUMENT);
    cr_expect_not_null(strstr(diag.text, "is a folder"), "%s", diag.text);
    cr_expect_eq(file_write(inside("none/a"), "x", 1, &diag), FFN_SYSTEM);
    cr_expect_not_null(strstr(diag.text, "cannot be written"), "%s", diag.text);
    cr_assert_eq(symlink("nowhere", inside("link")), 0);
    cr_expect_eq(file_write(inside("link"), "x", 1, &diag), FFN_SYSTEM);
    cr_expect_not_null(strstr(diag.text, "leads nowhere"), "%s", diag.text);
    cr_expect_eq(entries(), 1);
}

Test(file, a_pipe_is_written_to_not_replaced) {
    struct stat info;
    char got[8] = "";
    alarm(10);
    cr_assert_eq(mkfifo(inside("pipe"), 0600), 0);
    cr_expect_eq(file_write(inside("pipe"), "x", 1, NULL), FFN_SYSTEM, "nobody reads: an error, no wait");
    int reader = open(inside("pipe"), O_RDONLY | O_NONBLOCK);
    cr_assert(reader >= 0);
    cr_expect_eq(file_write(inside("pipe"), "hello", 5, NULL), FFN_OK);
    cr_expect(read(reader, got, sizeof got) == 5 && memcmp(got, "hello", 5) == 0);
    close(reader);
    cr_expect(stat(inside("pipe"), &info) == 0 && S_ISFIFO(info.st_mode));
    cr_expect_eq(entries(), 1);
}

Test(file, a_write_that_fails_leaves_the_target_and_nothing_else) {
    static const char large[1 << 16] = "";
    ffn_diag diag;
    cr_assert_eq(file_write(inside("a"), "old", 3, NULL), FFN_OK);
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &(struct rlimit){4096, 4096}), 0);
    cr_expect_eq(file_write(inside("a"), large, sizeof large, &diag), FFN_SYSTEM);
    cr_expect_not_null(strstr(diag.text, "a cannot be written: File too large"), "%s", diag.text);
    file_is("a", "old");
    cr_expect_eq(entries(), 1);
}
