/* test_tune.c: the search finds the fastest plan through noise and failures,
 * and stays within its budget
 *
 * Timings come from a lab with a clock of its own, whose plans have speeds that
 * the test has chosen; a clock so made never makes a test depend on how busy
 * the machine is. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan_space.h"
#include "support_data.h"
#include "tune_search.h"

enum { PLANS_MAX = 400, FAIL_NEVER = 0, FAIL_PREPARE, FAIL_SAMPLE };

typedef struct lab {
    tune_lab lab;
    tune_search search;
    double clock;                 /* seconds */
    double ms[PLANS_MAX];         /* true speed of a call */
    double prepare_s, overhead_s; /* what a call to the lab takes */
    double noise, wander;         /* shares: of a sample; of the machine's pace, slowly */
    support_rng rng;
    int fail_how[PLANS_MAX], fail_after[PLANS_MAX]; /* samples */
    tune_state fail_as[PLANS_MAX];
    int prepared[PLANS_MAX], sampled[PLANS_MAX];
    int order[PLANS_MAX], order_count; /* in which plans were prepared */
    double hang_s;
    int neighbours_asked, neighbours_given;
    bool stop;
    int records[PLANS_MAX], rounds_recorded_least;
} lab;

static double uniform(lab *l) {
    return (double)support_between(&l->rng, 0, 1000000) * 1e-6;
}

/* What is left of a call that hangs or runs out of time. */
static tune_state spend(lab *l, double wanted, double seconds) {
    l->clock += fmin(wanted, seconds);
    return wanted > seconds ? TUNE_HUNG : TUNE_OK;
}

static tune_state prepare(void *self, int index, const ffn_plan *plan, double seconds, bool *verified,
                          char reason[TUNE_REASON_BYTES]) {
    lab *l = self;
    (void)plan;
    l->order[l->order_count++] = index;
    l->prepared[index]++;
    *verified = true;
    strcpy(reason, "as the test wants it");
    bool fails = l->fail_how[index] == FAIL_PREPARE;
    tune_state spent = spend(l, fails && l->fail_as[index] == TUNE_HUNG ? INFINITY : l->prepare_s, seconds);
    return spent != TUNE_OK ? spent : fails ? l->fail_as[index] : TUNE_OK;
}

static tune_state sample(void *self, int index, double seconds, tune_sample *taken, char reason[TUNE_REASON_BYTES]) {
    lab *l = self;
    cr_assert(l->prepared[index] > 0, "plan %d is timed before it is made", index);
    cr_assert(l->fail_how[index] != FAIL_PREPARE, "plan %d failed and is timed", index);
    strcpy(reason, "as the test wants it");
    if (l->fail_how[index] == FAIL_SAMPLE && l->sampled[index] >= l->fail_after[index]) {
        spend(l, l->fail_as[index] == TUNE_HUNG ? INFINITY : l->overhead_s, seconds);
        return l->fail_as[index];
    }
    l->sampled[index]++;
    double pace = 1 + l->wander * (1 + sin(l->clock)) / 2; /* a machine that others use */
    double spike = uniform(l) < 0.05 ? 1 + 10 * l->noise : 1;
    *taken = (tune_sample){.ms = l->ms[index] * pace * (1 + l->noise * uniform(l)) * spike};
    return spend(l, l->overhead_s + taken->ms * 1e-3, seconds);
}

static double now(void *self) {
    return ((const lab *)self)->clock;
}

static bool stopped(void *self) {
    return ((const lab *)self)->stop;
}

static bool record(void *self, const tune_candidate *candidate) {
    lab *l = self;
    l->records[candidate - l->search.candidates]++;
    if (candidate->state == TUNE_OK && candidate->figures.rounds < l->rounds_recorded_least)
        l->rounds_recorded_least = candidate->figures.rounds;
    return true;
}

/* Plans that differ in m_block alone: the larger is the simpler. */
static ffn_plan numbered(int i) {
    static ffn_plan base;
    if (base.tile_count == 0) {
        ffn_spec spec = support_spec("d64-f256-relu");
        ffn_machine machine;
        cr_assert_eq(ffn_machine_generic(FFN_ISA_AVX2, &machine, NULL), FFN_OK);
        cr_assert_eq(ffn_plan_make(&spec, FFN_ISA_AVX2, FFN_N_17_UP, &machine, &base, NULL), FFN_OK);
    }
    ffn_plan plan = base;
    plan.m_block = i + 1;
    return plan;
}

/* Two plans that are not in the list, one of them by 6 % faster than all. */
static size_t neighbours(void *self, const ffn_plan *plan, ffn_plan *plans, size_t plans_max) {
    lab *l = self;
    (void)plan, (void)plans_max;
    l->neighbours_asked++;
    for (int i = 0; i < l->neighbours_given; i++)
        plans[i] = numbered(300 + i);
    return (size_t)l->neighbours_given;
}

