/* other_version.c: a library that looks like libffngen and belongs to another version, or to one before versions were
 * told */
#include <stdlib.h>

#include "ffn.h"

#if defined(TOLD)
const char *ffngen_version(void);
const char *ffngen_version(void) {
    return "0.0.1";
}
#endif

const ffn_source *ffngen_source(void);
const ffn_source *ffngen_source(void) {
    abort(); /* what it returns may have another layout */
}
