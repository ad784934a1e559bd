/* page.h: the JSON of `ffngen bench --suite` -> one HTML page that needs nothing else
 *
 * Tables, plans and pictures stand inside it. Where gnuplot is not installed the page says so in place of the pictures.
 */
#ifndef PAGE_H
#define PAGE_H

#include "ffn.h"

struct cJSON;

/* BAD_FILE: it is not what a suite writes. The page is there whole or not at all. `remark` (NULL is allowed) says why
 * there are no pictures; its status stays FFN_OK where there are. */
ffn_status page_write(const struct cJSON *suite, const char *path, ffn_diag *remark, ffn_diag *diag);

/* How a kernel stands against a peer: over the rows where both have a time. */
typedef struct page_ratio {
    int rows, slower;   /* slower: the kernel took longer than the peer */
    double mean, least; /* peer's median time over the kernel's: geometric mean, least */
} page_ratio;

/* Of the rows with this n and so many threads, 0: any. `peer` NULL: the one that comes nearest in each row.
 * `fast`: where a peer has an activation of its own, over the kernel with the cheaper one ("vs_fast" of a row). */
page_ratio page_ratio_of(const struct cJSON *rows, const char *peer, int n, int threads, bool fast);

#endif
