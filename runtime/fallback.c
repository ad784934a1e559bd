/* fallback.c: x, packed weights -> y by the numeric contract (docs/numerics.md), for any spec on any CPU
 *
 *     for each block of rows, for each block of hidden columns:
 *         h = act(b + x W), panel by panel, into scratch
 *         y += h W, panel by panel; between blocks y keeps the first chain's partial sums, scratch those of the others
 *
 * Invariant: an output's value is made of tile calls in the order of its terms, of one sum of its chains and of one
 * addition of +0; blocks store and reload f32 partial sums, which changes no bit. */
#include "fallback.h"

#include "fallback_tile.h"
#include "image.h"

#include <string.h>

#if defined(__FAST_MATH__)
#error "the numeric contract needs IEEE arithmetic: compile without -ffast-math"
#endif

enum {
    ROWS = 96,   /* rows that share one pass over the weights */
    BLOCK = 512, /* hidden columns at a time, gate and up counted each: 192 KiB of scratch with ROWS */
    CHAINS_MAX = 4,
};

/* One matrix product: columns of panels, over `terms` terms. */
typedef struct product {
    fallback_tile tile;
    const float *panels;
    int64_t panel_stride; /* floats */
    const float *bias;
    int64_t terms;
    int32_t chains;
} product;

/* The chains of one tile, each as `tile` takes it. */
typedef struct chain_sums {
    _Alignas(64) float of[CHAINS_MAX][FALLBACK_TILE_ROWS][FFN_PANEL];
} chain_sums;

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t padded(int64_t columns) {
    return (columns + FFN_PANEL - 1) / FFN_PANEL * FFN_PANEL;
}

/* Rows are shared out evenly: 8 rows are 4 + 4, since a tile of 2 would leave the FMA units half idle. */
static int64_t tiles_for(int64_t rows) {
    return (rows + FALLBACK_TILE_ROWS - 1) / FALLBACK_TILE_ROWS;
}

static product expand_product(fallback_tile tile, const ffn_spec *spec, const packed_layout *at, const char *packed,
                              bool gate) {
    return (product){.tile = tile,
                     .panels = (const float *)(packed + (gate ? at->expand : at->expand_up)),
                     .panel_stride = at->expand_panel_stride / (int64_t)sizeof(float),
                     .bias = (const float *)(packed + (gate ? at->bias_gate : at->bias_up)),
                     .terms = spec->d_model,
                     .chains = plan_chains(spec->d_ff)};
}

static product contract_product(fallback_tile tile, const ffn_spec *spec, const packed_layout *at, const char *packed) {
    return (product){.tile = tile,
                     .panels = (const float *)(packed + at->contract),
                     .panel_stride = at->contract_panel_bytes / (int64_t)sizeof(float),
                     .bias = (const float *)(packed + at->bias_down),
                     .terms = spec->d_ff,
                     .chains = plan_chains(spec->d_model)};
}

/* Chain 0 starts at the bias, the others at +0. */
static void chains_start(const product *of, int64_t panel, int64_t rows, chain_sums *sums) {
    for (int64_t r = 0; r < rows; r++)
        memcpy(sums->of[0][r], of->bias + panel * FFN_PANEL, sizeof sums->of[0][r]);
    for (int32_t c = 1; c < of->chains; c++)
        memset(sums->of[c], 0, (size_t)rows * sizeof sums->of[c][0]);
}

/* Terms begin .. end - 1 (begin a multiple of the chains), each to its chain; a: [rows][terms from begin on]. */
static void chains_add(const product *of, int64_t panel, int64_t rows, const float *a, int64_t lda, int64_t begin,
                       int64_t end, chain_sums *sums) {
    const float *weights = of->panels + panel * of->panel_stride + begin * FFN_PANEL;
    for (int32_t c = 0; c < of->chains; c++)
        of->tile(rows, a + c, lda, weights + c * FFN_PANEL, (end - begin - c + of->chains - 1) / of->chains, of->chains,
                 sums->of[c][0]);
}

/* The chains' sum, into chain 0. */
static void chains_join(const product *of, int64_t rows, chain_sums *sums) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < FFN_PANEL; c++)
            if (of->chains == 4)
                sums->of[0][r][c] = (sums->of[0][r][c] + sums->of[1][r][c]) + (sums->of[2][r][c] + sums->of[3][r][c]);
            else if (of->chains == 2)
                sums->of[0][r][c] = sums->of[0][r][c] + sums->of[1][r][c];
}

