/* chains.h: stages whose sums are 2 or 4 chains, each a plane of scratch: where they start, and their sum
 *
 * A plane is [row][chain][column] with the columns of the whole stage (docs/numerics.md has the order of the sum). */
#ifndef FFNGEN_CHAINS_H
#define FFNGEN_CHAINS_H

#include "nest_blocks.h"

/* Adds start_chains(start, bias, chains, columns): chain 0 starts at the bias, the others at +0. */
void chains_build_start(nest *n);

/* Sums the chains of panels first .. first + panels - 1 into out, whose column 0 is that of panel `first`. Only `last`
 * columns of the stage's last panel are written (16 where its padding may be). */
void chains_sum(nest *n, const stage *s, LLVMValueRef chains, LLVMValueRef out, LLVMValueRef ldo, LLVMValueRef rows,
                LLVMValueRef first, LLVMValueRef panels, int64_t last);

#endif
