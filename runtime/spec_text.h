/* spec_text.h: the text of a spec that is known to be valid; so it cannot fail, as ffn_spec_format may for lack of
 * memory */
#ifndef FFN_SPEC_TEXT_H
#define FFN_SPEC_TEXT_H

#include "ffn.h"

void spec_text_of(const ffn_spec *spec, char text[FFN_SPEC_TEXT_BYTES]);

#endif
