/* tune_weights.h: a spec -> packed weights to time kernels on
 *
 * Seeded values of the order of a trained layer's. Where they are to be cold there are as many copies, used in turn, as
 * it takes to be out of the caches before a copy's turn comes again. */
#ifndef TUNE_WEIGHTS_H
#define TUNE_WEIGHTS_H

#include "buffers.h"
#include "ffn.h"

/* OUT_OF_MEMORY says how much was wanted. bench_copies_free frees. */
ffn_status tune_weights_make(const ffn_spec *spec, bool cold, const ffn_machine *machine, bench_copies *packed,
                             ffn_diag *diag);

#endif
