/* tune_list.c: lines, comments, specs */
#include "tune_list.h"

#include "diag.h"
#include "file.h"
#include "text_file.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define LIST_BYTES_MAX ((size_t)1 << 24)

/* Without comment and blanks around, in place. */
static char *bare(char *line) {
    line[strcspn(line, "#")] = '\0';
    line += strspn(line, " \t");
    size_t length = strlen(line);
    while (length > 0 && strchr(" \t\r", line[length - 1]))
        line[--length] = '\0';
    return line;
}

static ffn_status append(ffn_spec **specs, int *count, const ffn_spec *spec, ffn_diag *diag) {
    ffn_spec *more = *count < INT_MAX ? realloc(*specs, ((size_t)*count + 1) * sizeof *more) : NULL;
    if (!more)
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for %d specs", *count);
    *specs = more;
    more[(*count)++] = *spec;
    return FFN_OK;
}

ffn_status tune_list_read(const char *path, ffn_spec **specs, int *count, ffn_diag *diag) {
    char *text, *rest;
    bool ended;
    int before = *count;
    ffn_status status = text_file_read(path, LIST_BYTES_MAX, &text, NULL, diag);
    if (status)
        return status;
    rest = text;
    for (long number = 1; rest && !status; number++) {
        ffn_spec spec;
        ffn_diag problem;
        const char *line = bare(text_file_line(&rest, &ended));
        if (!*line)
            continue;
        if (ffn_spec_parse(line, &spec, &problem))
            status =
                diag_fail(diag, FFN_BAD_FILE, "%s:%ld: '%.100s': %.200s", file_label(path), number, line, problem.text);
        else
            status = append(specs, count, &spec, diag);
    }
    free(text);
    if (!status && *count == before)
        status =
            diag_fail(diag, FFN_BAD_FILE, "%s names no spec; one a line is wanted, like bert-base", file_label(path));
    return status;
}
