/* emit_asm_macro.c: functions that differ in a few operands -> a macro that holds their text once (emit_asm.h)
 *
 * A sweep over one matrix is that over the other with other callees; a tile of one class may be that of another with
 * other distances. The assembler writes them out again: the code is the same byte by byte. */
#include <stdlib.h>
#include <string.h>

#include "emit_asm.h"

#define LINES_MIN 24 /* shorter ones gain less than a macro costs */

/* A line of the leader's body, and how much of its start and end all members have. */
typedef struct macro_line {
    emit_slice text;
    size_t start, end;
} macro_line;

static emit_slice line_at(const char **at, const char *end) {
    const char *stop = memchr(*at, '\n', (size_t)(end - *at));
    const emit_slice line = {*at, (size_t)((stop ? stop : end) - *at)};
    *at = stop ? stop + 1 : end;
    return line;
}

static size_t lines_of(const text *body) {
    size_t count = 0;
    for (size_t i = 0; i < body->bytes; i++)
        count += body->data[i] == '\n';
    return count;
}

/* Part of a name or a number; "expand" and "tile" of "expand_tile" are two unless `whole`. */
static bool is_word(char c, bool whole) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           (whole && c == '_');
}

/* A word, or a number with its sign. */
static bool is_argument(emit_slice middle, bool whole) {
    for (size_t i = 0; i < middle.bytes; i++)
        if (!is_word(middle.at[i], whole) && (i || middle.at[i] != '-'))
            return false;
    return middle.bytes > 0;
}

static bool cut(macro_line *line, emit_slice other, bool whole) {
    const emit_slice own = line->text;
    const size_t shorter = own.bytes < other.bytes ? own.bytes : other.bytes;
    size_t start = 0, end = 0;
    while (start < shorter && start < line->start && own.at[start] == other.at[start])
        start++;
    while (start > 0 && (is_word(own.at[start - 1], whole) || own.at[start - 1] == '-'))
        start--;
    while (end < shorter - start && end < line->end && own.at[own.bytes - 1 - end] == other.at[other.bytes - 1 - end])
        end++;
    while (end > 0 && is_word(own.at[own.bytes - end], whole))
        end--;
    if (start == 0 || start + end >= shorter) /* the mnemonic, or nothing in one of them */
        return false;
    const emit_slice mine = {own.at + start, own.bytes - start - end},
                     its = {other.at + start, other.bytes - start - end};
    if (!is_argument(mine, whole) || !is_argument(its, whole))
        return false;
    line->start = start;
    line->end = end;
    return true;
}

/* Cuts the start and the end that a line shares with the leader's down to what the other one has as well. False where
 * more than one word is different. */
static bool narrow(macro_line *line, emit_slice other) {
    const emit_slice own = line->text;
    if (own.bytes == other.bytes && (own.bytes == 0 || !memcmp(own.at, other.at, own.bytes)))
        return true;
    return cut(line, other, false) || cut(line, other, true);
}

/* ---- A group: a leader, and those that are like it ---- */

typedef struct group {
    const emit_slice *const *lines; /* of every function */
    size_t *members, member_count;
    macro_line *shared, *trial; /* by line */
    size_t line_count;
    size_t parameters[EMIT_PARAMETERS_MAX], parameter_count; /* lines whose middles are parameters */
} group;

static emit_slice middle(const group *g, size_t member, size_t line) {
    const emit_slice whole = g->lines[g->members[member]][line];
    const macro_line *shared = &g->shared[line];
    return (emit_slice){whole.at + shared->start, whole.bytes - shared->start - shared->end};
}

static bool is_shared(const macro_line *line) {
    return line->start + line->end >= line->text.bytes;
}

/* The parameter that has these values in all members; `parameter_count` if none has. */
static size_t parameter_of(const group *g, size_t line) {
    for (size_t p = 0; p < g->parameter_count; p++) {
        bool same = true;
        for (size_t m = 0; m < g->member_count && same; m++) {
            const emit_slice a = middle(g, m, line), b = middle(g, m, g->parameters[p]);
            same = a.bytes == b.bytes && (a.bytes == 0 || !memcmp(a.at, b.at, a.bytes));
        }
        if (same)
            return p;
    }
    return g->parameter_count;
}

