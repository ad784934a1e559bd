/* compiler_find.c: see compiler_find.h
 *
 * libffn looks beside itself. Linked into a program it looks beside the program, where a build folder has it, and in
 * the library folders of the program's prefix. */
#define _GNU_SOURCE
#include "compiler_find.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

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

/* Also true of all code of a static program, where dladdr knows nothing. */
static bool is_in_program(const void *address) {
    Dl_info object, program;
    return dladdr(address, &object) == 0 ||
           (dladdr((const void *)getauxval(AT_ENTRY), &program) != 0 && program.dli_fbase == object.dli_fbase);
}

/* As the system names what it has mapped there. */
static bool find_mapped(uintptr_t address, char file[PATH_MAX]) {
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[PATH_MAX + 128];
    bool found = false;
    while (maps && !found && fgets(line, sizeof line, maps)) {
        uintptr_t begin, end;
        int name = 0;
        line[strcspn(line, "\n")] = '\0';
        found = sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %*s %*s %*s %*s %n", &begin, &end, &name) == 2 && name &&
                address >= begin && address < end && realpath(line + name, file);
    }
    if (maps)
        fclose(maps);
    return found;
}

bool compiler_file_of(const void *address, char file[PATH_MAX]) {
    Dl_info object; /* a program's dli_fname is argv[0], a library's what it was loaded by: both may be relative */
    if (!is_in_program(address) && dladdr(address, &object) != 0 && *object.dli_fname == '/')
        return realpath(object.dli_fname, file) != NULL;
    return find_mapped((uintptr_t)address, file);
}

bool compiler_find(const char *path, char file[PATH_MAX]) {
    if (path) {
        if (*path == '/' && realpath(path, file))
            return true;
        snprintf(file, PATH_MAX, "%s", path);
        return false;
    }
    char names[2][64] = {"", "libffngen.so"}; /* the first has the SOVERSION: the first number of the version */
    snprintf(names[0], sizeof names[0], "%s.%.*s", names[1], (int)strcspn(FFN_VERSION, "."), FFN_VERSION);
    snprintf(file, PATH_MAX, "%s", names[0]);
    char own[PATH_MAX], tried[2 * PATH_MAX];
    bool program = is_in_program(folders);
    if (!compiler_file_of(folders, own))
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
