/* cmd_plan.c: "field=value,..." -> changes of a plan, for those who measure plans */
#include "cmd.h"

#include "diag.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The digits at `*text`, which is left behind them, as a number up to `most`. */
static bool take_number(const char **text, int64_t most, int64_t *number) {
    char *end;
    errno = 0;
    *number = **text >= '0' && **text <= '9' ? strtoll(*text, &end, 10) : -1;
    if (*number < 0 || *number > most || errno)
        return false;
    *text = end;
    return true;
}

/* "6x2/4x2/1x4", tallest first. */
static bool parse_tiles(const char *text, ffn_plan *plan) {
    plan->tile_count = 0;
    for (const char *at = text;; at++) {
        int64_t mr, panels;
        if (plan->tile_count == FFN_TILES_MAX || !take_number(&at, INT32_MAX, &mr) || *at++ != 'x' ||
            !take_number(&at, INT32_MAX, &panels))
            return false;
        plan->tiles[plan->tile_count++] = (ffn_tile){(int32_t)mr, (int32_t)panels};
        if (*at != '/')
            return *at == '\0';
    }
}

ffn_status cmd_plan_change(const char *changes, ffn_plan *plan, ffn_diag *diag) {
    ffn_plan changed = *plan;
    int32_t row_split = (int32_t)plan->row_split;
    const struct {
        const char *name;
        int64_t *wide;
        int32_t *narrow;
    } fields[] = {{"m_block", &changed.m_block, NULL},   {"f_block", &changed.f_block, NULL},
                  {"k_block", &changed.k_block, NULL},   {"unroll", NULL, &changed.unroll},
                  {"prefetch", NULL, &changed.prefetch}, {"ahead", NULL, &changed.ahead},
                  {"row_split", NULL, &row_split},       {"vector_bits", NULL, &changed.vector_bits},
                  {"chunk", NULL, &changed.chunk},       {"group", NULL, &changed.group},
                  {"copy_x", NULL, &changed.copy_x},     {"hold_y", NULL, &changed.hold_y}};
    for (const char *item = changes; *item;) {
        size_t length = strcspn(item, ",");
        char text[256], *value;
        if (length >= sizeof text)
            return diag_fail(diag, FFN_BAD_ARGUMENT, "an item of the plan is longer than %zu characters", sizeof text);
        snprintf(text, sizeof text, "%.*s", (int)length, item);
        item += length + (item[length] == ',');
        value = strchr(text, '=');
        if (!value)
            return diag_fail(diag, FFN_BAD_ARGUMENT, "'%s' is not FIELD=VALUE; fields are " CMD_PLAN_FIELDS, text);
        *value++ = '\0';
        if (!strcmp(text, "tiles")) {
            if (!parse_tiles(value, &changed))
                return diag_fail(diag, FFN_BAD_ARGUMENT, "tiles: '%s' is not like 6x2/4x2/1x4, rows x panels", value);
            continue;
        }
        size_t field = 0, count = sizeof fields / sizeof fields[0];
        while (field < count && strcmp(fields[field].name, text))
            field++;
        if (field == count)
            return diag_fail(diag, FFN_BAD_ARGUMENT, "no plan field '%s'; fields are " CMD_PLAN_FIELDS, text);
        const int64_t most = fields[field].wide ? INT64_MAX : INT32_MAX;
        const char *at = value;
        int64_t number;
        if (!take_number(&at, most, &number) || *at)
            return diag_fail(diag, FFN_BAD_ARGUMENT, "%s: '%s' is not a whole number from 0 to %lld", text, value,
                             (long long)most);
        if (fields[field].wide)
            *fields[field].wide = number;
        else
            *fields[field].narrow = (int32_t)number;
    }
    changed.row_split = (ffn_row_split)row_split;
    *plan = changed;
    return FFN_OK;
}
