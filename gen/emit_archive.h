/* emit_archive.h: objects -> a static library that linkers take as it is: GNU format, with an index of symbols
 *
 * The bytes depend on the members alone: no time, user or mode is written. */
#ifndef FFN_EMIT_ARCHIVE_H
#define FFN_EMIT_ARCHIVE_H

#include "ffn.h"

typedef struct emit_member {
    const char *name; /* without a '/' */
    ffn_bytes object; /* ELF, 64 bits */
} emit_member;

ffn_status emit_archive(const emit_member *members, size_t count, ffn_bytes *archive, ffn_diag *diag);

#endif