static lab *begin(int count, double seconds) {
    lab *l = calloc(1, sizeof *l);
    l->lab = (tune_lab){prepare, sample, now, stopped, l};
    l->search = (tune_search){.lab = &l->lab, .seconds = seconds, .limit = 10, .record = record, .self = l};
    l->prepare_s = 0.1;
    l->overhead_s = 0.001;
    l->rng.state = 5;
    l->rounds_recorded_least = 1000;
    for (int i = 0; i < PLANS_MAX; i++)
        l->ms[i] = 1.2;
    for (int i = 0; i < count; i++) {
        ffn_plan plan = numbered(i);
        cr_assert(tune_search_add(&l->search, &plan));
    }
    return l;
}

static void end(lab *l) {
    tune_search_clear(&l->search);
    free(l);
}

static void run(lab *l) {
    ffn_diag diag = {0};
    cr_assert_eq(tune_search_run(&l->search, &diag), FFN_OK, "%s; plan 0 was timed %d times, plan 1 %d", diag.text,
                 l->sampled[0], l->sampled[1]);
}

/* ---- Figures ---- */

Test(tune, figures_are_those_of_the_samples) {
    tune_samples samples = {0};
    const double ms[] = {2, 4, 3, 5}, reference[] = {1, 2, 2, 4};
    for (int i = 0; i < 4; i++)
        tune_samples_add(&samples, ms[i], reference[i], 0.25 * i);
    tune_figures f = tune_figures_of(&samples);
    cr_expect_eq(f.rounds, 4);
    cr_expect_float_eq(f.ms_min, 2, 1e-12);
    cr_expect_float_eq(f.ms_median, 3.5, 1e-12);
    cr_expect_float_eq(f.reference_ms, 2, 1e-12);
    /* ratios 2, 2, 1.5, 1.25: median 1.75; of the minima 2 */
    cr_expect_float_eq(f.ratio, sqrt(2 * 1.75), 1e-12);
    cr_expect_float_eq(f.ratio_low, 1.5, 1e-12);
    cr_expect_float_eq(f.ratio_high, 2, 1e-12);
    cr_expect_float_eq(f.stolen, 0.375, 1e-12);
}

Test(tune, the_spread_leaves_out_the_slowest_quarter) {
    tune_samples samples = {0};
    for (int i = 0; i < 8; i++)
        tune_samples_add(&samples, i < 6 ? 1 + 0.01 * i : 9, 1, 0);
    cr_expect_float_eq(tune_figures_of(&samples).spread, 0.05, 1e-12);
}

Test(tune, the_newest_samples_stay_where_there_is_no_room_for_all) {
    tune_samples samples = {0};
    for (int i = 0; i < 2 * TUNE_ROUNDS_MAX; i++)
        tune_samples_add(&samples, i < TUNE_ROUNDS_MAX ? 1 : 3, 1, 0);
    cr_expect_eq(samples.rounds, TUNE_ROUNDS_MAX);
    cr_expect_float_eq(tune_figures_of(&samples).ms_min, 3, 1e-12);
}

Test(tune, what_lies_within_the_noise_is_a_tie) {
    tune_figures a = {.ratio = 1, .ratio_low = 0.999, .ratio_high = 1.001}, b = a;
    b.ratio = 1.009;
    cr_expect(tune_figures_tie(&a, &b), "below 1 %%");
    b = (tune_figures){.ratio = 1.015, .ratio_low = 1.014, .ratio_high = 1.016};
    cr_expect_not(tune_figures_tie(&a, &b), "1.5 %% without noise");
    a.ratio_high = 1.02;
    cr_expect(tune_figures_tie(&a, &b), "1.5 %% with quartiles that overlap");
    b.ratio = 1.03, b.ratio_low = 1, b.ratio_high = 1.06;
    cr_expect_not(tune_figures_tie(&a, &b), "3 %%, whatever the noise");
}

Test(tune, drift_is_that_of_medians_and_not_of_single_samples) {
    double ms[20];
    for (int i = 0; i < 20; i++)
        ms[i] = 1;
    ms[7] = 50;
    cr_expect_float_eq(tune_drift(ms, 20), 0, 1e-12);
    for (int i = 15; i < 20; i++)
        ms[i] = 1.3;
    cr_expect_float_eq(tune_drift(ms, 20), 0.3, 1e-12);
}

/* ---- Search ---- */

