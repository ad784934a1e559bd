/* weights.h: a spec and a safetensors file -> the ffn_weights of one layer
 *
 * Tensors are found by name (gen/weights_names.c: Hugging Face's names and plain w1, b1, w2, b2) or by the caller's
 * map. Which way a matrix lies comes, in this order, from the caller, from the row of names, from the file's metadata
 * ("orientation"), from a shape that fits one way only; a square matrix that none of these settles is an error, never a
 * guess. Every shape is checked against the spec, and a bias is there exactly where the spec has one. */
#ifndef FFN_WEIGHTS_H
#define FFN_WEIGHTS_H

#include "pack.h"
#include "safetensors.h"

typedef struct weights_options { /* all zero is the default */
    /* "w1=NAME,b1=NAME,w2=NAME,b2=NAME", or up, gate, down, bias_up, bias_gate, bias_down; for fused matrices gate_up
     * (gate first), up_gate (up first) or gate_up_interleaved. A bias not named is the ".bias" beside a ".weight".
     * "prefix=P" instead takes the names the table knows, but only those that start with P. NULL: the table. */
    const char *map;
    const char *layout; /* "in_out" or "out_in", for every matrix; NULL: see above */
    int64_t layer;
    int64_t expert; /* of a mixture */
    /* The matrices stay in the file, whatever their type: weights_streamed reads them as they are packed. */
    bool streamed;
} weights_options;

typedef struct weights_file weights_file;

/* options may be NULL. BAD_FILE names the tensor, what it is and what the spec wants; where none is found, the names
 * looked for and those of the file that come near. */
ffn_status weights_open(const ffn_spec *spec, const char *path, const weights_options *options, weights_file **file,
                        ffn_diag *diag);
/* The same over a file already open, which then belongs to *file if the call succeeds. */
ffn_status weights_find(const ffn_spec *spec, safetensors *tensors, const char *label, const weights_options *options,
                        weights_file **file, ffn_diag *diag);
void weights_close(weights_file *file); /* NULL is allowed */

/* Valid until weights_close; points into the mapped file, or at widened copies. */
const ffn_weights *weights_of(const weights_file *file);
/* The same for packing, which is all that can be done with weights that are streamed. */
const pack_weights *weights_streamed(const weights_file *file);
/* One line for people: the family of names and the tensors taken. */
const char *weights_summary(const weights_file *file);

/* Any tensor of the same file; NULL if there is none of that name. */
const safetensors_tensor *weights_tensor(const weights_file *file, const char *name);
/* A tensor of the same file as f32 rows ([n][d]; all dimensions before the last together are n), valid until
 * weights_close: token vectors stored beside the weights. BAD_FILE if it is not there. */
ffn_status weights_rows(weights_file *file, const char *name, const float **data, int64_t *n, int64_t *d,
                        ffn_diag *diag);

#endif
