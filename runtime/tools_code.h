/* tools_code.h: mapped code as perf and gdb are told of it: named ranges of addresses
 *
 * The ranges ascend and cover the text without overlap; none is empty. All functions are called under the lock of
 * tools.c. */
#ifndef FFN_TOOLS_CODE_H
#define FFN_TOOLS_CODE_H

#include "cpu.h"
#include "symbol.h"
#include "tools.h"

typedef struct tools_part {
    uint64_t address, bytes;
    char name[SYMBOL_BYTES];
} tools_part;

typedef struct tools_code {
    ffn_arch arch;
    uint64_t address, bytes; /* of the text */
    int count;
    tools_part parts[SYMBOL_PARTS];
} tools_code;

void tools_code_of(const image *mapped, tools_code *code);

/* Appends the parts to /tmp/perf-<pid>.map; false if that file cannot be trusted or written. */
bool tools_perf_write(const tools_code *code);

/* Tells gdb of the code; NULL if out of memory. */
tools_note *tools_gdb_add(const tools_code *code);
void tools_gdb_remove(tools_note *note);

#endif
