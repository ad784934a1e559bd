/* support_command.h: runs the built command and catches what it prints */
#ifndef SUPPORT_COMMAND_H
#define SUPPORT_COMMAND_H

typedef struct support_outcome {
    int status; /* of exit, or 128 + the signal */
    char out[1 << 20], err[1 << 16];
} support_outcome;

/* Of the last run. */
extern support_outcome support_result;

/* Runs `path` with arguments up to NULL; standard output goes to the descriptor `out`, or is caught if that is -1. The
 * environment variable FFNGEN, if set, names another command than `path`. */
void support_run(const char *path, int out, const char *const *arguments);
/* Ends the test with the command's own words unless the last run had this status. */
void support_expect_status(int status);

#define RUN(...) support_run(FFN_COMMAND, -1, (const char *const[]){__VA_ARGS__, NULL})
#define RUN_TO(out, ...) support_run(FFN_COMMAND, out, (const char *const[]){__VA_ARGS__, NULL})

#endif
