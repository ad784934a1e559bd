/* tune_list.h: a file of specs, one a line -> specs */
#ifndef TUNE_LIST_H
#define TUNE_LIST_H

#include "ffn.h"

/* Appends the file's specs to *specs, which is for free(). What follows a # is left out, and so are empty lines.
 * BAD_FILE names the line that is no spec, and a file without any. */
ffn_status tune_list_read(const char *path, ffn_spec **specs, int *count, ffn_diag *diag);

#endif
