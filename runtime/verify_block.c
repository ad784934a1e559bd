/* verify_block.c: a spec -> weights that show every kind of wrong kernel, within the budget of a first use
 *
 * Invariants: padding stays +0 as ffn_pack leaves it; every column of y has weights; the first and the last panel of
 * both stages are full; the last hidden unit is active for the first input (else dropping it would change nothing under
 * ReLU).
 *
 * A sampled block costs page faults, not bandwidth: most of it is never written (verify_memory.c). Everything is
 * written in the order of addresses. */
#include "verify_block.h"

#include <math.h>
#include <string.h>

#define GROUP_BYTES ((int64_t)2 << 20) /* a huge page */
#define BIAS_DOWN_SIZE 1.0f
#define SAMPLED_GROUPS 16 /* 2 MiB groups of expand panels that hold probes */
#define FULL_ROWS_MAX 65536
#define GROUP_PANELS_MAX 1024  /* of the expand stage */
#define PROBED_PANELS_MAX 4096 /* of the contract stage */

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static uint64_t mix(uint64_t i) { /* the finalizer of SplitMix64 */
    i += UINT64_C(0x9e3779b97f4a7c15);
    i = (i ^ (i >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    i = (i ^ (i >> 27)) * UINT64_C(0x94d049bb133111eb);
    return i ^ (i >> 31);
}

static float unit_float(uint32_t bits) {
    return (float)(int32_t)bits * 0x1p-31f;
}

static float noise(uint64_t index) {
    return unit_float((uint32_t)(mix(index) >> 32));
}

float verify_noise(uint64_t index) {
    return noise(index);
}

int verify_inputs(const kernel_shape *shape) {
    return shape->spec.d_model + shape->spec.d_ff > VERIFY_VAST_DIM ? 1 : VERIFY_INPUTS;
}

int verify_input_of(int64_t i) {
    return (int)(i < VERIFY_INPUTS ? i : (int64_t)(mix((uint64_t)i) % VERIFY_INPUTS));
}

/* Magnitudes from a quarter to one, so that no probe meets an input near zero. */
static float input_unit(int64_t k) {
    float draw = noise((uint64_t)k + (UINT64_C(1) << 60));
    return draw < 0 ? -0.25f + 0.75f * draw : 0.25f + 0.75f * draw;
}

/* Sums of d_model products of inputs and full weights then spread by about one. */
static float input_scale(const kernel_shape *shape) {
    return (float)(3 / sqrt((double)shape->spec.d_model));
}

void verify_input(const kernel_shape *shape, int row, float *x) {
    const float scale = input_scale(shape);
    for (int64_t k = 0; k < shape->spec.d_model; ++k) {
        float value = scale * input_unit(k);
        switch (row) {
        case 0:
            x[k] = value;
            break;
        case 1:
            x[k] = -value;
            break;
        case 2:
            x[k] = ldexpf(noise((uint64_t)k + (UINT64_C(1) << 59)), -(int)(mix((uint64_t)k) % 24)) * 2;
            break;
        default:
            x[k] = 8 * scale * noise((uint64_t)k + (UINT64_C(1) << 58));
        }
    }
}

static verify_rows all_rows(int64_t terms) {
    int64_t rows = least(terms, FULL_ROWS_MAX);
    return (verify_rows){.first = terms - rows, .rows = rows, .step = rows, .count = 1, .full = rows == terms};
}

/* The panels of a sampled block that are full. A panel of the contract stage is long, so there are only two. */
static bool full_up(int64_t panel, int64_t panels) {
    return panel == 0 || panel == panels / 2 || panel == panels - 1;
}

static bool full_down(int64_t panel, int64_t panels) {
    return panel == 0 || panel == panels - 1;
}

/* Panels of the expand stage in groups that share 2 MiB, of which each `every`-th holds probes: groups are what costs.
 */
typedef struct sampling {
    int64_t group, every, sampled; /* panels of a group; distance and number of groups that are sampled */
} sampling;

/* Of one pass, which begins with the group of its number. */
static sampling sampling_of(const packed_layout *at, int64_t pass) {
    sampling s = {.group = GROUP_BYTES / at->expand_panel_stride};
    s.group = s.group > 0 ? least(least(s.group, GROUP_PANELS_MAX), at->up_panels) : 1;
    int64_t groups = (at->up_panels + s.group - 1) / s.group;
    s.every = (groups + SAMPLED_GROUPS - 1) / SAMPLED_GROUPS;
    s.sampled = (groups - pass + s.every - 1) / s.every;
    return s;
}

int64_t verify_block_passes(const kernel_shape *shape) {
    return shape->layout.total_bytes > VERIFY_DENSE_BYTES ? sampling_of(&shape->layout, 0).every : 1;
}

verify_rows verify_block_up(const verify_block *block, int64_t panel) {
    const packed_layout *at = &block->shape->layout;
    const int64_t terms = block->shape->spec.d_model;
    if (block->sampled ? full_up(panel, at->up_panels) : !block->probes) {
        return all_rows(terms);
    }
    const sampling s = sampling_of(at, block->pass);
    if (panel / s.group % s.every != block->pass) {
        return (verify_rows){0};
    }
    int64_t chunks = (terms + VERIFY_PROBE_ROWS - 1) / VERIFY_PROBE_ROWS;
    int64_t first = (int64_t)(mix((uint64_t)panel) % (uint64_t)chunks) * VERIFY_PROBE_ROWS;
    return (verify_rows){.first = first, .rows = least(VERIFY_PROBE_ROWS, terms - first), .step = terms, .count = 1};
}

/* The runs of all panels together cover every row whose unit holds probes, and every panel has at least one, up to
 * PROBED_PANELS_MAX panels; of more, some are left without. A group's units make `chunks` runs; a panel takes one of
 * them in every `apart`-th group. */
verify_rows verify_block_down(const verify_block *block, int64_t panel) {
    const packed_layout *at = &block->shape->layout;
    const int64_t terms = block->shape->spec.d_ff;
    if (block->sampled ? full_down(panel, at->down_panels) : !block->probes) {
        return all_rows(terms);
    }
    if (panel % ((at->down_panels + PROBED_PANELS_MAX - 1) / PROBED_PANELS_MAX) != 0) {
        return (verify_rows){0};
    }
    const sampling s = sampling_of(at, block->pass);
    const int64_t units = least(s.group * FFN_PANEL, terms);
    int64_t chunks = (units + VERIFY_PROBE_ROWS - 1) / VERIFY_PROBE_ROWS;
    const int64_t rows = (chunks + at->down_panels - 1) / at->down_panels * VERIFY_PROBE_ROWS;
    chunks = (units + rows - 1) / rows;
    const int64_t apart = at->down_panels / chunks;
    const int64_t distance = s.every * s.group * FFN_PANEL;
    const int64_t begin = block->pass * s.group * FFN_PANEL;
    int64_t first = begin + panel / chunks % s.sampled * distance + panel % chunks * rows;
    first = first < terms ? first : begin; /* the last group may be short */
    return (verify_rows){.first = first,
                         .rows = least(rows, terms),
                         .step = apart * distance,
                         .count = (terms - first + apart * distance - 1) / (apart * distance)};
}

static float *up_panel(const verify_block *block, int64_t panel, bool gate) {
    const packed_layout *at = &block->shape->layout;
    return (float *)(block->packed + (gate ? at->expand : at->expand_up) + panel * at->expand_panel_stride);
}

static float *down_panel(const verify_block *block, int64_t panel) {
    const packed_layout *at = &block->shape->layout;
    return (float *)(block->packed + at->contract + panel * at->contract_panel_bytes);
}

const float *verify_block_up_panel(const verify_block *block, int64_t panel, bool gate) {
    return up_panel(block, panel, gate);
}

const float *verify_block_down_panel(const verify_block *block, int64_t panel) {
    return down_panel(block, panel);
}

static void fill_rows(verify_block *block, float *panel, verify_rows where, int64_t terms, int64_t columns) {
    for (int64_t c = 0; c < where.count; ++c) {
        int64_t begin = where.first + c * where.step;
        int64_t rows = least(where.rows, terms - begin);
        float *at = panel + begin * FFN_PANEL;
        verify_memory_fill(&block->memory, at, (size_t)(rows * FFN_PANEL) * sizeof *at);
        for (int64_t k = 0; k < rows; ++k) {
            uint64_t seed = (uint64_t)(at - (float *)block->packed);
            for (int64_t lane = 0; lane < columns; lane += 2) {
                uint64_t bits = mix(seed + (uint64_t)lane);
                at[lane] = unit_float((uint32_t)bits);
                if (lane + 1 < columns) {
                    at[lane + 1] = unit_float((uint32_t)(bits >> 32));
                }
            }
            at += FFN_PANEL;
        }
    }
}

/* One weight a column. Its size undoes the scale of the inputs; its sign makes the first input's sum positive, but
 * negative in every fourth panel: both sides of an activation are seen, and each column of y, which takes its terms
 * from four panels in a row, has some that are not zero. */
static void probe_up(verify_block *block, float *panel, bool negative, verify_rows where, int64_t columns) {
    const float unscale = 1 / input_scale(block->shape);
    for (int64_t lane = 0; where.count > 0 && lane < columns; ++lane) {
        int64_t row = where.first + (lane * 5 + where.first / VERIFY_PROBE_ROWS) % where.rows;
        float *at = panel + row * FFN_PANEL + lane;
        verify_memory_dot(&block->memory, at, sizeof *at);
        uint64_t bits = mix((uint64_t)(at - (float *)block->packed));
        float size = unscale * (0.5f + 2 * (float)(bits >> 40) * 0x1p-24f);
        *at = (input_unit(row) < 0) != negative ? -size : size;
    }
}

/* One weight a row in runs of at least 16 rows, one a column in shorter ones. */
static void probe_down(verify_block *block, float *panel, verify_rows where, int64_t terms, int64_t columns) {
    for (int64_t c = 0; c < where.count; ++c) {
        int64_t begin = where.first + c * where.step;
        int64_t rows = least(where.rows, terms - begin);
        int64_t period = least(rows, FFN_PANEL);
        for (int64_t i = 0; i < rows; ++i) {
            float *row = panel + (begin + i) * FFN_PANEL;
            for (int64_t lane = (i + begin / VERIFY_PROBE_ROWS) % period; lane < columns; lane += period) {
                verify_memory_dot(&block->memory, row + lane, sizeof *row);
                float draw = noise((uint64_t)(row + lane - (float *)block->packed));
                row[lane] = draw < 0 ? draw - 0.5f : draw + 0.5f;
            }
        }
    }
}

static float bias_at(int64_t offset, int64_t column, float size) {
    return size * noise((uint64_t)(offset + column) + (UINT64_C(1) << 57));
}

static void fill_bias(verify_block *block, int64_t offset, int64_t columns, float size) {
    float *bias = (float *)(block->packed + offset);
    verify_memory_dot(&block->memory, bias, (size_t)columns * sizeof *bias);
    for (int64_t i = 0; i < columns; ++i) {
        bias[i] = bias_at(offset, i, size);
    }
}

void verify_block_bias_down(verify_block *block, int64_t begin, int64_t end, bool minus_zero) {
    const int64_t offset = block->shape->layout.bias_down;
    float *bias = (float *)(block->packed + offset);
    for (int64_t i = begin; (block->shape->spec.bias & FFN_BIAS_DOWN) != 0 && i < end; ++i) {
        bias[i] = minus_zero ? -0.0f : bias_at(offset, i, BIAS_DOWN_SIZE);
    }
}

/* Turns the last unit's column over if the first input's sum is negative there. */
static void activate_last_unit(verify_block *block) {
    const ffn_spec *spec = &block->shape->spec;
    float *column =
        up_panel(block, (spec->d_ff - 1) / FFN_PANEL, block->shape->graph.gated) + (spec->d_ff - 1) % FFN_PANEL;
    const verify_rows where = all_rows(spec->d_model);
    double sum = 0;
    for (int64_t k = where.first; k < spec->d_model; ++k) {
        sum += (double)input_unit(k) * (double)column[k * FFN_PANEL];
    }
    for (int64_t k = where.first; sum < 0 && k < spec->d_model; ++k) {
        column[k * FFN_PANEL] = -column[k * FFN_PANEL];
    }
}

/* Everything but the biases, in the order of the addresses. */
static void fill_panels(verify_block *block) {
    const kernel_shape *shape = block->shape;
    const packed_layout *at = &shape->layout;
    for (int64_t p = 0; p < at->up_panels; ++p) {
        verify_rows where = verify_block_up(block, p);
        int64_t columns = least(FFN_PANEL, shape->spec.d_ff - p * FFN_PANEL);
        bool full = block->sampled ? full_up(p, at->up_panels) : !block->probes;
        for (int gate = shape->graph.gated; gate >= 0; --gate) {
            float *panel = up_panel(block, p, gate);
            if (full) {
                fill_rows(block, panel, where, shape->spec.d_model, columns);
            } else {
                probe_up(block, panel, p % 4 == 3, where, columns);
            }
        }
    }
    if (!block->probes) {
        activate_last_unit(block);
    }
    for (int64_t p = 0; p < at->down_panels; ++p) {
        verify_rows where = verify_block_down(block, p);
        int64_t columns = least(FFN_PANEL, shape->spec.d_model - p * FFN_PANEL);
        if (block->sampled ? full_down(p, at->down_panels) : !block->probes) {
            fill_rows(block, down_panel(block, p), where, shape->spec.d_ff, columns);
        } else {
            probe_down(block, down_panel(block, p), where, shape->spec.d_ff, columns);
        }
    }
}

ffn_status verify_block_make(const kernel_shape *shape, int64_t pass, verify_block *block, ffn_diag *diag) {
    const packed_layout *at = &shape->layout;
    verify_block made = {.shape = shape, .sampled = at->total_bytes > VERIFY_DENSE_BYTES, .pass = pass};
    ffn_status status = verify_memory_make((size_t)at->total_bytes, made.sampled, &made.memory, diag);
    if (status != FFN_OK) {
        return status;
    }
    made.packed = made.memory.begin;
    verify_memory_dot(&made.memory, made.packed, sizeof(packed_header));
    ((packed_header *)(void *)made.packed)->finite = 1;
    const ffn_spec *spec = &shape->spec;
    if ((spec->bias & FFN_BIAS_UP) != 0) {
        fill_bias(&made, at->bias_up, spec->d_ff, 0.25f);
    }
    if ((spec->bias & FFN_BIAS_GATE) != 0) {
        fill_bias(&made, at->bias_gate, spec->d_ff, 0.25f);
    }
    if ((spec->bias & FFN_BIAS_DOWN) != 0) {
        fill_bias(&made, at->bias_down, spec->d_model, BIAS_DOWN_SIZE);
    }
    fill_panels(&made);
    *block = made;
    return FFN_OK;
}

void verify_block_probe(verify_block *block) {
    const packed_layout *at = &block->shape->layout;
    memset(block->packed + at->expand, 0, (size_t)(at->total_bytes - at->expand));
    block->probes = true;
    fill_panels(block);
}

void verify_block_free(verify_block *block) {
    verify_memory_free(&block->memory);
}
