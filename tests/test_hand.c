/* test_hand.c: the loops by hand that kernels are measured beside do the work they are said to do */
#define _GNU_SOURCE
#include "hand.h"
#include "hand_sweep.h"
#include "support_command.h"
#include "support_json.h"

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(hand, .timeout = 120);

enum { TERM_BYTES = HAND_PANEL * (int)sizeof(float) };

/* x-(row, term) of a sweep's layout: tiles as near to equal as goes. */
static float *x_at(const hand_sweep *s, float *x, int64_t row, int64_t term) {
    int64_t tiles = (s->rows + s->tiles.rows - 1) / s->tiles.rows, first = 0, height = s->rows / tiles;
    for (int64_t t = 1; first + height <= row; t++) {
        first += height;
        height = (s->rows + t) / tiles;
    }
    return &x[first * s->terms + term * height + (row - first)];
}

static bool here(ffn_isa isa) {
    const bool runs = hand_tile_of(isa, 1, 1, HAND_NO_FETCH) && ffn_isa_supported(isa);
    if (!runs)
        printf("skipped: the loops by hand of %s do not run here\n", ffn_isa_name(isa));
    return runs;
}

static bool beside_kernels(void) {
    return here(ffn_isa_best());
}

/* Small whole numbers, so nothing is rounded. */
Test(hand, sweeps_multiply_every_row_by_every_panel_once) {
    static const hand_tiles tiles[] = {
        {FFN_ISA_AVX2, 6, 1, 1},   {FFN_ISA_AVX2, 6, 1, 2},    {FFN_ISA_AVX2, 5, 1, 4},  {FFN_ISA_AVX512, 14, 1, 1},
        {FFN_ISA_AVX512, 8, 2, 2}, {FFN_ISA_AVX512, 14, 2, 4}, {FFN_ISA_AVX512, 6, 4, 4}};
    static const int rows[] = {1, 2, 3, 4, 5, 6, 7, 11, 18, 29, 66}, chunks[] = {4, 32, 64};
    enum { TERMS = 48, PANELS = 7, ROWS_MAX = 66, COLUMNS = PANELS * HAND_PANEL, LDY = COLUMNS + HAND_PANEL };
    enum { TILES = sizeof tiles / sizeof *tiles, ROWS = sizeof rows / sizeof *rows, AHEADS = HAND_INTO_L2 + 1 };
    static float x[ROWS_MAX * TERMS], panels[(PANELS + HAND_STREAMS) * TERMS * HAND_PANEL], y[ROWS_MAX * LDY];
    for (size_t i = 0; i < sizeof panels / sizeof *panels; i++)
        panels[i] = (float)((int)(i * 7 % 11) - 5);
    for (size_t v = 0; v < TILES * ROWS * 3 * AHEADS; v++) {
        const hand_sweep s = {.x = x,
                              .y = y,
                              .ldy = LDY,
                              .panels = (const char *)panels,
                              .stride = TERMS * TERM_BYTES,
                              .count = PANELS,
                              .rows = rows[v % ROWS],
                              .terms = TERMS,
                              .chunk = chunks[v / ROWS % 3],
                              .ahead = (hand_ahead)(v / ROWS / 3 % AHEADS),
                              .tiles = tiles[v / ROWS / 3 / AHEADS]};
        int wrong = 0;
        if (v % (ROWS * 3 * AHEADS) == 0 && !here(s.tiles.isa)) {
            v += ROWS * 3 * AHEADS - 1;
            continue;
        }
        memset(y, 0, sizeof y);
        for (int64_t r = 0; r < s.rows; r++)
            for (int64_t k = 0; k < TERMS; k++)
                *x_at(&s, x, r, k) = (float)((r * r + k) % 7 - 3);
        hand_sweep_run(&s);
        for (int64_t i = 0; i < ROWS_MAX * LDY; i++) {
            const int64_t r = i / LDY, c = i % LDY;
            double wanted = 0;
            for (int64_t k = 0; k < TERMS && r < s.rows && c < COLUMNS; k++)
                wanted += (double)*x_at(&s, x, r, k) *
                          (double)panels[c / HAND_PANEL * TERMS * HAND_PANEL + k * HAND_PANEL + c % HAND_PANEL];
            wrong += fabs((double)y[i] - wanted) > 0.5;
        }
        cr_expect_eq(wrong, 0,
                     "%s, %lld rows, tiles of %d x %d, chunks of %lld, %d side by side, ahead %d: %d sums are wrong",
                     ffn_isa_name(s.tiles.isa), (long long)s.rows, s.tiles.rows, s.tiles.panels, (long long)s.chunk,
                     s.tiles.group, (int)s.ahead, wrong);
    }
}

/* Which tiles there are, for whom: rows by panels, and how they fetch. */
static bool there_is(ffn_isa isa, int rows, int panels, hand_fetch fetch) {
    static const int most[FFN_ISA_COUNT][HAND_STREAMS + 1] = {
        [FFN_ISA_AVX2] = {0, 6}, [FFN_ISA_AVX512] = {0, 14, 14, 0, 6}};
    return rows > 0 && rows <= most[isa][panels] && (fetch != HAND_FETCH_1_L2 || isa == FFN_ISA_AVX512);
}

