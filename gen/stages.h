/* stages.h: a kernel that counts where its time goes, for `ffngen bench --stages` alone
 *
 * The same code, and around each product and the activation two readings of the CPU's counter of time, whose difference
 * is added to the counters of that part, which lie behind what the plan asks of scratch. What was interrupted is told
 * by its length: no more than `most` of a reading counts. No plan, no format and no public function leads to such an
 * image; it is not verified and has no name in the store. */
#ifndef FFNGEN_STAGES_H
#define FFNGEN_STAGES_H

#include "ffn.h"

typedef enum stages_part { STAGES_EXPAND, STAGES_ACTIVATE, STAGES_CONTRACT, STAGES_PARTS } stages_part;

/* An i64 each, STAGES_WORDS for each part: set by who runs the kernel, added to by the kernel. */
typedef enum stages_word { STAGES_SPENT, STAGES_WHOLE, STAGES_READINGS, STAGES_MOST, STAGES_WORDS } stages_word;

ffn_status stages_image(const ffn_spec *spec, const ffn_plan *plan, ffn_bytes *image, ffn_diag *diag);

#endif
