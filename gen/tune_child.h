/* tune_child.h: what parent and child of a tuning worker say to each other, and the child
 *
 * Records of fixed size over a pair of sockets: a request, then its answer. The child says one answer by itself when it
 * is ready. It ends when the parent's end is closed. */
#ifndef TUNE_CHILD_H
#define TUNE_CHILD_H

#include "tune_worker.h"

enum { TUNE_ASK_PREPARE, TUNE_ASK_SAMPLE };

typedef struct tune_request {
    int32_t kind, index;
    ffn_plan plan; /* of PREPARE */
} tune_request;

typedef struct tune_answer {
    ffn_status status;
    bool verified;
    tune_sample sample;
    char text[TUNE_REASON_BYTES];
} tune_answer;

/* Serves until the other end of `socket` is closed; the process should then end without cleaning up. `store`: folder
 * where images are kept for the next child. */
void tune_child_serve(const tune_setup *setup, const char *store, int socket);

#endif
