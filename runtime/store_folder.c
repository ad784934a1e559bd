/* store_folder.c: path -> descriptor, every folder on the way looked at through the descriptor that is used
 *
 * Images are code, so whoever can write one can run code as this user. Invariant of a folder that is opened: it
 * belongs to the effective user and nobody else may write it; and nobody else may put another folder in its place,
 * since each folder above belongs to that user or to the system's owner and is either not writable by others or
 * sticky. */
#define _GNU_SOURCE
#include "store_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "diag.h"
#include "user_path.h"

#define FOLDER_MODE 0700
#define SHOWN "%.300s" /* of a path in a message */

static const user_place place = {"XDG_CACHE_HOME", ".cache"};

char *store_folder_path(const char *folder, ffn_diag *problem) {
    /* absolute, so that a later chdir does not move the store */
    return folder ? user_path_absolute(folder, "folder", problem) : user_path_of(&place, NULL, problem);
}

static int enter(int parent, const char *name, int flags, bool create) {
    int found = openat(parent, name, flags | O_DIRECTORY | O_CLOEXEC);
    if (found >= 0 || errno != ENOENT || !create)
        return found;
    /* The umask has had its say in mkdirat. */
    if (mkdirat(parent, name, FOLDER_MODE) == 0 ? fchmodat(parent, name, FOLDER_MODE, 0) != 0 : errno != EEXIST)
        return -1;
    return openat(parent, name, flags | O_DIRECTORY | O_CLOEXEC);
}

/* In a user namespace the system's files may belong to a number that stands for
 * nobody: the one that owns "/". */
static bool parent_is_safe(const struct stat *parent, const struct stat *top) {
    bool trusted = parent->st_uid == geteuid() || parent->st_uid == 0 || parent->st_uid == top->st_uid;
    bool shared = (parent->st_mode & (S_IWGRP | S_IWOTH)) != 0 && (parent->st_mode & S_ISVTX) == 0;
    return trusted && !shared;
}

static void say_errno(ffn_diag *problem, const char *path, const char *part, int error) {
    if (error == ENOTDIR || error == ELOOP)
        diag_fail(problem, FFN_SYSTEM, SHOWN ": '%.64s' is not a folder of its own: a file or a link stands there",
                  path, part);
    else
        diag_fail(problem, FFN_SYSTEM, SHOWN ": '%.64s' cannot be opened or made: %s", path, part,
                  strerrordesc_np(error));
}

static bool own_folder_is_safe(int folder, const char *path, ffn_diag *problem) {
    struct stat seen;
    if (fstat(folder, &seen) != 0)
        diag_fail(problem, FFN_SYSTEM, SHOWN ": %s", path, strerrordesc_np(errno));
    else if (seen.st_uid != geteuid())
        diag_fail(problem, FFN_SYSTEM, SHOWN ": belongs to user %lld, must belong to user %lld", path,
                  (long long)seen.st_uid, (long long)geteuid());
    else if ((seen.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        diag_fail(problem, FFN_SYSTEM, SHOWN ": others may write it (mode %04o): chmod go-w makes it usable", path,
                  (unsigned)seen.st_mode & 07777);
    else
        return true;
    return false;
}

/* Down from "/", name by name: `parts` is cut up. -1 where a step fails. */
static int walk(const char *path, char *parts, bool create, ffn_diag *problem) {
    int at = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct stat top, parent;
    if (at < 0 || fstat(at, &top) != 0) {
        say_errno(problem, path, "/", errno);
        if (at >= 0)
            close(at);
        return -1;
    }
    char *rest = NULL, *name = strtok_r(parts, "/", &rest), *last = NULL;
    if (!name)
        diag_fail(problem, FFN_SYSTEM, "the folder must not be /");
    for (; name && at >= 0; last = name, name = strtok_r(NULL, "/", &rest)) {
        bool is_last = rest[strspn(rest, "/")] == '\0';
        int next = -1;
        if (fstat(at, &parent) == 0 && !parent_is_safe(&parent, &top)) {
            diag_fail(problem, FFN_SYSTEM,
                      SHOWN ": others could replace it: '%.64s' above it (user %lld, "
                            "mode %04o) must belong to you or "
                            "root and be writable by nobody else, or be sticky",
                      path, last ? last : "/", (long long)parent.st_uid, (unsigned)parent.st_mode & 07777);
        } else {
            next = enter(at, name, is_last ? O_RDONLY | O_NOFOLLOW : O_PATH, create);
            if (next < 0 && (create || errno != ENOENT))
                say_errno(problem, path, name, errno);
        }
        close(at);
        at = next;
    }
    if (!last && at >= 0) {
        close(at);
        at = -1;
    }
    return at;
}

int store_folder_open(const char *path, bool create, ffn_diag *problem) {
    char *parts = strdup(path);
    if (!parts) {
        diag_fail(problem, FFN_OUT_OF_MEMORY, "no memory for the folder's path");
        return -1;
    }
    int folder = walk(path, parts, create, problem);
    free(parts);
    if (folder >= 0 && !own_folder_is_safe(folder, path, problem)) {
        close(folder);
        folder = -1;
    }
    return folder;
}
