/* config_folder.c: see config_folder.h */
#define _GNU_SOURCE
#include "config_folder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "diag.h"
#include "user_path.h"

#define FOLDER_MODE 0700 /* as the XDG rule wants it */

static const user_place place = {"XDG_CONFIG_HOME", ".config"};

char *config_file_path(const char *name, ffn_diag *problem) {
    return user_path_of(&place, name, problem);
}

/* Every folder of an absolute path, from the top; 0, or the number of what stands in the way. A system may refuse to
 * make what is there already, and another process may be quicker: what counts is the last folder. */
static int make_folders(char *path) {
    int first = 0;
    for (char *at = path + 1;; at++) {
        const char end = *at;
        if (end != '/' && end != '\0')
            continue;
        *at = '\0';
        if (mkdir(path, FOLDER_MODE) != 0 && errno != EEXIST && first == 0)
            first = errno;
        *at = end;
        if (end == '\0')
            break;
    }
    struct stat found;
    if (stat(path, &found) == 0)
        return S_ISDIR(found.st_mode) ? 0 : ENOTDIR;
    return first != 0 ? first : errno;
}

ffn_status config_folder_make(ffn_diag *diag) {
    ffn_diag problem;
    char *path = user_path_of(&place, NULL, &problem);
    if (path == NULL)
        return diag_fail(diag, problem.status, "%s", problem.text);
    const int error = make_folders(path);
    const ffn_status status =
        error ? diag_fail(diag, FFN_SYSTEM, "%.300s cannot be made: %s", path, strerrordesc_np(error)) : FFN_OK;
    free(path);
    return status;
}
