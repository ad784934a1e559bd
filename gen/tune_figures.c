/* tune_figures.c: minima, medians and quartiles */
#include "tune_figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TIE 0.01        /* differences below are ties */
#define TIE_SPREAD 0.02 /* and these, where the quartiles overlap */

static int ascending(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* values -> the same in order */
static void sort_copy(const double *values, int count, double sorted[TUNE_ROUNDS_MAX]) {
    memcpy(sorted, values, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, ascending);
}

static double median_of_sorted(const double *sorted, int count) {
    return count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

void tune_samples_add(tune_samples *samples, double ms, double reference_ms, double stolen) {
    samples->ms[samples->next] = ms;
    samples->reference_ms[samples->next] = reference_ms;
    samples->stolen[samples->next] = stolen;
    samples->next = (samples->next + 1) % TUNE_ROUNDS_MAX;
    samples->rounds += samples->rounds < TUNE_ROUNDS_MAX;
}

tune_figures tune_figures_of(const tune_samples *samples) {
    int count = samples->rounds;
    if (count == 0)
        return (tune_figures){0};
    double ms[TUNE_ROUNDS_MAX], reference[TUNE_ROUNDS_MAX], stolen[TUNE_ROUNDS_MAX], ratios[TUNE_ROUNDS_MAX];
    for (int i = 0; i < count; i++)
        ratios[i] = samples->ms[i] / samples->reference_ms[i];
    sort_copy(samples->ms, count, ms);
    sort_copy(samples->reference_ms, count, reference);
    sort_copy(samples->stolen, count, stolen);
    qsort(ratios, (size_t)count, sizeof *ratios, ascending);
    return (tune_figures){.rounds = count,
                          .ms_min = ms[0],
                          .ms_median = median_of_sorted(ms, count),
                          .spread = ms[(count * 3 + 3) / 4 - 1] / ms[0] - 1,
                          .reference_ms = median_of_sorted(reference, count),
                          .ratio = sqrt(ms[0] / reference[0] * median_of_sorted(ratios, count)),
                          .ratio_low = ratios[count / 4],
                          .ratio_high = ratios[count - 1 - count / 4],
                          .stolen = median_of_sorted(stolen, count)};
}

bool tune_figures_tie(const tune_figures *a, const tune_figures *b) {
    double apart = fabs(a->ratio - b->ratio) / fmin(a->ratio, b->ratio);
    bool overlap = a->ratio_low <= b->ratio_high && b->ratio_low <= a->ratio_high;
    return apart < TIE || (apart < TIE_SPREAD && overlap);
}

double tune_drift(const double *reference_ms, int count) {
    double fastest = INFINITY, slowest = 0;
    int windows = count / TUNE_DRIFT_WINDOW;
    for (int i = 0; i < windows; i++) {
        double sorted[TUNE_ROUNDS_MAX];
        sort_copy(reference_ms + i * TUNE_DRIFT_WINDOW, TUNE_DRIFT_WINDOW, sorted);
        double median = median_of_sorted(sorted, TUNE_DRIFT_WINDOW);
        fastest = fmin(fastest, median);
        slowest = fmax(slowest, median);
    }
    return windows < 2 ? 0 : slowest / fastest - 1;
}
