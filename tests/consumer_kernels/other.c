/* other.c: a shared library that holds the kernels of layers.h, and says what runs */
#include "layers.h"

#ifdef __cplusplus
extern "C"
#endif
    const char *
    other_isa(void);

const char *other_isa(void) {
    return layers_isa();
}
