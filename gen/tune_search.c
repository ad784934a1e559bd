/* tune_search.c: screening, neighbours, halving, the choice */
#include "tune_search.h"

#include "diag.h"
#include "plan_space.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Shares of the budget after which the next part begins. */
#define SCREEN_UNTIL 0.45
#define NEIGHBOURS_UNTIL 0.65
#define ROUNDS_UNTIL 0.96

#define SCREEN_ROUNDS 3 /* nothing is dropped for fewer samples */
#define EXHAUSTIVE_ROUNDS 5
#define LEVEL_ROUNDS 12 /* more tell little that the next level, with fewer candidates, does not tell better */
#define LAST_ROUNDS 40
#define EXHAUSTIVE_LEVEL_ROUNDS 8
#define FINALISTS_MAX 16
#define FINALISTS_LEFT 4   /* the last level ends with the choice between these */
#define FINALS_MAX 4       /* another one where all that were in it failed */
#define WORTH_A_FINAL 1.25 /* of the best ratio: slower ones could not win */
#define LEADERS 3

/* ---- Time ---- */

static double left_until(const tune_search *s, double share) {
    return s->exhaustive ? INFINITY : s->began + s->seconds * share - s->lab->now(s->lab->self);
}

static bool stopped(const tune_search *s) {
    return s->lab->stopped && s->lab->stopped(s->lab->self);
}

static void show(const tune_search *s, double seconds_left) {
    if (s->progress)
        s->progress(s->self, s, seconds_left);
}

/* ---- Samples ---- */

typedef struct state {
    tune_search *s;
    ffn_status status; /* what ended the search, or OK */
    ffn_diag diag;
    bool interrupted;
} state;

static bool over(const state *of) {
    return of->status || of->interrupted;
}

static bool report(state *of, tune_candidate *candidate) {
    if (of->s->record && !of->s->record(of->s->self, candidate))
        of->status = diag_fail(&of->diag, FFN_SYSTEM, "the results could not be kept");
    return !of->status;
}

/* What a call to the lab came to; true: go on with its result. */
static bool settle(state *of, tune_candidate *candidate, tune_state outcome, const char *reason) {
    if (outcome == TUNE_OK)
        return true;
    if (outcome == TUNE_BROKEN)
        of->status = diag_fail(&of->diag, FFN_SYSTEM, "%s", reason);
    of->interrupted = of->interrupted || stopped(of->s);
    if (outcome < TUNE_STATES) {
        candidate->state = outcome;
        memcpy(candidate->reason, reason, TUNE_REASON_BYTES);
        report(of, candidate);
    }
    return false;
}

static double limit(const state *of, double left) {
    return fmin(left, of->s->limit);
}

/* A cut call is no verdict. */
static tune_state judged(const state *of, tune_state outcome, double seconds) {
    bool cut = outcome == TUNE_HUNG && seconds < of->s->limit;
    return cut ? TUNE_PENDING : outcome;
}

static bool make(state *of, int index, double left) {
    tune_search *s = of->s;
    tune_candidate *candidate = &s->candidates[index];
    char reason[TUNE_REASON_BYTES] = "";
    if (candidate->ready)
        return true;
    if (stopped(s) || left <= 0) {
        of->interrupted = of->interrupted || stopped(s);
        return false;
    }
    tune_state outcome =
        s->lab->prepare(s->lab->self, index, &candidate->plan, limit(of, left), &candidate->verified, reason);
    candidate->ready = outcome == TUNE_OK;
    return settle(of, candidate, judged(of, outcome, limit(of, left)), reason);
}

static bool take(state *of, int index, double left, tune_sample *sample) {
    tune_search *s = of->s;
    char reason[TUNE_REASON_BYTES] = "";
    if (stopped(s) || left <= 0) {
        of->interrupted = of->interrupted || stopped(s);
        return false;
    }
    tune_state outcome = s->lab->sample(s->lab->self, index, limit(of, left), sample, reason);
    return settle(of, &s->candidates[index], judged(of, outcome, limit(of, left)), reason);
}

static bool keep_reference(state *of, double ms) {
    tune_search *s = of->s;
    if (s->reference_count == s->reference_room) {
        int room = s->reference_room ? 2 * s->reference_room : 256;
        double *kept = realloc(s->reference_ms, (size_t)room * sizeof *kept);
        if (!kept) {
            of->status = diag_fail(&of->diag, FFN_OUT_OF_MEMORY, "no memory for samples");
            return false;
        }
        s->reference_ms = kept;
        s->reference_room = room;
    }
    s->reference_ms[s->reference_count++] = ms;
    return true;
}

