/* config_folder.h: names of files -> paths in the user's folder of settings, $XDG_CONFIG_HOME/ffngen, else
 * $HOME/.config/ffngen
 *
 * What lies there was measured and can be measured again: nothing in it can change a bit of a result. */
#ifndef FFN_CONFIG_FOLDER_H
#define FFN_CONFIG_FOLDER_H

#include "ffn.h"

/* Touches no file. The caller frees it; NULL where there is no such folder (SYSTEM) or no memory: `problem` says so. */
char *config_file_path(const char *name, ffn_diag *problem);
/* Makes that folder, and those above it, where they are not there: for this user alone. */
ffn_status config_folder_make(ffn_diag *diag);

#endif
