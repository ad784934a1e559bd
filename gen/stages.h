/* stages.h: a kernel that counts where its time goes, for `ffngen bench --stages` alone
 *
 * The same code, and around each product and the activation two readings of the CPU's counter of time, whose difference
 * goes into one of the counters: u64 each, behind what the plan asks of scratch. They are never set to zero here. No
 * plan, no format and no public function leads to such an image; it is not verified and has no name in the store. */
#ifndef FFNGEN_STAGES_H
#define FFNGEN_STAGES_H

#include "ffn.h"

typedef enum stages_counter { STAGES_EXPAND, STAGES_ACTIVATE, STAGES_CONTRACT, STAGES_COUNTERS } stages_counter;

ffn_status stages_image(const ffn_spec *spec, const ffn_plan *plan, ffn_bytes *image, ffn_diag *diag);

#endif
