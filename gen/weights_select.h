/* weights_select.h: a file's tensors and the caller's options -> which tensor plays which part
 *
 * Only names are looked at here. Several sets of names may be found (encoder and decoder of one model): the one that
 * fits the spec is chosen afterwards, by weights.c. */
#ifndef FFN_WEIGHTS_SELECT_H
#define FFN_WEIGHTS_SELECT_H

#include "weights.h"
#include "weights_names.h"

enum { WEIGHTS_NAME_BYTES = 512, WEIGHTS_SELECTIONS_MAX = 8 };

typedef struct weights_selection {
    const char *family; /* of the table of names; "map" for the caller's own */
    weight_lie lie;
    ffn_gate_order gate_order;
    char names[WEIGHT_ROLES][WEIGHTS_NAME_BYTES];    /* looked for; empty where there is no such name */
    const safetensors_tensor *tensors[WEIGHT_ROLES]; /* found; NULL where not */
} weights_selection;

/* Fills found[0 .. *count-1], *count >= 1 on success; each has its up matrix. BAD_FILE where no name fits: says what
 * was looked for and what comes near; BAD_ARGUMENT for a map that cannot be read. */
ffn_status weights_select(const ffn_spec *spec, const safetensors *file, const char *label,
                          const weights_options *options, weights_selection found[WEIGHTS_SELECTIONS_MAX],
                          size_t *count, ffn_diag *diag);

/* Names of the file that resemble `name`: "; near names: a, b" or "". */
void weights_near_names(const safetensors *file, const char *name, char *text, size_t text_bytes);

#endif
