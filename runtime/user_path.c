/* user_path.c: see user_path.h */
#define _GNU_SOURCE
#include "user_path.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "diag.h"

#define OWN "ffngen"

__attribute__((format(printf, 2, 3))) static char *make(ffn_diag *problem, const char *format, ...) {
    char *path = NULL;
    va_list parts;
    va_start(parts, format);
    const int length = vasprintf(&path, format, parts);
    va_end(parts);
    if (length >= 0)
        return path;
    diag_fail(problem, FFN_OUT_OF_MEMORY, "no memory for a path");
    return NULL;
}

char *user_path_of(const user_place *place, const char *name, ffn_diag *problem) {
    const char *given = secure_getenv(place->variable), *home = secure_getenv("HOME");
    const char *slash = name ? "/" : "", *rest = name ? name : "";
    if (given && *given == '/') /* a relative one is to be ignored, says the XDG rule */
        return make(problem, "%s/" OWN "%s%s", given, slash, rest);
    if (home && *home == '/')
        return make(problem, "%s/%s/" OWN "%s%s", home, place->below_home, slash, rest);
    diag_fail(problem, FFN_SYSTEM, "neither %s nor HOME names a folder by its absolute path", place->variable);
    return NULL;
}

char *user_path_absolute(const char *path, const char *what, ffn_diag *problem) {
    if (*path == '/')
        return make(problem, "%s", path);
    if (!*path) {
        diag_fail(problem, FFN_BAD_ARGUMENT, "the %s's name is empty", what);
        return NULL;
    }
    char *here = getcwd(NULL, 0);
    char *whole = here ? make(problem, "%s/%s", here, path) : NULL;
    if (!here)
        diag_fail(problem, FFN_SYSTEM, "%.300s: no current folder: %s", path, strerrordesc_np(errno));
    free(here);
    return whole;
}
