/* free_order.h: a kernel that does not keep the numeric contract -> what the contract costs, for `ffngen bench
 * --contract` alone
 *
 * The same loops, with the freedom that other libraries take: sums split over as many registers as there are, an
 * activation that LLVM may rewrite, no last addition. No plan, no format and no public function leads here; the images
 * are not verified, have no name in the store, and fail verification where their bits differ. */
#ifndef FFNGEN_FREE_ORDER_H
#define FFNGEN_FREE_ORDER_H

#include "ffn.h"

typedef struct free_order {
    int32_t sums;  /* partial sums of each output in a tile, at most 4; 0: the contract's order */
    uint32_t math; /* LLVM's fast-math flags, for the operations of the activation */
    bool dense;    /* zeros in h are multiplied like all else (sparse.h): the contract's bits, for `bench --dense` */
} free_order;

ffn_status free_order_image(const ffn_spec *spec, const ffn_plan *plan, const free_order *order, ffn_bytes *image,
                            ffn_diag *diag);

#endif
