/* hand.c: see hand.h */
#include "hand.h"

#include "diag.h"

#include <stdlib.h>

#define SEED 9
#define FEW_ROWS 16     /* one block; the way to prefetch is what decides */
#define CHOICE_ROWS 132 /* enough to choose by: more take longer, not another way */
#define FIRST_SECONDS 0.05
#define FIRST_ROUNDS 2
#define BEST 4
#define BEST_SECONDS 0.1
#define BEST_ROUNDS 3

enum { WAYS_MAX = 96 }; /* of either list */

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t panels_of(int64_t columns) {
    return (columns + HAND_PANEL - 1) / HAND_PANEL;
}

/* Floats from row to row of what the expand stage writes for so many hidden columns: of the gate too. */
static int64_t ldh_of(const bench_hand *hand, int64_t columns) {
    return (panels_of(columns) * (hand->layer->gated ? 2 : 1) + HAND_STREAMS) * HAND_PANEL;
}

/* ---- One run ---- */

static hand_sweep sweep_of(const bench_hand *hand, int64_t rows) {
    return (hand_sweep){.rows = rows, .chunk = hand->way.chunk, .tiles = hand->way.tiles, .ahead = hand->way.ahead};
}

static void expand(const bench_hand *hand, const char *packed, const float *x, int64_t rows, int64_t first,
                   int64_t columns) {
    const packed_layout *layout = &hand->layout;
    const int64_t d_model = hand->layer->spec.d_model, each = hand->layer->gated ? 2 : 1;
    for (int64_t k = 0; k < d_model; k += hand->way.terms) {
        hand_sweep s = sweep_of(hand, rows);
        s.x = x + rows * k;
        s.y = hand->up;
        s.ldy = ldh_of(hand, hand->way.hidden);
        s.terms = smaller(hand->way.terms, d_model - k);
        s.panels = packed + layout->expand + first / HAND_PANEL * layout->expand_panel_stride + k * HAND_LINE;
        s.stride = layout->expand_panel_bytes;
        s.count = panels_of(columns) * each;
        hand_sweep_run(&s);
    }
}

static void activate(const bench_hand *hand, int64_t count) {
    for (; count > 0; count -= hand->values_count)
        ffn_kernel_activate(hand->kernel, hand->n, smaller(count, hand->values_count), hand->values,
                            hand->values + hand->values_count, hand->values + 2 * hand->values_count, NULL);
}

static void contract(const bench_hand *hand, const char *packed, float *y, int64_t rows, int64_t first,
                     int64_t columns) {
    hand_sweep s = sweep_of(hand, rows);
    s.x = hand->h;
    s.y = y;
    s.ldy = hand->ldy;
    s.terms = columns;
    s.panels = packed + hand->layout.contract + first * HAND_LINE;
    s.stride = hand->layout.contract_panel_bytes;
    s.count = hand->layout.down_panels;
    hand_sweep_run(&s);
}

void bench_hand_call(void *self) {
    const bench_hand *hand = self;
    const int64_t d_model = hand->layer->spec.d_model, d_ff = hand->layer->spec.d_ff;
    const int64_t blocks = (hand->n + hand->way.rows - 1) / hand->way.rows;
    const char *packed = bench_copies_turn(&hand->layer->packed);
    int64_t row = 0;
    for (int64_t block = 0; block < blocks; block++) {
        const int64_t rows = (hand->n + block) / blocks;
        for (int64_t first = 0; first < d_ff; first += hand->way.hidden) {
            const int64_t columns = smaller(hand->way.hidden, d_ff - first);
            expand(hand, packed, hand->x + row * d_model, rows, first, columns);
            activate(hand, rows * columns);
            contract(hand, packed, hand->y + row * hand->ldy, rows, first, columns);
        }
        row += rows;
    }
}

/* ---- Which way ---- */

static void add(const bench_hand *hand, bench_hand_way way, bench_hand_way ways[WAYS_MAX], int *count) {
    way.hidden = smaller(way.hidden, hand->layer->spec.d_ff);
    way.terms = smaller(way.terms, hand->layer->spec.d_model);
    way.chunk = smaller(way.chunk, way.terms);
    if (*count < WAYS_MAX)
        ways[(*count)++] = way;
}

#define ALL (1 << 20)

/* What is tried for many rows: tiles, up to one without rows, blocks, and what a block may take of L2. */
typedef struct hand_many {
    hand_tiles tiles[HAND_TILES_MAX];
    int64_t rows[3], hidden[2], terms[3];
    struct {
        int64_t terms;
        hand_ahead ahead;
    } chunks[2];
    int64_t l2_bytes;
} hand_many;

static const hand_many of_avx2_and_avx512[] = {
    {{{FFN_ISA_AVX2, 6, 1, 1}, {FFN_ISA_AVX2, 6, 1, 2}},
     {36, 66, 132},
     {256, 512},
     {512, 1024, ALL},
     {{256, HAND_INTO_L1}, {ALL, HAND_INTO_L1}},
     384 * 1024},
    {{{FFN_ISA_AVX512, 8, 2, 2}, {FFN_ISA_AVX512, 6, 4, 4}, {FFN_ISA_AVX512, 12, 2, 2}},
     {64, 132},
     {320, 512},
     {256, 512, ALL},
     {{128, HAND_INTO_L1}, {ALL, HAND_INTO_L2}},
     768 * 1024},
};

