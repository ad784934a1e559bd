/* support_edges_kernel.c: a kernel and the results of a case -> whether it returns them, in every place that a hidden
 * value can have in a vector: see support_edges.h */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "packed.h"
#include "support_data.h"
#include "support_edges.h"

static bool same(float a, float b) {
    return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0;
}

typedef struct place {
    const char *what;
    int64_t a, b;
} place;

static bool differs(const edges_case *c, int32_t i, float got, place at, char why[EDGES_WHY_BYTES]) {
    uint32_t g, u;
    memcpy(&g, &c->g[i], sizeof g);
    memcpy(&u, &c->u[i], sizeof u);
    snprintf(why, EDGES_WHY_BYTES, "%s%s of %a (%08x), %a (%08x), %s %d, %d: %.9g, the document says %.9g",
             c->activation, c->accuracy == FFN_FAST ? ", fast," : "", (double)c->g[i], (unsigned)g, (double)c->u[i],
             (unsigned)u, at.what, (int)at.a, (int)at.b, (double)got, (double)c->want[i]);
    return false;
}

bool edges_activate_hold(const ffn_kernel *kernel, const edges_case *c, int64_t n, int32_t lanes,
                         char why[EDGES_WHY_BYTES]) {
    snprintf(why, EDGES_WHY_BYTES, "%s: a call was refused", c->activation);
    enum { MOST = 2 * 16 + 1 };
    float out[MOST];
    /* The arguments once more behind themselves, so that a run may begin at each. */
    float *g = edges_room((size_t)(c->count + MOST) * sizeof *g),
          *u = edges_room((size_t)(c->count + MOST) * sizeof *u);
    for (int32_t i = 0; i < c->count + MOST; i++) {
        memcpy(&g[i], &c->g[i % c->count], sizeof *g);
        memcpy(&u[i], &c->u[i % c->count], sizeof *u);
    }
    bool good = true;
    for (int32_t count = 1; good && count <= 2 * lanes + 1; count++)
        for (int32_t from = 0; good && from < c->count; from++) {
            good = ffn_kernel_activate(kernel, n, count, g + from, u + from, out, NULL) == FFN_OK;
            for (int32_t i = 0; good && i < count; i++) {
                const int32_t of = (from + i) % c->count;
                good = same(out[i], c->want[of]) ||
                       differs(c, of, out[i], (place){"activate: element, of", i, count}, why);
            }
        }
    free(g);
    free(u);
    return good;
}

/* x = 1, a weight that is the argument and a bias of -0 make fma(1, argument, -0), which is the argument, whatever it
 * is. (Above 64 columns there is one chain: a second one would begin at +0.) The block is packed once, with a NaN in it
 * so that it is not taken for finite; then weights change where they stand. */
typedef struct layer {
    const edges_case *edges;
    int64_t d_ff;
    packed_layout at;
    char *packed;
    float *x, *y, *hidden;
    ffn_args args;
} layer;

static layer make_layer(const ffn_kernel *kernel, const edges_case *edges, int64_t n) {
    const ffn_spec *spec = ffn_kernel_spec(kernel);
    layer l = {.edges = edges, .d_ff = spec->d_ff};
    const size_t d_ff = (size_t)l.d_ff, scratch_bytes = ffn_kernel_scratch_bytes(kernel);
    float *unset = edges_room(d_ff * sizeof(float)), *minus_zero = edges_room(d_ff * sizeof(float));
    for (size_t f = 0; f < d_ff; f++) {
        minus_zero[f] = -0.0f;
        unset[f] = NAN;
    }
    const bool gated = edges->gated;
    const ffn_weights weights = {.up = {.data = unset},
                                 .gate = {.data = gated ? unset : NULL},
                                 .down = {.data = unset},
                                 .bias_up = minus_zero,
                                 .bias_gate = gated ? minus_zero : NULL};
    l.packed = support_packed(spec, &weights);
    free(unset);
    free(minus_zero);
    packed_layout_of(spec, &l.at, NULL);
    l.hidden = support_aligned(ffn_kernel_hidden_bytes(kernel));
    l.x = support_aligned((size_t)n * sizeof(float));
    l.y = support_aligned((size_t)n * sizeof(float));
    for (int64_t i = 0; i < n; i++)
        l.x[i] = 1;
    l.args = (ffn_args){n, l.x, 1, l.y, 1, l.packed, support_aligned(scratch_bytes), scratch_bytes};
    return l;
}

