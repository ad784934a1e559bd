/* Skeletons of headers: values put in, conditions, and what is wrong with one. */
#include "emit_template.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static const emit_value values[] = {{"NAME", "bert"}, {"ON", "1"},      {"OFF", "0"},   {"EMPTY", ""},
                                    {"TWO", "a\nb"},  {"AT", "@NAME@"}, {"A", "first"}, {"A", "second"}};

static ffn_status expand(const char *template, text *to, ffn_diag *diag) {
    return emit_template_text("t.in", template, strlen(template), values, sizeof values / sizeof *values, to, diag);
}

static void expect(const char *template, const char *want) {
    text made = {0};
    ffn_diag diag = {0};
    cr_expect_eq(expand(template, &made, &diag), FFN_OK, "\"%s\": %s", template, diag.text);
    text_add(&made, "", 1);
    cr_expect_str_eq(made.data, want, "\"%s\"", template);
    text_free(&made);
}

static void refuse(const char *template, const char *words) {
    text made = {0};
    ffn_diag diag = {0};
    cr_expect_eq(expand(template, &made, &diag), FFN_BAD_FILE, "\"%s\"", template);
    cr_expect(strstr(diag.text, words), "\"%s\": %s", template, diag.text);
    text_free(&made);
}

Test(emit_template, puts_values_in) {
    expect("int @NAME@_run(@NAME@_args);\n", "int bert_run(bert_args);\n");
    expect("@NAME@@NAME@@EMPTY@x\n", "bertbertx\n");
    expect("@TWO@\n", "a\nb\n");
    expect("@A@\n", "first\n");
    expect("", "");
    expect("no end of line", "no end of line\n");
    expect("\n\n", "\n\n");
}

Test(emit_template, leaves_other_signs_alone) {
    expect("a@b @ @@ .type f,@function @name@ @\n", "a@b @ @@ .type f,@function @name@ @\n");
    expect("@AT@\n", "@NAME@\n"); /* what a value brings is not looked at again */
    expect("\"aG\",@progbits,@NAME@\n", "\"aG\",@progbits,bert\n");
    expect(" @if ON\n", " @if ON\n");
}

Test(emit_template, keeps_lines_where_a_value_is_set) {
    expect("a\n@if ON\nb\n@end\nc\n", "a\nb\nc\n");
    expect("a\n@if OFF\nb\n@end\nc\n", "a\nc\n");
    expect("a\n@if EMPTY\nb\n@end\nc\n", "a\nc\n");
    expect("@if !OFF\nb\n@end\n", "b\n");
    expect("@if !ON\nb\n@end\n", "");
    expect("@if ON\na\n@else\nb\n@end\n", "a\n");
    expect("@if OFF\na\n@else\nb\n@end\n", "b\n");
    expect("@if OFF\n@UNKNOWN@\n@end\n", ""); /* as C's own does: lines that do not stand are not read */
}

Test(emit_template, nests_conditions) {
    static const char *const nested =
        "@if %s\n1\n@if %s\n2\n@else\n3\n@end\n4\n@else\n5\n@if %s\n6\n@else\n7\n@end\n@end\n";
    static const struct {
        const char *outer, *inner, *want;
    } rows[] = {
        {"ON", "ON", "1\n2\n4\n"}, {"ON", "OFF", "1\n3\n4\n"}, {"OFF", "ON", "5\n6\n"}, {"OFF", "OFF", "5\n7\n"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char template[256];
        snprintf(template, sizeof template, nested, rows[i].outer, rows[i].inner, rows[i].inner);
        expect(template, rows[i].want);
    }
}

Test(emit_template, refuses_names_without_a_value) {
    refuse("a\nb @UNKNOWN@\n", "line 2: no value for UNKNOWN");
    refuse("@NAME_@\n", "NAME_");
    refuse("@if UNKNOWN\n@end\n", "no value for UNKNOWN");
    refuse("@if !UNKNOWN\n@end\n", "no value for UNKNOWN");
}

Test(emit_template, refuses_what_is_not_balanced) {
    refuse("@if ON\na\n", "@if without @end");
    refuse("@end\n", "line 1: @end without @if");
    refuse("@else\n", "line 1: @else without @if");
    refuse("@if ON\n@else\n@else\n@end\n", "line 3: @else without @if");
    char deep[17 * 7 + 1] = "";
    for (int i = 0; i < 17; i++)
        strcat(deep, "@if ON\n");
    refuse(deep, "too deep");
}

Test(emit_template, names_a_file_that_is_not_there) {
    text made = {0};
    ffn_diag diag = {0};
    cr_expect_eq(emit_template("nothing.in", NULL, 0, &made, &diag), FFN_BAD_FILE);
    cr_expect(strstr(diag.text, "nothing.in"));
}
