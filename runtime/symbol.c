/* symbol.c: see symbol.h */
#include "symbol.h"

#include <stdio.h>

const char *const symbol_classes[FFN_N_CLASSES] = {
    [FFN_N_1] = "n1", [FFN_N_2_4] = "n2", [FFN_N_5_16] = "n5", [FFN_N_17_UP] = "n17"};

const char *const symbol_endings[SYMBOL_PARTS] = {[IMAGE_FUSED] = "_fused",
                                                  [IMAGE_EXPAND] = "_expand",
                                                  [IMAGE_CONTRACT] = "_contract",
                                                  [IMAGE_ACTIVATE] = "_activate",
                                                  [SYMBOL_TILES] = "_tiles"};

void symbol_name(const ffn_spec *spec, const ffn_plan *plan, int part, char name[SYMBOL_BYTES]) {
    char spec_name[FFN_SPEC_NAME_BYTES] = "";
    ffn_spec_name(spec, true, spec_name, sizeof spec_name, NULL);
    snprintf(name, SYMBOL_BYTES, "ffn_%s_%s_%s%s", spec_name, ffn_isa_name(plan->isa), symbol_classes[plan->n_class],
             symbol_endings[part]);
}