Test(tune, the_fastest_is_found_through_noise_and_a_pace_that_wanders) {
    for (uint64_t seed = 1; seed <= 20; seed++) {
        lab *l = begin(60, 60);
        l->rng.state = seed;
        l->noise = 0.04;
        l->wander = 1;
        int fastest = (int)support_between(&l->rng, 1, 59);
        for (int i = 0; i < 60; i++)
            l->ms[i] = 1.06 + 0.5 * uniform(l);
        l->ms[fastest] = 1;
        run(l);
        cr_expect_eq(l->search.best, fastest, "seed %d: %d of %.3f ms", (int)seed, l->search.best,
                     l->ms[l->search.best]);
        cr_expect_gt(l->search.busy, TUNE_BUSY, "the pace doubles and is not noticed");
        end(l);
    }
}

Test(tune, a_steady_machine_is_not_called_busy) {
    lab *l = begin(30, 60);
    l->noise = 0.02;
    run(l);
    cr_expect_leq(l->search.busy, TUNE_BUSY, "%g", l->search.busy);
    end(l);
}

Test(tune, ties_go_to_the_simpler_plan) {
    lab *l = begin(6, 60);
    for (int i = 0; i < 6; i++)
        l->ms[i] = 1 + 0.001 * i; /* and plan 5 is the simplest */
    run(l);
    ffn_plan simplest = numbered(5), other = numbered(0);
    cr_assert(plan_space_simpler(&simplest, &other));
    cr_expect_eq(l->search.best, 5, "%d", l->search.best);
    end(l);
    l = begin(6, 60);
    for (int i = 0; i < 6; i++)
        l->ms[i] = 1 + 0.03 * i;
    run(l);
    cr_expect_eq(l->search.best, 0, "3 %% are no tie: %d", l->search.best);
    end(l);
}

Test(tune, plans_are_tried_in_their_order_and_none_is_judged_by_fewer_than_three_samples) {
    lab *l = begin(40, 60);
    l->noise = 0.1;
    run(l);
    for (int i = 0; i < 40; i++)
        cr_expect_eq(l->order[i], i);
    cr_expect_geq(l->rounds_recorded_least, 3);
    for (int i = 0; i < 40; i++) {
        cr_expect_geq(l->sampled[i], 3);
        cr_expect_geq(l->records[i], 1, "plan %d has no record", i);
    }
    cr_expect_eq(l->search.tried, 40);
    end(l);
}

/* From plans that take a microsecond to one call of which is a tenth of the
 * budget. */
Test(tune, the_search_ends_in_time) {
    const double ms[] = {0.001, 1, 50, 600, 2000};
    for (size_t i = 0; i < sizeof ms / sizeof ms[0]; i++) {
        lab *l = begin(150, 20);
        for (int p = 0; p < PLANS_MAX; p++)
            l->ms[p] = ms[i] * (1 + 0.001 * p);
        run(l);
        cr_expect_leq(l->clock, 20 * 1.1, "%g ms: %.2f s", ms[i], l->clock);
        cr_expect_geq(l->search.best, 0);
        end(l);
    }
}

Test(tune, neighbours_of_the_leaders_are_tried_too) {
    lab *l = begin(10, 60);
    l->search.neighbours = neighbours;
    l->neighbours_given = 2;
    l->ms[11] = 1.1; /* the second of them */
    run(l);
    cr_expect_eq(l->search.count, 12);
    cr_expect_eq(l->search.best, 11);
    end(l);
}

Test(tune, an_exhaustive_search_measures_all_alike_and_nothing_else) {
    lab *l = begin(120, 1);
    l->search.exhaustive = true;
    l->search.neighbours = neighbours;
    l->neighbours_given = 2;
    l->noise = 0.02;
    l->ms[99] = 1.1;
    run(l);
    cr_expect_eq(l->neighbours_asked, 0);
    cr_expect_eq(l->search.best, 99);
    for (int i = 0; i < 120; i++)
        cr_expect_geq(l->sampled[i], 5, "plan %d has %d samples", i, l->sampled[i]);
    cr_expect_geq(l->rounds_recorded_least, 5);
    end(l);
}

/* ---- Failures ---- */

Test(tune, plans_that_fail_never_end_the_search) {
    const tune_state kinds[] = {TUNE_CRASHED, TUNE_HUNG, TUNE_WRONG, TUNE_REFUSED};
    for (int how = FAIL_PREPARE; how <= FAIL_SAMPLE; how++) {
        lab *l = begin(40, 200);
        l->noise = 0.01;
        for (int i = 0; i < 40; i += 5) { /* the first one, the model's, is among them */
            l->fail_how[i] = how;
            l->fail_as[i] = kinds[i / 5 % 4];
            l->fail_after[i] = i % 4 == 0 ? 0 : 4; /* some in the first round, some among the finalists */
            l->ms[i] = 0.9;
        }
        l->ms[23] = 1;
        run(l);
        cr_expect_eq(l->search.best, 23, "best %d", l->search.best);
        cr_expect_eq(l->search.failed, 8, "%d failed", l->search.failed);
        for (int i = 0; i < 40; i += 5) {
            cr_expect_eq(l->search.candidates[i].state, kinds[i / 5 % 4], "plan %d", i);
            cr_expect_str_eq(l->search.candidates[i].reason, "as the test wants it");
        }
        end(l);
    }
}

