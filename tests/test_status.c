/* Failures: every status has its sentence, and what goes into a diag is one terminated, printable line. */
#include "diag.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

Test(status, every_status_has_a_sentence_of_its_own) {
    const char *texts[] = {
#define TEXT(name, text) [FFN_##name] = text,
        FFN_STATUS_LIST(TEXT)
#undef TEXT
    };
    const size_t count = sizeof texts / sizeof *texts;
    for (size_t i = 0; i < count; i++) {
        cr_expect_str_eq(ffn_status_text((ffn_status)i), texts[i]);
        for (size_t j = 0; j < i; j++)
            cr_expect_str_neq(texts[i], texts[j]);
    }
    cr_expect_str_eq(ffn_status_text((ffn_status)count), "unknown status");
    cr_expect_str_eq(ffn_status_text((ffn_status)-1), "unknown status");
}

Test(diag, status_is_returned_and_kept) {
    ffn_diag diag;
    cr_expect_eq(diag_fail(&diag, FFN_BAD_FILE, "%s: %d bytes", "a.npy", 3), FFN_BAD_FILE);
    cr_expect_eq(diag.status, FFN_BAD_FILE);
    cr_expect_str_eq(diag.text, "a.npy: 3 bytes");
    cr_expect_eq(diag_fail(NULL, FFN_SYSTEM, "nobody listens"), FFN_SYSTEM);
}

Test(diag, long_text_is_cut_visibly_and_terminated) {
    char word[2 * FFN_DIAG_BYTES];
    memset(word, 'w', sizeof word);
    word[sizeof word - 1] = '\0';
    struct {
        ffn_diag diag;
        char after[16];
    } memory;
    memset(&memory, 'A', sizeof memory);
    diag_fail(&memory.diag, FFN_BAD_SPEC, "%s", word);
    cr_expect_eq(strlen(memory.diag.text), FFN_DIAG_BYTES - 1);
    cr_expect_str_eq(memory.diag.text + FFN_DIAG_BYTES - 4, "...");
    for (size_t i = 0; i < sizeof memory.after; i++)
        cr_expect_eq(memory.after[i], 'A');
}

Test(diag, text_that_just_fits_is_not_cut) {
    char word[FFN_DIAG_BYTES];
    memset(word, 'w', sizeof word);
    word[sizeof word - 1] = '\0';
    ffn_diag diag;
    diag_fail(&diag, FFN_BAD_SPEC, "%s", word);
    cr_expect_str_eq(diag.text, word);
}

Test(diag, control_characters_of_a_file_do_not_reach_the_terminal) {
    ffn_diag diag;
    diag_fail(&diag, FFN_BAD_FILE, "tensor \"%s\"", "a\x1b[2J\nb\tc\x7f");
    cr_expect_str_eq(diag.text, "tensor \"a?[2J?b?c?\"");
}

Test(diag, a_failure_can_be_reworded_in_place) {
    ffn_diag diag;
    diag_fail(&diag, FFN_BAD_SPEC, "column 3: x");
    diag_fail(&diag, FFN_BAD_IMAGE, "spec of the image: %s", diag.text);
    cr_expect_str_eq(diag.text, "spec of the image: column 3: x");
    cr_expect_eq(diag.status, FFN_BAD_IMAGE);
}

static const char *model_at(size_t i) {
    static const char *const names[] = {"bert-base", "bert-large", "gpt2", "gpt2-xl",
                                        "llama2-7b", "llama3-8b",  "gelu", "relu"};
    return i < sizeof names / sizeof *names ? names[i] : NULL;
}

static void expect_near(const char *word, const char *expected) {
    char text[160];
    diag_near_names(word, model_at, text, sizeof text);
    cr_expect_str_eq(text, expected, "%s gave \"%s\"", word, text);
}

Test(near_names, typing_mistakes_are_understood) {
    expect_near("bert-bsae", ": did you mean bert-base?");  /* neighbours swapped */
    expect_near("bertbase", ": did you mean bert-base?");   /* one missing */
    expect_near("bert-baase", ": did you mean bert-base?"); /* one too many */
    expect_near("BERT_BASE", ": did you mean bert-base?");  /* case and separator */
    expect_near("relv", ": did you mean relu, gelu?");
    expect_near("rleu", ": did you mean relu, gelu?"); /* a swap is one mistake, two letters are two */
    expect_near("gpt-2", ": did you mean gpt2?");
}

Test(near_names, the_nearest_comes_first_and_a_beginning_counts) {
    expect_near("llama2-8b", ": did you mean llama2-7b, llama3-8b?");
    expect_near("llama3-7b", ": did you mean llama2-7b, llama3-8b?");
    expect_near("llama3-8", ": did you mean llama3-8b?");
    expect_near("llama", ": did you mean llama2-7b, llama3-8b?");
}

Test(near_names, what_is_like_nothing_gets_no_offer) {
    expect_near("", "");
    expect_near("mamba", "");
    expect_near("x", "");
    char word[4096];
    memset(word, 'b', sizeof word);
    word[sizeof word - 1] = '\0';
    expect_near(word, "");
}

Test(near_names, never_writes_past_its_buffer) {
    for (size_t bytes = 0; bytes <= 64; bytes++) {
        char text[80];
        memset(text, 'A', sizeof text);
        diag_near_names("llama", model_at, text, bytes);
        if (bytes)
            cr_expect(memchr(text, '\0', bytes), "%zu bytes: not terminated", bytes);
        for (size_t i = bytes; i < sizeof text; i++)
            cr_expect_eq(text[i], 'A', "%zu bytes: byte %zu was written", bytes, i);
    }
}
