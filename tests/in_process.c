/* in_process.c: a Criterion suite -> its tests, each in a plain fork, without Criterion's own sandbox
 *
 * ThreadSanitizer owns the addresses at which that sandbox places its arena, so that no suite starts under it. The tsan
 * preset links this file into every suite: it stands in for the functions a test calls on its runner; the messages of
 * assertions still come from libcriterion. Fixtures of tests work, those of suites, parameters and expected signals do
 * not. */
#include <criterion/criterion.h>
#include <criterion/event.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SKIPPED = 77 };

/* Criterion's Test() collects its tests in a section of this name. */
extern struct criterion_test *const __start_cr_tst[], *const __stop_cr_tst[];

static const struct criterion_test *current;
static bool failed;

void criterion_internal_test_setup(void) {
    if (current->data->init != NULL)
        current->data->init();
}

void criterion_internal_test_main(void (*test)(void)) {
    test();
}

void criterion_internal_test_teardown(void) {
    if (current->data->fini != NULL)
        current->data->fini();
}

void criterion_send_assert(struct criterion_assert_stats *stats) {
    if (!stats->passed)
        fprintf(stderr, "%s:%u: %s\n", stats->file, stats->line, stats->message);
}

void cri_asserts_passed_incr(void) {
}

void criterion_continue_test(void) {
    failed = true;
}

void criterion_abort_test(void) {
    exit(EXIT_FAILURE);
}

void criterion_skip_test(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    exit(SKIPPED);
}

static bool passes(const struct criterion_test *test) {
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        current = test;
        test->test();
        exit(failed ? EXIT_FAILURE : EXIT_SUCCESS); /* not _exit: the sanitizer reports at exit */
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return false;
    const bool skipped = WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED;
    const bool passed = skipped || (WIFEXITED(status) && WEXITSTATUS(status) == test->data->exit_code);
    printf("%s %s::%s\n", skipped ? "skip" : passed ? "pass" : "FAIL", test->category, test->name);
    return passed;
}

int main(void) {
    int failures = 0;
    for (struct criterion_test *const *test = __start_cr_tst; test < __stop_cr_tst; test++)
        failures += *test != NULL && !(*test)->data->disabled && !passes(*test);
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