static void free_layer(layer *l) {
    free(l->packed);
    free(l->hidden);
    free(l->x);
    free(l->y);
    free(l->args.scratch);
}

/* d_model = 1: a panel is one line. */
static void set_hidden(const layer *l, int64_t f, const float *g, const float *u) {
    char *panel = l->packed + f / FFN_PANEL * l->at.expand_panel_stride + f % FFN_PANEL * (int64_t)sizeof *g;
    if (l->edges->gated)
        memcpy(panel + l->at.expand, g, sizeof *g);
    memcpy(panel + l->at.expand_up, l->edges->gated ? u : g, sizeof *u);
}

static void set_down(const layer *l, int64_t f, float weight) {
    memcpy(l->packed + l->at.contract + f * FFN_PANEL * (int64_t)sizeof weight, &weight, sizeof weight);
}

/* Every argument in every hidden column. */
static bool expand_holds(const ffn_kernel *kernel, const layer *l, char *why) {
    const edges_case *c = l->edges;
    const int64_t stride = (l->d_ff + FFN_PANEL - 1) / FFN_PANEL * FFN_PANEL;
    for (int32_t from = 0; from < c->count; from++) {
        for (int64_t f = 0; f < l->d_ff; f++) {
            const int32_t of = (int32_t)((from + f) % c->count);
            set_hidden(l, f, &c->g[of], &c->u[of]);
        }
        if (ffn_kernel_expand(kernel, &l->args, l->hidden, 0, l->d_ff, NULL) != FFN_OK)
            return false;
        for (int64_t row = 0; row < l->args.n; row++)
            for (int64_t f = 0; f < l->d_ff; f++) {
                const int32_t of = (int32_t)((from + f) % c->count);
                const float got = l->hidden[row * stride + f];
                if (!same(got, c->want[of]))
                    return differs(c, of, got, (place){"expand: row, hidden column", row, f}, why);
            }
    }
    return true;
}

/* One column has the argument, the others 1, whose weight below is 0; the sum ends in + (+0). */
static bool fused_holds(const ffn_kernel *kernel, const layer *l, char *why) {
    const edges_case *c = l->edges;
    const float one = 1;
    for (int64_t f = 0; f < l->d_ff; f++) {
        set_hidden(l, f, &one, &one);
        set_down(l, f, 0);
    }
    for (int64_t f = 0; f < l->d_ff; f++) {
        set_down(l, f, 1);
        for (int32_t turn = 0; turn < c->classes; turn++) {
            const int32_t of = (int32_t)(c->gated ? (f * c->classes + turn) * 7 % c->count : turn);
            set_hidden(l, f, &c->g[of], &c->u[of]);
            if (ffn_kernel_run(kernel, &l->args, NULL) != FFN_OK)
                return false;
            for (int64_t row = 0; row < l->args.n; row++)
                if (!same(l->y[row], c->want[of] + 0.0f))
                    return differs(c, of, l->y[row], (place){"a run: row, hidden column", row, f}, why);
        }
        set_hidden(l, f, &one, &one);
        set_down(l, f, 0);
    }
    return true;
}

bool edges_hidden_hold(const ffn_kernel *kernel, const edges_case *edges, int64_t n, char why[EDGES_WHY_BYTES]) {
    snprintf(why, EDGES_WHY_BYTES, "%s: a call was refused", edges->activation);
    layer l = make_layer(kernel, edges, n);
    const bool good = expand_holds(kernel, &l, why) && fused_holds(kernel, &l, why);
    free_layer(&l);
    return good;
}
