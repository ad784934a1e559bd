/* libxsmm_blocks.c: panels of weights, kernels, and the three orders in which blocks are multiplied */
#include "libxsmm_blocks.h"

#include <libxsmm.h>

#include <stdlib.h>
#include <string.h>

#define SUM_SPARE 1024 /* rows of zeros after a panel: any block of a sum ends among them */

typedef libxsmm_smmfunction_reducebatch_strd brgemm;

static int64_t blocks(int64_t size, int64_t block) {
    return (size + block - 1) / block;
}

/* Equal blocks of at most about `wish`, each a multiple of `unit`. */
static int64_t even(int64_t size, int64_t wish, int64_t unit) {
    int64_t block = blocks(size, blocks(size, wish));
    return blocks(block, unit) * unit;
}

static int64_t lanes(void) {
    return libxsmm_get_target_archid() >= LIBXSMM_X86_AVX512 ? 16 : 8;
}

/* ---- Weights ---- */

static void pack(const bench_layer *layer, bench_product product, int64_t width, float *to) {
    bool down = product == BENCH_DOWN;
    int64_t in = down ? layer->spec.d_ff : layer->spec.d_model, out = down ? layer->spec.d_model : layer->spec.d_ff;
    const float *matrix = (const float *)(const void *)layer->plain.base + layer->matrix[product][FFN_IN_OUT];
    for (int64_t first = 0; first < out; first += width, to += (in + SUM_SPARE) * width) {
        size_t bytes = (size_t)(out - first < width ? out - first : width) * sizeof(float);
        for (int64_t k = 0; k < in; k++)
            memcpy(to + k * width, matrix + k * out + first, bytes); /* the rest is zeros */
    }
}

bool xsmm_panels_make(const bench_layer *layer, int64_t width, xsmm_panels *panels) {
    const ffn_spec *spec = &layer->spec;
    *panels = (xsmm_panels){
        .width = width, .bf = even(spec->d_ff, width, lanes()), .bm = even(spec->d_model, width, lanes())};
    int64_t expand = blocks(spec->d_ff, panels->bf) * panels->bf * (spec->d_model + SUM_SPARE), at = 0;
    int64_t contract = blocks(spec->d_model, panels->bm) * panels->bm * (spec->d_ff + SUM_SPARE);
    for (bench_product product = BENCH_UP; product < BENCH_PRODUCTS; product++) {
        panels->part[product] = at;
        at += product == BENCH_DOWN ? contract : product == BENCH_UP || layer->gated ? expand : 0;
    }
    if (bench_copies_alloc(&panels->matrices, (size_t)at * sizeof(float), layer->plain.count))
        return false;
    float *base = (float *)(void *)panels->matrices.base;
    for (bench_product product = BENCH_UP; product < BENCH_PRODUCTS; product++) {
        if (product != BENCH_GATE || layer->gated)
            pack(layer, product, product == BENCH_DOWN ? panels->bm : panels->bf, base + panels->part[product]);
    }
    bench_copies_spread(&panels->matrices);
    return true;
}

void xsmm_panels_free(xsmm_panels *panels) {
    bench_copies_free(&panels->matrices);
    *panels = (xsmm_panels){0};
}

/* ---- A plan: sizes, kernels, buffers ---- */

/* One product of a block of `rows` rows. */
typedef struct step {
    brgemm kernel, kernel_adds; /* the second adds to what is there */
} step;

struct xsmm_plan {
    bench_layer *layer;
    const xsmm_panels *panels;
    xsmm_order order;
    peer_lender lender;
    bench_team *team;
    int64_t n, bn, bk, bf, bm;
    int64_t row_blocks, k_blocks, f_blocks, m_blocks;
    int64_t chunk_blocks;          /* of f, that are expanded before they are contracted */
    step expand[2], contract[2];   /* of a full block of rows, of the last one */
    bool by_rows;                  /* a thread takes blocks of rows through everything */
    float *x, *hidden, *gate, *y;  /* in blocks; gate: one block for each thread */
    int64_t hidden_elements;       /* of one thread where by_rows */
    const float *matrices, *plain; /* of the run under way */
};

static int64_t rows_of(const xsmm_plan *p, int64_t block) {
    int64_t left = p->n - block * p->bn;
    return left < p->bn ? left : p->bn;
}

static bool make_step(int64_t m, int64_t rows, int64_t k, step *s) {
    const int lda = (int)m, ldb = (int)k, ldc = (int)m, none = LIBXSMM_GEMM_FLAG_NONE;
    const float alpha = 1, zero = 0, one = 1;
    int stride_a = (int)(k * m) * (int)sizeof(float), stride_b = (int)(rows * k) * (int)sizeof(float);
    s->kernel = libxsmm_smmdispatch_reducebatch_strd((int)m, (int)rows, (int)k, stride_a, stride_b, &lda, &ldb, &ldc,
                                                     &alpha, &zero, &none, NULL);
    s->kernel_adds = libxsmm_smmdispatch_reducebatch_strd((int)m, (int)rows, (int)k, stride_a, stride_b, &lda, &ldb,
                                                          &ldc, &alpha, &one, &none, NULL);
    return s->kernel && s->kernel_adds;
}

