/* support_store.h: folders, keys and images for the suites of the disk store
 *
 * The images have a whole header and bytes of nonsense for code: enough for every check that runs nothing, on any CPU
 * and for any ISA. */
#ifndef SUPPORT_STORE_H
#define SUPPORT_STORE_H

#include "store.h"

#define STORE_HEAD_BYTES 4096 /* docs/store.md */
#define STORE_PATH_BYTES 4096

/* An absolute path of a new folder of mode 0700 that is removed when the process ends; static storage. */
const char *support_store_scratch(void);

typedef struct store_case { /* a key with what it points to, and its image */
    ffn_spec spec;
    ffn_plan plan;
    store_key key;
    void *image;
    size_t image_bytes;
} store_case;

/* `text` is a spec, `code_bytes` a multiple of 4096; the same arguments give the same image. */
void store_case_init(store_case *c, const char *text, ffn_isa isa, ffn_n_class n_class, size_t code_bytes);
/* The image again for a key or plan that was changed. */
void store_case_renew(store_case *c, size_t code_bytes);
void store_case_free(store_case *c);

/* A store of its own for the one call, without a limit. */
void store_case_keep(const char *folder, const store_case *c);
bool store_case_found(const char *folder, const store_case *c);

/* The name of the only entry in the folder; static storage. */
const char *support_store_entry(const char *folder);
/* Regular files below the folder whose names end like this. */
int support_store_count(const char *folder, const char *suffix);
/* folder/name; good until the next scratch folder. */
const char *support_store_path(const char *folder, const char *name);

/* Whole files. */
unsigned char *support_read_file(const char *path, size_t *bytes);
void support_write_file(const char *path, const void *data, size_t bytes);
/* Renews the checksum of an entry's bytes, as docs/store.md defines it. */
void support_store_seal(unsigned char *file, size_t bytes);

#endif
