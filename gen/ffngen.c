/* ffngen.c: the command: its first argument -> a subcommand; what could not be written is never a success */
#define _XOPEN_SOURCE 700 /* SIGXFSZ */
#include "ffngen.h"
#include "cmd.h"
#include "diag.h"
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const cmd *const commands[] = {&cmd_run,  &cmd_verify,       &cmd_bench, &cmd_explain,   &cmd_emit,
                                      &cmd_pack, &cmd_list,         &cmd_cache, &cmd_calibrate, &cmd_demo,
                                      &cmd_tune, &cmd_tuned_tables, NULL};

static const char *command_name_at(size_t i) {
    return commands[i] ? commands[i]->name : NULL;
}

static void print_help(void) {
    printf("usage: ffngen COMMAND [arguments]\n\n"
           "Generates, runs and measures feed-forward-network kernels specialised to one shape and activation.\n\n"
           "commands:\n");
    for (const cmd *const *command = commands; *command; command++)
        printf("  %-9s  %s\n", (*command)->name, (*command)->summary);
    printf("\nA SPEC is a preset (bert-base) or a text such as d512-f2048-relu-bias or d4096-f14336-swiglu.\n"
           "'ffngen COMMAND --help' tells the rest; 'ffngen --version' the versions.\n"
           "Exit status: 0 done, 1 a check or the work failed, 2 bad usage.\n");
}

static int dispatch(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : NULL;
    if (!name)
        return cmd_error(NULL, CMD_USAGE, "no command is given");
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) {
        print_help();
        return CMD_OK;
    }
    if (!strcmp(name, "--version")) {
        printf("ffngen %s, LLVM %s\n", FFN_VERSION, ffngen_llvm_version());
        return CMD_OK;
    }
    for (const cmd *const *command = commands; *command; command++) {
        if (strcmp((*command)->name, name))
            continue;
        if ((*command)->measures && bench_peer_clean_start(argv))
            return cmd_error(*command, CMD_FAILED, "could not start anew without OPENBLAS_CORETYPE: %s",
                             strerror(errno));
        return (*command)->run(*command, argc - 1, argv + 1);
    }
    char near[192];
    diag_near_names(name, command_name_at, near, sizeof near);
    return cmd_error(NULL, CMD_USAGE, "unknown command '%s'%s", name, near);
}

/* A file opened where a standard stream was closed would be written to by whoever prints. The stand-in cannot be
 * written to, so that a closed output is still an error. */
static void keep_standard_streams(void) {
    int file;
    do
        file = open("/dev/null", O_RDONLY);
    while (file >= 0 && file <= STDERR_FILENO);
    if (file >= 0)
        close(file);
}

int main(int argc, char **argv) {
    keep_standard_streams();
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error to report, not a silent death */
    signal(SIGXFSZ, SIG_IGN); /* and so is a limit on the size of files */
    int status = dispatch(argc, argv);
    if (fflush(stdout) || ferror(stdout)) {
        fprintf(stderr, "ffngen: standard output could not be written: %s\n", strerror(errno));
        status = status ? status : CMD_FAILED;
    }
    return status;
}
