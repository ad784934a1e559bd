/* libxsmm_blocks.h: an FFN in blocks that BRGEMM kernels of libxsmm multiply
 *
 * Everything is kept in blocks, as libxsmm's own layers keep it: x [rows/bn][d_model/bk][bn][bk], the hidden values
 * [rows/bn][d_ff/bf][bn][bf], y [rows/bn][d_model/bm][bn][bm], weights in panels of bf and bm columns. Blocks are made
 * equally large; what is over is zeros. A kernel adds up all blocks of a sum in one call; the bias is in the block
 * beforehand, the activation runs over it at once afterwards, while it is hot: 1.17 fuses neither into f32 kernels. */
#ifndef BENCH_LIBXSMM_BLOCKS_H
#define BENCH_LIBXSMM_BLOCKS_H

#include "peer_module.h"
#include "team.h"

typedef enum xsmm_order {
    XSMM_WEIGHTS_OUTER, /* a panel of weights meets all rows before the next; expand whole, then contract */
    XSMM_ROWS_OUTER,    /* a block of rows goes through expand and contract before the next */
    XSMM_FUSED,         /* so many hidden columns at a time go through both, all rows each */
    XSMM_ORDERS
} xsmm_order;

/* What is searched; sizes are wishes, blocks come out equal. */
typedef struct xsmm_blocking {
    int64_t bn, bk, width; /* rows, d_model in a sum, columns of both kinds of panels */
    int64_t chunk;         /* hidden columns of XSMM_FUSED */
    xsmm_order order;
} xsmm_blocking;

/* The weights of a layer in panels of one width; copies as the layer has them. */
typedef struct xsmm_panels {
    int64_t width;         /* as wished; 0: none */
    bench_copies matrices; /* blocks: the parts below, offsets in elements */
    int64_t part[BENCH_PRODUCTS];
    int64_t bf, bm; /* columns of a panel */
} xsmm_panels;

/* False without memory. */
bool xsmm_panels_make(const bench_layer *layer, int64_t width, xsmm_panels *panels);
void xsmm_panels_free(xsmm_panels *panels);

typedef struct xsmm_plan xsmm_plan;

/* NULL where memory is short or libxsmm makes no kernel. All that is passed must outlive it. */
xsmm_plan *xsmm_plan_make(bench_layer *layer, const xsmm_panels *panels, const xsmm_blocking *blocking, int64_t n,
                          const float *x, peer_lender lender, bench_team *team);
void xsmm_plan_free(xsmm_plan *plan); /* NULL is allowed */
void xsmm_plan_run(void *plan);
/* The y of the last run, [n][d_model], dense. */
void xsmm_plan_output(const xsmm_plan *plan, float *y);

#endif