/* x W + b for columns begin .. end - 1 (begin a multiple of 16) -> pre: [rows][padded(end - begin)]. */
static void expand_panels(const product *of, const float *x, int64_t ldx, int64_t rows, int64_t begin, int64_t end,
                          float *pre) {
    const int64_t tiles = tiles_for(rows), width = padded(end - begin);
    for (int64_t column = 0; column < width; column += FFN_PANEL)
        for (int64_t t = 0; t < tiles; t++) {
            const int64_t first = rows * t / tiles, height = rows * (t + 1) / tiles - first;
            const int64_t panel = (begin + column) / FFN_PANEL;
            chain_sums sums;
            chains_start(of, panel, height, &sums);
            chains_add(of, panel, height, x + first * ldx, ldx, 0, of->terms, &sums);
            chains_join(of, height, &sums);
            for (int64_t r = 0; r < height; r++)
                memcpy(pre + (first + r) * width + column, sums.of[0][r], sizeof sums.of[0][r]);
        }
}

/* Hidden columns at a time: a multiple of 16, and of the chains. */
static int64_t block_of(const ffn_spec *spec, bool gated) {
    return least(gated ? BLOCK / 2 : BLOCK, padded(spec->d_ff));
}

/* h for hidden columns begin .. end - 1, at most block_of -> scratch: [rows][padded(end - begin)]. */
static void expand_block(fallback_tile tile, const ffn_spec *spec, const packed_layout *at, const formula_graph *graph,
                         const float *x, int64_t ldx, int64_t rows, const char *packed, int64_t begin, int64_t end,
                         float *scratch) {
    const int64_t count = rows * padded(end - begin);
    const product up = expand_product(tile, spec, at, packed, false);
    if (!graph->gated) {
        expand_panels(&up, x, ldx, rows, begin, end, scratch);
        formula_eval(graph, count, scratch, NULL, scratch);
        return;
    }
    const product gate = expand_product(tile, spec, at, packed, true);
    float *up_pre = scratch + ROWS * block_of(spec, true);
    expand_panels(&gate, x, ldx, rows, begin, end, scratch);
    expand_panels(&up, x, ldx, rows, begin, end, up_pre);
    formula_eval(graph, count, scratch, up_pre, scratch);
}

/* Where partial sums wait between two hidden blocks: chain 0 in y, chain c in row (c - 1) ROWS + row of `others`. */
typedef struct partial_sums {
    float *y;
    int64_t ldy;
    float *others;
    int64_t ld;
} partial_sums;

static float *partial_at(const partial_sums *in, int32_t chain, int64_t row, int64_t column) {
    return chain == 0 ? in->y + row * in->ldy + column : in->others + ((chain - 1) * ROWS + row) * in->ld + column;
}

static void partial_load(const partial_sums *in, const product *of, int64_t first, int64_t height, int64_t column,
                         int64_t width, chain_sums *sums) {
    memset(sums, 0, sizeof *sums);
    for (int32_t c = 0; c < of->chains; c++)
        for (int64_t r = 0; r < height; r++)
            memcpy(sums->of[c][r], partial_at(in, c, first + r, column), (size_t)width * sizeof(float));
}

static void partial_store(const partial_sums *in, int32_t chains, int64_t first, int64_t height, int64_t column,
                          int64_t width, const chain_sums *sums) {
    for (int32_t c = 0; c < chains; c++)
        for (int64_t r = 0; r < height; r++)
            memcpy(partial_at(in, c, first + r, column), sums->of[c][r], (size_t)width * sizeof(float));
}

/* Terms begin .. end - 1 of columns col_begin .. col_end - 1 of y. hidden: [rows][terms from begin on] at stride ldh.
 */
static void contract_panels(const product *of, const float *hidden, int64_t ldh, int64_t rows, int64_t begin,
                            int64_t end, int64_t col_begin, int64_t col_end, const partial_sums *partial) {
    const int64_t tiles = tiles_for(rows);
    const bool last = end == of->terms;
    for (int64_t column = col_begin; column < col_end; column += FFN_PANEL) {
        const int64_t width = least(FFN_PANEL, col_end - column), panel = column / FFN_PANEL;
        for (int64_t t = 0; t < tiles; t++) {
            const int64_t first = rows * t / tiles, height = rows * (t + 1) / tiles - first;
            chain_sums sums;
            if (begin == 0)
                chains_start(of, panel, height, &sums);
            else
                partial_load(partial, of, first, height, column, width, &sums);
            chains_add(of, panel, height, hidden + first * ldh, ldh, begin, end, &sums);
            if (last) {
                chains_join(of, height, &sums);
                for (int64_t r = 0; r < height; r++)
                    for (int64_t c = 0; c < FFN_PANEL; c++)
                        sums.of[0][r][c] += 0.0f; /* -0 becomes +0 */
            }
            partial_store(partial, last ? 1 : of->chains, first, height, column, width, &sums);
        }
    }
}

