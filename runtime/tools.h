/* tools.h: generated code -> its name in perf and gdb, when asked for
 *
 * Thread-safe. Failing to tell a tool is no failure of the kernel. */
#ifndef FFN_TOOLS_H
#define FFN_TOOLS_H

#include "image.h"

typedef struct tools_note tools_note; /* what must be taken back before the code is unmapped */

/* `tools`: FFN_TOOL_*. NULL where nothing needs to be taken back. Names: the symbols that `ffngen emit` gives the same
 * entries. */
tools_note *tools_register(uint32_t tools, const image *code);
/* NULL is allowed. */
void tools_unregister(tools_note *note);

#endif
