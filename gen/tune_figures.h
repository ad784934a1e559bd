/* tune_figures.h: samples of a candidate, each beside one of the reference -> figures that can be compared
 *
 * A shared machine changes its pace within seconds, so what is compared is the ratio to a reference kernel that was
 * timed in the same round: the pace cancels out. Times alone are kept for the reader. */
#ifndef TUNE_FIGURES_H
#define TUNE_FIGURES_H

#include <stdbool.h>

#define TUNE_ROUNDS_MAX 64

/* One sample a round: of the candidate and of the reference, in ms of one call; the share of the wall time that the
 * candidate's thread was not running. */
typedef struct tune_samples {
    int rounds, next;
    double ms[TUNE_ROUNDS_MAX], reference_ms[TUNE_ROUNDS_MAX], stolen[TUNE_ROUNDS_MAX];
} tune_samples;

typedef struct tune_figures {
    int rounds; /* 0: not measured */
    double ms_min, ms_median;
    double spread;       /* (slowest - fastest) / fastest of the faster three quarters */
    double reference_ms; /* median of the reference in the same rounds */
    /* Of candidate to reference: the geometric mean of the ratio of the minima and the median of the ratios; the
     * quartiles of the ratios. Below 1 is faster. */
    double ratio, ratio_low, ratio_high;
    double stolen; /* median */
} tune_figures;

/* The oldest goes where there is no room for more rounds. */
void tune_samples_add(tune_samples *samples, double ms, double reference_ms, double stolen);
tune_figures tune_figures_of(const tune_samples *samples);

/* Whether the difference of two is within the noise: below 1 %, or below 2 % with quartiles that overlap. */
bool tune_figures_tie(const tune_figures *a, const tune_figures *b);

/* How far the pace of a reference wandered: the slowest over the fastest median of TUNE_DRIFT_WINDOW samples in a row,
 * less 1; 0 for fewer than two windows. Above TUNE_BUSY the machine is called busy. */
#define TUNE_DRIFT_WINDOW 5
#define TUNE_BUSY 0.10
double tune_drift(const double *reference_ms, int count);

#endif
