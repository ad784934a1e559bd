/* report.c: aligned tables, printed at once or kept until their widths are known */
#include "report.h"

#include "diag.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_cell(const report_table *table, int column, const char *text) {
    bool last = column == table->count - 1;
    int width = table->widths[column];
    if (table->columns[column].right)
        printf("%*s", width, text);
    else
        printf("%-*s", last ? 0 : width, text); /* no blanks at the end of a line */
    fputs(last ? "\n" : "  ", stdout);
}

static void print_titles(const report_table *table) {
    for (int column = 0; column < table->count; column++)
        print_cell(table, column, table->columns[column].title);
}

static void widen(report_table *table, int column, const char *text) {
    int length = (int)strlen(text);
    if (length > table->widths[column])
        table->widths[column] = length;
}

report_table report_begin(const report_column *columns, int count, bool keep) {
    report_table table = {.columns = columns, .count = count, .keep = keep};
    for (int column = 0; column < count; column++) {
        table.widths[column] = columns[column].width;
        widen(&table, column, columns[column].title);
    }
    if (!keep)
        print_titles(&table);
    return table;
}

static void keep_cell(report_table *table, const char *text) {
    if (table->kept_count == table->kept_room) {
        size_t room = table->kept_room ? 2 * table->kept_room : 64;
        void *grown = realloc(table->kept, room * sizeof *table->kept);
        if (!grown) {
            table->failed = true;
            return;
        }
        table->kept = grown;
        table->kept_room = room;
    }
    widen(table, table->at, text);
    memcpy(table->kept[table->kept_count++], text, strlen(text) + 1);
}

void report_cell(report_table *table, const char *format, ...) {
    char text[REPORT_CELL_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    diag_printable(text); /* names of files among it */
    if (table->keep)
        keep_cell(table, text);
    else
        print_cell(table, table->at, text);
    table->at = (table->at + 1) % table->count;
    if (!table->keep && table->at == 0)
        table->failed = fflush(stdout) != 0 || table->failed;
}

bool report_end(report_table *table) {
    if (table->keep && !table->failed) {
        print_titles(table);
        for (size_t i = 0; i < table->kept_count; i++)
            print_cell(table, (int)(i % (size_t)table->count), table->kept[i]);
    }
    free(table->kept);
    table->kept = NULL;
    return fflush(stdout) == 0 && !table->failed;
}
