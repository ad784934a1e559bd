/* suite.h: every preset, n, number of threads and peer -> one JSON file and one HTML page
 *
 * A row is the object that `ffngen bench --json` prints a line of (docs/command.md). */
#ifndef SUITE_H
#define SUITE_H

#include "cmd.h"

struct cJSON;

typedef struct suite_options {
    const char *output; /* FILE.html; the JSON stands beside it, as FILE.json */
    double minutes;     /* for all of it; what does not fit is left out, and said */
    int threads;        /* of "all threads"; 0: as many as this process may run on */
    const char *peers;  /* as --vs takes them */
    const char *store;  /* as ffn_options.store */
} suite_options;

/* Every preset, n = 1, 4, 16, 64, 128, 512, one thread and all threads, against every peer. What there is when the user
 * interrupts it is written too, marked incomplete. Exit status. */
int suite_run(const cmd *command, const suite_options *options);
/* The page of a JSON file that was written earlier. Exit status. */
int suite_page(const cmd *command, const char *json, const char *output);

/* `ffngen bench --plot`: a roofline and, for each spec, bars per n against the peers, in one picture file. `rows` is an
 * array of row objects. Exit status; what went wrong was said. */
int suite_plot(const cmd *command, const struct cJSON *rows, const char *path);

#endif
