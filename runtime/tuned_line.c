/* tuned_line.c: see tuned_line.h
 *
 * A line is fields name=value in the order of one table, a blank between two. A value that holds a blank, a quote or
 * nothing stands in quotes, where \" and \\ are the characters themselves. Numbers are decimal with at most six digits
 * after a point, and mean the same in every locale. */
#include "tuned_line.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "diag.h"
#include "text_file.h"

enum { DECIMALS = 6, FIELDS = 8, THREADS_MAX = 1 << 20 };

#define MS_MAX 1e9 /* twelve days */
#define SPREAD_MAX 1e6
#define UNIT 1e6 /* 10^DECIMALS */
#define PLAN_BYTES 256

static const char *const names[FIELDS] = {"spec", "plan", "threads", "ms", "spread", "machine", "llvm", "generator"};

/* ---- Values ------------------------------------------------------------------------------------------------ */

static bool is_text(const char *value) {
    for (; *value; value++)
        if ((unsigned char)*value < 0x20 || *value == 0x7f)
            return false;
    return true;
}

static ffn_status take_text(const char *value, char text[TUNED_NAME_BYTES], ffn_diag *diag) {
    if (!*value || strlen(value) >= TUNED_NAME_BYTES || !is_text(value))
        return diag_fail(diag, FFN_BAD_FILE, "it must be 1 to %d printable characters", TUNED_NAME_BYTES - 1);
    strcpy(text, value);
    return FFN_OK;
}

static ffn_status take_decimal(const char *value, double least, double most, double *number, ffn_diag *diag) {
    int64_t fixed;
    if (!text_fixed_parse(value, DECIMALS, (int64_t)(most * UNIT), &fixed) || (double)fixed < least * UNIT)
        return diag_fail(diag, FFN_BAD_FILE, "\"%.40s\": it must be a number up to %.0f with at most %d decimals%s",
                         value, most, DECIMALS, least > 0 ? ", above 0" : "");
    *number = (double)fixed / UNIT;
    return FFN_OK;
}

static ffn_status take_value(int field, const char *value, tuned_record *record, ffn_diag *diag) {
    int64_t threads;
    switch (field) {
    case 0:
        return ffn_spec_parse(value, &record->spec, diag);
    case 1:
        return ffn_plan_parse(value, &record->plan, diag);
    case 2:
        if (!text_fixed_parse(value, 0, THREADS_MAX, &threads) || threads == 0)
            return diag_fail(diag, FFN_BAD_FILE, "\"%.40s\": it must be a number, 1 .. %d", value, THREADS_MAX);
        record->threads = (int32_t)threads;
        return FFN_OK;
    case 3:
        return take_decimal(value, 1 / UNIT, MS_MAX, &record->ms, diag);
    case 4:
        return take_decimal(value, 0, SPREAD_MAX, &record->spread, diag);
    default:
        return take_text(value, field == 5 ? record->machine : field == 6 ? record->llvm : record->generator, diag);
    }
}

/* ---- Lines ------------------------------------------------------------------------------------------------- */

/* The value at *at, in place; *at goes behind it. NULL for a quote that does not end or has something behind it. */
static char *take_quoted(char **at) {
    char *value = *at, *to = value;
    if (*value != '"') {
        *at += strcspn(value, " \"");
        if (*at == value || **at == '"')
            return NULL;
        if (**at)
            *(*at)++ = '\0';
        else
            *at = NULL;
        return value;
    }
    char *from = value + 1;
    for (; *from != '"'; from++) {
        if (*from == '\\' && (from[1] == '"' || from[1] == '\\'))
            from++;
        else if (*from == '\0' || *from == '\\')
            return NULL;
        *to++ = *from;
    }
    from++;
    if (*from != ' ' && *from != '\0')
        return NULL;
    *at = *from ? from + 1 : NULL;
    *to = '\0';
    return value;
}

