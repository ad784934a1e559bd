/* plan_text.c: plan <-> one line of text
 *
 * Invariant: a text that is read is the one that would be written for the plan it gives, byte for byte: one blank
 * between fields, every field there and in order, numbers without sign, leading zeros or unit. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "diag.h"
#include "ffn.h"

#define LINE_BYTES 256

/* The first ones always stand there, the others where they are not 0. */
enum { FIELDS = 12, FIELDS_ALWAYS = 5 };

static const struct {
    char letter;
    const char *name;
    int64_t most;
} fields[FIELDS] = {{'m', "m_block", INT64_MAX},   {'f', "f_block", INT64_MAX},     {'k', "k_block", INT64_MAX},
                    {'u', "unroll", INT32_MAX},    {'p', "prefetch", INT32_MAX},    {'a', "ahead", INT32_MAX},
                    {'r', "row_split", INT32_MAX}, {'v', "vector_bits", INT32_MAX}, {'c', "chunk", INT32_MAX},
                    {'g', "group", INT32_MAX},     {'x', "copy_x", INT32_MAX},      {'y', "hold_y", INT32_MAX}};

ffn_status ffn_plan_format(const ffn_plan *plan, char *text, size_t text_bytes, ffn_diag *diag) {
    char line[LINE_BYTES];
    if (!plan || !text)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "plan and text must not be NULL");
    if (plan->tile_count < 0 || plan->tile_count > FFN_TILES_MAX)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "plan: tile_count %d: it must be 0 .. %d", plan->tile_count,
                         FFN_TILES_MAX);
    const int64_t numbers[FIELDS] = {plan->m_block,
                                     plan->f_block,
                                     plan->k_block,
                                     plan->unroll,
                                     plan->prefetch,
                                     plan->ahead,
                                     (int64_t)plan->row_split,
                                     plan->vector_bits,
                                     plan->chunk,
                                     plan->group,
                                     plan->copy_x,
                                     plan->hold_y};
    int at = snprintf(line, sizeof line, "%s %s", ffn_isa_name(plan->isa) ? ffn_isa_name(plan->isa) : "?",
                      ffn_n_class_name(plan->n_class) ? ffn_n_class_name(plan->n_class) : "?");
    for (int i = 0; i < FIELDS && at > 0 && (size_t)at < sizeof line; i++)
        if (i < FIELDS_ALWAYS || numbers[i] != 0)
            at += snprintf(line + at, sizeof line - (size_t)at, " %c%" PRId64, fields[i].letter, numbers[i]);
    for (int32_t i = 0; i < plan->tile_count && at > 0 && (size_t)at < sizeof line; i++)
        at += snprintf(line + at, sizeof line - (size_t)at, " %dx%d", plan->tiles[i].mr, plan->tiles[i].panels);
    if (at < 0 || (size_t)at >= sizeof line || (size_t)at >= text_bytes)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "plan text: %zu bytes are too few", text_bytes);
    memcpy(text, line, (size_t)at + 1);
    return FFN_OK;
}

/* A decimal number as it is written, 0 .. most; `text` is left behind it. */
static bool take_number(const char **text, int64_t most, int64_t *number) {
    const char *at = *text;
    if (*at < '0' || *at > '9' || (at[0] == '0' && at[1] >= '0' && at[1] <= '9'))
        return false;
    int64_t value = 0;
    for (; *at >= '0' && *at <= '9'; at++) {
        const int digit = *at - '0';
        if (value > (most - digit) / 10)
            return false;
        value = 10 * value + digit;
    }
    *text = at;
    *number = value;
    return true;
}

static bool at_end(const char *text) {
    return *text == ' ' || *text == '\0';
}

/* The blank before the next field; false at the end of the text or where a field has something behind it. */
static bool take_blank(const char **text) {
    if (**text != ' ')
        return false;
    (*text)++;
    return true;
}

/* A word without a blank -> a buffer that it fits, else cut short: then it is the name of nothing. */
static void take_word(const char **text, char word[32]) {
    const size_t length = strcspn(*text, " "), kept = length < 31 ? length : 31;
    memcpy(word, *text, kept);
    word[kept] = '\0';
    *text += length;
}

static ffn_status parse_names(const char **at, ffn_plan *plan, ffn_diag *diag) {
    char word[32];
    ffn_diag detail;
    take_word(at, word);
    if (ffn_isa_parse(word, &plan->isa, &detail))
        return diag_fail(diag, FFN_BAD_ARGUMENT, "plan text: isa: %s", detail.text);
    word[0] = '\0';
    if (take_blank(at))
        take_word(at, word);
    for (int i = 0; i < FFN_N_CLASSES; i++)
        if (strcmp(word, ffn_n_class_name((ffn_n_class)i)) == 0) {
            plan->n_class = (ffn_n_class)i;
            return FFN_OK;
        }
    return diag_fail(diag, FFN_BAD_ARGUMENT, "plan text: n class \"%s\": it must be 1, 2-4, 5-16 or 17+", word);
}

static ffn_status parse_tiles(const char **at, ffn_plan *plan, ffn_diag *diag) {
    for (; **at != '\0' || plan->tile_count == 0; plan->tile_count++) {
        int64_t mr, panels;
        const char *tile = *at;
        if (plan->tile_count == FFN_TILES_MAX)
            return diag_fail(diag, FFN_BAD_ARGUMENT, "plan text: at most %d tiles are possible", FFN_TILES_MAX);
        if (!take_blank(at) || !take_number(at, INT32_MAX, &mr) || *(*at)++ != 'x' ||
            !take_number(at, INT32_MAX, &panels) || !at_end(*at))
            return diag_fail(diag, FFN_BAD_ARGUMENT,
                             "plan text: tile %d: \"%.30s\": it must be a blank and a tile such as 6x1",
                             plan->tile_count + 1, tile);
        plan->tiles[plan->tile_count] = (ffn_tile){(int32_t)mr, (int32_t)panels};
    }
    return FFN_OK;
}

ffn_status ffn_plan_parse(const char *text, ffn_plan *plan, ffn_diag *diag) {
    if (!text || !plan)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "%s must not be NULL", text ? "plan" : "text");
    ffn_plan read = {0};
    int64_t numbers[FIELDS] = {0};
    const char *at = text;
    ffn_status status = parse_names(&at, &read, diag);
    if (status)
        return status;
    for (int i = 0; i < FIELDS; i++) {
        const char *field = at;
        if (i >= FIELDS_ALWAYS && (at[0] != ' ' || at[1] != fields[i].letter))
            continue;
        if (!take_blank(&at) || *at++ != fields[i].letter || !take_number(&at, fields[i].most, &numbers[i]) ||
            !at_end(at) || (i >= FIELDS_ALWAYS && numbers[i] == 0))
            return diag_fail(diag, FFN_BAD_ARGUMENT,
                             "plan text: %s: \"%.30s\": it must be a blank, %c and a number up to %" PRId64,
                             fields[i].name, field, fields[i].letter, fields[i].most);
    }
    read.m_block = numbers[0];
    read.f_block = numbers[1];
    read.k_block = numbers[2];
    read.unroll = (int32_t)numbers[3];
    read.prefetch = (int32_t)numbers[4];
    read.ahead = (int32_t)numbers[5];
    read.row_split = (ffn_row_split)numbers[6];
    read.vector_bits = (int32_t)numbers[7];
    read.chunk = (int32_t)numbers[8];
    read.group = (int32_t)numbers[9];
    read.copy_x = (int32_t)numbers[10];
    read.hold_y = (int32_t)numbers[11];
    status = parse_tiles(&at, &read, diag);
    if (!status)
        *plan = read;
    return status;
}
