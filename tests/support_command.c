/* support_command.c: fork, exec, and two files in memory */
#define _GNU_SOURCE
#include "support_command.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARGUMENTS_MAX 24

support_outcome support_result;

static void read_back(int file, char *text, size_t text_bytes) {
    ssize_t length = pread(file, text, text_bytes - 1, 0);
    text[length > 0 ? length : 0] = '\0';
    close(file);
}

void support_run(const char *path, int out, const char *const *arguments) {
    const char *argv[ARGUMENTS_MAX + 2] = {"ffngen"};
    for (int i = 0; arguments[i]; i++) {
        cr_assert(i < ARGUMENTS_MAX);
        argv[i + 1] = arguments[i];
    }
    int caught = memfd_create("out", 0), err = memfd_create("err", 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dup2(out >= 0 ? out : caught, STDOUT_FILENO);
        dup2(err, STDERR_FILENO);
        execv(getenv("FFNGEN") ? getenv("FFNGEN") : path, (char *const *)(uintptr_t)argv);
        _exit(126);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    support_result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    read_back(caught, support_result.out, sizeof support_result.out);
    read_back(err, support_result.err, sizeof support_result.err);
}

void support_expect_status(int status) {
    cr_assert_eq(support_result.status, status, "status %d, wanted %d: %s", support_result.status, status,
                 support_result.err);
}