static void block_x(const xsmm_plan *p, const float *x) {
    int64_t width = p->layer->spec.d_model;
    float *to = p->x;
    for (int64_t nb = 0; nb < p->row_blocks; nb++) {
        for (int64_t kb = 0; kb < p->k_blocks; kb++) {
            int64_t count = width - kb * p->bk < p->bk ? width - kb * p->bk : p->bk;
            for (int64_t row = nb * p->bn; row < nb * p->bn + rows_of(p, nb); row++, to += p->bk)
                memcpy(to, x + row * width + kb * p->bk, (size_t)count * sizeof(float));
        }
    }
}

xsmm_plan *xsmm_plan_make(bench_layer *layer, const xsmm_panels *panels, const xsmm_blocking *blocking, int64_t n,
                          const float *x, peer_lender lender, bench_team *team) {
    xsmm_plan *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    const ffn_spec *spec = &layer->spec;
    int64_t size = bench_team_size(team);
    *p = (xsmm_plan){.layer = layer,
                     .panels = panels,
                     .order = blocking->order,
                     .lender = lender,
                     .team = team,
                     .n = n,
                     .bn = even(n, blocking->bn, 1),
                     .bk = even(spec->d_model, blocking->bk, 1),
                     .bf = panels->bf,
                     .bm = panels->bm};
    p->row_blocks = blocks(n, p->bn);
    p->k_blocks = blocks(spec->d_model, p->bk);
    p->f_blocks = blocks(spec->d_ff, p->bf);
    p->m_blocks = blocks(spec->d_model, p->bm);
    p->by_rows = p->order != XSMM_WEIGHTS_OUTER && p->row_blocks >= size;
    p->chunk_blocks = p->order == XSMM_FUSED && p->by_rows ? blocks(blocking->chunk, p->bf) : p->f_blocks;
    if (p->chunk_blocks > p->f_blocks)
        p->chunk_blocks = p->f_blocks;
    p->hidden_elements = p->chunk_blocks * p->bn * p->bf;
    int64_t hidden = p->by_rows ? size * p->hidden_elements : p->row_blocks * p->f_blocks * p->bn * p->bf;
    bool made = true;
    for (int last = 0; last < 2; last++) {
        int64_t rows = rows_of(p, last ? p->row_blocks - 1 : 0);
        made = made && make_step(p->bf, rows, p->bk, &p->expand[last]) &&
               make_step(p->bm, rows, p->bf, &p->contract[last]);
    }
    p->x = bench_alloc((size_t)(n * p->k_blocks * p->bk) * sizeof(float));
    p->y = bench_alloc((size_t)(n * p->m_blocks * p->bm) * sizeof(float));
    p->hidden = bench_alloc((size_t)hidden * sizeof(float));
    p->gate = bench_alloc((size_t)(size * p->bn * p->bf) * sizeof(float));
    if (!made || !p->x || !p->y || !p->hidden || !p->gate) {
        xsmm_plan_free(p);
        return NULL;
    }
    block_x(p, x);
    return p;
}

void xsmm_plan_free(xsmm_plan *p) {
    if (!p)
        return;
    bench_free(p->x);
    bench_free(p->y);
    bench_free(p->hidden);
    bench_free(p->gate);
    free(p);
}

/* ---- The run ---- */

static bool has_bias(const xsmm_plan *p, bench_product product) {
    static const uint32_t flags[BENCH_PRODUCTS] = {FFN_BIAS_UP, FFN_BIAS_GATE, FFN_BIAS_DOWN};
    return p->layer->spec.bias & flags[product];
}

/* Columns first .. first + width of the bias into every row of a block. */
static void start(const xsmm_plan *p, bench_product product, int64_t first, int64_t width, int64_t rows, float *to) {
    int64_t out = product == BENCH_DOWN ? p->layer->spec.d_model : p->layer->spec.d_ff;
    size_t bytes = (size_t)(out - first < width ? out - first : width) * sizeof(float);
    for (int64_t row = 0; row < rows; row++)
        memcpy(to + row * width, p->plain + p->layer->bias[product] + first, bytes);
}

static const step *step_of(const xsmm_plan *p, const step *steps, int64_t nb) {
    return &steps[nb == p->row_blocks - 1];
}

static void expand_product(const xsmm_plan *p, bench_product product, int64_t nb, int64_t fb, float *to) {
    int64_t rows = rows_of(p, nb);
    const float *panel = p->matrices + p->panels->part[product] + fb * p->bf * (p->layer->spec.d_model + SUM_SPARE);
    const step *s = step_of(p, p->expand, nb);
    unsigned long long count = (unsigned long long)p->k_blocks;
    bool bias = has_bias(p, product);
    if (bias)
        start(p, product, fb * p->bf, p->bf, rows, to);
    (bias ? s->kernel_adds : s->kernel)(panel, p->x + nb * p->bn * p->k_blocks * p->bk, to, &count);
}

