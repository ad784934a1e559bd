/* report.h: rows of text -> an aligned table on standard output
 *
 * A table that is printed while work goes on has widths fixed beforehand; one that is all there fits them to its
 * cells. */
#ifndef REPORT_H
#define REPORT_H

#include <stdbool.h>
#include <stddef.h>

#define REPORT_COLUMNS_MAX 16
#define REPORT_CELL_BYTES 192

typedef struct report_column {
    const char *title;
    int width;  /* at least; the title may make it wider */
    bool right; /* numbers stand right */
} report_column;

typedef struct report_table {
    const report_column *columns;
    int count;
    int at; /* cells of the open row */
    int widths[REPORT_COLUMNS_MAX];
    char (*kept)[REPORT_CELL_BYTES]; /* cells kept until report_end; NULL where rows are printed at once */
    size_t kept_count, kept_room;
    bool keep, failed;
} report_table;

/* `keep`: the rows wait for report_end and widths fit. */
report_table report_begin(const report_column *columns, int count, bool keep);
/* The next cell of the row, printf-like; the last one of a row ends it. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void report_cell(report_table *table, const char *format, ...);
/* False if the table is not out, whole. */
bool report_end(report_table *table);

#endif
