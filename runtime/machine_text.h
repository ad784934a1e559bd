/* machine_text.h: a machine <-> lines of text, "l1_bytes 32768", "memory_mbs 14200" */
#ifndef FFN_MACHINE_TEXT_H
#define FFN_MACHINE_TEXT_H

#include "ffn.h"

#define MACHINE_TEXT_BYTES 1024

/* A file of such lines -> machine: each field once and in its range, blank lines and what follows a '#' left out. Rates
 * stand there all together or not at all; they are then 0. BAD_FILE names file, line and field; *machine is then
 * untouched. */
ffn_status machine_file_read(const char *path, ffn_machine *machine, ffn_diag *diag);
/* The same; *missing tells whether it failed since there is no such file. */
ffn_status machine_file_find(const char *path, ffn_machine *machine, bool *missing, ffn_diag *diag);
/* The lines of every field, with a comment of what they are: what machine_file_read reads back. BAD_ARGUMENT for a
 * machine that it would refuse. */
ffn_status machine_format(const ffn_machine *machine, char text[MACHINE_TEXT_BYTES], ffn_diag *diag);

#endif