/* The hidden values of one block. */
static void expand(const xsmm_plan *p, int member, int64_t nb, int64_t fb, float *to) {
    int64_t rows = rows_of(p, nb), over = (fb + 1) * p->bf - p->layer->spec.d_ff;
    float *gate = p->layer->gated ? p->gate + member * p->bn * p->bf : to;
    expand_product(p, BENCH_UP, nb, fb, to);
    if (p->layer->gated)
        expand_product(p, BENCH_GATE, nb, fb, gate);
    p->lender.activate(p->lender.self, rows * p->bf, gate, to, to);
    for (int64_t row = 0; over > 0 && row < rows; row++) /* a formula may give at zero what zero weights do not undo */
        memset(to + (row + 1) * p->bf - over, 0, (size_t)over * sizeof(float));
}

/* What hidden blocks fb_begin .. fb_end, which stand at `hidden`, give to one block of y. */
static void contract(const xsmm_plan *p, int64_t nb, int64_t mb, int64_t fb_begin, int64_t fb_end,
                     const float *hidden) {
    int64_t rows = rows_of(p, nb);
    const float *panel = p->matrices + p->panels->part[BENCH_DOWN] + mb * p->bm * (p->layer->spec.d_ff + SUM_SPARE) +
                         fb_begin * p->bf * p->bm;
    float *to = p->y + nb * p->bn * p->m_blocks * p->bm + mb * rows * p->bm;
    const step *s = step_of(p, p->contract, nb);
    unsigned long long count = (unsigned long long)(fb_end - fb_begin);
    bool bias = has_bias(p, BENCH_DOWN) && fb_begin == 0;
    if (bias)
        start(p, BENCH_DOWN, mb * p->bm, p->bm, rows, to);
    (bias || fb_begin ? s->kernel_adds : s->kernel)(panel, hidden, to, &count);
}

/* Every block of rows of a member's share goes through everything. */
static void run_by_rows(const xsmm_plan *p, int member, int size) {
    int64_t begin = p->row_blocks * member / size, end = p->row_blocks * (member + 1) / size;
    float *hidden = p->hidden + member * p->hidden_elements;
    for (int64_t first = 0; first < p->f_blocks; first += p->chunk_blocks) {
        int64_t last = first + p->chunk_blocks < p->f_blocks ? first + p->chunk_blocks : p->f_blocks;
        for (int64_t nb = begin; nb < end; nb++) {
            int64_t rows = rows_of(p, nb);
            for (int64_t fb = first; fb < last; fb++)
                expand(p, member, nb, fb, hidden + (fb - first) * rows * p->bf);
            for (int64_t mb = 0; mb < p->m_blocks; mb++)
                contract(p, nb, mb, first, last, hidden);
        }
    }
}

/* Expand whole, then contract; a member's share is a range of panels. */
static void run_by_panels(const xsmm_plan *p, int member, int size) {
    int64_t all = p->f_blocks * p->row_blocks;
    for (int64_t i = all * member / size; i < all * (member + 1) / size; i++) {
        int64_t fb = i / p->row_blocks, nb = i % p->row_blocks;
        float *rows = p->hidden + nb * p->bn * p->f_blocks * p->bf;
        expand(p, member, nb, fb, rows + fb * rows_of(p, nb) * p->bf);
    }
    bench_team_wait(p->team);
    all = p->m_blocks * p->row_blocks;
    for (int64_t i = all * member / size; i < all * (member + 1) / size; i++) {
        int64_t mb = i / p->row_blocks, nb = i % p->row_blocks;
        contract(p, nb, mb, 0, p->f_blocks, p->hidden + nb * p->bn * p->f_blocks * p->bf);
    }
}

static void run_share(void *self, int member, int size) {
    const xsmm_plan *p = self;
    if (p->by_rows)
        run_by_rows(p, member, size);
    else
        run_by_panels(p, member, size);
}

void xsmm_plan_run(void *self) {
    xsmm_plan *p = self;
    p->matrices = bench_copies_turn((bench_copies *)&p->panels->matrices);
    p->plain = (const float *)(const void *)p->layer->plain.base; /* of it the biases alone, which are small */
    bench_team_run(p->team, run_share, p);
}

void xsmm_plan_output(const xsmm_plan *p, float *y) {
    int64_t width = p->layer->spec.d_model;
    const float *from = p->y;
    for (int64_t nb = 0; nb < p->row_blocks; nb++) {
        for (int64_t mb = 0; mb < p->m_blocks; mb++) {
            int64_t count = width - mb * p->bm < p->bm ? width - mb * p->bm : p->bm;
            for (int64_t row = nb * p->bn; row < nb * p->bn + rows_of(p, nb); row++, from += p->bm)
                memcpy(y + row * width + mb * p->bm, from, (size_t)count * sizeof(float));
        }
    }
}
