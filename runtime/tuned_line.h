/* tuned_line.h: one record of a tuned table <-> its line */
#ifndef FFN_TUNED_LINE_H
#define FFN_TUNED_LINE_H

#include "tuned.h"

/* Enough for any record: every character of a text may take two. */
#define TUNED_LINE_BYTES 4096

/* `line` is cut up. BAD_FILE names the field; *record is then untouched. */
ffn_status tuned_line_parse(char *line, tuned_record *record, ffn_diag *diag);
/* BAD_ARGUMENT for a record that tuned_line_parse would refuse; no end of line. */
ffn_status tuned_line_format(const tuned_record *record, char line[TUNED_LINE_BYTES], ffn_diag *diag);
/* Times and spreads as a file holds them, so that a record is the same before and after it was written. */
void tuned_line_round(tuned_record *record);

#endif
