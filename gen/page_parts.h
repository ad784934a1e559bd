/* page_parts.h: what the files of the page share: text that is escaped, numbers the same in every locale */
#ifndef PAGE_PARTS_H
#define PAGE_PARTS_H

#include "page.h"
#include "suite_panels.h"
#include "text.h"

/* Any text as HTML has it, in an element or in an attribute in double quotes. */
void page_escaped(text *to, const char *name);
/* "<td>" with a figure; "–" where it is not above 0. */
void page_cell(text *to, double value, int decimals);
/* "<td>" with "1.23×"; marked, in words too, where it is below 1. */
void page_ratio_cell(text *to, double ratio);

void page_summary(text *to, const cJSON *suite);
void page_tables(text *to, const cJSON *suite);

/* Names of the peers that have a time in a row, in the order in which they come. */
#define PAGE_PEERS_MAX 16
int page_peers(const cJSON *rows, const char *names[PAGE_PEERS_MAX]);
/* The distinct values of a whole number in the rows, ascending. */
#define PAGE_VALUES_MAX 64
int page_values(const cJSON *rows, const char *key, int values[PAGE_VALUES_MAX]);

#endif