/* The reference at its best so far. */
static double quiet_ms(const tune_search *s) {
    double fastest = INFINITY;
    for (int i = 0; i < s->reference_count; i++)
        fastest = fmin(fastest, s->reference_ms[i]);
    return fastest;
}

static void refresh(tune_search *s, tune_candidate *candidate) {
    candidate->figures = tune_figures_of(&candidate->samples);
    candidate->recalled = false;
    candidate->state = TUNE_OK;
    candidate->busy = fmax(candidate->figures.stolen, candidate->figures.reference_ms / quiet_ms(s) - 1);
    s->busy = fmax(s->busy, candidate->figures.stolen);
}

/* The fastest that this run has timed, or -1. */
static int fastest_ready(const tune_search *s) {
    int fastest = -1;
    for (int i = 0; i < s->count; i++) {
        const tune_candidate *candidate = &s->candidates[i];
        if (candidate->state == TUNE_OK && candidate->ready &&
            (fastest < 0 || candidate->figures.ratio < s->candidates[fastest].figures.ratio))
            fastest = i;
    }
    return fastest;
}

/* The reference has failed: the fastest of those left takes its place, and what was measured is put in terms of it. */
static void replace_reference(state *of) {
    tune_search *s = of->s;
    s->reference = fastest_ready(s);
    double scale = s->reference < 0 ? 1 : s->candidates[s->reference].figures.ratio;
    for (int i = 0; i < s->reference_count; i++)
        s->reference_ms[i] *= scale;
    for (int i = 0; i < s->count; i++) {
        tune_candidate *candidate = &s->candidates[i];
        for (int r = 0; r < candidate->samples.rounds; r++)
            candidate->samples.reference_ms[r] *= scale;
        candidate->figures.ratio /= scale;
        candidate->figures.ratio_low /= scale;
        candidate->figures.ratio_high /= scale;
        candidate->figures.reference_ms *= scale;
    }
}

/* One round: the reference, then the candidates in the order given. False: time is up or the search is over. A
 * candidate that fails is left out from then on: its state tells. */
static bool round_of(state *of, const int *who, int count, double share) {
    tune_search *s = of->s;
    tune_sample base, sample;
    if (s->reference < 0)
        return false;
    tune_candidate *reference = &s->candidates[s->reference];
    if (!take(of, s->reference, left_until(s, share), &base)) {
        if (reference->state != TUNE_OK && reference->state != TUNE_PENDING)
            replace_reference(of);
        return false;
    }
    if (!keep_reference(of, base.ms))
        return false;
    tune_samples_add(&reference->samples, base.ms, base.ms, base.stolen);
    for (int i = 0; i < count; i++) {
        tune_candidate *candidate = &s->candidates[who[i]];
        if (who[i] == s->reference || (candidate->state != TUNE_OK && candidate->state != TUNE_PENDING))
            continue;
        double seconds = left_until(s, share);
        if (take(of, who[i], seconds, &sample))
            tune_samples_add(&candidate->samples, sample.ms, base.ms, sample.stolen);
        else if (over(of) || candidate->state == TUNE_PENDING || candidate->state == TUNE_OK)
            return false;
    }
    return true;
}

/* ---- Screening ---- */

/* The first that can be made and timed is what ratios are to; all of them get the same rounds. */
static void screen(state *of, int index, double share) {
    tune_search *s = of->s;
    tune_candidate *candidate = &s->candidates[index];
    int rounds = s->exhaustive ? EXHAUSTIVE_ROUNDS : SCREEN_ROUNDS;
    if (candidate->state != TUNE_PENDING || !make(of, index, left_until(s, share)))
        return;
    bool first = s->reference < 0;
    if (first)
        s->reference = index;
    int done = 0, beside = s->reference;
    while (done < rounds && candidate->state == TUNE_PENDING && round_of(of, &index, 1, share))
        done++;
    if (candidate->state != TUNE_PENDING)
        return; /* failed, and that is said */
    if (s->reference != beside) {
        candidate->samples = (tune_samples){0};
        screen(of, index, share);
        return;
    }
    if (done < rounds && !first)
        candidate->samples = (tune_samples){0}; /* too few to say anything */
    if (done == 0 && first)
        s->reference = -1;
    if (candidate->samples.rounds > 0) {
        refresh(s, candidate);
        report(of, candidate);
    }
}

