/* test_suite.c: how time is dealt out to the cases of a suite, and what an interrupted one leaves */
#define _GNU_SOURCE
#include "peer.h"
#include "suite.h"
#include "suite_schedule.h"
#include "support_files.h"

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const int64_t n[] = {1, 4, 16, 64, 128, 512};
static const int threads[] = {1, 2};
enum { N_COUNT = 6 };

static suite_schedule schedule_of(double gflops, double budget) {
    suite_schedule schedule;
    ffn_spec *specs;
    int count;
    cr_assert_eq(suite_presets(&specs, &count, NULL), FFN_OK);
    cr_assert_eq(suite_schedule_make(specs, count, n, N_COUNT, threads, 2, 5, gflops, budget, &schedule, NULL), FFN_OK);
    free(specs);
    return schedule;
}

Test(suite, every_preset_has_every_n_and_number_of_threads_once) {
    suite_schedule schedule = schedule_of(40, 100);
    for (size_t p = 0; ffn_preset_at(p); p++) {
        ffn_spec spec;
        cr_assert_eq(ffn_spec_parse(ffn_preset_at(p)->spec, &spec, NULL), FFN_OK);
        for (int t = 0; t < 2; t++) {
            for (int i = 0; i < N_COUNT; i++) {
                int found = 0;
                for (int c = 0; c < schedule.count; c++) {
                    const suite_case *of = &schedule.cases[c];
                    found += ffn_spec_equal(&of->spec, &spec) && of->n == n[i] && of->threads == threads[t];
                }
                cr_expect_eq(found, 1, "%s, n = %lld: %d times", ffn_preset_at(p)->name, (long long)n[i], found);
            }
        }
    }
    free(schedule.cases);
}

/* A machine on which everything takes `slower` times what is thought, give or take a third. */
static double simulate(suite_schedule *schedule, double slower, int *taken) {
    double now = 0;
    unsigned random = 1;
    *taken = 0;
    for (int i = 0; i < schedule->count; i++) {
        double seconds = suite_schedule_deal(schedule, i, now);
        if (!(seconds > 0)) {
            cr_expect_eq(schedule->cases[i].state, SUITE_LEFT_OUT);
            continue;
        }
        cr_expect(seconds >= SUITE_SECONDS_LEAST && seconds <= SUITE_SECONDS_FULL, "%g s", seconds);
        random = random * 1103515245u + 12345u;
        now += schedule->cases[i].least * slower * (0.67 + 0.66 * (random >> 16 & 0x7fff) / 0x7fff) +
               schedule->trials * seconds;
        schedule->cases[i].state = SUITE_TAKEN;
        ++*taken;
    }
    suite_schedule_end(schedule, now);
    return now;
}

Test(suite, time_dealt_out_stays_within_what_there_is) {
    const double budgets[] = {5, 60, 300, 840, 1e5}, paces[] = {0.3, 1, 3, 8};
    for (size_t b = 0; b < 5; b++) {
        for (size_t p = 0; p < 4; p++) {
            suite_schedule schedule = schedule_of(40, budgets[b]);
            int taken;
            double took = simulate(&schedule, paces[p], &taken);
            printf("budget %g s, pace %g: %.1f s, %d of %d cases\n", budgets[b], paces[p], took, taken, schedule.count);
            cr_expect_leq(took, 1.05 * budgets[b] + 4 * paces[p], "budget %g s, pace %g: %.1f s", budgets[b], paces[p],
                          took);
            if (budgets[b] > 1e4)
                cr_expect_eq(taken, schedule.count, "there was time for all");
            free(schedule.cases);
        }
    }
}

Test(suite, what_is_left_out_is_never_smaller_than_what_is_kept) {
    suite_schedule schedule = schedule_of(40, 300);
    int taken;
    simulate(&schedule, 1, &taken);
    double largest = 0, smallest = INFINITY;
    for (int i = 0; i < schedule.count; i++) {
        const suite_case *of = &schedule.cases[i];
        if (of->state == SUITE_TAKEN)
            largest = fmax(largest, of->least);
        else
            smallest = fmin(smallest, of->least);
    }
    cr_expect(taken > 0 && taken < schedule.count);
    cr_expect_leq(largest, 1.5 * smallest, "kept: %g s, left out: %g s", largest, smallest);
    free(schedule.cases);
}

Test(suite, interrupted_it_writes_what_there_is_and_says_so, .init = support_folder_make,
     .fini = support_folder_remove) {
    const cmd command = {.name = "bench"};
    char page[4096];
    snprintf(page, sizeof page, "%s", support_path("s.html"));
    const suite_options options = {page, 5, 1, "none", ""};
    fflush(NULL);
    signal(SIGALRM, SIG_DFL);
    pid_t parent = getpid(), killer = fork();
    if (killer == 0) {
        sleep(4); /* after the first rows */
        kill(parent, SIGINT);
        _exit(0);
    }
    cr_expect_eq(suite_run(&command, &options), CMD_FAILED);
    size_t bytes;
    char *data = support_file_read(support_path("s.json"), &bytes);
    cJSON *suite = cJSON_ParseWithLength(data, bytes);
    cr_assert_not_null(suite);
    cr_expect(cJSON_IsFalse(cJSON_GetObjectItem(suite, "complete")));
    int rows = cJSON_GetArraySize(cJSON_GetObjectItem(suite, "rows")),
        rest = cJSON_GetArraySize(cJSON_GetObjectItem(suite, "left_out"));
    printf("interrupted after %d rows\n", rows);
    cr_expect(rest > 0 && (rows + rest) % N_COUNT == 0, "%d rows and %d left out", rows, rest);
    cJSON_Delete(suite);
    free(data);
    data = support_file_read(support_path("s.html"), &bytes);
    cr_expect_not_null(memmem(data, bytes, "Incomplete:", 11));
    free(data);
}

Test(suite, a_place_that_cannot_be_written_is_told_before_anything_is_measured) {
    const cmd command = {.name = "bench"};
    const suite_options options = {"/nowhere/s.html", 0.1, 1, "no_such_peer", ""};
    cr_expect_eq(suite_run(&command, &options), CMD_FAILED, "the peers, bad usage, were looked at first");
}
