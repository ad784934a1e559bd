/* test_plan_text.c: the text of a plan reads back to that plan, and nothing else does */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "support_data.h"

#define TEXT "avx2 17+ m96 f384 k768 u4 p1 6x1 5x1 4x1 1x1" /* ffn.h's example */

static ffn_plan parsed(const char *text) {
    ffn_diag diag = {.text = ""};
    ffn_plan plan;
    cr_assert_eq(ffn_plan_parse(text, &plan, &diag), FFN_OK, "%s: %s", text, diag.text);
    return plan;
}

Test(plan_text, the_documented_line_has_the_documented_meaning) {
    const ffn_plan plan = parsed(TEXT);
    const ffn_tile tiles[] = {{6, 1}, {5, 1}, {4, 1}, {1, 1}};
    cr_expect_eq(plan.isa, FFN_ISA_AVX2);
    cr_expect_eq(plan.n_class, FFN_N_17_UP);
    cr_expect_eq(plan.m_block, 96);
    cr_expect_eq(plan.f_block, 384);
    cr_expect_eq(plan.k_block, 768);
    cr_expect_eq(plan.unroll, 4);
    cr_expect_eq(plan.prefetch, 1);
    cr_assert_eq(plan.tile_count, 4);
    cr_expect_arr_eq(plan.tiles, tiles, sizeof tiles);
}

static bool same_plan(const ffn_plan *a, const ffn_plan *b) {
    bool same = a->isa == b->isa && a->n_class == b->n_class && a->m_block == b->m_block && a->f_block == b->f_block &&
                a->k_block == b->k_block && a->unroll == b->unroll && a->prefetch == b->prefetch &&
                a->tile_count == b->tile_count;
    for (int32_t i = 0; i < a->tile_count && same; i++)
        same = a->tiles[i].mr == b->tiles[i].mr && a->tiles[i].panels == b->tiles[i].panels;
    return same;
}

Test(plan_text, every_plan_of_every_preset_comes_back) {
    int plans = 0;
    const ffn_preset *preset;
    for (size_t i = 0; (preset = ffn_preset_at(i)) != NULL; i++) {
        const ffn_spec spec = support_spec(preset->spec);
        for (int isa = 0; isa < FFN_ISA_COUNT; isa++)
            for (int n_class = 0; n_class < FFN_N_CLASSES; n_class++) {
                ffn_machine machine;
                ffn_plan plan;
                char text[256];
                if (ffn_machine_generic((ffn_isa)isa, &machine, NULL))
                    continue;
                cr_assert_eq(ffn_plan_make(&spec, (ffn_isa)isa, (ffn_n_class)n_class, &machine, &plan, NULL), FFN_OK);
                cr_assert_eq(ffn_plan_format(&plan, text, sizeof text, NULL), FFN_OK);
                const ffn_plan back = parsed(text);
                cr_assert(same_plan(&plan, &back), "%s: %s", preset->name, text);
                plans++;
            }
    }
    cr_assert_geq(plans, 5 * 3 * FFN_N_CLASSES);
}

Test(plan_text, the_largest_numbers_and_most_tiles_come_back) {
    const char *largest =
        "neon 2-4 m9223372036854775807 f9223372036854775807 k9223372036854775807 u2147483647 p2147483647"
        " a2147483647 r2147483647 v2147483647 c2147483647 g2147483647 x2147483647 y2147483647"
        " 16x8 15x8 14x8 13x8 12x8 11x8 10x8 9x8 8x8 7x8 6x8 5x8 4x8 3x8 2x8 1x1";
    const ffn_plan plan = parsed(largest);
    char text[256];
    cr_expect_eq(plan.tile_count, FFN_TILES_MAX);
    cr_assert_eq(ffn_plan_format(&plan, text, sizeof text, NULL), FFN_OK);
    cr_expect_str_eq(text, largest);
}

