/* digest.c: an array of floats -> 64 bits that are equal for equal bits of the values, wherever they were computed
 *
 * The sign and payload of a NaN are not part of the numeric contract, so every NaN is hashed as 0x7fc00000. Padding
 * between rows is not read. */
#include "ffn.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t ffn_digest(const float *values, int64_t n, int64_t d_model, int64_t ld) {
    enum { CHUNK = 512 };
    uint32_t words[CHUNK];
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    for (int64_t row = 0; row < n; row++) {
        const float *from = values + row * ld;
        for (int64_t done = 0; done < d_model; done += CHUNK) {
            int64_t rest = d_model - done;
            size_t count = (size_t)(rest < CHUNK ? rest : CHUNK);
            memcpy(words, from + done, count * sizeof *words);
            for (size_t i = 0; i < count; i++)
                if ((words[i] & 0x7fffffff) > 0x7f800000)
                    words[i] = 0x7fc00000;
            XXH3_64bits_update(&state, words, count * sizeof *words);
        }
    }
    return XXH3_64bits_digest(&state);
}
