/* tuned_tables.h: what a program named, and the user's own file -> the tables of tuned plans that are asked, in order
 *
 * A file is taken whole or not at all. One that is not taken is never a failure: what is asked next serves. */
#ifndef FFN_TUNED_TABLES_H
#define FFN_TUNED_TABLES_H

#include "tuned.h"

#define TUNED_TABLES_MAX 2

typedef struct tuned_tables {
    int count; /* of those that were taken */
    struct {
        tuned *table;
        char *path;
    } of[TUNED_TABLES_MAX];
} tuned_tables;

/* Path of the user's table; as config_file_path. */
char *tuned_user_path(ffn_diag *problem);

/* The tables for a value of ffn_options.tuned: the file it names, then the user's; NULL: that alone; "": none. The i-th
 * remark says why a file was not taken, its status is FFN_OK; it is empty where there is nothing to say: a user who has
 * no table is no problem, a named file that is not there is one. */
void tuned_tables_load(const char *named, tuned_tables *tables, ffn_diag remarks[TUNED_TABLES_MAX]);
void tuned_tables_free(tuned_tables *tables);

#endif