static void screen_from(state *of, int first, double share) {
    tune_search *s = of->s;
    double began = s->lab->now(s->lab->self);
    for (int i = first; i < s->count && !over(of) && left_until(s, share) > 0; i++) {
        screen(of, i, share);
        double pace = (s->lab->now(s->lab->self) - began) / (i - first + 1);
        show(s, s->exhaustive ? pace * (s->count - i - 1) : left_until(s, 1));
    }
}

/* ---- Order ---- */

/* Fastest first; of equals the one that stood first. */
static void order(const tune_search *s, int *who, int count) {
    for (int i = 1; i < count; i++) {
        int place = i, moved = who[i];
        double ratio = s->candidates[moved].figures.ratio;
        for (; place > 0 && s->candidates[who[place - 1]].figures.ratio > ratio; place--)
            who[place] = who[place - 1];
        who[place] = moved;
    }
}

/* Places of what was timed, fastest first. */
static int *ranking(tune_search *s, int *count) {
    int *who = malloc((size_t)(s->count ? s->count : 1) * sizeof *who);
    *count = 0;
    for (int i = 0; who && i < s->count; i++) {
        if (s->candidates[i].state == TUNE_OK)
            who[(*count)++] = i;
    }
    order(s, who, *count);
    return who;
}

/* ---- Neighbours ---- */

/* False where no leader has a neighbour that is not in the list. */
static bool add_neighbours(state *of) {
    tune_search *s = of->s;
    int count, before = s->count, *who = ranking(s, &count);
    bool enough = who != NULL;
    for (int i = 0; enough && i < count && i < LEADERS; i++) {
        ffn_plan plans[PLAN_NEIGHBOURS_MAX], leader = s->candidates[who[i]].plan;
        size_t found = s->neighbours(s->self, &leader, plans, PLAN_NEIGHBOURS_MAX);
        for (size_t p = 0; p < found && enough; p++)
            enough = tune_search_add(s, &plans[p]);
    }
    free(who);
    if (!enough)
        of->status = diag_fail(&of->diag, FFN_OUT_OF_MEMORY, "no memory for more plans");
    return enough && s->count > before;
}

/* ---- Halving ---- */

static int drop_failed(const tune_search *s, int *who, int count) {
    int kept = 0;
    for (int i = 0; i < count; i++) {
        if (s->candidates[who[i]].state == TUNE_OK && s->candidates[who[i]].ready)
            who[kept++] = who[i];
    }
    return kept;
}

/* Rounds of these until the level's share of the time is over. */
static void level(state *of, const int *who, int count, double share) {
    tune_search *s = of->s;
    int rounds = s->exhaustive ? EXHAUSTIVE_LEVEL_ROUNDS : count > FINALISTS_LEFT ? LEVEL_ROUNDS : LAST_ROUNDS;
    for (int i = 0; i < rounds && !over(of) && left_until(s, share) > 0; i++) {
        if (!round_of(of, who, count, share))
            break;
        show(s, s->exhaustive ? 0 : left_until(s, 1));
    }
    for (int i = 0; i < count; i++) {
        tune_candidate *candidate = &s->candidates[who[i]];
        if (candidate->state == TUNE_OK && candidate->samples.rounds >= SCREEN_ROUNDS)
            refresh(s, candidate);
    }
}

/* Fastest of the last level; those that were in the finals and are as fast within the noise stand against it, even
 * where a level dropped them. */
static void choose(tune_search *s, const int *who, int count) {
    if (count == 0)
        return;
    s->best = who[0];
    int screened = s->exhaustive ? EXHAUSTIVE_ROUNDS : SCREEN_ROUNDS;
    for (int i = 0; i < s->count; i++) {
        const tune_candidate *candidate = &s->candidates[i];
        if (candidate->state == TUNE_OK && candidate->ready && candidate->samples.rounds > screened &&
            tune_figures_tie(&candidate->figures, &s->candidates[who[0]].figures) &&
            plan_space_simpler(&candidate->plan, &s->candidates[s->best].plan))
            s->best = i;
    }
}

