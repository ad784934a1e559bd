/* support_host.h: programs that test_compiler*.c start, and libraries for them to find */
#ifndef SUPPORT_HOST_H
#define SUPPORT_HOST_H

#include <criterion/criterion.h>

#include "ffn.h"
#include "support_command.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if !defined(SANITIZED)
#define SANITIZED 0
#endif

#define NO_SANITIZER(why) \
    if (SANITIZED)        \
    cr_skip_test(why)

/* A file beside this suite, where its hosts and the libraries are; good until the fourth call after this one. */
const char *support_beside(const char *name);

/* Runs one situation in one host; what it prints is shown where it fails. */
#define HOST(host, ...) support_run(support_beside(host), -1, (const char *const[]){__VA_ARGS__, NULL})

/* Of the last HOST: it succeeded, and printed both words; the test is skipped if the situation cannot be had here. */
void support_expect_success(void);
void support_expect_words(const char *first, const char *second);

/* A load of this compiler fails so, and its diag has the word. */
void support_expect_load(const char *path, ffn_status expected, const char *word);

/* A folder with a copy of libffngen.so, whose path is returned, and a text file with these words beside it, or none. */
const char *support_copy_libffngen(char folder[64], const char *id);
void support_remove(const char *folder);

#endif
