/* half.h: 16-bit floats -> f32, exactly
 *
 * Every value of both types is a value of f32, subnormals and infinities included. A NaN keeps sign and payload and
 * comes out quiet. Integer arithmetic but for one product that is never subnormal: no mode of the FPU matters. */
#ifndef FFN_HALF_H
#define FFN_HALF_H

#include <stdint.h>

float half_f16_widen(uint16_t bits);
float half_bf16_widen(uint16_t bits);

#endif
