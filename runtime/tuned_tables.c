/* tuned_tables.c: see tuned_tables.h */
#define _GNU_SOURCE /* strdup */
#include "tuned_tables.h"

#include <stdlib.h>
#include <string.h>

#include "config_folder.h"
#include "diag.h"

#define USER_FILE "tuned"

char *tuned_user_path(ffn_diag *problem) {
    return config_file_path(USER_FILE, problem);
}

/* Takes the path, whatever comes of it. */
static void take(tuned_tables *tables, char *path, bool may_miss, ffn_diag *remark) {
    tuned *table = NULL;
    bool missing = false;
    ffn_diag why;
    if (path == NULL)
        diag_fail(remark, FFN_OK, "tuned plans: not used: no memory");
    else if (tuned_load_present(path, &table, &missing, &why) == FFN_OK) {
        tables->of[tables->count].table = table;
        tables->of[tables->count++].path = path;
        return;
    } else if (!missing || !may_miss)
        diag_fail(remark, FFN_OK, "tuned plans: not used: %s", why.text);
    free(path);
}

void tuned_tables_load(const char *named, tuned_tables *tables, ffn_diag remarks[TUNED_TABLES_MAX]) {
    *tables = (tuned_tables){.count = 0};
    for (int i = 0; i < TUNED_TABLES_MAX; i++)
        remarks[i] = (ffn_diag){.status = FFN_OK};
    if (named != NULL && *named == '\0')
        return;
    if (named != NULL)
        take(tables, strdup(named), false, &remarks[0]);
    ffn_diag nowhere;
    char *own = tuned_user_path(&nowhere);
    if (own != NULL || nowhere.status == FFN_OUT_OF_MEMORY) /* else a user without a home, and so without a table */
        take(tables, own, true, &remarks[1]);
}

void tuned_tables_free(tuned_tables *tables) {
    for (int i = 0; i < tables->count; i++) {
        tuned_free(tables->of[i].table);
        free(tables->of[i].path);
    }
    *tables = (tuned_tables){.count = 0};
}
