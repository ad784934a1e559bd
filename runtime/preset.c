/* preset.c: templates/presets.def -> the table of known models */
#include "ffn.h"

static const ffn_preset presets[] = {
#define FFN_PRESET_ROW(name, spec, source) {name, spec, source},
#include "../templates/presets.def"
};

const ffn_preset *ffn_preset_at(size_t i) {
    return i < sizeof presets / sizeof *presets ? &presets[i] : NULL;
}
