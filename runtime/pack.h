/* pack.h: weights -> the body of a packed block, piece by piece and in order, for whoever takes the pieces
 *
 * A block in memory takes pieces of any size where they are made; a file takes them through one buffer. Matrices are
 * f32 in memory, or are read a rectangle at a time, so that neither side ever needs the whole of one. The body does not
 * depend on how it was cut, nor on where the numbers came from. */
#ifndef FFN_PACK_H
#define FFN_PACK_H

#include "packed_seal.h"

/* A dense matrix that is not f32 in memory. `read` puts rows row .. row + rows - 1 of columns column .. column +
 * columns - 1, as the matrix is stored, into to[rows][columns]. */
typedef struct pack_reader {
    void (*read)(void *self, int64_t row, int64_t rows, int64_t column, int64_t columns, float *to);
    void *self;
} pack_reader;

/* Where a reader has a `read`, the matrix of the same name in `weights` gives its layout alone. */
typedef struct pack_weights {
    ffn_weights weights;
    pack_reader up, gate, down;
} pack_weights;

typedef struct pack_sink {
    float *room;        /* where the next piece is made */
    int64_t floats_max; /* that fit there: at least FFN_PANEL */
    /* The piece at `room` is done. May move `room` on. A failure ends the packing. */
    ffn_status (*take)(struct pack_sink *sink, int64_t floats, ffn_diag *diag);
} pack_sink;

/* Element (k, column) of a matrix with K inputs: in memory at data[k * k_stride + column * column_stride]; read, output
 * first + step * column of input k. */
typedef struct pack_view {
    ffn_layout layout; /* as stored: strides do not tell, where there is one input or one output */
    const float *data;
    int64_t k_stride, column_stride;
    const pack_reader *reader; /* NULL: in memory */
    int64_t first, step;
} pack_view;

/* What is packed, each part once and checked. `gate` and `bias_gate` are empty where the spec has none, biases too. */
typedef struct pack_job {
    packed_layout at;
    packed_header header; /* of the block; checksum and finite once it has been packed */
    pack_view up, gate, down;
    const float *bias_up, *bias_gate, *bias_down;
    int64_t bias_stride; /* of bias_up and bias_gate */
} pack_job;

/* Checks every argument; writes nothing. The job points into `weights`. */
ffn_status pack_prepare(const ffn_spec *spec, const pack_weights *weights, pack_job *job, ffn_diag *diag);
/* The body of the block -> the sink; fails only if the sink does. */
ffn_status pack_body(pack_job *job, pack_sink *sink, ffn_diag *diag);

#endif
