/* options.h: a table of options -> parsed values and the lines of --help
 *
 * Both come from the same table. A mistake is one message that names the option and what would be right. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include "cmd.h"

#define OPTIONS_MAX 32
#define OPTION_COUNTS_MAX 256

typedef enum option_kind {
    OPTION_FLAG,    /* bool: no value */
    OPTION_TEXT,    /* const char * */
    OPTION_COUNT,   /* int64_t, 1 or more */
    OPTION_INDEX,   /* int64_t, 0 or more */
    OPTION_COUNTS,  /* option_counts: "1,16,128" */
    OPTION_SECONDS, /* double, above 0 */
    OPTION_ISA,     /* ffn_isa */
    OPTION_CHOICE,  /* int: index into choices */
} option_kind;

typedef struct option_counts {
    int count;
    int64_t values[OPTION_COUNTS_MAX];
} option_counts;

typedef struct option_row {
    const char *name; /* without the dashes; NULL ends the table */
    char letter;      /* short form, or 0 */
    option_kind kind;
    void *value;          /* stays as it is where the option is not given */
    const char *argument; /* of --help: "N,..." */
    const char *help;
    const char *const *choices; /* NULL-terminated */
} option_row;

/* True: go on, argv[*operands ..] are the operands, options stand before them. False: end with *status; --help was
 * printed or a mistake said. */
bool options_parse(const cmd *command, const option_row *table, int argc, char **argv, int *operands, int *status);
/* The same, and given[i] tells whether row i was. */
bool options_parse_given(const cmd *command, const option_row *table, int argc, char **argv, int *operands, int *status,
                         bool given[OPTIONS_MAX]);

/* For an option that brings a way of its own to work: true if what was given is all among `heeded`, names like
 * "suite,minutes". False: the one that would not be heeded was said, and `rest` after it. */
bool options_heeded(const cmd *command, const option_row *table, const bool given[OPTIONS_MAX], const char *heeded,
                    const char *rest);

#endif
