/* link.h: LLVM's relocatable object -> an image (runtime/image.h) */
#ifndef FFNGEN_LINK_H
#define FFNGEN_LINK_H

#include "ffngen.h"
#include "isa.h"

/* Lays out code and constants, resolves what is left to relocate, fills the header. COMPILE_FAILED for anything that
 * would not be position-independent and self-contained: an undefined symbol, writable data, an unknown relocation. */
ffn_status link_image(const ffn_bytes *object, const ffn_spec *spec, const ffn_plan *plan, const isa_row *isa,
                      ffn_bytes *image, ffn_diag *diag);

/* Of the sources of the generator: what images are marked with. */
uint64_t link_generator_hash(void);

#endif