static void halve(state *of) {
    tune_search *s = of->s;
    int count, *who = ranking(s, &count), levels = 1;
    if (!who) {
        of->status = diag_fail(&of->diag, FFN_OUT_OF_MEMORY, "no memory to order plans");
        return;
    }
    int all = count, most = all > 2 * FINALISTS_LEFT ? (all + 1) / 2 : all;
    count = 0;
    while (count < most && count < FINALISTS_MAX &&
           s->candidates[who[count]].figures.ratio <= WORTH_A_FINAL * s->candidates[who[0]].figures.ratio)
        count++;
    for (int i = 0; i < count && !over(of); i++)
        make(of, who[i], left_until(s, ROUNDS_UNTIL)); /* recalled ones */
    count = drop_failed(s, who, count);
    for (int left = count; left > FINALISTS_LEFT; left = (left + 1) / 2)
        levels++;
    double begins = s->exhaustive ? 0 : (s->lab->now(s->lab->self) - s->began) / s->seconds;
    for (int l = 1; l <= levels && !over(of); l++) {
        level(of, who, count, begins + (ROUNDS_UNTIL - begins) * l / levels);
        count = drop_failed(s, who, count);
        order(s, who, count);
        int kept = count > FINALISTS_LEFT ? (count + 1) / 2 : count;
        for (int i = l < levels ? kept : 0; i < count && !over(of); i++)
            report(of, &s->candidates[who[i]]); /* dropped, or decided */
        count = l < levels ? kept : count;
    }
    choose(s, who, count);
    free(who);
}

/* The first plan of the list that can be timed; it may take nearly all of the budget. Recalled ratios are to the first
 * that had not failed before, and are worth nothing beside another. */
static void first_reference(state *of) {
    tune_search *s = of->s;
    bool expected = true;
    for (int i = 0; i < s->count && s->reference < 0 && !over(of); i++) {
        tune_candidate *candidate = &s->candidates[i];
        if (candidate->state < TUNE_STATES && candidate->state != TUNE_OK)
            continue;
        candidate->state = TUNE_PENDING;
        screen(of, i, ROUNDS_UNTIL);
        expected = expected && s->reference == i;
    }
    for (int i = 0; i < s->count && !expected; i++) {
        tune_candidate *candidate = &s->candidates[i];
        if (candidate->recalled && candidate->state == TUNE_OK) {
            candidate->state = TUNE_PENDING;
            candidate->figures = (tune_figures){0};
        }
    }
}

ffn_status tune_search_run(tune_search *s, ffn_diag *diag) {
    state of = {.s = s};
    s->reference = s->best = -1;
    s->began = s->lab->now(s->lab->self);
    first_reference(&of);
    if (s->reference >= 0 && !over(&of))
        screen_from(&of, 0, SCREEN_UNTIL);
    while (s->reference >= 0 && s->neighbours && !s->exhaustive && !over(&of) && left_until(s, NEIGHBOURS_UNTIL) > 0) {
        int first = s->count;
        if (!add_neighbours(&of))
            break;
        screen_from(&of, first, NEIGHBOURS_UNTIL);
    }
    for (int i = 0; i < FINALS_MAX && s->reference >= 0 && s->best < 0 && !over(&of); i++)
        halve(&of);
    if (s->best < 0 && !over(&of))
        s->best = fastest_ready(s); /* no time for finals: recalled ones, not timed again, may have been all of them */
    for (int i = 0; i < s->count; i++) {
        s->failed += s->candidates[i].state < TUNE_STATES && s->candidates[i].state != TUNE_OK;
        s->tried += s->candidates[i].state < TUNE_STATES;
    }
    s->busy = fmax(s->busy, tune_drift(s->reference_ms, s->reference_count));
    s->interrupted = of.interrupted;
    if (of.status) {
        if (diag)
            *diag = of.diag;
        return of.status;
    }
    if (s->best < 0 && !of.interrupted) {
        const tune_candidate *first = s->count ? &s->candidates[0] : NULL;
        return diag_fail(diag, FFN_UNSUPPORTED, "no plan could be timed%s%s",
                         !first                         ? ": there is none"
                         : first->state == TUNE_PENDING ? " in so short a time"
                                                        : ": the first one: ",
                         first && first->state < TUNE_STATES ? first->reason : "");
    }
    return FFN_OK;
}
