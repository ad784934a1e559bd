/* weights_names.h: how published models name the tensors of their FFNs, and which way they lie: a table of patterns
 *
 * A pattern is the end of a tensor's name, from a dot or the beginning on; '#' stands for the number of the layer, '@'
 * for that of an expert. The part before it, the prefix, is the same for all tensors of one FFN. */
#ifndef FFN_WEIGHTS_NAMES_H
#define FFN_WEIGHTS_NAMES_H

#include "ffn.h"

/* Matrices first, then their biases in the same order. */
typedef enum weight_role {
    WEIGHT_UP,
    WEIGHT_GATE,
    WEIGHT_DOWN,
    WEIGHT_BIAS_UP,
    WEIGHT_BIAS_GATE,
    WEIGHT_BIAS_DOWN,
    WEIGHT_ROLES
} weight_role;

/* A matrix as stored. UNSAID: the names alone do not tell. */
typedef enum weight_lie { WEIGHT_UNSAID, WEIGHT_IN_OUT, WEIGHT_OUT_IN } weight_lie;

typedef struct weight_row {
    const char *family;
    weight_lie lie;
    ffn_gate_order gate_order; /* other than SEPARATE: up and bias_up hold both */
    const char *names[WEIGHT_ROLES];
} weight_row;

/* The i-th row, or NULL past the end. */
const weight_row *weights_names_row(size_t i);

#define WEIGHT_ANY INT64_C(-1)

/* The prefix's length if `name` ends with `pattern`, else -1. *layer and *expert get the numbers in the name, or
 * WEIGHT_ANY where the pattern has none. */
int64_t weights_names_match(const char *pattern, const char *name, int64_t *layer, int64_t *expert);

/* prefix[0 .. prefix_bytes-1] and the pattern with its numbers -> name; false if it is too long. */
bool weights_names_write(const char *prefix, size_t prefix_bytes, const char *pattern, int64_t layer, int64_t expert,
                         char *name, size_t name_bytes);

#endif