Test(plan_text, what_is_damaged_is_refused_by_the_name_of_its_field) {
    static const struct {
        const char *text, *named;
    } cases[] = {
        {"", "isa"},
        {"sse 17+ m96 f384 k768 u4 p1 6x1 1x1", "isa"},
        {" avx2 17+ m96 f384 k768 u4 p1 6x1 1x1", "isa"},
        {"AVX2 17+ m96 f384 k768 u4 p1 6x1 1x1", "isa"},
        {"avx2,17+ m96 f384 k768 u4 p1 6x1 1x1", "isa"},
        {"avx2avx2avx2avx2avx2avx2avx2avx2avx2avx2 17+ m96 f384 k768 u4 p1 1x1", "isa"},
        {"avx2", "n class"},
        {"avx2 17 m96 f384 k768 u4 p1 6x1 1x1", "n class"},
        {"avx2  17+ m96 f384 k768 u4 p1 6x1 1x1", "n class"},
        {"avx2 m96 f384 k768 u4 p1 6x1 1x1", "n class"},
        {"avx2 17+", "m_block"},
        {"avx2 17+ f384 k768 u4 p1 6x1 1x1", "m_block"},
        {"avx2 17+ m f384 k768 u4 p1 6x1 1x1", "m_block"},
        {"avx2 17+ m-96 f384 k768 u4 p1 6x1 1x1", "m_block"},
        {"avx2 17+ m+96 f384 k768 u4 p1 6x1 1x1", "m_block"},
        {"avx2 17+ m096 f384 k768 u4 p1 6x1 1x1", "m_block"},
        {"avx2 17+ m9223372036854775808 f384 k768 u4 p1 6x1 1x1", "m_block"},
        {"avx2 17+ m96, f384 k768 u4 p1 6x1 1x1", "m_block"},
        {"avx2 17+ m96 f3x4 k768 u4 p1 6x1 1x1", "f_block"},
        {"avx2 17+ m96 k768 f384 u4 p1 6x1 1x1", "f_block"},
        {"avx2 17+ m96 f384 k 768 u4 p1 6x1 1x1", "k_block"},
        {"avx2 17+ m96 f384 k768 p1 6x1 1x1", "unroll"},
        {"avx2 17+ m96 f384 k768 u2147483648 p1 6x1 1x1", "unroll"},
        {"avx2 17+ m96 f384 k768 u4 6x1 1x1", "prefetch"},
        {"avx2 17+ m96 f384 k768 u4 p1x 6x1 1x1", "prefetch"},
        {"avx2 17+ m96 f384 k768 u4 p1", "tile 1"},
        {"avx2 17+ m96 f384 k768 u4 p1 ", "tile 1"},
        {"avx2 17+ m96 f384 k768 u4 p1 6 1x1", "tile 1"},
        {"avx2 17+ m96 f384 k768 u4 p1 z1 1x1", "tile 1"},
        {"avx2 17+ m96 f384 k768 u4 p1 c0 6x1 1x1", "chunk"},
        {"avx2 17+ m96 f384 k768 u4 p1 g2 c128 6x1 1x1", "tile 1"},
        {"avx2 17+ m96 f384 k768 u4 p1 x 6x1 1x1", "copy_x"},
        {"avx2 17+ m96 f384 k768 u4 p1 6x 1x1", "tile 1"},
        {"avx2 17+ m96 f384 k768 u4 p1 6x1 1X1", "tile 2"},
        {"avx2 17+ m96 f384 k768 u4 p1 6x1 1x1 ", "tile 3"},
        {"avx2 17+ m96 f384 k768 u4 p1 6x1  1x1", "tile 2"},
        {"avx2 17+ m96 f384 k768 u4 p1 6x1 1x1x1", "tile 2"},
        {"avx2 17+ m96 f384 k768 u4 p1 6x1 1x1\n", "tile 2"},
        {"avx2 17+ m1 f16 k16 u1 p1 1x1 1x1 1x1 1x1 1x1 1x1 1x1 1x1 1x1 1x1 1x1 1x1 1x1 1x1 1x1 1x1 1x1", "at most 16"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ffn_plan plan = {.m_block = 7};
        ffn_diag diag = {.text = ""};
        cr_expect_eq(ffn_plan_parse(cases[i].text, &plan, &diag), FFN_BAD_ARGUMENT, "\"%s\"", cases[i].text);
        cr_expect(strstr(diag.text, cases[i].named), "\"%s\": %s", cases[i].text, diag.text);
        cr_expect_eq(plan.m_block, 7, "\"%s\" was refused and written", cases[i].text);
    }
}

Test(plan_text, every_cut_is_refused_or_a_plan_with_fewer_tiles) {
    for (size_t length = 0; length < sizeof TEXT - 1; length++) {
        char text[sizeof TEXT], again[256];
        ffn_plan plan;
        memcpy(text, TEXT, length);
        text[length] = '\0';
        if (ffn_plan_parse(text, &plan, NULL))
            continue;
        cr_assert_eq(ffn_plan_format(&plan, again, sizeof again, NULL), FFN_OK);
        cr_expect_str_eq(again, text);
    }
}

Test(plan_text, null_and_impossible_counts_are_refused) {
    ffn_plan plan = parsed(TEXT);
    char text[256] = "as before";
    cr_expect_eq(ffn_plan_parse(NULL, &plan, NULL), FFN_BAD_ARGUMENT);
    cr_expect_eq(ffn_plan_parse(TEXT, NULL, NULL), FFN_BAD_ARGUMENT);
    plan.tile_count = FFN_TILES_MAX + 1;
    cr_expect_eq(ffn_plan_format(&plan, text, sizeof text, NULL), FFN_BAD_ARGUMENT);
    plan.tile_count = -1;
    cr_expect_eq(ffn_plan_format(&plan, text, sizeof text, NULL), FFN_BAD_ARGUMENT);
    plan.tile_count = 4;
    cr_expect_eq(ffn_plan_format(&plan, text, sizeof TEXT - 1, NULL), FFN_BAD_ARGUMENT);
    cr_expect_str_eq(text, "as before");
    cr_expect_eq(ffn_plan_format(&plan, text, sizeof TEXT, NULL), FFN_OK);
    cr_expect_str_eq(text, TEXT);
}
