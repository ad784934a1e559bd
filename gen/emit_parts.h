/* emit_parts.h: a job -> the values that the templates of a header ask for
 *
 * Private to gen/emit_header.c and gen/emit_*_values.c. */
#ifndef FFN_EMIT_PARTS_H
#define FFN_EMIT_PARTS_H

#include "emit_template.h"
#include "packed.h"

/* A job, looked at once. */
typedef struct emit_view {
    const emit_job *job;
    ffn_isa isas[FFN_ISA_COUNT]; /* the widest first: the order in which variants are preferred */
    int32_t isa_count;
    char prefix_upper[EMIT_NAME_BYTES];
} emit_view;

/* Letters of a C identifier in capitals. */
void emit_upper(const char *name, char upper[EMIT_NAME_BYTES]);
/* Packed weights that stand inside the program. */
bool emit_has_weights(const emit_kernel *kernel);
size_t emit_scratch_bytes(const emit_view *view, const emit_kernel *kernel);

/* What all specs share: P, PU, FILE, API, ... */
void emit_job_values(const emit_view *view, emit_values *values);
/* What is one spec's: S, SU, SPEC, sizes, data tables, the activation. */
ffn_status emit_spec_values(const emit_view *view, const emit_kernel *kernel, emit_values *values, ffn_diag *diag);
/* The words of the opening comment; after emit_job_values and those of the first spec. */
ffn_status emit_opening_values(const emit_view *view, emit_values *values, ffn_diag *diag);

#endif
