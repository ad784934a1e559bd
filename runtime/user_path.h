/* user_path.h: the environment, or a name, -> the absolute path of something that belongs to the user
 *
 * Touches no file. What is handed out is the caller's, for free(); NULL where there is none, and `problem` says why:
 * BAD_ARGUMENT, SYSTEM, OUT_OF_MEMORY. */
#ifndef FFN_USER_PATH_H
#define FFN_USER_PATH_H

#include "ffn.h"

/* A kind of user's files under the XDG rules: $variable/ffngen, else $HOME/below_home/ffngen. */
typedef struct user_place {
    const char *variable;   /* "XDG_CACHE_HOME" */
    const char *below_home; /* ".cache" */
} user_place;

/* The folder of the place, or where `name` is not NULL the path of that name in it. A relative variable is ignored, and
 * in a program that runs with another's rights every variable is. */
char *user_path_of(const user_place *place, const char *name, ffn_diag *problem);
/* A relative path is meant from the folder that is current now. `what` names it in a problem: "folder". */
char *user_path_absolute(const char *path, const char *what, ffn_diag *problem);

#endif
