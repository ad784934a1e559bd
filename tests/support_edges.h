/* support_edges.h: the tables of docs/edges.md <-> activations, arguments and results; a kernel -> whether it returns
 * them
 *
 * The document is the record: what a kernel returns is compared with the numbers that stand there, not with another
 * kernel. Rows and columns follow from the lists of support_edges.c, so that no row can be left out. Needs no test
 * framework: programs for other machines use it too. */
#ifndef SUPPORT_EDGES_H
#define SUPPORT_EDGES_H

#include <stdio.h>

#include "ffn.h"

#define EDGES_WHY_BYTES 512

/* One activation: a column of a table, or where it is gated a table of g by u. */
typedef struct edges_case {
    char activation[64]; /* as in a spec */
    uint32_t accuracy;
    bool gated, own; /* own: a formula */
    int32_t count;   /* of results */
    int32_t classes; /* of a plain one the first so many arguments are classes, the rest are places of its curve */
    float *g, *u;    /* arguments, as bits: signalling NaN among them */
    float *want;     /* what the document says */
} edges_case;

typedef struct edges_list {
    int32_t count;
    edges_case *cases;
} edges_list;

/* All cases, their results not yet known. Ends the program without memory. */
edges_list edges_make(void);
void edges_free(edges_list *list);
/* Results from the document. False: `why` names the line. */
bool edges_read(edges_list *list, const char *path, char why[EDGES_WHY_BYTES]);
/* Everything that follows the line EDGES_MARK. */
void edges_write(const edges_list *list, FILE *file);
#define EDGES_MARK "<!-- What follows is written by scripts/edges.sh. -->"

/* d1-f65..80-<activation>-bias..., of the case's index: d_ff ends at another place of a vector each time. */
ffn_spec edges_spec(const edges_list *list, int32_t index);
/* Through `activate` in every place of arrays of 1 to 2 lanes + 1 elements. n: rows of the class that is to serve. */
bool edges_activate_hold(const ffn_kernel *kernel, const edges_case *edges, int64_t n, int32_t lanes,
                         char why[EDGES_WHY_BYTES]);
/* Through `expand` in every hidden column, and through the fused kernel with each hidden column as the one that counts,
 * in n rows. */
bool edges_hidden_hold(const ffn_kernel *kernel, const edges_case *edges, int64_t n, char why[EDGES_WHY_BYTES]);

/* Memory; ends the program where there is none. */
void *edges_room(size_t bytes);

#endif