static int64_t hidden_floats(const ffn_spec *spec, bool gated) {
    return ROWS * block_of(spec, gated) * (gated ? 2 : 1);
}

size_t fallback_scratch_bytes(const ffn_spec *spec) {
    const int64_t others = (plan_chains(spec->d_model) - 1) * ROWS * padded(spec->d_model);
    return (size_t)(hidden_floats(spec, ffn_spec_gated(spec)) + others) * sizeof(float);
}

void fallback_run_by(fallback_tile tile, const ffn_spec *spec, const packed_layout *layout, const formula_graph *graph,
                     const float *x, int64_t ldx, float *y, int64_t ldy, const void *packed, void *scratch,
                     int64_t row_begin, int64_t row_end) {
    const product down = contract_product(tile, spec, layout, packed);
    const int64_t block = block_of(spec, graph->gated);
    float *hidden = scratch;
    for (int64_t row = row_begin; row < row_end; row += ROWS) {
        const int64_t rows = least(ROWS, row_end - row);
        const partial_sums partial = {y + row * ldy, ldy, hidden + hidden_floats(spec, graph->gated),
                                      padded(spec->d_model)};
        for (int64_t begin = 0; begin < spec->d_ff; begin += block) {
            const int64_t end = least(begin + block, spec->d_ff);
            expand_block(tile, spec, layout, graph, x + row * ldx, ldx, rows, packed, begin, end, hidden);
            contract_panels(&down, hidden, padded(end - begin), rows, begin, end, 0, spec->d_model, &partial);
        }
    }
}

void fallback_expand_by(fallback_tile tile, const ffn_spec *spec, const packed_layout *layout,
                        const formula_graph *graph, const float *x, int64_t ldx, const void *packed, float *hidden,
                        void *scratch, int64_t n, int64_t col_begin, int64_t col_end) {
    const int64_t block = block_of(spec, graph->gated), stride = image_hidden_stride(spec);
    const float *made = scratch;
    for (int64_t row = 0; row < n; row += ROWS) {
        const int64_t rows = least(ROWS, n - row);
        for (int64_t begin = col_begin; begin < col_end; begin += block) {
            const int64_t end = least(begin + block, col_end);
            expand_block(tile, spec, layout, graph, x + row * ldx, ldx, rows, packed, begin, end, scratch);
            for (int64_t r = 0; r < rows; r++)
                memcpy(hidden + (row + r) * stride + begin, made + r * padded(end - begin),
                       (size_t)(end - begin) * sizeof *made);
        }
    }
}

void fallback_contract_by(fallback_tile tile, const ffn_spec *spec, const packed_layout *layout, const float *hidden,
                          const void *packed, float *y, int64_t ldy, int64_t n, int64_t col_begin, int64_t col_end) {
    const product down = contract_product(tile, spec, layout, packed);
    const int64_t stride = image_hidden_stride(spec);
    for (int64_t row = 0; row < n; row += ROWS) {
        const partial_sums partial = {.y = y + row * ldy, .ldy = ldy}; /* all terms at once: none wait */
        contract_panels(&down, hidden + row * stride, stride, least(ROWS, n - row), 0, spec->d_ff, col_begin, col_end,
                        &partial);
    }
}

void fallback_run(const ffn_spec *spec, const packed_layout *layout, const formula_graph *graph, const float *x,
                  int64_t ldx, float *y, int64_t ldy, const void *packed, void *scratch, int64_t row_begin,
                  int64_t row_end) {
    fallback_run_by(fallback_tile_best(), spec, layout, graph, x, ldx, y, ldy, packed, scratch, row_begin, row_end);
}

void fallback_expand(const ffn_spec *spec, const packed_layout *layout, const formula_graph *graph, const float *x,
                     int64_t ldx, const void *packed, float *hidden, void *scratch, int64_t n, int64_t col_begin,
                     int64_t col_end) {
    fallback_expand_by(fallback_tile_best(), spec, layout, graph, x, ldx, packed, hidden, scratch, n, col_begin,
                       col_end);
}

void fallback_contract(const ffn_spec *spec, const packed_layout *layout, const float *hidden, const void *packed,
                       float *y, int64_t ldy, void *scratch, int64_t n, int64_t col_begin, int64_t col_end) {
    (void)scratch; /* the whole sums stand in one tile; entries of an image have the same arguments */
    fallback_contract_by(fallback_tile_best(), spec, layout, hidden, packed, y, ldy, n, col_begin, col_end);
}
