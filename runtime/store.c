/* store.c: key -> image, key and image -> entry, over files that may fail at any time
 *
 * A store holds a path and no descriptor: each call opens the folder anew, so a folder that is removed, replaced or
 * made unsafe while the program runs is noticed, and fork, exec and other threads meet no state. Whatever fails, the
 * caller goes on without; the first reason is told once. */
#define _GNU_SOURCE
#include "store.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "diag.h"
#include "store_file.h"
#include "store_folder.h"
#include "store_list.h"

#define REFRESH_SECONDS 600 /* an entry's time of use is no finer than this: a hit seldom writes */

struct store {
    char *path; /* NULL: there is none, and `no_path` says why */
    ffn_diag no_path;
    uint64_t limit_bytes;
    atomic_bool remarked;
};

store *store_create(const char *folder, size_t limit_bytes) {
    store *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->limit_bytes = limit_bytes;
    atomic_init(&s->remarked, false);
    s->path = store_folder_path(folder, &s->no_path);
    if (!s->path && s->no_path.status == FFN_OUT_OF_MEMORY) {
        free(s);
        return NULL;
    }
    return s;
}

void store_destroy(store *s) {
    if (s) {
        free(s->path);
        free(s);
    }
}

static void remark_once(store *s, const ffn_diag *problem, ffn_diag *remark) {
    if (remark && *problem->text && !atomic_exchange(&s->remarked, true))
        diag_fail(remark, FFN_OK, "disk store: %s", problem->text);
}

static int open_folder(const store *s, bool create, ffn_diag *problem) {
    if (s->path)
        return store_folder_open(s->path, create, problem);
    *problem = s->no_path;
    return -1;
}

static bool find(int folder, const entry *e, store_file *file, ffn_diag *problem) {
    if (!store_file_read(folder, e->name, e->text, e->text_bytes, file, problem))
        return false;
    if (entry_check(e->name, file->head, file->image, file->image_bytes, NULL, NULL)) {
        free(file->image);
        return false;
    }
    if (file->idle_seconds > REFRESH_SECONDS || file->idle_seconds < 0)
        store_file_touch(folder, e->name);
    return true;
}

typedef struct looked_for { /* 9 KiB: not on the stack */
    entry entry;
    store_file file;
} looked_for;

bool store_find(store *s, const store_key *key, ffn_bytes *image, ffn_diag *remark) {
    ffn_diag problem = {.status = FFN_OK};
    bool found = false;
    if (!key->identity)
        return false;
    looked_for *it = malloc(sizeof *it);
    if (!it)
        diag_fail(&problem, FFN_OUT_OF_MEMORY, "no memory to look for an entry");
    else if (entry_of_key(key, &it->entry, &problem) == FFN_OK) {
        int folder = open_folder(s, false, &problem);
        if (folder >= 0) {
            found = find(folder, &it->entry, &it->file, &problem);
            close(folder);
        }
    }
    if (found)
        *image = (ffn_bytes){.data = it->file.image, .bytes = it->file.image_bytes, .release = free};
    free(it);
    remark_once(s, &problem, remark);
    return found;
}

static void keep(int folder, const store *s, const entry *e, const void *image, size_t image_bytes, ffn_diag *problem) {
    char head[ENTRY_HEAD_BYTES];
    entry_head(e, image, image_bytes, head);
    store_sweep(folder); /* first: it may be what makes room */
    if (store_file_write(folder, e->name, head, image, image_bytes, problem))
        store_shrink(folder, s->limit_bytes, e->name);
}

void store_keep(store *s, const store_key *key, const void *image, size_t image_bytes, ffn_diag *remark) {
    ffn_diag problem = {.status = FFN_OK};
    entry e;
    if (!key->identity)
        return;
    if (image_bytes > ENTRY_IMAGE_BYTES_MAX || ENTRY_HEAD_BYTES + image_bytes > s->limit_bytes) {
        diag_fail(&problem, FFN_SYSTEM, "an entry of %zu bytes is above the limit of %llu",
                  ENTRY_HEAD_BYTES + image_bytes, (unsigned long long)s->limit_bytes);
    } else if (entry_of_key(key, &e, &problem) == FFN_OK) {
        int folder = open_folder(s, true, &problem);
        if (folder >= 0) {
            keep(folder, s, &e, image, image_bytes, &problem);
            close(folder);
        }
    }
    remark_once(s, &problem, remark);
}
