/* suite.c: rows -> a picture; an older JSON file -> its page */
#define _POSIX_C_SOURCE 200809L /* gmtime_r */
#include "suite.h"

#include "ffngen.h"
#include "page.h"
#include "suite_panels.h"
#include "text_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#define JSON_BYTES_MAX ((size_t)64 << 20)

/* The panels of every number of threads in one list, since one picture has them all. */
static ffn_status draw(const cJSON *rows, const char *path, ffn_diag *diag) {
    enum { THREADS_MAX = 16 };
    suite_panels sets[THREADS_MAX];
    int threads[THREADS_MAX], count = 0;
    size_t panels = 0;
    ffn_status status = FFN_OK;
    const cJSON *row;
    cJSON_ArrayForEach(row, rows) {
        int given = (int)suite_number(row, "threads", 0), at = 0;
        while (at < count && threads[at] != given)
            at++;
        if (at == count && count < THREADS_MAX)
            threads[count++] = given;
    }
    plot_panel *all = calloc((size_t)(cJSON_GetArraySize(rows) + count + 1), sizeof *all);
    int made = 0;
    for (; made < count && !status; made++) {
        status = suite_panels_make(rows, threads[made], NULL, &sets[made], diag);
        for (size_t i = 0; all && !status && i < sets[made].count; i++)
            all[panels++] = sets[made].panels[i];
    }
    char date[32], notes[256];
    time_t now = time(NULL);
    struct tm utc;
    strftime(date, sizeof date, "%Y-%m-%d", gmtime_r(&now, &utc));
    snprintf(notes, sizeof notes, "%.40s, %d thread%s, ffngen %s, LLVM %.60s", suite_text(rows->child, "isa"),
             count ? threads[0] : 0, count && threads[0] == 1 ? "" : "s", FFN_VERSION, ffngen_llvm_version());
    const plot_caption caption = {"ffngen and its peers", ffn_machine_name(), date, notes};
    if (!status)
        status = plot_board(all, all ? panels : 0, &caption, path, diag);
    while (made-- > 0)
        suite_panels_free(&sets[made]);
    free(all);
    return status;
}

int suite_plot(const cmd *command, const cJSON *rows, const char *path) {
    ffn_diag diag = {0};
    cJSON *readable = suite_readable(rows);
    if (!readable)
        return cmd_error(command, CMD_FAILED, "no memory for the picture");
    if (cJSON_GetArraySize(readable) == 0) {
        cJSON_Delete(readable);
        return cmd_error(command, CMD_FAILED, "nothing was measured: there is no picture to draw");
    }
    ffn_status status = draw(readable, path, &diag);
    cJSON_Delete(readable);
    return status ? cmd_diag(command, &diag) : CMD_OK;
}

int suite_page(const cmd *command, const char *json, const char *output) {
    ffn_diag diag = {0}, remark = {0};
    char *read;
    struct stat from, to;
    if (!stat(json, &from) && !stat(output, &to) && from.st_dev == to.st_dev && from.st_ino == to.st_ino)
        return cmd_error(command, CMD_USAGE, "--output is the file that --page reads: %s", output);
    if (text_file_read(json, JSON_BYTES_MAX, &read, NULL, &diag))
        return cmd_diag(command, &diag);
    cJSON *suite = cJSON_ParseWithOpts(read, NULL, true);
    free(read);
    if (!suite)
        return cmd_error(command, CMD_FAILED, "%s is no JSON", json);
    ffn_status status = page_write(suite, output, &remark, &diag);
    cJSON_Delete(suite);
    if (status)
        return cmd_diag(command, &diag);
    if (remark.status)
        cmd_note(command, "the page has no pictures: %s", remark.text);
    return CMD_OK;
}
