/* symbol.h: spec and plan -> the names of a kernel's parts, one rule for objects, perf and gdb */
#ifndef FFN_SYMBOL_H
#define FFN_SYMBOL_H

#include "image.h"

/* What the entries share stands in front of them; it has no name in an object. */
enum { SYMBOL_TILES = IMAGE_ENTRIES, SYMBOL_PARTS };

/* "n1", "n2", "n5", "n17": the least n of a class. */
extern const char *const symbol_classes[FFN_N_CLASSES];
/* How the names end. */
extern const char *const symbol_endings[SYMBOL_PARTS];

#define SYMBOL_BYTES (FFN_SPEC_NAME_BYTES + 32)

/* ffn_<spec>_<isa>_n<least n of the class>_<part>: "ffn_d768_f3072_gelu_bias_avx2_n17_fused". Spec and plan are valid;
 * `part` is an image_entry or SYMBOL_TILES. */
void symbol_name(const ffn_spec *spec, const ffn_plan *plan, int part, char name[SYMBOL_BYTES]);

#endif
