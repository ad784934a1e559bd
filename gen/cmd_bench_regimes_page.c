/* cmd_bench_regimes_page.c: results -> Markdown: how far each regime is, then the cases
 *
 * Of regimes with a case for every preset only those that are not met, and the worst, have a line of their own. */
#include "cmd_bench_regimes.h"

#include "ffngen.h"
#include "text.h"
#include "text_file.h"

#include <math.h>

static double shown(const regime_result *of, double value) {
    return value * regime_figures[of->figure].scale;
}

/* How much a result is off its limit: above 1 is met. */
static double margin(const regime_result *of) {
    return regime_figures[of->figure].most ? of->wanted / of->value : of->value / of->wanted;
}

static bool same_kind(const regime_result *a, const regime_result *b) {
    return a->of == b->of && a->figure == b->figure;
}

/* The worst of its regime and figure, and how many there are. */
static const regime_result *worst_of(const regime_results *all, const regime_result *like, int *count, int *met) {
    const regime_result *worst = like;
    *count = *met = 0;
    for (size_t i = 0; i < all->count; i++) {
        const regime_result *at = &all->list[i];
        if (!same_kind(at, like))
            continue;
        ++*count;
        *met += at->met;
        worst = margin(at) < margin(worst) ? at : worst;
    }
    return worst;
}

static bool is_first(const regime_results *all, size_t i) {
    for (size_t k = 0; k < i; k++)
        if (same_kind(&all->list[k], &all->list[i]))
            return false;
    return true;
}

static void put_case(text *to, const regime_result *of) {
    text_print(to, "%s", *of->spec ? of->spec : "all");
    if (of->n)
        text_print(to, ", n = %lld", (long long)of->n);
    if (*of->note)
        text_print(to, " (%s)", of->note);
}

static void put_wanted(text *to, const regime_result *of) {
    const regime_figure_row *row = &regime_figures[of->figure];
    text_print(to, "at %s %.*f %s", row->most ? "most" : "least", row->digits, shown(of, of->wanted), row->unit);
}

/* How a kernel stands beside the loops by hand: geometric mean and least of its share over theirs, and how many cases
 * those meet. */
static void put_hand(text *to, const regime_results *all, const regime_result *like) {
    double logs = 0, least = INFINITY;
    int count = 0, met = 0;
    for (size_t i = 0; i < all->count; i++) {
        const regime_result *at = &all->list[i];
        if (!same_kind(at, like) || !(at->hand > 0))
            continue;
        logs += log(at->value / at->hand);
        least = fmin(least, at->value / at->hand);
        count++;
        met += at->hand >= at->wanted;
    }
    if (count > 0)
        text_print(to, " %.2f x, least %.2f; these meet %d |", exp(logs / count), least, met);
    else
        text_put(to, " |");
}

static void put_summary(text *to, const regime_results *all) {
    text_put(to, "| regime | wanted | the worst | by medians | case | met | the kernel over loops by hand "
                 "|\n|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < all->count; i++) {
        if (!is_first(all, i))
            continue;
        int count, met;
        const regime_result *worst = worst_of(all, &all->list[i], &count, &met);
        int digits = regime_figures[worst->figure].digits;
        text_print(to, "| %s | ", worst->of->title);
        put_wanted(to, worst);
        text_print(to, " | %.*f | ", digits, shown(worst, worst->value));
        if (worst->median > 0)
            text_print(to, "%.*f", digits, shown(worst, worst->median));
        text_put(to, " | ");
        put_case(to, worst);
        text_print(to, " | %d of %d |", met, count);
        put_hand(to, all, &all->list[i]);
        text_put(to, "\n");
    }
}

static void put_cases(text *to, const regime_results *all) {
    text_put(to, "| regime | case | measured | by medians | by hand | wanted | met |\n|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < all->count; i++) {
        const regime_result *at = &all->list[i];
        int count, met, digits = regime_figures[at->figure].digits;
        if (!at->of->specs[0] && at->met && worst_of(all, at, &count, &met) != at)
            continue;
        text_print(to, "| %s | ", at->of->title);
        put_case(to, at);
        text_print(to, " | %.*f %s | ", digits, shown(at, at->value), regime_figures[at->figure].unit);
        if (at->median > 0)
            text_print(to, "%.*f", digits, shown(at, at->median));
        text_put(to, " | ");
        if (at->hand > 0)
            text_print(to, "%.*f", digits, shown(at, at->hand));
        text_print(to, " | %.*f | %s |\n", digits, shown(at, at->wanted), at->met ? "yes" : "no");
    }
}

ffn_status regimes_page(const regime_results *results, const regimes_caption *caption, const char *path,
                        ffn_diag *diag) {
    text page = {.data = NULL};
    ffn_bytes bytes = {.data = NULL};
    text_print(
        &page,
        "%s, %s, %s plans, ffngen %s, LLVM %s, %s. Figures are of the fastest samples, with those of the medians "
        "beside them; other processes took up to %.0f %% of a row's time.\n\n",
        caption->machine, caption->isa, caption->plans, FFN_VERSION, ffngen_llvm_version(), caption->date,
        caption->busiest * 100);
    if (*caption->peers)
        text_print(&page, "Peers: %s.\n\n", caption->peers);
    if (*caption->left_out)
        text_print(&page, "Not here: %s.\n\n", caption->left_out);
    put_summary(&page, results);
    text_put(&page, "\n");
    put_cases(&page, results);
    ffn_status status = text_take(&page, &bytes, diag);
    status = status ? status : text_file_write(path, bytes.data, bytes.bytes, diag);
    if (bytes.data && bytes.release)
        bytes.release(bytes.data);
    return status;
}
