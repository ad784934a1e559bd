/* diag.c: the details of a failure -> the caller's ffn_diag
 *
 * Invariant: the text is always terminated and one line of printable bytes. A text that is too long ends in "...". */
#include "diag.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void diag_printable(char *text) {
    unsigned char before = 0;
    for (char *c = text; *c; c++) {
        unsigned char own = (unsigned char)*c;
        if (own < 0x20 || own == 0x7f || (before == 0xc2 && own < 0xa0)) /* the last: UTF-8 for 0x80 to 0x9f */
            *c = '?';
        before = own;
    }
}

ffn_status diag_fail(ffn_diag *diag, ffn_status status, const char *format, ...) {
    if (!diag)
        return status;
    char text[FFN_DIAG_BYTES]; /* not diag->text at once: an argument may be the text of the failure being reworded */
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (length < 0)
        text[0] = '\0';
    else if ((size_t)length >= sizeof text)
        memcpy(text + sizeof text - 4, "...", 4);
    diag_printable(text);
    diag->status = status;
    memcpy(diag->text, text, sizeof text);
    return status;
}

enum { NEAR_BYTES_MAX = 48, NEAR_NAMES_MAX = 3 };

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Edit distance, a swap of neighbours counting once, case and '_' against '-' not at all. Both words are at most
 * NEAR_BYTES_MAX long. */
static size_t edit_distance(const char *a, size_t a_length, const char *b, size_t b_length) {
    size_t rows[3][NEAR_BYTES_MAX + 1];
    size_t *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= b_length; j++)
        last[j] = j;
    memcpy(before, last, sizeof rows[0]);
    for (size_t i = 1; i <= a_length; i++) {
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            char x = lower(a[i - 1]), y = lower(b[j - 1]);
            bool same = x == y || (x == '_' && y == '-') || (x == '-' && y == '_');
            size_t best = last[j - 1] + !same;
            if (last[j] + 1 < best)
                best = last[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            if (i > 1 && j > 1 && x == lower(b[j - 2]) && lower(a[i - 2]) == y && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            row[j] = best;
        }
        size_t *spare = before;
        before = last;
        last = row;
        row = spare;
    }
    return last[b_length];
}

void diag_near_names(const char *word, const char *(*name_at)(size_t i), char *text, size_t text_bytes) {
    if (text_bytes == 0)
        return;
    text[0] = '\0';
    size_t word_length = strlen(word);
    if (word_length == 0 || word_length > NEAR_BYTES_MAX)
        return;

    /* The nearest few, nearest first; of equals the one listed first. A third of the word may be wrong; a name that
     * the word begins counts as near, however much is missing; what is much farther than the nearest is noise. */
    struct {
        const char *name;
        size_t distance;
    } near[NEAR_NAMES_MAX];
    size_t count = 0, limit = word_length / 3 + 1;
    const char *name;
    for (size_t i = 0; (name = name_at(i)) != NULL; i++) {
        size_t length = strlen(name);
        if (length > NEAR_BYTES_MAX)
            continue;
        size_t distance = edit_distance(word, word_length, name, length);
        if (distance > limit && word_length >= 3 && strncmp(word, name, word_length) == 0)
            distance = limit;
        if (distance > limit || distance >= length)
            continue;
        size_t at = count;
        while (at > 0 && near[at - 1].distance > distance)
            at--;
        if (at == NEAR_NAMES_MAX)
            continue;
        count += count < NEAR_NAMES_MAX;
        for (size_t j = count - 1; j > at; j--)
            near[j] = near[j - 1];
        near[at].name = name;
        near[at].distance = distance;
    }

    while (count > 1 && near[count - 1].distance > near[0].distance + 1)
        count--;

    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        const char *before = i == 0 ? ": did you mean " : ", ";
        const char *after = i + 1 == count ? "?" : "";
        int length = snprintf(text + used, text_bytes - used, "%s%s%s", before, near[i].name, after);
        if (length < 0 || (size_t)length >= text_bytes - used)
            return;
        used += (size_t)length;
    }
}
