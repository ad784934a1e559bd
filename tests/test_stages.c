/* test_stages.c: the kernel that counts where its time goes reads the clock around each part, and only that kernel */
#include "ffngen.h"
#include "image.h"
#include "isa.h"
#include "stages.h"

#include <criterion/criterion.h>
#include <string.h>

/* mrs x0 .. x30, cntvct_el0 */
#define READING 0xD53BE040u
#define READING_MASK 0xFFFFFFE0u

static const ffn_machine machine = {.l1_bytes = 1 << 15, .l2_bytes = 1 << 19, .l3_bytes = 1 << 25};

static int readings(const ffn_bytes *of) {
    image_header header;
    int count = 0;
    memcpy(&header, of->data, sizeof header);
    for (uint64_t at = 0; at + 4 <= header.text_bytes; at += 4) {
        uint32_t word;
        memcpy(&word, (const char *)of->data + header.text_offset + at, sizeof word);
        count += (word & READING_MASK) == READING;
    }
    return count;
}

static ffn_bytes image_of(const char *text, ffn_isa isa, bool counts) {
    ffn_spec spec;
    ffn_plan plan;
    ffn_bytes made = {.data = NULL};
    ffn_diag diag = {0};
    cr_assert_eq(ffn_spec_parse(text, &spec, &diag), FFN_OK, "%s", diag.text);
    cr_assert_eq(ffn_plan_make(&spec, isa, FFN_N_5_16, &machine, &plan, &diag), FFN_OK, "%s", diag.text);
    ffn_status status =
        counts ? stages_image(&spec, &plan, &made, &diag) : ffngen_emit(&spec, &plan, FFNGEN_IMAGE, &made, &diag);
    cr_assert_eq(status, FFN_OK, "%s, %s: %s", text, ffn_isa_name(isa), diag.text);
    return made;
}

Test(stages, the_clock_is_read_before_and_after_each_part) {
    static const struct {
        const char *spec;
        int calls;
    } rows[] = {
        {"d96-f160-relu", 2},   /* expand with the activation in its tiles, contract */
        {"d96-f160-gelu", 3},   /* activate */
        {"d100-f300-swiglu", 5} /* a gate; the last panel of y is not whole */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ffn_bytes plain = image_of(rows[i].spec, FFN_ISA_NEON, false);
        ffn_bytes counts = image_of(rows[i].spec, FFN_ISA_NEON, true);
        cr_expect_eq(readings(&plain), 0, "%s", rows[i].spec);
        cr_expect_eq(readings(&counts), 2 * rows[i].calls, "%s: %d", rows[i].spec, readings(&counts));
        plain.release(plain.data);
        counts.release(counts.data);
    }
}

Test(stages, every_isa_has_such_a_kernel) {
    for (int isa = 0; isa < FFN_ISA_COUNT; isa++) {
        if (!isa_row_of((ffn_isa)isa))
            continue;
        ffn_bytes plain = image_of("d96-f160-gelu", (ffn_isa)isa, false);
        ffn_bytes counts = image_of("d96-f160-gelu", (ffn_isa)isa, true);
        cr_expect(plain.bytes != counts.bytes || memcmp(plain.data, counts.data, plain.bytes) != 0);
        plain.release(plain.data);
        counts.release(counts.data);
    }
}
