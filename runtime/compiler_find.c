/* compiler_find.c: see compiler_find.h
 *
 * libffn looks beside itself. Linked into a program it looks beside the program, where a build folder has it, and in
 * the library folders of the program's prefix. */
#define _GNU_SOURCE
#include "compiler_find.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "ffn.h"

#if defined(__x86_64__)
#define TRIPLET "x86_64-linux-gnu"
#elif defined(__aarch64__)
#define TRIPLET "aarch64-linux-gnu"
#else
#define TRIPLET "."
#endif

static const struct {
    bool program; /* only where libffn is a part of the program itself */
    const char *name;
} folders[] = {{false, ""}, {true, "../lib/"}, {true, "../lib/" TRIPLET "/"}, {true, "../lib64/"}};

/* The object that this code is in, a program or a library. */
static bool own_file(char file[PATH_MAX], bool *program) {
    Dl_info own, entry;
    if (dladdr((const void *)folders, &own) == 0)
        return false;
    *program = dladdr((const void *)getauxval(AT_ENTRY), &entry) != 0 && entry.dli_fbase == own.dli_fbase;
    if (!*program)
        return realpath(own.dli_fname, file) != NULL;
    ssize_t length = readlink("/proc/self/exe", file, PATH_MAX - 1); /* its dli_fname is argv[0], whatever that is */
    if (length <= 0)
        return false;
    file[length] = '\0';
    return true;
}

bool compiler_find(const char *path, char file[PATH_MAX]) {
    if (path) {
        if (realpath(path, file))
            return true;
        snprintf(file, PATH_MAX, "%s", path);
        return false;
    }
    char names[2][32] = {"", "libffngen.so"}; /* the first has the SOVERSION: the first number of the version */
    snprintf(names[0], sizeof names[0], "%s.%.*s", names[1], (int)strcspn(FFN_VERSION, "."), FFN_VERSION);
    snprintf(file, PATH_MAX, "%s", names[0]);
    char own[PATH_MAX], tried[2 * PATH_MAX];
    bool program;
    if (!own_file(own, &program))
        return false;
    *(strrchr(own, '/') + 1) = '\0';
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        for (size_t j = 0; j < 2 && (program || !folders[i].program); j++) {
            snprintf(tried, sizeof tried, "%s%s%s", own, folders[i].name, names[j]);
            if (realpath(tried, file))
                return true;
        }
    snprintf(tried, sizeof tried, "%s%s", own, names[0]);
    snprintf(file, PATH_MAX, "%.*s", PATH_MAX - 1, tried);
    return false;
}