ffn_status tuned_line_parse(char *line, tuned_record *record, ffn_diag *diag) {
    tuned_record read = {.threads = 0};
    ffn_diag detail;
    char *at = line;
    for (int i = 0; i < FIELDS; i++) {
        const size_t length = strlen(names[i]);
        if (at == NULL || strncmp(at, names[i], length) != 0 || at[length] != '=')
            return diag_fail(diag, FFN_BAD_FILE, "%s= must stand %s%.60s%s", names[i], at ? "where \"" : "at the end",
                             at ? at : "", at ? "\" stands" : "");
        at += length + 1;
        const char *value = take_quoted(&at);
        if (value == NULL)
            return diag_fail(diag, FFN_BAD_FILE, "%s: the value ends badly: quotes, and a blank after it, are needed",
                             names[i]);
        if (take_value(i, value, &read, &detail)) /* a want of memory is not the file's fault */
            return diag_fail(diag, detail.status == FFN_OUT_OF_MEMORY ? FFN_OUT_OF_MEMORY : FFN_BAD_FILE, "%s: %s",
                             names[i], detail.text);
    }
    if (at != NULL)
        return diag_fail(diag, FFN_BAD_FILE, "\"%.60s\" stands behind the last field, %s", at, names[FIELDS - 1]);
    if (ffn_plan_check(&read.spec, &read.plan, &detail))
        return diag_fail(diag, FFN_BAD_FILE, "%s", detail.text);
    *record = read;
    return FFN_OK;
}

void tuned_line_round(tuned_record *record) {
    record->ms = nearbyint(record->ms * UNIT) / UNIT;
    record->spread = nearbyint(record->spread * UNIT) / UNIT;
}

/* " name=value"; true if it fits. */
static bool put(char line[TUNED_LINE_BYTES], size_t *used, int field, const char *value) {
    const bool quoted = !*value || strpbrk(value, " \"") != NULL;
    const size_t most = *used + strlen(names[field]) + 2 * strlen(value) + 5;
    if (most > TUNED_LINE_BYTES)
        return false;
    char *to = line + *used;
    to += sprintf(to, "%s%s=%s", field ? " " : "", names[field], quoted ? "\"" : "");
    for (; *value; value++) {
        if (quoted && (*value == '"' || *value == '\\'))
            *to++ = '\\';
        *to++ = *value;
    }
    strcpy(to, quoted ? "\"" : "");
    *used = (size_t)(to - line) + quoted;
    return true;
}

static bool in_range(double value, double least, double most) {
    return value >= least && value <= most; /* false for NaN */
}

ffn_status tuned_line_format(const tuned_record *record, char line[TUNED_LINE_BYTES], ffn_diag *diag) {
    char spec[FFN_SPEC_TEXT_BYTES], plan[PLAN_BYTES], numbers[3][TEXT_FIXED_BYTES];
    ffn_status status = ffn_spec_format(&record->spec, spec, sizeof spec, diag);
    status = status ? status : ffn_plan_check(&record->spec, &record->plan, diag);
    status = status ? status : ffn_plan_format(&record->plan, plan, sizeof plan, diag);
    if (status)
        return status;
    if (record->threads < 1 || record->threads > THREADS_MAX)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "threads %d: it must be 1 .. %d", record->threads, THREADS_MAX);
    if (!in_range(record->ms, 1 / UNIT, MS_MAX) || !in_range(record->spread, 0, SPREAD_MAX))
        return diag_fail(diag, FFN_BAD_ARGUMENT, "ms %g, spread %g: they must be 0.000001 .. %.0f and 0 .. %.0f",
                         record->ms, record->spread, MS_MAX, SPREAD_MAX);
    text_fixed_format(record->threads, 0, numbers[0]);
    text_fixed_format((int64_t)nearbyint(record->ms * UNIT), DECIMALS, numbers[1]);
    text_fixed_format((int64_t)nearbyint(record->spread * UNIT), DECIMALS, numbers[2]);
    const char *const values[FIELDS] = {
        spec, plan, numbers[0], numbers[1], numbers[2], record->machine, record->llvm, record->generator};
    char made[TUNED_LINE_BYTES], taken[TUNED_NAME_BYTES];
    size_t used = 0;
    for (int i = 0; i < FIELDS; i++) {
        ffn_diag detail;
        if (i >= 5 && take_text(values[i], taken, &detail))
            return diag_fail(diag, FFN_BAD_ARGUMENT, "%s: %s", names[i], detail.text);
        if (!put(made, &used, i, values[i]))
            return diag_fail(diag, FFN_BAD_ARGUMENT, "the record of %.60s is too long for a line", spec);
    }
    memcpy(line, made, used + 1);
    return FFN_OK;
}