static bool find_parameters(group *g) {
    g->parameter_count = 0;
    for (size_t i = 0; i < g->line_count; i++) {
        if (is_shared(&g->shared[i]) || parameter_of(g, i) < g->parameter_count)
            continue;
        if (g->parameter_count == EMIT_PARAMETERS_MAX)
            return false;
        g->parameters[g->parameter_count++] = i;
    }
    return true;
}

/* Takes the function into the group if it is like the leader; leaves the group as it was if not. */
static void try_member(group *g, size_t function) {
    const size_t bytes = g->line_count * sizeof *g->shared;
    memcpy(g->trial, g->shared, bytes);
    for (size_t i = 0; i < g->line_count; i++)
        if (!narrow(&g->shared[i], g->lines[function][i])) {
            memcpy(g->shared, g->trial, bytes);
            return;
        }
    g->members[g->member_count++] = function;
    if (find_parameters(g))
        return;
    g->member_count--;
    memcpy(g->shared, g->trial, bytes);
    find_parameters(g);
}

static void write_macro(const group *g, emit_folded *unit, emit_macro *macro) {
    macro->parameter_count = g->parameter_count;
    for (size_t i = 0; i < g->line_count; i++) {
        const macro_line *line = &g->shared[i];
        if (is_shared(line)) {
            text_add(&macro->body, line->text.at, line->text.bytes);
        } else {
            text_add(&macro->body, line->text.at, line->start);
            text_print(&macro->body, "\\%c", 'a' + (int)parameter_of(g, i));
            const char *rest = line->text.at + line->text.bytes - line->end;
            if (line->end && is_word(*rest, true))
                text_put(&macro->body, "\\()"); /* ends the name of the parameter */
            text_add(&macro->body, rest, line->end);
        }
        text_put(&macro->body, "\n");
    }
    for (size_t m = 0; m < g->member_count; m++) {
        emit_function *f = &unit->functions[g->members[m]];
        f->macro = unit->macro_count; /* of which this one is the last */
        for (size_t p = 0; p < g->parameter_count; p++) {
            const emit_slice value = middle(g, m, g->parameters[p]);
            text_put(&f->arguments, p ? "," : " ");
            text_add(&f->arguments, value.at, value.bytes);
        }
    }
}

static void find_group(group *g, size_t leader, const size_t *counts, emit_folded *unit) {
    g->members[0] = leader;
    g->member_count = 1;
    g->parameter_count = 0;
    g->line_count = counts[leader];
    for (size_t i = 0; i < g->line_count; i++)
        g->shared[i] = (macro_line){g->lines[leader][i], g->lines[leader][i].bytes, g->lines[leader][i].bytes};
    for (size_t f = leader + 1; f < unit->function_count; f++)
        if (!unit->functions[f].macro && counts[f] == g->line_count)
            try_member(g, f);
    if (g->member_count > 1)
        write_macro(g, unit, &unit->macros[unit->macro_count++]);
}

bool emit_fold_macros(emit_folded *unit) {
    const size_t count = unit->function_count;
    size_t total = 0, most = 0;
    size_t *counts = calloc(2 * count + 1, sizeof *counts);
    const emit_slice **lines = calloc(count + 1, sizeof *lines);
    for (size_t f = 0; counts && f < count; f++) {
        counts[f] = lines_of(&unit->functions[f].body);
        total += counts[f];
        most = counts[f] > most ? counts[f] : most;
    }
    emit_slice *all = calloc(total + 1, sizeof *all);
    group g = {.lines = lines,
               .members = counts ? counts + count : NULL,
               .shared = calloc(most + 1, sizeof *g.shared),
               .trial = calloc(most + 1, sizeof *g.trial)};
    unit->macros = calloc(count + 1, sizeof *unit->macros);
    const bool room = counts && lines && all && g.shared && g.trial && unit->macros;
    for (size_t f = 0, next = 0; room && f < count; next += counts[f++]) {
        const char *at = unit->functions[f].body.data;
        lines[f] = all + next;
        for (size_t i = 0; i < counts[f]; i++)
            all[next + i] = line_at(&at, unit->functions[f].body.data + unit->functions[f].body.bytes);
    }
    for (size_t f = 0; room && f < count; f++)
        if (!unit->functions[f].macro && counts[f] >= LINES_MIN)
            find_group(&g, f, counts, unit);
    free(counts);
    free(lines);
    free(all);
    free(g.shared);
    free(g.trial);
    return room;
}