static void expect_tile(ffn_isa isa, int rows, int panels, hand_fetch fetch) {
    enum { TERMS = 12, WIDE = HAND_STREAMS * HAND_PANEL };
    static float a[HAND_ROWS * TERMS], b[HAND_STREAMS * TERMS * HAND_PANEL], c[(HAND_ROWS + 1) * WIDE];
    static char near[4096];
    const hand_tile tile = hand_tile_of(isa, rows, panels, fetch);
    for (int i = 0; i < HAND_ROWS * TERMS; i++)
        a[i] = (float)(i % 5 + 1);
    for (int i = 0; i < HAND_STREAMS * TERMS * HAND_PANEL; i++)
        b[i] = (float)(i % 13 - 6);
    for (int i = 0; i < (HAND_ROWS + 1) * WIDE; i++)
        c[i] = (float)i;
    tile(a, b, c, WIDE, TERMS, near, 64, TERMS * TERM_BYTES);
    for (int i = 0; i < (HAND_ROWS + 1) * WIDE; i++) {
        const int row = i / WIDE, panel = i % WIDE / HAND_PANEL;
        double wanted = i;
        for (int k = 0; k < TERMS && row < rows && panel < panels; k++)
            wanted += (double)a[k * rows + row] * (double)b[(panel * TERMS + k) * HAND_PANEL + i % HAND_PANEL];
        cr_expect(fabs((double)c[i] - wanted) < 0.5, "%s, %d x %d, fetch %d, sum %d: %g, not %g", ffn_isa_name(isa),
                  rows, panels, (int)fetch, i, (double)c[i], wanted);
    }
}

Test(hand, tiles_are_of_the_rows_and_panels_they_say) {
    static const ffn_isa isas[] = {FFN_ISA_AVX2, FFN_ISA_AVX512};
    for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
        if (!here(isas[i]))
            continue;
        for (int rows = 0; rows <= HAND_ROWS + 1; rows++)
            for (int panels = 0; panels <= HAND_STREAMS; panels++)
                for (hand_fetch fetch = HAND_NO_FETCH; fetch < HAND_FETCHES; fetch++) {
                    const bool there = there_is(isas[i], rows, panels, fetch);
                    cr_expect_eq(hand_tile_of(isas[i], rows, panels, fetch) != NULL, there, "%s, %d x %d, fetch %d",
                                 ffn_isa_name(isas[i]), rows, panels, (int)fetch);
                    if (there)
                        expect_tile(isas[i], rows, panels, fetch);
                }
    }
    cr_expect(!hand_tile_of(FFN_ISA_NEON, 1, 1, HAND_NO_FETCH));
}

Test(hand, are_timed_beside_the_kernel) {
    if (!beside_kernels())
        return;
    RUN("bench", "d64-f256-swiglu", "--n", "1,5,40", "--vs", "none", "--seconds", "0.01", "--hand", "--json");
    support_expect_status(0);
    cJSON *all = json_lines_of(support_result.out);
    const cJSON *line;
    int lines = 0;
    cJSON_ArrayForEach(line, all) {
        const cJSON *hand = cJSON_GetObjectItemCaseSensitive(line, "hand");
        cr_assert(hand);
        const double ratio = json_number_of(line, "ms_min") / json_number_of(hand, "ms_min");
        cr_expect_float_eq(json_number_of(hand, "ratio_min"), ratio, 1e-4 * ratio);
        cr_expect(json_number_of(hand, "fraction_of_peak") > 0 && json_number_of(hand, "fraction_of_peak") < 1.1);
        lines++;
    }
    cr_expect_eq(lines, 3);
    cJSON_Delete(all);
}

Test(hand, stand_beside_each_figure_of_a_regime) {
    if (!beside_kernels())
        return;
    RUN("bench", "--regimes", "small-relu", "--hand", "--seconds", "0.01", "--json");
    support_expect_status(0);
    cJSON *all = json_lines_of(support_result.out);
    const cJSON *line;
    cJSON_ArrayForEach(line, all) {
        const double share = json_number_of(line, "hand");
        cr_expect(share > 0 && share < 1.1, "n = %g: %g", json_number_of(line, "n"), share);
    }
    cr_expect_eq(cJSON_GetArraySize(all), 3);
    cJSON_Delete(all);
}

Test(hand, say_why_they_take_no_part) {
    if (!beside_kernels())
        return;
    RUN("bench", "d30-f64-relu", "--n", "1", "--vs", "none", "--seconds", "0.01", "--hand");
    support_expect_status(0);
    cr_expect(strstr(support_result.err, "--hand") && strstr(support_result.err, "multiples of 4"), "%s",
              support_result.err);
    RUN("bench", "d64-f256-relu", "--n", "1", "--vs", "none", "--hand", "--threads", "2");
    support_expect_status(2);
    cr_expect(strstr(support_result.err, "--hand"), "%s", support_result.err);
}
