/* plan.h: what a plan means for memory and rows; shared by the planner, the kernel and the generator */
#ifndef FFN_PLAN_H
#define FFN_PLAN_H

#include "ffn.h"

/* Limits of a plan. */
#define PLAN_MR_MAX 16
#define PLAN_PANELS_MAX 8
#define PLAN_UNROLL_MAX 8
#define PLAN_AHEAD_MAX 256
#define PLAN_CHUNK_MAX 65536
#define PLAN_GROUP_MAX 16
#define PLAN_M_BLOCK_MAX 4096
#define PLAN_COPY_X_INTERLEAVED 2
#define PLAN_HIDDEN_MAX (INT64_C(1) << 28)

/* BAD_ARGUMENT for caches that cannot be. */
ffn_status plan_machine_check(const ffn_machine *machine, ffn_diag *diag);

/* ffn_plan_check for a spec that has been checked: allocates nothing. */
ffn_status plan_check_fields(const ffn_spec *spec, const ffn_plan *plan, ffn_diag *diag);

/* Chains of a stage with this many output columns (the numeric contract): a rule of the spec alone. */
static inline int32_t plan_chains(int64_t columns) {
    return columns <= 32 ? 4 : columns <= 64 ? 2 : 1;
}

/* f32 lanes of the vectors that a plan uses. */
int32_t plan_lanes(const ffn_plan *plan);

/* Chains that one tile keeps in registers at once: enough independent sums to hide the latency of the FMA. */
int32_t plan_chains_at_once(int32_t lanes, ffn_tile tile, int32_t chains);

/* Vector registers a tile needs: accumulators, the operand that stays, and one for the operand that streams past. */
int32_t plan_tile_registers(int32_t lanes, ffn_tile tile, int32_t chains_at_once);

/* Height of the next row tile when `rows` are left in a block: the tallest while two of it fit, then what the plan's
 * row_split says. */
int32_t plan_next_height(const ffn_plan *plan, int64_t rows);

/* Panels that pass through the row tiles together: at least as many as the widest tile has. */
int32_t plan_group(const ffn_plan *plan);

bool plan_has_tile(const ffn_plan *plan, int32_t mr, int32_t panels);

/* Panels that are best dealt out together: of the widest tile that has no one-panel tile of its height beside it. What
 * is left over of its panels, 1x1 takes row by row. */
int32_t plan_unit(const ffn_plan *plan);

/* The plan's chunk where a stage of so many chains and terms has several; else 0. */
int64_t plan_chunk(const ffn_plan *plan, int32_t chains, int64_t terms);
/* True if kernels of this plan may look for zeros in h (gen/sparse.h): few rows, and one chain in the contract stage.
 * Whether they do depends on the activation too; scratch is for all of them the same. */
bool plan_lists_columns(const ffn_spec *spec, const ffn_plan *plan);

/* True if x and h go through scratch in the order in which tiles read them (gen/interleave.h). */
static inline bool plan_interleaves(const ffn_plan *plan) {
    return plan->copy_x == PLAN_COPY_X_INTERLEAVED;
}

/* True if sums of y wait where rows do not share cache sets: there are several blocks of hidden columns, rows enough to
 * share them, and the plan says so. */
bool plan_holds_y(const ffn_spec *spec, const ffn_plan *plan);

/* Scratch of one call, offsets in floats, each part FFN_SCRATCH_ALIGN aligned. Parts a spec does not need are empty. */
typedef struct plan_scratch {
    int64_t x;             /* [m_block][x_stride]: a k block of x, where the plan copies it; then h, interleaved too */
    int64_t x_stride;      /* its longest row and a line more, so that rows do not share cache sets */
    int64_t sums;          /* [m_block][sums_stride]: sums of the last panels of y, where the plan holds them */
    int64_t sums_stride;   /* whole groups of panels: as many as the tallest tile has rows, less one */
    int64_t hidden;        /* [m_block][hidden_stride]: h, and before that the up values */
    int64_t gate;          /* [m_block][gate_stride]: for gated activations */
    int64_t gate_stride;   /* likewise; of one group of panels alone where its sums are whole when the next begins */
    bool gate_group;       /* that it is so */
    int64_t hidden_stride; /* f_block and a line more, so that rows do not share cache sets */
    /* Stages with several chains: partial sums [m_block][chains][columns], and where they start: [chains][columns]. */
    int64_t expand_chains, expand_start, contract_chains, contract_start;
    int64_t ragged; /* [m_block][16]: the last panel of y where d_model is no multiple of 16 */
    int64_t list;   /* [f_block] of int32_t: the columns of h that are not zero, where plan_lists_columns */
    int64_t bytes;
} plan_scratch;

void plan_scratch_of(const ffn_spec *spec, const ffn_plan *plan, plan_scratch *scratch);
int64_t plan_scratch_bytes(const ffn_spec *spec, const ffn_plan *plan);

#endif