Test(tune, a_reference_that_fails_half_way_is_replaced) {
    for (int after = 1; after < 150; after += 7) {
        lab *l = begin(30, 60);
        l->fail_how[0] = FAIL_SAMPLE;
        l->fail_as[0] = TUNE_CRASHED;
        l->fail_after[0] = after;
        l->ms[0] = 0.5;
        l->ms[17] = 1;
        run(l);
        bool failed = l->search.candidates[0].state == TUNE_CRASHED;
        cr_expect_eq(l->search.best, failed ? 17 : 0, "after %d: best %d", after, l->search.best);
        if (failed)
            cr_expect_float_eq(l->search.candidates[17].figures.ratio, l->ms[17] / l->ms[l->search.reference], 0.01,
                               "after %d: %g", after, l->search.candidates[17].figures.ratio);
        end(l);
    }
}

Test(tune, a_call_that_the_budget_cuts_short_is_not_called_hung) {
    lab *l = begin(20, 5);
    l->fail_how[3] = FAIL_PREPARE;
    l->fail_as[3] = TUNE_HUNG;
    run(l);
    cr_expect_eq(l->search.candidates[3].state, TUNE_PENDING);
    cr_expect_leq(l->clock, 5.5);
    end(l);
}

Test(tune, where_nothing_can_be_timed_the_first_reason_is_told) {
    lab *l = begin(5, 60);
    for (int i = 0; i < 5; i++)
        l->fail_how[i] = FAIL_PREPARE, l->fail_as[i] = TUNE_WRONG;
    ffn_diag diag;
    cr_expect_eq(tune_search_run(&l->search, &diag), FFN_UNSUPPORTED);
    cr_expect(strstr(diag.text, "as the test wants it"), "%s", diag.text);
    end(l);
    l = begin(5, 60);
    l->fail_how[2] = FAIL_PREPARE, l->fail_as[2] = TUNE_BROKEN;
    cr_expect_eq(tune_search_run(&l->search, &diag), FFN_SYSTEM);
    end(l);
}

/* Plans 0 to 29 have results of an earlier run: plan 20 the best of them, plan 4 hung. */
static void recall(lab *l) {
    for (int i = 0; i < 30; i++) {
        tune_candidate *candidate = &l->search.candidates[i];
        candidate->recalled = true;
        candidate->state = i == 4 ? TUNE_HUNG : TUNE_OK;
        double ratio = i == 0 ? 1 : i == 20 ? 0.8 : 1.5;
        candidate->figures = (tune_figures){.rounds = 3,
                                            .ms_min = ratio,
                                            .ms_median = ratio,
                                            .reference_ms = 1,
                                            .ratio = ratio,
                                            .ratio_low = ratio,
                                            .ratio_high = ratio};
    }
}

Test(tune, where_there_is_no_time_for_finals_the_fastest_that_was_timed_wins) {
    lab *l = begin(40, 1);
    recall(l);
    l->search.candidates[20].figures.ratio = 0.7; /* the reference is worth no final beside it */
    l->prepare_s = 0.7;                           /* the reference can be made again, and nothing else */
    run(l);
    cr_expect_eq(l->prepared[0], 1);
    cr_expect_eq(l->sampled[20], 0);
    cr_expect_eq(l->search.best, 0);
    end(l);
}

Test(tune, results_of_an_earlier_run_are_not_screened_again) {
    lab *l = begin(40, 60);
    recall(l);
    l->ms[20] = 0.96;
    run(l);
    for (int i = 1; i < 30; i++)
        cr_expect_eq(l->prepared[i], i == 20, "plan %d was made %d times", i, l->prepared[i]);
    for (int i = 30; i < 40; i++)
        cr_expect_eq(l->prepared[i], 1);
    cr_expect_eq(l->search.best, 20);
    cr_expect_eq(l->search.candidates[4].state, TUNE_HUNG);
    end(l);
}

Test(tune, a_stop_ends_it_without_a_winner) {
    lab *l = begin(40, 60);
    l->stop = true;
    run(l);
    cr_expect(l->search.interrupted);
    cr_expect_eq(l->search.best, -1);
    end(l);
}
