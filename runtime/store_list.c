/* store_list.c: the names in a folder -> entries by age; entries over the limit and what killed writers left -> gone
 *
 * Several processes may tidy up at once, and others write and read: a name that is gone is nobody's mistake. Nothing
 * is touched but files that have the name of an entry or of a temporary file. */
#define _GNU_SOURCE
#include "store_list.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "diag.h"
#include "store_file.h"

static DIR *open_names(int folder, ffn_diag *problem) {
    int again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* a position of its own */
    DIR *names = again >= 0 ? fdopendir(again) : NULL;
    if (!names) {
        diag_fail(problem, FFN_SYSTEM, "the folder cannot be listed: %s", strerrordesc_np(errno));
        if (again >= 0)
            close(again);
    }
    return names;
}

static bool look(int folder, const char *name, struct stat *seen) {
    return fstatat(folder, name, seen, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool add(store_listing *listing, const char *name, const struct stat *seen) {
    if (listing->count == listing->room) {
        size_t room = listing->room ? 2 * listing->room : 64;
        store_listed *rows = realloc(listing->rows, room * sizeof *rows);
        if (!rows)
            return false;
        listing->rows = rows;
        listing->room = room;
    }
    store_listed *row = &listing->rows[listing->count++];
    *row = (store_listed){.is_file = S_ISREG(seen->st_mode),
                          .used_seconds = seen->st_mtim.tv_sec,
                          .used_nanoseconds = seen->st_mtim.tv_nsec};
    row->bytes = row->is_file ? (uint64_t)seen->st_size : 0;
    memcpy(row->name, name, strlen(name) + 1);
    listing->bytes += row->bytes;
    return true;
}

static int by_use(const void *left, const void *right) {
    const store_listed *a = left, *b = right;
    if (a->used_seconds != b->used_seconds)
        return a->used_seconds < b->used_seconds ? -1 : 1;
    if (a->used_nanoseconds != b->used_nanoseconds)
        return a->used_nanoseconds < b->used_nanoseconds ? -1 : 1;
    return strcmp(a->name, b->name);
}

bool store_list(int folder, store_listing *listing, ffn_diag *problem) {
    *listing = (store_listing){0};
    DIR *names = open_names(folder, problem);
    if (!names)
        return false;
    bool complete = true;
    for (struct dirent *item; complete && (item = readdir(names)) != NULL;) {
        struct stat seen;
        if (entry_is_name(item->d_name) && look(folder, item->d_name, &seen))
            complete = add(listing, item->d_name, &seen);
    }
    closedir(names);
    if (!complete)
        diag_fail(problem, FFN_OUT_OF_MEMORY, "no memory for a list of %zu entries", listing->count + 1);
    if (listing->count > 0)
        qsort(listing->rows, listing->count, sizeof *listing->rows, by_use);
    return complete;
}

void store_listing_free(store_listing *listing) {
    free(listing->rows);
    *listing = (store_listing){0};
}

size_t store_sweep(int folder) {
    DIR *names = open_names(folder, NULL);
    size_t removed = 0;
    for (struct dirent *item; names && (item = readdir(names)) != NULL;) {
        struct stat seen;
        int64_t process;
        if (store_file_is_temporary(item->d_name, &process) && look(folder, item->d_name, &seen) &&
            S_ISREG(seen.st_mode) &&
            store_file_is_stale(folder, item->d_name, process, (int64_t)time(NULL) - (int64_t)seen.st_mtime))
            removed += unlinkat(folder, item->d_name, 0) == 0;
    }
    if (names)
        closedir(names);
    return removed;
}

/* True once the entry is gone. One that another process has used or replaced since it was listed stays. */
static bool remove_listed(int folder, const store_listed *row) {
    struct stat seen;
    if (!look(folder, row->name, &seen))
        return true;
    return S_ISREG(seen.st_mode) && seen.st_mtim.tv_sec == row->used_seconds &&
           seen.st_mtim.tv_nsec == row->used_nanoseconds && unlinkat(folder, row->name, 0) == 0;
}

void store_shrink(int folder, uint64_t limit_bytes, const char *stays) {
    store_listing listing;
    if (store_list(folder, &listing, NULL)) {
        for (size_t i = 0; i < listing.count && listing.bytes > limit_bytes; i++) {
            const store_listed *row = &listing.rows[i];
            if (strcmp(row->name, stays) != 0 && remove_listed(folder, row))
                listing.bytes -= row->bytes;
        }
    }
    store_listing_free(&listing);
}

bool store_remove(int folder, const char *name) {
    struct stat seen;
    return look(folder, name, &seen) && S_ISREG(seen.st_mode) && unlinkat(folder, name, 0) == 0;
}
