/* tune_log.h: results <-> a file of JSON lines that is only ever added to
 *
 * A line is written by one call and flushed to the disk at once: whatever ends the program, what stands in the file are
 * whole lines and at most one torn one at the end. One process at a time. */
#ifndef TUNE_LOG_H
#define TUNE_LOG_H

#include "tune_record.h"

typedef struct tune_log tune_log;

/* Opens, or makes, and locks the file. A torn last line goes: *torn is then true. `read`: every record is read back,
 * and BAD_FILE names the line that is none. SYSTEM: it cannot be opened, or another process has it. */
ffn_status tune_log_open(const char *path, bool read, tune_log **log, bool *torn, ffn_diag *diag);
/* NULL is allowed. */
void tune_log_close(tune_log *log);
/* What was read at open, in order; NULL past the end. */
const tune_record *tune_log_at(const tune_log *log, size_t i);
/* SYSTEM: the file is then as it was. */
ffn_status tune_log_append(tune_log *log, const tune_record *record, ffn_diag *diag);

/* $XDG_STATE_HOME/ffngen/tune.jsonl, else $HOME/.local/state/ffngen/tune.jsonl; its folders are made. NULL where there
 * is none; free() it. */
char *tune_log_default(ffn_diag *diag);

#endif
