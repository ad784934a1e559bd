/* ffn_blas.h: OpenBLAS as the independent product that verification can be handed (libffnblas) */
#ifndef FFN_BLAS_H
#define FFN_BLAS_H

#include "ffn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Static; never released; may be used from several threads. `describe` names version, build options and core type. With
 * `single_thread` OpenBLAS is told, for the whole process, to run on the calling thread alone; without it the number of
 * its threads is left as it is. */
FFN_API const ffn_product *ffn_blas_product(bool single_thread);

#ifdef __cplusplus
}
#endif
#endif
