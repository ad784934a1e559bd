/* tuned.h: a file of plans that were measured -> a table; spec, ISA, n class and threads -> the best plan it knows
 *
 * A table is a plain object: one thread at a time, any number at once while none changes it. What it gives out belongs
 * to it and lives until it is changed or freed. The file is described in docs/tuned.md. */
#ifndef FFN_TUNED_H
#define FFN_TUNED_H

#include "ffn.h"

#define TUNED_MAGIC "ffngen-tuned 1"
#define TUNED_NAME_BYTES 128

/* One measurement. The key is everything but the plan's other fields, ms and spread. Times are kept to the nanosecond,
 * spreads to a millionth. */
typedef struct tuned_record {
    ffn_spec spec;
    ffn_plan plan; /* ISA and n class are of the key */
    int32_t threads;
    double ms;                        /* of the fastest run */
    double spread;                    /* (slowest - fastest) / fastest of the runs that counted */
    char machine[TUNED_NAME_BYTES];   /* one line: the CPU's own name */
    char llvm[TUNED_NAME_BYTES];      /* "19.1.7" */
    char generator[TUNED_NAME_BYTES]; /* FFN_VERSION */
} tuned_record;

typedef struct tuned tuned;

/* OUT_OF_MEMORY. */
ffn_status tuned_create(tuned **table, ffn_diag *diag);
/* NULL is allowed. */
void tuned_free(tuned *table);

/* The whole file or nothing: BAD_FILE names file, line and field. A record whose plan cannot be generated for its spec
 * is a bad line. Of two records with one key the better stays. */
ffn_status tuned_load(const char *path, tuned **table, ffn_diag *diag);
/* The same; *missing tells whether there was no such file, which may be no mistake. */
ffn_status tuned_load_present(const char *path, tuned **table, bool *missing, ffn_diag *diag);
/* The whole table, its comments and blank lines where they stood, in place of the file. */
ffn_status tuned_save(const tuned *table, const char *path, ffn_diag *diag);
/* The records of the table into a file that other processes may be adding to at the same time: under a lock on its
 * folder the file is loaded (an absent one is empty), merged and replaced. No record of either is lost. */
ffn_status tuned_save_merged(const tuned *table, const char *path, ffn_diag *diag);

/* What became of the records: of a new key, faster than the one that was there, or not. */
typedef struct tuned_merged {
    size_t added, better, kept;
} tuned_merged;
/* The same, with what it did. */
ffn_status tuned_save_counted(const tuned *table, const char *path, tuned_merged *merged, ffn_diag *diag);
/* The text that tuned_save writes, without a 0 at its end; free() it. */
ffn_status tuned_format(const tuned *table, char **text, size_t *bytes, ffn_diag *diag);

/* BAD_ARGUMENT for a record that a file could not hold. A record with the same key stays if it is as fast. */
ffn_status tuned_add(tuned *table, const tuned_record *record, ffn_diag *diag);
/* Every record of `from`; all or, without memory, none. Its comments are not taken over. */
ffn_status tuned_merge(tuned *table, const tuned *from, ffn_diag *diag);

/* The i-th record, or NULL past the end. */
const tuned_record *tuned_at(const tuned *table, size_t i);

/* The record at *at or behind it, or NULL past the end; *at, 0 at first, goes on: all of them in one pass. */
const tuned_record *tuned_next(const tuned *table, size_t *at);

/* What was asked for: threads 0 and machine NULL stand for any. */
typedef struct tuned_query {
    const ffn_spec *spec;
    ffn_isa isa;
    ffn_n_class n_class;
    int32_t threads;
    const char *machine;
} tuned_query;

/* The record to use, or NULL. One of this machine goes before one of another, which is a hint only: *hint (NULL is
 * allowed) is then true, as it is where no machine was named. Among equals the fastest, whatever their order. */
const tuned_record *tuned_find(const tuned *table, const tuned_query *query, bool *hint);

#endif
