/* store_folder.h: a name or the environment -> a folder that nobody else can
 * change, opened */
#ifndef FFN_STORE_FOLDER_H
#define FFN_STORE_FOLDER_H

#include "ffn.h"

/* Absolute path of `folder`; NULL: $XDG_CACHE_HOME/ffngen, else
 * $HOME/.cache/ffngen. Touches no file. Freed by the caller; NULL where there
 * is none: BAD_ARGUMENT, SYSTEM, OUT_OF_MEMORY. */
char *store_folder_path(const char *folder, ffn_diag *problem);
/* A descriptor of the folder, or -1: `problem` then says why, or is untouched
 * where the folder is only not there yet. `create` makes it, and the folders
 * above it. */
int store_folder_open(const char *path, bool create, ffn_diag *problem);

#endif
