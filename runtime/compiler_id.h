/* compiler_id.h: what names a compiler's images: generator hash and the LLVM below it -> one line
 *
 * Worked out in two places that must agree: by libffn from the text file beside libffngen, without loading it, and by
 * libffngen from what it was built from and the libLLVM that it is bound to. */
#ifndef FFN_COMPILER_ID_H
#define FFN_COMPILER_ID_H

#include <stdbool.h>

#include "ffn.h"

#define COMPILER_ID_BYTES 256
#define COMPILER_ID_FILE "libffngen.id"

typedef struct compiler_id { /* the lines of libffngen.id */
    char generator[80];
    char llvm[16];
    char libllvm[4096]; /* file; stands in the line by its size and date */
} compiler_id;

/* SYSTEM if the file cannot be read or is not one of these. */
ffn_status compiler_id_read(const char *file, compiler_id *id, ffn_diag *diag);
/* False if the libLLVM is not there. */
bool compiler_id_line(const compiler_id *id, char line[COMPILER_ID_BYTES]);

#endif
