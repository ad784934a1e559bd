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
    int64_t tiles = (s->rows + HAND_ROWS - 1) / HAND_ROWS, first = 0, height = s->rows / tiles;
    for (int64_t t = 1; first + height <= row; t++) {
        first += height;
        height = (s->rows + t) / tiles;
    }
    return &x[first * s->terms + term * height + (row - first)];
}

static bool here(void) {
    const bool runs = hand_tile_of(1, 0) && ffn_isa_supported(FFN_ISA_AVX2);
    if (!runs)
        printf("skipped: the loops by hand need x86-64 with AVX2 and FMA\n");
    return runs;
}

static bool beside_kernels(void) {
    const bool are = here() && ffn_isa_best() == FFN_ISA_AVX2;
    if (!are)
        printf("skipped: the best kernels here are %s, the loops by hand AVX2\n", ffn_isa_name(ffn_isa_best()));
    return are;
}

/* Small whole numbers, so nothing is rounded. */
Test(hand, sweeps_multiply_every_row_by_every_panel_once) {
    static const int rows[] = {1, 2, 3, 4, 5, 6, 7, 11, 18, 66}, streams[] = {1, 2, 4}, chunks[] = {4, 32, 64};
    enum { TERMS = 48, PANELS = 7, ROWS_MAX = 66, COLUMNS = PANELS * HAND_PANEL, LDY = COLUMNS + HAND_PANEL };
    static float x[ROWS_MAX * TERMS], panels[(PANELS + HAND_STREAMS) * TERMS * HAND_PANEL], y[ROWS_MAX * LDY];
    if (!here())
        return;
    for (size_t i = 0; i < sizeof panels / sizeof *panels; i++)
        panels[i] = (float)((int)(i * 7 % 11) - 5);
    for (size_t v = 0; v < 10 * 3 * 3 * 2; v++) {
        const hand_sweep s = {.x = x,
                              .y = y,
                              .ldy = LDY,
                              .panels = (const char *)panels,
                              .stride = TERMS * TERM_BYTES,
                              .count = PANELS,
                              .rows = rows[v % 10],
                              .terms = TERMS,
                              .chunk = chunks[v / 10 % 3],
                              .streams = streams[v / 30 % 3],
                              .fetch = v >= 90};
        int wrong = 0;
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
        cr_expect_eq(wrong, 0, "%lld rows, chunks of %lld, %d side by side: %d sums are wrong", (long long)s.rows,
                     (long long)s.chunk, s.streams, wrong);
    }
}

Test(hand, tiles_are_of_the_rows_and_columns_they_say) {
    enum { TERMS = 12 };
    float a[HAND_ROWS * TERMS], b[TERMS * HAND_PANEL], c[(HAND_ROWS + 1) * HAND_PANEL];
    char near[4096] = "";
    if (!here())
        return;
    for (int rows = 1; rows <= HAND_ROWS; rows++)
        for (int streams = 0; streams <= HAND_STREAMS; streams++) {
            const hand_tile tile = hand_tile_of(rows, streams);
            cr_expect_eq(!tile, streams == 3, "%d rows, %d streams", rows, streams);
            if (!tile)
                continue;
            for (int i = 0; i < HAND_ROWS * TERMS; i++)
                a[i] = (float)(i % 5 + 1);
            for (int i = 0; i < TERMS * HAND_PANEL; i++)
                b[i] = (float)(i % 13 - 6);
            for (int i = 0; i < (HAND_ROWS + 1) * HAND_PANEL; i++)
                c[i] = (float)i;
            tile(a, b, c, HAND_PANEL, TERMS, near, 64, 1024);
            for (int i = 0; i < (HAND_ROWS + 1) * HAND_PANEL; i++) {
                double wanted = i;
                for (int k = 0; k < TERMS && i / HAND_PANEL < rows; k++)
                    wanted += (double)a[k * rows + i / HAND_PANEL] * (double)b[k * HAND_PANEL + i % HAND_PANEL];
                cr_expect(fabs((double)c[i] - wanted) < 0.5, "%d rows, %d streams, sum %d: %g, not %g", rows, streams,
                          i, (double)c[i], wanted);
            }
        }
    cr_expect(!hand_tile_of(0, 0) && !hand_tile_of(HAND_ROWS + 1, 0) && !hand_tile_of(1, HAND_STREAMS + 1));
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
