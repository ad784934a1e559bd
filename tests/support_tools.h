/* support_tools.h: images to tell tools of, and gdb's list as gdb declares it */
#ifndef SUPPORT_TOOLS_H
#define SUPPORT_TOOLS_H

#include "image.h"

#define SUPPORT_TOOLS_SPEC "d64-f256-gelu-bias"

/* A header at an address of its own: no code stands behind it, and tools need none. Entries stand 0x100, 0x180, 0x200
 * and 0x300 bytes into a text of 0x380. */
typedef struct support_tools_image {
    image_header header;
    image image;
} support_tools_image;

void support_tools_image_make(ffn_isa isa, uint64_t base, support_tools_image *made);

/* The GDB manual, "JIT Declarations". */
struct gdb_code_entry {
    struct gdb_code_entry *next_entry, *prev_entry;
    const char *symfile_addr;
    uint64_t symfile_size;
};
struct gdb_descriptor {
    uint32_t version, action_flag;
    struct gdb_code_entry *relevant_entry, *first_entry;
};
/* Entries in gdb's list; fails the test if a link does not match the one back. */
int support_gdb_count(void);
const struct gdb_code_entry *support_gdb_first(void);

#endif