/* Few rows: a whole d_model at once; how long a chunk is and how many panels are read side by side. */
static int ways_of_few(const bench_hand *hand, bench_hand_way ways[WAYS_MAX]) {
    static const int64_t chunks[] = {32, 64, 128, 256, ALL}, hidden[] = {512, ALL};
    const hand_tiles *tiles = hand_few_tiles(hand->isa);
    int count = 0;
    for (size_t f = 0; f < sizeof hidden / sizeof *hidden; f++)
        for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++)
            for (size_t t = 0; t < HAND_TILES_MAX && tiles[t].rows; t++)
                for (hand_ahead ahead = HAND_NOTHING; ahead <= HAND_INTO_L1; ahead++)
                    add(hand, (bench_hand_way){hand->n, hidden[f], ALL, chunks[c], tiles[t], ahead}, ways, &count);
    return count;
}

/* Many rows: how large the blocks are; those are left out that L2 could not hold. */
static int ways_of_many(const bench_hand *hand, bench_hand_way ways[WAYS_MAX]) {
    const hand_many *of = &of_avx2_and_avx512[hand->isa == FFN_ISA_AVX512];
    const int64_t d_model = hand->layer->spec.d_model, d_ff = hand->layer->spec.d_ff;
    int count = 0;
    for (size_t m = 0; m < 3 && of->rows[m]; m++)
        for (size_t f = 0; f < 2; f++)
            for (size_t k = 0; k < 3; k++) {
                const int64_t rows = of->rows[m], hidden = smaller(of->hidden[f], d_ff),
                              terms = smaller(of->terms[k], d_model);
                const bool again = k > 0 && terms <= of->terms[k - 1];
                const bool large = 4 * smaller(rows, hand->n) * (terms > hidden ? terms : hidden) > of->l2_bytes;
                for (size_t c = 0; c < 2 && !again && (!large || (!m && !k)); c++)
                    for (size_t t = 0; t < HAND_TILES_MAX && of->tiles[t].rows; t++)
                        add(hand,
                            (bench_hand_way){rows, hidden, terms, of->chunks[c].terms, of->tiles[t],
                                             of->chunks[c].ahead},
                            ways, &count);
            }
    return count;
}

static int by_time(const void *a, const void *b) {
    const double x = ((const bench_contender *)a)->ms_min, y = ((const bench_contender *)b)->ms_min;
    return (x > y) - (x < y);
}

static ffn_status choose(bench_hand *hand, ffn_diag *diag) {
    static bench_hand_way ways[WAYS_MAX];
    const int count = hand->n <= FEW_ROWS ? ways_of_few(hand, ways) : ways_of_many(hand, ways);
    bench_hand *tried = calloc((size_t)count, sizeof *tried);
    bench_contender *contenders = calloc((size_t)count, sizeof *contenders);
    if (tried && contenders) {
        for (int i = 0; i < count; i++) {
            tried[i] = *hand;
            tried[i].way = ways[i];
            tried[i].n = smaller(hand->n, CHOICE_ROWS);
            contenders[i] = (bench_contender){.call = bench_hand_call, .self = &tried[i]};
        }
        bench_rounds(contenders, count, BENCH_CLOCK_THREAD, FIRST_ROUNDS, FIRST_SECONDS);
        qsort(contenders, (size_t)count, sizeof *contenders, by_time);
        const int best = count < BEST ? count : BEST;
        bench_rounds(contenders, best, BENCH_CLOCK_THREAD, BEST_ROUNDS, BEST_SECONDS);
        qsort(contenders, (size_t)best, sizeof *contenders, by_time);
        hand->way = ((const bench_hand *)contenders[0].self)->way;
    }
    const bool chosen = tried && contenders;
    free(tried);
    free(contenders);
    return chosen ? FFN_OK : diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for the ways to be tried");
}

ffn_status bench_hand_open(bench_layer *layer, const ffn_kernel *kernel, ffn_isa isa, int64_t n, float *values,
                           int64_t values_count, bench_hand *hand, ffn_diag *diag) {
    const int64_t d_model = layer->spec.d_model, d_ff = layer->spec.d_ff;
    *hand = (bench_hand){.layer = layer, .isa = isa, .n = n, .values = values, .values_count = values_count};
    if (!hand_few_tiles(isa))
        return diag_fail(diag, FFN_UNSUPPORTED, "the loops by hand are of AVX2 and AVX-512 on x86-64");
    if (d_model % HAND_TURN || d_ff % HAND_TURN)
        return diag_fail(diag, FFN_UNSUPPORTED, "the loops by hand need d_model and d_ff that are multiples of %d",
                         HAND_TURN);
    ffn_status status = packed_layout_of(&layer->spec, &hand->layout, diag);
    if (status)
        return status;
    const int64_t block = smaller(n, CHOICE_ROWS), h_count = block * ldh_of(hand, d_ff);
    hand->ldy = (hand->layout.down_panels + HAND_STREAMS) * HAND_PANEL;
    hand->x = bench_alloc((size_t)(n * d_model) * sizeof(float));
    hand->h = bench_alloc((size_t)h_count * sizeof(float));
    hand->up = bench_alloc((size_t)h_count * sizeof(float));
    hand->y = bench_alloc((size_t)(n * hand->ldy) * sizeof(float));
    if (!hand->x || !hand->h || !hand->up || !hand->y)
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for %lld rows", (long long)n);
    bench_fill(hand->x, n * d_model, 1, SEED);
    bench_fill(hand->h, h_count, 1, SEED + 1);
    hand->kernel = kernel;
    return choose(hand, diag);
}

void bench_hand_clear(bench_hand *hand) {
    bench_free(hand->x);
    bench_free(hand->h);
    bench_free(hand->y);
    bench_free(hand->up);
    *hand = (bench_hand){.layer = NULL};
}
