/* softfma.c: the software FMA as a function, for emitted headers' tests and whoever cannot inline it */
#include "fallback.h"
#include "fallback_softfma.h"

float softfma(float a, float b, float c) {
    return fallback_softfma(a, b, c);
}
